"""Plans of paging by annealing: from nothing, from the best schedule without slow memory, and from the best plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from moccasin_mzn.extensions.paging.build import LOCAL, PagingCosts, paging_platform
from moccasin_mzn.extensions.paging.data import local_instance
from moccasin_mzn.extensions.paging.kernel import BEST, CHANGES, LIMIT_PRICE, LOCAL_PRICE, NONE, TEMPERATURE, anneal
from moccasin_mzn.extensions.paging.sets import NO_LIMIT, plan_of, problem_of, room_for, set_of, useful_edges
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.heuristics.compiled_searches import ignore, small_instance
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan import Plan, plan_of_sequence
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.plan_pruning import pruned_plan

EVENTS_PER_CHUNK = 5_000_000
"""Moves between two looks at the clock, times events."""
FIRST_ROUND = 50_000
LONGEST = 4
"""Rounds get longer, doubling so often."""
HOT, WARM, COOL, COLD = 1.0, 0.3, 0.1, 0.02
"""Temperatures in mean costs."""
PRICE_RANGE = 1e4
PLAIN_ROUNDS, MORE_PLAIN_ROUNDS, MOST_PLAIN_ROUNDS = 2, 3, 10
"""Of the search without slow memory: at first; so many more each time later, as they get longer; at most."""

Offer = Callable[[Plan], Any]
Set = tuple[np.ndarray, np.ndarray]


class PagingSearch:
    """Annealing in rounds. For a seed, the same plans in the same order; only how many depends on time."""

    def __init__(self, problem: PlanProblem, seed: int = 0) -> None:
        self._asked = problem
        self._seed = seed
        self._instance = local_instance(problem)
        self._problem = problem_of(problem)
        self._local: Any = None
        """The search without slow memory, once it has begun."""
        self._tail, self._head = useful_edges(self._problem, self._instance)
        self._room = room_for(self._problem)
        self._generator = np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)
        costs = [self._problem.compute[0], self._problem.write[0] + self._problem.read[0]]
        positive = [row[row > 0].mean() for row in costs if np.any(row > 0)]
        self._unit = float(min(positive)) if positive else 1.0
        size = self._problem.size
        price = self._unit / (size[size > 0].mean() if np.any(size > 0) else 1.0) / 20
        limited = self._problem.compute + self._problem.write + self._problem.read
        limited = limited[self._problem.limit < NO_LIMIT]
        limit_price = self._unit / limited[limited > 0].mean() if np.any(limited > 0) else 1.0
        self._prices = np.array([price, price, limit_price])
        slots = len(self._problem.slot_node)
        self._control = np.array([0.0, *self._prices, math.inf])
        self._best: Set = (np.full(slots, NONE, np.int64), np.zeros(slots, np.int64))
        self._journal = np.zeros((CHANGES + 2, 3), np.int64)
        self._figures, self._trial = np.zeros(4, np.int64), np.zeros(4, np.int64)
        self._chunk = max(100, EVENTS_PER_CHUNK // (len(size) + slots))

    def run(
        self, offer: Offer, stop: Callable[[], bool], better: Callable[[], Plan | None] = lambda: None,
        max_rounds: int | None = None,
    ) -> None:  # fmt: skip
        """Search until `stop()`, or for so many rounds; see `PlanFormulation.search`."""
        self._offer(plan_of_sequence(self._instance.order), offer)
        if len(self._tail) == 0 or stop():
            return None
        if not self._problem.paging and not np.any(self._problem.limit < NO_LIMIT):
            return self._plain(max_rounds, offer, stop, better)
        plain_rounds = PLAIN_ROUNDS
        self._plain(plain_rounds, offer, stop, better)
        for number in itertools.count() if max_rounds is None else range(max_rounds):
            if stop():
                return None
            self._adopt(better())
            if number % 3 == 2:
                plain_rounds = min(plain_rounds + MORE_PLAIN_ROUNDS, MOST_PLAIN_ROUNDS)
                self._plain(plain_rounds, offer, stop, better)
            steps = FIRST_ROUND * 2 ** min(LONGEST, number // 2)
            if number % 2 == 0 or math.isinf(self._control[BEST]):
                empty = np.full_like(self._best[0], NONE), np.zeros_like(self._best[1])
                self._round(empty, COOL if number == 0 else HOT, steps, offer, stop)
            else:
                self._round(self._best, WARM, steps, offer, stop)

    def _plain(
        self, rounds: int | None, offer: Offer, stop: Callable[[], bool], better: Callable[[], Plan | None]
    ) -> None:  # fmt: skip
        """Schedules without slow memory, which go on from those found before, and from the best plan if it is one."""
        if self._local is None:
            from moccasin_mzn.heuristics.staged.search import LocalSearch

            self._local = LocalSearch(self._plain_instance(), self._seed)

        def known(duration: int | None) -> tuple[int, ...] | None:
            plan = better()
            if plan is None or any(action.source is not None for action in plan):
                return None
            sequence = tuple(action.node for action in plan)
            return sequence if first_out_of_stage(self._instance.order, sequence) is None else None

        self._local.run(lambda sequence: self._offer_ways(sequence, offer), stop, known, max_rounds=rounds)

    def _plain_instance(self) -> Instance:
        """The problem without slow memory, with what the objective counts as durations."""
        if self._asked.goal.objective != "energy":
            return self._instance
        energies = self._asked.platform.memories[LOCAL].energies
        return replace(self._instance, graph=replace(self._instance.graph, durations=energies))

    def _offer_ways(self, sequence: tuple[int, ...], offer: Offer) -> None:
        """A schedule, and the same with what is cheaper, or all, read back instead of computed again."""
        problem, node = self._problem, self._problem.slot_node
        stage, back = set_of(self._instance, problem, plan_of_sequence(sequence))
        ways = [back]
        if problem.paging:
            cheaper = problem.write[0, node] + problem.read[0, node] <= problem.compute[0, node]
            ways += [(which & (stage != NONE)).astype(np.int64) for which in (cheaper, np.ones(len(node), bool))]
        for way in ways:
            self._offer(plan_of(self._instance, problem, stage, way), offer)

    def _round(self, start: Set, temperature: float, steps: int, offer: Offer, stop: Callable[[], bool]) -> None:
        stage, back = start[0].copy(), start[1].copy()
        self._control[TEMPERATURE] = temperature * self._unit
        cooling = (COLD / temperature) ** (1 / steps)
        done, reported = 0, self._control[BEST]
        while done < (4 if math.isinf(self._control[BEST]) else 1) * steps and not stop():
            factor = cooling if done < steps else 1.0  # as cold as can be, until the first plan within the budgets
            anneal(
                self._problem, stage, back, self._tail, self._head, self._generator, self._chunk, factor, self._control,
                *self._best, self._journal, self._room, self._figures, self._trial,
            )  # fmt: skip
            done += self._chunk
            prices = self._control[LOCAL_PRICE : LIMIT_PRICE + 1]
            np.clip(prices, self._prices / PRICE_RANGE, self._prices * PRICE_RANGE, out=prices)
            if self._control[BEST] < reported:
                reported = self._control[BEST]
                offer(pruned_plan(self._asked.platform, plan_of(self._instance, self._problem, *self._best)))

    def _offer(self, plan: Plan, offer: Offer) -> None:
        """Offer a plan if it is within budgets and limits, and go on from it if it is the best."""
        plan = pruned_plan(self._asked.platform, plan)
        if judge_plan(self._asked.platform, plan, self._asked.goal).feasible:
            offer(plan)
            self._adopt(plan)

    def _adopt(self, plan: Plan | None) -> None:
        """Go on from a plan from elsewhere, if it is better and a set stands for it."""
        if plan is None:
            return
        chosen = set_of(self._instance, self._problem, plan)
        simulation = judge_plan(self._asked.platform, plan_of(self._instance, self._problem, *chosen), self._asked.goal)
        value = self._asked.value(simulation)
        if simulation.feasible and value < self._control[BEST]:
            self._control[BEST] = value
            for mine, new in zip(self._best, chosen, strict=True):
                mine[:] = new


def compile_all() -> None:
    """Call every compiled function once."""
    instance = small_instance()
    problem = PlanProblem(instance, paging_platform(instance.graph, instance.budget, PagingCosts()))
    PagingSearch(problem).run(ignore, lambda: False, max_rounds=1)
