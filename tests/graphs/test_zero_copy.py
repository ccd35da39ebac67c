"""Concatenations taken out of graphs: which, and that what is left costs what they do if they copy nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from concatenations import concatenation, joining_graph, least_duration
from few import few
from oracle import best_free_order

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.graphs.reduction import reduce_graph
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.graphs.zero_copy import zero_copy_concat
from moccasin_mzn.problem.judges.schedules import simulate


def graph_of(sizes, edges, operators, **more):
    n = len(sizes)
    known = [operators.get(v) for v in range(n)]
    return ComputationGraph(tuple("abcdefghij"[:n]), (1,) * n, sizes, edges, range(n), operators=known, **more)


def pair(sizes=(4, 6, 10, 1), axis=1, rows=1, **more):
    """c joins a and b, and d reads it."""
    shapes = [(rows, sizes[0] // rows), (rows, sizes[1] // rows)]
    if axis == 0:
        shapes = [(rows * sizes[0], 1), (rows * sizes[1], 1)]
    made = concatenation((0, 1), shapes, axis)
    return graph_of(sizes, [(0, 2), (1, 2), (2, 3)], {2: replace(made, **more)})


def test_readers_read_the_inputs_as_one():
    found = zero_copy_concat(pair())
    graph = found.graph
    assert graph.nodes == ("a", "b", "d") and set(graph.edges) == {(0, 2), (1, 2)}
    assert graph.adjacent == ((), (), ((0, 1),))
    assert graph.places == ((0, 0), (0, 4), None)
    assert found.taken_out == {2: (0, 1)} and not found.kept
    assert found.text() == "1 of 1 concatenation taken out"
    assert simulate(pair(), range(4)).peak == 20 and simulate(graph, range(3)).peak == 11


@pytest.mark.parametrize(
    ("graph", "alignment", "reason"),
    [
        (pair(unchanged=False), 1, "it is not known to leave numbers as they are"),
        (pair(rows=2), 1, "its inputs alternate in its output"),
        (pair(), 8, "an input that another one would follow takes no multiple of 8"),
        (pair((4, 6, 11, 1)), 1, "its inputs together do not take the memory of its output"),
        (pair((4, 0, 4, 1)), 1, "its inputs together do not take the memory of its output"),
        (graph_of((2, 2, 4, 1), [(0, 2), (1, 2), (2, 3)], {2: concatenation((0, 1), [(1, 3), (1, 4)])}), 1,
         "an input that another one would follow does not take its share of the output's memory"),
        (replace(pair(), workspaces=(0, 0, 1, 0)), 1, "it is more than a concatenation"),
        (replace(pair(), computed_once=(2,)), 1, "it is more than a concatenation"),
        (graph_of((4, 8, 1), [(0, 1), (1, 2)], {1: concatenation((0, 0), [(1, 4)] * 2)}), 1,
         "it reads an output twice"),
        (graph_of((4, 8, 1), [(0, 1), (1, 2)], {1: concatenation((0, None), [(1, 4)] * 2)}), 1,
         "it reads inputs of the caller's"),
        (graph_of((4, 4, 8), [(0, 2), (1, 2)], {2: concatenation((0, 1), [(1, 4)] * 2)}), 1,
         "its output is one of the network's"),
        (pair(shape=(1, 12)), 1, "it reads more than outputs of nodes, or not all of them"),
    ],
)  # fmt: skip
def test_concatenations_stay_for_a_reason(graph, alignment, reason):
    found = zero_copy_concat(graph, alignment)
    assert found.graph is graph and [*found.kept.values()] == [reason]
    assert "0 of 1 concatenation taken out; " in found.text() and found.text().endswith(f" stays: {reason}")


def test_an_axis_of_one_place_before_it_does_not_matter():
    assert zero_copy_concat(pair(axis=0)).taken_out and zero_copy_concat(pair(rows=1)).taken_out


def test_numbers_of_half_a_byte_are_joined_where_no_byte_is_shared():
    """Of which two take a byte, and an odd one takes one of its own."""
    for counts in product(range(1, 5), repeat=3):
        sizes = [-(-count // 2) for count in counts]
        joins = {3: concatenation((0, 1, 2), [(1, count) for count in counts])}
        graph = graph_of((*sizes, -(-sum(counts) // 2), 1), [(0, 3), (1, 3), (2, 3), (3, 4)], joins)
        if zero_copy_concat(graph).taken_out:
            assert not counts[0] % 2 and not counts[1] % 2
        else:
            assert any(count % 2 for count in counts)


def test_nested_concatenations_are_one_block():
    """d joins a and b, e joins d and c: all who read e read a, b and c."""
    inner, outer = concatenation((0, 1), [(1, 4), (1, 6)]), concatenation((3, 2), [(1, 10), (1, 2)])
    edges = [(0, 3), (1, 3), (3, 4), (2, 4), (4, 5), (3, 5)]
    found = zero_copy_concat(graph_of((4, 6, 2, 10, 12, 1), edges, {3: inner, 4: outer}))
    assert found.taken_out == {3: (0, 1), 4: (0, 1, 2)}
    assert found.graph.nodes == tuple("abcf") and set(found.graph.adjacent[3]) == {(0, 1), (0, 1, 2)}
    assert found.graph.places[:3] == ((0, 0), (0, 4), (0, 10))


def shared(second):
    """d joins a and b, e joins `second`, f reads both."""
    edges = [(0, 3), (1, 3), *((u, 4) for u in second), (3, 5), (4, 5)]
    sizes = [4, 4, 4, 8, 4 * len(second), 1]
    joins = {3: concatenation((0, 1), [(1, 4)] * 2), 4: concatenation(second, [(1, 4)] * len(second))}
    return graph_of(sizes, edges, joins)


@pytest.mark.parametrize(("second", "fits"), [((1, 2), True), ((2, 0), True), ((0, 1), True), ((0, 2), False),
                                              ((1, 0), False), ((2, 1), False), ((0, 1, 2), True), ((2, 0, 1), True),
                                              ((0, 2, 1), False)])  # fmt: skip
def test_an_output_lies_at_one_place_for_all_who_join_it(second, fits):
    found = zero_copy_concat(shared(second))
    assert (4 in found.taken_out) == fits and 3 in found.taken_out
    if not fits:
        assert found.kept == {4: "its inputs lie side by side with other outputs, for another concatenation"}
        assert found.graph.adjacent[-1] == ((0, 1),)


def test_in_place_a_schedule_with_the_copy_may_be_better():
    """What is joined, and may no longer be written over x, is in memory with k and x."""
    edges = [(0, 2), (1, 2), (2, 4), (3, 4), (4, 5)]
    joins = {4: concatenation((2, 3), [(1, 10), (1, 1)])}
    graph = graph_of((30, 10, 10, 1, 11, 1), edges, joins, in_place=((), (), (1,), (), (), ()), runs_in_place=True)
    found = zero_copy_concat(graph)
    assert found.taken_out and (simulate(graph, range(6)).peak, simulate(found.graph, range(5)).peak) == (40, 50)


def test_what_lies_side_by_side_overwrites_nothing():
    graph = replace(pair(), nodes=tuple("abcd"), in_place=((), (), (), ()), runs_in_place=True)
    more = ComputationGraph(
        tuple("xabcde"), (1,) * 6, (4, 4, 4, 8, 1, 1), [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 5), (4, 5)],
        operators=[None, None, None, concatenation((1, 2), [(1, 4)] * 2), None, None],
        in_place=((), (0,), (0,), (), (3,), (1, 4)), runs_in_place=True,
    )  # fmt: skip
    found = zero_copy_concat(more).graph
    assert found.nodes == tuple("xabde") and found.in_place == ((), (), (), (), (3,)) and found.runs_in_place
    assert zero_copy_concat(graph).graph.in_place is None
    with pytest.raises(InputError, match="node d: in_place names a, but adjacent has a"):
        ComputationGraph(tuple("abd"), (1,) * 3, (4, 4, 1), [(0, 2), (1, 2)], adjacent=((), (), ((0, 1),)),
                         in_place=((), (), (0,)))  # fmt: skip


@pytest.mark.parametrize(
    ("adjacent", "message"),
    [
        (((), (), ((0, 1),)), "3 nodes?, but|4 nodes, but adjacent for 3 nodes"),
        (((), (), (), ((0, 9),)), "node d: adjacent names 9, which the node does not read"),
        (((), ((0, 0),), (), ()), "node b: adjacent names a, which the node does not read"),
        (((), (), (), ((0, 0),)), "node d: adjacent names a twice in one group"),
        (((), (), (), ((0,),)), "node d: adjacent has a group of 1 node, expected two or more"),
        (((), (), (), ((0, 2),)), "node d: adjacent names c, whose output has no memory"),
        (((), (), (), ((0, 1), (1, 0))), "node d: adjacent: .* cannot lie where all who read them want them"),
        (((), (), (), 3), "node d: adjacent: expected a sequence, got 3"),
    ],
)
def test_groups_that_make_no_sense_are_refused(adjacent, message):
    with pytest.raises(InputError, match=message):
        ComputationGraph(tuple("abcd"), (1,) * 4, (4, 4, 0, 1), [(0, 3), (1, 3), (2, 3)], adjacent=adjacent)


def test_what_cannot_keep_outputs_side_by_side_refuses_them():
    graph = zero_copy_concat(pair()).graph
    with pytest.raises(InputError, match="reductions know no outputs that lie side by side"):
        reduce_graph(graph)
    with pytest.raises(InputError, match="parts know no outputs that lie side by side"):
        tile(graph, rows=1)
    with pytest.raises(InputError, match="alignment 8: b has to lie 4 behind a, which is no multiple of it"):
        solve(graph, 1.0, addresses=True, alignment=8)
    with pytest.raises(InputError, match="the graph is tiled"):
        zero_copy_concat(replace(pair(), parts=(Part("a", ()), None, None, None)))
    assert solve(graph, 1.0, paging={"out_time": 1}, time_limit=5).valid


def test_a_graph_without_concatenations_is_taken_as_it_is():
    once = zero_copy_concat(shared((0, 2)))
    again = zero_copy_concat(once.graph)
    assert again.graph is once.graph and zero_copy_concat(once.graph, 3).graph is once.graph
    assert again.text() == "no concatenation of the graph is taken out: that was done before, for alignment 1"
    silent = ComputationGraph(range(2), (1, 1), (1, 1), [(0, 1)])
    assert zero_copy_concat(silent).graph is silent and "operators are not known" in zero_copy_concat(silent).text()


@pytest.mark.parametrize("seed", few(range(300), 40))
def test_costs_are_those_of_concatenations_that_copy_nothing(seed):
    """In any order, within each budget that matters: against an oracle that walks the graph with its concatenations."""
    graph = joining_graph(seed, 6)
    found = zero_copy_concat(graph)
    if not found.taken_out:
        return
    peak = simulate(found.graph, found.graph.input_order()).peak
    least = max(found.graph.working_sets)
    for budget in sorted({least - 1, least, (least + peak) // 2, peak}):
        expected = least_duration(graph, found.taken_out, budget, 2)
        assert best_free_order(found.graph, budget, 2) == expected
        copying = best_free_order(graph, budget, 2)
        own = sum(graph.durations[v] for v in found.taken_out)
        assert copying is None or (expected is not None and expected <= copying - own)  # no schedule is lost


@pytest.mark.parametrize("seed", few(range(60), 8))
@pytest.mark.few(4)
def test_searches_find_the_least_duration(seed):
    graph = joining_graph(seed, 7)
    found = zero_copy_concat(graph)
    if not found.taken_out:
        return
    budget = max(found.graph.working_sets) + seed % 3
    result = solve(graph, budget, order="free", zero_copy_concat=True, time_limit=20, threads=1)
    expected = least_duration(graph, found.taken_out, budget, 2)
    assert result.status == ("infeasible" if expected is None else "optimal")
    assert expected is None or result.duration == expected
