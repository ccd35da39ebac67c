"""The linear relaxation of a 0-1 program: GLOP of OR-Tools solves it in doubles, exact integers say what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.clock import Deadline, halting
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.solvers.program import YES, Program

_BITS = 60
"""Binary places of a row's multiplier."""


@dataclass(frozen=True, eq=False)
class Halves:
    """A solution in which what is true and what is false may be so in part."""

    values: Array
    """float64, by column, from 0 to 1."""
    bound: int
    """No solution of the program costs less."""
    prices: Array
    """float64, 0 or more: what the cost falls by with one unit more, by row of `rows`."""


def rows(program: Program) -> list[tuple[dict[int, int], int]]:
    """Clauses, then capacities, as sums that are at most a number.

    What holds on a condition gets a weight for it that makes it hold of whole numbers.
    """
    found: list[tuple[dict[int, int], int]] = []
    for columns, premise in program.clauses:
        row = dict.fromkeys(columns, -1)
        if premise is not None:
            row[premise] = row.get(premise, 0) + 1
        found.append((row, -1 if premise is None else 0))
    for capacity in program.capacities:
        row, most = dict(zip(capacity.columns, capacity.weights, strict=True)), capacity.most
        if capacity.when != YES:
            slack = sum(weight for weight in capacity.weights if weight > 0) - most
            row[capacity.when] = row.get(capacity.when, 0) + slack
            most += slack
        found.append((row, most))
    return found


def relax(program: Program, seconds: float, stop: Callable[[], bool] = lambda: False) -> Halves | None:
    """Solve the linear relaxation; None if it has no solution, or is not solved in this time or until `stop`."""
    from ortools.linear_solver.python import model_builder_helper as helper

    listed, unit = rows(program), float(max(program.cost, default=0) or 1)
    model = helper.ModelBuilderHelper()
    for cost in program.cost:
        column = model.add_var()
        model.set_var_lower_bound(column, 0.0)
        model.set_var_upper_bound(column, 1.0)
        model.set_var_objective_coefficient(column, cost / unit)
    scales = [max(map(abs, row.values()), default=1) or 1 for row, _ in listed]
    for (row, most), scale in zip(listed, scales, strict=True):
        index = model.add_linear_constraint()
        model.set_constraint_lower_bound(index, -np.inf)
        model.set_constraint_upper_bound(index, most / scale)
        for column, weight in row.items():
            model.add_term_to_constraint(index, column, weight / scale)
    solver = helper.ModelSolverHelper("GLOP")
    solver.set_time_limit_in_seconds(max(0.01, seconds))
    with halting(stop, solver.interrupt_solve):
        solver.solve(model)
    if solver.status() != helper.SolveStatus.OPTIMAL:
        return None
    prices = np.maximum(0.0, -np.array(solver.dual_values())) * unit / np.array(scales, float)
    return Halves(np.array(solver.variable_values()), _proven(program, listed, prices), prices)


class Warm:
    """The linear relaxation for solving it again and again, each time from the solution before; in doubles alone."""

    def __init__(self, program: Program, deadline: Deadline, stop: Callable[[], bool]) -> None:
        from ortools.linear_solver import pywraplp

        self._deadline, self._stop, self._unit = deadline, stop, float(max(program.cost, default=0) or 1)
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        solver.SetSolverSpecificParametersAsString("use_dual_simplex: true use_preprocessing: false")
        self._columns = [solver.NumVar(0.0, 1.0, "") for _ in program.cost]
        for row, most in rows(program):
            scale = max(map(abs, row.values()), default=1) or 1
            constraint = solver.Constraint(-solver.infinity(), most / scale)
            for column, weight in row.items():
                constraint.SetCoefficient(self._columns[column], weight / scale)
        objective = solver.Objective()
        for variable, cost in zip(self._columns, program.cost, strict=True):
            objective.SetCoefficient(variable, cost / self._unit)
        objective.SetMinimization()

    def solve(self, column: int | None = None, side: int = 0) -> float | None:
        """The least cost, with a column on that side if one is named; None: no solution, or none in time."""
        if column is not None:
            self._columns[column].SetBounds(side, side)
        if (remaining := self._deadline.remaining()) is not None:
            self._solver.SetTimeLimit(max(1, int(1000 * remaining)))
        with halting(self._stop, self._solver.InterruptSolve):
            status = self._solver.Solve()
        cost = self._solver.Objective().Value() * self._unit if status == self._solver.OPTIMAL else None
        if column is not None:
            self._columns[column].SetBounds(0.0, 1.0)  # from now on the solver tells of no solution
        return cost

    def value(self, column: int) -> float:
        """By what part it is true, in the solution that was asked for last, with no column named."""
        return self._columns[column].solution_value()


def _proven(program: Program, listed: list[tuple[dict[int, int], int]], prices: Array) -> int:
    """sum of c x >= sum of min(0, c + y A) - y b for all y >= 0, in integers; rounded up."""
    reduced, value = [cost << _BITS for cost in program.cost], 0
    for (row, most), price in zip(listed, prices.tolist(), strict=True):
        factor = int(math.ldexp(price, _BITS))
        if factor:
            value -= factor * most
            for column, weight in row.items():
                reduced[column] += factor * weight
    value += sum(min(0, cost) for cost in reduced)
    return max(program.least_cost, -(-value >> _BITS))
