"""A bound on the duration of recomputations by the joint relaxation, refined where its solutions do not fit.

As in `bounds.input_order`: a relaxation that is not solved at once is asked for a solution little over the bound.
Mostly there is none, which lifts the bound; otherwise the solution shows what to look at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.clock import own_seconds
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.flow_covers.joint import Joint, Solution
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.solvers.cpsat.branching import Branched, branch

# --- Which first computations precede others in every schedule that is shorter than a known one ---------------

# Suppose that u is computed before v for the first time. Then so are the ancestors of u, and at the first computation
# of v more is known; at that of u as well, where v and its descendants are still to come. If one of these moments alone
# then costs as much as the known schedule, v precedes u in all that are shorter. What is learned makes all moments
# imply more, and may refute other orders in turn.


@dataclass
class Precedences:
    """Learns which pairs of nodes have one order only in all schedules within a budget that cost less than `target`."""

    moments: Moments
    """With what is known so far; another object as soon as more is."""
    budget: int
    target: int
    """On the duration of recomputations, in the unit of `Moments`."""
    over: Callable[[], bool]

    def learn(self, nodes: Iterable[int]) -> int:
        """Compare each of these nodes with all others; the number of pairs that were not known."""
        known = len(self.moments.network.earlier)
        for v in nodes:
            if self.over():
                break
            pairs = self._pairs(v)
            if pairs:
                network = self.moments.network
                self.moments = Moments(MomentNetwork(network.graph, (*network.earlier, *pairs)))
        return len(self.moments.network.earlier) - known

    def _pairs(self, v: int) -> list[tuple[int, int]]:
        """Pairs with v, the others being implied.

        Only what v's least cut would have otherwise can be refuted there. What is not refuted of a node is not refuted
        of a node that implies less either.
        """
        network = self.moments.network
        before, after = network.sides(v)
        cut = self.moments.priced(v, self.budget)
        usual = self.moments.usual(v, cut)
        order, pairs = network.graph.input_order(), list[tuple[int, int]]()
        for early, nodes in ((True, order), (False, reversed(order))):  # can v come first? can it come later?
            todo = ~before & ~after & (usual == early)
            for u in nodes:
                if not todo[u] or self.over():
                    continue
                less, more = network.reach(u) if early else reversed(network.reach(u))
                more[u] = True
                sides = (before, after | more) if early else (before | more, after)
                if self._refuted(v, sides):
                    pairs = [(a, b) for a, b in pairs if not less[a if early else b]]
                    pairs.append((u, v) if early else (v, u))
                else:
                    todo &= ~more
        return pairs

    def _refuted(self, v: int, sides: tuple[Array, Array]) -> bool:
        cut = self.moments.priced(v, self.budget, sides, useful=self.target, enough=self.target)
        return cut is not None and cut.bound(self.budget) >= self.target


# --- The search -----------------------------------------------------------------------------------------------

FIRST_MOMENTS, MORE_MOMENTS = 4, 2
PATIENCE, ROWS_PER_SECOND = 1.0, 10_000
STEP, LEAST_STEP, CLOSER = 0.25, 0.04, 4
"""How much more than the bound is asked for, as a fraction of the bound, to begin with and at least; such a part of
what a solution costs more than the bound."""
TRIES = 2
"""Tries with the same moments for a solution that costs little more than the bound, until any will do."""
MISSING = 4
"""Part of what is missing to the incumbent that a step is a share of, where that is more than the bound."""
QUICK = 3
"""Times the patience within which an answer doubles the step."""
UNANSWERED = 5
"""Times the patience until less is asked for."""
MOST_ROWS = 200_000
MOST_COUNTED = 80
"""Nodes up to which third computations are looked at from the beginning; else once all moments are seen."""
MOST_PROBED, PROBING, PROBING_SHARE = 100, 1.0, 0.15
"""Nodes that are compared with all others; seconds for that, and the share of the time so far that comes on top."""


@dataclass
class JointSearch:
    """Goes on from what `covers` has proven."""

    covers: CoverSearch
    most: Sequence[int] | None = None
    """By node, how often it may be computed; None: as often as it takes."""
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    step: int | None = None
    """How much more than the bound is asked for; None: whatever is below the incumbent."""
    tried: int = 0
    """Solutions that cost too much to be looked at, of these moments."""
    refined: int = -1
    """The bound when moments were last added: if that did not lift it, last recomputations may."""
    counted: bool = False
    """Are third computations looked at?"""
    exhausted: bool = False
    """No moment is to be seen that is not."""
    probed: int | None = None
    """Precedences were last looked for below this."""
    probing: float = 0.0
    """Seconds of this thread spent on them."""
    known: Covers = field(init=False)
    """The covers of the search; with precedences, others of their own."""

    def __post_init__(self) -> None:
        self.known = self.covers.covers
        self.counted = len(self.known.moments.duration) <= MOST_COUNTED

    def run(self) -> None:
        """Until the bound meets the incumbent, nothing is to be refined any more, or time is up."""
        while not self.covers.over():
            self._learn_precedences()
            self.firsts = self.firsts or self._strongest()
            if not self._round():
                break

    def _learn_precedences(self) -> None:
        """Learn precedences of schedules that are shorter than the best known one; from then on no more than that is
        proven."""
        covers, target, spent = self.covers, self.covers.incumbent(), own_seconds()
        enough = PROBING + PROBING_SHARE * covers.deadline.elapsed() - self.probing
        if target is None or target == self.probed or enough <= 0:
            return
        precedences = Precedences(self.known.moments, covers.budget, target, lambda: covers.over() or spent() > enough)
        while precedences.learn(self._heaviest()):
            pass
        self.probed = target
        self.probing += spent()
        if precedences.moments is not self.known.moments:
            self.known = Covers(precedences.moments, list(self.known.nodes), list(self.known.cuts))
            covers.most = target
            search = replace(covers, covers=self.known, on_bound=covers.improve, begun=time.monotonic())
            search.run(last=False)
            self.firsts += [v for v in self._strongest() if v not in self.firsts]

    def _heaviest(self) -> list[int]:
        """Where most memory is needed whatever the order."""
        light, own = self.known.light, self.known.moments.own
        return sorted(light, key=lambda v: -light[v] - own[v])[:MOST_PROBED]

    def _strongest(self) -> list[int]:
        """Nodes whose own bounds are the largest."""
        best: dict[int, int] = {}
        for cut in self.known.cuts:
            best[cut.node] = max(best.get(cut.node, 0), cut.bound(self.covers.budget))
        return sorted(best, key=lambda v: -best[v])[:FIRST_MOMENTS]

    def _round(self) -> bool:
        """Solve and refine; False if nothing is left to do."""
        covers = self.covers
        joint = Joint.of(self.known.moments, covers.budget, self.firsts, self.lasts, self.most, self.counted)
        joint.least_cost = covers.bound
        if len(joint.capacities) > MOST_ROWS:
            return False
        known = covers.incumbent()
        limits = [most for most in (known, self.step and covers.bound + self.step) if most is not None]
        most = min(limits) - 1 if limits else None
        if most is not None and most >= sum(joint.cost):
            most = None
        patience, spent = max(PATIENCE, len(joint.capacities) / ROWS_PER_SECOND), own_seconds()
        solved = self._solve(joint, most, patience)
        if solved.infeasible:
            beyond = covers.most if most is None else most + 1
            if beyond is None:
                return False
            covers.improve(beyond)
            if self.step and spent() < QUICK * patience:
                self.step *= 2
            return True
        covers.improve(solved.bound)
        return self._learn(joint, solved)

    def _solve(self, joint: Joint, most: int | None, patience: float) -> Branched:
        covers, spent = self.covers, own_seconds()
        unanswered = UNANSWERED * patience if self.step and self.step > self._little() else math.inf

        def stop(found: bool) -> bool:
            enough = patience if found or self.step is None else unanswered
            return covers.over() or (not self.exhausted and spent() > enough)

        return branch(
            joint, least=covers.bound, most=most, deadline=covers.deadline, seed=covers.seed, on_bound=covers.improve,
            stop=stop,
        )  # fmt: skip

    def _little(self, share: float = LEAST_STEP) -> int:
        """A step; from a bound of hardly anything, a part of what is missing."""
        covers, known = self.covers, self.covers.incumbent()
        missing = 0 if known is None else (known - covers.bound) // MISSING
        return 1 + int(share * max(covers.bound, missing))

    def _learn(self, joint: Joint, solved: Branched) -> bool:
        """Refine where a solution costs little more than is proven; else ask for one that costs less."""
        covers, little = self.covers, self._little()
        if solved.solution is None or covers.over():
            self.step = self._little(STEP) if self.step is None else max(little, self.step // 2)
            return True
        more = sum(cost for cost, true in zip(joint.cost, solved.solution, strict=True) if true) - covers.bound
        if self.exhausted:
            self.step = little
            return more > 0
        if more > little and self.tried < TRIES:
            self.step, self.tried = max(little, more // CLOSER), self.tried + 1
            return True
        self.tried = 0
        firsts, lasts = Solution(joint, solved.solution).worst(MORE_MOMENTS, covers.over, covers.bound > self.refined)
        self.refined = covers.bound
        self.firsts += firsts
        self.lasts += lasts
        self.exhausted = self.counted and not firsts and not lasts
        self.counted = self.counted or (not firsts and not lasts)
        self.step = None if self.exhausted else self.step
        return True
