"""Platforms of devices as people ask for them, and plans found without the model."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from device_cases import draw_problem
from machine_cases import best_of

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.data import StageSlots, machine_data
from moccasin_mzn.machine.devices import search
from moccasin_mzn.machine.devices.search import Greedy, Improver, moved_out, plan_of, search_plans, slots_of
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.platforms import (
    CopyCosts,
    Device,
    device_platform,
    exact,
    parse_device,
    with_slow_memory,
)
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Goal

GRAPH = ComputationGraph(
    ["a", "b"], [3, 5], [4, 2], [(0, 1)], device_durations={"cpu": [12, None], "npu": [None, 7]}
)  # fmt: skip


def test_platform_has_memories_and_links():
    devices = {
        "gpu": Device(Budget.parse("0.5"), power=Fraction(3)),
        "cpu": Device(None, power=Fraction(1, 2)),
        "old": Device(Budget.parse("9"), slowness=Fraction(3, 2)),
        "ram": Device(Budget.parse("8"), computes=False),
    }
    platform = device_platform(GRAPH, devices, CopyCosts(Fraction(1, 4), 10, Fraction(1, 3)), peak=7)
    assert [(of.name, of.budget, of.durations, of.energies) for of in platform.memories] == [
        ("gpu", 4, (3, 5), (9, 15)),
        ("cpu", None, (12, None), (6, None)),
        ("old", 9, (5, 8), (5, 8)),
        ("ram", 8, (None, None), (None, None)),
    ]
    assert len(platform.links) == 12
    assert {(link.durations, link.energies) for link in platform.links} == {((11, 11), (2, 1))}


def test_budgets_beyond_64_bits_are_those_of_all_outputs():
    graph = ComputationGraph(range(2), [1, 1], [2, 4], [(0, 1)])
    huge = Budget.parse("9" * 24)
    platform = device_platform(graph, {"gpu": Device(huge), "cpu": Device(huge, Fraction(2))}, CopyCosts(), 6)
    problem = PlanProblem(Instance.build(graph, 6), platform)
    assert machine_data(problem, staged=True).budgets == (3, 3)


def test_slow_memory_besides():
    devices = {"gpu": Device(Budget.parse("6")), "cpu": Device()}
    pair = device_platform(GRAPH, devices, CopyCosts(), peak=6)
    platform = with_slow_memory(pair, 99, CopyCosts(Fraction(2)), None)
    assert [memory.name for memory in platform.memories] == ["gpu", "cpu", "slow"]
    assert platform.memories[2].durations is None
    assert set(platform.link_between) == {(0, 1), (1, 0), (0, 2), (1, 2)}
    assert platform.link_between[1, 2].durations == (8, 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu=0.8", ("gpu", Device(Budget.parse("0.8")))),
        ("cpu=16GiB:4", ("cpu", Device(Budget(2**34), slowness=Fraction(4)))),
        ("cpu = inf : 0.25", ("cpu", Device(None, slowness=Fraction(1, 4)))),
        ("ram=inf:inf", ("ram", Device(None, computes=False))),
    ],
)
def test_parse_device(text, expected):
    assert parse_device(text) == expected


@pytest.mark.parametrize("text", ["gpu", "=4", "gpu=", "gpu=x", "gpu=4:", "gpu=4:-1", "gpu=4:1e3", "gpu=0"])
def test_device_text_rejects_other_forms(text):
    with pytest.raises(InputError):
        parse_device(text)


def test_device_numbers_are_read_exactly():
    assert exact("x", "0.1") == Fraction(1, 10)
    with pytest.raises(InputError, match=r"^x 'nan': expected a number of 0 or more, such as 0.25$"):
        exact("x", "nan")


@pytest.mark.parametrize(
    ("devices", "complaint"),
    [
        ({}, "no device: expected one or more"),
        ({"gpu": Device(), "tpu": Device()}, "device tpu: the graph has durations of cpu, npu; expected one of them"),
        ({"cpu": Device()}, "node b cannot be computed in any of cpu"),
    ],
)
def test_platform_rejects_inconsistent_values(devices, complaint):
    with pytest.raises(InputError) as caught:
        device_platform(GRAPH, devices, CopyCosts(), peak=6)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    "costs", [{"time": Fraction(-1)}, {"latency": -1}, {"latency": Fraction(1, 2)}, {"energy": "1"}]
)
def test_copy_costs_reject_wrong_values(costs):
    with pytest.raises(InputError, match=f"^copy {next(iter(costs))} "):
        CopyCosts(**costs)


# Plans without the model


def paging_like(budget: int, most: int = 2) -> PlanProblem:
    """A chain whose end reads its beginning; copies cost nothing, the cpu is slow. The input order has a peak of 8."""
    n = 6
    graph = ComputationGraph(range(n), [2] * n, [2] * n, [(v, v + 1) for v in range(n - 1)] + [(0, n - 1), (1, n - 2)])
    platform = device_platform(
        graph, {"gpu": Device(Budget(budget)), "cpu": Device(slowness=Fraction(9))}, CopyCosts(), 8
    )
    return PlanProblem(Instance(graph, range(n), budget, (most,) * n), platform)


def test_greedy_moves_out_what_is_read_last():
    problem = paging_like(6)
    plan = plan_of(StageSlots.of(problem), Greedy(problem, 0, 1).slots())
    simulation = judge_plan(problem.platform, plan)
    assert simulation.violations == ()
    assert simulation.duration == problem.platform.graph.total_duration
    assert {action.node for action in plan if action.source is not None} == {0}
    assert MachineFormulation().out_of_scope(problem, plan) is None


def test_greedy_computes_where_that_costs_least():
    graph = ComputationGraph(
        ["a", "b", "c"], [1, 9, 3], [1, 1, 1], [(0, 1), (1, 2)], device_durations={"npu": [None, 1, 1]}
    )
    platform = device_platform(graph, {"cpu": Device(), "npu": Device()}, CopyCosts(latency=1), 3)
    problem = PlanProblem(Instance(graph, (0, 1, 2), 3, (2, 2, 2)), platform)
    plan = plan_of(StageSlots.of(problem), Greedy(problem, 0, 1).slots())
    simulation = judge_plan(platform, plan)
    assert simulation.violations == ()
    assert [(action.node, action.memory) for action in plan if action.source is None] == [(0, 0), (1, 1), (2, 1)]
    assert MachineFormulation().out_of_scope(problem, plan) is None


def test_greedy_without_a_way_back():
    problem = paging_like(6, most=1)
    assert Greedy(problem, 0, 1).slots() is None


@pytest.mark.parametrize("seed", range(30))
def test_tables_of_staged_plans(seed):
    problem = draw_problem(seed, most_nodes=4)
    found = best_of(problem, "slots")
    if found is not None:
        plan = found.plan
        stages = StageSlots.of(problem)
        assert plan_of(stages, slots_of(stages, plan)) == plan


@pytest.mark.parametrize("seed", range(20))
def test_plans_found_by_search_are_staged_plans_and_no_better_than_the_best(seed, monkeypatch):
    monkeypatch.setattr(search, "IDLE_SECONDS", 0)
    problem = draw_problem(seed, most_nodes=4)
    problem = PlanProblem(problem.instance, problem.platform, Goal(problem.goal.objective))
    found, calls = [], iter(range(200))
    search_plans(problem, seed, found.append, lambda: next(calls, None) is None, lambda: found[-1] if found else None)
    expected = best_of(problem, "slots")
    assert expected is not None or not found
    for plan in found:
        simulation = judge_plan(problem.platform, plan, problem.goal)
        assert simulation.violations == ()
        assert MachineFormulation().out_of_scope(problem, plan) is None
        assert problem.value(simulation) >= expected.totals[OBJECTIVES.index(problem.goal.objective)]


def test_improver_replaces_recomputation_by_free_copies():
    problem = paging_like(6)
    again = tuple(Action(v, 0) for v in (0, 1, 2, 3, 4, 0, 5))
    before = judge_plan(problem.platform, again)
    assert before.violations == ()
    improver = Improver(problem, again, random.Random(0))
    found = list(improver.sweep(lambda: False))
    assert found
    assert judge_plan(problem.platform, improver.plan, problem.goal).violations == ()
    assert improver.value == problem.platform.graph.total_duration < before.duration


def test_an_improver_moves_a_node_to_a_faster_device():
    graph = ComputationGraph(
        ["a", "b", "c"], [1, 9, 1], [1, 1, 1], [(0, 1), (1, 2)], device_durations={"npu": [None, 1, None]}
    )
    platform = device_platform(graph, {"cpu": Device(), "npu": Device()}, CopyCosts(latency=1), 3)
    problem = PlanProblem(Instance(graph, (0, 1, 2), 3, (2, 2, 2)), platform)
    improver = Improver(problem, tuple(Action(v, 0) for v in range(3)), random.Random(0))
    list(improver.sweep(lambda: False))
    assert improver.value == 5


def test_plans_moved_out_of_every_memory_are_offered():
    assert len(list(moved_out(paging_like(6)))) == 2
