"""The linear relaxation: a linear program without integrality, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moccasin_mzn.solvers.linear.highs_model import load
from moccasin_mzn.solvers.linear.program import LinearProgram


@dataclass(frozen=True, eq=False)
class Relaxation:
    """How a relaxation ended. `objective`, `values` (by column) and `duals` (by row) are None unless it is "optimal".

    The objective of a minimum is a lower bound on that of every integer solution, up to the tolerances of a simplex
    method in doubles (1e-7 for each bound, row and reduced cost).
    """

    status: str
    """"optimal", "infeasible", "unbounded" or "stopped" (by the time limit or by numerical trouble)."""
    objective: float | None = None
    values: np.ndarray | None = None
    duals: np.ndarray | None = None
    ray: np.ndarray | None = None
    """Weights of rows that show, up to the tolerances, that nothing satisfies them; None unless it is "infeasible"."""


def solve_relaxation(program: LinearProgram, seconds: float | None = None) -> Relaxation:
    """Solve `program` with integrality dropped, by the dual simplex method of HiGHS, in `seconds` at most.

    Not in a process that has loaded OR-Tools, which brings a HiGHS library of its own (see `isolated`). On relaxations
    of rematerialization models it is faster than its interior point and first order methods by far, and faster
    sequentially than in parallel.
    """
    import highspy

    if not program.columns:  # HiGHS does not like that
        holds = bool(np.all((program.row_lower <= 0) & (program.row_upper >= 0)))
        return Relaxation("optimal", program.objective_offset, np.zeros(0)) if holds else Relaxation("infeasible")
    highs = load(program, integer=False)
    highs.setOptionValue("solver", "simplex")
    highs.setOptionValue("parallel", "off")
    highs.setOptionValue("threads", 1)
    if seconds is not None:
        highs.setOptionValue("time_limit", max(seconds, 0.0))
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kUnboundedOrInfeasible:  # presolve does not know which
        highs.setOptionValue("presolve", "off")
        highs.run()
        status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        solution = highs.getSolution()
        values, duals = (np.array(array, dtype=float) for array in (solution.col_value, solution.row_dual))
        return Relaxation("optimal", highs.getInfo().objective_function_value, values, duals)
    if status == highspy.HighsModelStatus.kInfeasible:
        _, found, ray = highs.getDualRay()  # type: ignore[attr-defined]  # not in its types
        return Relaxation("infeasible", ray=np.array(ray, dtype=float) if found else None)
    if status == highspy.HighsModelStatus.kUnbounded:
        return Relaxation("unbounded")
    return Relaxation("stopped")
