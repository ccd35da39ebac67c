"""Bounds for any order and any number of computations: never above brute force, and how near they come."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from any_order import least_duration
from cases import Case, draw_case

from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.flow_covers.cuts import Moments
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.bounds.flow_covers.network import MomentNetwork
from moccasin_mzn.clock import Deadline
from moccasin_mzn.graphs.graph import ComputationGraph

WHOLE, SECONDS = 10**15, 20


def draw(seed: int) -> Case:
    """With workspaces or without, amounts of one size, large ones, and zeros among them."""
    rng = random.Random(seed)
    case = draw_case(seed, 6, workspaces=rng.random() < 0.3)
    size, duration = rng.choice((1, 1, 10**12)), rng.choice((1, 1, 10**14))
    noise = [rng.randrange(size) for _ in range(2 * len(case.graph.nodes))] if size > 1 else [0] * 99
    graph = replace(
        case.graph,
        sizes=[m * size + extra for m, extra in zip(case.graph.sizes, noise, strict=False)],
        workspaces=[m * size for m in case.graph.workspace_of],
        durations=[w * duration + rng.randrange(duration) for w in case.graph.durations],
    )
    return Case(graph, max(case.budget * size + size // 2, graph.largest_working_set().memory), 2)


def layers(graph: ComputationGraph, budget: int) -> dict[str, int]:
    """The bound of each layer by itself, of both, and of both with what another budget taught."""
    moments, least = Moments(MomentNetwork(graph)), graph.total_duration
    priced = [moments.priced(v, budget) for v in range(len(graph.nodes))]
    found = {"prices": max((cut.bound(budget) for cut in priced if cut is not None), default=0)}
    covers = CoverSearch(Covers(moments, list(range(len(graph.nodes)))), budget, Deadline(SECONDS), lambda bound: None, bool)
    covers._price = lambda: None
    covers.run()
    found["covers"] = covers.bound
    told = {name: least + bound * moments.unit for name, bound in found.items()}
    again = FreeOrderBound.of(graph)
    told["both"] = again.improve(budget, time_limit=SECONDS)
    again.improve(budget + graph.total_size // 9, time_limit=SECONDS)
    told["both, again"] = again.improve(budget, time_limit=SECONDS)
    return told


def check_case(seed: int, tight: Counter) -> None:
    case = draw(seed)
    best, bounds = least_duration(case.graph, case.budget), layers(case.graph, case.budget)
    if best is None:
        tight["infeasible"] += 1
        return
    tight["with recomputations"] += best > case.graph.total_duration
    for layer, bound in bounds.items():
        assert bound <= best, f"{layer}: {bound} is above {best}"
        tight[layer] += bound == best > case.graph.total_duration
    assert bounds["both"] >= max(bounds["prices"], bounds["covers"])
    assert bounds["both, again"] >= bounds["both"]
    found = FreeOrderBound.of(case.graph).improve(case.budget, time_limit=SECONDS, incumbent=lambda: best)
    assert found <= best and (found == best) >= (bounds["both"] == best)


def test_never_above_brute_force():
    tight = Counter()
    for seed in range(60):
        check_case(seed, tight)
    assert 2 * tight["both"] > tight["with recomputations"] > 10


@pytest.mark.slow
def test_never_above_brute_force_at_length():
    tight = Counter()
    for seed in range(1000, 3000):
        check_case(seed, tight)
    print(dict(tight))
    assert 2 * tight["both"] > tight["with recomputations"] > 300
