"""Plans for several memories: the search that their formulation has of its own."""

from __future__ import annotations

from typing import ClassVar

from moccasin_mzn.search.conclusion import SEARCH
from moccasin_mzn.search.runner import Runner, Searcher


class PlanSearch(Searcher):
    """See `PlanFormulation.search`."""

    name: ClassVar[str] = SEARCH
    awaited: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return runner.plans

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        board = runner.board
        runner.form.search(
            board.problem, runner.seed, lambda plan: board.offer(plan, SEARCH), runner.over, lambda: board.answer
        )


SEARCHERS = (PlanSearch(),)
