"""Methods compared with a baseline: ratios, counts and intervals against numbers worked out by hand and laws."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_frames import LIMIT, frames, row, runs_of

from moccasin_mzn.bench.report.ablation import LEAST_PROBLEMS, Ratio, comparisons
from moccasin_mzn.bench.report.runs import read_runs
from moccasin_mzn.bench.report.sections import document


def pair(graph, seconds, before, seed=1, **more):
    """Runs of a method and its baseline that end with a proof after so many seconds; None: they do not."""
    return [
        row(method, graph, seed=seed, baseline=baseline, **(_ending(took) | more))
        for method, baseline, took in (("-cover", "all", seconds), ("all", None, before))
    ]


def _ending(seconds):
    if seconds is not None:
        return {"seconds": seconds}
    return {"seconds": LIMIT, "status": "feasible", "duration": 110}


def compared(*pairs):
    (one,) = comparisons(runs_of([run for some in pairs for run in some]))
    return one


def test_ratios_by_hand():
    one = compared(pair("a", 4.0, 1.0), pair("b", None, 5.0), pair("c", 1.0, 1.05), pair("d", 0.01, 0.04))
    assert (one.method, one.baseline, one.pairs, one.proven, one.proven_before) == ("-cover", "all", 4, 3, 4)
    # no proof: twice the limit; below 0.05 s all are alike
    assert one.seconds.mean == pytest.approx((4 * (2 * LIMIT / 5) * (1 / 1.05) * 1) ** (1 / 4))
    assert one.seconds.interval is None and one.sign == 0  # of four problems
    assert (one.better, one.ties, one.worse) == (0, 2, 2)
    assert one.durations.mean == 1 and one.gap == pytest.approx(100 * (1 - 100 / 110))


def test_pairs_without_any_proof_have_no_ratio_of_times():
    shorter = pair("a", None, None)
    shorter[0] |= {"duration": 104, "gap_percent": 1.0}
    smaller_gap = pair("b", None, None)
    smaller_gap[0] |= {"gap_percent": 1.0}
    nothing = pair("c", None, None)
    nothing[1] |= {"duration": None, "valid": False, "gap_percent": None, "status": "unknown"}
    one = compared(shorter, smaller_gap, nothing, pair("d", None, None))
    assert one.seconds is None and one.sign == 0
    assert (one.better, one.ties, one.worse) == (3, 1, 0)
    assert one.durations.mean == pytest.approx((104 / 110) ** (1 / 3))
    assert one.gap == pytest.approx(((1 - 100 / 11) * 2 + (100 / 11 - 100)) / 4)


def test_only_the_same_problem_and_seed_is_a_pair_and_two_failures_are_none():
    runs = [row("-cover", "a", seed=1, baseline="all"), row("all", "a", seed=2), row("-cover", "b", baseline="all")]
    assert comparisons(runs_of(runs)) == ()
    failed = {"status": "error", "duration": None, "valid": False}
    assert comparisons(runs_of(pair("a", 1.0, 1.0, **failed))) == ()
    assert compared(pair("a", 1.0, 1.0, **failed), pair("a", 3.0, 1.0, seed=2)).seconds.mean == pytest.approx(3)
    assert compared(pair("a", 1.0, 2.0, seed=None)).pairs == 1  # of strategies


def test_experiments_without_a_baseline_have_no_ablation():
    assert comparisons(runs_of([row("a"), row("b")])) == ()
    assert comparisons(runs_of([row("a", baseline="not run yet"), row("b")])) == ()


def test_a_difference_is_shown_where_the_interval_leaves_out_1():
    slower = compared(*(pair(f"g{k}", 2.0 + 0.1 * k, 1.0) for k in range(LEAST_PROBLEMS)))
    low, high = slower.seconds.interval
    assert 1 < 2 <= low <= slower.seconds.mean <= high <= 2.4 and slower.sign == 1
    faster = compared(*(pair(f"g{k}", 1.0, 2.0 + 0.1 * k) for k in range(LEAST_PROBLEMS)))
    assert faster.seconds.interval == pytest.approx((1 / high, 1 / low)) and faster.sign == -1
    torn = compared(*(pair(f"g{k}", (4.0, 0.25)[k % 2], 1.0) for k in range(2 * LEAST_PROBLEMS)))
    assert torn.seconds.mean == pytest.approx(1) and torn.sign == 0


LOGARITHMS = st.lists(st.tuples(st.integers(0, 7), st.floats(-5, 5)), min_size=1, max_size=30)


@given(LOGARITHMS)
def test_laws_of_ratios(told):
    ratios = pd.Series([math.exp(value) for _, value in told], index=[problem for problem, _ in told])
    one, turned = Ratio.of(ratios), Ratio.of(1 / ratios)
    assert one.mean * turned.mean == pytest.approx(1)
    assert Ratio.of(ratios.iloc[::-1]).mean == pytest.approx(one.mean)
    assert (one.interval is None) == (len({problem for problem, _ in told}) < LEAST_PROBLEMS)
    if one.interval:
        low, high = one.interval
        assert min(ratios) <= low * (1 + 1e-9) and low <= high and high <= max(ratios) * (1 + 1e-9)


def test_seeds_of_one_problem_do_not_make_the_interval_narrow():
    apart = pd.Series([2.0, 0.5] * 5, index=range(10))
    again = pd.concat([apart] * 20)
    assert Ratio.of(again).interval == pytest.approx(Ratio.of(apart).interval)


def test_the_section_has_a_row_for_each_method_and_a_sentence_for_each_baseline():
    runs = [run for k in range(LEAST_PROBLEMS) for run in pair(f"g{k}", 3.0, 1.0)]
    runs += [row("none", f"g{k}", seconds=1.0, baseline="all") for k in range(LEAST_PROBLEMS)]
    runs += [row("dtr", "g0", strategy="dtr", formulation=None, seed=None)]
    (section,) = [one for one in document(read_runs(*frames(runs))).sections if one.name == "ablation"]
    told = "slower to the proof are -cover (3.00); no difference is shown for none."
    assert section.paragraphs == (f"Compared with all, with 95\u00a0% confidence: {told}",)
    (group,) = section.blocks[0].groups
    assert group.title == "compared with all" and [line[0].text for line in group.rows] == ["-cover", "none"]
    assert group.rows[0][4].text == "3.00 [3.00\u00a0to\u00a03.00]" and group.rows[0][4].strong
    assert not any(one.name == "ablation" for one in document(read_runs(*frames([row("a"), row("b")]))).sections)
