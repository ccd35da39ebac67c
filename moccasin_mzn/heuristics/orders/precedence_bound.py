"""A stronger lower bound on the peak of orders: precedences that a limit forces, and the cuts they raise.

For a limit, suppose that x comes before y, two nodes of which neither is an ancestor of the other. Then while x is
computed neither y nor a descendant of y is, and while y is computed x and its ancestors are: the minimum cuts of
`cut_bound` for x and y have more sinks and more sources. If one of them is above the limit, every order within the
limit has y before x. That becomes a precedence for all further cuts, and so on. If both ways are refused, or the cut
of a node is above the limit, no order is within the limit::

    limit 10        x before y:  cut of x  8, cut of y 12    refused, so y before x from now on
                    y before z:  cut of y 11                 refused, so z before y, and z before x
                    z:           cut of z 11                 no order has a peak of 10 or less

Precedences count as ancestors and descendants. They free nothing: outputs are freed by their readers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from moccasin_mzn.heuristics.orders.cut_bound import CutBound


class Forced(NamedTuple):
    """A precedence that a limit forces, and so does every smaller one."""

    limit: int
    first: int
    second: int


class PrecedenceBound:
    """Refutes limits by precedences between a few nodes.

    Args:
        cuts: of the graph.
        nodes: those to look at, numbers of the arrays; the more, the stronger and the slower.
        forced: precedences that are known already; new ones are added.
    """

    def __init__(self, cuts: CutBound, nodes: Sequence[int], forced: list[Forced]) -> None:
        self._cuts, self._nodes, self._forced = cuts, nodes, forced
        self._reach = {v: cuts.reach(v) for v in nodes}

    def refutes(self, limit: int, stop: Callable[[], bool]) -> bool:
        """True if every order has a peak above `limit`; False if that could not be shown, or was not in time."""
        known = _Precedences(self._reach)
        for one in self._forced:
            if one.limit >= limit and one.first in self._reach and one.second in self._reach:
                known.put(one.first, one.second)
        news = True
        while news:
            news = False
            for v in self._nodes:
                if not self._cuts.possible(known.before[v], known.after[v], v, self._room(v, limit)):
                    return True
            for x, y in self._open_pairs(known):
                if stop():
                    return False
                if known.settled(x, y):
                    continue  # meanwhile
                for first, second in ((x, y), (y, x)):
                    if self._refused(first, second, limit, known):
                        known.put(second, first)
                        self._forced.append(Forced(limit, second, first))
                        news = True
                        break
        return False

    def _open_pairs(self, known: _Precedences) -> list[tuple[int, int]]:
        nodes = self._nodes
        return [(x, y) for k, x in enumerate(nodes) for y in nodes[:k] if not known.settled(x, y)]

    def _refused(self, first: int, second: int, limit: int, known: _Precedences) -> bool:
        """True if no order within the limit has `first` before `second`."""
        before, after, room = known.before, known.after, self._room
        later = after[first] | after[second] | 1 << second
        if not self._cuts.possible(before[first], later, first, room(first, limit)):
            return True
        earlier = before[first] | before[second] | 1 << first
        return not self._cuts.possible(earlier, after[second], second, room(second, limit))

    def _room(self, v: int, limit: int) -> int:
        return limit - self._cuts.size(v)


class _Precedences:
    """What comes before and after each of some nodes, as sets of bits."""

    def __init__(self, reach: dict[int, tuple[int, int]]) -> None:
        self.before = {v: ancestors for v, (ancestors, _) in reach.items()}
        self.after = {v: descendants for v, (_, descendants) in reach.items()}

    def settled(self, x: int, y: int) -> bool:
        """True if it is known which of them comes first."""
        return bool((self.before[x] >> y | self.before[y] >> x) & 1)

    def put(self, first: int, second: int) -> None:
        """Add the precedence of `first` before `second`, and all that follow from it."""
        earlier, later = self.before[first] | 1 << first, self.after[second] | 1 << second
        for v in self.before:
            if later >> v & 1:
                self.before[v] |= earlier
            if earlier >> v & 1:
                self.after[v] |= later


def promising(cuts: CutBound, memory: Sequence[int], number: int, stop: Callable[[], bool]) -> list[int]:
    """Up to `number` nodes of the largest cuts, among four times as many of the largest memory in some order.

    Args:
        memory: while each node of the arrays is computed.
    """
    largest = sorted(range(len(memory)), key=lambda v: -memory[v])[: 4 * number]
    known = [(cuts.at(v), -v) for v in largest if not stop()]
    return [-v for _, v in sorted(known, reverse=True)[:number]]
