"""Checkpoints between segments: Chen, Xu, Zhang and Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.

Two rules choose checkpoints among candidates, and there are two sets of candidates: the articulation points, whose
removal cuts the forward pass in two, so that no read goes around a checkpoint; and all forward nodes in the input
order, as if they were a chain ("linearized"). The four combinations are baselines of Checkmate (Jain et al., MLSys
2020, section 6.1), for which it drops outputs of graphs that are no chains in the same way; see `keep_once`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from math import isqrt

import numpy as np

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.strategy import Passes, Stop, Strategy, nothing_kept, schedule

# --- From checkpoints to what is kept: the forward pass is cut into segments, of which few are in use at a time

# A segment is what lies between two checkpoints in the input order, and the checkpoint at its end. Checkpoints are
# kept until their last read, and so are the outputs of the backward pass. All else is retained only while its segment
# is in use::
#
#     checkpoints: a2, a4     a0 a1 a2 a3 a4 a5 a6     loss     g6 g5 g4 g3 g2 g1 g0        a stage each
#     segment in use         [   1    ][  2  ][           3           ][  2  ][  1 ]
#     recomputed                                                       a3     a0 a1
#
# When a segment comes into use again, all that is read of it is recomputed at once. On a chain that is all. Where
# reads go around checkpoints there are two ways, `keep_once` and `keep_often`.


def keep_once(passes: Passes, checkpoints: Collection[int]) -> np.ndarray:
    """The matrix `keep` (see `stage_matrix`) after Chen et al. (algorithm 2, which mirrors a forward node once).

    The forward pass drops nothing that it still reads, and the backward pass nothing that it still reads; only in
    between outputs are missing. A forward node is computed at most twice, on any graph.
    """
    keep = _keep_rest(passes, checkpoints)
    forward = set(passes.forward)
    segment = _segments(passes, checkpoints)
    droppable = forward.difference(checkpoints)
    last = segment[max(forward, default=0)]  # still in use when the backward pass begins
    missing = {v for v in droppable if segment[v] != last}
    backward = sorted(set(range(len(passes.order))) - forward)
    first_end, again_end = _last_reads(passes, passes.forward), _last_reads(passes, backward)
    whole: dict[int, list[int]] = {}  # by segment: what will be read of it
    for v in missing.intersection(again_end):
        whole.setdefault(segment[v], []).append(v)
    again: dict[int, int] = {}  # the stage of the recomputation
    for stage in backward:
        lost = {segment[v] for v in missing.intersection(passes.inputs[stage]).difference(again)}
        wanted = [v for j in lost for v in whole[j]]
        again.update(dict.fromkeys(_needed(passes, wanted, missing, again, stage), stage))
    for v, stage in again.items():
        for u in missing.intersection(passes.inputs[v]):
            again_end[u] = max(again_end.get(u, 0), stage)
    for v in droppable:
        keep[v + 1 : first_end.get(v, v) + 1, v] = True
        keep[again.get(v, v) + 1 : again_end.get(v, v) + 1, v] = True
    return keep


def _needed(passes: Passes, wanted: Iterable[int], missing: set[int], again: Collection[int], stage: int) -> set[int]:
    """Which of the missing nodes before a stage, not recomputed yet, must be to have the wanted ones."""
    needed: set[int] = set()
    to_do = list(wanted)
    while to_do:
        v = to_do.pop()
        if v in missing and v < stage and v not in again and v not in needed:
            needed.add(v)
            to_do.extend(passes.inputs[v])
    return needed


def keep_often(passes: Passes, checkpoints: Collection[int]) -> np.ndarray:
    """The matrix `keep` (see `stage_matrix`) after Checkmate: of most graphs only one segment is in use at a time.

    A stage uses its own segment, if it is of the forward pass, and those of the outputs that it reads, unless they are
    checkpoints; a stage that uses none leaves in use what was. A segment goes out of use as soon as a stage uses others
    but not this one. Compared to `keep_once` that takes less memory and more time, and it can save memory where there
    is no backward pass.
    """
    keep = _keep_rest(passes, checkpoints)
    forward = set(passes.forward)
    segment = _segments(passes, checkpoints)
    in_use: dict[int, int] = {}  # by segment: the stage it came into use
    last_read: dict[tuple[int, int], int] = {}  # by node and that stage
    for stage, inputs in enumerate(passes.inputs):
        reads = forward.intersection(inputs).difference(checkpoints)
        used = {segment[v] for v in reads}
        if stage in forward:
            used.add(segment[stage])
        if used:
            in_use = {j: in_use.get(j, stage) for j in used}
        last_read.update({(v, in_use[segment[v]]): stage for v in reads})
    for (v, begin), end in last_read.items():
        keep[max(v, begin) + 1 : end + 1, v] = True
    return keep


def _keep_rest(passes: Passes, checkpoints: Collection[int]) -> np.ndarray:
    keep = nothing_kept(len(passes.order))
    for v in set(range(len(passes.order))).difference(passes.forward).union(checkpoints):
        keep[v + 1 :, v] = True
    return keep


def _segments(passes: Passes, checkpoints: Collection[int]) -> list[int]:
    """The segment of each node, from 0; a checkpoint belongs to the segment that it ends."""
    return [0, *accumulate(v in checkpoints for v in range(len(passes.order) - 1))]


def _last_reads(passes: Passes, readers: Iterable[int]) -> dict[int, int]:
    """The last of some readers, ascending, to read each node; nodes that none of them reads are left out."""
    return {u: v for v in readers for u in passes.inputs[v]}


MOST_THRESHOLDS = 100
"""Candidates of the greedy rule."""
_GROWTH = 1.01
"""Thresholds nearer to each other count as one."""

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
    """Keep every k-th of L candidates, with k the square root of L rounded down."""
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
