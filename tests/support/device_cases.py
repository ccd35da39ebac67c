"""Random problems of several devices."""

from __future__ import annotations

import random

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, Link, Memory, Platform


def random_graph(rng: random.Random, nodes: int) -> ComputationGraph:
    """Mostly a chain with further edges, in a random numbering; the input order is its own."""
    order = rng.sample(range(nodes), nodes)
    distant = rng.choice([0.2, 0.4, 0.6])
    edges = [
        (order[i], order[j]) for j in range(nodes) for i in range(j) if rng.random() < (0.9 if j == i + 1 else distant)
    ]
    return ComputationGraph(
        nodes=[10 * v for v in range(nodes)],
        durations=[rng.randint(0, 9) for _ in range(nodes)],
        sizes=[rng.choice([0, 1, 2, 2, 3, 4, 6]) for _ in range(nodes)],
        edges=edges,
        order=order,
    )


def draw_problem(seed: int, memories: int = 2, most_nodes: int = 5) -> PlanProblem:
    """A random problem. Nodes that cannot be computed on a device, costs of 0, missing links, slow memory, limits and
    budgets that only just do or do not suffice are all there now and then."""
    rng = random.Random(seed)
    n = most_nodes if rng.random() < 0.7 else rng.randint(1, most_nodes)
    graph = random_graph(rng, n)
    peak = simulate(graph, graph.input_order()).peak
    least = graph.largest_working_set().memory
    devices = rng.choice([1, 2, 2, 2]) if memories == 2 else memories - rng.randint(0, 1)
    able = [[rng.random() < 0.85 for _ in range(n)] for _ in range(devices)]
    for v in range(n):
        able[rng.randrange(devices)][v] = True
    places = []
    for m in range(memories):
        budget = max(0, rng.randint(least - 1, max(least, peak - 1))) if m == 0 or rng.random() < 0.4 else None
        if rng.random() < 0.3:
            budget = rng.randint(0, max(1, least))
        durations = energies = None
        if m < devices:
            durations = [rng.randint(0, 9) if able[m][v] else None for v in range(n)]
            energies = [None if d is None else rng.randint(0, 9) for d in durations]
        places.append(Memory(f"m{m}", budget, durations, energies))
    links = []
    free = rng.random() < 0.2
    for a in range(memories):
        for b in range(memories):
            if a != b and rng.random() < 0.9:
                rate, fixed = (0, 0) if free else (rng.choice([0, 1, 1, 2]), rng.choice([0, 0, 1, 3]))
                costs = [fixed + rate * size for size in graph.sizes]
                links.append(Link(a, b, costs, [rng.randint(0, 4) for _ in range(n)]))
    platform = Platform(graph, places, links)
    instance = Instance(graph, graph.input_order(), peak, tuple([rng.choice([1, 2, 2, 2, 3])] * n))
    return PlanProblem(instance, platform, draw_goal(rng, platform))


def draw_goal(rng: random.Random, platform: Platform) -> Goal:
    limits = {}
    if rng.random() < 0.4:
        limits["max_traffic"] = rng.randint(0, 2 * platform.graph.total_size)
    if rng.random() < 0.3:
        limits["max_energy"] = rng.randint(0, 12 * len(platform.graph.nodes))
    objective = rng.choice(["duration", "duration", "energy", "traffic"])
    if objective == "traffic" or rng.random() < 0.2:
        limits["max_duration"] = rng.randint(0, 14 * len(platform.graph.nodes))
    return Goal(objective, **limits)
