"""Medians, proofs, portfolios, profiles, gaps and growth, against numbers worked out by hand and against their laws."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from few import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_frames import LIMIT, row, runs_of

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.report.drawing import COLORS, ProgressLine, fit, marks_for, progress_range
from moccasin_mzn.bench.report.portfolio import best_counts, portfolio, virtual_best
from moccasin_mzn.bench.report.runs import option_of, read_runs
from moccasin_mzn.bench.report.statistics import (
    Curve,
    Steps,
    best_seconds,
    bounds,
    common_ground,
    durations,
    final_gaps,
    gap_steps,
    median_curve,
    par2,
    performance_profiles,
    proof_seconds,
    shares_within,
    summarize,
    time_limits,
    upper_median,
)

SECONDS = pd.DataFrame(
    {"a": [1.0, 2.0, math.inf, math.inf], "b": [4.0, 1.0, 5.0, math.inf], "c": [4.0, 9.0, 6.0, math.inf]}
)
LIMITS = pd.DataFrame({method: [LIMIT] * 4 for method in "abc"})
TIMES = st.one_of(st.floats(0.01, LIMIT), st.just(math.inf))


@st.composite
def tables(draw):
    problems, methods = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rows = [draw(st.lists(TIMES, min_size=methods, max_size=methods)) for _ in range(problems)]
    return pd.DataFrame(rows, columns=[f"m{k}" for k in range(methods)])


# runs


def test_problems_and_methods_are_in_a_fixed_order():
    rows = [
        row("dtr", strategy="dtr", formulation=None), row("m10"), row("m9"), row("free", formulation="general"),
        row("m9", graph="h", nodes=5), row("m9", budget="0.8", budget_amount=80),
    ]  # fmt: skip
    for order in (rows, rows[::-1]):
        runs = runs_of(order)
        assert runs.methods == ("m9", "m10", "free", "dtr")
        assert runs.models == ("m9", "m10", "free")
        assert [problem.title for problem in runs.problems] == ["h, budget 0.9", "g, budget 0.9", "g, budget 0.8"]


def test_graphs_with_one_label_are_distinguished_by_their_digest():
    runs = runs_of([row(graph_digest="abcdefgh"), row(seed=2, graph_digest="12345678")])
    assert sorted(problem.label for problem in runs.problems) == ["g (123456)", "g (abcdef)"]


def test_a_fraction_of_what_a_method_makes_of_a_graph_is_another_problem():
    runs = runs_of([row("m"), row("n", budget_amount=70, extension="--in-place"), row("o", status="error")])
    assert [problem.title for problem in runs.problems] == ["g, budget 0.9 = 90", "g, budget 0.9 = 70"]
    assert list(runs.runs.groupby("problem")["method"].unique().map(list)) == [["m", "o"], ["n"]]


def test_facts_missing_from_a_failed_run_come_from_the_others():
    lost = row("x", status="crashed", duration=None, nodes=None, edges=None, budget_amount=None, baseline_duration=None)
    runs = runs_of([lost, row("m")])
    assert (runs.problems[0].nodes, runs.problems[0].budget_amount) == (10, 90)


@pytest.mark.parametrize(
    ("rows", "experiment", "message"),
    [
        ([], None, "no runs yet"),
        ([row(), row("n", experiment="other")], None, "several experiments.*e, other"),
        ([row()], "nobody", "no experiment nobody, only e"),
    ],
)
def test_missing_runs_are_reported(rows, experiment, message):
    from report_frames import frames

    with pytest.raises(InputError, match=message):
        read_runs(*frames(rows), experiment)


def test_options_are_found_in_commands():
    assert option_of("'a b.json' --order 'my order' --budget=0.8", "--order") == "my order"
    assert option_of("g.json --budget=0.8", "--budget") == "0.8"
    assert option_of("g.json 'unclosed", "--budget") == ""


# curves


def test_the_median_of_an_even_number_is_the_larger_middle_one():
    assert upper_median([3.0, 1.0]) == 3
    assert upper_median([1.0, math.inf]) == math.inf
    assert upper_median([1.0, 2.0, math.inf]) == 2


def test_median_curve_by_hand():
    a, b, c = Steps(np.array([1.0, 4.0]), np.array([9.0, 5.0])), Steps(np.array([2.0]), np.array([7.0])), Steps(
        np.array([]), np.array([]))  # fmt: skip
    curve = median_curve([a, b, c])
    assert list(curve.seconds) == [1, 2, 4]
    assert list(curve.low) == [9, 7, 5]
    assert list(curve.median) == [math.inf, 9, 7]
    assert list(curve.high) == [math.inf] * 3


@given(st.lists(st.lists(st.tuples(st.floats(0, 9), st.floats(1, 9)), max_size=5), min_size=1, max_size=4))
def test_the_median_of_descending_curves_descends_within_the_range(traces):
    steps = []
    for trace in traces:
        seconds = np.array(sorted(second for second, _ in trace))
        steps.append(Steps(seconds, np.array(sorted((value for _, value in trace), reverse=True))))
    curve = median_curve(steps)
    assert all(curve.low <= curve.median) and all(curve.median <= curve.high)
    assert all(earlier >= later for earlier, later in zip(curve.median, curve.median[1:], strict=False))


def test_the_answer_counts_where_the_trace_lacks_it():
    runs = runs_of([row("a", seconds=3.0, duration=105), row("b")], {"b/g/0.9/1": [(0.5, 120, 100), (0.7, 110, 100)]})
    by_method = {run["method"]: run for _, run in runs.runs.iterrows()}
    assert best_seconds(runs, by_method["a"]) == 3
    assert best_seconds(runs, by_method["b"]) == 0.7
    assert list(durations(runs, by_method["b"]).values) == [120, 110]


def test_summary_by_hand():
    runs = runs_of([
        row(seed=1, seconds=1.0, duration=104), row(seed=2, seconds=3.0, duration=106, status="feasible"),
        row(seed=3, seconds=8.0, duration=112, status="feasible"),
        row(seed=4, status="out-of-memory", seconds=9.0, duration=None),
    ])  # fmt: skip
    summary = summarize(runs, 0, "m")
    assert (summary.runs, summary.found, summary.proven, summary.failed) == (4, 3, 1, 1)
    assert (summary.tdi.median, summary.tdi.low, summary.tdi.high) == pytest.approx((6, 4, 12))
    assert (summary.proof_seconds.median, summary.seconds.median) == (1, 5.5)
    assert summary.status == "feasible"
    assert summarize(runs, 0, "another").runs == 0


# proofs and portfolios


def test_a_problem_is_solved_by_more_than_half_of_the_runs():
    rows = [row("half", seed=1), row("half", seed=2, status="feasible")]
    rows += [row("most", seed=seed, seconds=seed) for seed in (1, 2)] + [
        row("most", seed=3, status="unknown", duration=None)
    ]
    rows += [row("other", graph="h")]
    times = proof_seconds(runs_of(rows))
    assert times.loc[0, "half"] == math.inf
    assert times.loc[0, "most"] == 2
    assert math.isnan(times.loc[0, "other"])


def test_an_infeasible_problem_is_solved_by_its_proof():
    times = proof_seconds(runs_of([row(status="infeasible", duration=None, seconds=4.0)]))
    assert times.loc[0, "m"] == 4


def test_par2_doubles_the_limit_of_what_is_not_solved():
    assert par2(SECONDS, LIMITS)["a"].tolist() == [1, 2, 20, 20]
    assert par2(SECONDS, LIMITS.max(axis=1)).equals(par2(SECONDS, LIMITS))
    assert time_limits(runs_of([row()])).loc[0, "m"] == LIMIT


def test_portfolio_by_hand():
    result = portfolio(SECONDS, LIMITS)
    a, b, c = result.members
    assert (result.problems, result.solved, result.par2) == (4, 3, (1 + 1 + 5 + 20) / 4)
    assert (a.solved, a.par2, a.wins, a.unique_wins) == (2, 43 / 4, 1, 1)
    assert (b.solved, b.par2, b.wins, b.unique_wins) == (3, 30 / 4, 2, 2)
    assert (c.solved, c.wins, c.lost_solved, c.lost_par2) == (3, 0, 0, 0)
    assert (a.lost_solved, a.lost_par2) == (0, 3 / 4)  # 4 s by b or c for 1 s
    assert (b.lost_solved, b.lost_par2) == (0, 2 / 4)  # 2 s for 1 s and 6 s for 5 s
    assert result.single_best is b


def test_who_alone_solves_a_problem_contributes_it():
    result = portfolio(pd.DataFrame({"a": [1.0, math.inf], "b": [2.0, 3.0]}), LIMITS[["a", "b"]][:2])
    assert [member.lost_solved for member in result.members] == [0, 1]
    assert result.members[1].lost_par2 == (20 - 3) / 2


@settings(max_examples=examples(40))
@given(tables())
def test_laws_of_the_virtual_best_solver(seconds):
    limits = pd.DataFrame(LIMIT, index=seconds.index, columns=seconds.columns)
    best, result = virtual_best(seconds), portfolio(seconds, limits)
    for method, member in zip(seconds.columns, result.members, strict=True):
        assert (best <= seconds[method]).all()
        assert result.par2 <= member.par2 + 1e-9 and result.solved >= member.solved
        assert member.lost_par2 >= 0 and 0 <= member.lost_solved <= member.solved
        assert member.unique_wins <= member.wins <= member.solved
        assert (member.lost_par2 > 1e-9) <= (member.unique_wins > 0)
    assert sum(member.unique_wins for member in result.members) <= result.solved <= sum(m.wins for m in result.members)
    if len(seconds.columns) == 1:
        assert result.members[0].lost_solved == result.solved


def test_best_counts_by_hand():
    assert best_counts(SECONDS) == {"a": (1, 1), "b": (2, 2), "c": (0, 0)}
    assert best_counts(pd.DataFrame({"a": [1.0, 2.0, math.nan], "b": [1.0, 3.0, math.inf]})) == {
        "a": (2, 1),
        "b": (1, 0),
    }


def test_cactus_by_hand():
    solved = Steps.counting(pd.Series([5.0, math.inf, 1.0, math.nan]))
    assert (list(solved.starts), list(solved.values)) == ([1, 5], [1, 2])


def test_methods_are_compared_where_all_ran():
    ran = pd.DataFrame({"a": [True] * 4, "b": [True, True, True, False], "c": [False, False, True, False]})
    assert common_ground(ran) == ([0, 1, 2], ["a", "b"])
    assert common_ground(ran[["a", "b"]][:2]) == ([0, 1], ["a", "b"])
    assert common_ground(ran[[]]) == ([], [])
    assert common_ground(ran & False) == ([], [])


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=6))
@example([[place == k for place in range(4)] for k in range(4)])
def test_common_ground_is_common_and_at_least_half(rows):
    ran = pd.DataFrame(rows, columns=list("abcd"))
    problems, methods = common_ground(ran)
    assert ran.loc[problems, methods].all(axis=None)
    if 2 * ran.sum().max() >= ran.any(axis=1).sum() > 0:
        assert methods and 2 * len(problems) >= ran.any(axis=1).sum()
    else:
        assert (problems, methods) == ([], [])


# profiles, gaps, growth


def test_profiles_by_hand():
    profiles = performance_profiles(SECONDS)
    assert [profiles["a"].at(ratio) for ratio in (0.9, 1, 1.9, 2, 100)] == pytest.approx(
        [0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
    )
    assert [profiles["b"].at(ratio) for ratio in (1, 3.9, 4)] == pytest.approx([2 / 3, 2 / 3, 1])
    assert profiles["c"].at(1) == 0


def test_times_below_the_floor_are_ties():
    profiles = performance_profiles(pd.DataFrame({"a": [0.0001], "b": [0.02]}), floor=0.05)
    assert profiles["a"].at(1) == profiles["b"].at(1) == 1


@given(tables())
def test_laws_of_profiles(values):
    profiles = performance_profiles(values)
    solved = np.isfinite(values).any(axis=1).sum()
    for method, profile in profiles.items():
        assert (np.diff(profile.values) >= 0).all() and (np.diff(profile.starts) >= 0).all()
        assert ((profile.starts >= 1) & (profile.values > 0) & (profile.values <= 1)).all()
        if solved:
            assert profile.at(math.inf) == pytest.approx(np.isfinite(values[method]).sum() / solved)
    if solved:
        assert sum(profile.at(1) for profile in profiles.values()) >= 1 - 1e-9


def test_gap_by_hand():
    trace = {"m/g/0.9/1": [(1.0, None, 90), (2.0, 120, 90), (3.0, 120, 108)]}
    runs = runs_of([row(status="feasible", duration=120, duration_bound=108)], trace)
    steps = gap_steps(runs, runs.runs.iloc[0])
    assert list(steps.starts) == [0, 1, 2, 3]
    assert list(steps.values) == pytest.approx([100, 100, 25, 10])
    assert final_gaps(runs).loc[0, "m"] == pytest.approx(10)


def test_a_trace_of_energies_is_no_curve_of_durations():
    trace = {"m/g/0.9/1": [(1.0, 900, 400), (2.0, 800, 600)]}
    energy = {"objective": "energy", "value": 800, "bound": 600, "duration_bound": None, "gap_percent": 25.0}
    runs = runs_of([row(status="feasible", seconds=3.0, duration=120, **energy)], trace)
    run = runs.runs.iloc[0]
    assert list(durations(runs, run).values) == [120] and len(bounds(runs, run).values) == 0
    assert gap_steps(runs, run).values[-1] == final_gaps(runs).loc[0, "m"] == 25


def test_a_run_without_a_bound_yet_has_none():
    trace = {"m/g/0.9/1": [(1.0, None, 102)], "m/g/0.9/2": [(2.0, None, 104)], "m/g/0.9/3": [(3.0, None, 106)]}
    rows = [row(seed=seed, status="unknown", duration=None) for seed in (1, 2, 3)]
    runs = runs_of(rows, trace)
    curve = median_curve([bounds(runs, run) for _, run in runs.runs.iterrows()])
    assert list(curve.median) == [-math.inf, 102, 104]


def progress(final, first=None, bound=None, first_bound=0.0):
    """A line of a method that goes from `first` to `final`."""
    values = np.array([final if first is None else first, final])
    proven = None if bound is None else np.array([first_bound, bound])
    curves = [None if of is None else Curve(np.array([1.0, 2.0]), of, of, of) for of in (values, proven)]
    return ProgressLine(marks_for(["m"])["m"], *curves, 2.0)


@pytest.mark.parametrize(
    ("lines", "least", "most"),
    [
        ([progress(12.30, bound=12.30), progress(12.35), progress(12.9)], (11.5, 12.3), (12.9, 13.5)),
        ([progress(12.3, 30, 12.3), progress(12.8, 90)], (11.5, 12.3), (12.8, 13.5)),  # differences matter most
        ([progress(12.3, 18, 12.3), progress(12.3, 90)], (-2, 0), (18, 22)),  # there are none: all of the way
        ([progress(0.03, bound=0.03), progress(0.1), progress(4.5)], (-0.1, 0), (0.1, 0.2)),
        ([progress(0.0, bound=0.0)], (-0.01, 0), (0.001, 0.1)),
    ],
)
def test_progress_axes_show_how_good_methods_differ(lines, least, most):
    low, high = progress_range(lines, [])
    assert least[0] <= low <= least[1] and most[0] <= high <= most[1]


def test_shares_count_problems_without_a_schedule():
    shares = shares_within(pd.Series([0.0, 100.0, 5.0, math.nan]))
    assert (list(shares.starts), list(shares.values)) == ([0, 5], pytest.approx([1 / 3, 2 / 3]))


def test_growth_is_found_again():
    nodes = [10, 20, 50, 100]
    law = fit(nodes, [0.1 * n**1.5 for n in nodes])
    assert (law.exponent, law.factor) == pytest.approx((1.5, 0.1))
    assert law.at(np.array([40])) == pytest.approx(0.1 * 40**1.5)
    assert fit([10, 20, 20], [1, 2, 3]) is None


def test_marks_differ_for_every_method():
    methods = [f"m{k}" for k in range(25)]
    marks = marks_for(methods)
    assert len({(mark.color, mark.dashes, mark.marker) for mark in marks.values()}) == len(methods)
    assert len({mark.color for mark in list(marks.values())[: len(COLORS)]}) == len(COLORS)
    assert marks_for(methods) == marks
