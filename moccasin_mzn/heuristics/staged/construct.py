"""A first set of recomputations for graphs on which annealing would take long to find one: a few minimum cuts.

Every stage over the budget has a weight, larger where it is further over it. An output that is dropped between two of
its reads saves its size in all stages between them, each by its weight; see `choice` for what that takes::

    memory over the budget          ....:::||||:::.....::||:..
    u      [==]~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~[=========]      of all gaps between reads that of most weight
                                                 again
    input of u  [====]                          [=]                a tool: held from its last read, or computed again

The cheapest choice that saves as much as all stages have too much, summed up by weight, is put into the state; where
that is over the budget still, the next choice sees to it. Each takes time about linear in nodes and edges. Where that
takes no more than seconds, the first choice has a price of memory at each of several stages instead, see `moments`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.heuristics.slots import NONE, Problem, slot_at
from moccasin_mzn.heuristics.staged.choice import Choice
from moccasin_mzn.heuristics.staged.moments import Priced, finer_and_finer
from moccasin_mzn.heuristics.staged.state import COUNT, EXCESS, State, add

MOST_CHOICES = 60
ENOUGH = 0.5
"""A choice that leaves more than this part of what was over the budget is the last one: annealing is better then."""
WEIGHTS = 2**14
"""About the sum of the weights of stages."""
MOST_STAGES, EDGES_AND_STAGES = 8, 1_000_000
"""Seen together by the first choice, at most; and so many times the number of edges: what its time grows with."""
NEAR = 0.05
"""See `Choice.best`."""


class Gaps:
    """What could be dropped in a state, by node."""

    def __init__(self, problem: Problem) -> None:
        n = len(problem.duration)
        self.gain, self.begin, self.end, self.last = np.zeros((4, n), np.int64)
        readers = np.diff(problem.succ_ptr)
        slots = np.diff(problem.slot_ptr)
        uses = readers + np.add.reduceat(np.append(slots[problem.succ], 0), problem.succ_ptr[:-1]) * (readers > 0)
        self.events = np.zeros(2 + int((uses + slots).max()), np.int64)
        self.reader = np.repeat(np.arange(n, dtype=np.int32), np.diff(problem.pred_ptr))

    def look(self, problem: Problem, state: State, weight: np.ndarray) -> None:
        _look(problem, state, weight, self.gain, self.begin, self.end, self.last, self.events)


def construct(problem: Problem, state: State, stop: Callable[[], bool]) -> np.ndarray:
    """The stage of each slot for what is least over the budget of all that the choices lead to, from `state` on."""
    gaps, best, before = Gaps(problem), state.stage.copy(), state.totals[EXCESS]
    _choose_together(problem, state, gaps, stop)
    best = state.stage.copy() if state.totals[EXCESS] < before else best
    for _ in range(MOST_CHOICES):
        before = state.totals[EXCESS]
        if before == 0 or stop() or not _choose(problem, state, gaps, stop) or state.totals[EXCESS] >= before:
            break
        best = state.stage.copy()
        if state.totals[EXCESS] > ENOUGH * before:
            break
    return best


def _choose_together(problem: Problem, state: State, gaps: Gaps, stop: Callable[[], bool]) -> None:
    """Make the first choice, with a price of memory at each of several stages."""
    over = state.peak - problem.budget
    count = min(MOST_STAGES, EDGES_AND_STAGES // len(problem.succ))
    if count < 2 or over.max() <= 0:
        return
    best: Priced | None = None
    for found in finer_and_finer(problem, np.diff(problem.slot_ptr) > 0, over, count, stop):
        if best is None or found.moments is not best.moments or found.taken.value > best.taken.value:
            best = found
    if best is not None:
        _realise(problem, state, gaps, best)


def _realise(problem: Problem, state: State, gaps: Gaps, best: Priced) -> None:
    """Put a choice for several stages into the state: each output in one gap at most."""
    seen, part, prices, taken, n = best.moments.gaps, best.part, best.prices, best.taken, len(problem.duration)
    each = np.zeros(len(prices) + 1)
    each[:-1] = prices / np.bincount(part[part >= 0])
    weight = np.zeros(n + 1, np.int64)
    weight[1:] = np.cumsum(np.ceil(WEIGHTS / max(prices.sum(), 1e-300) * each[part]))
    gaps.look(problem, state, weight)
    chosen = np.flatnonzero(taken.stages)
    node, then = seen.node[chosen], np.append(best.moments.seen, n)[seen.first[chosen] + taken.stages[chosen]]
    begin, end = seen.begin[chosen], np.minimum(seen.end[chosen], then)
    gain = np.where(seen.last[chosen], -1, weight[end] - weight[begin + 1])
    order = np.lexsort((-gain, -node))  # of several gaps of an output that of most gain first
    _put(problem, state, node[order], ~seen.last[chosen][order], weight, begin[order], end[order], gaps.last, gaps.events)


def _choose(problem: Problem, state: State, gaps: Gaps, stop: Callable[[], bool]) -> bool:
    """Make one choice, and put it into the state; False if that changes nothing."""
    n = len(problem.duration)
    over = np.maximum(0, state.peak - problem.budget)
    each = np.sqrt(over / over.max())
    each = np.ceil(each * max(1.0, WEIGHTS / each.sum())).astype(np.int64)
    weight = np.zeros(n + 1, np.int64)
    np.cumsum(each, out=weight[1:])
    gaps.look(problem, state, weight)
    after = weight[n] - weight[np.minimum(gaps.last + 1, n)]
    needed = (gaps.gain > 0) & (gaps.gain >= after)
    place = np.where(needed, gaps.end, gaps.last)
    reader, read = gaps.reader, problem.pred
    wanted = np.where(needed[reader], place[reader] > gaps.last[read], gaps.last[read] <= place[reader])
    choice = Choice(
        duration=problem.duration, saves=problem.size * np.where(needed, gaps.gain, after), holds=problem.size * after,
        reads=(reader[wanted], read[wanted]), needed=needed, tools=after > 0,
        possible=state.used < np.diff(problem.slot_ptr), excess=int((each * over).sum()),
    )  # fmt: skip
    _, cut = choice.best(stop, NEAR)
    if cut is None:
        return False
    count = state.totals[COUNT]
    again = np.flatnonzero(cut.again)[::-1]
    begin, end = gaps.begin[again], gaps.end[again]
    _put(problem, state, again, needed[again], weight, begin, end, gaps.last, gaps.events)
    return state.totals[COUNT] > count


@compiled
def _insert(events, count, event):
    """Put an event into its place among those before it; how many there are then."""
    at = count
    while at > 0 and events[at - 1] > event:
        events[at] = events[at - 1]
        at -= 1
    events[at] = event
    return count + 1


@compiled
def _look(problem, state, weight, gain, begin, end, last, events):
    """Of each node: the gap between reads of one copy that has most weight, as `gain`, with the stages of the read (or
    computation) before and of the read after it; and the stage of its last use.

    Args:
        weight: sums over the stages before each.
        events: room; a computation of the node is an even number, a read an odd one.
    """
    n = len(problem.duration)
    for u in range(n):
        events[0] = 2 * (u * n + u)
        count = 1
        for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
            x = problem.succ[at]
            count = _insert(events, count, 2 * (x * n + x) + 1)
            if state.used[x]:
                for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
                    if state.stage[slot] != NONE:
                        count = _insert(events, count, 2 * (state.stage[slot] * n + x) + 1)
        if state.used[u]:
            for slot in range(problem.slot_ptr[u], problem.slot_ptr[u + 1]):
                if state.stage[slot] != NONE:
                    count = _insert(events, count, 2 * (state.stage[slot] * n + u))
        gain[u], begin[u], end[u] = 0, n, n
        for at in range(1, count):
            if events[at] % 2 == 0:
                continue
            first, then = events[at - 1] // 2 // n, events[at] // 2 // n
            if first < then and weight[then] - weight[first + 1] > gain[u]:
                gain[u], begin[u], end[u] = weight[then] - weight[first + 1], first, then
        last[u] = events[count - 1] // 2 // n


@compiled
def _put(problem, state, again, needed, weight, begin, end, last, events):
    """Compute what is chosen again: at the end of its gap, or where that leaves more of the gap, at a read in it by
    something else that is computed again; tools as late as those allow.

    Args:
        again: nodes, readers first; one several times for several gaps.
        needed, begin, end: of each of those.
    """
    n = len(problem.duration)
    for of in range(len(again)):
        u, stage, count = again[of], n, 0
        for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
            x = problem.succ[at]
            for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
                k = state.stage[slot]
                if needed[of] and begin[of] < k < end[of] and count < len(events) - 1:
                    count = _insert(events, count, k)
                elif k > last[u] and not needed[of]:
                    stage = min(stage, k)
        if needed[of]:
            count = _insert(events, count, end[of])
            first, most = begin[of], np.int64(-1)
            for at in range(count):
                if first < events[at] and weight[events[at]] - weight[first + 1] > most:
                    most, stage = weight[events[at]] - weight[first + 1], events[at]
                first = events[at]
        slot = slot_at(problem, state.stage, u, NONE)
        if u < stage < n and slot != NONE and slot_at(problem, state.stage, u, stage) == NONE:
            add(problem, state, slot, stage)
