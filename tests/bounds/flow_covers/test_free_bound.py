"""Bounds for any order and any number of computations: never above brute force, and how near they come."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import oracle
import pytest
from any_order import least_duration
from cases import Case, draw_case

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.flow_covers.joint import Joint
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.solvers.cpsat.branching import branch

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


def ignored(bound: int) -> None:
    return None


def layers(graph: ComputationGraph, budget: int, deep: bool) -> dict[str, int]:
    """The bound of each layer by itself; if `deep`, of all, and of all with what another budget taught."""
    moments, least = Moments(MomentNetwork(graph)), graph.total_duration
    priced = [moments.priced(v, budget) for v in range(len(graph.nodes))]
    found = {"prices": max((cut.bound(budget) for cut in priced if cut is not None), default=0)}
    covers = CoverSearch(
        Covers(moments, list(range(len(graph.nodes)))), budget, Deadline(SECONDS), lambda bound: None, bool
    )
    covers._price = lambda *seconds: None
    covers.run()
    found["covers"] = covers.bound
    if deep:
        found["moments"] = joint_bound(moments, budget, None)
        found["moments, not counted"] = joint_bound(moments, budget, None, counted=False)
        assert found["moments, not counted"] <= found["moments"]
    told = {name: least + bound * moments.unit for name, bound in found.items()}
    if not deep:
        return told
    again = FreeOrderBound.of(graph)
    told["all"] = again.improve(budget, time_limit=SECONDS)
    again.improve(budget + graph.total_size // 9, time_limit=SECONDS)
    told["all, again"] = again.improve(budget, time_limit=SECONDS)
    return told


def joint_bound(moments: Moments, budget: int, most: list[int] | None, counted: bool = True) -> int:
    """Of the joint relaxation of all moments there are."""
    every = list(range(len(moments.duration)))
    joint = Joint.of(moments, budget, every, every, most, counted)
    solved = branch(
        joint,
        least=0,
        most=None,
        deadline=Deadline(SECONDS),
        seed=0,
        on_bound=lambda bound: None,
        stop=lambda found: False,
    )
    return 0 if solved.infeasible else solved.bound


def check_limited(case: Case, tight: Counter) -> None:
    """At most two computations: moments know of that, and say so."""
    graph, least, kept = case.graph, case.graph.total_duration, {False: 0, True: 0}
    best = oracle.best_free_order(graph, case.budget, 2)
    if best is None:
        return
    moments, most = Moments(MomentNetwork(graph)), [2] * len(graph.nodes)
    tight["two, with recomputations"] += best > least
    tight["two"] += least < best == least + joint_bound(moments, case.budget, most) * moments.unit
    assert least + joint_bound(moments, case.budget, most) * moments.unit <= best

    def note(bound: int, limited: bool) -> None:
        kept[limited] = max(kept[limited], bound)

    FreeOrderBound.of(graph).improve(case.budget, time_limit=SECONDS, most=most, on_bound=note)
    assert kept[True] <= best and kept[False] <= (least_duration(graph, case.budget) or best)


def check_case(seed: int, tight: Counter, deep: bool) -> None:
    case = draw(seed)
    best, bounds = least_duration(case.graph, case.budget), layers(case.graph, case.budget, deep)
    if best is None:
        tight["infeasible"] += 1
        return
    tight["with recomputations"] += best > case.graph.total_duration
    for layer, bound in bounds.items():
        assert bound <= best, f"{layer}: {bound} is above {best}"
        tight[layer] += bound == best > case.graph.total_duration
    if not deep:
        return
    assert bounds["all"] >= max(bounds["prices"], bounds["covers"])
    assert bounds["all, again"] >= bounds["covers"]
    found = FreeOrderBound.of(case.graph).improve(case.budget, time_limit=SECONDS, incumbent=lambda: best)
    assert found <= best and (found == best) >= (bounds["all"] == best)
    check_limited(case, tight)


@pytest.mark.parametrize("price", [Fraction(1, 7), Fraction(3), Fraction(10**16)])
def test_whatever_price_they_begin_with_the_best_cuts_are_as_good(price):
    costly = 0
    for seed in range(60):
        case = draw(seed)
        moments = Moments(MomentNetwork(case.graph))
        for v in range(len(case.graph.nodes)):
            cut, begun = (moments.priced(v, case.budget, price=first) for first in (None, price))
            best = 0 if cut is None else cut.bound(case.budget)
            assert best == (0 if begun is None else begun.bound(case.budget))
            again = moments.priced(v, case.budget, useful=best, price=price)
            assert best == (0 if again is None else again.bound(case.budget))
            costly += best > 0
    assert costly > 10


def test_flow_covers_are_never_above_brute_force():
    tight = Counter()
    for seed in range(30):
        check_case(seed, tight, deep=seed % 10 == 0)
    assert 2 * tight["covers"] > tight["with recomputations"] > 4 and tight["all"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_flow_covers_are_never_above_brute_force_on_many_graphs(part):
    tight = Counter()
    for seed in range(1000 + 200 * part, 1200 + 200 * part):
        check_case(seed, tight, deep=True)
    print(dict(tight))
    assert 2 * tight["covers"] > tight["with recomputations"] > 30
    assert tight["all"] >= tight["covers"]
