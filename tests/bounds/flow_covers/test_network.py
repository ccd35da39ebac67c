"""Flows of moments: conserved, and as large as the least that any assignment pays."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from cases import draw_case

from moccasin_mzn.bounds.flow_covers.cuts import INFINITE, MomentFlow, MomentNetwork
from moccasin_mzn.graphs.graph import ComputationGraph


def reached(graph: ComputationGraph, node: int, near) -> set[int]:
    found, todo = set(), [node]
    while todo:
        new = set(near[todo.pop()]) - found
        found |= new
        todo += new
    return found


def least_paid(graph: ComputationGraph, node: int, again, held) -> int:
    """Over all assignments of the definition, one by one."""
    n, best = len(graph.nodes), None
    before = reached(graph, node, graph.predecessors)
    after = reached(graph, node, graph.successors) | {node}
    for states in product("-dha", repeat=n):  # not before; neither held nor again; held; again
        x = [state != "-" for state in states]
        h, a = [state == "h" for state in states], [state == "a" for state in states]
        fits = all(x[u] for u in before) and not any(x[u] for u in after)
        fits = fits and all(h[u] for u in graph.predecessors[node])
        edges = all(x[u] >= x[w] and h[u] + a[u] >= x[u] - x[w] + a[w] for u, w in graph.edges)
        if fits and edges:
            paid = sum(again[u] * a[u] + held[u] * h[u] for u in range(n))
            best = paid if best is None else min(best, paid)
    return best


def check_conserved(graph: ComputationGraph, flow: MomentFlow) -> None:
    n, v = len(graph.nodes), flow.node
    into = {kind: [0] * n for kind in "xcf"}
    for u in range(n):
        moved = (
            ("x", "c", flow.again[u]), ("c", "f", flow.retained[u]),
            ("c", "x", flow.dropped[u]), ("f", "c", flow.kept[u]),
        )  # fmt: skip
        for start, end, amount in moved:
            assert amount >= 0
            into[start][u] -= int(amount)
            into[end][u] += int(amount)
    for (u, w), read, closed in zip(graph.edges, flow.reads, flow.closes, strict=True):
        assert read >= 0 and closed >= 0
        into["f"][u] -= int(read)
        into["c"][w] += int(read)
        into["x"][w] -= int(closed)
        into["x"][u] += int(closed)
    before = reached(graph, v, graph.predecessors)
    after = reached(graph, v, graph.successors) | {v}
    sent = -sum(into["x"][u] for u in before) - sum(into["c"][u] for u in graph.predecessors[v])
    assert sent == sum(into["x"][u] for u in after) == flow.value
    assert not any(into["x"][u] for u in range(n) if u not in before | after)
    assert not any(into["c"][u] for u in range(n) if u not in graph.predecessors[v])
    assert not any(into["f"])


def check_case(seed: int) -> None:
    rng = random.Random(seed)
    graph = draw_case(seed, 5).graph
    network, n = MomentNetwork(graph), len(graph.nodes)
    for v in range(n):
        scale = rng.choice((1, 10**9, 10**12))
        again = np.array([rng.choice((0, INFINITE, scale * rng.randint(0, 9))) for _ in range(n)], np.int64)
        held = np.array([scale * rng.randint(0, 9) for _ in range(n)], np.int64)
        flow = network.flow(v, again, held)
        assert flow.value == least_paid(graph, v, again.tolist(), held.tolist())
        assert (flow.again <= again).all() and (flow.retained <= held).all()
        check_conserved(graph, flow)


@pytest.mark.parametrize("seed", range(20))
def test_a_flow_is_conserved_and_as_large_as_the_least_cut(seed):
    check_case(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_flow_is_conserved_and_as_large_as_the_least_cut_on_many_graphs(seed):
    for sub in range(20):
        check_case(1000 * seed + sub)
