"""HiGHS as an engine, and the linear relaxations that it solves."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.engine import Ending, EngineError, RowWeights, Settings, SolutionListener
from moccasin_mzn.solvers.linear.program import LinearProgram

if TYPE_CHECKING:
    import highspy


_ROWWISE = 2


def load(program: LinearProgram, *, integer: bool) -> highspy.Highs:
    """The program as HiGHS holds it, silent; without integrality unless `integer`.

    Raises `FlatZincError` if HiGHS refuses it, as it does with coefficients from 1e15 on.
    """
    import highspy

    with _silenced():
        highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    kinds = program.is_integer if integer else np.zeros(program.columns, dtype=bool)
    sense = highspy.ObjSense.kMaximize if program.maximize else highspy.ObjSense.kMinimize
    status = highs.passModel(
        program.columns, program.rows, len(program.row_column), _ROWWISE, int(sense), program.objective_offset,
        program.objective, program.lower, program.upper, program.row_lower, program.row_upper,
        program.row_start[:-1].astype(np.int32), program.row_column.astype(np.int32), program.row_coefficient,
        kinds.astype(np.int32),
    )  # fmt: skip
    if status == highspy.HighsStatus.kError:
        raise FlatZincError("HiGHS refuses the program: its numbers are too large")
    return highs


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Let nothing that compiled code prints meanwhile arrive on stdout, where solvers answer.

    HiGHS 1.16 prints two lines when the first program of a process is made, before it can be asked not to.
    """
    if sys.stdout is None:  # closed from the start
        yield
        return
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    stdout = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
        flush(None)
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


# --- The linear relaxation: a linear program without integrality, solved by HiGHS -----------------------------


@dataclass(frozen=True, eq=False)
class Relaxation:
    """How a relaxation ended. `objective`, `values` (by column) and `duals` (by row) are None unless it is "optimal".

    The objective of a minimum is a lower bound on that of every integer solution, up to the tolerances of a simplex
    method in floating point (1e-7 for each bound, row and reduced cost).
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


# --- HiGHS as an engine ---------------------------------------------------------------------------------------


COMPLETION_SECONDS = 10.0
"""The longest search for the values that a start lacks; a fifth of the time limit if that is less."""

LARGEST_PRESOLVED = 1e10
"""With larger coefficients in rows, the presolve of HiGHS 1.15 has divided by zero, which kills the process: common
divisors are sought in 64 bits."""


def solve(program: LinearProgram, settings: Settings, listener: SolutionListener) -> Ending:
    """An `Engine`. HiGHS reports improving solutions and bounds, keeps the time limit to some tenths of a second, and
    follows no search annotation."""
    import highspy

    begun = time.monotonic()
    if np.abs(program.row_coefficient).max(initial=0.0) > LARGEST_PRESOLVED:
        settings = replace(settings, presolve=False)
    start = _complete(program, settings) if settings.start else None
    highs = load(program, integer=True)
    _configure(highs, settings)
    if settings.seconds is not None:
        highs.setOptionValue("time_limit", max(settings.seconds - (time.monotonic() - begun), 0.0))
    if start is not None:
        listener.solution(start)
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)
    _listen(highs, settings, listener)
    highs.run()
    return _ending(highs, program)


def relax(program: LinearProgram, settings: Settings) -> RowWeights:
    """A `Relaxer`."""
    relaxation = solve_relaxation(program, settings.seconds)
    return RowWeights(relaxation.duals, relaxation.ray)


def _complete(program: LinearProgram, settings: Settings) -> np.ndarray | None:
    """The best solution, as far as a short search finds it, with the values of the start; None if it finds none.

    HiGHS would do the same by itself, but with bounds reported on the way that hold for such solutions only, and
    without a limit on time.
    """
    columns, values = list(settings.start), list(settings.start.values())
    lower, upper = program.lower.copy(), program.upper.copy()
    lower[columns] = upper[columns] = values
    seconds = COMPLETION_SECONDS if settings.seconds is None else min(COMPLETION_SECONDS, settings.seconds / 5)
    highs = load(replace(program, lower=lower, upper=upper), integer=True)
    _configure(highs, replace(settings, seconds=seconds, log=None))
    highs.run()
    return _ending(highs, program).values


def _ending(highs: highspy.Highs, program: LinearProgram) -> Ending:
    import highspy

    info, status = highs.getInfo(), highs.getModelStatus()
    kinds = highspy.HighsModelStatus
    ended = {
        kinds.kOptimal: "optimal",
        kinds.kInfeasible: "infeasible",
        kinds.kUnbounded: "unbounded",
        kinds.kUnboundedOrInfeasible: "undecided",
        kinds.kSolveError: "failed",
    }.get(status, "stopped")
    values = None
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if feasible and ended in ("optimal", "stopped"):
        values = np.array(highs.getSolution().col_value, dtype=float)
    is_integer = bool(program.is_integer.any())  # or HiGHS has solved a linear program, without a bound
    bound = info.mip_dual_bound if is_integer else info.objective_function_value if ended == "optimal" else math.nan
    return Ending(ended, values, bound, max(info.mip_node_count, 0))


def _configure(highs: highspy.Highs, settings: Settings) -> None:
    options = {
        "mip_rel_gap": 0.0,
        "mip_abs_gap": settings.gap,
        "presolve": "choose" if settings.presolve else "off",
        "mip_feasibility_tolerance": settings.tolerance,
        "primal_feasibility_tolerance": settings.tolerance,
        "threads": settings.threads or os.cpu_count() or 1,
    }
    if settings.seed is not None:
        options["random_seed"] = settings.seed % 2**31
    if settings.seconds is not None:
        options["time_limit"] = max(settings.seconds, 0.0)
    if settings.log:
        options |= {"output_flag": True, "log_to_console": False}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    for word in settings.parameters.split():
        name, _, value = word.partition("=")
        _set_parameter(highs, name, value)
    highs.resetGlobalScheduler(True)  # or HiGHS refuses another number of threads than in an earlier run


def _set_parameter(highs: highspy.Highs, name: str, text: str) -> None:
    """Set an option to a value that is given as text, as in `mip_heuristic_effort=0.1`."""
    import highspy

    status, kind = highs.getOptionType(name)
    words = {"true": True, "false": False, "on": True, "off": False}
    try:
        if status != highspy.HighsStatus.kOk:
            raise ValueError
        kinds = highspy.HighsOptionType
        read: dict[object, Callable[[str], bool | int | float | str]] = {
            kinds.kBool: lambda text: words[text.lower()],
            kinds.kInt: int,
            kinds.kDouble: float,
            kinds.kString: str,
        }
        if highs.setOptionValue(name, read[kind](text)) != highspy.HighsStatus.kOk:
            raise ValueError
    except (ValueError, KeyError):
        raise EngineError(f"--params: HiGHS does not understand {name}={text}") from None


def _listen(highs: highspy.Highs, settings: Settings, listener: SolutionListener) -> None:
    def improved(event: highspy.HighsCallbackEvent) -> None:
        listener.solution(np.array(event.data_out.mip_solution, dtype=float))

    def went_on(event: highspy.HighsCallbackEvent) -> None:
        listener.progress(event.data_out.mip_dual_bound, max(event.data_out.mip_node_count, 0))

    highs.cbMipImprovingSolution.subscribe(improved)
    highs.cbMipInterrupt.subscribe(went_on)
    if settings.log:
        log = settings.log
        highs.cbLogging.subscribe(lambda event: log(event.message.rstrip("\n")))
