"""Several threads may solve at once: each gets the answer that it gets alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from plan_graphs import u_graph

import moccasin_mzn as mz

GRAPHS = u_graph(), u_graph(size=3, half=4)
"""Two at once, of different graphs: what they share would show."""
CALLS = {
    "model": lambda graph: mz.solve(graph, 0.8, threads=1, search="off"),
    "search": lambda graph: mz.solve(graph, 0.8, threads=1),
    "paging": lambda graph: mz.solve(graph, 0.8, threads=1, paging={"out_time": 1}, time_limit=20),
    "arena": lambda graph: mz.solve(graph, 0.8, threads=1, addresses=True, time_limit=20),
    "frontier": lambda graph: mz.frontier(graph, budgets=[0.8, 1.0], threads=1, time_limit=20),
    "order": lambda graph: mz.order(graph, time_limit=20),
    "strategy": lambda graph: mz.solve(graph, 0.8, strategy="dtr"),
}


def figures(answer):
    if isinstance(answer, mz.FrontierResult):
        return [(point.budget, point.duration, point.bound, point.status) for point in answer.points]
    value = answer.peak if isinstance(answer, mz.OrderResult) else answer.value
    return answer.status, value, answer.bound, answer.graph.name


@pytest.mark.parametrize(
    "call", [pytest.param(call, marks=pytest.mark.full if call in ("model", "arena") else ()) for call in CALLS]
)
def test_two_threads_get_the_answers_that_each_gets_alone(call):
    alone = [figures(CALLS[call](graph)) for graph in GRAPHS]
    together = threading.Barrier(2)

    def at_once(graph):
        together.wait(timeout=60)
        return figures(CALLS[call](graph))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(at_once, GRAPHS)) == alone
    assert alone[0] != alone[1]
