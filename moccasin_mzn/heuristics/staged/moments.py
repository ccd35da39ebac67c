"""What to drop and to recompute, seen at several stages together: for given prices of memory, one minimum cut.

Time between two first uses of an output, its computation or reads by first computations, is a gap; so is all time after
the last one. Only stages k_1 < k_2 < ... are seen, and of gaps only those with some of them inside::

    stages                 k_1       k_2       k_3       k_4
    u          [==]~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~[========= read
    again[u]                1         1         1         0        recomputed after k_j, within the gap
    input of u    [==============================]~~~~~~~~~~       a gap after the last use
    there                   1         1         1         0        retained at k_j, or recomputed after k_j

An output that is missing at k_j in a gap with a read at its end is recomputed after k_j within the gap. Such a
recomputation after k_j wants all its inputs there. What is dropped at k_j, but for what is retained there in gaps
without a read at their end (there, but not again), saves at least what the input order has over the budget at k_j. And
recomputations in different gaps are different ones. All that holds of every schedule in stages, whatever C_v is.

With a price of memory at each k_j what is left is a choice of projects that need each other, a minimum cut, and its
value is a lower bound. Prices are fractions with one denominator, capacities integers: no rounding enters.

What is recomputed reads its inputs then, but a choice may have one missing before and after that, which takes a
second computation of it in the gap::

    input      [==]~~~~~~~~~~~~~~~~~~~[=]~~~~~~~~~~~~~[========= read
    again                              1         1         0     missing at k_2 as well: computed once more
    reader                    1        0                         recomputed after k_1

Who is recomputed when is the choice itself, so that this is no part of the bound. Schedules are better from choices
with that charged, `doubled`, as the choice before has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from moccasin_mzn.graphs.arrays import Array

if TYPE_CHECKING:
    from ortools.graph.python.max_flow import SimpleMaxFlow

# --- One stage, or stages weighed together: what to retain and what to recompute ------------------------------

# Some outputs are `needed`: each is retained, or dropped and recomputed. Some are `prerequisites`: not needed, but
# inputs of what is recomputed, and then they are retained or recomputed themselves. All others are at hand. ::
#
#     needed u, recomputed            saves[u] of memory, for duration[u], and its prerequisites are wanted
#     prerequisite i that is wanted   kept: takes holds[i] of memory; or again: for duration[i], and wants its own
#
# With a price for memory that is a choice of projects that need each other's prerequisites, a minimum cut: time and
# memory are about linear in reads. The price is a fraction p / q and all capacities are integers: no rounding enters.


MOST_PRICES = 24
"""Tried at most; mostly six to ten are enough."""
_LARGEST = 2**60
_FINEST = 2**40
"""Denominator of prices, at most."""


@dataclass(frozen=True)
class Cut:
    """What is best at one price of memory."""

    cost: int
    """Duration of what is recomputed."""
    over: int
    """Memory that is to be saved still; negative: more is saved than has to be."""
    again: np.ndarray
    """bool[n]: is it recomputed?"""
    value: int
    """No choice that saves enough costs less; rounded up."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Arrays are by node; amounts are integers in any unit."""

    duration: np.ndarray
    saves: np.ndarray
    holds: np.ndarray
    reads: tuple[np.ndarray, np.ndarray]
    """Reader and input of each read that wants its input if the reader is recomputed, should that be a prerequisite."""
    needed: np.ndarray
    prerequisites: np.ndarray
    possible: np.ndarray
    """May it be recomputed?"""
    excess: int
    """What is to be saved."""

    def __post_init__(self) -> None:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        n, wants = len(self.duration), SimpleMaxFlow()
        reader, read = self.reads
        projects = np.flatnonzero(self.possible & (self.needed | self.prerequisites) & (self.saves > 0))
        project = np.zeros(n, bool)
        project[projects] = True
        prerequisites = np.flatnonzero(self.prerequisites)
        wanted = np.flatnonzero(self.prerequisites[read] & project[reader])
        itself = projects[~self.needed[projects]]
        for starts, ends in ((reader[wanted], n + read[wanted].astype(np.int64)), (itself, n + itself)):
            wants.add_arcs_with_capacity(starts, ends, np.full(len(starts), 2**62))
        wants.add_arc_with_capacity(2 * n, 2 * n + 1, 0)  # source and sink are there, even without prerequisites
        paying = wants.add_arcs_with_capacity(np.full(len(projects), 2 * n), projects, np.zeros(len(projects), int))
        sink, free = np.full(len(prerequisites), 2 * n + 1), np.zeros(len(prerequisites), int)
        paid = wants.add_arcs_with_capacity(n + prerequisites, sink, free)
        object.__setattr__(self, "_network", (wants, projects, paying, prerequisites, paid))

    def at(self, price: Fraction) -> Cut:
        """The best choice at a price of memory, which is rounded down to what fits the arithmetic."""
        flow, projects, paying, prerequisites, paid = self._network  # type: ignore[attr-defined]
        n = len(self.duration)
        amounts = int(self.saves[projects].sum()) + int(self.holds[prerequisites].sum())
        q = max(1, min(_FINEST, _LARGEST // (int(self.duration.sum()) + int(price * amounts) + 1)))
        p = min(int(price * q), _LARGEST // (amounts + 1))
        pays = (p * self.saves[projects] - q * self.duration[projects]).clip(min=0)
        flow.set_arcs_capacity(paying, pays)
        flow.set_arcs_capacity(paid, p * self.holds[prerequisites])
        if flow.solve(2 * n, 2 * n + 1) != flow.OPTIMAL:
            raise RuntimeError("a minimum cut was not found")
        side = np.zeros(2 * n + 2, bool)
        side[flow.get_source_side_min_cut()] = True
        value = p * self.excess - int(pays.sum()) + int(flow.optimal_flow())
        again = np.zeros(n, bool)
        again[projects] = side[projects] & (pays > 0)
        retained = side[n : 2 * n] & ~(again & ~self.needed)
        saved = int(self.saves[again & self.needed].sum()) - int(self.holds[retained].sum())
        return Cut(int(self.duration[again].sum()), self.excess - saved, again, -(-value // q))

    def best(self, stop: Callable[[], bool] = lambda: False, near: float = 0.0) -> tuple[int, Cut | None]:
        """The best bound over all prices, and the cheapest cut met that saves enough; None: none does.

        Args:
            near: a cut that saves more than it has to by no more than this fraction is good enough.
        """
        over, fits, bound = Cut(0, self.excess, np.zeros(len(self.duration), bool), 0), None, 0
        price = self._first_price()
        for _ in range(MOST_PRICES):
            if stop() or (fits is not None and -fits.over <= near * self.excess):
                break
            cut = self.at(price)
            bound = max(bound, cut.value)
            if cut.over > 0:
                closer, over = cut.over < over.over, cut
            else:
                closer = fits is None or cut.cost < fits.cost
                fits = cut if closer else fits
            if fits is None:
                price *= 2
                continue
            if not closer or fits.cost <= over.cost or over.over <= fits.over:
                break
            price = Fraction(fits.cost - over.cost, over.over - fits.over)
            if fits.cost + price * fits.over <= bound:
                break
        return bound, fits

    def _first_price(self) -> Fraction:
        """Where the cheapest of what is needed, dropped, would save enough if prerequisites cost nothing."""
        could = np.flatnonzero(self.needed & self.possible & (self.saves > 0))
        if len(could) == 0:
            return Fraction(1)
        by_price = could[np.argsort(self.duration[could] / self.saves[could], kind="stable")]
        enough = int(np.searchsorted(np.cumsum(self.saves[by_price]), self.excess))
        dearest = by_price[min(enough, len(by_price) - 1)]
        return Fraction(max(1, int(self.duration[dearest])), int(self.saves[dearest]))


# --- Several stages, each with a price ------------------------------------------------------------------------


FAR, NEAR, LITTLE, IDLE, MEMORY = 0.3, 0.04, 0.1, 3, 0.3
"""How far above the best value the level is in the beginning, and with prices from fewer stages; it comes nearer after
this many steps that gain little of that. Each step goes a part of the way of the one before."""
DOUBLED_ROUNDS, DOUBLED_PRICES, LEARNED = 6, 3, 0.3
"""How often second computations are charged again, for how many prices each, in this part of the last choice."""
ROUNDS, FINER = 12, 2
"""Prices tried before this many times as many stages are seen."""


class _Graph(Protocol):
    """Arrays along an order, as `GraphArrays` and `ProblemArrays` have them."""

    @property
    def duration(self) -> Array: ...

    @property
    def size(self) -> Array: ...

    @property
    def pred_ptr(self) -> Array: ...

    @property
    def pred(self) -> Array: ...

    @property
    def succ_ptr(self) -> Array: ...

    @property
    def succ(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class StageGaps:
    """Gaps with some of the stages that are seen inside, of outputs that take memory and are read; arrays by gap."""

    node: Array
    begin: Array
    """The stage of the use before."""
    end: Array
    """The stage of the read at its end; the number of nodes if there is none."""
    first: Array
    """Which of the stages that are seen is the first one inside."""
    beyond: Array
    """Which is the first one behind."""
    last: Array
    """Is it after the last use?"""

    @classmethod
    def of(cls, graph: _Graph, stages: Array) -> StageGaps:
        """All of them, those before a read first."""
        n, head = len(graph.duration), graph.succ.astype(np.int64)
        read = np.flatnonzero(np.diff(graph.succ_ptr))
        tail = np.repeat(np.arange(n), np.diff(graph.succ_ptr))
        use = np.concatenate([tail[:1], head[:-1]])
        use[graph.succ_ptr[read]] = read
        node, begin = np.concatenate([tail, read]), np.concatenate([use, head[graph.succ_ptr[read + 1] - 1]])
        end = np.concatenate([head, np.full(len(read), n)])
        first, beyond = np.searchsorted(stages, begin, "right"), np.searchsorted(stages, end, "left")
        seen = (first < beyond) & (graph.size[node] > 0)
        return cls(*(of[seen] for of in (node, begin, end, first, beyond, end == n)))


@dataclass(frozen=True, eq=False)
class Taken:
    """What is best at given prices of memory."""

    value: int
    """No choice that saves enough at all stages costs less; rounded up."""
    cost: int
    """Duration of what is recomputed."""
    over: Array
    """Memory that is to be saved still at each stage; negative: more is saved than has to be."""
    stages: Array
    """For each gap: how many of the stages inside, from the first on, it is recomputed after."""


class Moments:
    """The choices there are.

    Args:
        possible: may it be recomputed?
        stages: ascending.
        excess: what is to be saved at each of them.
    """

    def __init__(self, graph: _Graph, possible: Array, stages: Array, excess: Array) -> None:
        self.gaps = gaps = StageGaps.of(graph, stages)
        self.seen, self.excess, spans = stages, excess, gaps.beyond - gaps.first
        able = possible[gaps.node]
        self.able, self.sizes, self.durations = able, graph.size[gaps.node], graph.duration[gaps.node]
        self._again, again_stage = spread(gaps.first, np.where(able, spans, 0))
        there, there_stage = spread(gaps.first, np.where(gaps.last, spans, 0))
        begins = again_stage == gaps.first[self._again]
        self._stage = np.concatenate([again_stage, there_stage])
        self._saves = np.concatenate([graph.size[gaps.node[self._again]], -graph.size[gaps.node[there]]])
        self._costs = np.append(graph.duration[gaps.node[self._again]] * begins, np.zeros(len(there), np.int64))
        again_at = _places(self._again, again_stage, len(spans), 0)
        there_at = _places(there, there_stage, len(spans), len(again_stage))
        longer = np.flatnonzero(np.append(~begins, there_stage > gaps.first[there]))
        itself = np.flatnonzero(gaps.last[self._again])
        wants = _wants(graph, gaps, np.flatnonzero(able))
        starts = longer, itself, again_at[wants[0]] + wants[2]
        ends = longer - 1, there_at[self._again[itself]] + again_stage[itself], there_at[wants[1]] + wants[2]
        self._network = _network(len(self._stage), np.concatenate(starts), np.concatenate(ends))
        self._again_at, self._charged = again_at, np.zeros(len(self._costs), np.int64)
        self._by_node = np.argsort(gaps.node, kind="stable")
        self._node_ptr = np.searchsorted(gaps.node[self._by_node], np.arange(len(graph.duration) + 1))

    def at(self, prices: Array) -> Taken:
        """The best choice at a price of memory for each stage, rounded down to what fits the arithmetic."""
        flow, paying, paid = self._network
        most = np.abs(self._saves).sum(dtype=float) + np.abs(self.excess).sum(dtype=float) + 1
        costs = self._costs + self._charged
        q = max(1, int(min(_FINEST, _LARGEST / (costs.sum(dtype=float) + prices.max(initial=0.0) * most + 1))))
        p = np.minimum(prices * q, _LARGEST / most).astype(np.int64)
        pays = p[self._stage] * self._saves - q * costs
        flow.set_arcs_capacity(paying, pays.clip(min=0))
        flow.set_arcs_capacity(paid, (-pays).clip(min=0))
        count = len(pays)
        if flow.solve(count, count + 1) != flow.OPTIMAL:
            raise RuntimeError("a minimum cut was not found")
        value = sum(map(int.__mul__, p.tolist(), self.excess.tolist())) - int(pays.clip(min=0).sum())
        side = np.zeros(count + 2, bool)
        side[flow.get_source_side_min_cut()] = True
        chosen = np.flatnonzero(side[:count])
        saved = np.zeros(len(self.excess), np.int64)
        np.add.at(saved, self._stage[chosen], self._saves[chosen])
        again = np.bincount(self._again[side[: len(self._again)]], minlength=len(self.gaps.node))
        return Taken(
            -(-(value + int(flow.optimal_flow())) // q), int(costs[chosen].sum()), self.excess - saved, again
        )  # fmt: skip

    def doubled(self, graph: _Graph, taken: Taken) -> Array:
        """For each choice, what a second computation in its gap costs, where that would be read by what is taken."""
        gaps, chosen = self.gaps, np.flatnonzero(taken.stages)
        reader = gaps.node[chosen]
        pair, at = spread(graph.pred_ptr[reader], np.diff(graph.pred_ptr)[reader])
        read, stage = graph.pred[at], (gaps.first + taken.stages)[chosen][pair]
        pair, at = spread(self._node_ptr[read], np.diff(self._node_ptr)[read])
        gap, stage = self._by_node[at], stage[pair]
        twice = self.able[gap] & (gaps.first[gap] < stage) & (stage < gaps.beyond[gap])
        costs = np.zeros(len(self._costs), np.int64)
        costs[self._again_at[gap[twice]] + stage[twice]] = self.durations[gap[twice]]
        return costs

    def charge(self, costs: Array) -> None:
        """From now on choices cost so much more; what is best then is no bound."""
        self._charged = costs.astype(np.int64)


def spread(first: Array, counts: Array) -> tuple[Array, Array]:
    """Ranges of integers one behind the other: to which each belongs, and the integers."""
    owner = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return owner, first[owner] + np.arange(len(owner)) - begins[owner]


def _places(owner: Array, stage: Array, gaps: int, before: int) -> Array:
    """By gap: what added to the number of a stage is the place of the two in a list, after that number of others."""
    places = np.zeros(gaps, np.int64)
    places[owner] = before + np.arange(len(owner)) - stage
    return places


def _wants(graph: _Graph, gaps: StageGaps, able: Array) -> tuple[Array, Array, Array]:
    """Gap in which something is recomputed, last gap of one of its inputs, and stage: there it wants it."""
    last = np.full(len(graph.duration), -1)
    last[gaps.node[gaps.last]] = np.flatnonzero(gaps.last)
    node = gaps.node[able]
    pair, at = spread(graph.pred_ptr[node], np.diff(graph.pred_ptr)[node])
    reader, read = able[pair], last[graph.pred[at]]
    reader, read = reader[read >= 0], read[read >= 0]
    first = np.maximum(gaps.first[reader], gaps.first[read])
    pair, stage = spread(first, (gaps.beyond[reader] - first).clip(min=0))
    return reader[pair], read[pair], stage


def _network(count: int, starts: Array, ends: Array) -> tuple[SimpleMaxFlow, Array, Array]:
    """Each start wants its end; and the arcs by which what is chosen pays, and is paid."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    flow, none = SimpleMaxFlow(), np.zeros(count, np.int64)
    flow.add_arcs_with_capacity(starts, ends, np.full(len(starts), 2**62))
    flow.add_arc_with_capacity(count, count + 1, 0)  # source and sink are there, even if there is no choice
    paying = flow.add_arcs_with_capacity(none + count, np.arange(count), none)
    paid = flow.add_arcs_with_capacity(np.arange(count), none + count + 1, none)
    return flow, paying, paid


def first_prices(moments: Moments) -> Array:
    """In proportion to what is over the budget, and such that enough is saved in all if inputs cost nothing."""
    gaps, share = moments.gaps, moments.excess / moments.excess.sum()
    sums = np.concatenate([[0.0], np.cumsum(share)])
    could = np.flatnonzero(moments.able & ~gaps.last)
    if len(could) == 0:
        return share
    saves = moments.sizes[could] * (sums[gaps.beyond[could]] - sums[gaps.first[could]])
    ratio = moments.durations[could] / saves
    cheapest = np.argsort(ratio, kind="stable")
    enough = int(np.searchsorted(np.cumsum(saves[cheapest]), share @ moments.excess))
    return share * max(ratio[cheapest[min(enough, len(cheapest) - 1)]], ratio[ratio > 0].min(initial=1.0))


def finer(prices: Array, count: int) -> Array:
    """Prices of equal segments, spread over this many of them."""
    sums = np.concatenate([[0.0], np.cumsum(prices)])
    return np.diff(np.interp(np.linspace(0, 1, count + 1), np.linspace(0, 1, len(prices) + 1), sums))


@dataclass(frozen=True, eq=False)
class Priced:
    """Prices, and what is best at them."""

    moments: Moments
    part: Array
    """See `segments`."""
    prices: Array
    """In duration by memory, for each of the stages that are seen."""
    taken: Taken


def finer_and_finer(
    graph: _Graph, possible: Array, over: Array, most: int, stop: Callable[[], bool]
) -> Iterator[Priced]:
    """Better and better prices on the whole, of more and more stages.

    Args:
        possible: see `Moments`.
        over: memory of the input order over the budget, by stage; positive somewhere.
        most: how many stages are seen in the end.
    """
    prices, count = None, 1
    while not stop():
        stages, part = segments(over, count)
        moments, best = Moments(graph, possible, stages, over[stages]), None
        first = first_prices(moments) if prices is None else finer(prices, len(stages))
        for at, taken in priced(moments, first, ROUNDS, stop, FAR if prices is None else NEAR):
            yield Priced(moments, part, at, taken)
            if best is None or taken.value > best:
                best, prices = taken.value, at
        if count == most:
            return
        count = min(most, FINER * count)


def realistic(graph: _Graph, found: Priced, stop: Callable[[], bool]) -> Iterator[Priced]:
    """Choices at prices nearby that are charged for second computations, more and more as those before had them."""
    moments, prices, charged = found.moments, found.prices, None
    now = moments.doubled(graph, found.taken).astype(float)
    for _ in range(DOUBLED_ROUNDS):
        charged = now if charged is None else (1 - LEARNED) * charged + LEARNED * now
        moments.charge(charged)
        for at, taken in priced(moments, prices, DOUBLED_PRICES, stop, NEAR):
            yield Priced(moments, found.part, at, taken)
            prices, now = at, moments.doubled(graph, taken).astype(float)


def priced(
    moments: Moments, prices: Array, rounds: int, stop: Callable[[], bool], far: float = FAR
) -> Iterator[tuple[Array, Taken]]:
    """Better and better prices on the whole, each with what is best at it: steps along what is over, so far as if a
    level somewhat above the best value were to be reached.

    Args:
        prices: to begin with, in duration by memory; excess must be positive at all stages.
        far: how far above the first value the level is then, as a fraction of it; the level comes nearer.
    """
    scale = moments.excess.astype(float)
    best, ahead, idle, way, center = -np.inf, 0.0, 0, np.zeros(len(prices)), prices
    for number in range(rounds):
        if stop():
            return
        taken = moments.at(prices)
        yield prices, taken
        value, over = taken.cost + float(prices @ taken.over), taken.over / scale
        if number == 0:
            ahead = far * abs(value)
        idle += 1
        if value > best:
            idle = 0 if value > best + LITTLE * ahead else idle
            ahead *= 2 if number and value > best + ahead / 2 else 1
            best, center = value, prices
        if idle >= IDLE:
            ahead, idle = ahead / 2, 0
        if value < best - ahead:
            ahead, prices, way = ahead / 2, (prices + 3 * center) / 4, np.zeros(len(prices))
            continue
        way = over + MEMORY * way
        slope = float(way @ way)
        if slope == 0.0:
            return
        prices = np.maximum(0.0, prices * scale + (best + ahead - value) / slope * way) / scale


def segments(over: Array, count: int) -> tuple[Array, Array]:
    """A number of parts of what is over the budget, one behind the other, about equal: of each part the stage that is
    furthest over the budget, and of each stage its part (-1 of those within it).
    """
    part, high = np.full(len(over), -1), np.flatnonzero(over > 0)
    share = np.cumsum(over[high], dtype=float)
    part[high] = np.minimum(count - 1, ((share - over[high] / 2) * count / share[-1]).astype(np.int64))
    by_part = high[np.lexsort((-over[high], part[high]))]
    kept, begins = np.unique(part[by_part], return_index=True)
    part[high] = np.searchsorted(kept, part[high])
    return by_part[begins], part
