"""CP-SAT by its protocol buffers alone: `cp_model`, the modelling layer above them, loads pandas and numpy, which takes
longer than all else of a small run."""

from __future__ import annotations

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


def complaint(model: Any) -> str:
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
