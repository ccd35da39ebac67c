"""The stages that a block relaxation begins with: those that matter to its linear relaxation.

That is solved in a fraction of a second, where the relaxation itself may take a minute. It does not get weaker with
more stages, so many can be tried: those of most memory in each block, as far as halves tell. Only those whose budget
has a price stay.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from moccasin_mzn.bounds.linear import Halves, relax
from moccasin_mzn.bounds.relaxation import YES, Literal, Relaxation
from moccasin_mzn.clock import Deadline
from moccasin_mzn.problem.stages import Stages, highest_maxima

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
    as far as they are held at its end; less as far as they are computed again in it, which may be after that.
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
        held = share(relaxation.held[j].get(u)) if has_end else 0.0
        add(begin, until, s.size[u] * (1 - again))
        add(until, stop, s.size[u] * max(0.0, held - again))
        for k in reads:
            add(k, min(stop, k + 1), s.size[u] * again)
    sums = zip(range(start, stop), accumulate(changes[:-1]), strict=True)
    return {k: memory + s.size[k] + s.workspace[k] for k, memory in sums}
