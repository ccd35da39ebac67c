"""What a search for plans has found and proven so far, whoever found it. All threads of a search meet here.

Nothing is believed that the judge does not confirm: every plan is judged on arrival, and a bound above the value of an
accepted plan is an error of whoever claims it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from moccasin_mzn.errors import InputError, JudgeError, RefutedError
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total
from moccasin_mzn.problem.plan_pruning import pruned_plan


@dataclass(frozen=True)
class PlanProgress:
    """A new incumbent or a new bound, while the search goes on."""

    seconds: float
    """Since the search began."""
    value: int | None
    """Of the incumbent: its total of the objective; None while there is none."""
    bound: int
    """No plan has less."""
    simulation: PlanSimulation | None
    """The judge's account of the incumbent."""
    plan: Plan | None
    """The incumbent, where it is new."""
    source: str
    """Who improved the incumbent or the bound."""


PlanListener = Callable[[PlanProgress], None]


@dataclass(frozen=True)
class PlanPoint:
    """The best plan and the best bound from this moment on."""

    seconds: float
    value: int | None
    bound: int


@dataclass
class PlanRecord:
    """Best plan and best bound, with the time of each improvement. Safe to use from any thread.

    Raises:
        JudgeError: from `offer`, `improve_bound` and `refute`, for what the judge contradicts.
    """

    problem: PlanProblem
    formulation: PlanFormulation
    begin: float
    """By `time.monotonic()`; all seconds count from here."""
    until_gap: float = 0.0
    """The search may end at this gap, as a fraction of the value."""
    plan: Plan | None = None
    simulation: PlanSimulation | None = None
    """The judge's account of `plan`."""
    plan_source: str = ""
    bound: int = 0
    """On the objective, in the problem's unit."""
    bound_source: str = ""
    infeasible_source: str = ""
    """Who proved that there is no plan; empty if nobody has."""
    claim: str = ""
    """What a solver in doubles claims and nobody has proven; empty if none does."""
    trace: list[PlanPoint] = field(default_factory=list)
    news: queue.SimpleQueue[PlanProgress] = field(default_factory=queue.SimpleQueue)
    """What to tell whoever waits for the search, in their thread."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set as soon as there is nothing left to search for."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.bound = least_total(self.problem.platform, self.problem.goal.objective)
        instant = self.formulation.instant_bound(self.problem)
        if instant > self.bound:
            self.bound, self.bound_source = instant, "the instant bound"

    @property
    def seconds(self) -> float:
        """Since `begin`."""
        return time.monotonic() - self.begin

    @property
    def value(self) -> int | None:
        """Of the best plan."""
        return None if self.simulation is None else self.problem.value(self.simulation)

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; None without a plan."""
        if self.simulation is None:
            return None
        return (self.value - self.bound) / self.value if self.value else 0.0

    def take_warm_start(self, plan: Plan) -> None:
        """Begin with a plan, without actions that nothing needs: in stages there may be no place for them.

        Raises:
            InputError: it is not within budgets and limits, or no solution of the formulation.
        """
        problem, out_of_scope = self.problem, self.formulation.out_of_scope
        flaws = [flaw.message for flaw in judge_plan(problem.platform, plan, problem.goal).violations]
        useful = plan if flaws else pruned_plan(problem.platform, plan)
        if not flaws and (problem.out_of_scope(plan) or out_of_scope(problem, useful)):
            flaws = [out_of_scope(problem, plan)]
        if flaws:
            raise InputError(f"warm start: {flaws[0]}")
        self.offer(useful, "the warm start")

    def offer(self, plan: Plan, source: str) -> PlanSimulation:
        """Take a plan for judgement, and keep it if it is the best.

        Raises:
            JudgeError: it is not within budgets and limits, no solution of the formulation, or better than the bound.
        """
        simulation = judge_plan(self.problem.platform, plan, self.problem.goal)
        flaw = next((violation.message for violation in simulation.violations), None)
        flaw = flaw or self.formulation.out_of_scope(self.problem, plan)
        if flaw is not None:
            raise JudgeError(f"{source} returned a plan that the judge rejects: {flaw}")
        with self._lock:
            if self.simulation is None or self.problem.value(simulation) < self.value:
                self.plan, self.simulation, self.plan_source = tuple(plan), simulation, source
                self.claim = ""  # refuted
                self._check()
                self._note(source, new=True)
        return simulation

    def improve_bound(self, bound: int, source: str) -> None:
        """No plan has less than `bound`.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            if bound > self.bound:
                self.bound, self.bound_source = bound, source
                self._check()
                self._note(source)

    def refute(self, source: str) -> None:
        """There is no plan at all.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            self.infeasible_source = source
            self._check()
            self.ended.set()

    def _check(self) -> None:
        claim = None
        if self.simulation is not None and self.infeasible_source:
            claim = f"{self.infeasible_source} claims that there is no plan"
        elif self.simulation is not None and self.value < self.bound:
            claim = f"{self.bound_source} claims that no plan has less {self.problem.goal.objective} than {self.bound}"
        if claim is not None:
            raise RefutedError(claim, f"{self.value} of {self.plan_source}")

    def _note(self, source: str, new: bool = False) -> None:
        self.trace.append(PlanPoint(self.seconds, self.value, self.bound))
        plan = self.plan if new else None
        self.news.put(PlanProgress(self.seconds, self.value, self.bound, self.simulation, plan, source))
        if self.gap is not None and self.gap <= self.until_gap:
            self.ended.set()
