"""Running the FlatZinc solver from tests, inside this process or as MiniZinc does."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from moccasin_mzn.solvers.cpsat.run import run
from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.flatzinc.execution import parse_options
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "moccasin_mzn.solvers.cpsat"]


class NeverStop:
    """A stop flag that no signal sets."""

    requested = False
    armed = False


def solve(text: str, *flags: str) -> str:
    """What the solver prints for a FlatZinc text, run in this process."""
    with tempfile.NamedTemporaryFile("w", suffix=".fzn") as file:
        file.write(text)
        file.flush()
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(errors):
            status = run(parse_options([*flags, file.name]), NeverStop())
    if status:
        raise RuntimeError(errors.getvalue())
    return out.getvalue()


def solutions(text: str, *flags: str) -> list[dict[str, object]]:
    """All solutions of a satisfaction problem, each output item as a Python value; repeats are kept."""
    out = solve(text, "-a", *flags)
    assert out.endswith("==========\n") or out == "=====UNSATISFIABLE=====\n", out
    return [_values(block) for block in out.split("----------\n")[:-1]]


def _values(block: str) -> dict[str, object]:
    values = {}
    for line in block.splitlines():
        name, _, value = line.rstrip(";").partition(" = ")
        value = re.sub(r"array\d+d\(.*(\[.*\])\)", r"\1", value)
        values[name] = json.loads(value)
    return values


def flatzinc(constraint: str, declarations: dict[str, str]) -> str:
    """A file with the variables, all of them output, and one constraint."""
    lines = [f"var {kind}: {name} :: output_var;" for name, kind in declarations.items()]
    return "\n".join([*lines, f"constraint {constraint};" if constraint else "", "solve satisfy;", ""])


def domain(kind: str) -> list:
    """The values of a FlatZinc type."""
    if kind == "bool":
        return [False, True]
    if kind.startswith("{"):
        return json.loads("[" + kind[1:-1] + "]")
    low, high = map(int, kind.split(".."))
    return list(range(low, high + 1))


def assignments(declarations: dict[str, str]) -> list[dict[str, object]]:
    """All combinations of values of the variables."""
    combinations = itertools.product(*map(domain, declarations.values()))
    return [dict(zip(declarations, values, strict=False)) for values in combinations]


def check_against(constraint: str, declarations: dict[str, str], holds) -> None:
    """The solutions of a constraint are exactly the assignments for which `holds(**assignment)` is true, each once."""
    expected = [assignment for assignment in assignments(declarations) if holds(**assignment)]
    found = solutions(flatzinc(constraint, declarations))
    key = lambda solution: tuple(solution.values())  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, expected)), constraint


def minizinc(*arguments: object, **options) -> subprocess.CompletedProcess:
    """Run native MiniZinc with the solver configuration of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        write_configuration(Path(folder), CP_SAT.configuration())
        environment = {**ENVIRONMENT, "MZN_SOLVER_PATH": folder}
        command = ["minizinc", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **options)


def compile_model(model: str, folder: Path) -> str:
    """FlatZinc of a MiniZinc model for our solver."""
    source, target = folder / "model.mzn", folder / "model.fzn"
    source.write_text(model)
    result = minizinc("-c", "--solver", "cp-sat", source, "--fzn", target, "--no-output-ozn")
    assert result.returncode == 0, result.stderr
    return target.read_text()
