"""The two extremes that every other strategy lies between: keep everything, and keep next to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.strategy import Stop, Strategy, nothing_kept, schedule


def _keep_all(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    yield instance.order


def _recompute_all(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    keep = nothing_kept(len(instance.order))
    np.fill_diagonal(keep[1:], True)  # stage t keeps node t-1
    sequence = schedule(instance.graph, instance.order, keep)
    if sequence is not None:
        yield sequence


KEEP_ALL = Strategy(
    name="keep-all",
    title="every output is kept until its last read",
    source='Jain et al., Checkmate (MLSys 2020), section 6.1, "checkpoint all"',
    guarantee="least duration of all schedules; the peak is that of the input order",
    schedules=_keep_all,
)

RECOMPUTE_ALL = Strategy(
    name="recompute-all",
    title="every stage recomputes all it needs but the latest output",
    source='the published code of Checkmate (Jain et al., MLSys 2020), "checkpoint last node"',
    guarantee="at most n (n + 1) / 2 computations for n nodes; not the least peak in general",
    schedules=_recompute_all,
)

STRATEGIES = (KEEP_ALL, RECOMPUTE_ALL)
