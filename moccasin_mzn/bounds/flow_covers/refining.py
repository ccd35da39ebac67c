"""Which moments a solution of the joint relaxation does not fit, though it does not see them.

The sets of what is computed before each moment that is seen confine those of all others: another moment lies after
some of them and before the rest. Between these sets, and with no more recomputations than the solution has left after
the moments before, the least memory is a minimum cut. It proves nothing of other solutions, but tells where to look.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moccasin_mzn.bounds.flow_covers.joint import Joint
from moccasin_mzn.bounds.flow_covers.network import INFINITE
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.solvers.program import YES, Literal


class Solution:
    """What a solution says of each moment: bool[k, n] of x, h and a, and bool[n] of what is computed again."""

    def __init__(self, joint: Joint, values: tuple[bool, ...]) -> None:
        def told(literals: list[Literal]) -> Array:
            return np.array([literal == YES or (literal is not None and values[literal]) for literal in literals], bool)

        self.joint, self.moments = joint, joint.moments
        self.again = told(joint.again)
        self.x = [told(moment.x) for moment in joint.seen]
        self.a = [told(moment.a) for moment in joint.seen]

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
        """First computations and last recomputations that exceed the budget by most or have least room, so many.

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
