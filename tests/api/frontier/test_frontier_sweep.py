"""The sweep on fronts that are known beforehand: every answer true, vague, false, failing or the last one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stairs import Stairs, stairs

from moccasin_mzn.api.frontier.questions import BudgetAnswer, Knowledge
from moccasin_mzn.api.frontier.sweep import SHORTEST, SweepPlan, sweep
from moccasin_mzn.base.errors import InputError, JudgeError
from moccasin_mzn.solvers.minizinc.run import SolverError

PATIENT = 1000.0  # seconds, which no fake answer takes
FIVE = [(10, 50), (20, 40), (30, 38), (40, 37), (100, 20)]


@given(stairs())
def test_sweep_with_points_to_spare_finds_every_step(heights):
    variant = Stairs(heights)
    front = sweep(variant, SweepPlan(200, PATIENT))
    assert [(point.peak, point.duration) for point in front.pareto()] == heights
    assert front.least_bound == front.least_found == heights[0][0]
    assert front.proven == len(front.points)
    for point in front.points:
        assert (point.duration, point.bound) == (variant.best(point.budget)[1],) * 2


@given(stairs(), st.integers(2, 6))
def test_no_budget_is_asked_for_twice_and_points_are_not_too_many(heights, points):
    variant = Stairs(heights)
    front = sweep(variant, SweepPlan(points, PATIENT))
    budgets = [question.budget for question in variant.asked]
    assert len(budgets) == len(set(budgets))
    assert len(front.points) <= points
    assert all(question.budget >= variant.least for question in variant.asked)


@given(stairs(), st.lists(st.integers(0, 70), min_size=1, max_size=6))
def test_sweep_asks_for_given_budgets_alone(heights, budgets):
    variant = Stairs(heights, least=min(heights[0][0], 5))
    front = sweep(variant, SweepPlan(budgets=tuple(budgets), seconds=PATIENT))
    assert [point.budget for point in front.points] == sorted(set(budgets))
    assert {question.budget for question in variant.asked} <= set(budgets)
    for point in front.points:
        best = variant.best(point.budget)
        assert point.status == ("infeasible" if best is None else "optimal")
        assert point.duration == (None if best is None else best[1])


def test_budgets_are_halved_where_the_rectangle_is_largest():
    variant = Stairs(FIVE)
    sweep(variant, SweepPlan(3, PATIENT))
    refined = [question.budget for question in variant.asked if not question.any_schedule]
    assert refined == [(10 + 100) // 2]  # the ends are settled by then


def test_equal_durations_need_nothing_between():
    variant = Stairs([(10, 7), (100, 6)])
    sweep(variant, SweepPlan(4, PATIENT))
    refined = [question.budget for question in variant.asked if not question.any_schedule]
    assert refined == [55, 77]  # between 10 and 55 both take 7


def test_schedules_are_passed_up_and_bounds_down():
    known = Knowledge(Stairs(FIVE))
    known.learn(25, BudgetAnswer((((20, 40), "one"),)))
    assert [known.best(budget) and known.best(budget).duration for budget in (19, 20, 99, 100)] == [None, 40, 40, 20]
    known.learn(60, BudgetAnswer((), 30, "two"))
    assert [known.bound(budget).bound for budget in (0, 60, 61)] == [30, 30, 20]
    known.learn(60, BudgetAnswer((((40, 37), "three"),), 37, "three"))
    assert known.settled(45) and known.settled(60) and not known.settled(39) and not known.settled(61)
    point = known.point(45)
    assert (point.duration, point.bound, point.status) == (37, 37, "optimal")
    assert (point.source, point.bound_source) == ("three, at budget 60", "three, at budget 60")


@given(st.permutations([(25, (20, 40), 40), (60, (40, 37), 30), (30, (30, 39), 38), (12, (10, 55), 45)]))
def test_the_order_of_answers_does_not_matter(answers):
    known = Knowledge(Stairs(FIVE))
    for budget, schedule, bound in answers:
        known.learn(budget, BudgetAnswer(((schedule, "x"),), bound, "x"))
    found = [(known.best(b).duration if known.best(b) else None, known.bound(b).bound) for b in range(5, 101)]
    for budget in range(5, 101):
        durations = [s[1] for _, s, _ in answers if s[0] <= budget] + ([20] if budget >= 100 else [])
        bounds = [b for asked, _, b in answers if asked >= budget] + [20]
        assert found[budget - 5] == (min(durations, default=None), max(bounds))


class Clock:
    """Time that passes only while a question is answered, and then all that the question allows."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("moccasin_mzn.base.clock.time", clock)
    return clock


def slow(variant: Stairs, clock: Clock, share: float = 1.0) -> Stairs:
    """The variant takes this share of the time it is given."""
    genuine = variant.ask

    def ask(question):
        clock.now += share * question.seconds
        return genuine(question)

    variant.ask = ask
    return variant


