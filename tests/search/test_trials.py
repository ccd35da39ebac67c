"""Where no schedule is found: how near the search came, what is proven, and what would help."""

import json
import math
import random
import threading
import time

import oracle
import pytest
from cases import draw_case
from few import few
from solving import solve

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.least_budget import enough_budget, retained_bound
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.searchers.given_order import Local, RelaxationSearcher
from moccasin_mzn.search.trials import Trials

# x is read by a, b and z, and has to leave while the wide A and B are there: computed three times it fits 9, else 13.
#
#     x(4) -> a(1) -> A(8) -> p(1) -> b(1) -> B(8) -> q(1) -> z(1)       b and z read x as well
THRICE = ComputationGraph(
    ("x", "a", "A", "p", "b", "B", "q", "z"), (2, 1, 1, 1, 1, 1, 1, 1), (4, 1, 8, 1, 1, 8, 1, 1),
    ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5), (5, 6), (6, 7), (0, 7)),
)  # fmt: skip
# A and B take 10 together; each may be computed once only, so that it takes another order to avoid that.
WIDE = ComputationGraph(
    ("A", "B", "a", "b", "z"), (3,) * 5, (5, 5, 1, 1, 1), ((0, 2), (1, 3), (2, 4), (3, 4)), order=(0, 1, 2, 3, 4)
)
ONCE = [1, 1, 2, 2, 2]


def helps(result):
    return [(one.option, one.outcome) for one in result.shortfall.helps]


def test_the_graph_takes_three_computations():
    """By brute force, since what follows rests on it."""
    order = THRICE.input_order()
    assert [oracle.best_free_order(THRICE, 10, most) for most in (1, 2)] == [None, None]
    assert [oracle.best_fixed_order(THRICE, order, 10, most) for most in (2, 3)] == [None, 13]


@pytest.mark.full
@pytest.mark.parametrize(
    "options", few([{}, {"formulation": "general"}, {"order": "free"}, {"solver": "cp-sat,gecode"}], keep=2)
)
def test_more_computations_are_the_answer_where_none_were_named(options):
    heard = []
    result = solve(THRICE, 10, time_limit=60, threads=1, on_progress=heard.append, **options)
    assert result.valid and judge(THRICE, result.sequence, 10).feasible
    assert result.duration == 13 and result.sequence.count(0) == 3
    assert result.instance.counts == 8 and result.instance.free_order == (options.get("order") == "free")
    before, _, after = result.reason.partition("; with at most 8 there is this one: ")
    assert "at most 2 computations per node" in before and after
    assert (result.shortfall.status, result.shortfall.instance.counts) == ("infeasible", 2)
    assert helps(result) == [("--max-computations auto", "found")]
    told = [progress for progress in heard if progress.phase == "more"]
    assert all(progress.peak <= 10 and progress.value is progress.answer is None for progress in told)
    assert [point.seconds for point in result.trace] == sorted(point.seconds for point in result.trace)


@pytest.mark.full
def test_within_the_time_limit_more_computations_are_tried_beside_the_search(monkeypatch):
    monkeypatch.setattr(RelaxationSearcher, "search", lambda self, runner: None)  # so that nothing is proven
    result = solve(THRICE, 10, search="only", time_limit=3)
    assert (result.status, result.duration, result.instance.counts) == ("feasible", 13, 8)
    assert result.reason == (
        "with at most 2 computations per node no schedule was found within the time limit; "
        "with at most 8 there is this one: no proof was found in the time that was left"
    )
    assert result.trace[0].seconds > 0.75 * 3 and result.seconds.total >= 3
    named = solve(THRICE, 10, search="only", time_limit=3, max_computations=2)
    assert (named.status, named.found, helps(named)[0]) == ("unknown", False, ("--max-computations auto", "found"))


# As THRICE with as many wide outputs as are needed for x to be computed more than 8 times.
OFTEN = ComputationGraph(
    ("x", *(f"{name}{k}" for k in range(10) for name in "aAp"), "z"), (1,) * 32, (4, *(1, 8, 1) * 10, 1),
    (
        *((v, v + 1) for v in range(31)), *((0, 3 * k + 1) for k in range(1, 10)), (0, 31),
    ),
)  # fmt: skip


def test_what_is_enough_with_any_number_of_computations_is_found():
    """By construction, with more than 8 computations where fewer are not enough."""
    assert enough_budget(OFTEN) <= 10 and simulate(OFTEN, OFTEN.input_order()).peak == 13
    result = solve(OFTEN, 10, time_limit=60)
    assert result.valid and result.instance.max_computations[0] == result.sequence.count(0) == 11
    assert "; with at most 11 there is this one: " in result.reason
    assert helps(result) == [("--max-computations 11", "found")]
    named = solve(OFTEN, 10, time_limit=60, max_computations=2)
    assert not named.found and helps(named)[0] == ("--max-computations 11", "found")


