"""What goes with memories of one device: limits, orders, frontiers, files of platforms, warm starts, pictures."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from pools_cases import GRAPH, PLATFORM, draw_pools

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.machine.problems import problem_in_file
from moccasin_mzn.problem.files.plans import ClaimedPlan, goal_document, plan_document, platform_document
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Goal, Link, Memory, Platform

ONCE = 14 + 2 * 8 + 8 + 2 * 8 + 2 * 4 + 4
"""Every node of it computed once, with an access that takes 1 for a unit of size."""
SPLIT = mz.ComputationGraph(
    nodes=["a", "s", "s1", "c", "d"], durations=[4, 3, 0, 2, 5], sizes=[8, 4, 4, 4, 4],
    edges=[(0, 1), (1, 3), (2, 4), (3, 4), (0, 4)], output_of=[None, None, 1, None, None], size_unit="byte",
)  # fmt: skip
LEAST = 54
"""What the best plan takes there, in stages of the input order."""
PAIR = "--memory", "fast=12", "--memory", "slow=8:2"
SHORT = "--time-limit", 30, "--threads", 2
needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


@pytest.fixture
def graph(tmp_path):
    mz.write_graph(GRAPH, tmp_path / "graph.json")
    return tmp_path / "graph.json"


def solved(command, *words):
    status, out, errors = command("solve", *words, "--json")
    assert status in (0, 1), errors
    return json.loads(out)


def refused(command, *words):
    status, out, errors = command(*words)
    assert (status, out) == (2, "") and len(errors.splitlines()) == 1
    return errors


# --- The duration that increases are relative to --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_an_increase_is_relative_to_accesses_where_they_take_least(seed):
    """So that the duration of the fastest memory alone is no increase, and none is negative."""
    problem = draw_pools(seed)
    alone = replace(problem.platform, memories=(replace(problem.platform.memories[0], budget=None),), devices=())
    fastest = PlanProblem(problem.instance, alone)
    plan = tuple(Action(v, 0) for v in problem.instance.order)
    assert fastest.judge(plan).duration == fastest.baseline_duration == fastest.least_value()
    assert problem.baseline_duration <= fastest.baseline_duration


@needs_minizinc
def test_all_commands_agree_on_the_baseline(command, graph, tmp_path):
    plan = tmp_path / "plan.json"
    found = solved(command, graph, "--memory", "a=inf:1", "-o", plan)
    assert (found["baseline_duration"], found["duration"], found["tdi_percent"]) == (ONCE, ONCE, 0.0)
    status, out, _ = command("solve", graph, "--memory", "a=inf:1")
    row = next(line.split() for line in out.splitlines() if line.startswith(" duration  "))
    assert status == 0 and row == ["duration", str(ONCE), str(ONCE)]
    status, out, _ = command("frontier", graph, "--memory", "a:1", "--budget", "20", "--time-limit", 5, "--json")
    swept = json.loads(out)
    assert (status, swept["baseline_duration"], swept["points"][0]["tdi_percent"]) == (0, ONCE, 0.0)


@needs_minizinc
@pytest.mark.parametrize(
    ("limit", "most", "status"),
    [("+0%", ONCE, "optimal"), ("+5%", 69, "optimal"), ("66", 66, "optimal"), ("65", 65, "infeasible")],
)
def test_a_limit_on_the_duration_counts_accesses(command, graph, limit, most, status):
    found = solved(command, graph, "--memory", "a=inf:1", "--max-duration", limit, *SHORT)
    assert (found["status"], found["goal"]["max_duration"]) == (status, most)


@pytest.mark.full
@needs_minizinc
def test_a_limit_below_the_best_plan_is_proven_to_be_infeasible(command, graph):
    assert solved(command, graph, *PAIR, "--max-duration", LEAST, *SHORT)["duration"] == LEAST
    assert solved(command, graph, *PAIR, "--max-duration", LEAST - 1, *SHORT)["status"] == "infeasible"


def test_durations_with_accesses_over_the_limit_name_the_memory(command, tmp_path):
    mz.write_graph(replace(GRAPH, sizes=[2**51, 2**51, 8, 8]), tmp_path / "g.json")
    message = refused(command, "solve", tmp_path / "g.json", "--memory", "a=inf:1")
    assert "memory a: with what accesses take, every node computed once has duration 11258999068426" in message
    assert "over the limit 2**53; use a larger unit" in message


# --- Frontiers and orders -------------------------------------------------------------------------------------


@pytest.mark.full
@needs_minizinc
def test_the_frontier_varies_the_first_memory(command, graph):
    status, out, _ = command(
        "frontier", graph, "--memory", "fast", "--memory", "slow=8:2", "--budget", "12", "--time-limit", 20, "--json"
    )
    point = json.loads(out)["points"][0]
    assert status == 0 and point["duration"] == point["duration_bound"] == LEAST
    assert point["tdi_percent"] == pytest.approx(100 * (LEAST / 14 - 1))
    swept = mz.frontier(GRAPH, memories={"fast": None, "slow": "8:2"}, budgets=[12], time_limit=20)
    assert swept.points[0].duration == LEAST


@pytest.mark.parametrize("first", ["", ":3", " :3"])
@pytest.mark.parametrize("what", ["--memory", "--device"])
def test_what_is_varied_has_a_name(command, graph, what, first):
    assert f"{what[2:]} {first!r}: expected a name" in refused(command, "frontier", graph, what, first)


def test_what_is_varied_has_no_budget_in_python():
    for first in ("12B", 0.5, mz.MemoryPool("12B", 2)):
        with pytest.raises(InputError, match="memory fast: its budget is what is varied"):
            mz.frontier(GRAPH, memories={"fast": first, "slow": "8:2"})
    with pytest.raises(InputError, match="no memory: expected one or more"):
        mz.frontier(GRAPH, memories={})


@pytest.mark.full
@needs_minizinc
def test_a_free_order_is_no_worse_than_the_input_order(command, graph):
    free = solved(command, graph, *PAIR, "--order", "free", *SHORT)
    assert (free["status"], free["order"]) == ("optimal", "free")
    assert free["duration"] <= LEAST


# --- Files of platforms ---------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path):
    """The file of a plan, not the best one, in memories such as `PAIR` has."""
    found = PLATFORM, (Action(0, 1), Action(1, 0), Action(2, 0), Action(3, 0))
    document = {"plan": plan_document(*found), "goal": goal_document(Goal()), "platform": platform_document(PLATFORM)}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    return tmp_path / "plan.json"


@needs_minizinc
def test_a_file_of_one_device_is_its_platform(command, graph, plan):
    known = json.loads(plan.read_text())
    found = solved(command, graph, "--platform", plan, *SHORT)
    assert (found["platform"], found["goal"]) == (known["platform"], known["goal"])
    assert (found["status"], found["duration"], found["formulation"]) == ("optimal", LEAST, "machine")
    status, out, _ = command("frontier", graph, "--platform", plan, "--budget", 20, "--time-limit", 5, "--json")
    assert status == 0 and json.loads(out)["points"][0]["tdi_percent"] == 0


@pytest.mark.parametrize("name", ["pools", "devices", "machine", "paging", None])
def test_a_file_names_a_formulation_of_any_version(plan, name):
    """Those of one device were of the formulation pools, those of several of devices."""
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "formulation": name}))
    assert problem_in_file(GRAPH, "input", plan, "staged", 2)[1].name == "machine"
    local, links = Memory("local", 12, GRAPH.durations), [Link(a, 1 - a, [1] * 4, [0] * 4) for a in range(2)]
    paged = platform_document(Platform(GRAPH, (local, Memory("slow", None)), links))
    plan.write_text(json.dumps({"platform": paged, "goal": {}, "formulation": name}))
    expected = "paging" if name == "paging" else "machine"
    assert problem_in_file(GRAPH, "input", plan, "staged", 2)[1].name == expected


@pytest.mark.parametrize(
    "goal",
    [
        {"objective": "energy"}, {"objective": "traffic"}, {"objective": "duration", "max_energy": 60},
        {"max_traffic": 9}, {"objective": "energy", "max_duration": 40},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["solve", "frontier"])
def test_memories_of_one_device_have_one_goal(command, graph, plan, name, goal):
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "goal": goal}))
    message = refused(command, name, graph, "--platform", plan)
    assert f"{plan}: goal: with memories of one device it is the least duration" in message
    problem = draw_pools(1)
    with pytest.raises(InputError, match="with memories of one device"):
        replace(problem, goal=Goal(**goal))


OTHERS = (
    ["--memory", "a=10"], ["--device", "x=10"], ["--budget", "5"], ["--objective", "energy"], ["--max-duration", "20"],
    ["--count-fixed"], ["--paging"], ["--page-out-time", "1"], ["--slow-memory", "9"], ["--copy-time", "1"],
    ["--max-energy", "9"], ["--max-traffic", "9"], ["--compute-power", "2"], ["--strategy", "chen"],
)  # fmt: skip


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_a_file_of_a_platform_takes_the_place_of_all_other_options(command, graph, plan, words):
    message = refused(command, "solve", graph, "--platform", plan, *words)
    assert words[0] in message and "--platform" in message


def test_a_frontier_has_a_file_of_a_platform_or_memories(command, graph, plan):
    message = refused(command, "frontier", graph, "--platform", plan, "--memory", "fast")
    assert "--memory does not go with --platform" in message


# --- Warm starts ----------------------------------------------------------------------------------------------


def test_a_plan_is_matched_by_names_of_memories():
    def platform(*names):
        memories = tuple(Memory(name, None, GRAPH.durations, accesses=(0,) * 4) for name in names)
        return Platform(GRAPH, memories, devices=(0, 0))

    claimed = ClaimedPlan(platform("a", "b"), (Action(0, 0), Action(1, 1)))
    assert claimed.on(platform("b", "a")) == (Action(0, 1), Action(1, 0))
    assert claimed.on(platform("a", "b")) == claimed.on(platform("a", "c")) == claimed.plan
    copies = ClaimedPlan(platform("a", "b"), (Action(0, 0), Action(0, 1, 0)))
    assert copies.on(platform("b", "a")) == (Action(0, 1), Action(0, 0, 1))


@pytest.mark.full
@needs_minizinc
def test_a_warm_start_finds_its_memories(command, graph, plan):
    turned = "--memory", "slow=8:2", "--memory", "fast=12"
    assert solved(command, graph, *turned, *SHORT, "--warm-start", plan)["duration"] == LEAST
    other = "--memory", "slow=12", "--memory", "fast=8:2"
    message = refused(command, "solve", graph, *other, *SHORT, "--warm-start", plan)
    assert "memory in fast 12 B is 4 B over the budget 8 B" in message


@pytest.mark.full
@needs_minizinc
def test_a_result_as_a_warm_start_finds_its_memories(plan):
    memories = {"slow": "8:2", "fast": "12B"}
    first = mz.solve(GRAPH, memories=dict(reversed(memories.items())), time_limit=30)
    for start in (first, mz.read_result(GRAPH, plan), plan):
        again = mz.solve(GRAPH, memories=memories, time_limit=30, warm_start=start)
        assert again.duration == first.duration == LEAST


# --- Several outputs, pictures --------------------------------------------------------------------------------


@needs_minizinc
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [("--memory", "fast=12", "--memory", "slow=inf:2"), ("--budget", "100%", "--paging", "--page-out-time", "1")],
    ids=["memories", "paging"],
)
def test_plans_of_several_outputs_are_drawn(command, tmp_path, words):
    mz.write_graph(SPLIT, tmp_path / "g.json")
    (tmp_path / "order.json").write_text(json.dumps(SPLIT.nodes))
    file, order = tmp_path / "plan.json", ("--order", tmp_path / "order.json")
    found = solved(command, tmp_path / "g.json", *words, *order, *SHORT, "-o", file)
    assert [step["compute"] for step in found["plan"] if "compute" in step][:2] == ["a", "s"]
    for more in ((), order):
        status, out, errors = command("plot", tmp_path / "g.json", file, *more)
        assert status == 0 and out, errors
        picture = tmp_path / f"picture{len(more)}.svg"
        assert command("plot", tmp_path / "g.json", file, *more, "-o", picture)[0] == 0 and picture.exists()
    mz.read_result(SPLIT, file).plot(tmp_path / "again.svg")
    assert command("validate", tmp_path / "g.json", file)[0] == 0


# --- Messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["0", "150%", "-5", "nan", "x"])
@pytest.mark.parametrize("what", ["memory", "device"])
def test_a_wrong_budget_names_whose_it_is(command, graph, what, budget):
    words = f"--{what}", "fast=128KiB", f"--{what}", f"slow={budget}"
    assert refused(command, "solve", graph, *words).startswith(f"error: {what} slow: budget ")
    several = {"memory": "memories", "device": "devices"}[what]
    for given in (budget, 0, -5, 1.5):
        with pytest.raises(InputError, match=f"^{what} slow: budget "):
            mz.solve(GRAPH, **{several: {"fast": "128KiB", "slow": given}})


@pytest.mark.parametrize("access", ["-1", "nan", "", "1:2", "inf"])
def test_a_wrong_access_names_its_memory(command, graph, access):
    message = refused(command, "solve", graph, "--memory", f"a=10:{access}")
    assert f"access of memory a {access!r}: expected a number of 0 or more, such as 0.25\n" in message


def test_a_huge_access_is_over_the_limit(command, graph):
    assert "memory a: accesses sum to an integer of" in refused(command, "solve", graph, "--memory", "a=10:1e300")


def test_names_of_memories_in_python_are_not_read_as_budgets():
    with pytest.raises(InputError, match="memory '': expected a printable name"):
        mz.solve(GRAPH, memories={"": "12B"})
    with pytest.raises(InputError, match="^memory a: budget 'b=12B': expected"):
        mz.solve(GRAPH, memories={"a": "b=12B"})
    assert mz.solve(GRAPH, memories={"a=b": "20B"}, search="only", time_limit=1).budgets == {"a=b": 20}
    assert mz.solve(GRAPH, devices={"a=b": "20B:1"}, search="only", time_limit=1).budgets == {"a=b": 20}


def test_inf_is_no_budget_in_all_forms():
    assert mz.MemoryPool("inf") == mz.MemoryPool(float("inf")) == mz.MemoryPool() and mz.Device(" inf ") == mz.Device()
    for slow in ("inf", None, mz.MemoryPool("inf")):
        result = mz.solve(GRAPH, memories={"fast": "12B", "slow": slow}, search="only", time_limit=1)
        assert result.budgets == {"fast": 12, "slow": None}


@pytest.mark.parametrize("memories", [["a"], "a=12", 12])
def test_memories_are_given_by_name(memories):
    with pytest.raises(InputError, match="^memories: expected values by name, got "):
        mz.solve(GRAPH, memories=memories)


def test_an_output_that_fits_into_no_memory_is_named(command, tmp_path):
    graph = mz.ComputationGraph(nodes=["a", "big", "c"], durations=[1] * 3, sizes=[4, 90, 4], edges=[(0, 1), (1, 2)])
    mz.write_graph(graph, tmp_path / "graph.json")
    for slow, fits in ((89, False), (90, True)):
        asked = ("--memory", "fast=40", "--memory", f"slow={slow}:4", "--time-limit", 5)
        status, out, _ = command("solve", tmp_path / "graph.json", *asked)
        assert status == (not fits)
        assert fits or "infeasible: the output of node big is 90, 1 over the largest memory 89" in out
