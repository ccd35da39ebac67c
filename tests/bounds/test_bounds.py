"""The lower bound on durations: never above brute force or a proven optimum, anytime, and stoppable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import oracle
import pytest
from cases import Case, draw_case
from few import few

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.first_stages import first_stages, relax
from moccasin_mzn.bounds.input_order import Alongside, duration_bound
from moccasin_mzn.bounds.instant import cover_bound, moment_bound, moments_bounds
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.stages import Stages, highest_maxima
from moccasin_mzn.solvers.cpsat.branching import Branched, branch
from moccasin_mzn.solvers.program import Program

DATA = Path(__file__).resolve().parents[2] / "data"
GRAPHS = {
    "G1": "random_layered_n100",
    "G2": "random_layered_n250",
    "G3": "random_layered_n500",
    "G4": "random_layered_n1000",
    "CM1": "checkmate_fcn8_train",
    "CM2": "checkmate_resnet50_train",
}
OPTIMAL_TDI = {("G1", "0.9"): 0.789, ("G1", "0.8"): 2.296, ("G2", "0.9"): 0.904, ("CM1", "0.9"): 0.0294,
               ("CM1", "0.8"): 0.1361, ("CM2", "0.9"): 0.1085, ("CM2", "0.8"): 0.2786}  # fmt: skip
"""Percent, proven for two computations with the exact staged model."""


def least_duration(graph: ComputationGraph, order: tuple[int, ...], budget: int, most: int) -> int | None:
    """By brute force, where only first computations keep the order: Dijkstra over states and how many are done."""
    rules = oracle._Rules(graph, budget, most)
    heap, done, tie = [(0, 0, rules.start, 0)], set(), 0
    while heap:
        extra, _, state, firsts = heappop(heap)
        if firsts == len(order):
            return extra + graph.total_duration
        if (state, firsts) in done:
            continue
        done.add((state, firsts))
        for v in order[: firsts + 1]:
            first = v == order[firsts]
            for after in rules.compute(state, v):
                tie += 1
                heappush(heap, (extra + (0 if first else graph.durations[v]), tie, after, firsts + first))
    return None


def check_against_brute_force(case: Case, most: int, seed: int) -> bool:
    """True if the bound is exact."""
    graph, order = case.graph, case.graph.input_order()
    instance = Instance.build(graph, case.budget, max_computations=most)
    best = least_duration(graph, order, case.budget, most)
    found = duration_bound(instance, time_limit=20)
    if best is None:
        assert found.sequence is None
        return found.infeasible
    assert not found.infeasible and found.value <= best
    if found.sequence is not None:
        assert judge(graph, found.sequence, case.budget).feasible
        assert max(map(found.sequence.count, found.sequence)) <= most
    assert found.value == best or found.reason == "exhausted"
    check_any_relaxation(Stages.of(instance), best, seed)
    check_moments(instance, best)
    return found.value == best


def check_moments(instance: Instance, best: int) -> None:
    """At every stage over the budget: never above `best`."""
    arrays = graph_arrays(instance.graph, instance.order)
    for k, memory in enumerate(instance.baseline.memory):
        if memory > instance.budget:
            assert instance.baseline.duration + moment_bound(instance, arrays, k) <= best
    if instance.baseline.peak > instance.budget:
        assert instance.baseline.duration + max(moments_bounds(instance, arrays), default=0) <= best


def check_any_relaxation(stages: Stages, best: int, seed: int) -> None:
    """All stages and moments, and some of them: never above `best`."""
    rng = random.Random(seed)
    every = range(stages.n)
    assert cover_bound(stages) <= best // stages.duration_scale - stages.baseline
    for chosen in (every, sorted(rng.sample(every, rng.randint(1, stages.n)))):
        watched = [(v, k) for v in every for k in every if rng.random() < 0.5]
        relaxation = Relaxation.of(stages, chosen, every if rng.random() < 0.5 else (), watched)
        assert least_of(relaxation) <= best
        check_halves(relaxation)
    first_stages(stages, Deadline(10), lambda: False, lambda bound, of: check_bound(bound, of, best))


def check_halves(relaxation: Relaxation) -> None:
    """The linear relaxation has a bound that its solution nearly attains, and that no solution in wholes is below."""
    halves, whole = relax(relaxation, 10), solved(relaxation)
    assert halves is not None
    cost = float(halves.values @ np.array(relaxation.cost, float))
    assert halves.bound <= whole.bound
    assert halves.bound >= cost * (1 - 1e-6) - 1e-6


def check_bound(bound: int, relaxation: Relaxation, best: int) -> None:
    stages = relaxation.stages
    assert bound <= solved(relaxation).bound
    assert (stages.baseline + bound) * stages.duration_scale <= best


def least_of(relaxation: Relaxation) -> int:
    """The bound that it proves."""
    found = solved(relaxation)
    assert not found.infeasible
    return (relaxation.stages.baseline + found.bound) * relaxation.stages.duration_scale


def solved(relaxation: Relaxation, on_bound: Callable[[int], None] = lambda _: None) -> Branched:
    """To the end, or for a minute."""
    return branch(
        relaxation, least=0, most=None, deadline=Deadline(60), seed=0, on_bound=on_bound, stop=lambda _: False
    )  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_staged_bound_is_never_above_brute_force(most, workspaces):
    exact = [check_against_brute_force(draw_case(seed, workspaces=workspaces), most, seed) for seed in range(60)]
    assert sum(exact) >= 58


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("start", [1000, 2000, 3000])
def test_staged_bound_is_never_above_brute_force_on_many_graphs(most, start):
    exact = [check_against_brute_force(draw_case(seed), most, seed) for seed in range(start, start + 700)]
    assert sum(exact) >= 695


@pytest.mark.full
def test_stages_that_matter_to_the_linear_relaxation(shared):
    """Few stages say as much as all local maxima of memory do, and more."""
    stages = Stages.of(published(shared, "G2", "117472"))
    maxima = relax(Relaxation.of(stages, highest_maxima(stages.memory, stages.budget, stages.n)), 60)
    told: list[int] = []
    chosen = first_stages(stages, Deadline(60), lambda: False, lambda bound, _: told.append(bound))
    halves = relax(Relaxation.of(stages, chosen), 60)
    assert maxima is not None and halves is not None
    assert len(chosen) <= 9
    assert max(told) >= halves.bound >= 0.99 * max(told) > maxima.bound


def test_halves_of_numbers_of_all_magnitudes():
    """A knapsack in bytes and FLOP; three halves of it would do."""
    program = Program()
    columns = [program.column(cost) for cost in (3 * 10**15, 2 * 10**15 + 1, 10**15)]
    program.row([(column, -(10**12)) for column in columns], -(10**12) - 5 * 10**11)
    halves = relax(program, 10)
    assert halves is not None
    assert halves.bound == 2 * 10**15 + 1  # the cheapest, and half of the next: rounded up
    program.row([(column, 1) for column in columns], 1)
    assert relax(program, 10) is None


@pytest.mark.parametrize("seed", [37, 122, 445, 570, 701])
def test_watched_recomputations_see_more_than_moments(seed):
    case = draw_case(seed, 10)
    stages = Stages.of(Instance.build(case.graph, case.budget, max_computations=2))
    best = least_duration(case.graph, case.graph.input_order(), case.budget, 2)
    every = range(stages.n)
    watched = least_of(Relaxation.of(stages, every, watched=[(v, k) for v in every for k in every]))
    assert least_of(Relaxation.of(stages, every, every)) < watched == best


@pytest.mark.slow
@pytest.mark.parametrize(("name", "budget", "best"), [("G2", "124814", 128_351), ("G3", "241773", 259_175)])
def test_proven_since_recomputations_are_watched(shared, name, budget, best):
    """Without, the finest relaxation of G2 ends at 128,248."""
    found = duration_bound(published(shared, name, budget), time_limit=600, alongside=Alongside(incumbent=lambda: best))
    assert found.reason in ("incumbent", "schedule") and found.value == best


def test_moments_count_what_computing_again_takes_besides():
    """Node 1 is read at the end, node 0 by node 1 alone: to drop 1 is to hold 0 instead, or to compute it again too."""
    graph = ComputationGraph(range(5), (7, 1, 1, 1, 1), (5, 5, 1, 5, 1), ((0, 1), (1, 4), (2, 3), (3, 4)))
    instance = Instance.build(graph, 10)  # 11 while 3 is computed: 1, 2 and 3
    assert moment_bound(instance, graph_arrays(graph, instance.order), 3) == 2  # a fifth of 8, rounded up


def test_a_bound_from_elsewhere_is_no_constraint():
    case = draw_case(
        3329
    )  # the cover bound is 1, the first relaxation's optimum 0, its next best cost over the optimum
    assert check_against_brute_force(case, 2, seed=0)


def published(shared, name: str, budget: str, most: int = 2) -> Instance:
    return Instance.build(read_graph(shared / "data" / f"{GRAPHS[name]}.json"), budget, max_computations=most)


@pytest.mark.parametrize(("name", "budget"), few(OPTIMAL_TDI, keep=2))
def test_staged_bound_proves_optima(shared, name, budget):
    instance = published(shared, name, budget)
    found = duration_bound(instance, time_limit=60)
    tdi = 100 * (found.value / instance.graph.total_duration - 1)
    assert tdi == pytest.approx(OPTIMAL_TDI[name, budget], abs=6e-4)
    assert found.reason == "schedule"
    simulation = judge(instance.graph, found.sequence, instance.budget)
    assert simulation.feasible and simulation.duration == found.value


def test_bounds_rise_and_an_incumbent_ends_the_search(shared):
    instance = published(shared, "G1", "0.8")
    bounds: list[int] = []
    optimum = duration_bound(instance, time_limit=60, alongside=Alongside(bounds.append)).value
    assert bounds == sorted(set(bounds)) and bounds[-1] == optimum
    asked = duration_bound(instance, time_limit=60, alongside=Alongside(incumbent=lambda: bounds[3]))
    assert asked.reason in ("incumbent", "schedule") and bounds[3] <= asked.value <= optimum


@pytest.mark.full
@pytest.mark.parametrize("workers", few([1, 2], keep=1))
def test_staged_bound_stops_at_once(shared, workers):
    instance = published(shared, "G3", "0.8")
    end = time.monotonic() + 3
    alongside = Alongside(stop=lambda: time.monotonic() > end)
    found = duration_bound(instance, time_limit=60, workers=workers, alongside=alongside)
    assert time.monotonic() < end + 1.5
    assert found.reason == "stopped"
    assert 1.0223 < found.value / instance.graph.total_duration < 1.0315


@pytest.mark.full
def test_staged_bound_keeps_the_time_limit(shared):
    instance = published(shared, "G4", "0.8")
    start = time.monotonic()
    assert duration_bound(instance, time_limit=2).reason == "time"
    assert time.monotonic() < start + 3.5


def test_staged_bound_is_zero_within_a_large_budget():
    case = draw_case(1)
    peak = simulate(case.graph, case.graph.input_order()).peak
    found = duration_bound(Instance.build(case.graph, peak), time_limit=5)
    assert (found.value, found.reason) == (case.graph.total_duration, "schedule")
    assert found.sequence == case.graph.input_order()


def test_staged_bound_proves_infeasible_budgets():
    graph = ComputationGraph(nodes=range(3), durations=[1, 1, 1], sizes=[2, 2, 2], edges=[(0, 2), (1, 2)])
    assert duration_bound(Instance.build(graph, 5), time_limit=5).infeasible
    assert not duration_bound(Instance.build(graph, 6), time_limit=5).infeasible


def test_a_wide_graph_that_no_schedule_fits():
    """In half a second, if stages are looked at before recomputations; else not in a minute."""
    graph = read_graph(DATA / "randomly_wired_inference.json")
    assert duration_bound(Instance.build(graph, "0.7"), time_limit=60).infeasible


def test_an_error_in_a_callback_is_raised():
    def fail(bound: int) -> None:
        raise ValueError(bound)

    with pytest.raises(ValueError, match=r"\d"):
        duration_bound(Instance.build(draw_case(1).graph, 1000), time_limit=5, alongside=Alongside(fail))


def test_sizes_beyond_31_bits_prove_nothing_false():
    """With such weights CP-SAT 9.15 presolves to an optimum of its own, above the cost of this schedule."""
    durations = (0, 0, 0, 125717, 818836, 384874, 615775, 584153, 818836, 557708, 0)
    sizes = (0, 0, 580626309353600, 87601688205728, 1, 215618988536316, 723732418469945, 1, 782724638540835,
             630976921015007, 34310849281204)  # fmt: skip
    edges = [(8, 9), (8, 1), (9, 2), (9, 7), (9, 10), (2, 4), (2, 3), (4, 0), (4, 5), (0, 7), (0, 3), (7, 5), (7, 1),
             (5, 10), (5, 3), (10, 6), (6, 1), (6, 3), (1, 3)]  # fmt: skip
    graph = ComputationGraph(range(11), durations, sizes, edges)
    schedule = (8, 9, 2, 4, 0, 7, 5, 10, 6, 1, 9, 2, 6, 3)
    budget = simulate(graph, schedule).peak
    instance = Instance.build(graph, budget, order=(8, 9, 2, 4, 0, 7, 5, 10, 6, 1, 3), max_computations=3)
    proven = duration_bound(instance, time_limit=30)
    assert not proven.infeasible
    assert graph.total_duration < proven.value <= simulate(graph, schedule).duration


LARGE = (8038, 12977, 14745, *range(20))
"""The first ones have bounds that CP-SAT tells as a double above the solution that they are bounds for."""


@pytest.mark.parametrize("seed", LARGE)
def test_bound_of_large_costs_is_the_cost_of_the_best_solution(seed):
    draw = random.Random(seed)
    n = draw.randint(9, 14)
    edges = [(u, v) for v in range(n) for u in range(v) if v == u + 1 or draw.random() < 0.3]
    durations, sizes = [draw.randint(0, 9 * 10**15 // n) for _ in range(n)], [draw.randint(1, 9) for _ in range(n)]
    graph = ComputationGraph(range(n), durations, sizes, edges)
    budget = int(simulate(graph, range(n)).peak * draw.choice((0.75, 0.85, 0.9))) or 1
    relaxation = Relaxation.of(Stages.of(Instance.build(graph, budget, max_computations=3)), range(n))
    told: list[int] = []
    found = solved(relaxation, told.append)
    if found.solution is None:
        assert found.infeasible
        return
    assert found.bound == sum(cost for cost, true in zip(relaxation.cost, found.solution, strict=True) if true)
    assert max(told, default=0) <= found.bound
