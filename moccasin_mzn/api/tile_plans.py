"""Parts of a graph for several memories, chosen by what plans of them cost.

::

    tilings, fine to coarse ──> tried in the first memory alone ──> those nearest to its budget, and whole layers
                                (tile_trials)                         plans along their schedules, the best one first

A tiling whose parts need no other memory, each computed once, ends the choice: nothing costs less. Where the first
memory does not compute everything, or has no budget, tilings are tried within the peak of whole layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from moccasin_mzn.api.request import Request
from moccasin_mzn.api.tile_trials import KEPT, TRIAL_SHARE, Trial, chosen
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.platform import Plan, plan_of_sequence
from moccasin_mzn.search.counted import BestPlan
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.searchers.several_memories import instance_alone

WHOLE_SHARE, ALONE_SHARE = 0.05, 0.6
"""Shares of the time: of all for plans of whole layers, and of the choice for tilings in the first memory alone."""
FINALISTS = 2 * KEPT
"""The number of tilings whose plans are made, besides whole layers."""
_LONGEST = 10.0
"""The most seconds of the plans of one tiling."""


def _problem_of(request: Request) -> PlanProblem:
    assert isinstance(request.problem, PlanProblem)
    return request.problem


def alone(request: Request) -> Request:
    """Return the question about the first memory alone; its schedules are plans, or what plans are made of."""
    problem = _problem_of(request)
    place, instance = problem.platform.memories[0], instance_alone(problem)
    if instance is None or place.budget is None:
        instance = replace(problem.instance, budget=problem.instance.baseline.peak, free_order=True)
    options = request.options
    how = Options(search="only", threads=getattr(options, "threads", None), seed=options.seed, if_none="stop")
    return Request(instance, replace(how, time_limit=options.time_limit), alignment=request.alignment)


@dataclass
class Planned:
    """A tiling, and the best plan of it so far."""

    request: Request
    trial: Trial
    best: Plan | None = field(default=None, init=False)
    value: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        self.problem = _problem_of(self.request)

    @property
    def rank(self) -> tuple[float, ...]:
        """The least is best. Without a plan what has none for sure comes last, as others may just not be tried yet."""
        if self.best is not None:
            return self.value, len(self.problem.graph.nodes)
        return math.inf, why_impossible(self.problem) is not None, *self.trial.rank

    @property
    def done(self) -> bool:
        """Nothing costs less."""
        return self.value <= self.problem.least_value()

    def search(self, stop: Callable[[], bool]) -> None:
        """Make plans along the orders of the trial's schedules."""
        sequences = [sequence for sequence in (self.trial.best, self.trial.nearest) if sequence is not None]
        for sequence in sequences:
            self._take(plan_of_sequence(sequence, 0))
        form, seed = self.request.formulation, self.request.options.seed or 0
        assert isinstance(form, PlanFormulation)
        for order in dict.fromkeys(tuple(dict.fromkeys(sequence)) for sequence in sequences):
            if stop() or self.done:
                return
            problem = self.problem.along(order)
            found = BestPlan(problem, self._take)
            form.search(problem, seed, found.take, lambda: stop() or self.done, partial(getattr, found, "plan"))

    def _take(self, plan: Plan) -> None:
        simulation = self.problem.judge(plan)
        value = self.problem.value(simulation)
        if simulation.feasible and value < self.value:
            self.best, self.value = plan, value

    def started(self) -> Request:
        """The request, which starts from the best plan."""
        return self.request if self.best is None else replace(self.request, start=self.best)


def _either(one: Callable[[], bool], other: Callable[[], bool]) -> bool:
    return one() or other()


def best_planned(
    whole: Request, requests: Iterator[Request], deadline: Deadline, stop: Callable[[], bool],
    on_interrupt: Callable[[], None],
) -> Request:  # fmt: skip
    """Return the request about the parts whose plans cost least; it starts from the best one.

    Args:
        whole: the question about whole layers.
        requests: one for each tiling.
        on_interrupt: called where an interrupt ends the choice.
    """
    planned: list[Planned] = []
    try:
        _plan_all(planned, whole, requests, deadline, stop, on_interrupt)
    except KeyboardInterrupt:
        on_interrupt()
    best = min(planned, key=lambda one: one.rank, default=None)
    if best is None or (best.best is None and why_impossible(best.problem) is not None):
        return next(requests, whole)  # which may be of use, and is all that is left
    return best.started()


def _plan_all(
    planned: list[Planned], whole: Request, requests: Iterator[Request], deadline: Deadline,
    stop: Callable[[], bool], on_interrupt: Callable[[], None],
) -> None:  # fmt: skip
    """Append whole layers, and then the tilings that are nearest to the first memory's budget, each with its plans."""
    assert whole.formulation is not None
    ready(*whole.formulation.compiled)
    asked = dict[int, Request]()

    def in_the_first_memory() -> Iterator[Request]:
        for request in requests:
            part = alone(request)
            asked[id(part)] = request
            yield part

    first = alone(whole)
    assert isinstance(first.problem, Instance)
    layers = Trial(first)
    layers.turn(stop)
    planned.append(Planned(whole, layers))
    planned[0].search(lambda: stop() or layers.done or deadline.over(WHOLE_SHARE))
    if planned[0].done:
        return
    trials = chosen(in_the_first_memory(), deadline.part(ALONE_SHARE), stop, known=[layers], on_interrupt=on_interrupt)
    nearest = [Planned(asked[id(trial.request)], trial) for trial in trials[:FINALISTS] if trial is not layers]
    for number, one in enumerate(nearest):
        left = deadline.remaining(TRIAL_SHARE)
        turn = Deadline(_LONGEST if left is None else min(_LONGEST, left / (len(nearest) - number)))
        planned.append(one)
        one.search(partial(_either, stop, turn.over))
        if one.done:
            return
