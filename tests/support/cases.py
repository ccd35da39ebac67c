"""Random questions for the models, the data that asks them, and what brute force answers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import oracle

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.dzn import dzn_text

MODELS = Path(__file__).resolve().parents[2] / "models"
CHECKER_NAMES = {"checkmate": "checkmate.mzc.mzn", "staged": "schedule.mzc.mzn", "general": "schedule.mzc.mzn"}
"""By the first word of a model's name."""
MODEL_NAMES = sorted(
    path.stem
    for path in MODELS.glob("*.mzn")
    if not path.name.endswith(".mzc.mzn") and path.stem.split("_")[0] in CHECKER_NAMES
)
"""Of recomputation alone; variants have tests of their own."""


@dataclass(frozen=True)
class Case:
    """What is asked; the input order is the graph's own."""

    graph: ComputationGraph
    budget: int
    max_computations: int


def draw_case(seed: int, most_nodes: int = 6) -> Case:
    """A random case of up to `most_nodes` nodes; most need recomputations, or only just fit, or only just do not.

    The input order is a random one. A chain along it makes outputs that are read late worth dropping.
    """
    rng = random.Random(seed)
    nodes = most_nodes if rng.random() < 0.8 else rng.randint(1, most_nodes - 1)
    order = rng.sample(range(nodes), nodes)
    adjacent, distant = rng.choice([0.2, 1, 1]), rng.choice([0.2, 0.35, 0.5])
    edges = [
        (order[i], order[j])
        for j in range(nodes)
        for i in range(j)
        if rng.random() < (adjacent if j == i + 1 else distant)
    ]
    graph = ComputationGraph(
        nodes=[10 * v for v in range(nodes)],
        durations=[rng.randint(0, 9) for _ in range(nodes)],
        sizes=[rng.randint(0, 9) for _ in range(nodes)],
        edges=edges,
        order=order,
    )
    least, most = graph.largest_working_set().memory - 1, simulate(graph, order).peak
    if most - least < 4 and rng.random() < 0.9:  # hardly any budget is of interest
        return draw_case(seed + 1_000_000, most_nodes)
    return Case(graph, max(1, rng.randint(least, most)), rng.choice([1, 2, 2, 2, 3]))


def least_duration(case: Case, formulation: str) -> int | None:
    """Within the budget, for "staged" or "general" events or "checkmate", without a limit; None if nothing fits."""
    graph, budget, most = case.graph, case.budget, case.max_computations
    if formulation == "checkmate":
        most = len(graph.nodes)
    if formulation != "general":
        return oracle.best_fixed_order(graph, graph.input_order(), budget, most)
    return oracle.best_free_order(graph, budget, most)


def least_capacity(case: Case, formulation: str) -> int:
    """The smallest budget, from the case's own on, within which there is a schedule: the objective of phase 1."""
    budget = case.budget
    while least_duration(Case(case.graph, budget, case.max_computations), formulation) is None:
        budget += 1
    return budget


def data_text(case: Case) -> str:
    """The `.dzn` file of a case as it is: nothing presolved, no incumbent."""
    graph, order = case.graph, case.graph.input_order()
    number = {v: k for k, v in enumerate(order, start=1)}
    edges = sorted((number[tail], number[head]) for tail, head in graph.edges)
    nodes = len(order)
    memory = simulate(graph, order).memory
    return dzn_text(
        {
            "nodes": nodes,
            "duration": [graph.durations[v] for v in order],
            "size": [graph.sizes[v] for v in order],
            "edges": len(edges),
            "tail": [tail for tail, _ in edges],
            "head": [head for _, head in edges],
            "budget": case.budget,
            "input_order_memory": memory,
            "max_computations": [case.max_computations] * (nodes - 1) + [1],  # after the last node there is nothing
            "entry": 0,
            "absent": [],
            "exit": 0,
            "earliest_stage": [min(k + 1, nodes) for k in range(1, nodes + 1)],
            "latest_stage": [nodes] * nodes,
            "critical_stage": [k for k in range(1, nodes + 1) if memory[k - 1] > case.budget],
            "duration_limit": nodes * max(case.max_computations, 2) * graph.total_duration,
            "incumbent_active": [],
            "incumbent_start": [],
            "incumbent_end": [],
        }
    )
