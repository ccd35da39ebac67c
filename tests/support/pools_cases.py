"""Random problems of one device with several memories."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from cases import draw_case

import moccasin_mzn as mz
from moccasin_mzn.machine.platforms import MemoryPool, pools_platform
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Memory, Platform

GRAPH = mz.ComputationGraph(
    nodes=["a", "b", "c", "d"], durations=[4, 3, 2, 5], sizes=[8, 8, 4, 4],
    edges=[(0, 1), (1, 2), (0, 3), (2, 3)], size_unit="byte",
)  # fmt: skip
PLATFORM = Platform(
    GRAPH,
    (
        Memory("fast", 12, GRAPH.durations, accesses=(0, 0, 0, 0)),
        Memory("slow", 8, GRAPH.durations, accesses=(16, 16, 8, 8)),
    ),
    devices=(0, 0),
)  # fmt: skip


def draw_pools(seed: int, memories: int = 2, most_nodes: int = 5) -> PlanProblem:
    """A problem whose memories together hold from half to all of the peak, with amounts up to 10**12."""
    rng = random.Random(seed)
    graph = draw_case(rng.randrange(10**6), most_nodes=most_nodes).graph
    scale = rng.choice([1, 1, 10**9])
    graph = replace(graph, sizes=[size * scale for size in graph.sizes])
    if rng.random() < 0.3:
        graph = replace(graph, workspaces=[rng.choice([0, 0, scale, 2 * scale]) for _ in graph.nodes])
    instance = Instance.build(graph, "100%", max_computations=rng.choice([1, 2, 2, 3]))
    peak = max(1, instance.baseline.peak)
    total = rng.randint(peak // 2, peak + peak // 4)
    shares = [rng.random() for _ in range(memories)]
    access = rng.sample([0, Fraction(1, 4), Fraction(1), Fraction(5, 2), Fraction(7)], memories)
    pools = {
        f"m{m}": MemoryPool(Budget(max(1, int(total * share / sum(shares)))), access[m] / scale)
        for m, share in enumerate(shares)
    }
    platform = pools_platform(graph, pools, peak)
    return PlanProblem(instance, platform)
