"""Fronts of plans: the budget of the first memory is swept, the others stay."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from few import few
from machine_cases import best_of
from paging_cases import best, draw_problem
from plan_graphs import paging_problem, u_graph

from moccasin_mzn.api.frontier.points import Frontier
from moccasin_mzn.api.frontier.sweep import SweepPlan, sweep
from moccasin_mzn.api.frontier.variants import Plans
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Goal, Link, Memory, Platform
from moccasin_mzn.report.frontiers import as_dict, print_frontier
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.interactive_frontier import render_frontier as render_page
from moccasin_mzn.report.plots.static import render_frontier as render
from moccasin_mzn.search.options import SearchOptions

ALONE = SearchOptions(search="off", threads=1, seed=0)
SECONDS = 300


def at(problem: PlanProblem, budget: int) -> PlanProblem:
    """The problem with this budget in its first memory."""
    first, *others = problem.platform.memories
    memories = (replace(first, budget=budget), *others)
    return replace(problem, platform=replace(problem.platform, memories=memories))


def assert_front(front: Frontier, problem: PlanProblem, least_of) -> None:
    """The front is that of `least_of`, which says of a problem how short its plans can be."""
    for point in front.points:
        asked = at(problem, point.budget)
        assert (point.duration, point.status) == (least_of(asked), "optimal")
        simulation = judge_plan(asked.platform, point.sequence, asked.goal)
        assert simulation.feasible
        assert (simulation.duration, simulation.peaks[0]) == (point.duration, point.peak)
    assert front.least_bound == front.least_found
    assert front.least_bound == 0 or least_of(at(problem, front.least_bound - 1)) is None
    steps = front.pareto()
    for budget in range(front.least_bound, front.peak + 1):
        assert min(point.duration for point in steps if point.peak <= budget) == least_of(at(problem, budget))


def least_staged(problem: PlanProblem) -> int | None:
    found = best(problem, "staged")
    return found and found.totals[0]


def check_paging(seed: int) -> None:
    problem = draw_problem(seed, 4)
    problem = replace(problem, goal=Goal(max_traffic=problem.goal.max_traffic))
    front = sweep(Plans(problem, ALONE, formulation=PagingFormulation()), SweepPlan(100, SECONDS))
    assert_front(front, problem, least_staged)


@pytest.mark.parametrize("seed", [5])
def test_the_frontier_of_paging_is_that_of_brute_force(seed):
    check_paging(seed)


@pytest.mark.slow
def test_more_frontiers_of_paging_are_those_of_brute_force():
    for seed in range(40):
        check_paging(seed)


def device_problem(last: int | None, cpu: int | None = None) -> PlanProblem:
    """A U of 4 nodes on a device and on one that takes 3 times as long, or `last` for the last node; None: it cannot.

    A node and its inputs take 6 at most, and the input order takes no more.
    """
    costs = (1,) * 4
    memories = (Memory("gpu", 6, (7,) * 4), Memory("cpu", cpu, (21, 21, 21, last)))
    links = (Link(0, 1, costs, costs), Link(1, 0, costs, costs))
    return PlanProblem(Instance.build(u_graph(half=2), "100%"), Platform(u_graph(half=2), memories, links))


def least_in_any_order(problem: PlanProblem) -> int | None:
    found = best_of(problem)
    return found and found.totals[0]


@pytest.mark.slow
def test_the_frontier_of_devices_is_that_of_brute_force():
    problem = device_problem(21, cpu=6)
    front = sweep(Plans(problem, ALONE, formulation=MachineFormulation(staged=False)), SweepPlan(100, SECONDS))
    assert_front(front, problem, least_in_any_order)
    assert (front.least_bound, front.points[0].duration, front.points[-1].duration) == (0, 84, 28)


@pytest.mark.full
def test_a_point_of_devices_is_what_brute_force_finds():
    problem = device_problem(21, cpu=6)
    front = sweep(
        Plans(problem, ALONE, formulation=MachineFormulation(staged=False)), SweepPlan(budgets=(4, 6), seconds=SECONDS)
    )
    assert [point.duration for point in front.points] == [least_in_any_order(at(problem, 4)), 28]
    assert (front.proven, front.least_bound) == (2, 0)
    assert front.swept == "memory in gpu, alongside cpu with 6"
    assert front.scope.startswith("in any order")


def test_the_least_budget_is_for_what_no_other_memory_computes():
    def least(problem: PlanProblem) -> int:
        return Plans(problem, ALONE, formulation=MachineFormulation()).least

    assert (least(device_problem(None)), least(device_problem(21)), least(device_problem(21, cpu=5))) == (6, 0, 6)
    assert Plans(paging_problem(u_graph(), 6), ALONE, formulation=PagingFormulation()).least == 6


def test_the_input_order_may_be_longer_than_the_least_duration():
    problem = device_problem(21)
    places = (Memory("slow", 6, (9,) * 4), Memory("fast", 6, (7,) * 4))
    problem = replace(problem, platform=replace(problem.platform, memories=places))
    assert Plans(problem, ALONE, formulation=MachineFormulation()).input_increase == 4 * 2
    nowhere = replace(
        problem, platform=replace(problem.platform, memories=device_problem(None).platform.memories[::-1])
    )
    assert Plans(nowhere, ALONE, formulation=MachineFormulation()).input_increase is None


@pytest.mark.full
def test_plan_frontier_in_any_order():
    problem = paging_problem(u_graph(), 6, order="free")
    options = SearchOptions(search="only", threads=1, seed=0)
    front = sweep(Plans(problem, options, formulation=PagingFormulation()), SweepPlan(budgets=(6, 8), seconds=4))
    assert front.scope.startswith("in any order")
    assert [point.bound for point in front.points] == [42, 42]
    assert front.points[1].status == "optimal"


OTHER_GOALS = [seed for seed in range(400) if draw_problem(seed, 4).objective != "duration"]


@pytest.mark.parametrize("seed", few(OTHER_GOALS[:60], keep=OTHER_GOALS[20:22]))
def test_the_front_of_another_goal_is_that_of_brute_force(seed):
    problem = draw_problem(seed, 4)
    plans = Plans(problem, SearchOptions(threads=1, seed=0), formulation=PagingFormulation())
    budgets = tuple(range(max(1, plans.least - 1), plans.peak + 1))[:5]
    front = sweep(plans, SweepPlan(budgets=budgets, seconds=SECONDS))
    at_total = OBJECTIVES.index(problem.objective)
    for point in front.points:
        exact = best(at(problem, point.budget), "staged")
        assert point.duration == (exact and exact.totals[at_total]), (point, exact)
        assert point.proven
        if point.found:
            simulation = judge_plan(at(problem, point.budget).platform, point.sequence, problem.goal)
            assert simulation.feasible and simulation.total(problem.objective) == point.duration


@pytest.mark.parametrize("objective", ["energy", "traffic"])
def test_other_goals_have_their_own_words(objective):
    """Traffic, of which nothing computed once has any, is shown as it is, not relative to that."""
    problem = replace(paging_problem(u_graph(), 6), goal=Goal(objective))
    plans = Plans(problem, replace(ALONE, search="only"), formulation=PagingFormulation())
    front = sweep(plans, SweepPlan(budgets=(6, 8), seconds=10))
    picture, document, lines = FrontierPicture(front), as_dict(front, plans.show), io.StringIO()
    print_frontier(front, lines)
    assert picture.title.startswith(f"U: {objective} against memory in local") and document["objective"] == objective
    assert picture.input_order == (100, 0)
    for point, row in zip(front.points, document["points"], strict=True):
        judged = judge_plan(at(problem, point.budget).platform, point.sequence, problem.goal)
        assert row["value"] == row[objective] == point.duration and row["duration"] == judged.duration
        assert row["tdi_percent"] is None and row["duration_bound"] is None and row["bound"] == point.bound
    assert f"{objective} %" in lines.getvalue() or objective == "traffic" and "traffic  " in lines.getvalue()
    assert document["baseline_duration"] is None and document["baseline"] == problem.least_value()
    assert objective.encode() in render(picture, "svg") and objective in render_page(picture)


def test_pictures_say_what_is_swept():
    problem = paging_problem(u_graph(), 6)
    plans = Plans(problem, replace(ALONE, search="only"), formulation=PagingFormulation())
    front = sweep(plans, SweepPlan(budgets=(8,), seconds=20))
    picture = FrontierPicture(front)
    assert picture.title == "U: duration against memory in local, alongside slow with no budget, 6 nodes"
    assert picture.input_order == (100, 0)
    slower = FrontierPicture(replace(front, input_increase=21))
    assert slower.input_order == (100, 50) and slower.top >= 50
    nowhere = FrontierPicture(replace(front, input_increase=None))
    assert nowhere.input_order is None
    assert b'id="input-order"' in render(slower, "svg")
    assert b'id="input-order"' not in render(nowhere, "svg")
    assert "input order" in render_page(slower).rpartition("Plotly.newPlot")[2]
    assert '"name":"input order"' not in render_page(nowhere)
    assert as_dict(front, plans.show)["points"][0]["platform"]["memories"][0]["budget"] == 8


# The command


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.json"
    write_graph(u_graph(), path)
    return path


PAGING = ("--paging", "--page-out-time", "0.25")


@pytest.mark.full
def test_plan_frontier_command_writes_points(command, graph, tmp_path):
    """The fronts with and without slow memory in one format."""
    options = ("--search", "off", "--threads", 1, "--budget", 6, "--budget", 8, "--time-limit", SECONDS)
    files = ("--output", tmp_path / "f.json", "--csv", tmp_path / "f.csv", "--plot", tmp_path / "f.svg")
    status, out, err = command("frontier", graph, *PAGING, *options, *files, "--json")
    assert status == 0, err
    told = json.loads(out)
    assert json.loads((tmp_path / "f.json").read_text()) == told
    assert told["swept"] == "memory in local, alongside slow with no budget"
    assert [(p["budget"], p["duration"], p["status"]) for p in told["points"] if p["pareto"]] == [
        (6, 44, "optimal"), (8, 42, "optimal")
    ]  # fmt: skip
    plain = json.loads(command("frontier", graph, *options, "--json")[1])
    assert plain["swept"] is None and plain.keys() == told.keys()
    assert [(p["budget"], p["duration"]) for p in plain["points"] if p["pareto"]] == [(6, 49), (8, 42)]
    assert all(point.keys() >= plain["points"][0].keys() for point in told["points"])
    point = tmp_path / "point.json"
    point.write_text(json.dumps(told["points"][0]))
    status, out, _ = command("validate", graph, point)
    figures = "peak in local 6, peak in slow 2, duration 44, energy 42, traffic 4"
    assert (status, out) == (0, f"valid: {figures}\nno arena to judge: the plan has no offsets\n")
    with open(tmp_path / "f.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["sequence"]) for row in rows] == [point["plan"] for point in told["points"]]


def test_the_table_says_what_is_swept(command, graph):
    options = ("--search", "only", "--budget", 8, "--budget", 5, "--time-limit", 20, "--threads", 1)
    status, out, _ = command("frontier", graph, "--device", "gpu:2", "--device", "cpu=4:9", *options)
    assert status == 0
    assert "budgets are those of memory in gpu, alongside cpu with 4" in out
    assert "infeasible" in out and "optimal" in out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--device", "gpu=0.8"], "device gpu: its budget is what is varied: give its name alone, --device gpu"),
        (["--device", "gpu=0.8:2"], "device gpu: its budget is what is varied: give its name alone, --device gpu"),
        (["--device", "gpu", "--device", "cpu"], "device 'cpu': expected NAME=BUDGET"),
        (["--device", "gpu", "--precedence", "reservoir"], "--precedence is for one memory, it does not go with --dev"),
        ([*PAGING, "--index", "affine"], "--index is for one memory, it does not go with --paging"),
        ([*PAGING, "--formulation", "checkmate"], "paging is formulated as staged or general, not as checkmate"),
        (["--page-out-time", "1"], "--page-out-time is for --paging"),
        (["--max-energy", "1"], "--max-energy is for --paging or --device"),
        (["--paging"], "--paging: give --page-out-time"),
    ],
)
def test_plan_frontier_command_rejects_bad_input_in_one_line(command, graph, options, complaint):
    status, out, err = command("frontier", graph, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {complaint}") and err.count("\n") == 1
