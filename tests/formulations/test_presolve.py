"""What presolve may and may not take away."""

from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import best_fixed_order
from strategies import graphs

from moccasin_mzn.formulations.presolve import CRITICAL_STAGES, presolve
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate


def chain(sizes, durations=None, skips=()):
    n = len(sizes)
    edges = tuple(sorted({*((v, v + 1) for v in range(n - 1)), *skips}))
    return ComputationGraph(tuple(range(n)), tuple(durations or [1] * n), tuple(sizes), edges, tuple(range(n)))


def test_sizes_and_durations_are_divided_by_their_greatest_common_divisors():
    graph = chain([40, 60, 20], [6, 9, 3])
    data = presolve(Instance.build(graph, 99), staged=True)
    assert (data.size, data.size_scale) == ((2, 3, 1), 20)
    assert (data.duration, data.duration_scale) == ((2, 3, 1), 3)
    assert data.budget == 4  # 99 // 20


def test_all_zero_sizes_and_durations():
    data = presolve(Instance.build(chain([0, 0], [0, 0]), 1), staged=True)
    assert (data.size_scale, data.duration_scale) == (1, 1)


def test_outputs_that_nothing_reads_or_that_need_no_memory_are_computed_once():
    graph = chain([5, 0, 5, 5, 5], skips=[(0, 4)])
    for staged in (True, False):
        counts = presolve(Instance.build(graph, 10), staged).max_computations
        assert counts[1] == counts[4] == 1
        assert counts[0] == 2


def test_what_fits_whatever_happens_is_computed_once():
    # 0 is read by 1 and by 5; stages 1..3 hold at most 9, so a gap in 0's retention pays only from stage 4 on
    graph = chain([1, 1, 7, 9, 9, 1], skips=[(0, 5)])
    data = presolve(Instance.build(graph, 18), staged=True)
    assert data.max_computations[0] == 2
    assert data.earliest_stage[0] == 5
    assert data.latest_stage[0] == 6


def test_critical_stages_are_the_highest_local_maxima_over_the_budget():
    graph = chain([1, 9, 1, 5, 1, 8, 1, 7, 1, 6, 1])
    data = presolve(Instance.build(graph, 5), staged=True)
    memory = data.input_order_memory
    chosen = [memory[k - 1] for k in data.critical_stage]
    assert len(chosen) == CRITICAL_STAGES
    assert sorted(chosen, reverse=True) == [10, 9, 8]
    assert presolve(Instance.build(graph, 5), staged=False).critical_stage == frozenset()


@settings(max_examples=examples(150), deadline=None)
@given(graphs(max_nodes=6, workspaces=True), st.data())
def test_staged_presolve_loses_no_optimal_schedule(graph, data):
    """The brute force with presolve's counts finds what it finds without them (the stages: see test_cross_check)."""
    order = graph.topological_order()
    graph = ComputationGraph(
        tuple(range(len(order))),
        tuple(graph.durations[v] for v in order),
        tuple(graph.sizes[v] for v in order),
        tuple(sorted((order.index(u), order.index(v)) for u, v in graph.edges)),
        workspaces=tuple(graph.workspace_of[v] for v in order),
    )
    peak = simulate(graph, graph.input_order()).peak
    budget = data.draw(st.integers(1, max(1, peak)))
    instance = Instance.build(graph, budget, max_computations=2)
    reduced = presolve(instance, staged=True)
    identity = tuple(range(len(order)))
    assert best_fixed_order(graph, identity, budget, 2) == best_fixed_order(
        graph, identity, budget, list(reduced.max_computations)
    )
