"""Random questions of paging, and the exact answers."""

from __future__ import annotations

import random
from fractions import Fraction

from cases import draw_case
from machine_cases import BestPlan, best_of
from working import working

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Goal


def crowded(rng: random.Random, nodes: int) -> tuple[ComputationGraph, int]:
    """A U: a chain whose end reads its beginning backwards, and a budget near the least that is possible."""
    order = rng.sample(range(nodes), nodes)
    edges = [
        (order[i], order[j])
        for j in range(nodes)
        for i in range(j)
        if j == i + 1 or rng.random() < (0.8 if i + j == nodes - 1 else 0.1)
    ]
    durations = [rng.randint(1, 9) for _ in range(nodes)]
    graph = ComputationGraph(range(nodes), durations, [rng.randint(1, 3) for _ in range(nodes)], edges, order=order)
    return graph, graph.largest_working_set().memory + rng.choice([0, 0, 1])


def draw_problem(seed: int, most_nodes: int = 5, workspaces: bool = False) -> PlanProblem:
    """A problem of up to `most_nodes` + 1 nodes: often slow memory is scarce, often another total has a limit."""
    rng = random.Random(seed)
    case = draw_case(seed, most_nodes, workspaces)
    graph, budget = (case.graph, case.budget) if seed % 3 == 0 else crowded(rng, most_nodes + 1)
    if workspaces and seed % 3:
        slack, graph = budget - graph.largest_working_set().memory, working(graph, seed)
        budget = graph.largest_working_set().memory + slack
    costs = PagingCosts(
        out_time=None if rng.random() < 0.05 else Fraction(rng.choice([0, 0, 1, 2]), 4),
        in_time=Fraction(rng.choice([0, 0, 1, 3]), 4),
        out_energy=Fraction(rng.randint(0, 2), 2),
        in_energy=Fraction(rng.randint(0, 2), 2),
        power=Fraction(rng.randint(0, 4)),
    )
    capacity = rng.choice([None, rng.randint(0, max(1, graph.total_size // 3))])
    objective = rng.choice(["duration", "duration", "energy", "traffic"])
    least = {"duration": graph.total_duration, "energy": graph.total_duration * costs.power, "traffic": 0}
    chance = 0.6 if objective == "traffic" else 0.2
    limits = {
        f"max_{what}": int(least[what]) + rng.randint(0, 25)
        for what in OBJECTIVES
        if what != objective and rng.random() < chance
    }
    instance = Instance.build(graph, budget, max_computations=rng.choice([2, 2, 3]))
    return PlanProblem(instance, paging_platform(graph, budget, costs, capacity), Goal(objective, **limits))


def best(problem: PlanProblem, form: str) -> BestPlan | None:
    """The exact one, "staged" or "general"."""
    return best_of(problem, "staged" if form == "staged" else "free")
