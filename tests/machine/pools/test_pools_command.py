"""`--memory` and `memories=`: what is printed, written, read again, refused."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from few import few
from machine_cases import best_of
from pools_cases import GRAPH, PLATFORM, draw_pools

import moccasin_mzn as mz
from moccasin_mzn.api.frontier.variants import Plans
from moccasin_mzn.api.request import Request, request_from_json
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.platforms import parse_pool
from moccasin_mzn.machine.pools.assign import Assignment, Item
from moccasin_mzn.problem.files.plan_format import runtime_plan
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Link, Memory, Platform
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort, SearchOptions

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


@pytest.fixture
def graph(tmp_path):
    mz.write_graph(GRAPH, tmp_path / "graph.json")
    return tmp_path / "graph.json"


def test_the_judge_counts_reads_and_writes_where_outputs_lie():
    plan = (Action(0, 1), Action(1, 0), Action(2, 0), Action(3, 0))
    found = judge_plan(PLATFORM, plan)
    assert found.violations == ()
    assert found.duration == 14 + 16 + 16 + 16  # a is written, read by b and by d
    assert (found.energy, found.traffic, found.peaks) == (14, 0, (12, 8))


def test_a_recomputation_takes_the_place_of_a_copy_in_another_memory():
    plan = (Action(0, 1), Action(1, 0), Action(2, 0), Action(0, 1), Action(3, 0))
    found = judge_plan(PLATFORM, plan)
    assert [(one.node, one.memory, one.start, one.end) for one in found.intervals] == [
        (0, 1, 1, 2), (1, 0, 2, 3), (2, 0, 3, 5), (0, 1, 4, 5), (3, 0, 5, 5),
    ]  # fmt: skip
    assert found.violations == () and found.peaks == (12, 8)


def test_the_judge_names_what_is_in_no_memory_and_what_is_full():
    found = judge_plan(PLATFORM, (Action(1, 0), Action(0, 0), Action(1, 0), Action(2, 1), Action(3, 1)))
    messages = [one.message for one in found.violations]
    assert "position 1: node b reads node a, which is not in memory" in messages
    assert any("memory in fast 16 B is 4 B over" in message for message in messages)


@pytest.mark.parametrize(
    ("memories", "links", "message"),
    [
        ((Memory("a", 1, (1,) * 4), Memory("b", 1, (2,) * 4)), (), "computing takes the same time"),
        ((Memory("a", 1, (1,) * 4), Memory("b", 1, (1,) * 4)), (Link(0, 1, (0,) * 4, (0,) * 4),), "have no links"),
        ((Memory("a", 1, (1,) * 4, accesses=(1,)),), (), "1 accesses for 4 nodes"),
    ],
)
def test_platforms_of_one_device_refuse_what_makes_no_sense(memories, links, message):
    with pytest.raises(InputError, match=message):
        Platform(GRAPH, memories, links, devices=[0] * len(memories))


def test_accesses_are_for_one_device():
    with pytest.raises(InputError, match="memory a: accesses are for memories of one device"):
        Platform(GRAPH, (Memory("a", 1, (1,) * 4, accesses=(0,) * 4), Memory("b", 1, (1,) * 4)))


def test_a_request_survives_its_text():
    problem = draw_pools(3)
    request = Request(problem, SearchOptions(), MachineFormulation(staged=False))
    again = request_from_json(request.to_json())
    assert again == request and again.problem.platform.devices == (0,) * len(again.problem.platform.memories)


@needs_minizinc
def test_memories_of_one_device_are_solved_written_validated_and_run(command, graph, tmp_path):
    plan = tmp_path / "plan.json"
    memories = ["--memory", "fast=12", "--memory", "slow=8:2"]
    status, out, _ = command(
        "solve", graph, *memories, "--addresses", "--check", "-o", plan, "--time-limit", 30, "--json"
    )
    found = json.loads(out)
    assert (status, found["status"], found["duration"]) == (0, "optimal", least_duration())
    assert found["platform"]["one_device"] is True
    status, out, _ = command("validate", graph, plan)
    assert status == 0 and "arena in slow" in out
    steps = runtime_plan(json.loads(plan.read_text()), GRAPH)
    assert steps.devices == (0, 0) and steps.memories == ("fast", "slow") and max(steps.arenas) <= 12
    assert {steps.steps[r].memory for step in steps.steps for r in step.reads} == {0, 1}
    again = placed(steps, 4, Effort(1.0, None, 0))
    assert isinstance(again, RuntimePlan) and again.alignment == 4
    assert command("deploy", "c-header", plan, "-o", tmp_path / "plan.h")[0] == 0
    read = mz.read_result(GRAPH, plan)
    assert read.peaks == found["peaks"] and read.intervals is not None


def least_duration():
    return best_of(PlanProblem(Instance.build(GRAPH, "100%", max_computations=2), PLATFORM), "staged").totals[0]


@needs_minizinc
@pytest.mark.full
def test_python_takes_memories(graph):
    result = mz.solve(GRAPH, memories={"fast": "12B", "slow": mz.MemoryPool("8B", 2)}, time_limit=30)
    assert (result.status, result.duration) == ("optimal", least_duration())
    with pytest.raises(InputError, match="slow memory does not go with memories of one device"):
        mz.solve(GRAPH, memories={"fast": "12B"}, slow_memory="8B")
    with pytest.raises(InputError, match="with memories of one device it is the least duration"):
        mz.solve(GRAPH, memories={"fast": "12B"}, goal="energy")
    with pytest.raises(InputError, match="budget is for one memory"):
        mz.solve(GRAPH, 0.8, memories={"fast": "12B"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "fast"], "memory 'fast': expected NAME=BUDGET, such as fast=128KiB or slow=8MiB:4"),
        (["--memory", "fast=12:x"], "access of memory fast 'x': expected a number of 0 or more"),
        (["--memory", "fast=12:inf"], "access of memory fast 'inf': expected a number of 0 or more"),
        (["--memory", "a=12", "--memory", "a=8"], "memory a is given twice"),
        (["--memory", "a=12", "--budget", "9"], "--budget is for one memory: with --memory each has its own budget"),
        (["--memory", "a=12", "--paging"], "--paging is for --paging or --device, not for --memory"),
        (["--memory", "a=12", "--device", "b=8"], "--device is for --paging or --device, not for --memory"),
        (["--memory", "a=12", "--copy-time", "1"], "--copy-time is for --device"),
        (
            ["--memory", "a=12", "--strategy", "greedy"],
            "several memories of one device with a strategy: its rule knows one memory: leave out --memory",
        ),
        (["--memory", "a=12", "--formulation", "checkmate-milp"], "formulated as staged or general"),
    ],
)
def test_nonsense_about_memories_is_one_line(command, graph, words, message):
    status, out, errors = command("solve", graph, *words)
    assert (status, out) == (2, "")
    assert message in errors.splitlines()[-1]


def test_what_no_memories_hold_together_is_infeasible_at_once(command, graph):
    status, out, _ = command("solve", graph, "--memory", "fast=4", "--memory", "slow=8:2")
    assert status == 1
    assert "node b alone needs 16 B" in out


def test_a_memory_is_read_from_its_text():
    assert parse_pool("fast=128KiB") == ("fast", mz.MemoryPool("128KiB"))
    assert parse_pool("slow = inf : 0.25") == ("slow", mz.MemoryPool(None, 0.25))


@pytest.mark.parametrize("seed", few(range(60), keep=range(20)))
def test_no_plan_is_below_the_floor_of_a_frontier(seed):
    """The first memory is what is varied: with one unit less than the floor there is no plan."""
    problem = draw_pools(seed, most_nodes=4)
    plans = Plans(problem, SearchOptions(), formulation=MachineFormulation())
    if plans.least > 0:
        assert best_of(plans.at(plans.least - 1)) is None


@pytest.mark.parametrize("seed", few(range(100), keep=range(30)))
def test_assigned_items_never_take_more_than_there_is(seed):
    rng = random.Random(seed)
    horizon, count = rng.randint(1, 12), rng.randint(1, 12)
    scale = rng.choice([1, 10**9])
    items, pieces = [], []
    for _ in range(count):
        start, some = rng.randrange(horizon), []
        for _ in range(rng.choice([1, 1, 2, 3])):
            end, size = rng.randint(start, horizon - 1), rng.randint(0, 9) * scale
            some += [(start, end, size), (start, start, rng.choice([0, 0, 3]) * scale)]
            start = rng.randrange(horizon)
        pieces.append(some)
        items.append(Item.of(some, tuple(rng.randint(0, 9) for _ in range(3))))
    capacities = [rng.randint(0, 30) * scale for _ in range(3)]
    found = Assignment(items, capacities, horizon, rng)
    if not found.find():
        return
    before = found.cost
    found.improve(50)
    assert found.cost <= before
    for m, capacity in enumerate(capacities):
        here = [piece for some, place in zip(pieces, found.places, strict=True) if place == m for piece in some]
        for t in range(horizon):
            assert sum(size for start, end, size in here if start <= t <= end) <= capacity
