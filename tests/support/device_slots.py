"""Random problems of several devices."""

from __future__ import annotations

import random
from dataclasses import replace

from machine_cases import draw_featured, draw_mixed_platform, draw_platform
from paging_cases import crowded

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, Platform


def draw_device_problem(seed: int, nodes: int = 5) -> PlanProblem:
    """Graphs with all features on up to three memories with links, with budgets that mostly are scarce."""
    rng = random.Random(f"devices {seed}")
    platform = draw_platform(rng, rng.randint(2, nodes))
    while platform.has_accesses:
        platform = draw_platform(rng, rng.randint(2, nodes))
    if rng.random() < 0.75:
        platform = _scarce(rng, platform)
    graph = platform.graph
    n = len(graph.nodes)
    instance = Instance(graph, graph.input_order(), max(1, graph.total_size), (rng.choice([1, 2, 2, 2, 3]),) * n)
    limits = {"max_traffic": rng.randint(0, 2 * graph.total_size)} if rng.random() < 0.25 else {}
    limits |= {"max_energy": rng.randint(0, 6 * n)} if rng.random() < 0.2 else {}
    return PlanProblem(instance, platform, Goal(rng.choice(["duration"] * 4 + ["energy", "traffic"]), **limits))


def draw_mixed_problem(seed: int, nodes: int = 5) -> PlanProblem:
    """Graphs with all features on a device with several memories, another memory, and links between them."""
    rng = random.Random(f"mixed {seed}")
    graph = crowded(rng, nodes)[0] if rng.random() < 0.4 else draw_featured(rng, rng.randint(3, 4))
    platform = draw_mixed_platform(rng, graph)
    counts = (rng.choice([1, 2, 2, 3]),) * len(graph.nodes)
    return PlanProblem(Instance(graph, graph.input_order(), max(1, graph.total_size), counts), platform)


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
