"""Schedules of tiled graphs by construction, see `heuristics.streaming`; the annealing over sequences improves them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from moccasin_mzn.heuristics.compiled_searches import STREAMING, CompiledSearch
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers.any_order import STREAMING_PARTS

SECONDS_PER_START = 2.0
"""While nothing is within the budget, the annealing gets a sequence to start from every so many seconds."""


class Streaming(Searcher):
    """Annealing over plans of what streams through memory, from nothing and from the best plan."""

    name: ClassVar[str] = STREAMING_PARTS

    def applies(self, runner: Runner) -> bool:
        return runner.streams

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (STREAMING,)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.heuristics.streaming.layers import layers_of
        from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

        board, instance, latest = runner.board, runner.instance, -SECONDS_PER_START

        def take_peak(sequence: Sequence[int]) -> None:
            nonlocal latest
            board.offer(sequence, STREAMING_PARTS, "peak")
            if time.monotonic() >= latest + SECONDS_PER_START:
                latest = time.monotonic()
                runner.shared.starts.append(sequence)

        PlanAnnealing(
            instance, layers_of(instance.graph, instance.order), runner.seed, on_round=runner.shared.all_starts.append
        ).run(lambda sequence: board.offer(sequence, STREAMING_PARTS), runner.over, on_peak=take_peak)


SEARCHERS = (Streaming(),)