def test_sweep_gives_open_points_the_remaining_time_and_another_search(clock):
    variant = slow(Stairs(FIVE, vague=True), clock)
    front = sweep(variant, SweepPlan(budgets=(25, 45), seconds=100))
    asked = [(question.budget, question.attempt) for question in variant.asked]
    assert asked == [(25, 0), (45, 0), (45, 1)]  # the smaller gap is closed first, and in no less time than before
    assert [question.start for question in variant.asked] == [None, (20, 41), (40, 38)]
    assert [question.seconds for question in variant.asked] == pytest.approx([25, 25, 50])
    assert [point.duration for point in front.points] == [41, 37]
    assert clock.now == pytest.approx(100)
    assert sum(point.seconds for point in front.points) == pytest.approx(100, abs=0.01)


def test_proven_points_give_their_time_back(clock):
    variant = slow(Stairs(FIVE, least=10), clock, 0.01)
    front = sweep(variant, SweepPlan(budgets=(15, 25, 35, 45), seconds=100))
    seconds = [question.seconds for question in variant.asked]
    assert front.proven == 4 and clock.now < 2
    assert seconds == sorted(seconds) and seconds[-1] > 3 * seconds[0]


@pytest.mark.parametrize("limit", [1, 10, 1000])
@pytest.mark.parametrize("vague", [False, True])
def test_the_time_limit_is_kept(clock, limit, vague):
    sweep(slow(Stairs(FIVE, vague=vague), clock), SweepPlan(12, limit))
    assert clock.now <= limit + SHORTEST


def test_a_search_that_ends_by_itself_is_not_repeated_for_ever():
    variant = Stairs(FIVE, vague=True)
    front = sweep(variant, SweepPlan(6, PATIENT))
    assert not front.interrupted
    assert len(variant.asked) < 200


@pytest.mark.parametrize("question", range(1, 9))
def test_sweep_keeps_points_at_an_interrupt(question):
    whole = sweep(Stairs(FIVE), SweepPlan(9, PATIENT))
    variant = Stairs(FIVE, ends_after=question)
    front = sweep(variant, SweepPlan(9, PATIENT))
    assert front.interrupted and len(variant.asked) == question
    asked = {one.budget for one in variant.asked}
    assert all(point.proven for point in front.points if point.budget in asked)
    assert front.points[-1] == replace(whole.points[-1], seconds=front.points[-1].seconds)
    assert len(front.points) <= len(whole.points)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (BudgetAnswer((((30, 40), "liar"),)), "no schedule: \\(30, 40\\)"),
        (BudgetAnswer((((20, 39), "liar"),)), "no schedule: \\(20, 39\\)"),
        (
            BudgetAnswer((((20, 40), "liar"),), 41, "liar"),
            "liar claims that no schedule within 25 is shorter than 41, but",
        ),
    ],
)
def test_a_false_answer_is_an_error(answer, message):
    variant = Stairs(FIVE)
    variant.ask = lambda question: answer
    with pytest.raises(JudgeError, match=message):
        sweep(variant, SweepPlan(budgets=(25,), seconds=PATIENT))


def test_a_false_proof_is_found_out_by_a_schedule_of_another_budget():
    known = Knowledge(Stairs(FIVE))
    known.learn(25, BudgetAnswer((((20, 40), "one"),)))
    with pytest.raises(JudgeError, match="two claims that there is no schedule below a budget of 23"):
        known.learn(22, BudgetAnswer(infeasible=True, bound_source="two"))


def test_a_solver_that_fails_later_is_reported_and_passed_over():
    lines, variant = [], Stairs(FIVE)
    genuine = variant.ask

    def ask(question):
        if question.budget == 35:
            raise SolverError("the solver fell over")
        return genuine(question)

    variant.ask = ask
    front = sweep(variant, SweepPlan(budgets=(25, 35, 45), seconds=PATIENT), lines.append)
    assert [point.status for point in front.points] == ["optimal", "feasible", "optimal"]
    assert any("the solver fell over" in line for line in lines)
    with pytest.raises(SolverError):
        sweep(variant, SweepPlan(budgets=(35,), seconds=PATIENT))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": 1}, "points 1 is not an integer from 2"),
        ({"points": True}, "points True is not"),
        ({"points": 10**9}, "points 1000000000 is not"),
        ({"seconds": 0}, "time limit 0 is not a positive number"),
        ({"seconds": float("nan")}, "time limit nan is not"),
    ],
)
def test_sweep_plan_rejects_wrong_values(arguments, message):
    with pytest.raises(InputError, match=message):
        SweepPlan(**arguments)


def test_a_variant_that_knows_nothing_at_first():
    variant = Stairs(FIVE)
    variant.known = lambda: ()
    front = sweep(variant, SweepPlan(3, PATIENT))
    assert [(point.budget, point.duration) for point in front.points] == [(10, 50), (55, 37), (100, 20)]
    nothing = Stairs([(200, 1), (300, 0)])
    nothing.known = lambda: ()
    assert sweep(nothing, SweepPlan(budgets=(100,), seconds=PATIENT)).least_found is None
