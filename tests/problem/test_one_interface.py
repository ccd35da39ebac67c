"""Schedules of one memory and plans of several answer one interface; what does not exist for one kind is None."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from machine_cases import draw_platform
from soaking.exact_questions import draw_graph

import moccasin_mzn
from moccasin_mzn.bench.methods import memories_of
from moccasin_mzn.machine.memories import MemoriesGiven, MemoryOptions
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import plan_of_sequence

PACKAGE = Path(moccasin_mzn.__file__).parent


@pytest.mark.parametrize("seed", range(60))
def test_both_kinds_report_budgets_peaks_and_steps(seed):
    rng = random.Random(f"one interface {seed}")
    graph, budget = draw_graph(rng, 5), rng.choice([0, 1, 8, 10**12])
    counts, order = (2,) * len(graph.nodes), graph.input_order()
    instance = Instance(graph, order, budget, counts)
    problem = PlanProblem(instance, instance.platform)
    schedule, plan = instance.judge(order), problem.judge(plan_of_sequence(order))
    assert instance.budgets == problem.budgets == {"memory": budget}
    assert instance.peaks(schedule) == problem.peaks(plan) == {"memory": schedule.peak}
    assert (instance.positions(order), instance.actions(order)) == (order, None)
    assert (problem.positions(plan_of_sequence(order)), problem.budget) == (None, None)
    assert problem.actions(plan_of_sequence(order)) == instance.as_plan(order) and instance.budget == budget


@pytest.mark.parametrize("seed", range(30))
def test_several_memories_have_a_budget_and_a_peak_each(seed):
    rng = random.Random(f"several {seed}")
    platform = draw_platform(rng)
    instance = Instance(platform.graph, platform.graph.input_order(), 1, (2,) * len(platform.graph.nodes))
    problem = PlanProblem(instance, platform)
    account = problem.judge(())
    assert [*problem.budgets.items()] == [(memory.name, memory.budget) for memory in platform.memories]
    assert [*problem.peaks(account).items()] == [(memory.name, 0) for memory in platform.memories]


def test_a_budget_that_fixed_memory_leaves_nothing_of_is_reported_as_it_is():
    graph = draw_graph(random.Random(1), 4)
    instance = Instance(graph, graph.input_order(), -3, (1,) * len(graph.nodes), fixed=4)
    assert instance.budgets == {"memory": -3} and instance.platform.memories[0].budget == 0


def test_where_no_memory_is_described_there_are_no_options_of_several():
    nothing = dict.fromkeys(vars(MemoryOptions(paging=True)))
    assert MemoryOptions.taken_from({**nothing, "device": (), "memory": (), "paging": False}) is None
    assert MemoriesGiven.of(None, None, None, None, None, None) is None
    assert memories_of({}) is None and memories_of({"paging": False, "device": " , "}) is None
    assert MemoryOptions.of({"paging": True}) == MemoryOptions(paging=True)
    assert memories_of({"device": "gpu,cpu=inf:4"}, "8").device == ("gpu=8", "cpu=inf:4")
    assert MemoriesGiven.of({"out_time": 1}, None, None, None, None, None).paging == {"out_time": 1}


def test_the_kind_of_a_problem_is_asked_once_in_a_file_and_in_few_files():
    """All else is an interface of both kinds, or a table by type (`functools.singledispatch`)."""
    asked = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                asked[path] = asked.get(path, 0) + ("PlanProblem" in kinds)
    assert {path.relative_to(PACKAGE).as_posix() for path, count in asked.items() if count} == {
        "api/solve.py", "api/frontier/variants.py", "api/tile_plans.py", "search/certifying.py",
    }  # fmt: skip
    assert max(asked.values()) == 1
