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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from moccasin_mzn.bounds.certificates.covers import Cover, Covers
from moccasin_mzn.bounds.certificates.duals import (
    Decided,
    Multipliers,
    Relaxed,
    Residue,
    refuted_by,
    relax,
    residues,
)

LEVELS = (1e-6, 0.3, 0.7, 1 - 1e-6)
"""Nodes with values above are taken as computed again where inequalities are sought."""
_NEVER = 2**200
"""The bound of a case that cannot be."""


@dataclass(eq=False)
class Case:
    """One case, and those below it."""

    decided: Decided
    bound: int
    """No schedule of this case adds less to the duration."""
    multipliers: Multipliers
    """Which prove it, of the inequalities with what is decided here."""
    refuted: int | None = None
    """The index of an inequality that cannot be met."""
    branch: int | None = None
    """The node that tells the cases below apart."""
    below: tuple[Case, ...] = ()
    """With that node computed once, and more than once."""


@dataclass
class Cases:
    """The search for one bound."""

    covers: Covers
    target: int | None
    """No bound above it is of use; falls to the cost of the best choice of nodes that violates no inequality. None:
    there may be no schedule at all."""
    stop: Callable[[], bool]
    _tie: Iterator[int] = field(default_factory=count)

    def run(self) -> Case:
        """The tree, as far as `stop` allows."""
        top = Case({}, 0, Multipliers())
        waiting = [(0, next(self._tie), top)]
        while waiting and not self.stop() and not self._enough(waiting[0][0]):
            case = heapq.heappop(waiting)[-1]
            for one in self._look(case):
                heapq.heappush(waiting, (one.bound, next(self._tie), one))
        return top

    def _enough(self, bound: int) -> bool:
        return self.target is not None and bound >= self.target

    def _look(self, case: Case) -> tuple[Case, ...]:
        """Improve the bound of a case; the cases below it, if that is not enough."""
        while True:
            left = residues(self.covers.known, case.decided)
            case.refuted = refuted_by(left)
            if case.refuted is not None:
                case.bound = _NEVER
                return ()
            relaxed = self._relaxed(case, left)
            if relaxed.bound > case.bound:
                case.bound, case.multipliers = relaxed.bound, relaxed.multipliers
            if self._enough(case.bound) or self.stop():
                return ()
            further = self._violated(case, relaxed)
            if not further:
                break
            self.covers.known += further
        open_ = {u: value for u, value in relaxed.values.items() if LEVELS[0] < value < LEVELS[-1]}
        return self._branch(case, open_) if open_ else self._settle(case, relaxed)

    def _relaxed(self, case: Case, left: list[Residue]) -> Relaxed:
        durations = self.covers.graph.durations
        paid = sum(durations[u] for u, again in case.decided.items() if again)
        return relax(left, durations, paid, _NEVER if self.target is None else self.target)

    def _violated(self, case: Case, relaxed: Relaxed) -> list[Cover]:
        """Inequalities that the solution of a relaxation violates."""
        values = np.zeros(len(self.covers.graph.nodes))
        for u, value in (*relaxed.values.items(), *case.decided.items()):
            values[u] = value
        tried = set()
        for level in LEVELS:
            again = values > level
            if again.tobytes() in tried:
                continue
            tried.add(again.tobytes())
            found = [one for one in self.covers.violated(again, self.stop) if _violates(one, case.decided, values)]
            if found:
                return found
        return []

    def _branch(self, case: Case, open_: dict[int, float]) -> tuple[Case, ...]:
        durations = self.covers.graph.durations
        u = max(open_, key=lambda u: (min(open_[u], 1 - open_[u]) * durations[u], u))
        case.branch = u
        case.below = tuple(Case({**case.decided, u: again}, case.bound, case.multipliers) for again in (False, True))
        return case.below

    def _settle(self, case: Case, relaxed: Relaxed) -> tuple[Case, ...]:
        """The solution is a choice of nodes that violates nothing: no bound is above its cost."""
        durations = self.covers.graph.durations
        cost = sum(durations[u] for u, value in (*relaxed.values.items(), *case.decided.items()) if value > 0.5)
        if self.target is None or cost < self.target:
            self.target = cost
        if self._enough(case.bound):
            return ()
        return self._branch(case, {u: value for u, value in relaxed.values.items() if value > 0.5})  # duals fall short


def _violates(cover: Cover, decided: Decided, values: np.ndarray) -> bool:
    left = residues([cover], decided)
    return any(float(one.weights @ values[one.nodes]) < one.demand * (1 - 1e-6) for one in left)


def in_order(top: Case, enough: int = _NEVER) -> list[Case]:
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
    return None if bounds[top] >= _NEVER else bounds[top]
