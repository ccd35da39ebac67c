"""The judge of plans: figures by hand, every violation, and `simulate` where there is one memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platform_support import LOCAL, PLAN, SLOW, A, B, C, D, compute, platform, read, write
from strategies import any_sequences, graphs

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlacedInterval, judge_plan
from moccasin_mzn.problem.platform import Action, Goal


def test_figures_of_the_plan_in_the_drawing():
    simulation = judge_plan(platform(), PLAN)
    assert simulation.feasible
    assert simulation.memory == ((8, 8, 12, 6, 10, 11), (0, 8, 8, 8, 8, 0))
    assert simulation.peaks == (12, 8)
    assert (simulation.duration, simulation.energy, simulation.traffic) == (120, 29, 16)
    assert simulation.total("traffic") == 16
    assert simulation.intervals == (
        PlacedInterval(A, LOCAL, 1, 3),
        PlacedInterval(A, SLOW, 2, 5, LOCAL),
        PlacedInterval(B, LOCAL, 3, 4),
        PlacedInterval(C, LOCAL, 4, 6),
        PlacedInterval(A, LOCAL, 5, 6, SLOW),
        PlacedInterval(D, LOCAL, 6, 6),
    )


def kinds(plan, where=None, goal=None):
    return [violation.kind for violation in judge_plan(where or platform(), plan, goal).violations]


def test_budgets_hold_to_the_unit():
    assert kinds(PLAN, platform(12, 8)) == []
    assert kinds(PLAN, platform(11, 8)) == ["over-budget"]
    assert kinds(PLAN, platform(12, 7)) == ["over-budget"] * 4


@pytest.mark.parametrize(
    ("plan", "expected", "message"),
    [
        ((*PLAN, Action(4)), ["unknown-node"], "position 7: 4 is not a node"),
        ((*PLAN, Action(True)), ["unknown-node"], "position 7: True is not a node"),
        ((*PLAN, Action(A, 2)), ["unknown-memory"], "position 7: 2 is not a memory"),
        ((*PLAN, Action(A, LOCAL, -1)), ["unknown-memory"], "position 7: -1 is not a memory"),
        ((*PLAN, Action(A, SLOW)), ["cannot-compute"], "position 7: node a cannot be computed in slow"),
        ((*PLAN, Action(A, LOCAL, LOCAL)), ["no-link"], "position 7: nothing can be copied from local to local"),
        ((*PLAN, read(B)), ["missing-copy"], "position 7: node b is copied from slow, but is not there"),
        (PLAN[:1] + PLAN[3:], ["missing-input", "missing-copy", "never-computed"],
         "position 2: node c reads node b, which is not in local"),
        (PLAN[:-1], ["never-computed"], "node d is never computed"),
    ],
)  # fmt: skip
def test_plan_judge_names_what_is_wrong(plan, expected, message):
    found = judge_plan(platform(), plan).violations
    assert [violation.kind for violation in found] == expected
    assert found[0].message == message


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (Goal(max_duration=119), "duration 120 is 1 over the limit 119"),
        (Goal(max_energy=28), "energy 29 is 1 over the limit 28"),
        (Goal(max_traffic=15), "traffic 16 is 1 over the limit 15"),
    ],
)
def test_limits_hold_to_the_unit(goal, message):
    assert [violation.message for violation in judge_plan(platform(), PLAN, goal).violations] == [message]
    assert kinds(PLAN, goal=Goal(max_duration=120, max_energy=29, max_traffic=16)) == []


def test_to_copy_holds_the_source_and_a_copy_reads_no_inputs():
    plan = (compute(A), compute(B), write(A), write(B), compute(C), read(B), read(A), compute(D))
    simulation = judge_plan(platform(), plan)
    assert simulation.feasible
    assert simulation.intervals[0] == PlacedInterval(A, LOCAL, 1, 3)
    assert simulation.memory[LOCAL] == (8, 12, 12, 4, 6, 6, 10, 11)


def test_an_unread_copy_is_retained_at_its_own_position_only():
    simulation = judge_plan(platform(), (compute(A), write(A), *map(compute, (B, C, D))))
    assert simulation.memory[SLOW] == (0, 8, 0, 0, 0)


@given(graphs(workspaces=True), st.data())
def test_plan_judge_agrees_with_simulate_on_one_memory(graph, drawn):
    sequence = drawn.draw(any_sequences(graph))
    budget = drawn.draw(st.integers(0, 3000))
    problem = replace(Instance.build(graph, 1), budget=budget)
    expected = problem.judge(sequence)
    found = judge_plan(problem.platform, problem.as_plan(sequence))
    assert found.memory == (expected.memory,)
    assert (found.peaks, found.duration, found.energy) == ((expected.peak,), expected.duration, expected.duration)
    assert [(of.node, of.start, of.end) for of in found.intervals] == [
        (of.node, of.start, of.end) for of in expected.intervals
    ]
    assert sorted((v.kind, v.position or 0) for v in found.violations) == sorted(
        (v.kind, v.position or 0) for v in expected.violations
    )
