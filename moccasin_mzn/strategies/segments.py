"""From checkpoints to what is kept: the forward pass is cut into segments, of which few are in use at a time.

A segment is what lies between two checkpoints in the input order, and the checkpoint at its end. Checkpoints are kept
until their last read, and so are the outputs of the backward pass. All else is held only while its segment is in use::

    checkpoints: a2, a4     a0 a1 a2 a3 a4 a5 a6     loss     g6 g5 g4 g3 g2 g1 g0        a stage each
    segment in use         [   1    ][  2  ][           3           ][  2  ][  1 ]
    recomputed                                                       a3     a0 a1

When a segment comes into use again, all that is read of it is recomputed at once. On a chain that is all. Where reads
go around checkpoints there are two ways, `keep_once` and `keep_often`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import accumulate

import numpy as np

from moccasin_mzn.strategies.passes import Passes
from moccasin_mzn.strategies.stage_matrix import nothing_kept


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
