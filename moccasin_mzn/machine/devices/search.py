"""Plans on several devices without the model: incumbents for it to start from.

First each device by itself, as if there were no other, by local search over recomputations; then outputs moved to
another memory instead; then small changes of what is best.

A staged plan is also a table of what is done in which slot, in which actions are added and taken away in any order. ::

    (stage, node, slot)      (1, 1, gpu)   (1, 1, to cpu)   (2, 2, gpu)   (3, 1, to gpu)   (3, 3, gpu)
    source                   None          gpu              None          cpu              None

Nodes and stages are numbered from 1 along the input order, memories from 0. Slots of computations are the memories,
those of copies the memories plus their number: see `machine.data.stages_of_plan`. A stage is one of an operation. Of
slots for several memories of one device, a plan uses one.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from operator import itemgetter

from moccasin_mzn.base.clock import Deadline, Turns, seconds_by
from moccasin_mzn.machine.data import StageSlots, stages_of_plan
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Plan, plan_of_sequence
from moccasin_mzn.search.conclusion import known_at_once

Slot = tuple[int, int, int]
Slots = dict[Slot, int | None]
"""Source of the action in each slot that is used; None: computed."""


def slots_of(stages: StageSlots, plan: Plan) -> Slots:
    """Return the table of a staged plan."""
    number = {v: k for k, v in enumerate(stages.order, 1)}
    return {
        (stage, number[action.node], action.memory + len(stages.devices) * (action.source is not None)): action.source
        for stage, action in zip(stages_of_plan(stages, plan), plan, strict=True)
    }


def plan_of(stages: StageSlots, slots: Slots) -> Plan:
    """Return the plan of a table: its actions by stage, operation and slot."""
    rows = [
        (stage, Action(stages.order[v - 1], slot % len(stages.devices), source))
        for (stage, v, slot), source in slots.items()
    ]
    rows.sort(key=lambda row: stages.event(*row))
    return tuple(action for _, action in rows)


# --- The search -----------------------------------------------------------------------------------------------


ROUNDS = 3
"""The number of rounds of local search on each device, and of changes to one plan, each in another order."""
STARTS, SWEEPS = 3, 10
"""The number of the first plans that are changed, and of passes over all actions of a plan."""
SECONDS_PER_DEVICE = 5.0
IDLE_SECONDS = 0.05
"""Between two looks for a plan from elsewhere."""


def search_plans(
    problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
    better: Callable[[], Plan | None],
) -> None:  # fmt: skip
    """Look for plans in stages of the input order until `stop()`; see `PlanFormulation.search`."""
    rng = random.Random(seed)
    starts: list[tuple[int, Plan]] = []

    def take(plan: Plan) -> None:
        plan = problem.together(plan)
        value = valued(problem, plan)
        if value is not None:
            starts.append((value, plan))
            offer(plan)

    for plan in moved_out(problem):
        take(plan)
    for m in range(len(problem.platform.memories)):
        alone_on(problem, m, seed, take, stop)
    for _, start in sorted(starts, key=itemgetter(0))[:STARTS]:
        _improved(problem, start, rng, offer, stop, 2)
    latest, rounds = None, 0
    while not stop():
        best = better()
        if best != latest:
            latest, rounds = best, 0
        if best is None or rounds == ROUNDS or not _is_staged(problem, best):
            if isinstance(stop, Turns):
                return
            time.sleep(IDLE_SECONDS)  # until someone finds another one
            continue
        _improved(problem, best, rng, offer, stop, SWEEPS)
        rounds += 1


def moved_out(problem: PlanProblem) -> Iterator[Plan]:
    """The plans of `Greedy`, some perhaps over budgets or limits."""
    platform = problem.platform
    for device, store in permutations(range(len(platform.memories)), 2):
        both_ways = {(device, store), (store, device)} <= platform.link_between.keys()
        if platform.memories[device].durations is not None and both_ways:
            table = Greedy(problem, device, store).slots()
            if table is not None:
                yield plan_of(StageSlots.of(problem), table)


def alone_on(
    problem: PlanProblem, m: int, seed: int, take: Callable[[Plan], None], stop: Callable[[], bool]
) -> None:  # fmt: skip
    """Plans that compute everything, and again, in one memory, if that is possible."""
    graph, place, order = problem.platform.graph, problem.platform.memories[m], problem.instance.order
    costs = place.energies if problem.goal.objective == "energy" else place.durations
    known_costs = tuple(cost for cost in costs or () if cost is not None)
    if len(known_costs) < len(graph.nodes):
        return
    known_costs = tuple(cost if graph.operation_of[v] == v else 0 for v, cost in enumerate(known_costs))
    budget = graph.total_size + max(graph.workspace_of) if place.budget is None else place.budget
    counts = tuple(problem.most_intervals(v, m) for v in range(len(graph.nodes)))
    instance = Instance(replace(graph, durations=known_costs), order, budget, counts)
    known = known_at_once(instance)
    if known is not None:
        if known[2]:
            take(plan_of_sequence(known[2], m))
        return
    from moccasin_mzn.heuristics.staged.search import LocalSearch

    deadline = Deadline(seconds_by(stop, SECONDS_PER_DEVICE))
    LocalSearch(instance, seed).run(
        lambda sequence: take(plan_of_sequence(sequence, m)), lambda: stop() or deadline.over(), max_rounds=ROUNDS
    )


def _improved(
    problem: PlanProblem, plan: Plan, rng: random.Random, offer: Callable[[Plan], object], stop: Callable[[], bool],
    sweeps: int,
) -> None:  # fmt: skip
    improver = Improver(problem, pruned_plan(problem.platform, plan), rng)
    for _ in range(sweeps):
        before = improver.value
        for found in improver.sweep(stop):
            offer(found)
        if improver.value == before or stop():
            break


def _is_staged(problem: PlanProblem, plan: Plan) -> bool:
    return len(stages_of_plan(StageSlots.of(problem), plan)) == len(plan)


# --- Plans that compute on one device unless another one is faster --------------------------------------------

# What is needed again last is moved out first. It is copied right after its computation, when that costs the device
# no memory, so that it may be dropped at any later time; and it is copied back in the stage that reads it.


class Greedy:
    """One such plan.

    Args:
        device: where nodes are computed, and where all that is not moved out is retained. A node that another device
            computes at less cost, its inputs copied there and its output copied back, is computed there.
        store: the memory that outputs are moved to, with links to the device and back.
    """

    def __init__(self, problem: PlanProblem, device: int, store: int) -> None:
        graph, order, operation = problem.graph, problem.instance.order, StageSlots.of(problem).operation
        self.problem, self.device, self.store = problem, device, store
        self.memories = problem.platform.memories
        number = {v: k for k, v in enumerate(order, 1)}
        self.size = [0, *(graph.sizes[v] for v in order)]
        self.stage = [0, *(operation[v] for v in order)]
        self.uses = [[], *(sorted({operation[x] for x in graph.successors[v]} - {operation[v]}) for v in order)]
        firsts = [v for v in order if graph.operation_of[v] == v]
        self.n = len(firsts)
        self.outputs = [[], *([number[v], *sorted(number[w] for w in graph.outputs_of[v])] for v in firsts)]
        self.inputs = [[], *([number[u] for u in graph.predecessors[v]] for v in firsts)]
        self.overwritable = [[], *([number[u] for u in (graph.overwritable or {v: ()})[v]] for v in firsts)]
        self.workspace = [0, *((graph.workspaces or {v: 0})[v] for v in firsts)]
        self.table: Slots = {}
        self.home, self.brought = [0] * (self.n + 1), [0] * (len(order) + 1)
        self.stored, self.stored_memory = set[int](), [0] * (self.n + 2)

    def slots(self) -> Slots | None:
        """The plan's table, which may be over budgets other than the device's; None: outputs have nowhere to go."""
        resident: set[int] = set()
        for k in range(1, self.n + 1):
            retained = {u for u in resident if self._next_use(u, k) <= self.n}
            missing = [u for u in self.inputs[k] if u not in retained]
            needed = {*self.outputs[k], *self.inputs[k]}
            resident = retained | needed
            if not self._able(k) or not self._make_room(resident, needed, k):
                return None
            for u in missing:
                self.table[k, u, self._copy(self.device)] = self.store
                self.brought[u] += 1
            self._compute(k)
        return self.table

    def _next_use(self, u: int, k: int) -> int:
        """The first stage from k on that reads u; after the last one there is none."""
        at = bisect_left(self.uses[u], k)
        return self.uses[u][at] if at < len(self.uses[u]) else self.n + 1

    def _make_room(self, resident: set[int], needed: set[int], k: int) -> bool:
        """Move out until all that is resident fits with the workspace; False: it never does."""
        budget = self.memories[self.device].budget
        over = 0 if budget is None else sum(self.size[u] for u in resident) + self._taken(k) - budget
        spare = sorted(resident - needed, key=lambda u: (-self._next_use(u, k), -self.size[u]))
        for u in spare:
            if over <= 0:
                break
            most = self.problem.most_intervals(self.problem.instance.order[u - 1], self.device)
            if self.size[u] == 0 or self.brought[u] >= most or not self._keep(u):
                continue
            resident.remove(u)
            over -= self.size[u]
        return over <= 0

    def _taken(self, k: int) -> int:
        """The workspace of operation k, less its output if that overwrites an input that nothing reads later."""
        dying = any(self._next_use(u, k + 1) > self.n for u in self.overwritable[k])
        if not dying or len(self.outputs[k]) > 1 or self._home(k) != self.device:
            return self.workspace[k]
        return self.workspace[k] - self.size[self.outputs[k][0]]

    def _keep(self, u: int) -> bool:
        """Have u in the store from its computation to its last use; False if it does not fit there."""
        if u in self.stored:
            return True
        budget, made = self.memories[self.store].budget, self.stage[u]
        stages = range(made, self.uses[u][-1] + 1)
        if budget is not None and max(self.stored_memory[k] for k in stages) + self.size[u] > budget:
            return False
        for k in stages:
            self.stored_memory[k] += self.size[u]
        self.stored.add(u)
        if self.home[made] != self.store:
            self.table[made, u, self._copy(self.store)] = self.home[made]
        return True

    def _compute(self, k: int) -> None:
        """Compute operation k where that costs least, inputs copied there and the outputs copied back."""
        home = self.home[k] = self._home(k)
        if home != self.device:
            for u in self._inputs_to_copy(k, home):
                self.table[k, u, self._copy(home)] = self.device
        for v in self.outputs[k]:
            self.table[k, v, home] = None
            if home != self.device and self.uses[v]:
                self.table[k, v, self._copy(self.device)] = home
            self.brought[v] += 1

    def _home(self, k: int) -> int:
        return min(self._able(k), key=lambda m: self._cost(k, m))

    def _able(self, k: int) -> list[int]:
        nodes = [self.problem.instance.order[v - 1] for v in self.outputs[k]]
        return [m for m, memory in enumerate(self.memories) if all(map(memory.computes, nodes))]

    def _inputs_to_copy(self, k: int, home: int) -> list[int]:
        return [u for u in self.inputs[k] if not (home == self.store and u in self.stored)]

    def _cost(self, k: int, m: int) -> float:
        """Return the cost of operation k in memory m, with its copies, in the objective's unit; infinite without
        links."""
        what = "energies" if self.problem.goal.objective == "energy" else "durations"
        platform, order = self.problem.platform, self.problem.instance.order
        total = sum(getattr(self.memories[m], what)[order[v - 1]] for v in self.outputs[k])
        if m == self.device:
            return total
        there, back = (platform.link_between.get(ends) for ends in ((self.device, m), (m, self.device)))
        if there is None or back is None:
            return math.inf
        total += sum(getattr(there, what)[order[u - 1]] for u in self._inputs_to_copy(k, m))
        return total + sum(getattr(back, what)[order[v - 1]] for v in self.outputs[k] if self.uses[v])

    def _copy(self, target: int) -> int:
        return target + len(self.memories)


# --- Plans made better by small changes, each judged: recomputed or copied, computed here or there

# Slower than compiled local search, but it knows all that the judge knows: any number of memories, limits, any
# objective.


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
        self.stages = StageSlots.of(problem)
        self.count = len(self.stages.devices)
        number = {v: k for k, v in enumerate(problem.instance.order, 1)}
        self.inputs = [[], *([number[u] for u in self.platform.graph.predecessors[v]] for v in problem.instance.order)]
        graph, stage = self.platform.graph, self.stages.operation
        self.stage = [0, *(stage[v] for v in problem.instance.order)]
        self.used = [False, *(any(stage[x] != stage[v] for x in graph.successors[v]) for v in problem.instance.order)]
        self.outputs = [[], *([number[v], *(number[w] for w in graph.outputs_of[v])] for v in problem.instance.order)]
        self.first = [0, *(number[graph.operation_of[v]] for v in problem.instance.order)]
        value = valued(problem, plan)
        assert value is not None
        self.plan, self.value = plan, value
        self.slots = slots_of(self.stages, plan)

    def sweep(self, stop: Callable[[], bool]) -> Iterator[Plan]:
        """Try each action in random order, and report plans that are better."""
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
        plan = plan_of(self.stages, changed)
        if judge_plan(self.platform, plan, self.problem.goal).violations:
            return False
        plan = pruned_plan(self.platform, plan)
        value = valued(self.problem, plan)
        if value is None or value > self.value or not _is_staged(self.problem, plan):
            return False
        self.plan, self.value, self.slots = plan, value, slots_of(self.stages, plan)
        return True

    def _changes(self, slot: Slot) -> Iterator[Slots]:
        """Tables with another action in place of that in a slot."""
        stage, v, at = slot
        if self.slots[slot] is not None:
            yield from self._recomputed(slot)
        elif stage > self.stage[v]:
            yield from self._copied(stage, v, at)
        elif self.first[v] == v and sum((stage, v, m) in self.slots for m in range(self.count)) == 1:
            yield from self._moved(v, at)

    def _recomputed(self, slot: Slot) -> Iterator[Slots]:
        stage, v, at = slot
        memory = at - self.count
        if self._computes(v, memory):
            yield self._with([slot], {(stage, w, memory): None for w in (self.first[v], v)})
        if stage == self.stage[v]:  # and a copy that is no more needed early may be made later
            yield self._with([slot], {})

    def _copied(self, stage: int, v: int, memory: int) -> Iterator[Slots]:
        """Copy instead of recomputing, from where it was copied to right after its first computation; of a first
        output all that is recomputed with it."""
        made, begin = [w for w in self.outputs[v] if (stage, w, memory) in self.slots], self.stage[v]
        slots = [(stage, w, memory) for w in made]
        home = next(m for m in range(self.count) if (begin, v, m) in self.slots)
        yield self._with(slots, {})
        for store in self._others(memory):
            more: Slots = {(stage, w, memory + self.count): store for w in made}
            if (store, memory) in self.platform.link_between:
                yield self._with(slots, more)
                early = {(begin, w, store + self.count) for w in made} - self.slots.keys()
                if store != home and early and (home, store) in self.platform.link_between:
                    yield self._with(slots, {**more, **dict.fromkeys(early, home)})

    def _moved(self, first: int, memory: int) -> Iterator[Slots]:
        """Computed for the first time on another device: inputs copied there, the outputs copied back."""
        stage, outputs = self.stage[first], self.outputs[first]
        slots = [(stage, v, memory) for v in outputs if (stage, v, memory) in self.slots]
        for device in self._others(memory):
            linked = {(memory, device), (device, memory)} <= self.platform.link_between.keys()
            if linked and all(self._computes(v, device) for v in outputs):
                there: Slots = {(stage, v, device): None for v in outputs}
                there |= {(stage, v, memory + self.count): device for v in outputs if self.used[v]}
                for store in self._others(memory):
                    if (device, store) in self.platform.link_between:
                        copies_there = ((stage, v, store + self.count) for v in outputs)
                        there |= {slot: device for slot in copies_there if slot in self.slots}
                copies = {(stage, u, device + self.count): memory for u in self.inputs[first]}
                for more in ({**there, **copies}, there):
                    yield self._with(slots, more)

    def _others(self, memory: int) -> list[int]:
        others = [m for m in range(self.count) if m != memory]
        return self.rng.sample(others, len(others))

    def _computes(self, v: int, memory: int) -> bool:
        return self.platform.memories[memory].computes(self.problem.instance.order[v - 1])

    def _with(self, slots: Iterable[Slot], more: Slots) -> Slots:
        """The table without some slots and with others; what is computed is not copied there."""
        changed = {**self.slots, **more}
        made = [(stage, v, at + self.count) for (stage, v, at), source in more.items() if source is None]
        for slot in (*(slot for slot in slots if slot not in more), *made):
            changed.pop(slot, None)
        return changed