def test_where_searches_find_no_schedule_one_is_constructed(monkeypatch):
    for searcher in (Local, RelaxationSearcher):
        monkeypatch.setattr(searcher, "search", lambda self, runner: None)
    result = solve(THRICE, 10, search="only", time_limit=20, max_computations=3)
    assert (result.status, result.duration, result.found_by) == ("feasible", 13, "construction")
    assert result.seconds.total < 10


def test_trials_of_a_given_count_only_report_what_would_help():
    result = solve(THRICE, 10, max_computations=2, time_limit=60)
    assert (result.status, result.found, result.instance.counts) == ("infeasible", False, 2)
    help_ = result.shortfall.helps[0]
    assert (help_.option, help_.outcome, help_.duration) == ("--max-computations auto", "found", 13)
    assert judge(THRICE, help_.sequence, 10).feasible
    assert help_.tdi_percent == pytest.approx(100 * (13 / 9 - 1))


def test_trials_do_not_run_with_stop_or_a_model_alone():
    for options in ({"if_none": "stop"}, {"search": "off"}):
        result = solve(THRICE, 10, time_limit=60, **options)
        assert (result.status, result.instance.counts) == ("infeasible", 2)
        assert {outcome for _, outcome in helps(result)} == {"not tried"}
        assert helps(result)[0][0] == "--max-computations auto"


def test_trials_report_another_order_and_never_answer_with_it():
    result = solve(WIDE, 8, max_computations=ONCE, time_limit=60)
    assert (result.status, result.found) == ("infeasible", False)
    count = "--max-computations FILE with 8 where it allows 2 or more"
    assert helps(result)[:2] == [(count, "none there"), ("--order free", "found")]  # without more computations
    free = result.shortfall.helps[1]
    assert free.peak <= 8 and free.tdi_percent == 0
    assert [option for option, _ in helps(result)[2:]] == ["--paging --page-out-time X"]


def test_counts_of_their_own_are_raised_only_where_a_node_may_be_recomputed():
    asked = Instance.build(THRICE, 10, max_computations=[2, 1, 2, 1, 1, 1, 1, 1])
    assert asked.with_more_computations().max_computations == (8, 1, 8, 1, 1, 1, 1, 1)
    assert Instance.build(THRICE, 10, max_computations=1).with_more_computations().counts == 8
    assert Instance.build(THRICE, 10, max_computations=8).with_more_computations() is None
    result = solve(THRICE, 10, max_computations=[2, 1, 1, 1, 1, 1, 1, 1], time_limit=60)
    assert helps(result)[0] == ("--max-computations FILE with 8 where it allows 2 or more", "found")


def test_what_no_order_fits_leaves_nothing_to_try():
    result = solve(THRICE, 8, time_limit=60)
    assert (result.status, helps(result)) == ("infeasible", [])
    assert (result.shortfall.floor, result.shortfall.scope_floor) == (9, 9)
    assert result.shortfall.least_peak == simulate(THRICE, THRICE.input_order()).peak
    with_time = solve(THRICE, 10, max_computations=2, search="only", time_limit=0.001)
    assert with_time.status == "unknown" and helps(with_time)[-1] == ("--time-limit 0.002", "not tried")


def hard_graph():
    """With C = 2 nothing in the input order fits 48 % of its peak; the working set of no node is 30 % of it."""
    draw = random.Random(5)
    n = 60
    edges = sorted({(u, v) for v in range(1, n) for u in draw.sample(range(max(0, v - 30), v), min(v, 2))})
    amounts = [[draw.randint(1, 99) for _ in range(n)] for _ in range(2)]
    return ComputationGraph(tuple(range(n)), tuple(amounts[0]), tuple(amounts[1]), tuple(edges), tuple(range(n)))


@pytest.mark.few(1)
@pytest.mark.parametrize(("order", "budget"), [("input", "45%"), ("free", "30%")])
def test_the_least_peak_seen_is_that_of_the_search(order, budget, monkeypatch):
    monkeypatch.setattr(RelaxationSearcher, "search", lambda self, runner: None)  # so that nothing is proven
    graph, heard = hard_graph(), []
    result = solve(
        graph, budget, order=order, max_computations=2, search="only", time_limit=1, on_progress=heard.append
    )
    lacking = result.shortfall
    assert result.status == "unknown" and not result.found
    peaks = [progress.peak for progress in heard]
    assert peaks == sorted(set(peaks), reverse=True) and peaks[-1] == lacking.least_peak
    assert lacking.scope_floor <= result.instance.budget < lacking.least_peak < result.instance.baseline.peak
    assert lacking.of_budget(lacking.least_peak) == lacking.least_peak / result.instance.budget > 1


