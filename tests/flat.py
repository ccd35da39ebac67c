"""Models solved without the processes around them: MiniZinc compiles, CP-SAT and HiGHS run in this process.

A tenth of the time of `solve`, for checks on hundreds of graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moccasin_mzn.flatzinc.output import evaluate
from moccasin_mzn.flatzinc.parser import parse
from moccasin_mzn.flatzinc.translate import translate
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.instance import Instance
from moccasin_mzn.minizinc.compile import compile_model
from moccasin_mzn.minizinc.dzn import dzn_text
from moccasin_mzn.minizinc.solvers import find_backend


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
    data = form.presolve(instance)
    text = dzn_text(form.data_items(instance.graph, data, incumbent))
    flat = compile_model(find_backend(solver), model or form.model("duration"), text)
    optimum = {"cp-sat": _by_cp_sat, "highs": _by_highs}[solver](flat)
    return None if optimum is None else optimum * data.duration_scale


def _by_cp_sat(flat: str) -> int | None:
    from ortools.sat.python import cp_model

    problem = translate(parse(flat), unique=False)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(problem.builder.model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    if status == cp_model.INFEASIBLE:
        return None
    return evaluate(problem.objective, list(solver.response_proto.solution))


def _by_highs(flat: str) -> int | None:
    import highspy
    import numpy as np

    from moccasin_mzn.linear.program import linear_program

    program = linear_program(parse(flat))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.names), len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.objective, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.asarray(program.row_start)
    lp.a_matrix_.index_ = np.asarray(program.row_column)
    lp.a_matrix_.value_ = np.asarray(program.row_coefficient, float)
    kinds = {True: highspy.HighsVarType.kInteger, False: highspy.HighsVarType.kContinuous}
    lp.integrality_ = [kinds[bool(integer)] for integer in program.is_integer]
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5), ("threads", 1)):
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return round(solver.getObjectiveValue() + program.objective_offset)
