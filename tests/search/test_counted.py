"""Searches that count their work: the same result for the same seed, whatever else the machine does."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import subprocess
import sys

import pytest
from few import few
from tiny_graphs import graph_of

import moccasin_mzn as mz
from moccasin_mzn.cli.main import run
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.problem.judges.schedules import judge

U_SHAPE = graph_of([1] * 6, [2] * 6, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)])


def spin() -> None:
    while True:
        sum(range(10_000))


@contextlib.contextmanager
def load(processes: int):
    """Processes that keep the cores busy."""
    busy = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(processes)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def answered(graph, budget, count, **given):
    result = mz.solve(graph, budget, stop=mz.stop.Iterations(count), threads=1, **given)
    return result.status, result.positions, result.duration, result.bound, result.reason, result.found_by


CASES = [
    (nodes, order, count)
    for nodes, count in [(40, 100_000), (100, 20_000), (40, 500_000), (400, 200_000)]
    for order in ("input", "free")
]


@pytest.mark.parametrize(("nodes", "order", "count"), few(CASES, keep=CASES[:4]))
@pytest.mark.few(1)
def test_the_same_seed_gives_the_same_result_on_a_busy_machine(nodes, order, count):
    graph = random_layered(nodes, nodes)
    first = answered(graph, 0.8, count, order=order, seed=5)
    with load(2):
        assert answered(graph, 0.8, count, order=order, seed=5) == first
    simulation = judge(graph, first[1], mz.Budget.of(0.8).resolve(judge(graph, graph.input_order(), 2**60).peak))
    assert simulation.feasible and simulation.duration == first[2] >= first[3]


@pytest.mark.full
def test_another_process_gives_the_same_result():
    """Where hashes of texts, and so the order of sets, differ."""
    code = """
import moccasin_mzn as mz
from moccasin_mzn.graphs.generators.random_layered import random_layered
result = mz.solve(random_layered(80, 1), 0.75, stop=mz.stop.Iterations(30_000), seed=1)
print(result.duration, result.bound, *result.positions)
"""
    here = mz.solve(random_layered(80, 1), 0.75, stop=mz.stop.Iterations(30_000), seed=1)
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert list(map(int, there)) == [here.duration, here.bound, *here.positions]


def test_seeds_differ_and_more_iterations_are_no_worse():
    graph = random_layered(100, 3)
    few_moves = [answered(graph, 0.8, 20_000, seed=seed) for seed in range(3)]
    assert len({one[1] for one in few_moves}) > 1
    assert answered(graph, 0.8, 100_000, seed=0)[2] <= few_moves[0][2]


@pytest.mark.parametrize("order", ["input", "free"])
@pytest.mark.parametrize("budget", [6, 7])
def test_what_it_proves_is_true(order, budget):
    """By brute force: the bound is no more than the optimum, and what is optimal is that."""
    status, positions, duration, bound, _, _ = answered(U_SHAPE, budget, 50_000, order=order)
    best = mz.solve(U_SHAPE, budget, order=order)
    assert best.status == "optimal" and bound <= best.duration <= duration
    assert judge(U_SHAPE, positions, budget).feasible
    assert status != "optimal" or duration == best.duration


def test_an_infeasible_budget_is_proven_or_not_answered():
    graph = random_layered(30, 3)
    least = mz.frontier(graph, points=2, time_limit=4, search="only").details.least_bound
    assert answered(graph, least - 1, 10_000)[0] in ("infeasible", "unknown")


def test_the_reason_names_the_iterations():
    result = mz.solve(random_layered(100, 3), 0.8, stop=mz.stop.Iterations(20_000))
    assert result.status == "feasible" and result.reason == "no proof was found within 20,000 iterations"


def test_the_same_warm_start_gives_the_same_result():
    graph = random_layered(60, 1)
    start = mz.solve(graph, 0.8, stop=mz.stop.Iterations(100_000), seed=7)
    one, other = (answered(graph, 0.8, 50_000, warm_start=start, seed=1) for _ in range(2))
    assert one == other and one[2] <= start.duration


def test_a_caller_ends_it_before():
    result = mz.solve(
        random_layered(100, 3), 0.8, stop=mz.stop.Iterations(10**12), on_progress=lambda one: one.value is not None
    )
    assert result.valid and result.details.notes[-1] == "stopped by on_progress"


def test_the_command_line_counts_too(tmp_path, capsys):
    file, graph = tmp_path / "graph.json", random_layered(40, 40)
    mz.write_graph(graph, file)
    words = ["solve", str(file), "--budget", "0.8", "--iterations", "50000", "--seed", "5", "--json"]
    reported = []
    for _ in range(2):
        assert run(words) == 0
        reported.append(json.loads(capsys.readouterr().out))
    assert (
        reported[0]["sequence"] == reported[1]["sequence"]
        and reported[0]["duration_bound"] == reported[1]["duration_bound"]
    )
    assert answered(graph, 0.8, 50_000, seed=5)[2:4] == (reported[0]["duration"], reported[0]["duration_bound"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threads": 2}, "iterations: threads race by the clock, 2 of them give another result every time: threads 1"),
        ({"solver": "cp-sat,highs"}, "iterations with several solvers: solvers race by the clock"),
        ({"solver": "gecode"}, "iterations: no model is solved then, leave out solver gecode"),
        ({"search": "off"}, "iterations: search off leaves only a model, whose solver goes by the clock"),
        (
            {"formulation": "general"},
            "iterations: they are for the local search and bounds of the formulation",
        ),
        (
            {"formulation": "checkmate-milp"},
            "iterations: they are for the local search and bounds of the formulation",
        ),
        ({"if_none": "more"}, "iterations: if none more tries other problems by the clock: stop"),
        ({"tile": "auto"}, "iterations: tile auto tries parts by the clock: give rows such as 4, or 4x16"),
        ({"tile": "auto", "budget": "least"}, "iterations: tile auto tries parts by the clock"),
        ({"tile": "auto", "paging": {"out_time": 1}}, "iterations: tile auto tries parts by the clock"),
    ],
    ids=str,
)
def test_what_cannot_be_counted_is_refused_in_one_sentence(given, message):
    with pytest.raises(mz.InputError) as refused:
        mz.solve(U_SHAPE, **{"budget": 6, **given}, stop=mz.stop.Iterations(1000))
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


@pytest.mark.parametrize("nodes", [30, 60])
def test_orders_are_counted_in_turns(nodes):
    graph = random_layered(nodes, nodes)

    def found():
        result = mz.order(graph, stop=mz.stop.Iterations(8), seed=3)
        return result.positions, result.peak, result.bound

    first = found()
    with load(2):
        assert found() == first
    assert judge(graph, first[0], first[1]).feasible and first[2] <= first[1]
