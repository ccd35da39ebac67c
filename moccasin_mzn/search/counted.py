"""A search that counts its work and asks no clock: for a seed the same schedule, value and bound on any machine.

::

    input order    local search for all iterations, then the bound by relaxations
    free order     local search along the input order for half of them, a few orders of low peak, annealing over
                   sequences from all these for the other half, then flow covers
    several memories   the search of the formulation, along the input order or a few orders of low peak, for as many
                   turns as there are iterations

One thread does one thing after the other. The work of bounds is in proportion to the iterations; what ends the search
before is a proof or a gap, which are the same every time, or the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeGuard

from moccasin_mzn.base.clock import Turns
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.searched import PlanFormulation, Searched
from moccasin_mzn.heuristics.orders.least_peak import good_orders
from moccasin_mzn.problem.features import MODES, OF_PROBLEMS, Ability, Feature
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, judge
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import FLOW_COVERS, LOCAL_SEARCH, RELAXATION, SEARCH
from moccasin_mzn.search.options import Options, SearchOptions
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers.any_order import ANNEALING, STARTS

ITERATIONS_PER_WORK = 1_000_000
"""Iterations for which bounds get one of CP-SAT's deterministic seconds."""
DRAFTS, WINDOWS, MOST_ORDERED = 3, 20, 3_000
"""Orders of low peak to start from in free order, the windows in which each is improved, and the most nodes of a graph
for which they are made."""


COUNTED = Ability(
    "counted searches",
    OF_PROBLEMS | MODES - {Feature.RACE, Feature.OWN_MODEL},
    MappingProxyType(
        {
            Feature.RACE: "solvers race by the clock",
            Feature.OWN_MODEL: "the solver of a model goes by the clock",
        }
    ),
    Feature.ITERATIONS,
)


def is_counted(options: object) -> TypeGuard[SearchOptions]:
    """Return whether a search is to end after this many iterations."""
    return getattr(options, "iterations", None) is not None


def check_countable(problem: Problem, form: Searched, options: SearchOptions) -> None:
    """Refuse iterations where a search cannot count all it does.

    Raises:
        InputError: several threads, a model, a solver, or trials that need a clock.
    """
    if not is_counted(options):
        return
    why = None
    own = isinstance(form, Formulation) and form.staged and form.limited and not form.model
    if not own and not isinstance(form, PlanFormulation):
        why = f"they are for the local search and bounds of the formulation staged, not for {form.called}"
    elif options.search == "off":
        why = "search off leaves only a model, whose solver goes by the clock"
    elif options.solver != type(options).solver:
        why = f"no model is solved then, leave out solver {options.solver}"
    elif options.threads not in (None, 1):
        why = f"threads race by the clock, {options.threads} of them give another result every time: threads 1"
    elif isinstance(options, Options) and options.if_none != "stop":
        why = f"if none {options.if_none} tries other problems by the clock: stop"
    if why is not None:
        raise InputError(f"iterations: {why}")


def search_counted(board: Board, form: Searched, options: SearchOptions, call: Call) -> Result:
    """Search for the iterations of the options, in this thread, and return the best that is found and what is proven.

    A time limit, the caller, or an interrupt from the keyboard may end the search before.
    """
    runner = Runner(board=board, options=options, form=form, call=call, searchers=())
    search = _Counted(board, runner, options)
    try:
        if isinstance(form, PlanFormulation):
            search.run_plans(form)
        else:
            search.run()
    except KeyboardInterrupt:
        runner.interrupted = True
    return runner.result()


@dataclass
class BestPlan:
    """The best plan of a search along one order: what it goes on from comes from nowhere else."""

    problem: Problem
    offer: Callable[[Plan], object]
    plan: Plan | None = None
    value: int | None = None

    def take(self, plan: Plan) -> None:
        """Take a plan, and offer it if it is better."""
        simulation = self.problem.judge(plan)
        value = self.problem.value(simulation)
        if simulation.feasible and (self.value is None or value < self.value):
            self.plan, self.value = plan, value
            self.offer(plan)


