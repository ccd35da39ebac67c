"""Which first computations precede others in every schedule that is shorter than a known one.

Suppose that u is computed before v for the first time. Then so are the ancestors of u, and at the first computation of
v more is known; at that of u as well, where v and its descendants are still to come. If one of these moments alone then
costs as much as the known schedule, v precedes u in all that are shorter. What is learned makes all moments say more,
and may refute other orders in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from moccasin_mzn.bounds.flow_covers.cuts import Moments
from moccasin_mzn.bounds.flow_covers.network import MomentNetwork
from moccasin_mzn.graphs.arrays import Array


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
        of those either of which it says less.
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
