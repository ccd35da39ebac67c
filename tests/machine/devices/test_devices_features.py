"""Workspaces, outputs in place and several outputs of an operation on several devices: models, checker and search."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from device_runs import proven
from few import few
from outputs_oracle import draw_operations, overwriting_outputs

import moccasin_mzn as mz
from moccasin_mzn.formulations.checkers import run_checker
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.data import StageSlots, encode, machine_data, stages_of_plan
from moccasin_mzn.machine.devices.search import Greedy, plan_of, search_plans, slots_of
from moccasin_mzn.machine.formulation import MachineFormulation, plan_solution
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Link, Memory, Platform

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

FORMS = [pytest.param(True, id="staged"), pytest.param(False, id="general")]
GPU, CPU = 0, 1


def problem_of(graph: ComputationGraph, gpu: int | None, cpu: int | None = None, copy: int = 1, most: int = 2):
    """On a gpu, and a cpu where all takes ten times as long; each copy takes as long as is given."""
    n = len(graph.nodes)
    slow = [10 * duration for duration in graph.durations]
    links = [Link(a, 1 - a, [copy] * n, [0] * n) for a in (GPU, CPU)]
    platform = Platform(graph, [Memory("gpu", gpu, graph.durations), Memory("cpu", cpu, slow)], links)
    return PlanProblem(Instance(graph, graph.input_order(), 10**6, (most,) * n), platform)


# a is read at the end; b takes a workspace of 4; nothing else is large
WORKING = ComputationGraph(
    [*"abcd"], [3, 1, 1, 1], [4, 1, 1, 1], [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], workspaces=[0, 0, 4, 0]
)
# b overwrites a where nothing reads a later
PLACED = ComputationGraph(
    [*"abcd"], [1, 1, 1, 1], [4, 4, 1, 1], [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], in_place=[[], [0], [], []]
).run_in_place()
CHAIN = replace(PLACED, edges=PLACED.edges[:3])
# split makes right too, which is read at the end; w does not fit beside all of them
SPLIT = ComputationGraph(
    ["x", "split", "right", "w", "y", "z"], [1, 5, 0, 1, 1, 1], [1, 2, 3, 6, 1, 1],
    [("x", "split"), ("split", "w"), ("w", "y"), ("y", "z"), ("right", "z")],
    output_of=[None, None, 1, None, None, None],
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize(
    ("graph", "gpu", "copy", "least"),
    [
        (WORKING, 10, 1, 6),  # a, b and c with its workspace
        (WORKING, 9, 1, 8),  # a waits on the cpu
        (WORKING, 9, 9, 9),  # a is recomputed
        (WORKING, 5, 1, 26),  # c takes 6: it is on the cpu, and d too
        (PLACED, 9, 1, 4),  # a, b and c
        (PLACED, 7, 9, 5),  # b overwrites a, which is recomputed
        (PLACED, 6, 0, 4),  # b overwrites a, which waits on the cpu
        (PLACED, 4, 1, 24),  # b is copied to the cpu, where a is, and c and d are computed
        (SPLIT, 11, 9, 9),
        (SPLIT, 10, 1, 11),  # right waits on the cpu
        (SPLIT, 9, 9, 14),  # split and right are recomputed
        (SPLIT, 8, 9, 15),  # and x
        (SPLIT, 6, 1, 29),  # split goes to the cpu, where w and y are computed
    ],
)
def test_models_count_what_takes_memory(staged, graph, gpu, copy, least):
    assert proven(problem_of(graph, gpu, copy=copy), staged) == ("optimal", least)


@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize(("graph", "gpu"), [(WORKING, 5), (PLACED, 5), (SPLIT, 7)])
@pytest.mark.few(3)
def test_what_fits_nowhere_is_infeasible(staged, graph, gpu):
    assert proven(problem_of(graph, gpu, 0), staged) == ("infeasible", None)


@pytest.mark.few(2)
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", few(range(60), keep=12, mark=pytest.mark.slow))
def test_plans_of_one_memory_are_schedules(staged, seed):
    """With outputs in place, several outputs and workspaces, the model of one memory has the same optimum."""
    operations, budget, most = draw_operations(seed, 4)
    graph = overwriting_outputs(operations, seed) if seed % 3 else operations.graph
    form = "staged" if staged else "general"
    expected = mz.solve(
        graph, budget, max_computations=most, formulation=form, search="off", threads=1, time_limit=60
    )  # fmt: skip
    instance = Instance.build(graph, budget, max_computations=most)
    problem = PlanProblem(instance, Platform(graph, [Memory("only", budget, graph.durations)]))
    assert proven(problem, staged) == (expected.status, expected.duration)


# --- Stages of operations, data and search --------------------------------------------------------------------


def test_events_of_outputs_are_those_that_the_model_draws():
    graph = ComputationGraph(["u", "v"], [1, 0], [1, 1], [], output_of=[None, 0])
    slots = StageSlots.of(problem_of(graph, None))
    computed = [slots.event(1, Action(v, m)) for m in (GPU, CPU) for v in (0, 1)]
    copied = [slots.event(1, Action(v, m, 1 - m)) for v in (0, 1) for m in (GPU, CPU)]
    assert (computed, copied) == ([1, 2, 3, 4], [5, 6, 7, 8])
    slots = StageSlots.of(problem_of(ComputationGraph(["u", "v"], [1, 1], [1, 1], [("u", "v")]), None))
    assert [slots.event(2, Action(v, m, of)) for v in (0, 1) for of in (None, 0) for m in (GPU, CPU)] == [*range(9, 17)]


X, S, R, W, Y, Z = range(6)
AGAIN = tuple(map(Action, (X, S, R, W, Y, S, R, Z)))


@pytest.mark.parametrize(
    ("plan", "stages"),
    [
        (AGAIN, [1, 2, 2, 3, 4, 5, 5, 5]),
        ((*AGAIN[:2], Action(S, CPU), Action(R, CPU), *AGAIN[3:]), [1, 2, 2, 2, 3, 4, 5, 5, 5]),
        ((Action(X), Action(S), Action(W), Action(S), Action(R)), [1, 2, 3, 4]),  # the first time, and not with split
        ((Action(X), Action(S), Action(R), Action(R, CPU, GPU), Action(S, CPU)), [1, 2, 2, 2, 3]),
    ],
)
def test_a_stage_is_one_of_an_operation(plan, stages):
    assert stages_of_plan(StageSlots.of(problem_of(SPLIT, None)), plan) == stages


def test_an_operation_may_come_to_where_one_of_its_outputs_was_copied():
    """In a memory where all fits each output comes once, but for a first one that is computed for the others' sake."""
    for staged in (True, False):
        data = machine_data(problem_of(SPLIT, 10), staged)
        assert [row[CPU] for row in data.most] == [1, 2, 1, 1, 1, 1]
        assert [row[GPU] for row in data.most] == [2, 2, 2, 2, 2, 1]
    alone = PlanProblem(problem_of(SPLIT, None).instance, Platform(SPLIT, [Memory("only", None, SPLIT.durations)]))
    assert machine_data(alone, True).most == ((1,),) * 6


