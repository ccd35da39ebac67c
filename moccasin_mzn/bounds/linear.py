"""The linear relaxation of a 0-1 program: GLOP of OR-Tools solves it in doubles, exact integers say what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.clock import halting
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
