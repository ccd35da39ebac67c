"""Any schedule within a budget: found wherever brute force finds one, and nothing else is called one."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import oracle
import pytest
from cases import draw_case
from few import few
from least_oracle import STAGED, draw_any, least_peak
from stairs import Stairs

from moccasin_mzn.api.frontier.questions import Knowledge
from moccasin_mzn.api.frontier.sweep import seek_least
from moccasin_mzn.api.frontier.variants import Rematerialization, fitting_schedule
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.search.options import Options


def patience(looks: int):
    """A stop that says so after so many looks."""
    count = itertools.count(1)
    return lambda: next(count) > looks


def check(instance: Instance, sequence: tuple[int, ...]) -> None:
    """A schedule within the budget and C_v, in stages."""
    assert judge(instance.graph, sequence, instance.budget).feasible
    assert first_out_of_stage(instance.order, sequence) is None
    counts = Counter(sequence)
    assert all(counts[v] <= most for v, most in enumerate(instance.max_computations))


def test_the_least_feasible_budget_is_met_and_none_below():
    recomputed = 0
    for seed in range(40):
        case = draw_case(seed, 5)
        graph, most, order = case.graph, case.max_computations, case.graph.input_order()
        peak = simulate(graph, order).peak
        least = next(budget for budget in range(peak + 1) if oracle.best_fixed_order(graph, order, budget, most))
        if least == peak:
            continue
        instance = Instance.build(graph, least, order=order, max_computations=most)
        found = fitting_schedule(instance, seed, patience(40))
        assert found is not None, seed
        check(instance, found)
        recomputed += len(found) > len(order)
        assert fitting_schedule(replace(instance, budget=least - 1), seed, patience(2)) is None
    assert recomputed > 5


@pytest.mark.parametrize("seed", few(few(range(1500), keep=150, mark=pytest.mark.slow), keep=40))
def test_the_least_is_met_with_further_outputs_and_in_place(seed):
    graph, most = draw_any(seed, 5), 1 + seed % 3
    least = least_peak(graph, STAGED, most)
    instance = replace(Instance.build(graph, "100%", max_computations=most), budget=least)
    if simulate(graph, instance.order).peak > least:
        found = fitting_schedule(instance, seed, patience(40))
        assert found is not None
        check(instance, found)
    assert fitting_schedule(replace(instance, budget=least - 1), seed, patience(2)) is None if least else True


@pytest.fixture(scope="module")
def layered() -> Instance:
    return Instance.build(random_layered(60, seed=1), "80%")


def test_a_search_goes_on_from_a_schedule_over_the_budget(layered):
    first = fitting_schedule(layered, 0, patience(100))
    check(layered, first)
    lower = replace(layered, budget=simulate(layered.graph, first).peak - 1)
    near = fitting_schedule(lower, 0, patience(100), first)
    check(lower, near)


@pytest.mark.full
def test_fitting_with_any_budget_returns_a_schedule(layered):
    variant, asked = Rematerialization(layered, Options(threads=1, search="only")), []

    def ask(question):
        asked.append(question)
        answer = variant.ask(question)
        knowledge.learn(question.budget, answer)

    knowledge = Knowledge(variant)
    # much time for the first question, which the first schedule ends
    seek_least(knowledge, ask, lambda: 240.0 if knowledge.least_found == variant.peak else 0.0, prove=False)
    assert knowledge.least_found < variant.peak
    for found in knowledge.found:
        check(replace(layered, budget=found.peak), found.schedule)
    for question in asked:
        assert question.any_schedule and simulate(layered.graph, question.near).peak > question.budget


def test_the_schedule_of_least_peak_is_handed_on():
    variant = Stairs([(10, 50), (20, 40), (30, 38), (40, 37), (100, 20)])
    knowledge = Knowledge(variant)
    seek_least(knowledge, lambda question: knowledge.learn(question.budget, variant.ask(question)), lambda: 1.0)
    assert variant.asked[0].near == (100, 20) and knowledge.least_found == 10
    assert all(question.near[0] > question.budget for question in variant.asked)