def test_a_workspace_makes_a_stage_crowded():
    for gpu, most in ((11, 1), (10, 2)):  # sizes are 7, and the workspace 4
        assert machine_data(problem_of(WORKING, gpu), True).most[0][GPU] == most
        assert machine_data(problem_of(WORKING, gpu), False).most[0][GPU] == most


def test_the_order_of_a_problem_has_outputs_side_by_side():
    instance = Instance(SPLIT, (X, S, W, R, Y, Z), 9, (2,) * 6)
    assert instance.order == (X, S, R, W, Y, Z)
    found = mz.solve(SPLIT, 9, order=(X, S, W, R, Y, Z), search="off", threads=1, time_limit=60)
    assert (found.status, found.duration) == ("optimal", 14)


@pytest.mark.parametrize(("graph", "gpu"), [(WORKING, 9), (CHAIN, 5), (SPLIT, 10)])
def test_greedy_counts_workspaces_and_what_is_spared(graph, gpu):
    problem = problem_of(graph, gpu, copy=0)
    stages, table = StageSlots.of(problem), Greedy(problem, GPU, CPU).slots()
    assert table is not None
    plan = plan_of(stages, table)
    simulation = judge_plan(problem.platform, plan)
    assert (simulation.violations, simulation.duration) == ((), graph.total_duration)
    assert slots_of(stages, plan) == table


