"""Schedules to begin a search with: the checkpoints of the network itself, and checkpoints around its modules. ::

    forward     [ a  b  c ][ d  e  f ]  cut           blocks; only what others read is retained
    backward                                d e  F E D  a b  C B A

A network that has checkpoints of its own is trained within less memory than a plan without recomputation takes. So a
plan begins with the same recomputations. Modules make blocks too, at each level, from the network's children down; and
there are schedules on demand, see `on_demand`, which need no blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.torch.paths import PATH
from moccasin_mzn.problem.construction import Constructed, judged
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.pytorch.checkpoints import CHECKPOINT
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.on_demand import on_demand
from moccasin_mzn.pytorch.problem import StepProblem
from moccasin_mzn.strategies.retention import retained

BLOCKS, DEMAND, RETENTION = "checkpoints around blocks", "computing on demand", "retention"
"""Names of what makes schedules here."""
_SECONDS = 2.0
"""Schedules on demand are sought for so long, at most, and what may be retained more."""
NO_LIMIT = Deadline()
_STEPS = 400
"""A budget is not halved any more in as small a part of the peak."""


def start_within(
    problem: StepProblem,
    budget: int,
    counts: Sequence[int],
    stop: Callable[[], bool] = never,
    limit: Deadline = NO_LIMIT,
) -> tuple[int, ...] | None:
    """The shortest schedule within a budget that is made by blocks or on demand; None if absent.

    Args:
        budget: in the graph's size unit.
        counts: how often anything may be computed, 2 or more; where there is no schedule, that of the next.
        stop: ends it by returning true.
        limit: ends it as well; the first kind of blocks is tried in any case.
    """
    graph, deadline = problem.graph, Deadline(_SECONDS)

    def over() -> bool:
        return stop() or deadline.over() or limit.over()

    by_blocks = _by_blocks(problem, budget, lambda: stop() or limit.over())
    found = [judged(graph, sequence, BLOCKS) for sequence in by_blocks]
    for count in counts:
        demanded = on_demand(problem, budget, count, over)
        found += [] if demanded is None else [judged(graph, demanded, DEMAND)]
        if found:
            break
    tighter = [_with_more_retained(graph, each, budget, over) for each in found if each.peak <= budget]
    return min(tighter, key=lambda one: one.duration).sequence if tighter else None


def least_start(
    problem: StepProblem, most: int, stop: Callable[[], bool] = never, limit: Deadline = NO_LIMIT
) -> tuple[int, ...]:
    """The schedule by blocks, on demand or without recomputation that has the least peak.

    Args:
        most: how often anything may be computed on demand.
        stop: ends it by returning true.
        limit: ends it as well; the first kind of blocks is tried in any case.
    """
    graph, deadline = problem.graph, Deadline(_SECONDS)

    def over() -> bool:
        return stop() or deadline.over() or limit.over()

    found = _all_by_blocks(problem, lambda: stop() or limit.over())
    least = min(found, key=lambda one: (one.peak, one.sequence))
    low, apart = max(graph.working_sets) - 1, max(1, least.peak // _STEPS)
    while least.peak - low > apart and not over():
        middle = (low + least.peak) // 2
        sequence = on_demand(problem, middle, most, over)
        demanded = None if sequence is None else judged(graph, sequence, DEMAND)
        if demanded is None or demanded.peak >= least.peak:
            low = middle
        else:
            least = demanded
    return least.sequence


def _all_by_blocks(problem: StepProblem, stop: Callable[[], bool]) -> Iterator[Constructed]:
    """The schedule without recomputation, and for each kind of blocks that in which all are recomputed."""
    for blocks in ([], *_partitions(problem)):
        yield judged(problem.graph, checkpointed(problem, blocks), BLOCKS)
        if blocks and stop():
            return


def _with_more_retained(
    graph: ComputationGraph, whole: Constructed, budget: int, stop: Callable[[], bool]
) -> Constructed:
    """A schedule within a budget without recomputations that need not be."""
    shorter = judged(graph, retained(graph, whole.sequence, budget, stop), RETENTION)
    fits = shorter.peak <= budget and first_out_of_stage(graph.input_order(), shorter.sequence) is None
    return shorter if fits else whole


def _by_blocks(problem: StepProblem, budget: int, stop: Callable[[], bool] = never) -> Iterator[tuple[int, ...]]:
    """For each kind of blocks the schedule with as few of them recomputed as a budget asks for."""
    for blocks in _partitions(problem):
        sequence = _fewest(problem, blocks, budget)
        if sequence is not None:
            yield sequence
        if stop():
            return


def _fewest(problem: StepProblem, blocks: Sequence[Sequence[int]], budget: int) -> tuple[int, ...] | None:
    """As few blocks recomputed, the first ones, as a budget asks for; None: all of them are not enough."""

    def with_first(count: int) -> tuple[int, ...]:
        return checkpointed(problem, blocks[:count])

    def fits(count: int) -> bool:
        return judged(problem.graph, with_first(count), BLOCKS).peak <= budget

    few, many = 0, len(blocks)
    if not many or not fits(many):
        return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if fits(middle) else (middle, many)
    return with_first(many)


def checkpointed(problem: StepProblem, blocks: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The schedule in which each block is recomputed before the first computation of the backward pass that reads of
    it, but for what computations outside of it read in the forward pass, and what may be computed only once.

    Args:
        blocks: disjoint sets of computations of the forward pass, by position in `graph.nodes`.
    """
    graph, order = problem.graph, problem.graph.input_order()
    block_of = {node: number for number, block in enumerate(blocks) for node in block}

    def is_inner(node: int) -> bool:
        readers = graph.successors[node]
        return all(block_of.get(x) == block_of[node] or problem.is_backward(x) for x in readers)

    dropped = {node for node in block_of if problem.most[node] and is_inner(node)}
    again: dict[int, set[int]] = {}
    for node in reversed(order):
        readers = graph.successors[node] if node in dropped else ()
        if any(problem.is_backward(x) or x in again.get(block_of[node], ()) for x in readers):
            again.setdefault(block_of[node], set()).add(node)
    sequence = list[int]()
    position = {node: at for at, node in enumerate(order)}
    for node in order:
        read = [each for each in graph.predecessors[node] if each in dropped] if problem.is_backward(node) else []
        needed = [each for number in {block_of[each] for each in read} for each in again.pop(number, ())]
        sequence += [*sorted(needed, key=position.__getitem__), node]
    return tuple(sequence)


def _partitions(problem: StepProblem) -> Iterator[list[list[int]]]:
    """Blocks of computations of the forward pass, in its order: the network's own checkpoints, then modules."""
    forward = [
        (node, meaning.members[0].node.meta)
        for node, meaning in ((each, problem.meanings[each]) for each in problem.graph.input_order())
        if isinstance(meaning, Computation) and not meaning.backward
    ]

    def runs(key: Callable[[dict[str, object]], object]) -> list[list[int]]:
        found = itertools.groupby(forward, lambda each: key(each[1]))
        return [[node for node, _ in run] for value, run in found if value is not None]

    own = runs(lambda meta: meta.get(CHECKPOINT))
    if own:
        yield own
    seen = [own]
    for depth in range(1, max((_path(meta).count(".") + 2 for _, meta in forward), default=1)):
        blocks = runs(lambda meta, depth=depth: ".".join(_path(meta).split(".")[:depth]) or None)  # type: ignore[misc]
        if blocks not in seen:
            seen.append(blocks)
            yield blocks


def _path(meta: dict[str, object]) -> str:
    return str(meta.get(PATH) or "")
