"""The lower bound on budgets: never above brute force; for a node alone exactly what it needs."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import permutations

import pytest
from cases import draw_case
from few import few
from least_oracle import FREE, draw_any, least_peak
from oracle import best_free_order
from tiny_graphs import U_SHAPE, graph_of

from moccasin_mzn.bounds.least_budget import LeastBudget, enough_budget, least_at_once, least_budget_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate


def least_budget(graph: ComputationGraph) -> int:
    """By brute force, with up to three computations of each node."""
    budget = graph.largest_working_set().memory
    while best_free_order(graph, budget, 3) is None:
        budget += 1
    return budget


@pytest.mark.parametrize("start", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_least_budget_is_never_above_brute_force(start):
    exact = 0
    for seed in range(start, start + (300 if start else 40)):
        graph = draw_case(seed).graph
        bound, best = least_budget_bound(graph), least_budget(graph)
        assert graph.largest_working_set().memory <= bound.memory <= best
        assert least_budget_bound(graph, work=5).memory <= bound.memory
        for enough in (bound.memory - 1, bound.memory, bound.memory + 1):
            assert (least_budget_bound(graph, enough).memory > enough) == (bound.memory > enough)
        exact += bound.memory == best
    assert exact > 0.9 * (300 if start else 40)


def anew(graph: ComputationGraph, v: int) -> tuple[int, ...]:
    """Compute v from nothing, its inputs one by one in the order in which that takes least."""
    inputs = [anew(graph, u) for u in graph.predecessors[v]]
    ways = [(*(x for each in way for x in each), v) for way in permutations(inputs)]
    return min(ways, key=lambda way: simulate(graph, way).peak)


@pytest.mark.parametrize("workspaces", [False, True])
def test_sufficient_budget_has_a_schedule(workspaces):
    met = 0
    for seed in range(60):
        graph = draw_case(seed, workspaces=workspaces).graph
        sequence = [x for v in graph.input_order() for x in anew(graph, v)]
        found, enough = simulate(graph, sequence), enough_budget(graph)
        assert not found.violations
        assert min(found.peak, simulate(graph, graph.input_order()).peak) <= enough
        bound = least_budget_bound(graph).memory
        assert bound <= enough
        met += bound == enough
    assert met >= 30


def test_two_inputs_are_computed_one_after_the_other():
    # 4 reads 2 and 3; the later of them is computed beside the other: 3 + 1 + 9, not 3 + 3 + 1.
    graph = graph_of([1] * 5, [9, 9, 3, 3, 1], [(0, 2), (1, 3), (2, 4), (3, 4)])
    assert graph.largest_working_set().memory == 12
    assert least_budget_bound(graph) == LeastBudget(15, 4)


def test_working_set_suffices_for_a_u_shape():
    assert least_budget_bound(U_SHAPE).memory == 3


def draw_step(seed: int) -> ComputationGraph:
    """A small training step: forward, backward, gradients that stay to the end, some of them sums; sizes are
    often equal, powers of two or 0, and up to 10^13."""
    rng = random.Random(f"step {seed}")
    length, unit = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2**20, 10**12 + 1])
    edges, gradients = [(v - 1, v) for v in range(1, length)], list[int]()
    last = n = length - 1
    for layer in reversed(range(length)):
        n += 1
        edges += [(last, n)] + [(layer, n)] * (rng.random() < 0.7)
        last = n
        if rng.random() < 0.85 and n < 7:
            n += 1
            edges += [(last, n)] + [(layer - 1, n)] * (layer > 0 and rng.random() < 0.8)
            gradients.append(n)
            if len(gradients) > 1 and rng.random() < 0.3:
                edges.append((gradients.pop(-2), n))
    edges = sorted({*edges, *((v, n + 1) for v in gradients or [last])})
    sizes = [unit * rng.choice([0, 1, 1, 2, 2, 4, 8, rng.randint(0, 9)]) for _ in range(n + 2)]
    share = rng.choice([0, 0, 0.5])
    rows = [
        [u for u, v in edges if v == head and sizes[u] >= sizes[v] > 0 and rng.random() < share]
        for head in range(n + 2)
    ]
    return ComputationGraph(
        nodes=range(n + 2), durations=[1] * (n + 2), sizes=sizes, edges=edges, order=range(n + 2),
        workspaces=[unit * rng.choice([0, 0, 1, 4]) for _ in range(n + 2)], in_place=rows, runs_in_place=any(rows),
    )  # fmt: skip


def draw_hub(seed: int) -> ComputationGraph:
    """The last node reads most of the others, which are often further outputs, overwrite inputs or run once."""
    rng = random.Random(f"hub {seed}")
    n, share, draw = rng.randint(4, 6), rng.choice([0.0, 0.4]), rng.choice([(0, 1, 2, 4, 8), tuple(range(10))])
    of: list[int | None] = [None] * n
    for v in range(1, n - 1):
        first = rng.randrange(v)
        of[v] = first if of[first] is None and rng.random() < share else None
    sizes = [rng.choice(draw) for _ in range(n)]
    sizes = [0 if first is not None and not sizes[first] else size for size, first in zip(sizes, of, strict=True)]
    sources = rng.randint(1, n - 2)
    edges = {(u, v) for v in range(sources, n - 1) for u in range(v) if of[v] is None and rng.random() < 0.45}
    edges |= {(u, n - 1) for u in range(sources - 1, n - 1) if rng.random() < 0.85}
    rows = [[u for u, head in edges if head == v and sizes[u] >= sizes[v] > 0 and rng.random() < 0.5] for v in range(n)]
    own = [v for v in range(n) if of[v] is None]
    return ComputationGraph(
        nodes=range(n), durations=[int(v in own) for v in range(n)], sizes=sizes, edges=sorted(edges), order=range(n),
        workspaces=[rng.choice([0, 0, 1, 3]) if v in own else 0 for v in range(n)], in_place=rows,
        runs_in_place=rng.random() < 0.7, output_of=of if any(first is not None for first in of) else None,
        computed_once=[v for v in own if rng.random() < 0.1], fixed_memory={"parameters": rng.choice([0, 5])},
    )  # fmt: skip


@pytest.mark.parametrize("seed", few(range(100), keep=3))
@pytest.mark.few(1)
def test_bound_of_a_node_that_reads_many_is_never_above_the_least_of_any_order(seed):
    drawn = map(draw_hub, range(300 * seed, 300 * seed + 300))
    above = [graph for graph in drawn if least_at_once(graph).memory > graph.largest_working_set().memory]
    for graph in above[:6]:
        best = least_peak(graph, FREE, 3 if len(graph.nodes) < 6 else 2)
        some = least_budget_bound(graph, work=5).memory
        assert least_at_once(graph).memory <= some <= least_budget_bound(graph).memory <= best
    assert above


@pytest.mark.parametrize("seed", few(range(100), keep=3))
def test_bound_of_gradients_that_stay_is_never_above_the_least_of_any_order(seed):
    exact = count = 0
    for number in range(5 * seed, 5 * seed + 5):
        steps, others = draw_step(number), replace(draw_any(number), computed_once=())
        for graph in (each for each in (steps, others) if len(each.nodes) <= 6):
            best = least_peak(graph, FREE, 3 if len(graph.nodes) < 6 else 2)
            at_once, some = least_at_once(graph).memory, least_budget_bound(graph, work=5).memory
            assert at_once <= some <= least_budget_bound(graph).memory <= best
            exact, count = exact + (least_budget_bound(graph).memory == best), count + 1
    assert exact >= 0.5 * count


@pytest.mark.parametrize("unit", [1, 2**20, 10**12])
def test_of_gradients_with_large_inputs_one_is_computed_beside_all_the_others(unit):
    # a and b lack 90 each, c and d 5: a + b + 90 at the later of a and b, a + b + c + d + 5 at the last of all.
    lacks, gradients = [90, 90, 5, 5], [30, 30, 20, 20]
    sizes = [unit * size for size in (*lacks, *gradients, 0)]
    edges = [(v, v + 4) for v in range(4)] + [(v, 8) for v in range(4, 8)]
    graph = ComputationGraph(range(9), [1] * 9, sizes, edges)
    assert graph.largest_working_set().memory == 120 * unit
    assert least_at_once(graph) == least_budget_bound(graph) == LeastBudget(150 * unit, 8)
    together = replace(graph, edges=(*graph.edges, (1, 4)))  # a reads what b reads as well
    assert least_at_once(together).memory == 210 * unit
    workspaces = replace(graph, workspaces=[unit * (5 if v >= 4 else 0) for v in range(9)])
    assert least_at_once(workspaces).memory == 155 * unit


def test_what_is_saved_by_overwriting_is_no_part_of_what_is_needed():
    # 1 overwrites 0, and 3 overwrites 2 beside 1.
    rows = [[], [0], [], [2], []]
    graph = ComputationGraph(range(5), [1] * 5, [3, 3, 3, 3, 0], [(0, 1), (2, 3), (1, 4), (3, 4)], in_place=rows)
    for in_place, least in ((False, 9), (True, 6)):
        run = graph.run_in_place(in_place)
        assert least_at_once(run).memory == least_budget_bound(run).memory == least_peak(run, FREE, 2) == least


@pytest.mark.full
def test_large_graphs_take_seconds():
    n = 20_000
    edges = sorted({(v - d, v) for v in range(n) for d in (1, 2, 7, 50, 900) if v >= d})
    graph = ComputationGraph(range(n), [1] * n, [1 + v % 13 for v in range(n)], edges)
    start = time.monotonic()
    assert least_budget_bound(graph).memory >= graph.largest_working_set().memory
    assert time.monotonic() < start + 20
