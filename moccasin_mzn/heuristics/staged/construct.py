"""A first set of recomputations for graphs on which annealing would take long to find one: a few minimum cuts.

Every stage over the budget has a weight, larger where it is further over it. An output that is dropped between two of
its reads saves its size in all stages between them, each by its weight; see `Choice` for what that takes::

    memory over the budget          ....:::||||:::.....::||:..
    u      [==]~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~[=========]      of all gaps between reads that of most weight
                                                 again
    input of u  [====]                          [=]                a prerequisite: retained, or recomputed

The cheapest choice that saves as much as all stages have too much, summed up by weight, is put into the state; where
that is over the budget still, the next choice sees to it. Each takes time about linear in nodes and edges. Where that
takes no more than seconds, the first choice has a price of memory at each of several stages instead, see `moments`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from moccasin_mzn.heuristics.compiling import NONE, ProblemArrays, compiled, slot_at
from moccasin_mzn.heuristics.staged.moments import Choice, Priced, finer_and_finer, realistic
from moccasin_mzn.heuristics.staged.state import COUNT, EXCESS, EXTRA, State, add, load

MOST_CHOICES = 60
ENOUGH = 0.5
"""A choice that leaves more than this part of what was over the budget is the last one: annealing is better then."""
WEIGHTS = 2**14
"""About the sum of the weights of stages."""
FEW_STAGES, MOST_STAGES, EDGES_AND_STAGES = 8, 16, 1_000_000
"""Seen together by the first choice, for a quick one and at most; the third limits stages times edges, what its time
grows with."""
NEAR = 0.05
"""See `Choice.best`."""
DEARER = 2
"""What is left over the budget is judged by this many times the price of memory."""
NEVER = np.inf


class Gaps:
    """What could be dropped in a state, by node."""

    def __init__(self, problem: ProblemArrays) -> None:
        n = len(problem.duration)
        self.gain, self.begin, self.end, self.last = np.zeros((4, n), np.int64)
        readers = np.diff(problem.succ_ptr)
        slots = np.diff(problem.slot_ptr)
        uses = readers + np.add.reduceat(np.append(slots[problem.succ], 0), problem.succ_ptr[:-1]) * (readers > 0)
        self.events = np.zeros(2 + int((uses + slots).max()), np.int64)
        self.reader = np.repeat(np.arange(n, dtype=np.int32), np.diff(problem.pred_ptr))

    def look(self, problem: ProblemArrays, state: State, weight: np.ndarray) -> None:
        _look(problem, state, weight, self.gain, self.begin, self.end, self.last, self.events)


def stages_seen(problem: ProblemArrays, most: int) -> int:
    """Seen by the first choice, at most."""
    return min(most, EDGES_AND_STAGES // max(1, len(problem.succ)))


def construct(
    problem: ProblemArrays, state: State, stop: Callable[[], bool], most: int = FEW_STAGES
) -> tuple[np.ndarray, float | None]:
    """The stage of each slot for what is least over the budget of all that the choices lead to, from `state` on, where
    nothing is recomputed.

    And the price of memory over the budget at each stage, in duration; None: it was not sought.

    Args:
        most: stages seen by the first choice.
    """
    gaps, best, before = Gaps(problem), state.stage.copy(), state.totals[EXCESS]
    price = _choose_together(problem, state, gaps, stages_seen(problem, most), stop)
    best = state.stage.copy() if state.totals[EXCESS] < before else best
    for _ in range(MOST_CHOICES):
        before = state.totals[EXCESS]
        if before == 0 or stop() or not _choose(problem, state, gaps, stop) or state.totals[EXCESS] >= before:
            break
        best = state.stage.copy()
        if state.totals[EXCESS] > ENOUGH * before:
            break
    return best, price


def _choose_together(
    problem: ProblemArrays, state: State, gaps: Gaps, count: int, stop: Callable[[], bool]
) -> float | None:
    """Make the first choice, with a price of memory at each of several stages; the mean price."""
    over = state.peak - problem.budget
    if count < 2 or over.max() <= 0:
        return None
    best: Priced | None = None
    for found in finer_and_finer(problem, np.diff(problem.slot_ptr) > 0, over, count, stop):
        if best is None or found.moments is not best.moments or found.taken.value > best.taken.value:
            best = found
    if best is None:
        return None
    price = float(best.prices.sum() / (best.part >= 0).sum())
    kept, least = state.stage.copy(), np.inf
    for found in itertools.chain([best], realistic(problem, best, stop)):
        load(problem, state, np.full_like(kept, NONE))
        _realise(problem, state, gaps, found)
        merit = state.totals[EXTRA] + DEARER * price * state.totals[EXCESS]
        if merit < least:
            kept, least = state.stage.copy(), merit
    load(problem, state, kept)
    return price


def _realise(problem: ProblemArrays, state: State, gaps: Gaps, best: Priced) -> None:
    """Put a choice for several stages into the state."""
    seen, part, prices, taken, n = best.moments.gaps, best.part, best.prices, best.taken, len(problem.duration)
    each = np.zeros(len(prices) + 1)
    each[:-1] = prices / np.bincount(part[part >= 0])
    scale = WEIGHTS / max(prices.sum(), 1e-300)
    weight = np.zeros(n + 1, np.int64)
    weight[1:] = np.cumsum(np.ceil(scale * each[part]))
    gaps.look(problem, state, weight)
    chosen = np.flatnonzero(taken.stages)
    node, then = seen.node[chosen], np.append(best.moments.seen, n)[seen.first[chosen] + taken.stages[chosen]]
    begin, end = seen.begin[chosen], np.minimum(seen.end[chosen], then)
    gain = np.where(seen.last[chosen], -1, weight[end] - weight[begin + 1])
    order = np.lexsort((-gain, -node))  # of several gaps of an output that of most gain first
    node, needed, begin, end = node[order], ~seen.last[chosen][order], begin[order], end[order]
    _put(problem, state, node, needed, weight, begin, end, gaps.last, gaps.events, scale)


def _choose(problem: ProblemArrays, state: State, gaps: Gaps, stop: Callable[[], bool]) -> bool:
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
        reads=(reader[wanted], read[wanted]), needed=needed, prerequisites=after > 0,
        possible=state.used < np.diff(problem.slot_ptr), excess=int((each * over).sum()),
    )  # fmt: skip
    _, cut = choice.best(stop, NEAR)
    if cut is None:
        return False
    count = state.totals[COUNT]
    again = np.flatnonzero(cut.again)[::-1]
    begin, end = gaps.begin[again], gaps.end[again]
    _put(problem, state, again, needed[again], weight, begin, end, gaps.last, gaps.events, NEVER)
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
    """Find for each node the gap between reads of one copy that has most weight, as `gain`, with the stages of the
    read (or computation) before and of the read after it; and the stage of its last use.

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
def _put(problem, state, again, needed, weight, begin, end, last, events, scale):
    """Recompute what is chosen: at the end of its gap, or where that leaves more of the gap, at a read in it by
    something else that is recomputed, and at each of those where it saves more than it takes.

    Args:
        again: nodes, readers first; one several times for several gaps.
        needed, begin, end: of each of those; is there a read at its end?
        scale: weight by price.
    """
    n = len(problem.duration)
    for of in range(len(again)):
        u, stage, count = again[of], n, 0
        for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
            x = problem.succ[at]
            for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
                k = state.stage[slot]
                if begin[of] < k < end[of] and count < len(events) - 1:
                    count = _insert(events, count, k)
        if needed[of]:
            count = _insert(events, count, end[of])
        first, most, saves = begin[of], np.int64(-1), False
        for at in range(count):
            if first < events[at]:
                gain = weight[events[at]] - weight[first + 1]
                if gain > most:
                    most, stage = gain, events[at]
                if gain * problem.size[u] > scale * problem.duration[u]:
                    saves = _put_once(problem, state, u, events[at]) or saves
            first = events[at]
        if not saves:
            _put_once(problem, state, u, stage)


@compiled
def _put_once(problem, state, u, stage):
    """Recompute it there, if it can be; was it?"""
    slot = slot_at(problem, state.stage, u, NONE)
    could = u < stage < len(problem.duration) and slot != NONE and slot_at(problem, state.stage, u, stage) == NONE
    if could:
        add(problem, state, slot, stage)
    return could
