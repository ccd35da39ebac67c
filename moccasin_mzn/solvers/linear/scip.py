"""SCIP, which is part of OR-Tools, as an engine; OR-Tools' GLOP for its relaxations."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.solvers.linear.engine import Ending, EngineError, RowWeights, Settings, SolutionListener
from moccasin_mzn.solvers.linear.program import LinearProgram

if TYPE_CHECKING:
    from ortools.math_opt import (
        callback_pb2,
        model_parameters_pb2,
        model_pb2,
        parameters_pb2,
        result_pb2,
        sparse_containers_pb2,
    )


def solve(program: LinearProgram, settings: Settings, listener: SolutionListener) -> Ending:
    """An `Engine`. SCIP reports improving solutions, and a bound at each node; it uses one thread whatever is asked
    for, and follows no search annotation."""
    from ortools.math_opt import parameters_pb2

    parameters = _parameters(settings)
    try:
        with _Complaint(settings.log) as complaint:
            result = _solve(
                program, parameters_pb2.SOLVER_TYPE_GSCIP, parameters, _start(settings), complaint.log, _registration(),
                lambda event: _report(event, program.columns, listener),
            )  # fmt: skip
    except Exception as error:
        if "SCIPsolve" in str(error):  # it fell into an error while it solved
            return Ending("failed")
        raise EngineError(f"SCIP: {str(error).splitlines()[0]}") from None
    return _ending(result, program)


def relax(program: LinearProgram, settings: Settings) -> RowWeights:
    """A `Relaxer`. GLOP gives duals, and no ray of an infeasible program."""
    from ortools.math_opt import callback_pb2, parameters_pb2

    parameters = parameters_pb2.SolveParametersProto(threads=1)
    _limit(parameters, settings.seconds)
    relaxed = replace(program, is_integer=np.zeros(program.columns, dtype=bool))
    try:
        result = _solve(
            relaxed, parameters_pb2.SOLVER_TYPE_GLOP, parameters, _start(Settings()), None,
            callback_pb2.CallbackRegistrationProto(), None,
        )  # fmt: skip
    except Exception:  # whatever the error is, there is no bound
        return RowWeights()
    if not result.solutions:
        return RowWeights()
    return RowWeights(_dense(result.solutions[0].dual_solution.dual_values, program.rows))


def _solve(
    program: LinearProgram,
    kind: int,
    parameters: object,
    start: object,
    log: object,
    registration: object,
    callback: object,
) -> result_pb2.SolveResultProto:
    from ortools.math_opt import parameters_pb2
    from ortools.math_opt.core.python import solver

    # no interrupter: OR-Tools 9.15 asks SCIP for an event that it does not have, and nothing stops
    initial = parameters_pb2.SolverInitializerProto()
    return solver.solve(_model(program), kind, initial, parameters, start, log, registration, callback, None)


def _limit(parameters: parameters_pb2.SolveParametersProto, seconds: float | None) -> None:
    if seconds is not None:
        parameters.time_limit.FromNanoseconds(int(max(seconds, 0.0) * 1e9))


def _model(program: LinearProgram) -> model_pb2.ModelProto:
    from ortools.math_opt import model_pb2

    model = model_pb2.ModelProto()
    variables, constraints, matrix = model.variables, model.linear_constraints, model.linear_constraint_matrix
    variables.ids.extend(range(program.columns))
    variables.lower_bounds.extend(program.lower)
    variables.upper_bounds.extend(program.upper)
    variables.integers.extend(program.is_integer)
    costs = np.flatnonzero(program.objective)
    model.objective.maximize = program.maximize
    model.objective.offset = program.objective_offset
    model.objective.linear_coefficients.ids.extend(costs)
    model.objective.linear_coefficients.values.extend(program.objective[costs])
    constraints.ids.extend(range(program.rows))
    constraints.lower_bounds.extend(program.row_lower)
    constraints.upper_bounds.extend(program.row_upper)
    matrix.row_ids.extend(program.entry_row)
    matrix.column_ids.extend(program.row_column)
    matrix.coefficients.extend(program.row_coefficient)
    return model


def _parameters(settings: Settings) -> parameters_pb2.SolveParametersProto:
    from google.protobuf import text_format
    from ortools.math_opt import parameters_pb2

    parameters = parameters_pb2.SolveParametersProto(threads=1, relative_gap_tolerance=0.0)
    parameters.absolute_gap_tolerance = settings.gap
    if not settings.presolve:
        parameters.presolve = parameters_pb2.EMPHASIS_OFF
    _limit(parameters, settings.seconds)
    if settings.seed is not None:
        parameters.random_seed = settings.seed % 2**31
    parameters.gscip.real_params["numerics/feastol"] = settings.tolerance
    try:
        text_format.Merge(settings.parameters, parameters.gscip)
    except text_format.ParseError as error:
        raise EngineError(f"--params: SCIP does not understand {settings.parameters!r}: {error}") from None
    return parameters


def _start(settings: Settings) -> model_parameters_pb2.ModelSolveParametersProto:
    from ortools.math_opt import model_parameters_pb2

    parameters = model_parameters_pb2.ModelSolveParametersProto()
    if settings.start:
        hint = parameters.solution_hints.add().variable_values
        hint.ids.extend(sorted(settings.start))
        hint.values.extend(settings.start[column] for column in hint.ids)
    return parameters


def _registration() -> callback_pb2.CallbackRegistrationProto:
    from ortools.math_opt import callback_pb2

    events = [callback_pb2.CALLBACK_EVENT_MIP_SOLUTION, callback_pb2.CALLBACK_EVENT_MIP_NODE]
    registration = callback_pb2.CallbackRegistrationProto(request_registration=events)
    registration.mip_node_filter.filter_by_ids = True  # by none: the values of relaxations are of no use
    return registration


def _report(
    event: callback_pb2.CallbackDataProto, columns: int, listener: SolutionListener
) -> callback_pb2.CallbackResultProto:
    from ortools.math_opt import callback_pb2

    listener.progress(event.mip_stats.dual_bound, event.mip_stats.explored_nodes)
    if event.event == callback_pb2.CALLBACK_EVENT_MIP_SOLUTION:
        listener.solution(_dense(event.primal_solution_vector, columns))
    return callback_pb2.CallbackResultProto()


def _ending(result: result_pb2.SolveResultProto, program: LinearProgram) -> Ending:
    from ortools.math_opt import result_pb2

    ended = {
        result_pb2.TERMINATION_REASON_OPTIMAL: "optimal",
        result_pb2.TERMINATION_REASON_INFEASIBLE: "infeasible",
        result_pb2.TERMINATION_REASON_UNBOUNDED: "unbounded",
        result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED: "undecided",
        result_pb2.TERMINATION_REASON_NUMERICAL_ERROR: "failed",
        result_pb2.TERMINATION_REASON_OTHER_ERROR: "failed",
    }.get(result.termination.reason, "stopped")
    values = None
    if result.solutions:
        values = _dense(result.solutions[0].primal_solution.variable_values, program.columns)
    return Ending(ended, values, result.termination.objective_bounds.dual_bound, result.solve_stats.node_count)


def _dense(vector: sparse_containers_pb2.SparseDoubleVectorProto, columns: int) -> np.ndarray:
    values = np.zeros(columns)
    values[list(vector.ids)] = vector.values
    return values


class _Complaint:
    """Keeps one complaint off stderr, which SCIP writes there from C before its presolve: OR-Tools 9.15 asks it for an
    event that it does not have. With a log that people look at, everything is left as it is."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        self._log = log
        self._stderr: int | None = None

    def __enter__(self) -> _Complaint:
        if self._log is None:
            try:
                self._stderr = os.dup(2)
            except OSError:  # there is no stderr
                return self
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        return self

    def log(self, lines: list[str]) -> None:
        """Takes the log."""
        for line in lines:
            if line.startswith("presolving"):
                self.__exit__()
            if self._log:
                self._log(line)

    def __exit__(self, *_: object) -> None:
        if self._stderr is not None:
            os.dup2(self._stderr, 2)
            os.close(self._stderr)
            self._stderr = None
