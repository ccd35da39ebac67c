"""Random machines and plans for `soaking.exact_plans`, which judges plans of several memories and finds the best."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from soaking.exact import Tiny
from soaking.exact_plans import Machine, Steps, account_of_plan, best_plan
from soaking.exact_questions import draw_graph, exact_graph, read_as_one

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Link, Memory, Platform

Step = tuple[int, int, int | None]
"""An action: node, memory, and the memory it is copied from."""


@dataclass(frozen=True)
class BestPlan:
    """A plan of least cost."""

    totals: tuple[int, int, int]
    """Duration, energy and traffic."""
    plan: tuple[Action, ...]


def best_of(problem: PlanProblem, mode: str = "free") -> BestPlan | None:
    """A best plan of the problem: in any order, or a mode of `soaking.exact_plans`; None if there is none."""
    tiny, machine, n = exact_graph(problem.graph), machine_of(problem.platform), len(problem.graph.nodes)
    tiny.order = list(problem.instance.order)
    most = [[problem.most_intervals(v, m) for v in range(n)] for m in machine.numbers]
    limits = {what: problem.goal.limit(what) for what in OBJECTIVES}
    found = best_plan(tiny, machine, mode, most, problem.goal.objective, limits, states=10**7)
    if found is None:
        return None
    judged = account_of_plan(tiny, machine, found[1])
    return BestPlan(judged.totals, tuple(Action(*step) for step in found[1]))


def machine_of(platform: Platform) -> Machine:
    """The machine that a platform is: its figures, and nothing that it computes."""

    def costs(place: Memory | Link) -> list[tuple[int, int] | None]:
        pairs = zip(place.durations or (), place.energies or (), strict=True)
        return [None if duration is None else (duration, energy) for duration, energy in pairs]

    nodes = range(len(platform.graph.nodes))
    return Machine(
        [memory.budget for memory in platform.memories],
        [None if memory.durations is None else costs(memory) for memory in platform.memories],
        {(link.source, link.target): costs(link) for link in platform.links},
        [list(memory.accesses or (0 for _ in nodes)) for memory in platform.memories]
        if platform.has_accesses
        else None,
        [*platform.devices],
    )


def draw_platform(rng: random.Random, nodes: int = 4) -> Platform:
    """A small graph, often in place, with several outputs or inputs that are read as one, on up to three memories."""
    graph = draw_featured(rng, nodes)
    memories = rng.choice([1, 2, 2, 3])
    peak = max(1, sum(graph.sizes))
    budgets = [rng.choice([None, None, rng.randint(0, peak), max(graph.working_sets)]) for _ in range(memories)]
    names = [f"m{m}" for m in range(memories)]
    if rng.random() < 0.4:
        rows = [[rng.choice([0, 1, size, 2 * size]) for size in graph.sizes] for _ in names]
        places = [Memory(*each, graph.durations, accesses=row) for *each, row in zip(names, budgets, rows, strict=True)]
        return Platform(graph, places, devices=[0] * memories)
    places = [Memory(names[0], budgets[0], graph.durations, _energies(rng, graph, graph.durations))]
    for name, budget in zip(names[1:], budgets[1:], strict=True):
        if rng.random() < 0.4:
            places.append(Memory(name, budget))
            continue
        able = [rng.random() < 0.9 for _ in graph.nodes]
        durations = [duration + (duration and rng.randint(0, 3)) if able[graph.operation_of[v]] else None
                     for v, duration in enumerate(graph.durations)]  # fmt: skip
        places.append(Memory(name, budget, durations, _energies(rng, graph, durations)))
    links = [
        Link(a, b, [rng.choice([0, 1, size]) for size in graph.sizes], [rng.randint(0, 2) for _ in graph.sizes])
        for a in range(memories) for b in range(memories) if a != b and rng.random() < 0.9
    ]  # fmt: skip
    return Platform(graph, places, links)


def draw_featured(rng: random.Random, nodes: int = 4) -> ComputationGraph:
    """A small graph, often in place, with several outputs or inputs that are read as one."""
    graph = draw_graph(rng, nodes)
    return (rng.random() < 0.5 and read_as_one(rng, graph)) or graph


def draw_mixed_platform(rng: random.Random, graph: ComputationGraph) -> Platform:
    """A device with two memories, another memory, which computes or not, and links between them."""
    least, peak = max(graph.working_sets), simulate(graph, graph.input_order()).peak
    devices, total = rng.choice([(0, 0, 2), (0, 1, 1)]), rng.randint(least, max(least, (least + peak) // 2))
    budgets = [rng.randint(0, total), None, rng.choice([None, least, least, peak // 2])]
    budgets[1] = total - budgets[0] if rng.random() < 0.9 else least
    slow = [rng.choice([1, 3]) * duration for duration in graph.durations]
    kinds = {1: rng.choice([None, slow, slow]), 2: graph.durations}  # by the number of its memories
    places = []
    for m, device in enumerate(devices):
        count = devices.count(device)
        accesses = [rng.choice([0, 1, size, 2 * size]) for size in graph.sizes] if count > 1 else None
        places.append(Memory(f"m{m}", budgets[m if devices[1] == 0 else (m - 1)], kinds[count], accesses=accesses))
    scale = rng.choice([0, 1, 5, 20])
    costs = [[scale * rng.choice([1, size]) for size in graph.sizes] for _ in places]
    links = [
        Link(a, b, costs[a], [0] * len(slow))
        for a, b in product(range(3), repeat=2) if devices[a] != devices[b] and rng.random() < 0.8
    ]  # fmt: skip
    return Platform(graph, places, links, devices)


def _energies(rng: random.Random, graph: ComputationGraph, durations: list[int | None]) -> list[int | None]:
    drawn = [rng.randint(0, 3) if graph.operation_of[v] == v else 0 for v in range(len(durations))]
    return [None if duration is None else energy for duration, energy in zip(durations, drawn, strict=True)]


def draw_plan(rng: random.Random, tiny: Tiny, machine: Machine, most: int = 25) -> list[Step]:
    """Random actions that are possible, and within budgets, until all is computed; fewer where nothing more goes."""
    steps, plan = Steps(tiny, machine), []
    state = steps.start
    while state[1] != steps.full and len(plan) < most:
        following = list(steps.after(state))
        new = [each for each in following if each[1][1] != state[1]]
        if not following:
            break
        _, state, actions = rng.choice(new if new and rng.random() < 0.6 else following)
        plan += actions
    return plan


def mutated(rng: random.Random, plan: list[Step], tiny: Tiny, machine: Machine) -> Iterator[list[Step]]:
    """The plan with an action dropped, moved, doubled, or changed, maybe to what there is not."""
    if not plan:
        return
    memories = len(machine.budgets)
    for _ in range(5):
        changed, at = list(plan), rng.randrange(len(plan))
        v, m, source = changed.pop(at)
        yield changed
        yield [*changed[: (to := rng.randint(0, len(changed)))], (v, m, source), *changed[to:]]
        other = [
            (rng.randint(0, tiny.n), m, source), (v, rng.randint(0, memories), source),
            (v, rng.randrange(memories), source), (v, m, rng.choice([None, *range(memories + 1)])), (v, m, None),
        ]  # fmt: skip
        yield [*plan[:at], rng.choice(other), *plan[at + 1 :]]
        yield [*plan[:at], rng.choice(plan), *plan[at:]]


def least_of_all_plans(tiny: Tiny, machine: Machine, most: int) -> int | None:
    """The least duration of all plans of at most this many actions, each of which was judged; None: there is none.

    Memory that is too much stays so whatever follows, as copies are only retained longer, and less is overwritten.
    """
    sources = [None, *range(len(machine.budgets))] if machine.links else [None]
    actions = list(product(range(tiny.n), range(len(machine.budgets)), sources))
    least, begun = None, [[]]
    while begun:
        plan = begun.pop()
        judged = account_of_plan(tiny, machine, plan)
        kinds = {kind for kind, _ in judged.flaws}
        if kinds - {"never-computed"} or (least is not None and judged.totals[0] >= least):
            continue
        if not kinds:
            least = judged.totals[0]
        elif len(plan) < most:
            begun += [[*plan, action] for action in actions]
    return least
