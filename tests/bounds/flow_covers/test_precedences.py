"""Precedences in all schedules shorter than a known one, against brute force."""

from __future__ import annotations

import random

import pytest
from any_order import least_duration

from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.flow_covers.joint_search import Precedences
from moccasin_mzn.graphs.graph import ComputationGraph

SECONDS = 20


def draw(rng: random.Random) -> ComputationGraph:
    """Few edges, so that there are many orders, and outputs that are read late."""
    n = rng.randint(5, 7)
    edges = [(u, w) for w in range(n) for u in range(w) if rng.random() < rng.choice((0.2, 0.4))]
    workspaces = [rng.randint(0, 2) for _ in range(n)] if rng.random() < 0.3 else None
    return ComputationGraph(
        [f"n{v}" for v in range(n)], [rng.randint(1, 9) for _ in range(n)], [rng.randint(0, 6) for _ in range(n)],
        edges, workspaces=workspaces,
    )  # fmt: skip


def check_case(seed: int) -> int:
    """The number of pairs, each of which leaves no shorter schedule the other way round."""
    rng = random.Random(seed)
    graph = draw(rng)
    budget = graph.largest_working_set().memory + rng.choice((0, 0, 1, 2))
    best = least_duration(graph, budget)
    if best is None:
        return 0
    moments, least = Moments(MomentNetwork(graph)), graph.total_duration
    known = rng.choice((best, best + 1, 2 * best - least + 1)) - least
    precedences = Precedences(moments, budget, known // moments.unit, bool)
    while precedences.learn(range(len(graph.nodes))):
        pass
    target = least + precedences.target * moments.unit
    for u, v in precedences.moments.network.earlier:
        other = least_duration(graph, budget, ((v, u),))
        assert other is None or other >= target, f"{v} may precede {u} at {other}, below {target}"
    shorter = least_duration(graph, budget, precedences.moments.network.earlier)
    for v in range(len(graph.nodes)):
        cut = precedences.moments.priced(v, budget)
        if cut is not None and shorter is not None:
            assert least + cut.bound(budget) * moments.unit <= shorter
    for incumbent in (best, best + moments.unit, 2 * best - least + moments.unit):
        bound = FreeOrderBound.of(graph).improve(budget, time_limit=SECONDS, incumbent=lambda: incumbent)  # noqa: B023
        assert bound <= best
    return len(precedences.moments.network.earlier)


def test_no_shorter_schedule_the_other_way_round():
    assert sum(check_case(seed) for seed in range(15)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_no_shorter_schedule_the_other_way_round_on_many_graphs(part):
    assert sum(check_case(seed) for seed in range(1000 + 200 * part, 1200 + 200 * part)) > 30