@dataclass
class _Counted:
    board: Board[int, Simulation]
    runner: Runner
    options: SearchOptions

    def run(self) -> None:
        board, count = self.board, self.options.iterations or 0
        try:
            if board.instance.free_order:
                self._anneal_in_any_order(count)
            else:
                self._search_along_input_order(count, count)
                if not self.runner.over():
                    self._bound_along_input_order(count / ITERATIONS_PER_WORK)
            if board.instance.free_order and not self.runner.over():
                self._bound_in_any_order(count / ITERATIONS_PER_WORK)
        finally:
            self._pass_on()

    def run_plans(self, form: Searched) -> None:
        """Search for plans for as many turns as there are iterations, shared by the orders that are tried."""
        board, runner, problem = self.board, self.runner, self.board.problem
        orders = dict.fromkeys([board.instance.order, *(self._orders() if board.instance.free_order else ())])
        try:
            for order in orders:
                if not runner.over():
                    turns = Turns(max(1, (self.options.iterations or 0) // len(orders)), runner.over)
                    best = BestPlan(problem.along(order), lambda plan: self._offer(plan, SEARCH))
                    form.search(best.problem, runner.seed, best.take, turns, partial(getattr, best, "plan"))
        finally:
            self._pass_on()

    def _orders(self) -> list[tuple[int, ...]]:
        """A few orders of low peak."""
        instance = self.board.instance
        if len(instance.order) > MOST_ORDERED:
            return []
        return list(good_orders(
            instance.graph, seed=self.runner.seed, stop=self.runner.over, start=instance.order, windows=WINDOWS,
            tries=DRAFTS,
        ))  # fmt: skip

    def _offer(self, sequence: tuple[Any, ...], source: str, phase: str = "") -> None:
        self.board.offer(sequence, source, phase)
        self._pass_on()

    def _pass_on(self) -> None:
        while not self.board.news.empty():
            self.runner.call.listener(self.board.news.get())

    # Input order

    def _search_along_input_order(self, count: int, whole: int) -> None:
        """Local search; `count` of `whole` iterations."""
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        board, runner = self.board, self.runner
        problem = board.problem.along(board.instance.order) if board.instance.free_order else board.problem
        assert isinstance(problem, Instance)
        search = LocalSearch(problem, runner.seed)
        search.run(
            lambda found: self._offer(found, LOCAL_SEARCH),
            lambda: runner.over() or search.moves >= count,
            runner.better_than if count == whole else lambda duration: None,
            on_peak=lambda found: self._offer(found, LOCAL_SEARCH, "peak"),
        )

    def _bound_along_input_order(self, work: float) -> None:
        board, runner = self.board, self.runner

        def note_draft(sequence: tuple[int, ...]) -> None:
            if board.answer is None:
                self._offer(sequence, RELAXATION, "peak")

        def note_bound(bound: int) -> None:
            board.improve_bound(bound, RELAXATION)
            self._pass_on()

        from moccasin_mzn.bounds.input_order import Alongside, duration_bound  # with OR-Tools, slow to import

        alongside = Alongside(
            note_bound, lambda sequence: self._offer(sequence, RELAXATION), note_draft, runner.over, lambda: board.value
        )
        proven = duration_bound(board.instance, time_limit=None, work=work, seed=runner.seed, alongside=alongside)
        if proven.infeasible:
            board.refute(RELAXATION)

    # Free order

    def _anneal_in_any_order(self, count: int) -> None:
        from moccasin_mzn.heuristics.free_order.search import OrderAnnealing

        board, runner, half = self.board, self.runner, count // 2
        self._search_along_input_order(half, count)
        drafts = [] if runner.over() else self._drafts()
        search = OrderAnnealing(board.instance, runner.seed)
        if not runner.over():
            search.run(
                lambda found: self._offer(tuple(found), ANNEALING),
                lambda: runner.over() or search.moves >= count - half,
                runner.better_than,
                lambda: drafts.pop(0) if drafts else None,
                on_peak=lambda found: self._offer(tuple(found), ANNEALING, "peak"),
            )

    def _drafts(self) -> list[tuple[int, ...]]:
        """Orders of low peak that are no schedules yet; those that are, are offered."""
        board, runner, instance = self.board, self.runner, self.board.instance
        if len(instance.order) > MOST_ORDERED:
            return []
        orders = good_orders(
            instance.graph, seed=runner.seed, stop=runner.over, start=instance.order, windows=WINDOWS, tries=DRAFTS
        )  # fmt: skip
        drafts = []
        for order in map(instance.together, orders):
            assert all(times == 1 for times in Counter(order).values())
            fits = judge(instance.graph, order, board.instance.budget).feasible
            self._offer(order, STARTS, "" if fits else "peak")
            drafts.append(order)
            if runner.over():
                break
        return drafts

    def _bound_in_any_order(self, work: float) -> None:
        from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
        from moccasin_mzn.bounds.flow_covers.counted import CountedCovers

        board, runner = self.board, self.runner
        bounds = FreeOrderBound.of(board.instance.graph)
        if bounds is None:
            return

        def note_bound(bound: int) -> None:
            board.improve_bound(bound, FLOW_COVERS)
            self._pass_on()

        CountedCovers(
            bounds, board.instance.budget, work, runner.seed, note_bound, lambda: board.value, runner.over
        ).run()  # fmt: skip
