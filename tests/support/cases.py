"""Random questions for the models, the data that asks them, and what brute force answers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import oracle
from overwriting import overwriting
from working import working

from moccasin_mzn.formulations.formulation import header
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.run import dzn_text

MODELS = Path(__file__).resolve().parents[2] / "models"
_PEAK, _RESERVOIR, _TRIANGULAR = "phase = PEAK;", "precedence = RESERVOIR;", "index = TRIANGULAR;"
_WITH_PHASES = {"staged": 4, "general": 2, "checkmate": 0}
"""So many of the forms below have a phase 1 as well."""
MODEL_FORMS = [
    (model, " ".join(choices))
    for model, forms in {
        "staged": [
            (), (_RESERVOIR,), (_TRIANGULAR,), (_TRIANGULAR, _RESERVOIR), ("redundant = {};",),
            ("redundant = {COVER, ORDER};",), ("redundant = {CRITICAL};",), ("phase = ELASTIC;",),
            ("pictures = true;",),
        ],
        "general": [(), (_RESERVOIR,), ("redundant = {};",), ("phase = ELASTIC;",)],
        "checkmate": [(), ("memory = ALIVE;",)],
    }.items()
    for choices in [*forms, *((*form, _PEAK) for form in forms[: _WITH_PHASES[model]])]
]  # fmt: skip
"""Models of recomputation alone, each with choices of its form as items; variants have tests of their own."""


@dataclass(frozen=True)
class Case:
    """What is asked; the input order is the graph's own."""

    graph: ComputationGraph
    budget: int
    max_computations: int


def draw_case(seed: int, most_nodes: int = 6, workspaces: bool = False, in_place: bool = False) -> Case:
    """A random case of up to `most_nodes` nodes; most need recomputations, or only just fit, or only just do not.

    The input order is a random one. A chain along it makes outputs that are read late worth dropping. With `workspaces`
    the graph has some, too; with `in_place` it runs in place.
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
    graph = working(graph, seed) if workspaces else graph
    graph = overwriting(graph, seed) if in_place else graph
    least, most = graph.largest_working_set().memory - 1, simulate(graph, order).peak
    if most - least < 4 and rng.random() < 0.9:  # hardly any budget is of interest
        return draw_case(seed + 1_000_000, most_nodes, workspaces, in_place)
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
    """The `.dzn` file of a case as it is: the graph, the budget and C; the models derive the rest."""
    graph, order = case.graph, case.graph.input_order()
    number = {v: k for k, v in enumerate(order, start=1)}
    edges = sorted((number[tail], number[head]) for tail, head in graph.edges)
    items = header(
        graph, order, [graph.durations[v] for v in order], [graph.sizes[v] for v in order], edges, case.budget
    )
    if graph.workspaces is not None:
        items["workspace"] = [graph.workspaces[v] for v in order]
    if graph.overwritable is not None:
        items["in_place"] = [order[tail - 1] in graph.overwritable[order[head - 1]] for tail, head in edges]
    read = {tail for tail, _ in edges}
    most = [case.max_computations if k in read else 1 for k in range(1, len(order) + 1)]
    return dzn_text({**items, "max_computations": most})
