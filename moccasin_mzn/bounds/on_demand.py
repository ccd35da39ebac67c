"""A schedule by construction, where the budget is enough for it: each node is computed on demand.

::

    stage 4 needs b, which is not in memory     get(b): get its inputs, one after the other, each stays until b is there
    memory is short                             what is read again last, and is not needed by that, is dropped

The inputs that need the most beyond their own size come first. So it succeeds with `enough_budget` and any number of
computations, and mostly with much less.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from moccasin_mzn.bounds.least_budget import memory_anew
from moccasin_mzn.problem.instance import MOST_COMPUTATIONS, Instance

WORK = 500_000
"""Outputs looked at in total, after which it gives up, within about a second."""


def on_demand(instance: Instance) -> tuple[int, ...] | None:
    """Return a schedule in stages of the input order, positions in `graph.nodes`; None: none was constructed."""
    construction = _Construction(instance)
    done = all(construction.compute(stage, v) for stage, v in enumerate(instance.order))
    return tuple(construction.sequence) if done else None


def with_any_computations(instance: Instance) -> Instance:
    """Return the instance in which all nodes may be computed any number of times, but for those allowed only one."""
    any_number = tuple(count if count == 1 else MOST_COMPUTATIONS for count in instance.max_computations)
    return replace(instance, max_computations=any_number)


class _Construction:
    def __init__(self, instance: Instance) -> None:
        self.instance, self.graph = instance, instance.graph.run_in_place(False)
        anew, sizes, stage = memory_anew(self.graph), self.graph.sizes, {v: k for k, v in enumerate(instance.order)}
        self.inputs = [sorted(row, key=lambda u: (sizes[u] - anew[u], u)) for row in self.graph.predecessors]
        self.reads = [sorted(stage[x] for x in row) for row in self.graph.successors]
        self.sequence: list[int] = []
        self.computed: Counter[int] = Counter()
        self.resident: set[int] = set()
        self.pinned: Counter[int] = Counter()
        self.used, self.work = 0, 0

    def compute(self, stage: int, node: int) -> bool:
        """Compute a node for the first time, after what it needs; return False if that is not possible."""
        open_nodes = [(node, 0)]
        while open_nodes:
            v, count = open_nodes.pop()
            if count < len(self.inputs[v]):
                u = self.inputs[v][count]
                open_nodes.append((v, count + (u in self.resident)))
                if u in self.resident:
                    self.pinned[u] += 1
                else:
                    open_nodes.append((u, 0))
            elif not self._computed(stage, v):
                return False
        return True

    def _computed(self, stage: int, v: int) -> bool:
        graph, size = self.graph, self.graph.sizes[v]
        if self.computed[v] == self.instance.max_computations[v]:
            return False
        own = graph.working_set(v) - sum(graph.sizes[u] for u in graph.predecessors[v])
        if not self._freed(stage, self.used + own - self.instance.budget):
            return False
        self.sequence.append(v)
        self.computed[v] += 1
        self.resident.add(v)
        self.used += size
        self.pinned.subtract(graph.predecessors[v])
        return True

    def _freed(self, stage: int, amount: int) -> bool:
        """Drop outputs until so much memory is free, those first that are read again last."""
        sizes, most = self.graph.sizes, self.instance.max_computations
        if amount > 0:
            self.work += len(self.resident)
            found = [(self._next_read(stage, u), sizes[u], u) for u in self.resident if sizes[u] and not self.pinned[u]]
            for read, size, u in sorted(found, reverse=True):
                if amount > 0 and (read == math.inf or self.computed[u] < most[u]):
                    self.resident.discard(u)
                    self.used -= size
                    amount -= size
        return amount <= 0 and self.work < WORK

    def _next_read(self, stage: int, u: int) -> float:
        reads: Sequence[int] = self.reads[u]
        at = bisect_left(reads, stage)
        return reads[at] if at < len(reads) else math.inf