@pytest.mark.parametrize("seed", range(12))
def test_the_floor_of_an_order_is_below_what_brute_force_fits(seed):
    case = draw_case(3000 + seed, 5)
    graph, order = case.graph, case.graph.input_order()
    most = [random.Random(seed).choice([1, 1, 2]) for _ in graph.nodes]
    peak = simulate(graph, order).peak
    floor = retained_bound(Instance.build(graph, peak, order=order, max_computations=most))
    least = min(
        (b for b in range(peak + 1) if oracle.best_fixed_order(graph, order, b, most) is not None), default=peak
    )
    assert graph.largest_working_set().memory <= floor <= least
    assert retained_bound(Instance.build(graph, peak, order=order, max_computations=1)) == peak


def test_the_first_phase_proves_the_floor_of_its_scope():
    result = solve(THRICE, 10, max_computations=1, search="off", time_limit=60, two_phase=True)
    assert (result.status, result.shortfall.least_peak, result.shortfall.scope_floor) == ("infeasible", 13, 13)


def test_trials_have_the_last_part_of_the_time_and_end_with_the_search():
    instance = Instance.build(THRICE, 10)
    record = Board(instance, time.monotonic())
    trials = Trials(record, Options(time_limit=100, if_none="more"))
    assert not trials._due() and trials.deadline == math.inf
    record.begin -= 76
    assert trials._due() and trials.deadline == 100
    hint = Trials(record, Options(time_limit=100, if_none="hint"))
    assert not hint._due()
    record.begin -= 15
    assert hint._due()
    endless = Trials(Board(instance, time.monotonic() - 61), Options(if_none="hint"))
    assert endless._due() and endless.deadline > 61
    with Trials(Board(instance, time.monotonic()), Options(if_none="more")) as idle:
        assert idle._thread.is_alive()
    assert not idle._thread.is_alive() and idle.helps == []
    assert not [thread for thread in threading.enumerate() if thread.name == "trials"]


def test_a_schedule_found_meanwhile_ends_the_trials():
    record = Board(Instance.build(THRICE, 10, max_computations=3), time.monotonic())
    trials = Trials(record, Options(if_none="more", time_limit=60), deadline=60.0)
    assert not trials._over()
    record.offer((0, 1, 2, 3, 0, 4, 5, 6, 0, 7), "test")
    assert trials._over()


def test_solve_command_tries_more_computations(command, tmp_path):
    path = tmp_path / "thrice.json"
    write_graph(THRICE, path)
    ask = ("solve", path, "--budget", 10, "--time-limit", 60)
    status, out, err = command(*ask, "--json")
    told = json.loads(out)
    assert (status, told["valid"], told["max_computations"], told["duration"]) == (0, True, 8, 13)
    assert (told["shortfall"]["max_computations"], told["shortfall"]["status"]) == (2, "infeasible")
    status, out, err = command(*ask, "--json", "--max-computations", 2)
    told = json.loads(out)
    assert (status, told["valid"], told["sequence"]) == (1, False, None)
    lacking = told["shortfall"]
    assert lacking["helps"][0]["outcome"] == "found" and lacking["helps"][0]["sequence"].count("x") == 3
    assert lacking["scope_floor"] >= 11 > lacking["floor"] and lacking["least_peak_of_budget"] > 1
    assert "tried: --max-computations auto: a schedule with TDI 44.444 %" in err
    assert err.endswith(Page.INFEASIBLE.after(f"no schedule: {told['reason']}") + "\n")
    status, out, err = command(*ask, "--max-computations", 2)
    for text in ("least peak seen", "proven to be needed", "tried: --max-computations auto: a schedule with TDI 44.4"):
        assert text in out
    status, out, err = command(*ask)
    assert status == 0 and "computations per node, at most" in out and "tried: --max-computations auto" in out


def test_a_strategy_over_the_budget_reports_how_far(command, tmp_path):
    path = tmp_path / "thrice.json"
    write_graph(THRICE, path)
    status, out, _ = command("solve", path, "--budget", 10, "--strategy", "keep-all", "--json")
    lacking = json.loads(out)["shortfall"]
    assert (status, lacking["status"], lacking["least_peak"], lacking["floor"]) == (1, "over-budget", 13, 9)
    assert lacking["helps"][0]["option"] == "--formulation staged"


def test_if_none_rejects_unknown_words(command, tmp_path):
    with pytest.raises(InputError, match="if none 'maybe': expected one of more, hint, stop"):
        solve(THRICE, 10, if_none="maybe")
    path = tmp_path / "thrice.json"
    write_graph(THRICE, path)
    status, out, err = command("solve", path, "--budget", 10, "--strategy", "keep-all", "--if-none", "stop")
    assert (status, out) == (2, "") and "--if-none is for models" in err
