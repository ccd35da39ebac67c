"""Plans for one device with several memories without the model: incumbents for it to start from.

A schedule of one memory becomes a plan when each of its retention intervals is given a memory (see `assign`). So first
schedules are sought within budgets between what the fastest memory holds and what all hold together, as a shorter
schedule need not be the better one where slow memory is costly. Then the best plan is changed a little, many times: an
output is recomputed before one of its reads, or no longer, and what that touches is given a memory anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from moccasin_mzn.base.clock import Deadline, seconds_by
from moccasin_mzn.extensions.pools.assign import NOWHERE, Assignment, Interval
from moccasin_mzn.extensions.pools.data import budgets_of, one_memory
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Plan
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.search.conclusion import known_at_once

LADDER = (0.0, 1.0, 0.5, 0.25, 0.75)
"""Budgets of schedules, between the fastest memory's and that of all together, the most different ones first."""
ROUNDS = 3
"""The number of rounds of local search at each budget."""
SECONDS_PER_BUDGET = 3.0
FIRST_TURNS, TURNS = 2000, 60
"""Changes of memories of the first plan for a schedule, and after each change of the schedule."""
MOST_OFFERED = 6
"""So many of the latest schedules at each budget become plans: those before are longer."""
MOST_AGAIN = 6
"""So many recomputations are added at once, while no plan is known."""

Offer = Callable[[Plan], object]
Stop = Callable[[], bool]


