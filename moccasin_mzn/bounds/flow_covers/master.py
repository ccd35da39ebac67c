"""The least that sets of nodes computed more than once cost, if they are to satisfy flow cover inequalities.

A set that satisfies all inequalities known is tried at every first computation: with the set recomputed for
nothing and no other node, is the least memory there within the budget? Where it is not, the flow makes an inequality
that the set does not satisfy. So the inequalities grow until the best set fits everywhere or time is up; each program
on the way proves its bound.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from moccasin_mzn.base.clock import Deadline, own_seconds
from moccasin_mzn.bounds.flow_covers.cuts import FlowCut, Moments
from moccasin_mzn.solvers.cpsat.branching import Branched, branch
from moccasin_mzn.solvers.program import Capacity, Program

LARGEST_SUM = 2**28
"""Limit of the sum of weights of an inequality for CP-SAT; weights are rounded so that it implies no more."""
CUTS_PER_ROUND, ENOUGH = 40, 10
PRICED_PER_ROUND, PRICING, PRICING_SHARE, NEIGHBOURS = 12, 0.5, 0.3, 8
"""At least this many nodes get prices, for this many seconds or such a share of the time so far, and this many of each
side of one that has a better price than all before."""
FIRST_SHARE, LONGEST_FIRST = 0.1, 10.0
"""Fraction of the time, and most seconds of this thread, to look at all nodes and their prices first."""
MOST_TERMS = 1_000_000
"""Most terms of cuts that may never be of use."""
WIDENING = 0.2
"""Seconds for more inequalities, at least."""
STALE, STALE_SHARE, MUCH = 2.0, 0.1, 1.05
"""If no bound is better by this factor for this many seconds, or this share of the time so far, inequalities make room
for others."""
PATIENCE = 1.0
"""Seconds after which any set will do for the next inequalities; longer each time that this was of no use."""


@dataclass
class Covers:
    """Flow cuts that are known, and programs made of them, for any budget."""

    moments: Moments
    nodes: list[int]
    """Where to look for inequalities, the most urgent first."""
    cuts: list[FlowCut] = field(default_factory=list)
    light: dict[int, int] = field(default_factory=dict)
    """By node, the least memory at its first computation if nothing is recomputed, where that is known."""
    plain: dict[int, FlowCut] = field(default_factory=dict)
    """By node, the cut that proves it, until it is in use."""
    terms: int = 0
    """The number of terms of all cuts that were plain."""
    priced: set[tuple[int, int]] = field(default_factory=set)
    """Nodes and budgets that have a cut which pays for durations."""

    def program(self, budget: int) -> Program:
        """Columns are nodes; the cost is the duration of those computed more than once."""
        program = Program(cost=list(self.moments.duration))
        for cut in self.cuts:
            terms, demand = cut.cover(budget)
            if demand > 0:
                program.capacities.append(_at_least(terms, demand))
        return program

    def pressed(self, budget: int, over: Callable[[], bool]) -> Iterator[int]:
        """Nodes that need others to be recomputed, whatever the order."""
        for v in self.nodes:
            if over():
                return
            if v not in self.light:
                self._look_at(v)
            if self.light[v] + self.moments.own[v] > budget:
                yield v

    def _look_at(self, v: int) -> None:
        if self.terms > MOST_TERMS:
            self.light[v] = self.moments.least(v)
            return
        cut = self.plain[v] = self.moments.kept(v)
        self.light[v] = cut.value
        self.terms += len(cut.terms)

    def broken(self, again: Iterable[int], budget: int, over: Callable[[], bool]) -> list[FlowCut]:
        """Cuts that the set does not satisfy, from all nodes or until there are enough.

        One that holds whatever is recomputed is preferred: it implies more of other sets.
        """
        free, found = np.zeros(len(self.moments.duration), bool), []
        free[list(again)] = True
        for v in self.pressed(budget, over):
            plain = self.plain.get(v)
            if plain is not None and not plain.satisfied(free, budget):
                cut = self.plain.pop(v)
            else:
                cut = self.moments.kept(v, free)
            if cut.demand(budget) > 0:
                found.append(cut)
                if len(found) == CUTS_PER_ROUND:
                    break
        first = {cut.node for cut in found}  # likely to be broken again
        self.nodes.sort(key=lambda v: v not in first)
        return found

    def widened(self, cut: FlowCut, again: Iterable[int], budget: int, rng: random.Random) -> FlowCut:
        """A cut of the same node that a larger set, as large as possible, does not satisfy either.

        It implies more: what the set lacks is asked of fewer nodes.
        """
        free = np.zeros(len(self.moments.duration), bool)
        free[list(again)] = True
        tempting = {u: self.moments.duration[u] / weight * rng.random() for u, weight in cut.terms}
        todo, size = sorted(tempting, key=tempting.__getitem__), 8
        while todo:
            part, todo = todo[:size], todo[size:]
            free[part] = True
            if self.moments.least(cut.node, free) + self.moments.own[cut.node] > budget:
                continue
            free[part] = False
            if size > 1:
                size //= 2
                todo = part + todo
        return self.moments.kept(cut.node, free)


def _at_least(terms: tuple[tuple[int, int], ...], demand: int) -> Capacity:
    """The weights of the true columns sum to at least the demand, both divided and rounded up."""
    by = math.gcd(demand, *(weight for _, weight in terms))
    by = max(by, -(-sum(weight for _, weight in terms) // LARGEST_SUM))
    weights = tuple(weight // -by for _, weight in terms)
    return Capacity(tuple(u for u, _ in terms), weights, demand // -by)


@dataclass
class CoverSearch:
    """Improves a bound on the duration of recomputations for one budget, in the unit of `Moments`."""

    covers: Covers
    budget: int
    deadline: Deadline
    on_bound: Callable[[int], None]
    stop: Callable[[], bool]
    incumbent: Callable[[], int | None] = lambda: None
    """What the recomputations of the best known schedule take."""
    seed: int = 0
    bound: int = 0
    patience: float = PATIENCE
    incumbent_at_start: int = 0
    most: int | None = None
    """The bound is never more: it is one for schedules that cost less."""
    price: Fraction | None = None
    """The approximate price of the best cut so far that pays durations."""
    neighbours: list[int] = field(default_factory=list)
    """Nodes about its node in the input order."""
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.improved, self.much = self.begun, 0.0

    def run(self, last: bool = True) -> frozenset[int] | None:
        """Until the best set fits everywhere, which is returned, the bound meets the incumbent, or time is up.

        Args:
            last: False: or until nothing is to be expected any more.
        """
        for cut in self.covers.cuts:
            self.improve(cut.bound(self.budget))
        self._look_around()
        while not self.over() and (last or not self._stale()):
            started, before = time.monotonic(), self.bound
            solved = self._solve(started)
            if solved.infeasible:
                self.improve(self.incumbent_at_start)
                break
            self.improve(solved.bound)
            if self.bound == before:
                self._price()
            chosen = frozenset(u for u, true in enumerate(solved.solution or ()) if true)
            least = solved.solution is not None and self._cost(chosen) <= self.bound
            if solved.solution is not None and not self._separate(chosen, max(WIDENING, time.monotonic() - started)):
                if least and not self.over():
                    return chosen
                self.patience *= 2
            elif not least and self.bound == before:
                self.patience *= 2
        return None

    def _separate(self, chosen: frozenset[int], seconds: float) -> bool:
        """More cuts: of the set, and, where these are few, of larger ones that satisfy all cuts so far.

        So one program gives some cuts that have little to do with each other, in about the time that it took to find
        the set. False if the set itself fits everywhere.
        """
        covers, until, larger = self.covers, time.monotonic() + seconds, set(chosen)
        found, enough = covers.broken(larger, self.budget, self.over), len(covers.cuts) + ENOUGH
        fits = not found
        while found:
            covers.cuts += found
            for cut in found:
                if self.over() or time.monotonic() > until or len(covers.cuts) >= enough:
                    return True
                covers.cuts.append(covers.widened(cut, larger, self.budget, self.rng))
                self._satisfy(cut, larger)
            found = covers.broken(larger, self.budget, self.over)
        return not fits

    def _satisfy(self, cut: FlowCut, chosen: set[int]) -> None:
        """Add what does it for the least duration by weight."""
        terms, demand = cut.cover(self.budget)
        missing = demand - sum(weight for u, weight in terms if u in chosen)
        duration = self.covers.moments.duration
        for u, weight in sorted(terms, key=lambda term: duration[term[0]] / term[1]):
            if missing > 0 and u not in chosen:
                chosen.add(u)
                missing -= weight

    def _stale(self) -> bool:
        """Has it got nowhere for long?"""
        now = time.monotonic()
        return now - self.improved > max(STALE, STALE_SHARE * (self.improved - self.begun))

    def over(self) -> bool:
        known = self.incumbent()
        return self.stop() or self.deadline.over() or (known is not None and self.bound >= known)

    def improve(self, bound: int) -> None:
        bound = bound if self.most is None else min(bound, self.most)
        if bound > self.bound:
            self.bound = bound
            if bound >= self.much:
                self.much, self.improved = MUCH * bound, time.monotonic()
            self.on_bound(bound)

    def _cost(self, chosen: Iterable[int]) -> int:
        return sum(self.covers.moments.duration[u] for u in chosen)

    def _look_around(self) -> None:
        """At all nodes, half of the time for what memory they need, then for prices of those that need most."""
        seconds, spent = self.deadline.share(FIRST_SHARE, LONGEST_FIRST), own_seconds()
        for _ in self.covers.pressed(self.budget, lambda: self.over() or spent() > seconds / 2):
            pass
        self._price(seconds)

    def _price(self, seconds: float = PRICING) -> None:
        """The best cuts, of some nodes that have none yet, that pay for durations; the bound is the largest.

        After the first ones only those that improve the bound are of use.
        """
        covers, spent, done = self.covers, own_seconds(), 0
        enough = max(seconds, PRICING_SHARE * (time.monotonic() - self.begun))
        for v in self._urgent():
            if self.over() or (done >= PRICED_PER_ROUND and spent() > enough):
                break
            if (v, self.budget) in covers.priced:
                continue
            first, done = len(covers.priced) < PRICED_PER_ROUND, done + 1
            covers.priced.add((v, self.budget))
            useful = 0 if first else self.bound + 1
            cut = covers.moments.priced(v, self.budget, useful=useful, price=None if first else self.price)
            if cut is not None and cut.bound(self.budget) >= useful:
                self.price = cut.price
                if cut.bound(self.budget) > self.bound:
                    self.neighbours = self._about(v)
                self.improve(cut.bound(self.budget))
                covers.cuts.append(cut)

    def _urgent(self) -> Iterator[int]:
        """Nodes to be priced: those about the best one, then those of most memory, where that is known."""
        covers = self.covers
        need = {v: light + covers.moments.own[v] for v, light in covers.light.items()}
        heavy = sorted((v for v in need if need[v] > self.budget), key=lambda v: -need[v])
        for v in heavy or covers.pressed(self.budget, self.over):
            while self.neighbours:
                yield self.neighbours.pop(0)
            yield v

    def _about(self, node: int) -> list[int]:
        """The nearest ones first."""
        order = self.covers.moments.graph.input_order()
        at = order.index(node)
        near = range(max(0, at - NEIGHBOURS), min(len(order), at + NEIGHBOURS + 1))
        return [order[k] for k in sorted(near, key=lambda k: abs(k - at))]

    def _solve(self, started: float) -> Branched:
        known = self.incumbent()
        self.incumbent_at_start = 0 if known is None else known

        def stop(found: bool) -> bool:
            return self.over() or (found and time.monotonic() > started + self.patience)

        return branch(
            self.covers.program(self.budget), least=self.bound, most=None if known is None else known - 1,
            deadline=self.deadline, seed=self.seed, on_bound=self.improve, stop=stop,
        )  # fmt: skip
