"""Random graphs in which a budget below the peak of the input order may have a schedule."""

from __future__ import annotations

import random

from soaking.exact_questions import draw_graph

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate


def drawn(seed: object, nodes: int = 5, **more: object) -> ComputationGraph:
    """A graph in which some budget below that of the input order is of interest."""
    rng = random.Random(str(seed))
    while True:
        graph = draw_graph(rng, nodes, **more)
        if 0 < max(graph.working_sets) < simulate(graph, graph.input_order()).peak:
            return graph
