"""The chain for plans: a problem and a formulation in, the best plan and what is proven about it out.

A search of the formulation's own runs in a thread beside the model; both meet in a `PlanRecord`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from moccasin_mzn.clock import POLL_SECONDS
from moccasin_mzn.errors import JudgeError
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.plan_pruning import pruned_plan
from moccasin_mzn.search.doubles import doubtful, said
from moccasin_mzn.search.plan_conclusion import conclude_plan, plan_scope
from moccasin_mzn.search.plan_options import PlanOptions
from moccasin_mzn.search.plan_record import PlanListener, PlanRecord
from moccasin_mzn.search.plan_result import PlanResult
from moccasin_mzn.search.result import Seconds
from moccasin_mzn.search.threads import Beside
from moccasin_mzn.solvers.minizinc.dzn import dzn_text
from moccasin_mzn.solvers.minizinc.integers import check_integers
from moccasin_mzn.solvers.minizinc.run import Limits, Listener, Outcome, run_model, version_told
from moccasin_mzn.solvers.minizinc.solvers import Backend, check_solvers, find_backend

SEARCH = "search"
HEAD_START, HEAD_START_SHARE = 2.0, 0.15
"""Seconds that the search has before the model is set up, and no more than this share of the time limit."""
LONGEST_WITHOUT_PLAN, LONGEST_SHARE = 10.0, 0.3
"""The same while there is no plan to start from."""
LONELY_SECONDS = 30.0
"""Without a time limit, the search ends so long after the latest improvement if nothing else is going on."""


def solve_plan(
    problem: PlanProblem,
    formulation: PlanFormulation,
    options: PlanOptions = PlanOptions(),  # noqa: B008 (frozen)
    on_progress: PlanListener | None = None,
    begin: float | None = None,
    warm_start: Plan | None = None,
) -> PlanResult:
    """Find the best plan of a problem among the solutions of a formulation.

    Args:
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        warm_start: a plan within budgets and limits, and a solution of the formulation, to start from.

    Returns:
        The best plan found. An interrupt from the keyboard ends the search, not this function; so does a solver that
        fails after a plan has been found.

    Raises:
        InputError: nonsense in an argument, MiniZinc missing, an unknown solver, one that failed before a plan was
            found, or one that the judge contradicts (`JudgeError`).
    """
    begin = time.monotonic() if begin is None else begin
    record = PlanRecord(problem, formulation, begin, options.until_gap)
    search = _Search(record, options)
    if warm_start is not None:
        record.take_warm_start(warm_start)
    impossible = why_impossible(problem)
    if impossible is not None or options.search == "only":
        check_solvers([options.solver])
    if impossible is None:
        search.run(on_progress or (lambda progress: None))
    return search.result(impossible)


@dataclass
class _Search(Beside):
    """One call of `solve_plan`: the threads, and how it ended."""

    record: PlanRecord
    options: PlanOptions
    backend: Backend | None = None
    """None without the model."""
    outcome: Outcome = field(default_factory=Outcome)
    latest_value: int | None = None
    """Of the model's latest solution."""
    solution: dict[str, Any] = field(default_factory=dict)

    def _start(self) -> None:
        if self.options.search != "only":
            backend = self.backend = find_backend(self.options.solver)
            problem, form = self.record.problem, self.record.formulation
            check_integers([backend], lambda: form.sums(form.data(problem)), problem.platform.graph.nodes)
        if self._over():
            return
        if self.options.search != "off":
            self._run_beside(self._look, SEARCH)
        if self.options.search != "only":
            self._run_beside(self._solve_model, "model")

    def _lonely(self) -> bool:
        """Is the search, which need not end by itself, all that is left, and of no more use?"""
        if self.options.time_limit is not None:
            return False
        alive = [thread.name for thread in self.threads if thread.is_alive()]
        latest = self.record.trace[-1].seconds if self.record.trace else 0.0
        return alive == [SEARCH] and self.record.seconds > latest + LONELY_SECONDS

    def _answered(self) -> bool:
        return self.record.plan is not None or bool(self.record.infeasible_source)

    # Search and model

    def _look(self) -> None:
        record = self.record
        record.formulation.search(
            record.problem, self.options.seed or 0, lambda plan: record.offer(plan, SEARCH), self._over,
            lambda: record.plan,
        )  # fmt: skip

    def _wait_for_incumbent(self) -> None:
        """Give the search a head start, longer while there is no plan."""
        limit = self.options.time_limit or 1e9
        head_start, longest = (
            min(HEAD_START, HEAD_START_SHARE * limit),
            min(LONGEST_WITHOUT_PLAN, LONGEST_SHARE * limit),
        )
        begin = self.record.seconds
        while not self._over() and any(thread.is_alive() for thread in self.threads if thread.name == SEARCH):
            if self.record.seconds - begin > (longest if self.record.plan is None else head_start):
                return
            self.stopping.wait(POLL_SECONDS)

    def _solve_model(self) -> None:
        record, formulation, options = self.record, self.record.formulation, self.options
        if options.search != "off":
            self._wait_for_incumbent()
        remaining = self._remaining()
        if self._over() or (remaining is not None and remaining <= 0):
            return
        threads = options.threads
        if options.search != "off":
            threads = max(1, (threads or os.cpu_count() or 1) - 1)
        data = formulation.data(record.problem)
        incumbent, limit = record.plan, record.value
        doubted = doubtful(self.backend, lambda: formulation.sums(data))
        items = formulation.data_items(data, incumbent, limit)
        listener = Listener(
            solution=lambda values: self._note_solution(data, items, values),
            bound=lambda bound: doubted or record.improve_bound(formulation.objective(data, bound), self.backend.name),
        )
        limits = Limits(remaining, threads, options.seed, formulation.parameters())
        self.outcome = run_model(
            self.backend, formulation.model(), dzn_text(items), limits, listener, self._over, incumbent is not None
        )
        told = said(self.backend, self.outcome, doubted)
        if told.claim:
            record.claim = f"{self.backend.title} claims {told.claim}, not provable in doubles"
        elif told.status == "infeasible":
            record.refute(told.source)
        elif told.status == "optimal" and self.latest_value is not None:
            record.improve_bound(self.latest_value, told.source)

    def _note_solution(self, data: Any, items: dict[str, Any], values: Any) -> None:
        """Have an improving solution judged; only the judge's figures count."""
        record, formulation = self.record, self.record.formulation
        plan = formulation.plan(data, values)
        found = record.problem.value(record.offer(plan, self.backend.name))
        claimed = formulation.objective(data, values.objective)
        if claimed != found:
            what = record.problem.goal.objective
            raise JudgeError(f"{self.backend.name} reports {claimed}, but the simulator finds a {what} of {found}")
        self.latest_value = found
        self.solution = {**items, **formulation.solution_items(data, values)}
        record.offer(pruned_plan(record.problem.platform, plan), self.backend.name)

    # The answer

    def result(self, impossible: str | None) -> PlanResult:
        """What is found and proven; `impossible`: why there is no plan, known without a search."""
        record = self.record
        scope = plan_scope(record.problem, record.formulation)
        known = ("infeasible", impossible) if impossible else None
        status, reason = known or conclude_plan(record, scope, self._ended_before("before the search gave up"))
        flatten = self.outcome.flatten_seconds
        seconds = Seconds(flatten=flatten, solve=self.outcome.seconds - flatten, total=record.seconds)
        return PlanResult(
            record.problem, record.formulation, self.options.solver, status, reason, record.plan, record.simulation,
            record.bound, seconds, self.interrupted, tuple(record.trace), record.plan_source, self.solution or None,
            driver=self.backend.driver_title if self.backend else None,
            solver_version=version_told(self.backend, [self.outcome]),
        )  # fmt: skip
