"""Which nodes are computed more than once: the least cost, by cases that anyone can check.

Branch and bound over r_u, "u is computed more than once", the case of the least bound first. A case is relaxed, and its
solution asks for further inequalities::

    relaxation  ->  the nodes with r_u > 0  ->  violated inequalities  ->  relaxation ...
                    the nodes with r_u = 1                             ->  none: branch, or, if all r_u are integers,
                                                                           they are the least cost of this case

A case ends with a bound in exact integers and the multipliers that prove it, or with an inequality that it cannot meet.
Whatever is open when the time is up has the bound of the case above it: at any moment the tree proves the least bound
of its leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from moccasin_mzn.bounds.certificates.duals import Multipliers, multipliers, relax
from moccasin_mzn.bounds.certificates.pool import Decided, Pool, Residues
from moccasin_mzn.graphs.arrays import Array

LEVELS = (1e-6, 0.3, 0.7, 1 - 1e-6)
"""Nodes with values above are taken as computed again where inequalities are sought."""
GAIN = 0.002
"""Part by which a bound is to grow, or values that are no integers are asked for no more inequalities."""
DEEPEST = 3
"""With so many nodes decided only integers are asked."""
NEVER = 2**200
"""The bound of a case that cannot be."""


@dataclass(eq=False)
class Case:
    """One case, and those below it."""

    decided: Mapping[Any, bool]
    bound: int
    """No schedule of this case adds less to the duration."""
    multipliers: Multipliers
    """Which prove it, of the inequalities with what is decided here."""
    known: Sequence[int] = ()
    """Inequalities that mattered in the case above it."""
    refuted: Multipliers | None = None
    """Of inequalities that cannot be met together."""
    branch: Any = None
    """What tells the cases below apart: a node, or a variable of blocks."""
    below: tuple[Case, ...] = ()
    """With that not so, and so."""


@dataclass
class Cases:
    """The search for one bound."""

    pool: Pool
    target: int | None
    """No bound above it is of use; in units of `Moments`, as all costs here. It falls to the cost of the best choice of
    nodes that violates no inequality. None: there may be no schedule at all."""
    stop: Callable[[], bool]
    _tie: Iterator[int] = field(default_factory=count)

    def run(self) -> Case:
        """The tree, as far as `stop` allows."""
        self.pool.begin(self.stop)
        top = Case({}, 0, Multipliers())
        below = self._look(top)  # even if all time is up by now
        waiting = sorted((one.bound, next(self._tie), one) for one in below)
        while waiting and not self.stop() and not self._enough(waiting[0][0]):
            case = heapq.heappop(waiting)[-1]
            for one in self._look(case):
                heapq.heappush(waiting, (one.bound, next(self._tie), one))
        return top

    def _enough(self, bound: int) -> bool:
        return self.target is not None and bound >= self.target

    def _paid(self, decided: Decided) -> int:
        return sum(self.pool.moments.duration[u] for u, again in decided.items() if again)

    def _look(self, case: Case) -> tuple[Case, ...]:
        """Improve the bound of a case; the cases below it, if that is not enough."""
        grows = len(case.decided) < DEEPEST
        while True:
            left = self.pool.residues(case.decided)
            if self._refuted(case, left):
                return ()
            before = case.bound
            values = self._relaxed(case, left)
            if self._enough(case.bound) or self.stop():
                return ()
            undecided = np.flatnonzero((values > LEVELS[0]) & (values < LEVELS[-1])).tolist()
            grows = grows and case.bound > before + GAIN * before
            if (undecided and not grows) or not self._separate(case.decided, values):
                break
        return self._branch(case, undecided, values) if undecided else self._settle(case, values)

    def _refuted(self, case: Case, left: Residues) -> bool:
        unmet = left.refuted()
        if unmet is not None:
            case.bound, case.refuted = NEVER, Multipliers(0, ((unmet, 1),))
        return unmet is not None

    def _relaxed(self, case: Case, left: Residues) -> Array:
        """The values of the relaxation, float64[n]; improves the bound."""
        durations, paid = self.pool.moments.duration, self._paid(case.decided)
        relaxed = relax(left, durations, case.known)
        case.known = list(relaxed.duals)
        enough = NEVER if self.target is None else self.target
        bound, factors = multipliers(left, durations, relaxed, enough - paid)
        if paid + bound > case.bound:
            case.bound, case.multipliers = paid + bound, factors
        return relaxed.values

    def _separate(self, decided: Decided, values: Array) -> bool:
        """Add inequalities that the values of a relaxation violate; False if none were found."""
        at, tried = values.copy(), set()
        at[[u for u, again in decided.items() if again]] = 1.0
        for level in LEVELS:
            again = at > level
            if again.tobytes() in tried:
                continue
            tried.add(again.tobytes())
            before = len(self.pool.covers)
            if self.pool.separate(again, self.stop):
                unmet = self.pool.residues(decided).unmet(values, 1e-6)
                if (unmet >= before).any():
                    return True
        return False

    def _branch(self, case: Case, among: Iterable[int], values: Array) -> tuple[Case, ...]:
        """Decide one of some nodes."""
        durations = self.pool.moments.duration
        u = max(among, key=lambda u: (min(values[u], 1 - values[u]) * durations[u], u))
        case.branch = u
        case.below = tuple(self._below(case, {**case.decided, u: again}) for again in (False, True))
        return tuple(one for one in case.below if not self._enough(one.bound))

    def _below(self, case: Case, decided: Decided) -> Case:
        """A case with the multipliers of the one above it."""
        bound = case.multipliers.bound(self.pool.residues(decided), self.pool.moments.duration)
        return Case(decided, self._paid(decided) + bound, case.multipliers, case.known)

    def _settle(self, case: Case, values: Array) -> tuple[Case, ...]:
        """The solution is a choice of nodes that violates nothing: no bound is above its cost."""
        chosen = np.flatnonzero(values > 0.5).tolist()
        cost = self._paid({**case.decided, **dict.fromkeys(chosen, True)})
        if self.target is None or cost < self.target:
            self.target = cost
        return () if self._enough(case.bound) or not chosen else self._branch(case, chosen, values)


def in_order(top: Case, enough: int = NEVER) -> list[Case]:
    """A case before those below it, all below r = 0 before those below r = 1; none below a case with a bound that is
    enough."""
    cases, waiting = [], [top]
    while waiting:
        cases.append(waiting.pop())
        if cases[-1].bound < enough:
            waiting += reversed(cases[-1].below)
    return cases


def proven(top: Case) -> int | None:
    """The cost that a tree proves; None: there is no schedule."""
    bounds = dict[Case, int]()
    for case in reversed(in_order(top)):
        bounds[case] = max(case.bound, min((bounds[one] for one in case.below), default=0))
    return None if bounds[top] >= NEVER else bounds[top]
