"""Plans for one device with several memories without the model: incumbents for it to start from.

A schedule of one memory becomes a plan when each of its retention intervals is given a memory (see `assign`). So first
schedules are sought within budgets between what the fastest memory holds and what all hold together, as a shorter
schedule need not be the better one where slow memory is costly. Then the best plan is changed a little, many times: an
output is recomputed before one of its reads, or no longer, and what that touches is given a memory again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from moccasin_mzn.base.clock import Deadline, seconds_by
from moccasin_mzn.machine.pools.assign import NOWHERE, Assignment, Item
from moccasin_mzn.machine.pools.bound import budgets_of, one_memory
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.placing import joined
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
"""This many of the latest schedules at each budget become plans: those before are longer."""
IN_PLACE = 0.8
"""How often what may overwrite an input is put where that is, when a plan is changed."""
MOST_AGAIN = 6
"""This many recomputations are added at once, while no plan is known."""

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
        taken = self.items(sequence, in_place=self._joins_in_place(begin_with))
        if taken is None:
            return False
        items, of_step = taken
        found = Assignment(items, self.capacities, len(sequence), self.rng)
        if not found.find(_places_of_items(begin_with, of_step, len(items))):
            return False
        found.improve(TURNS if begin_with else FIRST_TURNS, stop)
        plan = tuple(Action(v, found.places[i]) for v, i in zip(sequence, of_step, strict=True))
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

    def _joins_in_place(self, begin_with: Sequence[int]) -> bool:
        """Whether what may overwrite an input is put where that is: mostly, as nothing else saves its memory."""
        return self.graph.overwritable is not None and (not begin_with or self.rng.random() < IN_PLACE)

    def items(self, sequence: Sequence[int], in_place: bool = True) -> tuple[list[Item], list[int]] | None:
        """What is placed of a schedule, and for each step the item that its copy is of; None: it is no schedule.

        Args:
            in_place: is what may overwrite an input put where that is?
        """
        latest, end, reads = dict[int, int](), list(range(len(sequence))), [0] * len(sequence)
        together = list[tuple[int, ...]]()
        for t, v in enumerate(sequence):
            first = self.graph.operation_of[v]
            for u in self.graph.predecessors[v]:
                if u not in latest:
                    return None
                end[latest[u]] = t
                reads[latest[u]] += first == v
            together += [(latest[first], t)] if first != v else []
            together += [tuple(latest[u] for u in group) for group in (self.graph.adjacent or {v: ()})[v]]
            latest[v] = t
        over = self._overwritten(sequence, end) if in_place else {}
        parts = joined(len(sequence), [*together, *over.items()])
        of_step = [0] * len(sequence)
        for i, part in enumerate(parts):
            for t in part:
                of_step[t] = i
        pieces: list[list[tuple[int, int, int]]] = [[] for _ in parts]
        costs = [[0] * len(self.memories) for _ in pieces]
        for t, v in enumerate(sequence):
            written = (v, *self.graph.outputs_of[v]) if self.graph.operation_of[v] == v else ()
            if (begin := t + (t in over)) <= end[t]:
                pieces[of_step[t]].append((begin, end[t], self.graph.sizes[v]))
            pieces[of_step[t]].append((t, t, self.graph.workspace_of[v]))
            for m, memory in enumerate(self.memories):
                costs[of_step[t]][m] += reads[t] * memory.access(v) + sum(map(memory.access, written))
        return [Item.of(of, tuple(cost)) for of, cost in zip(pieces, costs, strict=True)], of_step

    def _overwritten(self, sequence: Sequence[int], end: Sequence[int]) -> dict[int, int]:
        """For each step that may overwrite an input the step whose copy that is, which ends there."""
        rows, latest, found = self.graph.overwritable or (), dict[int, int](), dict[int, int]()
        for t, v in enumerate(sequence):
            dying = [u for u in (rows[v] if rows else ()) if end[latest[u]] == t]
            if dying:
                found[t] = latest[max(dying, key=self.graph.sizes.__getitem__)]
            latest[v] = t
        return found

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
        """An output recomputed just before a read, at its place in that stage; what it splits is placed again."""
        t = self.rng.randrange(len(sequence))
        inputs = self.graph.predecessors[sequence[t]]
        if not inputs:
            return None
        u = self.rng.choice(inputs)
        if sequence.count(u) >= self.problem.most_intervals(u, 0):
            return None
        first = self.graph.operation_of[u]
        run = [u] if first == u else [first, u]
        before = max(k for k in range(t) if sequence[k] == u)
        at = t
        while at - 1 > before and self._is_again(sequence, at - 1) and self.place[sequence[at - 1]] > self.place[u]:
            at -= 1
        places = [NOWHERE if k == before else m for k, m in enumerate(places)]
        return [*sequence[:at], *run, *sequence[at:]], [*places[:at], *[NOWHERE] * len(run), *places[at:]]

    def _less_recomputed(self, sequence: list[int], places: list[int]) -> tuple[list[int], list[int]] | None:
        again = [t for t in range(len(sequence)) if self._is_again(sequence, t)]
        if not again:
            return None
        t = self.rng.choice(again)
        after = t + 1
        while after < len(sequence) and self.graph.operation_of[sequence[after]] == sequence[t] != sequence[after]:
            after += 1
        before = max(k for k in range(t) if sequence[k] == sequence[t])
        places = [NOWHERE if k == before else m for k, m in enumerate(places)]
        return [*sequence[:t], *sequence[after:]], [*places[:t], *places[after:]]

    @staticmethod
    def _is_again(sequence: Sequence[int], t: int) -> bool:
        return sequence[t] in sequence[:t]


def _places_of_items(places: Sequence[int], of_step: Sequence[int], count: int) -> list[int]:
    """The memory of each item, from those of its steps; `NOWHERE` if these differ. None are given: none has one."""
    found: list[set[int]] = [set() for _ in range(count if places else 0)]
    for place, item in zip(places, of_step if places else (), strict=True):
        found[item].add(place)
    return [next(iter(some)) if len(some) == 1 else NOWHERE for some in found]
