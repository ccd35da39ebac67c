"""Schedules in any order: annealing over sequences, drafts to start from, bounds by flow covers, a proof by a model."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.formulations import in_any_order
from moccasin_mzn.heuristics.compiled_searches import FREE, ORDERS, STREAMING, CompiledSearch
from moccasin_mzn.heuristics.orders.least_peak import good_orders, least_peak_order
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.conclusion import FLOW_COVERS, MOMENTS
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers.model import ModelSearch
from moccasin_mzn.solvers.minizinc.run import Limits
from moccasin_mzn.strategies.kumar import KUMAR_RETAINED

ANNEALING, STARTS, PROOF, STREAMING_PARTS = "annealing", "search for orders", "proof", "streaming"
LONGEST_SLICE = 30.0
"""Seconds of each search in turn, without a time limit."""
STARTS_SHARE, LONGEST_STARTS = 0.1, 10.0
"""Share of the time limit, and most seconds, for drafts."""
STREAMING_SHARE = 0.3
"""Share of the time limit for which, at most, other searches wait for a first schedule of a graph of parts."""
DRAFT_ORDERS = 4
"""Orders of low peak among the drafts, the best one aside."""
PROOF_NODES = 24
"""Graphs of more nodes are beyond the general formulation."""
HEAD_START = 0.5
"""Seconds for which a proof waits for a first schedule: with one it takes one run of the solver instead of two."""
PATIENCE, PATIENCE_SHARE = 10.0, 0.2
"""Seconds, and share of the time limit, for which a proof that may be quick precedes staged searches with the model."""
SMALL_ROUNDS = 6
"""Number of rounds after which the annealing leaves the cores to a proof that may be quick."""


def is_small(runner: Runner) -> bool:
    """Return whether a proof by the general formulation may be quick."""
    return runner.backend is not None and len(runner.instance.graph.nodes) <= PROOF_NODES


def slice_of(runner: Runner, share: float) -> float:
    """Seconds of a search that has this share of the time limit."""
    limit = runner.options.time_limit
    return LONGEST_SLICE if limit is None else share * limit


def wait_for_streaming(runner: Runner) -> None:
    """Leave the cores of a graph of parts to the streaming search until that has a schedule or has had its share."""
    patience = slice_of(runner, STREAMING_SHARE) if runner.streams else 0.0
    while not runner.board.answer and runner.board.seconds < patience and not runner.over():
        runner.pause()


class AnnealingSearcher(Searcher):
    """Annealing over any sequences, from several drafts; see `heuristics.free_order`."""

    name: ClassVar[str] = ANNEALING

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (FREE,)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.heuristics.free_order.search import OrderAnnealing

        board, waiting = runner.board, runner.shared.starts
        wait_for_streaming(runner)
        first = board.answer or (waiting.popleft() if runner.streams and waiting else None)
        OrderAnnealing(runner.instance, runner.seed, first).run(
            lambda sequence: board.offer(sequence, ANNEALING), runner.over, runner.better_than,
            lambda: waiting.popleft() if waiting else None, SMALL_ROUNDS if is_small(runner) else None,
            lambda sequence: board.offer(sequence, ANNEALING, "peak"),
        )  # fmt: skip


class Starts(Searcher):
    """Orders of low peak, tree decompositions; a bound on the peak where nothing may be recomputed."""

    name: ClassVar[str] = STARTS

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (ORDERS, STREAMING) if runner.streams else (ORDERS,)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        board, instance = runner.board, runner.instance
        wait_for_streaming(runner)

        def take_bound(peak: int) -> None:
            """Take a bound on orders that compute every node once: all there are, if nothing may be recomputed."""
            if max(instance.max_computations) == 1:
                board.raise_floor(peak)
                if peak > instance.budget:
                    board.refute(STARTS)

        seconds = runner.deadline.share(STARTS_SHARE, LONGEST_STARTS)
        for sequence, fits in starts(instance, seconds, runner.seed, runner.over, take_bound):
            board.offer(sequence, STARTS, "duration" if fits else "peak")
            runner.shared.starts.append(sequence)
            runner.shared.all_starts.append(sequence)


def starts(
    instance: Instance, seconds: float, seed: int, stop: Callable[[], bool],
    on_bound: Callable[[int], None] = lambda bound: None,
) -> Iterator[tuple[tuple[int, ...], bool]]:  # fmt: skip
    """Sequences that compute every node after its inputs, each with whether it is a schedule of the instance.

    Args:
        seconds: for all of them; half of it, at most, for the order of least peak.
        stop: ends them before that.
        on_bound: gets a peak that every order has at least if it computes each node once.
    """
    deadline = Deadline(seconds)

    def over() -> bool:
        return stop() or deadline.over()

    ordering = least_peak_order(instance.graph, time_limit=seconds / 2, seed=seed, stop=stop, start=instance.order)
    on_bound(ordering.bound)
    found = itertools.chain(
        [ordering.order],
        itertools.islice(good_orders(instance.graph, seed=seed, stop=over, start=instance.order), DRAFT_ORDERS),
        KUMAR_RETAINED.schedules(instance, over),
    )
    for sequence in map(instance.together, found):
        if stop():
            return
        allowed = all(count <= instance.max_computations[v] for v, count in Counter(sequence).items())
        if allowed:
            yield tuple(sequence), judge(instance.graph, sequence, instance.budget).feasible
        if over():
            return


class FlowCovers(Searcher):
    """Bounds that hold in any order, and most of them for any number of computations; see `bounds.flow_covers`."""

    name: ClassVar[str] = FLOW_COVERS

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order or not runner.form.staged

    def endless(self, runner: Runner) -> bool:
        return runner.chooses_order

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

        wait_for_streaming(runner)
        bounds, board = runner.flow_bounds or FreeOrderBound.of(runner.instance.graph), runner.board
        if bounds is None:
            return
        bounds.improve(
            runner.instance.budget, time_limit=runner.remaining, most=runner.instance.max_computations,
            on_bound=lambda bound, limited: board.improve_bound(bound, MOMENTS if limited else FLOW_COVERS),
            stop=runner.over, incumbent=lambda: board.value, seed=runner.seed,
        )  # fmt: skip


class ProofSearcher(Searcher):
    """The general formulation, where the graph is small enough: its proofs are for any order."""

    name: ClassVar[str] = PROOF

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order and is_small(runner)

    def search(self, runner: Runner) -> None:
        options, begin, form = runner.options, time.monotonic(), in_any_order(runner.form)
        assert isinstance(options, Options) and runner.backend is not None and form is not None
        while runner.board.answer is None and time.monotonic() < begin + HEAD_START and not runner.over():
            runner.pause()
        limits = Limits(options.time_limit, options.threads, options.seed)
        ModelSearch(runner.board, form, runner.backend, limits, runner.over, runner.outcomes).run(options.two_phase)


SEARCHERS = (AnnealingSearcher(), Starts(), FlowCovers(), ProofSearcher())
