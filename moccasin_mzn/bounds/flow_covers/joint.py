"""Schedules in any order, seen at a few moments together: a 0-1 relaxation.

Moments are first computations of some nodes and last recomputations of others. For each moment p and node u::

    x[u]  u was computed before p        h[u]  a copy of it is in memory at p
    a[u]  x, and u is recomputed after p

as in `cuts`, where a and h may now both be true. Besides what `cuts` states of one moment, for two where p comes
before q

    what was computed before p was so before q,
    what is in memory at q was there at p, or is computed after p,
    what is recomputed after q is so after p, unless it is computed between them for the first time,
    what was computed before p, is in memory at q but not at p, and is recomputed after q, is computed three times.

Which of two moments comes first is left open. A schedule that computes nothing to no use, and keeps outputs of size 0,
gives values to all of these; the cost is the duration of what is computed more than once, and once more of what is
computed more than twice.

The moment of the last recomputation of a node that is computed once only lies at the end: everything is computed, and
nothing is in memory or recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np

from moccasin_mzn.bounds.flow_covers.cuts import INFINITE, Moments
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.solvers.program import YES, Literal, Program

LARGEST_SUM = 2**30
"""Limit of the sum of sizes in one row; larger ones are divided and rounded down, which only makes room."""


@dataclass
class Moment:
    """Literals by node, see above."""

    node: int
    last: bool
    """Is it the last recomputation, not the first computation?"""
    x: list[Literal]
    h: list[Literal]
    a: list[Literal]


@dataclass
class Joint(Program):
    """The relaxation for a budget and chosen moments."""

    moments: Moments
    budget: int
    again: list[Literal] = field(default_factory=list)
    """By node: computed more than once?"""
    thrice: list[Literal] = field(default_factory=list)
    """By node: computed more than twice? YES: it costs nothing."""
    seen: list[Moment] = field(default_factory=list)
    before: dict[tuple[int, int], Literal] = field(default_factory=dict)
    """By positions in `seen`: does the one come before the other?"""

    @classmethod
    def of(
        cls, moments: Moments, budget: int, firsts: list[int], lasts: list[int], most: Sequence[int] | None = None,
        counted: bool = True,
    ) -> Joint:  # fmt: skip
        """Columns and constraints for the first computations and last recomputations of these nodes.

        Args:
            most: by node, how often it may be computed; None: as often as it takes. Only limits of 1 and 2 matter.
            counted: do third computations cost? That makes a fourth more rows, and rarely a larger bound.
        """
        joint, graph = cls(moments, budget), moments.graph
        for u, size in enumerate(graph.sizes):
            useful, limit = bool(size and graph.successors[u]), 3 if most is None else most[u]
            joint.again.append(joint.column(moments.duration[u]) if useful and limit > 1 else None)
            free = YES if useful and limit > 2 else None
            joint.thrice.append(joint.column(moments.duration[u]) if counted and free == YES else free)
            if counted:
                joint.row([(joint.thrice[u], 1), (joint.again[u], -1)], 0)
        for v in firsts:
            joint._add(joint._first(v))
        for w in lasts:
            if joint.again[w] is not None:
                joint._add(joint._last(w))
        for p, q in combinations(range(len(joint.seen)), 2):
            joint._order(p, q)
        for p, q in permutations(range(len(joint.seen)), 2):
            if not joint._linked_by_others(p, q):
                joint._link(p, q)
        return joint

    # --- one moment --------------------------------------------------------------------------------------

    def _first(self, v: int) -> Moment:
        moment, inputs = self._moment(v, False, *self.moments.network.sides(v)), self.moments.graph.predecessors[v]
        for u in inputs:
            moment.h[u] = YES
        return moment

    def _last(self, w: int) -> Moment:
        before, _ = self.moments.network.reach(w)
        before[w] = True
        moment = self._moment(w, True, before, np.zeros(len(before), bool))
        moment.a[w] = None
        for u in (w, *self.moments.graph.predecessors[w]):
            moment.h[u] = self.again[w] if self.moments.graph.sizes[u] else YES
        return moment

    def _moment(self, node: int, last: bool, before: np.ndarray, after: np.ndarray) -> Moment:
        x = [YES if b else None if a else self.column() for b, a in zip(before, after, strict=True)]
        moment = Moment(node, last, x, [], [])
        for u, size in enumerate(self.moments.graph.sizes):
            possible = x[u] is not None and bool(self.moments.graph.successors[u])
            moment.h.append((self.column() if size else x[u]) if possible else None)
            moment.a.append(self.column() if possible and self.again[u] is not None else None)
        return moment

    def _add(self, moment: Moment) -> None:
        graph, (x, h, a) = self.moments.graph, (moment.x, moment.h, moment.a)
        for u in range(len(x)):
            self.row([(h[u], 1), (x[u], -1)], 0)
            self.row([(a[u], 1), (x[u], -1)], 0)
            self.row([(a[u], 1), (self.again[u], -1)], 0)
        for u, w in self.moments.network.earlier:
            self.row([(x[w], 1), (x[u], -1)], 0)
        for u, w in graph.edges:
            self.row([(x[w], 1), (x[u], -1)], 0)
            self.row([(x[u], 1), (x[w], -1), (a[w], 1), (h[u], -1), (a[u], -1)], 0)
        workspace = graph.workspace_of[moment.node]
        room = self.budget - (workspace if moment.last else self.moments.own[moment.node])
        by = math.gcd(*graph.sizes) or 1  # costs nothing
        by *= max(1, -(-graph.total_size // (by * LARGEST_SUM)))
        self.row([(literal, size // by) for literal, size in zip(h, graph.sizes, strict=True)], room // by)
        if moment.last:  # whoever reads it then
            readers = graph.successors[moment.node]
            reads = [(literal, sign) for y in readers for literal, sign in ((x[y], 1), (a[y], -1))]
            self.row([(self.again[moment.node], 1), *reads], len(readers))
        self.seen.append(moment)

    # --- two moments -------------------------------------------------------------------------------------

    def _order(self, p: int, q: int) -> None:
        """Which of the two comes first."""
        one, other = self.seen[p], self.seen[q]
        forth = self.column() if other.last and one.last else other.x[one.node]
        back = self.column() if other.last else one.x[other.node]
        self.row([(forth, 1), (back, 1)], 1)
        self.row([(forth, -1), (back, -1)], -1)
        self.before[p, q], self.before[q, p] = forth, back
        for (first, second), comes in (((one, other), forth), ((other, one), back)):
            if second.last:
                w = second.node
                self.row([(first.a[w], 1), (comes, -1)], 0)
                terms = [(first.x[w], 1), (comes, 1), (self.again[w], 1), (first.a[w], -1)]
                active = [(self.again[first.node], 1)] if first.last else []
                self.row(terms + active, 2 + len(active))

    def _linked_by_others(self, p: int, q: int) -> bool:
        """Does another moment always lie between the two? What links both to it links them to each other."""
        between = (r for r in range(len(self.seen)) if r not in (p, q))
        return any(self.before[p, r] == YES == self.before[r, q] for r in between)

    def _link(self, p: int, q: int) -> None:
        one, other, comes = self.seen[p], self.seen[q], self.before[p, q]
        if comes is None:
            return
        for z in range(len(one.x)):
            new = [(other.x[z], -1), (one.x[z], 1), (comes, 1)]
            self.row(new, 1)
            self.row([(other.h[z], 1), (one.h[z], -1), (one.a[z], -1), *new], 1)
            self.row([(other.a[z], 1), (one.a[z], -1), *new], 1)
            if self.again[z] is not None and self.thrice[z] != YES:  # made between the two, and again later
                made = [(other.h[z], 1), (one.h[z], -1), (one.x[z], 1), (comes, 1)]
                self.row([(other.a[z], 1), *made, (self.again[z], -1), (self.thrice[z], -1)], 2)


# --- Moments that a solution of the joint relaxation does not see, and does not fit ---------------------------

# The sets of what is computed before each moment that is seen confine those of all others: another moment lies after
# some of them and before the rest. Between these sets, and with no more recomputations than the solution has left after
# the moments before, the least memory is a minimum cut. It proves nothing of other solutions, but shows where to look.


class Solution:
    """The values of a solution at each moment: bool[k, n] of x, h and a, and bool[n] of what is recomputed."""

    def __init__(self, joint: Joint, values: tuple[bool, ...]) -> None:
        def true(literals: list[Literal]) -> Array:
            return np.array([literal == YES or (literal is not None and values[literal]) for literal in literals], bool)

        self.joint, self.moments = joint, joint.moments
        self.again = true(joint.again)
        self.x = [true(moment.x) for moment in joint.seen]
        self.a = [true(moment.a) for moment in joint.seen]

    def excess(self, node: int, last: bool) -> int:
        """By how much memory at a moment exceeds the budget at least, if it has to lie between those that are seen."""
        network, graph = self.moments.network, self.moments.graph
        before, after = network.reach(node)
        if last:
            before[node] = True
            after[:] = False
        else:
            after[node] = True
        free = self.again.copy()
        for moment, x, a in zip(self.joint.seen, self.x, self.a, strict=True):
            done = bool(a[node]) if last and x[node] else not x[node]  # is the moment seen before the other one?
            if done:
                before |= x
                before[moment.node] = True
                free &= a | ~x
            else:
                after |= ~x
        after &= ~before  # a solution may leave open what only both together rule out
        resident, room = list(graph.predecessors[node]), self.joint.budget
        if last:
            resident.append(node)
            room -= graph.workspace_of[node]
            free[node] = False
        else:
            room -= self.moments.own[node]
        memory = network.least(before, after, resident, np.where(free, 0, INFINITE), self.moments.size)
        return memory - room

    def worst(self, most: int, over: Callable[[], bool], firsts: bool) -> tuple[list[int], list[int]]:
        """First computations and last recomputations that exceed the budget by most or have least room, `most` of each.

        Args:
            firsts: first computations alone, if one exceeds the budget. A last recomputation is compared with all other
                moments in both orders, which makes ten times as many rows.
        """
        seen = {(moment.node, moment.last) for moment in self.joint.seen}
        lasts = [w for w in np.flatnonzero(self.again).tolist() if self.joint.again[w] is not None]
        found = []
        for node, last in [*((v, False) for v in range(len(self.again))), *((w, True) for w in lasts)]:
            if over():
                break
            if (node, last) not in seen:
                found.append((self.excess(node, last), node, last))
        found.sort(reverse=True)
        chosen = ([one for one in found if firsts and one[0] > 0 and not one[2]] or found)[:most]
        return [v for _, v, last in chosen if not last], [w for _, w, last in chosen if last]
