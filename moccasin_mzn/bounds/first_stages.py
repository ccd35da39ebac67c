"""The stages that a block relaxation begins with: those that matter to its linear relaxation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from moccasin_mzn.base.clock import Deadline, halting
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.problem.stages import Stages, highest_maxima
from moccasin_mzn.solvers.program import YES, Literal, Program

# --- The linear relaxation of a 0-1 program, and what it proves -----------------------------------------------


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


# --- The choice of stages -------------------------------------------------------------------------------------

# That is solved in a fraction of a second, where the relaxation itself may take a minute. It does not get weaker with
# more stages, so many can be tried: those of most memory in each block, as far as fractions show. Only those whose
# budget has a price stay.


AT_ONCE = 4
"""Stages tried at once, each in another block."""
STALE, LITTLE = 2, 0.002
"""Rounds that raise the bound by no more than this fraction, after which no further one is begun."""
PRICED = 1e-9


def first_stages(
    stages: Stages, deadline: Deadline, stop: Callable[[], bool], on_bound: Callable[[int, Relaxation], None]
) -> set[int]:
    """Try stages as long as that raises the bound.

    Args:
        on_bound: called with each bound on the duration of recomputations, in the unit of `stages`, and the relaxation
            that proves it.
    """
    best = chosen = set(highest_maxima(stages.memory, stages.budget, 1))
    tried, bound, stale = set(chosen), 0, 0
    while stale < STALE and not stop() and not deadline.over():
        relaxation = Relaxation.of(stages, chosen)
        halves = None if relaxation.infeasible else relax(relaxation, deadline.remaining() or 0.0, stop)
        if halves is None:
            break
        on_bound(halves.bound, relaxation)
        priced = {k for j, k in enumerate(relaxation.chosen) if _has_price(relaxation, halves, j)}
        stale = 0 if halves.bound > bound * (1 + LITTLE) else stale + 1
        if halves.bound > bound:
            bound, best = halves.bound, priced or chosen
        memory = [_memory(relaxation, halves, j) for j in range(len(relaxation.chosen) + 1)]
        highest = (max((m, k) for k, m in block.items() if k not in tried) for block in memory if block.keys() - tried)
        new = {k for _, k in sorted(highest, reverse=True)[:AT_ONCE]}
        if not new:
            break
        tried |= new
        chosen = priced | new
    return best


def _has_price(relaxation: Relaxation, halves: Halves, j: int) -> bool:
    """Would more memory at k_j make the solution cheaper?"""
    row = relaxation.budget_rows.get(j)
    return row is not None and halves.prices[len(relaxation.clauses) + row] > PRICED


def _memory(relaxation: Relaxation, halves: Halves, j: int) -> dict[int, float]:
    """What is in memory at the first computation of each node of block j but k_j, nearly.

    Outputs are there from the start of the block, or their first computation, until their last first reader in it, and
    as far as they are retained at its end; less as far as they are recomputed in it, which may be after that.
    """
    s, before, last, has_end = relaxation.stages, relaxation.before(j), relaxation.last(j), j < len(relaxation.chosen)
    start, stop = before + 1, last + (not has_end)
    changes = [0.0] * (max(0, stop - start) + 1)

    def share(literal: Literal) -> float:
        return 0.0 if literal is None else 1.0 if literal == YES else float(halves.values[literal])

    def add(first: int, after: int, what: float) -> None:
        if first < after:
            changes[first - start] += what
            changes[after - start] -= what

    for u in range(stop):
        if s.latest[u] <= before:
            continue
        begin, again = max(u + 1, start), share(relaxation.again[j].get(u))
        reads = [k for k in s.readers[u] if begin <= k <= last]
        until = min(stop, reads[-1] + 1) if reads else begin
        retained = share(relaxation.retained[j].get(u)) if has_end else 0.0
        add(begin, until, s.size[u] * (1 - again))
        add(until, stop, s.size[u] * max(0.0, retained - again))
        for k in reads:
            add(k, min(stop, k + 1), s.size[u] * again)
    sums = zip(range(start, stop), accumulate(changes[:-1]), strict=True)
    return {k: memory + s.size[k] + s.workspace[k] for k, memory in sums}
