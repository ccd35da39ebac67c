"""`general` and a free order find what `staged` finds: all that it does is done for them as well."""

import random
import time

import pytest
from solving import solve

import moccasin_mzn.search.searchers.any_order as search_module
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.free_order.search import OrderAnnealing
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import searchers
from moccasin_mzn.search.searchers.along import _left_behind

OTHERS = {"general": {"formulation": "general"}, "free": {"order": "free"}}


def draw(seed, least=6, most=40):
    """A random graph, a chain with skips, and a budget between the least that may be feasible and the peak."""
    rng = random.Random(seed)
    n = rng.randint(least, most)
    reach = rng.choice([4, 8, n])
    edges = sorted(
        (u, v)
        for v in range(1, n)
        for u in range(max(0, v - reach), v)
        if rng.random() < (0.8 if u == v - 1 else rng.choice([0.1, 0.25]))
    )
    amounts = [rng.randint(0, 20) for _ in range(n)], [rng.randint(1, 20) for _ in range(n)]
    graph = ComputationGraph(range(n), *amounts, edges, order=tuple(range(n)))
    low, high = least_budget_bound(graph).memory, simulate(graph, graph.order).peak
    return draw(seed + 10**6, least, most) if high - low < 3 else (graph, rng.randint(low, high - 1))


def gap_of(staged):
    """Ends the search of another kind as soon as it has as short a schedule."""
    baseline = staged.instance.baseline.duration
    return (staged.duration - baseline) / staged.duration


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", [58, 81, 82, 96])
def test_tight_budgets_at_which_only_the_bounds_of_stages_find_a_schedule(seed, kind):
    graph, budget = draw(seed)
    staged = solve(graph, budget, search="only", time_limit=60)
    assert staged.status == "optimal"
    other = solve(graph, budget, search="only", time_limit=60, until_gap=gap_of(staged), **OTHERS[kind])
    assert other.found and other.duration <= staged.duration
    assert other.bound <= bound_of_any_order(other)  # that of stages is none here


def bound_of_any_order(result):
    """That of flow covers, until it is as good as a result's."""
    found = [0]
    instance = result.instance
    found.append(FreeOrderBound.of(instance.graph).improve(
        instance.budget, time_limit=60, on_bound=lambda bound, _: found.append(bound),
        stop=lambda: found[-1] >= result.bound, incumbent=lambda: result.duration, most=instance.max_computations,
    ))  # fmt: skip
    return max(found)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_the_bounds_of_stages_find_is_taken(kind, monkeypatch):
    """Nobody else finds anything here."""
    monkeypatch.setattr(LocalSearch, "run", lambda *arguments, **options: None)
    monkeypatch.setattr(OrderAnnealing, "run", lambda *arguments, **options: None)
    monkeypatch.setattr(search_module, "starts", lambda *arguments: iter(()))
    graph, budget = draw(58)
    staged = solve(graph, budget, search="only", time_limit=20)
    other = solve(graph, budget, search="only", time_limit=20, until_gap=gap_of(staged), if_none="stop", **OTHERS[kind])
    assert (staged.status, other.duration) == ("optimal", staged.duration)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_free_order_is_never_worse_than_staged(seed):
    graph, budget = draw(1000 + seed, most=28)
    staged = solve(graph, budget, threads=1, time_limit=3)
    if not staged.found:
        return
    for kind in OTHERS.values():  # with time enough for a busy machine: all end as soon as they are as good
        other = solve(graph, budget, threads=1, time_limit=30, until_gap=gap_of(staged), **kind)
        assert other.found and other.duration <= staged.duration


@pytest.mark.parametrize("kind", OTHERS)
def test_a_time_limit_that_is_over_before_the_search_begins(kind):
    graph, budget = draw(96)
    assert solve(graph, budget, search="only", time_limit=1e-6, **OTHERS[kind]).status == "unknown"


def test_the_search_along_the_input_order_goes_on_unless_it_is_left_behind():
    graph, budget = draw(96)
    instance = Instance.build(graph, budget, order="free")
    options = Options(search="only", time_limit=10)
    search = Runner(board=Board(instance, time.monotonic()), options=options, form=options.form, searchers=searchers())
    schedule = solve(graph, budget, search="only", time_limit=60).sequence
    staged = Instance.build(graph, budget)
    early, late = Board(staged, time.monotonic()), Board(staged, time.monotonic() - 9)
    assert not _left_behind(search, late)  # nobody has a schedule
    search.board.offer(schedule, "test")
    assert _left_behind(search, late) and not _left_behind(search, early)
    late.offer(schedule, "test")
    assert not _left_behind(search, late)
