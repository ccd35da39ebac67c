"""A lower bound on the least feasible budget, for any order and any number of computations.

Let all outputs of a set S be in memory together. The one of S that was computed last, p, was computed while the rest of
S was retained, so S, the inputs of p and its workspace were in memory together then, and the rest of S and the inputs
of p just before:

::

    S = {a, p}                  p computed last: a, p and the inputs of p fit
    S' = {a} + inputs of p      were there just before, and so on down to the empty set

Whatever p is, the memory for S is at least the largest set met on some such way, on the way where that is least: a
shortest path by its largest step. From S = a node and its inputs it is exactly the least memory that computes the
node alone.

Where the graph runs in place, p may have overwritten one of its inputs, but none that is in S, which is still there; in
the beginning S is a node and its inputs, one of which it may overwrite.

There are many such ways where S is large, as are the gradients that a training step returns. So the memory for S, and
for each set on a way, is bounded at once. A lack of p is what p reads outside of S, and its workspace. Of those of S
whose lack is at least e, one is computed last, while all the others are in memory, and what it lacks is as well::

    S             a  b  c  d          gradients that stay, each computed at some moment for the last time
    lack of      90 90  5  5
    e = 90        a + b + 90          whichever of a and b comes later
    e = 5         a + b + c + d + 5

The largest of these sums, over all e, is needed in any order. A p that may overwrite an input lacks less by its size.

From above: compute a set one by one and each from nothing, as if the graph were a tree (Sethi and Ullman, "The
generation of optimal code for arithmetic expressions", 1970). Where that takes no more than a bound, the bound is met.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.stages import sums_of_ranges

_NODES = 64
"""Tried, in order of working set; the others rarely need more."""
_WORK, _WORK_PER_SECOND = 2_000_000, 200_000
"""Elements of sets handled in total, so that large graphs take seconds; fewer by this many per second of a time limit,
which takes a tenth of that or less."""


@dataclass(frozen=True)
class LeastBudget:
    """No schedule fits less."""

    memory: int
    """In the graph's size unit."""
    node: int
    """The computation of this node, a position in `graph.nodes`, needs that much."""


