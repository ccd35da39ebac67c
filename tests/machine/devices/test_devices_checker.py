"""The solution checker of the models of several devices: it accepts what is right and names what is damaged."""

from __future__ import annotations

import shutil

import pytest
from device_cases import draw_problem
from machine_cases import best_of

from moccasin_mzn.formulations.checkers import run_checker
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.data import encode
from moccasin_mzn.machine.formulation import MachineFormulation, plan_solution
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Goal, Link, Memory, Plan, Platform

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

GPU, CPU = 0, 1
A, B, C, D = range(4)


def small_problem() -> PlanProblem:
    """a -> b -> c -> d and a -> d; a does not fit beside b and c, and only the cpu can compute c."""
    graph = ComputationGraph(list("abcd"), [1, 2, 3, 4], [2, 2, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    memories = [Memory("gpu", 6, [1, 2, None, 4]), Memory("cpu", 4, [3, 6, 9, None])]
    links = [Link(GPU, CPU, [1, 1, 1, 1], [5, 5, 5, 5]), Link(CPU, GPU, [1, 1, 1, 1], [5, 5, 5, 5])]
    return PlanProblem(Instance(graph, (0, 1, 2, 3), 6, (2, 2, 2, 2)), Platform(graph, memories, links), Goal())


PLAN: Plan = (
    Action(A, GPU), Action(B, GPU), Action(B, CPU, GPU), Action(C, CPU), Action(C, GPU, CPU), Action(D, GPU),
)  # fmt: skip


def solution_of(problem: PlanProblem, plan: Plan, staged: bool = False) -> dict:
    """Data and arrays, as a solver would leave them."""
    form = MachineFormulation(staged)
    data = form.data(problem)
    simulation = judge_plan(problem.platform, plan, problem.goal)
    return {**form.data_items(data), **plan_solution(data, encode(data, plan), simulation)}


def two_memories() -> tuple[PlanProblem, Plan]:
    """a and b, which c reads; b lies in slow memory, where it is written and read, c is written there too."""
    graph = ComputationGraph(list("abc"), [1, 1, 1], [2, 2, 1], [(0, 2), (1, 2)])
    fast, slow = (Memory(name, 4, [1] * 3, accesses=[cost] * 3) for name, cost in (("fast", 0), ("slow", 3)))
    problem = PlanProblem(Instance(graph, (0, 1, 2), 4, (2, 2, 2)), Platform(graph, (fast, slow), devices=(0, 0)))
    return problem, (Action(0, 0), Action(1, 1), Action(2, 1))


PROBLEM = small_problem()
SOLUTION, LIES = solution_of(PROBLEM, PLAN), solution_of(*two_memories())


def at(node: int, memory: int, rank: int = 1) -> int:
    """Where an interval is in the arrays."""
    return MachineFormulation(False).data(PROBLEM).intervals.index((node + 1, memory, rank))


def changed(array: str, where: int, value) -> dict:
    values = list(SOLUTION[array])
    values[where] = value
    return {**SOLUTION, array: values}


def test_devices_checker_accepts_a_solution_by_hand():
    verdict = run_checker("machine.mzc.mzn", SOLUTION)
    assert verdict == "CORRECT: duration 18, energy 26, traffic 2, peaks 3 2"
    assert run_checker("machine.mzc.mzn", LIES) == "CORRECT: duration 12, energy 3, traffic 0, peaks 2 3"


DAMAGED = {
    "no computation": (changed("computed", at(C, CPU), False), "node 3 is never computed"),
    "not active": (changed("active", at(D, GPU), False), "node 4 is never computed"),
    "one event": (changed("start", at(C, GPU), 6), "two actions at event 6"),
    "two ways": (changed("computed", at(B, CPU), True), "node 2 comes to memory 2 at event 3 in 2 ways"),
    "no way": (changed("copied", at(B, CPU), [False, False]), "node 2 comes to memory 2 at event 3 in 0 ways"),
    "wrong link": (
        changed("copied", at(B, CPU), [False, True]),
        "node 2 comes to memory 2 over a link to 1",
    ),
    "ends early": (changed("end", at(A, GPU), 0), "the copy of node 1 of event 1 ends before, at 0"),
    "input gone": (changed("end", at(A, GPU), 5), "node 4 at event 6 reads node 1, which is not on device 1"),
    "source gone": (
        changed("end", at(B, GPU), 2),
        "node 2 is copied at event 3 from memory 1, but is not there",
    ),
    "too early": (changed("start", at(C, GPU), 0), "node 3 is copied at event 0 from memory 2, but is not there"),
    "over the budget": (changed("end", at(B, GPU), 6), "memory 4 at event 6 is over 3 of memory 1"),
    "other duration": ({**SOLUTION, "total_duration": 17}, "total_duration is 17, the actions take 18"),
    "other energy": ({**SOLUTION, "total_energy": 1}, "total_energy is 1, the actions take 26"),
    "other traffic": ({**SOLUTION, "total_traffic": 3}, "total_traffic is 3, the actions take 2"),
    "over a limit": ({**SOLUTION, "limit": [100, 25, 100]}, "energy 26 is over the limit 25"),
    "no device": (
        {**SOLUTION, "compute_duration": [[1, 3], [2, 6], [-1, -1], [4, -1]]},
        "node 3 cannot be computed on device 2",
    ),
    "elsewhere": (
        changed("lies", at(A, GPU), [False, True]),
        "the copy of node 1 of event 1 is in 0 memories of its device",
    ),
    "read as one": (
        {**LIES, "joined": [1], "joined_to": [2]},
        "node 3 at event 3 reads nodes 1 and 2 as one, not from one memory",
    ),
    "in two memories": (
        {**LIES, "lies": [[True, True], *LIES["lies"][1:]]},
        "the copy of node 1 of event 1 is in 2 memories of its device",
    ),
    "not accessed": (
        {**LIES, "access_cost": [[0] * 3] * 2},
        "total_duration is 12, the actions take 3",
    ),
    "too much in slow memory": ({**LIES, "memory_budget": [4, 1]}, "memory 2 at event 2 is over 1 of memory 2"),
}


@pytest.mark.full
@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=[pytest.mark.slow] * (at > 1)) for at, name in enumerate(DAMAGED)]
)
def test_devices_checker_rejects_damaged_solutions(damage):
    solution, complaint = DAMAGED[damage]
    assert run_checker("machine.mzc.mzn", solution) == f"INCORRECT: {complaint}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_devices_checker_accepts_best_plans(seed):
    problem = draw_problem(seed, most_nodes=4)
    found = best_of(problem)
    if found is None:
        return
    plan = found.plan
    data = MachineFormulation(False).data(problem)
    if encode(data, plan).active.count(True) < len(plan):
        return  # with needless actions, which the arrays leave out
    verdict = run_checker("machine.mzc.mzn", solution_of(problem, plan))
    simulation = judge_plan(problem.platform, plan)
    totals = [simulation.total(what) // scale for what, scale in zip(OBJECTIVES, data.scales, strict=True)]
    peaks = " ".join(str(peak // data.scales[2]) for peak in simulation.peaks)
    assert verdict == "CORRECT: duration {}, energy {}, traffic {}, peaks ".format(*totals) + peaks
