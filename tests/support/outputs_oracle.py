"""Operations with several outputs, and brute force on tiny ones: straight from the definition, over resident outputs.

Of the package nothing is used but the graph that an example is written as. States are what `oracle` has, with outputs
for nodes: an operation makes all its outputs at once, each of which may be dropped at any later time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from moccasin_mzn.graphs.graph import ComputationGraph


@dataclass(frozen=True)
class Operations:
    """Operations along their input order; all outputs are numbered, operation by operation."""

    durations: tuple[int, ...]
    workspaces: tuple[int, ...]
    outputs: tuple[tuple[int, ...], ...]
    """The numbers of the outputs of each operation; the first takes memory, or none does."""
    sizes: tuple[int, ...]
    """Of each output."""
    inputs: tuple[frozenset[int], ...]
    """The outputs that each operation reads."""

    @property
    def graph(self) -> ComputationGraph:
        """A node for each output."""
        of = [v for v, row in enumerate(self.outputs) for _ in row]
        first = [row[0] for row in self.outputs]
        return ComputationGraph(
            nodes=[f"{v}.{o - first[v]}" for o, v in enumerate(of)],
            durations=[self.durations[v] if first[v] == o else 0 for o, v in enumerate(of)],
            sizes=self.sizes,
            edges=[(o, first[v]) for v, row in enumerate(self.inputs) for o in sorted(row)],
            order=range(len(of)),
            workspaces=[self.workspaces[v] if first[v] == o else 0 for o, v in enumerate(of)],
            output_of=[None if first[v] == o else first[v] for o, v in enumerate(of)],
        )

    def peak_once(self) -> int:
        """The peak of the input order, each operation once."""
        return self.peak_of(list(range(len(self.durations))))

    def peak_of(self, done: list[int]) -> int:
        """The peak of a sequence of operations: an output is resident while it will be read before it is made anew."""
        peak, resident = 0, set[int]()
        for t, v in enumerate(done):
            here = resident | self.inputs[v] | set(self.outputs[v])
            peak = max(peak, sum(self.sizes[o] for o in here) + self.workspaces[v])
            resident = {o for o in here if self._is_read(o, done[t + 1 :])}
        return peak

    def _is_read(self, o: int, rest: list[int]) -> bool:
        for v in rest:
            if o in self.inputs[v]:
                return True
            if o in self.outputs[v]:
                return False
        return False


def draw_operations(seed: int, most: int = 5) -> tuple[Operations, int, int]:
    """Operations, a budget that some schedule may meet, and how often each may be computed."""
    rng = random.Random(seed)
    n, dense = rng.randint(2, most), rng.choice([0.3, 0.5])
    outputs, sizes = [], list[int]()
    for _ in range(n):
        of = 1 if rng.random() < 0.4 else rng.randint(2, 3)
        outputs.append(tuple(range(len(sizes), len(sizes) + of)))
        sizes += [rng.randint(0, 9) for _ in range(of)]
        if any(sizes[-of:]) and not sizes[-of]:
            sizes[-of] = rng.randint(1, 9)
    inputs = [
        frozenset(o for u in range(v) for o in outputs[u] if rng.random() < (0.8 if u == v - 1 else dense))
        for v in range(n)
    ]
    found = Operations(
        durations=tuple(rng.randint(0, 9) for _ in range(n)),
        workspaces=tuple(rng.choice([0, 0, rng.randint(0, 6)]) for _ in range(n)),
        outputs=tuple(outputs),
        sizes=tuple(sizes),
        inputs=tuple(inputs),
    )
    least = max(sum(found.sizes[o] for o in {*found.inputs[v], *outputs[v]}) + found.workspaces[v] for v in range(n))
    return found, max(1, rng.randint(least - 1, max(least, found.peak_once()))), rng.choice([1, 2, 2, 2, 3])


def overwriting_outputs(operations: Operations, seed: int) -> ComputationGraph:
    """The graph run in place: some operations may overwrite inputs that are large enough, the first or further ones."""
    graph, rng = operations.graph, random.Random(f"in place {seed}")
    first = {row[0] for row in operations.outputs}
    rows = [
        [u for u in inputs if v in first and graph.sizes[u] >= graph.sizes[v] and rng.random() < 0.7]
        for v, inputs in enumerate(graph.predecessors)
    ]
    return replace(graph, in_place=rows, runs_in_place=True)


def draw_sequence(operations: Operations, rng: random.Random, again: float = 0.3) -> list[int]:
    """A schedule in stages of the input order, nodes of the graph: of what is made again some outputs are dropped."""
    found, seen = list[int](), set[int]()
    for k in range(len(operations.durations)):
        for v in (*(u for u in range(k) if rng.random() < again), k):
            first, *others = operations.outputs[v]
            found += [first, *(o for o in others if v not in seen or rng.random() < 0.6)]
            seen.add(v)
    return found


def least_duration(operations: Operations, budget: int, most: int, free_order: bool) -> int | None:
    """By Dijkstra over resident outputs and counts, in stages of the input order or in any order; None: none fits."""
    n, tie = len(operations.durations), count()
    heap = [(0, next(tie), frozenset[int](), (0,) * n, 0, -1)]
    done = set()
    while heap:
        extra, _, resident, counts, stage, latest = heapq.heappop(heap)
        if all(counts):
            return extra + sum(operations.durations)
        if (resident, counts, latest) in done:
            continue
        done.add((resident, counts, latest))
        for v in range(n) if free_order else range(latest + 1, stage + 1):
            cost = operations.durations[v] if counts[v] else 0
            if counts[v] == most or not operations.inputs[v] <= resident:
                continue
            after = (*counts[:v], counts[v] + 1, *counts[v + 1 :])
            ends = not free_order and v == stage
            for kept in _fitting(operations, resident, v, budget):
                heapq.heappush(heap, (
                    extra + cost, next(tie), kept, after, stage + ends, -1 if ends or free_order else v,
                ))  # fmt: skip
    return None


def _fitting(operations: Operations, resident: frozenset[int], v: int, budget: int) -> Iterator[frozenset[int]]:
    """What may be resident after computing `v`: the inputs, all outputs, and any others that fit."""
    held = operations.inputs[v] | frozenset(operations.outputs[v])
    spare = sorted(resident - held)
    for chosen in range(2 ** len(spare)):
        kept = held | {o for k, o in enumerate(spare) if chosen >> k & 1}
        if sum(operations.sizes[o] for o in kept) + operations.workspaces[v] <= budget:
            yield kept


def least_peak(operations: Operations) -> int:
    """The least peak of any order that computes each operation once, by Dijkstra over sets of what is computed."""
    n = len(operations.durations)
    makers = {o: v for v, row in enumerate(operations.outputs) for o in row}
    heap, done = [(0, 0)], set[int]()
    while heap:
        peak, computed = heapq.heappop(heap)
        if computed == 2**n - 1:
            return peak
        if computed in done:
            continue
        done.add(computed)
        waiting = [v for v in range(n) if not computed >> v & 1]
        resident = {o for v in waiting for o in operations.inputs[v] if computed >> makers[o] & 1}
        for v in waiting:
            if all(computed >> makers[o] & 1 for o in operations.inputs[v]):
                here = (
                    sum(operations.sizes[o] for o in resident | set(operations.outputs[v])) + operations.workspaces[v]
                )
                heapq.heappush(heap, (max(peak, here), computed | 1 << v))
    raise AssertionError("the operations can be computed in some order")
