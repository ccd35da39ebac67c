"""The model: MiniZinc has the whole problem, from the best answer there is; or windows of it where it is too large."""

from __future__ import annotations

import os
from typing import ClassVar

from moccasin_mzn.formulations.model_size import why_too_large
from moccasin_mzn.search.model_search import ModelSearch
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.window_search import WindowSearch
from moccasin_mzn.solvers.minizinc.run import Limits


class Model(Searcher):
    """The whole problem, after a head start for the others; windows of the best schedule where it is too large."""

    name: ClassVar[str] = "model"
    is_model: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return runner.backend is not None and not runner.chooses_order

    def search(self, runner: Runner) -> None:
        options = runner.options
        alone, threads = options.search == "off", options.threads
        while runner.board.seconds < runner.model_after and not runner.over():
            runner.pause()
        if not alone:
            runner.wait_for_answer()
        if runner.over():
            return
        if not alone:
            threads = max(1, (threads or os.cpu_count() or 1) - 1)
            runner.give_way()  # local search and bounds are what gets a large graph on
        limits = Limits(options.time_limit, threads, options.seed)
        if alone or runner.plans or not _leave_out_whole(runner):
            _whole(runner, limits)
        elif _has_windows(runner):
            _windows(runner, limits)


def _whole(runner: Runner, limits: Limits) -> None:
    assert runner.backend is not None
    search = ModelSearch(runner.board, runner.form, runner.backend, limits, runner.over)
    runner.outcomes = search.outcomes
    try:
        search.run(runner.options.two_phase if isinstance(runner.options, Options) else None)
    finally:
        runner.solution = search.latest_solution


def _windows(runner: Runner, limits: Limits) -> None:
    assert runner.backend is not None
    runner.wait_for_answer(forever=True)
    if runner.board.answer is not None and not runner.over():
        search = WindowSearch(runner.board, runner.form, runner.backend, limits, runner.over)
        runner.outcomes = search.outcomes
        search.run()


def _leave_out_whole(runner: Runner) -> bool:
    """Is the model of the whole instance too large for memory, or for the time? Then a note says so."""
    why = why_too_large(runner.instance, runner.deadline.remaining())
    if why is None:
        return False
    instead = "windows of it are improved instead" if _has_windows(runner) else "nothing of it is solved"
    runner.notes.append(f"{why}: {instead}")
    return True


def _has_windows(runner: Runner) -> bool:
    return runner.form.staged and runner.instance.graph.overwritable is None
