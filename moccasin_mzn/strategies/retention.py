"""Outputs retained in memory instead of being recomputed, where there is room."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.strategies.strategy import Stop

_NOTHING = -(2**62)
"""Memory at a dropped position: below all that may be added to it."""


def retained(graph: ComputationGraph, sequence: Sequence[int], limit: int, stop: Stop) -> tuple[int, ...]:
    """`sequence` without the recomputations that become needless if outputs stay in memory up to `limit`.

    A recomputation is needless if there is room for the previous copy from its last read to there. What nothing reads
    any more for that reason is not computed either, and makes room itself. First come those that save most duration for
    the memory they hold, in size units times positions; until nothing is left to hold. ::

        position     1  2  3  4  5  6                          1  2  3     6
        computed     a  b  c  a  b  d        retaining b       a  b  c     d      a was recomputed for b only
        b           [   ====]    [====]      from 3 to 6      [   ==========]

    The result is no longer, and its peak is no higher, or at most `limit`. A further output is retained on its own; the
    first one of an operation is computed as long as a further one is listed after it. What is retained is not
    overwritten: in place, that takes memory where its last reader did so.

    Args:
        sequence: computes every node, inputs first; positions in `graph.nodes`. Further outputs are moved to their
            first ones.
        limit: in the graph's size unit.
        stop: when true, the rest stays as it is.
    """
    sequence = graph.together(sequence)
    copies = _Copies(graph, sequence)
    waiting = [t for t in range(len(sequence)) if copies.previous(t) is not None]
    found = True
    while found:
        waiting.sort(key=copies.worth, reverse=True)
        found = False
        for t in waiting:
            if stop():
                return copies.remaining()
            copy = copies.previous(t)
            if copy is not None:  # else it has been dropped meanwhile
                found |= copies.retain(t, copy, limit)
        waiting = [t for t in waiting if copies.previous(t) is not None]
    return copies.remaining()


class _Needless(NamedTuple):
    """What is needless with a computation that is not made."""

    dropped: list[int]
    """Computations: itself first, then those that only served it."""
    reads: dict[int, list[int]]
    """What still reads the copies that they read."""
    freed: list[tuple[int, int, int]]
    """Where the memory of those copies is free then: first index, index after the last, size."""


class _Copies:
    """The copies of outputs that a sequence computes, named by the index in the sequence that computes them."""

    def __init__(self, graph: ComputationGraph, sequence: Sequence[int]) -> None:
        self._graph, self._sequence = graph, sequence
        self._dropped = [False] * len(sequence)
        self._reads: list[list[int]] = [[] for _ in sequence]  # ascending
        self._source: dict[tuple[int, int], int] = {}  # the copy of a node that is read at an index
        self._of_node: dict[int, list[int]] = {v: [] for v in sequence}  # ascending
        for t, v in enumerate(sequence):
            for u in graph.predecessors[v]:
                self._source[u, t] = latest = self._of_node[u][-1]
                self._reads[latest].append(t)
            self._of_node[v].append(t)
        change = np.zeros(len(sequence) + 1, np.int64)
        for t, v in enumerate(sequence):
            change[t] += graph.sizes[v]
            change[self._end(t)] -= graph.sizes[v]
        self._memory = np.cumsum(change)
        self._memory[:-1] += [graph.workspace_of[v] for v in sequence]
        self._spared = [0] * len(sequence)  # what a computation takes less, as it overwrites an input
        for t in range(len(sequence)) if graph.overwritable is not None else ():
            self._settle(t)

    def remaining(self) -> tuple[int, ...]:
        """The sequence without what was dropped."""
        return tuple(v for v, dropped in zip(self._sequence, self._dropped, strict=True) if not dropped)

    def previous(self, t: int) -> int | None:
        """The copy of the same node before copy t; None for a first and for a dropped one."""
        copies = self._of_node[self._sequence[t]]
        at = bisect_left(copies, t)
        return None if self._dropped[t] or at == 0 else copies[at - 1]

    def worth(self, t: int) -> float:
        """Duration saved for memory retained, if recomputation t were needless."""
        node, copy = self._sequence[t], self.previous(t)
        memory = 0 if copy is None else self._graph.sizes[node] * (t - self._end(copy))
        return self._graph.durations[node] / memory if memory > 0 else float("inf")

    def retain(self, t: int, copy: int, limit: int) -> bool:
        """Let the previous copy serve the reads of copy t, if there is room for it."""
        node, size = self._sequence[t], self._graph.sizes[self._sequence[t]]
        if self._makes_more(t):
            return False
        needless = self._needless(t)
        begin = self._end(copy)
        between = self._memory[begin:t].copy()
        for first, after, freed in needless.freed:
            between[max(0, first - begin) : max(0, after - begin)] -= freed
        if self._reads[t] and len(between) > 0 and int(between.max()) + size > limit:
            return False
        more = self._kept_from(begin - 1, copy) if self._reads[t] else 0
        if more and self._memory[begin - 1] + more > limit:
            return False
        for read in self._reads[t]:
            self._source[node, read] = copy
        if self._reads[t]:
            self._memory[begin:t] += size
            self._reads[copy] += self._reads[t]
        else:
            self._memory[t] -= size
        self._drop(needless)
        self._settle(begin - 1)
        return True

    def _makes_more(self, t: int) -> bool:
        """Is a further output listed after copy t, which comes with it?"""
        of = self._graph.output_of
        return of is not None and any(of[self._sequence[x]] == self._sequence[t] for x in self._reads[t])

    def _kept_from(self, t: int, copy: int) -> int:
        """What computation t takes more if it cannot overwrite a copy that it reads, nor any other input instead."""
        others = (source for source in self._overwritten(t) if source != copy)
        return 0 if next(others, None) is not None else self._spared[t]

    def _overwritten(self, t: int) -> Iterator[int]:
        """The copies that computation t may overwrite: it is the last that reads them."""
        v = self._sequence[t]
        for u in self._graph.overwritable[v] if self._graph.overwritable is not None else ():
            if self._reads[self._source[u, t]][-1] == t:
                yield self._source[u, t]

    def _settle(self, t: int) -> None:
        """See whether computation t overwrites an input, and count its memory accordingly."""
        spared = 0 if next(self._overwritten(t), None) is None else self._graph.sizes[self._sequence[t]]
        self._memory[t] += self._spared[t] - spared
        self._spared[t] = spared

    def _needless(self, t: int) -> _Needless:
        """What does nothing but serve t: copies that are read by nothing else, of nodes with other copies."""
        dropped, reads, gone = [t], dict[int, list[int]](), Counter([self._sequence[t]])
        for x in dropped:
            for u in self._graph.predecessors[self._sequence[x]]:
                copy = self._source[u, x]
                left = reads.setdefault(copy, self._reads[copy].copy())
                left.remove(x)
                if not left and len(self._of_node[u]) - gone[u] > 1:
                    gone[u] += 1
                    dropped.append(copy)
        needless = _Needless(dropped, reads, [])
        for copy, left in reads.items():
            first = left[-1] + 1 if left else copy if copy in dropped else copy + 1
            needless.freed.append((first, self._end(copy), self._graph.sizes[self._sequence[copy]]))
        return needless

    def _drop(self, needless: _Needless) -> None:
        for first, after, size in needless.freed:
            self._memory[first:after] -= size
        for copy, left in needless.reads.items():
            self._reads[copy] = left
        for t in needless.dropped:
            self._dropped[t] = True
            self._of_node[self._sequence[t]].remove(t)
            self._memory[t] += _NOTHING
        for left in needless.reads.values():
            if left and not self._dropped[left[-1]]:
                self._settle(left[-1])

    def _end(self, copy: int) -> int:
        """The index after the last read of a copy, or after its computation if nothing reads it."""
        return (self._reads[copy][-1] if self._reads[copy] else copy) + 1
