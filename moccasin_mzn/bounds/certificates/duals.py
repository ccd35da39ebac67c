"""The linear relaxation of covers with some nodes decided, and its bound in exact integers.

GLOP of OR-Tools solves it in doubles; its duals, whatever they are worth, bound the cost in integers (see `exact`)::

    sum of w_u r_u  >=  sum of y_i demand_i  +  sum over u of min(0, w_u - sum of y_i weight_iu)        y >= 0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.bounds.certificates.covers import Cover
from moccasin_mzn.graphs.arrays import Array

_BITS = (0, 8, 16, 24, 32, 48, 64)
"""Binary places of multipliers: as few as do."""

Decided = Mapping[int, bool]
"""By node: is it computed more than once?"""


@dataclass(frozen=True, eq=False)
class Residue:
    """What is left of a cover, and rounded, where some nodes are decided."""

    index: int
    """Of the cover."""
    demand: int
    nodes: Array
    weights: Array
    """None above the demand."""


@dataclass(frozen=True)
class Multipliers:
    """Of covers, by index, over 2^bits."""

    bits: int = 0
    factors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A solution of the relaxation, and what its duals prove."""

    values: dict[int, float]
    """Of nodes that are not decided; those that are not there are 0."""
    bound: int
    """Exact, on the cost of what is decided and all else."""
    multipliers: Multipliers


def residues(covers: Sequence[Cover], decided: Decided) -> list[Residue]:
    """What is left of all covers that are not met by what is decided."""
    left = []
    for index, cover in enumerate(covers):
        chosen = np.array([decided.get(u, -1) for u in cover.nodes.tolist()], np.int64)
        demand = cover.demand - int(cover.weights[chosen == 1].sum())
        if demand > 0:
            nodes, weights = cover.nodes[chosen < 0], cover.weights[chosen < 0]
            left.append(Residue(index, demand, nodes, np.minimum(weights, demand)))
    return left


def refuted_by(left: Sequence[Residue]) -> int | None:
    """The index of a cover that cannot be met."""
    return next((one.index for one in left if int(one.weights.sum()) < one.demand), None)


def relax(left: Sequence[Residue], durations: Sequence[int], paid: int, enough: int) -> Relaxed:
    """Solve the relaxation of covers that can be met.

    Args:
        durations: by node.
        paid: the cost of what is decided.
        enough: a bound above it is of no use.

    Raises:
        RuntimeError: GLOP fails.
    """
    values, duals = _solve(left, durations)
    bound, multipliers = paid, Multipliers()
    for bits in _BITS:
        factors = [(one, int(math.ldexp(dual, bits))) for one, dual in zip(left, duals, strict=True)]
        proven = paid + _bound([pair for pair in factors if pair[1]], durations, bits)
        if proven > bound:
            bound, multipliers = proven, Multipliers(bits, tuple((one.index, by) for one, by in factors if by))
        if bound >= enough:
            break
    return Relaxed(values, bound, multipliers)


def _solve(left: Sequence[Residue], durations: Sequence[int]) -> tuple[dict[int, float], list[float]]:
    """Values of nodes, and the duals of covers, in doubles."""
    from ortools.linear_solver import pywraplp

    nodes = sorted({u for one in left for u in one.nodes.tolist()})
    unit = max((durations[u] for u in nodes), default=0) or 1
    solver = pywraplp.Solver.CreateSolver("GLOP")
    columns = {u: solver.NumVar(0.0, 1.0, "") for u in nodes}
    for u, column in columns.items():
        solver.Objective().SetCoefficient(column, durations[u] / unit)
    rows = []
    for one in left:
        rows.append(solver.Constraint(1.0, solver.infinity()))
        for u, share in zip(one.nodes.tolist(), (one.weights / one.demand).tolist(), strict=True):
            rows[-1].SetCoefficient(columns[u], share)
    if solver.Solve() != solver.OPTIMAL:
        raise RuntimeError("GLOP finds no optimum")
    duals = [max(0.0, row.dual_value()) * unit / one.demand for row, one in zip(rows, left, strict=True)]
    return {u: column.solution_value() for u, column in columns.items()}, duals


def _bound(factors: Sequence[tuple[Residue, int]], durations: Sequence[int], bits: int) -> int:
    """What multipliers over 2^bits prove, rounded up."""
    value, prices = 0, dict[int, int]()
    for one, factor in factors:
        value += factor * one.demand
        for u, weight in zip(one.nodes.tolist(), one.weights.tolist(), strict=True):
            prices[u] = prices.get(u, 0) + factor * weight
    value += sum(min(0, (durations[u] << bits) - price) for u, price in prices.items())
    return -(-value >> bits)
