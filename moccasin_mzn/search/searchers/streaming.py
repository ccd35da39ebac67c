"""Schedules of tiled graphs by construction, see `heuristics.streaming`; the annealing over sequences improves them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

from moccasin_mzn.heuristics.compiled_searches import STREAMING, CompiledSearch
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers.any_order import STREAMING_PARTS

if TYPE_CHECKING:
    from moccasin_mzn.heuristics.streaming.layers import Layers

SECONDS_PER_START = 2.0
"""While nothing is within the budget, the annealing gets a sequence to start from every this many seconds."""
THREADS = 2
"""This many search for a first schedule; then one goes on."""
NEXT_SEED = 7919
"""What is added to the seed for the next thread."""


class Streaming(Searcher):
    """Annealing over plans of what streams through memory, while there is no schedule in two threads."""

    name: ClassVar[str] = STREAMING_PARTS

    def applies(self, runner: Runner) -> bool:
        return runner.streams

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (STREAMING,)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.heuristics.streaming.layers import layers_of

        layers = layers_of(runner.instance.graph, runner.instance.order)
        with ThreadPoolExecutor(THREADS) as threads:
            for done in [threads.submit(_anneal, runner, layers, number) for number in range(THREADS)]:
                done.result()


def _anneal(runner: Runner, layers: Layers, number: int) -> None:
    """Search in one thread; all but the first end with a schedule."""
    from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

    board, instance, shared = runner.board, runner.instance, runner.shared
    latest = -SECONDS_PER_START

    def take_peak(sequence: Sequence[int]) -> None:
        nonlocal latest
        board.offer(sequence, STREAMING_PARTS, "peak")
        if time.monotonic() >= latest + SECONDS_PER_START:
            latest = time.monotonic()
            shared.starts.append(sequence)

    PlanAnnealing(
        instance, layers, runner.seed + number * NEXT_SEED, on_round=shared.all_starts.append
    ).run(
        lambda sequence: board.offer(sequence, STREAMING_PARTS),
        lambda: runner.over() or (number > 0 and board.answer is not None),
        on_peak=take_peak,
    )  # fmt: skip


SEARCHERS = (Streaming(),)