@functools.lru_cache(maxsize=16)  # a sweep over budgets asks for each
def least_budget_bound(
    graph: ComputationGraph, enough: int = 0, *, nodes: int = _NODES, work: int = _WORK
) -> LeastBudget:
    """The largest of the bounds for single nodes: working sets for all, the search for the most promising ones.

    Args:
        enough: bounds up to this are of no interest, and are mostly found at once.
        nodes: how many to search from.
        work: elements of sets handled in all searches together; what is left for a node is shared evenly.
    """
    working = _least_by_inputs(graph)
    anew = memory_anew(graph.run_in_place(False))
    largest = max(range(len(working)), key=lambda v: (working[v], -v))
    best = LeastBudget(working[largest], largest)
    open_nodes = (v for v, above in enumerate(anew) if above > max(enough, best.memory))
    candidates = heapq.nlargest(nodes, open_nodes, key=lambda v: (working[v], -v))
    for number, v in enumerate(candidates):
        memory, used = _memory_of(graph, anew, v, max(enough, best.memory), work // (len(candidates) - number))
        work = max(0, work - used)
        if memory > max(enough, best.memory):
            best = LeastBudget(memory, v)
    return best


def least_budget_within(graph: ComputationGraph, time_limit: float | None) -> LeastBudget:
    """`least_budget_bound` with work that goes with a time limit in seconds."""
    return least_budget_bound(
        graph, work=_WORK if time_limit is None else min(_WORK, int(_WORK_PER_SECOND * time_limit))
    )


def least_at_once(graph: ComputationGraph) -> LeastBudget:
    """The part of `least_budget_bound` that takes no search."""
    least = _least_by_inputs(graph)
    node = max(range(len(least)), key=lambda v: (least[v], -v))
    return LeastBudget(least[node], node)


def enough_budget(graph: ComputationGraph) -> int:
    """With any number of computations there is a schedule within this: each node computed from nothing, unless the
    input order takes less; in the graph's size unit."""
    return min(max(memory_anew(graph.run_in_place(False))), simulate(graph, graph.input_order()).peak)


def retained_bound(instance: Instance) -> int:
    """No schedule with first computations in the input order fits less, in the graph's size unit."""
    return max(retained_in_stages(instance))


def retained_in_stages(instance: Instance) -> list[int]:
    """What each stage holds at least, while its node is computed first, in the graph's size unit: inputs, output and
    workspace of the node, less what it spares, and what may be computed only once and is read later.
    """
    graph, stage = instance.graph, {v: k for k, v in enumerate(instance.order)}
    once = [count == 1 for count in instance.max_computations]
    lives = ((k, max((stage[x] for x in graph.successors[v]), default=k)) for v, k in stage.items())
    retained = sums_of_ranges([graph.sizes[v] * once[v] for v in instance.order], lives)
    own = [workspace - spared for workspace, spared in zip(graph.workspace_of, graph.spared, strict=True)]
    here = (own[v] + sum(graph.sizes[u] for u in (v, *graph.predecessors[v]) if not once[u]) for v in instance.order)
    return list(map(sum, zip(retained, here, strict=True)))


def _least_by_inputs(graph: ComputationGraph) -> list[int]:
    """What is needed at least, by node: its working set, and to have its inputs in memory together."""
    inputs = (_least_together(graph, frozenset(row)) for row in graph.predecessors)
    return list(map(max, graph.working_sets, inputs))


def _least_together(graph: ComputationGraph, together: frozenset[int]) -> int:
    """What is needed at least to have a set in memory together: one of those with much lack is computed last of them.

    What p saves by overwriting is taken off whatever it overwrites, which may be one of the set that has less lack and
    is computed once more later.
    """
    sizes, lacks = graph.sizes, list[tuple[int, int]]()
    for p in together:
        lack = graph.workspace_of[p] - graph.spared[p]
        for u in graph.predecessors[p]:
            if u not in together:
                lack += sizes[u]
        lacks.append((lack, sizes[p]))
    lacks.sort(reverse=True)
    taken = least = 0
    for lack, size in lacks:
        taken += size
        least = max(least, taken + lack)
    return least


def _memory_of(graph: ComputationGraph, anew: Sequence[int], node: int, enough: int, work: int) -> tuple[int, int]:
    """(bound on the memory to compute `node`, work done); a bound up to `enough` is not distinguished from `enough`.

    A search for the way with the least largest set. Sets only ever grow towards the bound: when work runs out, the
    least of the open ones is the bound. Among equals, one without the last nodes comes first.
    """
    start = frozenset((node, *graph.predecessors[node]))
    used = tie = 0
    open_sets = [(max(enough, graph.working_set(node)), node, 0, tie, start)]
    done: set[frozenset[int]] = set()
    while open_sets:
        bound, *_, together = heapq.heappop(open_sets)
        if used > work or _one_by_one(graph, anew, together) <= bound:
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
            needed = here + _memory(graph, inputs)
            least = _least_together(graph, before)
            rest = (max(before, default=-1), needed - graph.sizes[last])
            own = graph.workspace_of[last] - _spared(graph, last, together if last != node else frozenset())
            heapq.heappush(open_sets, (max(bound, least, needed + own), *rest, tie, before))
    return enough, used


def _memory(graph: ComputationGraph, together: Iterable[int]) -> int:
    return sum(graph.sizes[u] for u in together)


def _spared(graph: ComputationGraph, node: int, together: frozenset[int]) -> int:
    """Memory that a computation spares if it overwrites an input that is not in the set."""
    may_be = graph.overwritable is not None and any(u not in together for u in graph.overwritable[node])
    return graph.sizes[node] if may_be else 0


def memory_anew(graph: ComputationGraph) -> list[int]:
    """Return by node the memory that is enough to compute it when nothing is retained, not in place."""
    anew = [0] * len(graph.nodes)
    for v in graph.input_order():
        anew[v] = max(graph.working_set(v), _one_by_one(graph, anew, graph.predecessors[v]))
    return anew


def _one_by_one(graph: ComputationGraph, anew: Sequence[int], together: Iterable[int]) -> int:
    """Memory that is enough to get `together` into it, each recomputed while those before it stay."""
    sizes, retained, enough = graph.sizes, 0, 0
    for _, v in sorted([(sizes[v] - anew[v], v) for v in together]):
        if retained + anew[v] > enough:
            enough = retained + anew[v]
        retained += sizes[v]
    return enough
