"""The linear relaxation of inequalities where some nodes are decided, and its bound in exact integers.

GLOP of OR-Tools solves it in doubles; its duals y, whatever they are worth, bound the cost::

    sum of w_u r_u  >=  sum of y_i demand_i  +  sum over u of min(0, w_u - sum of y_i weight_iu)        y >= 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.bounds.certificates.pool import Residues
from moccasin_mzn.graphs.arrays import Array

BITS = (0, 12, 24, 36, 48, 60)
"""Binary places of multipliers: as few as do."""
_AT_ONCE = 10
"""Inequalities added to a linear program that does not satisfy them."""
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Multipliers:
    """Of inequalities, by index, over 2^bits."""

    bits: int = 0
    factors: tuple[tuple[int, int], ...] = ()

    def bound(self, left: Residues, durations: Sequence[int]) -> int:
        """What they prove of the cost of nodes that are not decided, rounded up."""
        value, prices = 0, dict[int, int]()
        for k, factor in self.factors:
            demand = int(left.demand[k])
            if demand > 0:
                value += factor * demand
                for u in np.flatnonzero(left.weights[k]).tolist():
                    prices[u] = prices.get(u, 0) + factor * int(left.weights[k, u])
        value += sum(min(0, (durations[u] << self.bits) - price) for u, price in prices.items())
        return -(-value >> self.bits)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A solution of the relaxation."""

    values: Array
    """float64[n], 0 for nodes that are decided."""
    duals: dict[int, float]
    """By index, of inequalities in whose place nothing better is known."""


def relax(left: Residues, durations: Sequence[int], known: Sequence[int]) -> Relaxed:
    """Solve the relaxation of inequalities that can be met.

    Args:
        durations: by node.
        known: indices of inequalities to begin with.

    Raises:
        RuntimeError: GLOP fails.
    """
    used = [k for k in known if left.demand[k] > 0]
    while True:
        relaxed = _solve(left, durations, used)
        further = [k for k in left.unmet(relaxed.values, _TOLERANCE).tolist() if k not in used]
        if not further:
            return relaxed
        used += further[:_AT_ONCE]


def _solve(left: Residues, durations: Sequence[int], used: Sequence[int]) -> Relaxed:
    from ortools.linear_solver import pywraplp

    values = np.zeros(left.weights.shape[1])
    if not used:
        return Relaxed(values, {})
    rows = left.weights[used] / left.demand[used][:, None]
    nodes = np.flatnonzero(rows.any(axis=0)).tolist()
    unit = max((durations[u] for u in nodes), default=0) or 1
    solver = pywraplp.Solver.CreateSolver("GLOP")
    columns = {u: solver.NumVar(0.0, 1.0, "") for u in nodes}
    for u, column in columns.items():
        solver.Objective().SetCoefficient(column, durations[u] / unit)
    constraints = [solver.Constraint(1.0, solver.infinity()) for _ in used]
    for constraint, row in zip(constraints, rows, strict=True):
        for u in np.flatnonzero(row).tolist():
            constraint.SetCoefficient(columns[u], float(row[u]))
    if solver.Solve() != solver.OPTIMAL:
        raise RuntimeError("GLOP finds no optimum")
    for u, column in columns.items():
        values[u] = column.solution_value()
    duals = {k: one.dual_value() * unit / int(left.demand[k]) for k, one in zip(used, constraints, strict=True)}
    return Relaxed(values, {k: dual for k, dual in duals.items() if dual > 0})


def multipliers(left: Residues, durations: Sequence[int], relaxed: Relaxed, enough: int) -> tuple[int, Multipliers]:
    """The best bound that duals prove exactly, or `enough`, and the coarsest multipliers that do."""
    best = 0, Multipliers()
    for bits in BITS:
        factors = tuple((k, factor) for k, dual in relaxed.duals.items() if (factor := int(math.ldexp(dual, bits))))
        one = Multipliers(bits, factors)
        best = max(best, (one.bound(left, durations), one), key=lambda pair: pair[0])
        if best[0] >= enough:
            break
    return best
