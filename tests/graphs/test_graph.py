"""ComputationGraph: what it refuses, its orders, its totals, networkx."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.checks import MANY
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph

DIAMOND = {
    "nodes": ("a", "b", "c", "d"),
    "durations": (3, 1, 2, 1),
    "sizes": (4, 2, 2, 1),
    "edges": ((0, 1), (0, 2), (1, 3), (2, 3)),
}
SCALE = "; scale all of them to a smaller unit in which they are integers"


def diamond(**changes: object) -> ComputationGraph:
    """a -> b, c -> d, with some fields replaced."""
    return ComputationGraph(**{**DIAMOND, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": (), "durations": (), "sizes": (), "edges": ()}, "the graph has no nodes"),
        ({"nodes": "abcd"}, "nodes: expected a sequence, got 'abcd'"),
        ({"nodes": ("a", "b", "b", "d")}, "nodes[2]: id 'b' is given twice"),
        ({"nodes": (1, "b", "1", "d")}, "nodes[2]: id '1' is written like the id 1"),
        ({"nodes": ("a", True, "c", "d")}, "nodes[1]: id True is neither an integer nor a string"),
        ({"nodes": ("a", 1.0, "c", "d")}, "nodes[1]: id 1.0 is neither an integer nor a string"),
        ({"nodes": ("a", "b\n", "c", "d")}, r"nodes[1]: id 'b\n' is empty, has blanks around it or is not printable"),
        ({"nodes": ("a", 2**70, "c", "d")}, f"nodes[1]: id {2**70} is not a 64-bit integer"),
        ({"nodes": ("a", 10**5000, "c", "d")}, "nodes[1]: id an integer of 16610 bits is not a 64-bit integer"),
        ({"sizes": (4, 2, 2)}, "4 nodes, but 3 sizes"),
        ({"sizes": (4, -2, 2, 1)}, "node b: size is -2, expected an integer >= 0"),
        ({"sizes": (4, -2.0, 2, 1)}, "node b: size is -2, expected an integer >= 0"),
        ({"durations": (3, 1.5, 2, 1)}, f"node b: duration is 1.5, expected an integer >= 0{SCALE}"),
        ({"sizes": (4, 2.0**53 * 2, 2, 1)}, f"node b: size is 1.8014398509481984e+16, expected an integer >= 0{SCALE}"),
        ({"sizes": (4, float("nan"), 2, 1)}, "node b: size is nan, expected an integer >= 0"),
        ({"sizes": (4, "2", 2, 1)}, "node b: size is '2', expected an integer >= 0"),
        ({"sizes": (4, np.float64(2.5), 2, 1)}, f"node b: size is 2.5, expected an integer >= 0{SCALE}"),
        ({"durations": (3, 1, True, 1)}, "node c: duration is True, expected an integer >= 0"),
        (
            {"durations": (3, 1, 2**53 + 1, 1)},
            f"node c: duration is {2**53 + 1}, over the limit 2**53; use a larger unit",
        ),
        ({"sizes": (2**53, 1, 0, 0)}, f"the sizes sum to {2**53 + 1}, over the limit 2**53; use a larger unit"),
        ({"labels": ("A", "B")}, "4 nodes, but 2 labels"),
        ({"labels": ("A", "B", 3, "D")}, "node c: label is 3, expected a string"),
        ({"backward": (True,)}, "4 nodes, but 1 backward flag"),
        ({"backward": (False, False, 1, True)}, "node c: backward flag is 1, expected true or false"),
        ({"name": None}, "name is None, expected a string"),
        ({"edges": ((0, 1), (1, 1))}, "edges[1]: node b reads itself"),
        ({"edges": ((0, 1), (0, 1))}, "edges[1]: edge a -> b is given twice"),
        ({"edges": ((0, 4),)}, "edges[0]: 4 is not the position of a node 0..3"),
        ({"edges": ((0, -1),)}, "edges[0]: -1 is not the position of a node 0..3"),
        ({"edges": ((0, 1, 2),)}, "edges[0]: (0, 1, 2) is not a pair"),
        ({"edges": ((0, 1), (1, 2), (2, 1), (2, 3))}, "cycle: b -> c -> b"),
        ({"order": (0, 1, 2)}, "order: node d is missing"),
        ({"order": (0, 1, 1, 3)}, "order[2]: node b was already at order[1]"),
        ({"order": (0, 1, 2, 7)}, "order[3]: 7 is not a position 0..3"),
        ({"order": (0, 3, 1, 2)}, "order is not topological: edge b -> d, but d is at order[1], b at order[2]"),
    ],
)
def test_graph_rejects_inconsistent_data(changes, message):
    with pytest.raises(InputError) as caught:
        diamond(**changes)
    assert str(caught.value) == message


ARRAYS = st.sampled_from((list, tuple, np.array, lambda values: np.array(values, np.float32)))


@given(graphs(workspaces=True), ARRAYS, st.data())
def test_whole_floats_are_the_integers_that_they_are(graph, array, data):
    """Durations, sizes and workspaces may be floats without a fraction, mixed with integers, in any sequence."""

    def written(values):
        forms = data.draw(st.lists(st.sampled_from((int, float)), min_size=len(values), max_size=len(values)))
        return array([form(value) for form, value in zip(forms, values, strict=True)])

    changed = {name: written(getattr(graph, name)) for name in ("durations", "sizes")}
    if graph.workspaces is not None:
        changed["workspaces"] = written(graph.workspaces)
    devices = {"gpu": [None if value > 500 else float(value) for value in graph.durations]}
    same = replace(graph, **changed, fixed_memory={"parameters": 16.0}, device_durations=devices)
    assert same == replace(
        graph, fixed_memory={"parameters": 16}, device_durations={"gpu": [v and int(v) for v in devices["gpu"]]}
    )
    amounts = (*same.durations, *same.sizes, *(same.workspaces or ()), *same.fixed_memory.values())
    assert set(map(type, amounts)) == {int}


@given(graphs(), st.floats(), st.sampled_from(("durations", "sizes", "workspaces")), st.data())
def test_any_float_is_an_integer_of_at_most_2_53_or_refused(graph, value, field, data):
    at = data.draw(st.integers(0, len(graph.nodes) - 1))
    values = [0] * len(graph.nodes)
    values[at] = value
    if value.is_integer() and 0 <= value <= 2**53 - 10**4:
        assert (getattr(replace(graph, **{field: values}), field) or values)[at] == int(value)
        return
    if value.is_integer() and 0 <= value <= 2**53:
        return  # the total may be over the limit
    with pytest.raises(InputError, match=r"(duration|size|workspace) is .*, expected an integer >= 0") as told:
        replace(graph, **{field: values})
    assert str(told.value).endswith(SCALE) == (math.isfinite(value) and value > 0)


def many(**changes: object) -> ComputationGraph:
    """A chain with so many edges that they are checked in arrays."""
    n = 2 * MANY
    chain = {"nodes": range(n), "durations": [1] * n, "sizes": [1] * n, "edges": [(v, v + 1) for v in range(n - 1)]}
    return ComputationGraph(**{**chain, **changes})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((5, 5), "edges[1999]: node 5 reads itself"),
        ((7, 8), "edges[1999]: edge 7 -> 8 is given twice"),
        ((0, 2000), "edges[1999]: 2000 is not the position of a node 0..1999"),
        ((-1, 5), "edges[1999]: -1 is not the position of a node 0..1999"),
        ((0, 2**40), f"edges[1999]: {2**40} is not the position of a node 0..1999"),
        ((False, 5), "edges[1999]: False is not the position of a node 0..1999"),
        ((1, 2, 3), "edges[1999]: (1, 2, 3) is not a pair"),
        ((9, 8), "cycle: 8 -> 9 -> 8"),
    ],
)
@pytest.mark.parametrize("order", [None, tuple(range(2 * MANY))])
def test_graph_rejects_inconsistent_data_with_many_edges(more, message, order):
    edges = [(v, v + 1) for v in range(2 * MANY - 1)]
    with pytest.raises(InputError) as caught:
        many(edges=[*edges, more], order=order)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("swap", "message"),
    [
        ((3, 4), "order is not topological: edge 2 -> 3, but 3 is at order[2], 2 at order[3]"),
        ((3, 3), "order[3]: node 2 was already at order[2]"),
    ],
)
def test_graph_rejects_wrong_orders_with_many_edges(swap, message):
    order = list(range(2 * MANY))
    order[swap[0] - 1], order[swap[0]] = order[swap[1] - 1], order[swap[0] - 1]
    with pytest.raises(InputError) as caught:
        many(order=order)
    assert str(caught.value) == message


def test_many_edges_in_any_order_are_accepted():
    edges = [(v, v + 1) for v in range(2 * MANY - 1)]
    graph = many(edges=edges[::-1], order=range(2 * MANY))
    assert graph.edge_ends.tolist() == [list(edge) for edge in edges[::-1]]
    assert graph.topological_order() == graph.input_order() == tuple(range(2 * MANY))
    assert graph.working_sets == (1, *[2] * (2 * MANY - 1))


def test_long_cycle_is_shortened():
    n = 100
    with pytest.raises(InputError) as caught:
        ComputationGraph(range(n), [1] * n, [1] * n, [(v, (v + 1) % n) for v in range(n)])
    assert str(caught.value) == "cycle: 0 -> 1 -> 2 -> 3 -> ... -> 98 -> 99 -> 0 (100 nodes)"


def test_cycle_leaves_out_what_hangs_on_it():
    with pytest.raises(InputError, match=r"^cycle: 2 -> 3 -> 2$"):
        ComputationGraph(range(5), [1] * 5, [1] * 5, [(0, 2), (2, 3), (3, 2), (3, 1), (1, 4)])


def test_total_at_the_limit_is_accepted():
    assert diamond(sizes=(TOTAL_LIMIT, 0, 0, 0)).total_size == 2**53


def test_derived_data():
    graph = diamond()
    assert graph.predecessors == ((), (0,), (0,), (1, 2))
    assert graph.successors == ((1, 2), (3,), (3,), ())
    assert graph.total_duration == 7
    assert graph.total_size == 9
    worst = graph.largest_working_set()
    assert (worst.node, worst.memory) == (1, 6)


def test_lists_are_stored_as_tuples_and_the_graph_hashes_and_pickles():
    graph = diamond(sizes=[4, 2, 2, 1], edges=[[0, 1], [0, 2], [1, 3], [2, 3]], attributes={"made_by": "hand"})
    assert graph.edges == DIAMOND["edges"]
    assert graph == pickle.loads(pickle.dumps(graph))
    assert hash(graph) == hash(diamond())


def test_ties_go_to_the_smallest_position():
    assert ComputationGraph(range(4), [1] * 4, [1] * 4, [(3, 0)]).topological_order() == (1, 2, 3, 0)


def test_input_order():
    assert diamond().input_order() == (0, 1, 2, 3)
    assert diamond(order=(0, 2, 1, 3)).input_order() == (0, 2, 1, 3)


def test_position_of():
    graph = diamond(nodes=(7, "b", "3", -1))
    assert [graph.position_of(node) for node in (7, "7", "b", "3", "-1")] == [0, 0, 1, 2, 3]
    for unknown in (3, "x", True, 7.0, None):
        with pytest.raises(InputError, match="is not in the graph"):
            graph.position_of(unknown)


@given(graphs())
def test_topological_order_is_one(graph):
    graph.check_order(graph.topological_order())


@given(graphs())
def test_networkx_round_trip(graph):
    again = ComputationGraph.from_networkx(graph.to_networkx())
    assert set(again.edges) == set(graph.edges)
    assert replace(again, edges=graph.edges) == graph


def test_from_networkx_converts_numpy_integers():
    g = networkx.DiGraph()
    g.add_node(np.int32(5), w=np.int64(3), m=np.uint8(4))
    g.add_node(6, w=1, m=2)
    g.add_edge(5, 6)
    graph = ComputationGraph.from_networkx(g, duration="w", size="m", order=[5, 6])
    assert (graph.nodes, graph.durations, graph.sizes, graph.order) == ((5, 6), (3, 1), (4, 2), (0, 1))
    assert type(graph.nodes[0]) is int


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: networkx.Graph([(1, 2)]), "the networkx graph must be directed and no multigraph"),
        (lambda: networkx.MultiDiGraph([(1, 2)]), "the networkx graph must be directed and no multigraph"),
        (lambda: networkx.DiGraph([(1, 2)]), "node 1: attribute 'duration' is missing"),
    ],
)
def test_from_networkx_refuses(make, message):
    with pytest.raises(InputError) as caught:
        ComputationGraph.from_networkx(make())
    assert str(caught.value) == message


def test_from_networkx_refuses_an_unknown_node_in_the_order():
    with pytest.raises(InputError, match=r"^order\[1\]: node 9 is not in the graph$"):
        ComputationGraph.from_networkx(diamond().to_networkx(), order=["a", 9])


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({"parameters": -1}, "fixed_memory of parameters: -1, expected an integer >= 0"),
        ({"parameters": 1.5}, f"fixed_memory of parameters: 1.5, expected an integer >= 0{SCALE}"),
        ({3: 1}, "fixed_memory: 3 is not a printable name"),
        ([1], r"fixed_memory is \[1\], expected amounts by what they hold"),
        ({"a": 2**53, "b": 1}, "the amounts of fixed_memory sum to more than"),
    ],
)
def test_fixed_memory_is_checked(amounts, message):
    with pytest.raises(InputError, match=message):
        diamond(fixed_memory=amounts)


def test_fixed_memory_survives_networkx():
    graph = diamond(fixed_memory={"parameters": 3})
    assert graph.total_fixed_memory == 3
    assert ComputationGraph.from_networkx(graph.to_networkx()) == graph