class PoolsSearch:
    """For a seed, the same plans in the same order; only how many depends on time."""

    def __init__(self, problem: PlanProblem, seed: int = 0) -> None:
        self.problem, self.seed, self.rng = problem, seed, random.Random(seed)
        platform = problem.platform
        self.graph, self.memories = platform.graph, platform.memories
        self.capacities = budgets_of(platform)
        self.order = problem.instance.order
        self.place = {v: k for k, v in enumerate(self.order)}
        self.value: int | None = None
        self.plan: Plan | None = None

    def run(self, offer: Offer, stop: Stop, better: Callable[[], Plan | None] = lambda: None) -> None:
        """Search until `stop()`; see `PlanFormulation.search`."""
        self._take(self.order, offer, stop, ())
        if self.value == self.problem.least_value():
            return
        known_schedules = [list(self.order)]
        for sequence in self._schedules(stop):
            known_schedules.append(list(sequence))
            self._take(sequence, offer, stop, ())
        while not stop():
            known = better()
            if known is not None and self._is_better(known):
                self.plan, self.value = known, self.problem.value(self.problem.judge(known))
            if self.plan is None:
                self._guess(self.rng.choice(known_schedules), offer, stop)
            else:
                self._change(offer, stop)

    # Schedules of one memory

    def _schedules(self, stop: Stop) -> Iterator[tuple[int, ...]]:
        """Schedules within one budget after the other, of each the best ones last."""
        alone = one_memory(self.problem)
        least, most = self.capacities[self._fastest()], sum(self.capacities)
        for share in LADDER:
            if stop():
                return
            instance = replace(alone, budget=least + round(share * (most - least)))
            known = known_at_once(instance)
            if known is not None:
                if known[2] is not None:
                    yield tuple(known[2])
                continue
            yield from self._searched(instance, stop)

    def _searched(self, instance: Instance, stop: Stop) -> list[tuple[int, ...]]:
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        deadline, found = Deadline(seconds_by(stop, SECONDS_PER_BUDGET)), list[tuple[int, ...]]()
        LocalSearch(instance, self.seed).run(
            lambda sequence: found.append(tuple(sequence)), lambda: stop() or deadline.over(), max_rounds=ROUNDS
        )
        return found[-MOST_OFFERED:]

    def _fastest(self) -> int:
        totals = [sum(map(memory.access, range(len(self.graph.nodes)))) for memory in self.memories]
        return min(range(len(totals)), key=totals.__getitem__)

    # Plans of schedules

    def _take(self, sequence: Sequence[int], offer: Offer, stop: Stop, begin_with: Sequence[int]) -> bool:
        """The plan of a schedule, where there is room; True if it is no worse than the best, which it then becomes."""
        intervals = self.intervals(sequence)
        if intervals is None:
            return False
        found = Assignment(intervals, self.capacities, len(sequence), self.rng)
        if not found.find(begin_with):
            return False
        found.improve(TURNS if begin_with else FIRST_TURNS, stop)
        plan = tuple(Action(v, m) for v, m in zip(sequence, found.places, strict=True))
        simulation = judge_plan(self.problem.platform, plan, self.problem.goal)
        if simulation.violations or self.problem.out_of_scope(plan) is not None:
            return False
        if self.value is not None and simulation.duration > self.value:
            return False
        if self.value is None or simulation.duration < self.value:
            plan = pruned_plan(self.problem.platform, plan)
            offer(plan)
        self.plan, self.value = plan, self.problem.value(self.problem.judge(plan))
        return True

    def intervals(self, sequence: Sequence[int]) -> list[Interval] | None:
        """The retention intervals of a schedule, one for each step; None: it is none."""
        latest, end, reads = dict[int, int](), list(range(len(sequence))), [0] * len(sequence)
        for t, v in enumerate(sequence):
            for u in self.graph.predecessors[v]:
                if u not in latest:
                    return None
                end[latest[u]] = t
                reads[latest[u]] += 1
            latest[v] = t
        return [
            Interval(
                t, end[t], self.graph.sizes[v], tuple((1 + reads[t]) * one.access(v) for one in self.memories),
                self.graph.workspace_of[v],
            )
            for t, v in enumerate(sequence)
        ]  # fmt: skip

    def _is_better(self, plan: Plan) -> bool:
        if plan == self.plan or first_out_of_stage(self.order, [action.node for action in plan]) is not None:
            return False
        simulation = self.problem.judge(plan)
        return simulation.feasible and (self.value is None or self.problem.value(simulation) < self.value)

    # Small changes

    def _guess(self, sequence: list[int], offer: Offer, stop: Stop) -> None:
        """A schedule with more recomputations, so that outputs are in memory for a shorter time: it may have a plan
        where none is known."""
        for _ in range(self.rng.randint(0, MOST_AGAIN)):
            changed = self._recomputed(sequence, [NOWHERE] * len(sequence))
            if changed is not None and first_out_of_stage(self.order, changed[0]) is None:
                sequence = changed[0]
        self._take(sequence, offer, stop, ())

    def _change(self, offer: Offer, stop: Stop) -> None:
        """One change of the best plan, kept if it is no worse."""
        assert self.plan is not None
        sequence, places = [action.node for action in self.plan], [action.memory for action in self.plan]
        which = self.rng.random()
        if which < 0.5:
            changed = self._recomputed(sequence, places)
        elif which < 0.8:
            changed = self._less_recomputed(sequence, places)
        else:
            changed = sequence, places
        if changed is not None and first_out_of_stage(self.order, changed[0]) is None:
            self._take(changed[0], offer, stop, changed[1])

    def _recomputed(self, sequence: list[int], places: list[int]) -> tuple[list[int], list[int]] | None:
        """An output recomputed just before a read, at its place in that stage; what it splits is placed anew."""
        t = self.rng.randrange(len(sequence))
        inputs = self.graph.predecessors[sequence[t]]
        if not inputs:
            return None
        u = self.rng.choice(inputs)
        if sequence.count(u) >= self.problem.most_intervals(u, 0):
            return None
        before = max(k for k in range(t) if sequence[k] == u)
        at = t
        while at - 1 > before and self._is_again(sequence, at - 1) and self.place[sequence[at - 1]] > self.place[u]:
            at -= 1
        places = [NOWHERE if k == before else m for k, m in enumerate(places)]
        return [*sequence[:at], u, *sequence[at:]], [*places[:at], NOWHERE, *places[at:]]

    def _less_recomputed(self, sequence: list[int], places: list[int]) -> tuple[list[int], list[int]] | None:
        again = [t for t in range(len(sequence)) if self._is_again(sequence, t)]
        if not again:
            return None
        t = self.rng.choice(again)
        before = max(k for k in range(t) if sequence[k] == sequence[t])
        places = [NOWHERE if k == before else m for k, m in enumerate(places)]
        return [*sequence[:t], *sequence[t + 1 :]], [*places[:t], *places[t + 1 :]]

    @staticmethod
    def _is_again(sequence: Sequence[int], t: int) -> bool:
        return sequence[t] in sequence[:t]
