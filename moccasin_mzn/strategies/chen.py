"""Checkpoints between segments: Chen, Xu, Zhang and Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.

Two rules choose checkpoints among candidates, and there are two sets of candidates: the articulation points, whose
removal cuts the forward pass in two, so that no read goes around a checkpoint; and all forward nodes in the input
order, as if they were a chain ("linearized"). The four combinations are baselines of Checkmate (Jain et al., MLSys
2020, section 6.1), for which it drops outputs of graphs that are no chains in the same way; see `segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isqrt

import numpy as np

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.passes import Passes
from moccasin_mzn.strategies.segments import keep_often, keep_once
from moccasin_mzn.strategies.stage_matrix import schedule
from moccasin_mzn.strategies.strategy import Stop, Strategy

MOST_THRESHOLDS = 100
"""Candidates of the greedy rule."""
_GROWTH = 1.01
"""Thresholds nearer to each other are not told apart."""

Candidates = Callable[[Passes], Sequence[int]]
Selection = Callable[[Passes, Sequence[int]], Iterable[Sequence[int]]]


def articulation_points(passes: Passes) -> list[int]:
    """The forward nodes without which no path leads from the inputs of the forward pass to its outputs, ascending.

    These are the articulation points of its undirected graph with one more node at either end.
    """
    import networkx  # here, because it loads slowly

    forward = passes.forward
    read = {u for v in forward for u in passes.inputs[v]}
    start, end = -1, -2
    undirected = networkx.Graph()
    for v in forward:
        inputs = [u for u in passes.inputs[v] if passes.backward is None or not passes.backward[u]]
        undirected.add_edges_from((u, v) for u in inputs or [start])
    undirected.add_edges_from((v, end) for v in forward if v not in read)
    return sorted(v for v in networkx.articulation_points(undirected) if v >= 0)


def linearized(passes: Passes) -> Sequence[int]:
    """All forward nodes."""
    return passes.forward


def every_root(passes: Passes, candidates: Sequence[int]) -> Iterator[Sequence[int]]:
    """Of L candidates every k-th, with k the square root of L rounded down."""
    k = max(1, isqrt(len(candidates)))
    yield candidates[k - 1 :: k]


def greedy(passes: Passes, candidates: Sequence[int]) -> Iterator[Sequence[int]]:
    """A segment ends with the first candidate at which its outputs sum to more than a threshold (their algorithm 3).

    All thresholds that make a difference are tried, or `MOST_THRESHOLDS` of them, which then grow geometrically.
    """
    chosen: list[list[int]] = []
    thresholds: list[int] = []
    threshold: int | None = 0
    while threshold is not None:
        thresholds.append(threshold)
        checkpoints, sums = _over(passes, set(candidates), threshold)
        chosen.append(checkpoints)
        # Nothing changes until the least of these sums is no longer over the threshold.
        threshold = max(min(sums), int(threshold * _GROWTH)) if sums else None
    yield from (chosen[at] for at in _spread(thresholds))


def _over(passes: Passes, candidates: set[int], threshold: int) -> tuple[list[int], list[int]]:
    """The checkpoints for one threshold, and the memory of the segment that each of them ends."""
    checkpoints, sums = [], []
    memory = 0
    for v in passes.forward:
        memory += passes.size[v]
        if v in candidates and memory > threshold:
            checkpoints.append(v)
            sums.append(memory)
            memory = 0
    return checkpoints, sums


def _spread(thresholds: Sequence[int]) -> list[int]:
    """Positions of at most `MOST_THRESHOLDS` ascending thresholds, the last one included."""
    if len(thresholds) <= MOST_THRESHOLDS:
        return list(range(len(thresholds)))
    wanted = np.geomspace(thresholds[1], thresholds[-1], MOST_THRESHOLDS)
    return sorted({min(int(at), len(thresholds) - 1) for at in np.searchsorted(thresholds, wanted)})


def _schedules(candidates: Candidates, select: Selection) -> Callable[[Instance, Stop], Iterator[Sequence[int]]]:
    """The `schedules` of a strategy that selects checkpoints among candidates."""

    def schedules(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
        passes = Passes.of(instance)
        ways = (keep_once, keep_often) if len(passes.forward) < len(passes.order) else (keep_often,)
        met = set()  # hashes, as the sequences are long; at worst a candidate is lost
        for checkpoints in select(passes, candidates(passes)):
            for keep in ways:
                sequence = schedule(instance.graph, instance.order, keep(passes, frozenset(checkpoints)))
                if sequence is not None and hash(sequence) not in met:
                    met.add(hash(sequence))
                    yield sequence
            if stop():
                return

    return schedules


_PAPER = "Chen et al., Training Deep Nets with Sublinear Memory Cost (2016)"
_CHAINS = "on training chains at most one more forward pass"
_ROOT = f"{_CHAINS}, and memory in the order of sqrt(L) for L equal layers"

STRATEGIES = (
    Strategy(
        name="chen-sqrtn-ap",
        title="checkpoints at every sqrt(L)-th of L articulation points",
        source=f"{_PAPER}, section 4",
        guarantee=_ROOT,
        schedules=_schedules(articulation_points, every_root),
    ),
    Strategy(
        name="chen-greedy-ap",
        title="checkpoints at articulation points, where a segment exceeds a threshold of memory",
        source=f"{_PAPER}, section 4, algorithm 3",
        guarantee=_CHAINS,
        schedules=_schedules(articulation_points, greedy),
    ),
    Strategy(
        name="chen-sqrtn-linearized",
        title="checkpoints at every sqrt(L)-th of L forward nodes",
        source=f"{_PAPER}, section 4, as generalized by Jain et al., Checkmate (MLSys 2020), section 6.1",
        guarantee=_ROOT,
        schedules=_schedules(linearized, every_root),
    ),
    Strategy(
        name="chen-greedy-linearized",
        title="checkpoints where a segment of the forward pass exceeds a threshold of memory",
        source=f"{_PAPER}, algorithm 3, as generalized by Jain et al., Checkmate (MLSys 2020), section 6.1",
        guarantee=_CHAINS,
        schedules=_schedules(linearized, greedy),
    ),
)
