"""Stages of operations on several devices for `soaking.exact_plans`, which knows stages of nodes."""

from __future__ import annotations

import random
from dataclasses import replace

from machine_cases import draw_platform
from soaking.exact import Tiny
from soaking.exact_plans import Machine

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, Platform


def stage_of_operation_after(g: Tiny, machine: Machine, mode: str, computed: int, at, action):
    """The place in a stage after an action, in place of `exact_plans._stage_after`; None: out of place.

    An operation has in a stage first its computations, by memory and output, then copies, by output and memory; stage k
    is one of the first k operations, and what is computed for the first time is of the last of them."""
    v, m, source = action
    operations = [u for u in g.order if g.of[u] is None]
    place = operations.index(g.first[v])
    output = [u for u in g.order if g.first[u] == g.first[v]].index(v)
    slot = (place, 0, m, output) if source is None else (place, 1, output, m)
    stage, latest = at
    if place > stage or slot <= latest:
        stage += 1
        if not computed >> operations[stage - 1] & 1 or stage == len(operations) or place > stage:
            return None
    is_first = source is None and not computed >> v & 1
    return None if is_first and place != stage else (stage, slot)


def draw_device_problem(seed: int, nodes: int = 5) -> PlanProblem:
    """Graphs with all features on up to three memories with links, with budgets that mostly are scarce."""
    rng = random.Random(f"devices {seed}")
    platform = draw_platform(rng, rng.randint(2, nodes))
    while platform.one_device:
        platform = draw_platform(rng, rng.randint(2, nodes))
    if rng.random() < 0.75:
        platform = _scarce(rng, platform)
    graph = platform.graph
    n = len(graph.nodes)
    instance = Instance(graph, graph.input_order(), max(1, graph.total_size), (rng.choice([1, 2, 2, 2, 3]),) * n)
    limits = {"max_traffic": rng.randint(0, 2 * graph.total_size)} if rng.random() < 0.25 else {}
    limits |= {"max_energy": rng.randint(0, 6 * n)} if rng.random() < 0.2 else {}
    return PlanProblem(instance, platform, Goal(rng.choice(["duration"] * 4 + ["energy", "traffic"]), **limits))


def _scarce(rng: random.Random, platform: Platform) -> Platform:
    graph, places = platform.graph, []
    least, peak = max(graph.working_sets), simulate(graph, graph.input_order()).peak
    for m, place in enumerate(platform.memories):
        some = rng.randint(max(0, least - 1), max(least, peak - 1))
        other = rng.choice([None, max(graph.sizes), least])
        places.append(replace(place, budget=some if m == 0 or rng.random() < 0.5 else other))
    scale = rng.choice([1, 1, 3, 20])
    links = [replace(link, durations=[scale * each for each in link.durations]) for link in platform.links]
    return replace(platform, memories=places, links=[link for link in links if rng.random() < 0.9])
