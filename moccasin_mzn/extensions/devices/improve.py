"""Plans made better by small changes, each judged: computed again or copied, computed here or there.

Slow beside compiled local search, but it knows all that the judge knows: any number of memories, limits, any objective.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from moccasin_mzn.extensions.devices.slots import Slot, Slots, plan_of, slots_of
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.pruning import pruned_plan


def valued(problem: PlanProblem, plan: Plan) -> int | None:
    """The value of a plan; None if the judge rejects it or it has too many intervals."""
    simulation = judge_plan(problem.platform, plan, problem.goal)
    if simulation.violations or problem.out_of_scope(plan) is not None:
        return None
    return problem.value(simulation)


class Improver:
    """Changes one plan as long as that makes it no worse.

    Args:
        plan: in stages of the input order; the judge accepts it.
    """

    def __init__(self, problem: PlanProblem, plan: Plan, rng: random.Random) -> None:
        self.problem, self.rng, self.platform = problem, rng, problem.platform
        self.count = len(self.platform.memories)
        number = {v: k for k, v in enumerate(problem.instance.order, 1)}
        self.inputs = [[], *([number[u] for u in self.platform.graph.predecessors[v]] for v in problem.instance.order)]
        self.used = [[], *(bool(self.platform.graph.successors[v]) for v in problem.instance.order)]
        value = valued(problem, plan)
        assert value is not None
        self.plan, self.value = plan, value
        self.slots = slots_of(problem, plan)

    def sweep(self, stop: Callable[[], bool]) -> Iterator[Plan]:
        """Try each action in random order; tells of plans that are better."""
        for slot in self.rng.sample(sorted(self.slots), len(self.slots)):
            for changed in self._changes(slot) if slot in self.slots else ():
                if stop():
                    return
                before = self.value
                if self._take(changed):
                    if self.value < before:
                        yield self.plan
                    break

    def _take(self, changed: Slots) -> bool:
        plan = plan_of(self.problem, changed)
        if judge_plan(self.platform, plan, self.problem.goal).violations:
            return False
        plan = pruned_plan(self.platform, plan)
        value = valued(self.problem, plan)
        if value is None or value > self.value:
            return False
        self.plan, self.value, self.slots = plan, value, slots_of(self.problem, plan)
        return True

    def _changes(self, slot: Slot) -> Iterator[Slots]:
        """Tables with another action in place of that in a slot."""
        stage, v, at = slot
        if self.slots[slot] is not None:
            yield from self._recomputed(slot)
        elif stage > v:
            yield from self._copied(stage, v, at)
        elif sum((v, v, m) in self.slots for m in range(self.count)) == 1:
            yield from self._moved(v, at)

    def _recomputed(self, slot: Slot) -> Iterator[Slots]:
        stage, v, at = slot
        memory = at - self.count
        if self._computes(v, memory):
            yield self._with(slot, {(stage, v, memory): None})
        if stage == v:  # and a copy that is no more needed early may be made later
            yield self._with(slot, {})

    def _copied(self, stage: int, v: int, memory: int) -> Iterator[Slots]:
        """Copied instead of computed again, from where it was copied to right after its first computation."""
        home = next(m for m in range(self.count) if (v, v, m) in self.slots)
        yield self._with((stage, v, memory), {})
        for store in self._others(memory):
            more: Slots = {(stage, v, memory + self.count): store}
            if (store, memory) in self.platform.link_between:
                yield self._with((stage, v, memory), more)
                early = (v, v, store + self.count)
                if store != home and early not in self.slots and (home, store) in self.platform.link_between:
                    yield self._with((stage, v, memory), {**more, early: home})

    def _moved(self, v: int, memory: int) -> Iterator[Slots]:
        """Computed for the first time on another device: inputs copied there, the output copied back."""
        for device in self._others(memory):
            linked = {(memory, device), (device, memory)} <= self.platform.link_between.keys()
            if linked and self._computes(v, device):
                there: Slots = {(v, v, device): None}
                if self.used[v]:
                    there[v, v, memory + self.count] = device
                for store in self._others(memory):
                    if (v, v, store + self.count) in self.slots and (device, store) in self.platform.link_between:
                        there[v, v, store + self.count] = device
                copies = {(v, u, device + self.count): memory for u in self.inputs[v]}
                for more in ({**there, **copies}, there):
                    moved = self._with((v, v, memory), more)
                    moved.pop((v, v, device + self.count), None)
                    yield moved

    def _others(self, memory: int) -> list[int]:
        others = [m for m in range(self.count) if m != memory]
        return self.rng.sample(others, len(others))

    def _computes(self, v: int, memory: int) -> bool:
        return self.platform.memories[memory].computes(self.problem.instance.order[v - 1])

    def _with(self, slot: Slot, more: Slots) -> Slots:
        """The table without a slot and with others."""
        changed = {**self.slots, **more}
        if slot not in more:
            del changed[slot]
        return changed
