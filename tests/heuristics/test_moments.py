"""Choices seen at several stages together, against all choices there are."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases import draw_case

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.heuristics.staged.moments import Moments, finer_and_finer, first_prices, priced, segments
from moccasin_mzn.problem.instance import Instance


def drawn(seed: int) -> tuple[Moments, Instance, np.ndarray, np.ndarray]:
    """Of a tiny graph, with some of its stages over the budget; who may be computed again; the stages."""
    draw, case = random.Random(seed), draw_case(seed)
    instance = Instance.build(case.graph, case.budget)
    arrays = graph_arrays(case.graph, instance.order)
    over = np.array(instance.baseline.memory) - instance.budget
    stages = np.array([k for k in range(len(over)) if over[k] > 0 and draw.random() < 0.8], np.int64)
    possible = np.array([draw.random() < 0.9 for _ in over])
    return Moments(arrays, possible, stages, over[stages]), instance, possible, stages


def all_choices(instance: Instance, possible: np.ndarray, stages: np.ndarray):
    """Cost and what is to be saved still at each stage, of all ways to compute things again, from the definition."""
    graph, order = instance.graph, instance.order
    place = {v: k for k, v in enumerate(order)}
    uses = {v: sorted([place[v], *(place[x] for x in graph.successors[v])]) for v in order}
    gaps = []
    for v in order:
        ends = [*uses[v][1:], len(order)] if graph.successors[v] and graph.sizes[v] else []
        for begin, end in zip(uses[v], ends, strict=False):
            if inside := [j for j, k in enumerate(stages) if begin < k < end]:
                gaps.append((v, end == len(order), inside))
    ways = [range(len(inside) + 1 if possible[place[v]] else 1) for v, _, inside in gaps]
    for taken in product(*ways):
        cost, saved, there = 0, [0] * len(stages), set()
        for (v, last, inside), count in zip(gaps, taken, strict=True):
            cost += graph.durations[v] if count else 0
            for j in inside[:count]:
                saved[j] += graph.sizes[v]
                there |= {(u, j) for u in graph.predecessors[v]} | ({(v, j)} if last else set())
        for v, last, inside in gaps:
            wanted = [j for j in inside if last and (v, j) in there]
            for j in inside:
                saved[j] -= graph.sizes[v] if wanted and j <= max(wanted) else 0
        yield cost, np.array(instance.baseline.memory)[stages] - instance.budget - saved


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_is_the_best_of_all_choices_at_any_prices(seed):
    moments, instance, possible, stages = drawn(seed)
    if len(stages) == 0 or np.prod(2.0 + moments.gaps.beyond - moments.gaps.first) > 20_000:
        return
    every = list(all_choices(instance, possible, stages))
    draw = random.Random(seed)
    for _ in range(4):
        prices = np.array([draw.choice([0, 1, 2, 5, 40]) / 8 for _ in stages])
        taken = moments.at(prices)
        assert taken.value == np.ceil(min(cost + prices @ over for cost, over in every))
        assert taken.cost + prices @ taken.over == min(cost + prices @ over for cost, over in every)


@pytest.mark.parametrize("seed", range(40))
def test_better_prices_come_near_the_best_there_are(seed):
    moments, _, _, stages = drawn(seed)
    if len(stages) == 0:
        return
    found = [taken.value for _, taken in priced(moments, first_prices(moments), 60, lambda: False)]
    draw = random.Random(seed)
    elsewhere = [moments.at(np.array([draw.choice([0, 0.1, 0.3, 1, 3]) for _ in stages])).value for _ in range(60)]
    assert max(found) >= max(elsewhere) - 1


@pytest.mark.parametrize("longest", [9, 10**12])
@pytest.mark.parametrize("seed", range(20))
def test_more_and_more_stages_never_pass_the_cheapest_choice_for_all(seed, longest):
    draw, case = random.Random(seed), draw_case(seed)
    n = len(case.graph.nodes)
    graph = replace(case.graph, durations=[draw.randint(0, longest) for _ in range(n)])
    instance = Instance.build(graph, case.budget)
    over = np.array(instance.baseline.memory) - instance.budget
    stages, able = np.flatnonzero(over > 0), np.ones(n, bool)
    if len(stages) == 0:
        return
    found = finer_and_finer(graph_arrays(graph, instance.order), able, over, len(stages), lambda: False)
    enough = [cost for cost, left in all_choices(instance, able, stages) if max(left) <= 0]
    assert not enough or max(each.taken.value for each in found) <= min(enough)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_segments_are_one_behind_the_other(count):
    draw = random.Random(count)
    over = np.array([draw.randint(-9, 9) for _ in range(60)])
    stages, part = segments(over, count)
    assert list(stages) == sorted(set(stages)) and len(stages) <= count
    assert [part[k] for k in stages] == list(range(len(stages)))
    assert np.all((part >= 0) == (over > 0)) and np.all(np.diff(part[over > 0]) >= 0)