@pytest.mark.parametrize(
    ("graph", "gpu", "copy", "least"),
    [
        (WORKING, 9, 1, 8),
        (WORKING, 9, 9, 9),
        (PLACED, 7, 9, 5),
        (SPLIT, 10, 1, 11),
        (SPLIT, 9, 9, 14),
    ],
)
def test_the_search_alone_finds_the_best_plans(graph, gpu, copy, least):
    problem, found, best = problem_of(graph, gpu, copy=copy), [10**9], [None]

    def offer(plan):
        simulation = judge_plan(problem.platform, plan)
        assert simulation.violations == () and problem.out_of_scope(plan) is None
        if simulation.duration < found[-1]:
            found.append(simulation.duration)
            best.append(plan)

    asked = []

    def better():
        asked.append(best[-1])
        return best[-1]

    search_plans(problem, 0, offer, lambda: found[-1] <= least or len(asked) > 12, better)
    assert found[-1] == least


# --- The checker ----------------------------------------------------------------------------------------------


def solution_of(problem: PlanProblem, plan) -> dict:
    """Data and arrays of a plan, as a solver with free events would leave them."""
    form = MachineFormulation(staged=False)
    data = form.data(problem)
    solution = plan_solution(data, encode(data, plan), judge_plan(problem.platform, plan))
    return {**form.data_items(data), **solution}


APART = (Action(X), Action(S), Action(W), Action(R), Action(Y), Action(Z))
AWAY = (Action(X), Action(1), Action(2), Action(0), Action(3))
CHECKED = [
    (WORKING, 9, AWAY, "duration 9, energy 9, traffic 0, peaks 6 0"),
    (WORKING, 10, (*AWAY[:3], AWAY[4]), "duration 6, energy 6, traffic 0, peaks 10 0"),
    (PLACED, 7, AWAY, "duration 5, energy 5, traffic 0, peaks 6 0"),
    (SPLIT, 9, AGAIN, "duration 14, energy 14, traffic 0, peaks 9 0"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("graph", "gpu", "plan", "figures"), CHECKED)
def test_the_checker_counts_as_the_judge_does(graph, gpu, plan, figures):
    problem = problem_of(graph, gpu)
    assert run_checker("machine.mzc.mzn", solution_of(problem, plan)) == f"CORRECT: {figures}"
    verdict = MachineFormulation(True).checked(problem, plan, judge_plan(problem.platform, plan), None)
    assert verdict[0].startswith(f"machine.mzc.mzn: CORRECT: duration {figures.split()[1].strip(',')}")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("graph", "gpu", "plan", "changes", "complaint"),
    [
        (WORKING, 10, CHECKED[1][2], {"workspace": [0, 0, 5, 0]}, "memory 11 at event 3 is over 10 of memory 1"),
        (PLACED, 7, AWAY, {"in_place": [False] * 4}, "memory 8 at event 2 is over 7 of memory 1"),
        (
            SPLIT,
            9,
            AGAIN,
            {"output_of": [0, 0, 1, 0, 0, 0]},
            "node 3 at event 3 does not come directly after its first output",
        ),
    ],
)
def test_the_checker_rejects_what_is_over_or_apart(graph, gpu, plan, changes, complaint):
    solution = {**solution_of(problem_of(graph, gpu), plan), **changes}
    assert run_checker("machine.mzc.mzn", solution) == f"INCORRECT: {complaint}"
