"""CP-SAT by its protocol buffers alone: `cp_model`, the modelling layer above them, loads pandas and numpy, which takes
longer than all else of a small run.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from ortools.sat.python import cp_model_helper as helper

CpModelProto = helper.CpModelProto
CpSolverResponse = helper.CpSolverResponse
SolutionCallback = helper.SolutionCallback
Status = helper.CpSolverStatus
Branching = helper.SatParameters.SearchBranching
VariableChoice = helper.DecisionStrategyProto.VariableSelectionStrategy
ValueChoice = helper.DecisionStrategyProto.DomainReductionStrategy


def complaint(model: object) -> str:
    """Why CP-SAT refuses a model; empty if it does not."""
    return helper.CpSatHelper.validate_model(model)


class Solver:
    """Solves models, one after the other.

    Attributes:
        parameters: a `SatParameters`.
        response: of the last model, empty before.
        on_log, on_bound: take the lines of the log, and bounds of the objective.
    """

    def __init__(self) -> None:
        self.parameters: Any = helper.SatParameters()
        self.parameters.catch_sigint_signal = False  # Ctrl-C is for the process
        self.response: Any = CpSolverResponse()
        self.on_log: Callable[[str], None] | None = None
        self.on_bound: Callable[[float], None] | None = None
        self._wrapper: Any = None
        self._lock = threading.Lock()

    def solve(self, model: Any, callback: Any = None) -> Status:
        """Search until there is a proof, a limit is reached, or another thread calls `stop`."""
        wrapper = helper.SolveWrapper()
        wrapper.set_parameters(self.parameters)
        if callback is not None:
            wrapper.add_solution_callback(callback)
        if self.on_log is not None:
            wrapper.add_log_callback(self.on_log)
        if self.on_bound is not None:
            wrapper.add_best_bound_callback(self.on_bound)
        with self._lock:
            self._wrapper = wrapper
        self.response = wrapper.solve(model)
        if callback is not None:
            wrapper.clear_solution_callback(callback)
        with self._lock:
            self._wrapper = None
        return self.response.status

    def stop(self) -> None:
        """End the search; without one, nothing happens."""
        with self._lock:
            if self._wrapper is not None:
                self._wrapper.stop_search()


# --- What CP-SAT 9.15 gets wrong where numbers are large, and how to keep out of its way ----------------------


WIDEST = 2**30
"""Coefficients whose magnitudes add up to no more are safe, also where presolve puts two constraints together."""
_LOST = 2.0**-48
"""Share of the magnitude of the objective's terms that is more than the few roundings on a bound's way can take."""


def keep_true(parameters: Any, widest: int) -> None:
    """Have CP-SAT not look for at-most-one constraints inside of linear ones if magnitudes of coefficients in one
    constraint add up to `widest`, and that is much: it adds them up in 32 bits, and then drops the condition of a
    constraint, and with it solutions (OR-Tools issue 5293).

    And have it not call optimal what is so but for a gap that it takes in doubles.
    """
    parameters.absolute_gap_limit = 0.0
    if widest > WIDEST:
        parameters.presolve_inclusion_work_limit = 0


def certain_bound(value: float, magnitude: int) -> int | None:
    """The lower bound of an objective in integers that CP-SAT tells as a double; None if there is none yet.

    Presolve shifts the objective, and the shift is undone in doubles: a bound may come out too high by what these lose
    of the shift, that is of `magnitude`, the sum of the magnitudes of the objective's terms.
    """
    if not math.isfinite(value) or abs(value) >= 2**62:
        return None
    magnitude = max(magnitude, math.ceil(abs(value)))
    return math.ceil(value) - math.floor(magnitude * _LOST) if magnitude >= 1 / _LOST else round(value)
