"""Contradictions between proofs and schedules are found, and only those."""

from __future__ import annotations

import math

import pytest
from report_frames import row, runs_of

from moccasin_mzn.bench.report.records import Scope, conflicts, scope_counts, scope_of, shared_problems


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (Scope("staged", "3", "input"), Scope("staged", "2", "input")),
        (Scope("staged", "auto", "input"), Scope("staged", "auto", "input")),
        (Scope("general", "2", ""), Scope("staged", "2", "input")),
        (Scope("general", "3", ""), Scope("staged", "2", "topological")),
        (Scope("checkmate", "", "input"), Scope("staged", "5", "input")),
    ],
)
def test_scopes_that_contain_others(wide, narrow):
    assert wide.includes(narrow)
    assert narrow.includes(wide) == (wide == narrow)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scope("staged", "2", "input"), Scope("staged", "2", "topological")),
        (Scope("staged", "auto", "input"), Scope("staged", "2", "input")),
        (Scope("checkmate", "", "input"), Scope("general", "2", "")),
        (Scope("checkmate", "", "input"), Scope("staged", "2", "topological")),
        (Scope("staged", "2", "input", "--paging"), Scope("staged", "2", "input")),
        (Scope("general", "2", "", "--addresses"), Scope("staged", "2", "input")),
    ],
)
def test_scopes_that_do_not_contain_others(one, other):
    assert not one.includes(other) and not other.includes(one)


def test_equal_optima_agree():
    runs = runs_of([row("a"), row("b"), row("c", formulation="general", duration=105)])
    assert conflicts(runs) == ()
    staged = next(count for count in scope_counts(runs) if count.scope.formulation == "staged")
    assert (staged.problems, staged.shared, staged.agreed) == (1, 1, 1)
    assert shared_problems(runs) == 1


def test_two_optima_of_one_scope_disagree():
    runs = runs_of([row("a", duration=110), row("b", duration=108)])
    (conflict,) = conflicts(runs)
    assert (conflict.prover, conflict.bound, conflict.finder, conflict.duration) == ("a", 110, "b", 108)
    assert scope_counts(runs)[0].agreed == 0


def test_plans_are_compared_by_objective_within_the_same_problem():
    asked = {"extension": "--paging --objective energy", "objective": "energy", "duration_bound": None}
    first = row("a", duration=110, value=50, bound=50, **asked)
    shorter = row("b", duration=105, value=50, bound=50, **asked)
    other = row("c", duration=90)
    assert conflicts(runs_of([first, shorter, other])) == ()
    (conflict,) = conflicts(runs_of([first, shorter | {"value": 49, "bound": 49}, other]))
    assert (conflict.prover, conflict.bound, conflict.finder, conflict.duration) == ("a", 50, "b", 49)
    assert conflict.scope.title == "staged, C = 2, --paging --objective energy"


def test_a_schedule_in_part_of_a_scope_refutes_a_bound():
    rows = [row("milp", formulation="checkmate-milp", duration=110), row("staged", status="feasible", duration=108)]
    (conflict,) = conflicts(runs_of(rows))
    assert (conflict.prover, conflict.finder) == ("milp", "staged")


def test_a_larger_scope_may_have_shorter_schedules():
    rows = [
        row("two"),
        row("three", max_computations="3", duration=105),
        row("milp", formulation="checkmate-milp", duration=101),
    ]
    rows += [row("dtr", strategy="dtr", formulation=None, status="feasible", duration=100)]
    assert conflicts(runs_of(rows)) == ()


def test_a_proof_that_there_is_none_is_refuted_by_any_schedule():
    rows = [row("a", status="infeasible", duration=None), row("b", status="feasible", duration=150)]
    (conflict,) = conflicts(runs_of(rows))
    assert conflict.bound == math.inf


def test_a_bound_that_is_no_proof_of_optimality_counts():
    rows = [row("a", status="feasible", duration=120, duration_bound=112), row("b", duration=110)]
    (conflict,) = conflicts(runs_of(rows))
    assert (conflict.bound, conflict.duration) == (112, 110)


def test_runs_with_other_orders_are_not_compared():
    rows = [row("a", duration=110), row("b", duration=108, command="g.json --order topological")]
    assert conflicts(runs_of(rows)) == ()


def test_a_free_order_is_the_scope_of_the_general_formulation():
    command = "solve g.json --budget 0.8 --order free"
    rows = [row("a", duration=105, command=command), row("b", formulation="general", duration=106)]
    (conflict,) = conflicts(runs_of(rows))
    assert (conflict.prover, conflict.finder) == ("b", "a")


def test_parts_are_in_any_order_but_of_a_model_of_ones_own():
    asked = {"extension": "--tile 4"}
    any_order = row("a", command="g.json --tile 4", **asked)
    own = row("b", command="g.json --tile 4 --model own.mzn", formulation="own", **asked)
    scopes = [scope_of(run) for _, run in runs_of([any_order, own]).runs.iterrows()]
    assert scopes[0].formulation == "general" and scopes[0].order == "" and scopes[1].order == "input"
    assert not scopes[1].includes(scopes[0])
