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
        memory = _memory(relaxation, halves)
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


def _memory(relaxation: Relaxation, halves: Halves) -> list[dict[int, float]]:
    """By block, what is in memory at the first computation of each of its nodes, or more: k_j is left out.

    Outputs are there from the start of the block, or their first computation, until their last first reader in it, and
    as far as they are held at its end; less as far as they are computed again in it, which may be after that.
    """
    s, found = relaxation.stages, []

    def share(literal: Literal) -> float:
        return 0.0 if literal is None else 1.0 if literal == YES else float(halves.values[literal])

    for j in range(len(relaxation.chosen) + 1):
        before, has_end = relaxation.before(j), j < len(relaxation.chosen)
        start, stop = before + 1, relaxation.last(j) + (not has_end)  # of the stages looked at
        changes = [0.0] * (max(0, stop - start) + 1)

        def add(first: int, after: int, what: float, start: int = start, changes: list[float] = changes) -> None:
            if first < after:
                changes[first - start] += what
                changes[after - start] -= what

        for u in range(stop):
            if s.latest[u] <= before:
                continue
            begin, less = max(u + 1, start), share(relaxation.again[j].get(u))
            reads = [k for k in s.readers[u] if begin <= k <= relaxation.last(j)]
            until = min(stop, reads[-1] + 1) if reads else begin
            add(begin, until, s.size[u] * (1 - less))
            held = share(relaxation.held[j].get(u)) if has_end else 0.0
            add(until, stop, s.size[u] * max(0.0, held - less))
            for k in reads:
                add(k, min(stop, k + 1), s.size[u] * less)
        sums = accumulate(changes[:-1])
        found.append({k: m + s.size[k] + s.workspace[k] for k, m in zip(range(start, stop), sums, strict=True)})
    return found
