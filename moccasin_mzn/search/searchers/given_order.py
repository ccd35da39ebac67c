"""One memory, along the input order: local search finds schedules, relaxations prove what none can beat."""

from __future__ import annotations

import os
from functools import partial
from typing import ClassVar

from moccasin_mzn.heuristics.compiled_searches import LOCAL, CompiledSearch
from moccasin_mzn.search.conclusion import LOCAL_SEARCH, RELAXATION
from moccasin_mzn.search.runner import Runner, Searcher

SETTLED_SECONDS, SETTLED_TIMES, SETTLED_GAP = 4.0, 4.0, 0.01
"""Local search has settled after so long, and this many times what its best schedule took besides, once the gap is no
wider than this fraction: a wider one may be the schedule's as well as the bound's."""
JOIN_SHARE = 0.35
"""Share of the time limit after which bounds get more threads even if local search has not settled."""
BOUND_WORKERS = 4
"""Threads for bounds, at most: one until all may join."""


def _given_order(runner: Runner) -> bool:
    return runner.form.staged and not runner.instance.free_order


def _is_narrow(runner: Runner) -> bool:
    """Return whether the gap is so narrow that bounds are what closes it."""
    gap = runner.board.gap
    return gap is not None and gap <= SETTLED_GAP


class Local(Searcher):
    """Incumbents from the first tenths of a second on; see `heuristics.staged`."""

    name: ClassVar[str] = LOCAL_SEARCH
    awaited: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return _given_order(runner)

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (LOCAL,)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        board, shared = runner.board, runner.shared

        def better(duration: int | None) -> tuple[int, ...] | None:
            """Return a better answer of others; the search gives way once a better schedule is not likely."""
            if not shared.settled and _is_narrow(runner):
                shared.settled = board.seconds > SETTLED_SECONDS + SETTLED_TIMES * board.found_at
                if shared.settled:
                    runner.give_way()
            return runner.better_than(duration)

        LocalSearch(runner.instance, runner.seed).run(
            partial(board.offer, source=LOCAL_SEARCH),
            runner.over,
            better,
            lambda: shared.drafts.pop() if shared.drafts else None,  # what the relaxation suggested last
            on_peak=partial(board.offer, source=LOCAL_SEARCH, phase="peak"),
        )


class RelaxationSearcher(Searcher):
    """Bounds by relaxations that are refined where they go wrong; see `bounds.input_order`."""

    name: ClassVar[str] = RELAXATION
    awaited: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return _given_order(runner)

    def search(self, runner: Runner) -> None:
        from moccasin_mzn.bounds.input_order import Alongside, duration_bound

        board, shared = runner.board, runner.shared

        def note_draft(sequence: tuple[int, ...]) -> None:
            shared.drafts.append(sequence)
            if board.answer is None:
                board.offer(sequence, RELAXATION, "peak")

        proven = duration_bound(
            runner.instance,
            time_limit=runner.remaining,
            workers=min(BOUND_WORKERS, runner.options.threads or os.cpu_count() or 1),
            seed=runner.seed,
            alongside=Alongside(
                on_bound=lambda bound: board.improve_bound(bound, RELAXATION),
                on_schedule=lambda sequence: board.offer(sequence, RELAXATION),
                on_draft=note_draft,
                stop=runner.over,
                incumbent=lambda: board.value,
                may_join=lambda: shared.settled or (runner.deadline.over(JOIN_SHARE) and _is_narrow(runner)),
            ),
        )
        if proven.infeasible:
            board.refute(RELAXATION)


SEARCHERS = (Local(), RelaxationSearcher())
