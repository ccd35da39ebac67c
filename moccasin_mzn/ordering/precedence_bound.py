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

from moccasin_mzn.arrays import Array, GraphArrays
from moccasin_mzn.ordering.cut_bound import CutBound


class PrecedenceBound:
    """Refutes limits by precedences between a few nodes.

    Args:
        cuts: of the same graph.
        nodes: those to look at, numbers of the arrays; the more, the stronger and the slower.
    """

    def __init__(self, arrays: GraphArrays, cuts: CutBound, nodes: Sequence[int]) -> None:
        self._size, self._cuts, self._nodes = arrays.size, cuts, nodes
        self._ancestors = {v: cuts.reach(v)[0] for v in nodes}
        self._descendants = {v: cuts.reach(v)[1] for v in nodes}

    def refutes(self, limit: int, stop: Callable[[], bool]) -> bool:
        """True if every order has a peak above `limit`; False if that could not be shown, or was not in time."""
        before = {v: row.copy() for v, row in self._ancestors.items()}
        after = {v: row.copy() for v, row in self._descendants.items()}
        news = True
        while news:
            news = False
            for v in self._nodes:
                if self._above(v, limit, before[v], after[v]):
                    return True
            for x, y in self._open_pairs(before):
                if stop():
                    return False
                if before[x][y] or before[y][x]:
                    continue  # settled meanwhile
                for first, second in ((x, y), (y, x)):
                    if self._refused(first, second, limit, before, after):
                        _put(second, first, before, after)
                        news = True
                        break
        return False

    def _open_pairs(self, before: dict[int, Array]) -> list[tuple[int, int]]:
        nodes = self._nodes
        pairs = [(x, y) for k, x in enumerate(nodes) for y in nodes[:k]]
        return [(x, y) for x, y in pairs if not before[x][y] and not before[y][x]]

    def _refused(self, first: int, second: int, limit: int, before: dict[int, Array], after: dict[int, Array]) -> bool:
        """True if no order within the limit has `first` before `second`."""
        later = after[first] | after[second]
        later[second] = True
        if self._above(first, limit, before[first], later):
            return True
        earlier = before[first] | before[second]
        earlier[first] = True
        return self._above(second, limit, earlier, after[second])

    def _above(self, v: int, limit: int, before: Array, after: Array) -> bool:
        room = limit - int(self._size[v])
        return room < 0 or self._cuts.between(before, after, v, room + 1) > room


def _put(first: int, second: int, before: dict[int, Array], after: dict[int, Array]) -> None:
    """Add the precedence of `first` before `second`, and all that follow from it."""
    earlier, later = before[first].copy(), after[second].copy()
    earlier[first] = later[second] = True
    for v in before:
        if later[v]:
            before[v] |= earlier
    for v in after:
        if earlier[v]:
            after[v] |= later


def promising(cuts: CutBound, memory: Sequence[int], number: int, stop: Callable[[], bool]) -> list[int]:
    """Up to `number` nodes of the largest cuts, among four times as many of the largest memory in some order.

    Args:
        memory: while each node of the arrays is computed.
    """
    largest = sorted(range(len(memory)), key=lambda v: -memory[v])[: 4 * number]
    known = [(cuts.at(v), -v) for v in largest if not stop()]
    return [-v for _, v in sorted(known, reverse=True)[:number]]
