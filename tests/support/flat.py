"""Models solved with fewer processes around them: MiniZinc compiles, and the solver gets what it has compiled.

A fraction of the time of `solve`, for checks on hundreds of graphs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from moccasin_mzn.formulations import Formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.cpsat.builder import Solver, Status
from moccasin_mzn.solvers.cpsat.run import evaluate
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import find_backend


def least_duration(
    form: Formulation,
    instance: Instance,
    solver: str,
    model: Path | None = None,
    incumbent: Sequence[int] | None = None,
) -> int | None:
    """The optimum of a formulation by "cp-sat" or "highs", in the graph's duration unit; None if there is no schedule.

    Args:
        model: another model file with the same data; None: the formulation's own.
        incumbent: a warm start in the data.
    """
    data = form.data(instance)
    text = dzn_text(form.data_items(instance.graph, data, incumbent))
    flat = compile_model(find_backend(solver), model or form.file, text)
    optimum = {"cp-sat": optimum_by_cp_sat, "highs": _by_highs}[solver](flat)
    return None if optimum is None else optimum * data.duration_scale


def optimum_by_cp_sat(flat: str) -> int | None:
    """The optimum of a FlatZinc text; None if there is no solution."""
    problem = translate(parse(flat), unique=False)
    solver = Solver()
    solver.parameters.num_workers = 1
    status = solver.solve(problem.builder.model)
    assert status in (Status.OPTIMAL, Status.INFEASIBLE)
    if status == Status.INFEASIBLE:
        return None
    return evaluate(problem.objective, list(solver.response.solution))


def _by_highs(flat: str) -> int | None:
    """In a process of its own: beside OR-Tools, which CP-SAT needs, highspy cannot be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.fzn"
        file.write_text(flat)
        command = [sys.executable, "-m", "moccasin_mzn.solvers.linear", "--engine", "highs", "-s", str(file)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "=====UNSATISFIABLE=====" in out:
        return None
    assert "==========" in out
    return int(re.findall(r"mzn-stat: objective=(-?\d+)", out)[-1])
