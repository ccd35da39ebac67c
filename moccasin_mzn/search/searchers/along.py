"""Staged searches inside another search: along the input order, or orders of first computations that others found.

Their schedules are schedules in any order; what they prove holds along their order alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import RELAXATION
from moccasin_mzn.search.options import Options, SearchOptions
from moccasin_mzn.search.result import Progress
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers.any_order import PATIENCE, PATIENCE_SHARE, is_small, slice_of, wait_for_streaming
from moccasin_mzn.solvers.minizinc.run import SolverError

STAGED, INPUT_ORDER, ORDERS = "staged search", "input order", "orders"
FIRST_SHARE = 0.3
"""Share of the time limit for the staged search along the input order before other orders have their turn."""
STREAMED_SHARE = 0.5
"""Share of the time limit after which the input order of a graph of parts, a poor one, has its turn."""
LEAST_FIRST, CLOSE = 5.0, 0.9
"""The search along the input order is left behind if others, after its share and this many seconds, add less than this
part of what it adds to the duration."""
LATER_SHARE = 0.15
"""Share of the time limit for the staged search along an order of the best schedule."""


class AlongStages(Searcher):
    """Staged search for the general formulation: its schedules are schedules in any order."""

    name: ClassVar[str] = STAGED
    awaited: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return not runner.form.staged

    def search(self, runner: Runner) -> None:
        assert isinstance(runner.options, Options)
        options = replace(
            runner.options, formulation="staged", until_gap=0.0, time_limit=runner.remaining_limit
        )  # fmt: skip
        search_along(runner, runner.instance.order, options.form, options, STAGED)


class AlongInputOrder(Searcher):
    """Staged search along the input order, as long as others do not leave it behind.

    With it a free order is no worse than a given one.
    Its model waits where a proof has the cores.
    """

    name: ClassVar[str] = INPUT_ORDER

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        def overtaken(board: Board) -> bool:
            return _left_behind(runner, board)

        left_behind = None if _only_order(runner) else overtaken
        while runner.streams and runner.board.seconds < slice_of(runner, STREAMED_SHARE) and not runner.over():
            runner.pause()
        _along(runner, runner.instance.order, runner.remaining_limit, left_behind, _patience(runner))


class AlongOrders(Searcher):
    """Staged searches along the order of first computations of the best schedule; without one, of drafts."""

    name: ClassVar[str] = ORDERS

    def applies(self, runner: Runner) -> bool:
        return runner.chooses_order

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        wait_for_streaming(runner)
        begin, first, patience = time.monotonic(), slice_of(runner, FIRST_SHARE), _patience(runner)
        while not runner.over():
            waited = time.monotonic() - begin
            turn = patience + (first if runner.alive(INPUT_ORDER) and not runner.streams else 0.0)
            order = _next_order(runner) if waited > turn else None
            if order is not None:
                _along(runner, order, slice_of(runner, LATER_SHARE))
            runner.pause()


def search_along(
    runner: Runner, order: tuple[int, ...], form: Searched, options: SearchOptions, source: str,
    overtaken: Callable[[Board], bool] | None = None, model_after: float = 0.0,
) -> Board:  # fmt: skip
    """The staged search along an order, inside a runner, which takes its schedules; what it has found and proven.

    It ends with that, or when it cannot contribute any more.

    Args:
        form: a staged formulation.
        overtaken: returns whether others have left the search with this board behind; None: they never do.

    Raises:
        SolverError: the solver failed before this search found anything.
    """
    board = board_inside(runner, runner.board.problem.along(order), form, source)

    def over() -> bool:
        settled = board.value is not None and board.bound >= board.value
        return runner.over() or settled or (overtaken is not None and overtaken(board))

    Runner(
        board=board, options=options, form=form, searchers=runner.searchers, model_after=model_after,
        call=Call(lambda progress: pass_on(progress, runner.board, source), over), outcomes=runner.outcomes,
    ).run()  # fmt: skip
    return board


def pass_on(progress: Progress, board: Board, source: str) -> None:
    """Offer what a search inside another has found to the board of that: a schedule, or a peak before any.

    Of a bound before any schedule nothing is passed on: it holds along one order alone.
    """
    if progress.answer is not None:
        board.offer(progress.answer, f"{source}, {progress.source}")
    elif progress.value is None:
        board.note_peak(progress.figures, f"{source}, {progress.source}")


def board_inside(runner: Runner, problem: Problem, form: Searched, source: str) -> Board:
    """The board of a search inside a runner, with the best schedule there is, if the search can start from that."""
    board, known = Board(problem, time.monotonic(), formulation=form if runner.several_memories else None), None
    with contextlib.suppress(InputError):  # such as a schedule in another order
        known = None if runner.board.answer is None else form.check_start(problem, runner.board.answer)
    if known is not None:
        board.offer(known, source)
    return board


def _along(
    runner: Runner, order: tuple[int, ...], seconds: float | None, overtaken: Callable[[Board], bool] | None = None,
    model_after: float = 0.0,
) -> None:  # fmt: skip
    """`search_along` one order, unless that fits as it is; without the model once that has failed."""
    shared, options = runner.shared, runner.options
    assert isinstance(options, Options)
    shared.orders_done.add(order)
    if simulate(runner.instance.graph, order).peak <= runner.instance.budget:
        runner.board.offer(order, ORDERS)
        return
    search = "only" if shared.model_failed else options.search
    options = replace(options, time_limit=seconds, until_gap=0.0, search=search)
    try:
        board = search_along(runner, order, options.form, options, ORDERS, overtaken, model_after)
    except SolverError as error:
        runner.errors.append(error)
        shared.model_failed = True
        return
    if _only_order(runner):
        _take_proof(runner, board)


def _take_proof(runner: Runner, board: Board) -> None:
    """Take from a search along the only order what is proven of all schedules with these first computations."""
    if board.bound_source == RELAXATION:
        runner.board.improve_bound(board.bound, RELAXATION)
    if board.infeasible_source == RELAXATION:
        runner.board.refute(RELAXATION)


def _left_behind(runner: Runner, board: Board) -> bool:
    """Return whether others, after their turn, are far ahead of the search along the input order with this board."""
    best, own, least = runner.board.value, board.value, runner.instance.baseline.duration
    if best is None or board.seconds < max(LEAST_FIRST, slice_of(runner, FIRST_SHARE)):
        return False
    return own is None or best - least < CLOSE * (own - least)


def _only_order(runner: Runner) -> bool:
    """Return whether there is no other order than the input order."""
    edges = set(runner.instance.graph.edges)
    return all(pair in edges for pair in pairwise(runner.instance.order))


def _next_order(runner: Runner) -> tuple[int, ...] | None:
    """Return an order along which no staged search has been: of the best schedule, or without one of a draft; of parts,
    then of other drafts, the latest first."""
    best, drafts = runner.board.answer, list[Sequence[int]](runner.shared.all_starts)
    near: list[Sequence[int]] = [best] if best is not None else []
    if best is None or runner.streams:
        near += drafts[::-1] if runner.streams else drafts
    orders = (runner.instance.order_of(sequence) for sequence in near)
    return next((order for order in orders if order not in runner.shared.orders_done), None)


def _patience(runner: Runner) -> float:
    """Seconds for which a proof that may be quick precedes staged searches with the model."""
    return min(PATIENCE, slice_of(runner, PATIENCE_SHARE)) if is_small(runner) else 0.0


SEARCHERS = (AlongStages(), AlongInputOrder(), AlongOrders())
