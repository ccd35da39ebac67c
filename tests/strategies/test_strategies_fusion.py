"""Patches and fusion blocks on tiled chains: their costs are the judge's, and the shortest path is the shortest."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_graphs import DIAMOND

from moccasin_mzn.base.errors import NotApplicableError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.strategies.fusion import FUSION, PATCHES, TiledChain


def chain_of(rows: int, layers: list[tuple[int, int, int]], pieces: int = 1) -> ComputationGraph:
    """Layers of (channels, window, stride) over rows and two columns, cut into rows and, perhaps, columns."""
    operators: list[Operator] = []
    shape = rows, 2, 1
    for at, (channels, window, stride) in enumerate(layers):
        made = -(-shape[0] // stride), 2, channels
        axes = Reach(0, stride, window, before=(window - 1) // 2), Reach(1), None
        operators.append(Operator("conv", made, (Read(at - 1 if at else None, shape, axes),)))
        shape = made
    sizes = [each.elements for each in operators]
    graph = ComputationGraph(
        nodes=[f"l{at}" for at in range(len(layers))], durations=[3 * size + 1 for size in sizes], sizes=sizes,
        edges=[(at, at + 1) for at in range(len(layers) - 1)], operators=operators,
    )  # fmt: skip
    return tile(graph, rows=1, columns=3 - pieces)


CHAINS = st.builds(
    chain_of, st.integers(2, 6),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3]), st.integers(1, 2)), min_size=1, max_size=4),
    st.integers(1, 2),
)  # fmt: skip


@pytest.mark.few(2)
@given(graph=CHAINS, data=st.data())
def test_a_block_computes_its_groups_and_costs_what_the_judge_counts(graph, data):
    chain = TiledChain.of(graph)
    size = data.draw(st.integers(1, 3))
    nodes = chain.layers[-1]
    sequence = chain.block(0, len(chain.layers) - 1, [nodes[at : at + size] for at in range(0, len(nodes), size)])
    found = simulate(graph, sequence)
    assert not found.violations
    assert chain.cost(sequence) == (found.duration, _peak_with_results(graph, sequence, nodes))


def _peak_with_results(graph, sequence, results):
    """The judge's peak if a node without a size reads all results at the end."""
    end = len(graph.nodes)
    held = ComputationGraph(
        nodes=range(end + 1), durations=(*graph.durations, 0), sizes=(*graph.sizes, 0),
        edges=(*graph.edges, *((v, end) for v in results)),
    )  # fmt: skip
    return simulate(held, (*sequence, end)).peak


@pytest.mark.few(2)
@given(graph=CHAINS, share=st.floats(0.4, 1.0))
def test_fusion_is_the_shortest_of_all_divisions_into_blocks(graph, share):
    chain, whole = TiledChain.of(graph), simulate(graph, graph.input_order()).peak
    budget = max(1, int(share * whole))
    count, best = len(chain.layers), None
    for many in range(count):
        for ends in combinations(range(1, count), many):
            bounds = [0, *ends, count]
            costs = [_cost(chain, first, last - 1) for first, last in zip(bounds, bounds[1:], strict=False)]
            if all(peak <= budget for _, peak in costs):
                total = sum(duration for duration, _ in costs)
                best = total if best is None else min(best, total)
    found = list(FUSION.schedules(Instance.build(graph, budget), lambda: False))
    assert [simulate(graph, each).duration for each in found] == ([] if best is None else [best])
    assert all(judge(graph, each, budget).feasible for each in found)


def _cost(chain, first, last):
    groups = [list(chain.layers[last])] if first == last else [[v] for v in chain.layers[last]]
    return chain.cost(chain.block(first, last, groups))


@pytest.mark.few(2)
@given(graph=CHAINS)
def test_patches_are_schedules(graph):
    found = list(PATCHES.schedules(Instance.build(graph, 1.0), lambda: False))
    assert found[0] == graph.input_order()
    assert all(not simulate(graph, each).violations for each in found)


def test_patches_take_less_memory_and_compute_more():
    graph = chain_of(6, [(2, 3, 1), (3, 3, 1), (1, 3, 2)])
    whole = simulate(graph, graph.input_order())
    rows = [simulate(graph, each) for each in PATCHES.schedules(Instance.build(graph, 1.0), lambda: False)]
    assert min(each.peak for each in rows) < whole.peak
    assert max(each.duration for each in rows) > whole.duration


@pytest.mark.parametrize("rule", [PATCHES, FUSION], ids=lambda rule: rule.name)
def test_what_is_no_tiled_chain_is_refused(rule):
    with pytest.raises(NotApplicableError, match="^the graph has no parts"):
        list(rule.schedules(Instance.build(DIAMOND, 1.0), lambda: False))
    shape, rows = (4, 2), (Reach(0), Reach(1))
    skip = ComputationGraph(
        nodes=list("abc"), durations=[1] * 3, sizes=[8] * 3, edges=[(0, 1), (0, 2), (1, 2)],
        operators=[
            Operator("relu", shape, (Read(None, shape, rows),)), Operator("relu", shape, (Read(0, shape, rows),)),
            Operator("add", shape, (Read(0, shape, rows), Read(1, shape, rows))),
        ],
    )  # fmt: skip
    with pytest.raises(NotApplicableError, match="^no chain of layers: c reads a$"):
        list(rule.schedules(Instance.build(tile(skip, rows=2), 1.0), lambda: False))
