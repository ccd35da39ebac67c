"""A schedule by construction where no search finds one for long, see `bounds.on_demand`; the others improve it."""

from __future__ import annotations

from typing import ClassVar

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Formulation, in_any_order
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.runner import LONGEST_WITHOUT_ANSWER, Runner, Searcher

CONSTRUCTION = "construction"
SHARE = 0.5
"""Largest share of the time limit after which searches without a schedule get one."""


class Construction(Searcher):
    name: ClassVar[str] = CONSTRUCTION

    def applies(self, runner: Runner) -> bool:
        return isinstance(runner.form, Formulation) and not runner.form.model

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        patience = runner.deadline.share(SHARE, LONGEST_WITHOUT_ANSWER)
        while not runner.over() and runner.board.seconds < patience and runner.others_alive(self):
            runner.pause()
        board = runner.board
        sequence = None if board.answer or board.infeasible_source else constructed(runner.instance, runner.form)
        if sequence is not None and not board.infeasible_source:
            board.offer(sequence, CONSTRUCTION)


def constructed(instance: Instance, form: Searched) -> tuple[int, ...] | None:
    """Return a schedule by construction that is a solution of a formulation; None: none was constructed."""
    from moccasin_mzn.bounds.on_demand import on_demand

    sequence, open_form = on_demand(instance), in_any_order(form) if instance.free_order else form
    if sequence is None:
        return None
    try:
        return (open_form or form).check_start(instance, sequence)
    except InputError:  # such as a node that one stage computes twice
        return None


SEARCHERS = (Construction(),)
