"""Validation of schedules made elsewhere: the sequence itself, and what is claimed about it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, valid_sequences

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.judges.schedules import Interval, simulate
from moccasin_mzn.problem.validate import validate_schedule

# a -> b -> c -> d, and d reads a again.
GRAPH = ComputationGraph(["a", "b", "c", "d"], [1, 2, 4, 8], [10, 20, 40, 5], [(0, 1), (1, 2), (2, 3), (0, 3)])
SEQUENCE = (0, 1, 2, 0, 3)


def claimed(graph: ComputationGraph, sequence: tuple[int, ...]) -> ClaimedSchedule:
    """A schedule whose claims are all true."""
    simulation = simulate(graph, sequence)
    return ClaimedSchedule(sequence, simulation.intervals, simulation.peak, simulation.duration, budget=simulation.peak)


TRUE = claimed(GRAPH, SEQUENCE)
AB, BC, CD, A_AGAIN, D = TRUE.intervals


def found(schedule, budget: int | None = None) -> list[tuple[str, str]]:
    return [(violation.kind, violation.message) for violation in validate_schedule(GRAPH, schedule, budget)]


@given(st.data())
def test_true_claims_are_accepted(data):
    graph = data.draw(graphs(workspaces=True))
    schedule = claimed(graph, data.draw(valid_sequences(graph)))
    assert validate_schedule(graph, schedule, None) == ()


@given(st.data())
def test_every_shifted_end_is_found(data):
    graph = data.draw(graphs(workspaces=True))
    schedule = claimed(graph, data.draw(valid_sequences(graph)))
    at = data.draw(st.integers(0, len(schedule.intervals) - 1))
    old = schedule.intervals[at]
    new = replace(old, end=old.end + data.draw(st.sampled_from([-1, 1])))
    changed = replace(schedule, intervals=(*schedule.intervals[:at], new, *schedule.intervals[at + 1 :]))
    violations = validate_schedule(graph, changed, None)
    assert [(v.kind, v.position, v.node) for v in violations] == [("wrong-interval", old.start, old.node)]


def test_validate_accepts_a_bare_sequence():
    assert found(SEQUENCE, 60) == []
    assert found(list(SEQUENCE)) == []
    assert found(SEQUENCE, 59) == [
        ("over-budget", "position 3: memory 60 is 1 over the budget 59 while computing node c")
    ]


def test_the_budget_given_counts_before_the_one_claimed():
    assert found(TRUE) == []
    assert [kind for kind, _ in found(replace(TRUE, budget=50))] == ["over-budget"] * 2
    assert found(replace(TRUE, budget=50), 60) == []


def test_validate_reports_wrong_peak_and_duration():
    assert found(replace(TRUE, peak=59, duration=15)) == [
        ("wrong-peak", "peak claimed is 59, but the sequence has peak 60"),
        ("wrong-duration", "duration claimed is 15, but the sequence has duration 16"),
    ]


def test_validate_reports_wrong_intervals():
    cases = [
        (
            (Interval(0, 1, 1), BC, CD, A_AGAIN, D),
            "position 1: the interval of node a ends at 1, before its last read at 2",
        ),
        (
            (Interval(0, 1, 4), BC, CD, A_AGAIN, D),
            "position 1: the interval of node a ends at 4, after its last read at 2",
        ),
        ((AB, CD, A_AGAIN, D), "position 2: the interval of node b (to 3) is missing"),
        ((AB, BC, CD, A_AGAIN, D, D), "position 5: the interval of node d is given twice"),
        (
            (AB, BC, CD, A_AGAIN, D, Interval(1, 4, 4)),
            "position 4: the interval of node b starts where the node is not computed",
        ),
    ]
    for intervals, message in cases:
        assert found(replace(TRUE, intervals=intervals)) == [("wrong-interval", message)]


def test_validate_reports_the_first_violation_first():
    schedule = ClaimedSchedule((0, 2, 1), intervals=(Interval(2, 2, 3),), peak=1)
    violations = validate_schedule(GRAPH, schedule, 25)
    assert [(v.kind, v.position) for v in violations] == [
        ("never-computed", None),
        ("missing-input", 2),
        ("wrong-interval", 1),
        ("over-budget", 2),
        ("wrong-interval", 2),
        ("over-budget", 3),
        ("wrong-interval", 3),
        ("wrong-peak", None),
    ]


def test_a_sequence_that_contradicts_its_intervals_is_reported_as_such():
    first, *others = found(replace(TRUE, sequence=(0, 1, 1, 0, 3)))
    assert first == ("wrong-node", "position 3: the sequence computes node b, the intervals have node c")
    assert others[0] == ("never-computed", "node c is never computed")
