"""A lower bound on the least feasible budget, for any order and any number of computations.

Let all outputs of a set S be in memory together. The one of S that was computed last, p, was computed while the rest of
S was held, so S and the inputs of p were in memory together then, and the rest of S and the inputs of p just before:

::

    S = {a, p}                  p computed last: a, p and the inputs of p fit
    S' = {a} + inputs of p      were there just before, and so on down to the empty set

Whatever p is, the memory for S is at least the largest set met on some such way, on the way where that is least: a
shortest path by its largest step. From S = a node and its inputs it is exactly the least memory that computes the
node alone.
"""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import sums_of_ranges

_NODES = 64
"""Tried, in order of working set; the others rarely need more."""
_WORK = 2_000_000
"""Elements of sets handled in all, so that large graphs take seconds."""


@dataclass(frozen=True)
class LeastBudget:
    """No schedule fits less."""

    memory: int
    """In the graph's size unit."""
    node: int
    """The computation of this node, a position in `graph.nodes`, needs that much."""


@functools.lru_cache(maxsize=4)  # a sweep over budgets asks for each
def least_budget_bound(
    graph: ComputationGraph, enough: int = 0, *, nodes: int = _NODES, work: int = _WORK
) -> LeastBudget:
    """The largest of the bounds for single nodes: working sets for all, the search for the most promising ones.

    Args:
        enough: bounds up to this are of no interest, and are found faster.
        nodes: how many to search from.
        work: elements of sets handled in all searches together; what is left for a node is shared evenly.
    """
    working = [graph.working_set(v) for v in range(len(graph.nodes))]
    candidates = heapq.nlargest(nodes, range(len(working)), key=lambda v: (working[v], -v))
    best = LeastBudget(working[candidates[0]], candidates[0])
    for number, v in enumerate(candidates):
        memory, used = _memory_of(graph, v, max(enough, best.memory), work // (len(candidates) - number))
        work = max(0, work - used)
        if memory > max(enough, best.memory):
            best = LeastBudget(memory, v)
    return best


def held_bound(instance: Instance) -> int:
    """No schedule with first computations in the input order fits less, in the graph's size unit.

    Each stage holds the inputs and the output of its node, and what may be computed only once and is read later.
    """
    graph, stage = instance.graph, {v: k for k, v in enumerate(instance.order)}
    once = [count == 1 for count in instance.max_computations]
    lives = ((k, max((stage[x] for x in graph.successors[v]), default=k)) for v, k in stage.items())
    held = sums_of_ranges([graph.sizes[v] * once[v] for v in instance.order], lives)
    here = (sum(graph.sizes[u] for u in (v, *graph.predecessors[v]) if not once[u]) for v in instance.order)
    return max(map(sum, zip(held, here, strict=True)))


def _memory_of(graph: ComputationGraph, node: int, enough: int, work: int) -> tuple[int, int]:
    """(bound on the memory to compute `node`, work done); a bound up to `enough` is not told from `enough`.

    A search for the way with the least largest set. Sets only ever grow towards the bound: when work runs out, the
    least of the open ones is the bound.
    """
    start = frozenset((node, *graph.predecessors[node]))
    open_sets = [(max(enough, _memory(graph, start)), len(start), 0, start)]
    done: set[frozenset[int]] = set()
    used = tie = 0
    while open_sets:
        bound, _, _, together = heapq.heappop(open_sets)
        if not together or used > work:
            return bound, used
        if together in done:
            continue
        done.add(together)
        here = _memory(graph, together)
        for last in together:
            if last != node and node in together:
                continue  # the node itself comes last: nothing of the set reads it
            inputs = [u for u in graph.predecessors[last] if u not in together]
            before = (together - {last}).union(inputs)
            used += len(before) + 1
            if before in done:
                continue
            tie += 1
            needed = max(bound, here + sum(graph.sizes[u] for u in inputs))
            heapq.heappush(open_sets, (needed, len(before), tie, before))
    return enough, used


def _memory(graph: ComputationGraph, together: frozenset[int]) -> int:
    return sum(graph.sizes[u] for u in together)
