"""Tiled graphs: their parts are the layers, and each reads the parts that its places read, found place by place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Part, Reach, Read, aligned
from moccasin_mzn.graphs.tiling import cutting
from moccasin_mzn.graphs.tiling.axes import tiling_axes
from moccasin_mzn.graphs.tiling.cutting import cut, cuts_of, layers_of, nodes_of, tile
from moccasin_mzn.problem.judges.schedules import simulate


def graph_of(*operators: Operator, unit: int = 1, **facts) -> ComputationGraph:
    """Layers a, b, c, ... of `unit` bytes an element, with durations that are multiples of nothing."""
    pairs = [(read.source, v) for v, each in enumerate(operators) for read in each.reads if read.source is not None]
    return ComputationGraph(
        nodes=[chr(ord("a") + at) for at in range(len(operators))],
        durations=[101 + 7 * at for at in range(len(operators))],
        sizes=[unit * each.elements for each in operators], edges=list(dict.fromkeys(pairs)),
        operators=operators, **facts,
    )  # fmt: skip


def elementwise(name: str, shape, inputs) -> Operator:
    """Reads its own place of each input, given by source and shape."""
    return Operator(name, shape, tuple(Read(source, of, aligned(of, shape)) for source, of in inputs))


def window(source: int | None, before: int, shape, out, **reach) -> Operator:
    """A window over rows of (rows, columns, channels), and all channels of its input."""
    return Operator("conv", out, (Read(source, shape, (Reach(0, before=before, **reach), Reach(1), None)),))


CHAIN = graph_of(
    window(None, 1, (8, 4, 3), (4, 4, 2), stride=2, window=3),
    window(0, 1, (4, 4, 2), (4, 4, 5), window=3),
    Operator("mean", (5,), (Read(1, (4, 4, 5), (None, None, Reach(0))),), accumulator=4),
)


# --- What the parts of one small chain are --------------------------------------------------------------------


def test_parts_of_a_chain():
    tiled = tile(CHAIN, rows=2)
    assert tiled.nodes == ("a[0:2]", "a[2:4]", "b[0:2]", "b[2:4]", "c step 0", "c")
    assert tiled.sizes == (16, 16, 40, 40, 20, 5)
    assert sorted(tiled.edges) == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    assert tiled.parts[3] == Part("b", ((2, 4), (0, 4), (0, 5))) and tiled.parts[4] == Part("c", ((0, 5),), 0)
    assert tiled.in_place == ((), (), (), (), (), (4,))
    assert dict(layers_of(tiled)) == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_rows_read_only_the_rows_around_them():
    tiled = tile(CHAIN, rows=1)
    index = tiled.index
    assert [tiled.nodes[u] for u in tiled.predecessors[index["b[0:1]"]]] == ["a[0:1]", "a[1:2]"]
    assert [tiled.nodes[u] for u in tiled.predecessors[index["b[2:3]"]]] == ["a[1:2]", "a[2:3]", "a[3:4]"]


def test_rows_columns_and_channels():
    image = (4, 6, 8)
    net = graph_of(elementwise("relu", image, [(None, image)]), elementwise("add", image, [(0, image), (0, image)]))
    assert tiling_axes(net) == ((0, 1, 2), (0, 1, 2))
    tiled = tile(net, rows=3, columns=4, channels=8)
    assert tiled.nodes[:4] == ("a[0:3,0:4]", "a[0:3,4:6]", "a[3:4,0:4]", "a[3:4,4:6]")
    assert tiled.predecessors[4:] == ((0,), (1,), (2,), (3,))
    assert len(tile(net, channels=4).nodes) == 4


def test_only_some_layers():
    tiled = tile(CHAIN, rows=1, layers=["b"])
    assert tiled.nodes == ("a", "b[0:1]", "b[1:2]", "b[2:3]", "b[3:4]", "c step 0", "c step 1", "c step 2", "c")
    assert tiled.predecessors[1:5] == ((0,),) * 4


def test_what_is_not_known_stays_whole_and_reads_all_parts():
    graph = replace(CHAIN, operators=(*CHAIN.operators[:2], None))
    tiled = tile(graph, rows=2)
    assert tiled.nodes[-1] == "c" and len(tiled.predecessors[-1]) == 2


def test_parts_may_read_what_is_not_known():
    graph = replace(CHAIN, operators=(None, *CHAIN.operators[1:]))
    tiled = tile(graph, rows=2)
    assert tiled.nodes == ("a", "b[0:2]", "b[2:4]", "c step 0", "c") and tiled.predecessors[1:3] == ((0,), (0,))


def test_a_float_mean_is_not_accumulated():
    operators = (*CHAIN.operators[:2], replace(CHAIN.operators[2], accumulator=0))
    tiled = tile(replace(CHAIN, operators=operators), rows=2)
    assert tiled.nodes[-1] == "c" and len(tiled.predecessors[-1]) == 2


def test_outputs_in_place_of_parts_that_are_cut_alike():
    image = (4, 6)
    operators = (elementwise("in", image, [(None, image)]), elementwise("relu", image, [(0, image)]))
    net = graph_of(*operators, in_place=[(), (0,)])
    assert tile(net, rows=2).in_place == ((), (), (0,), (1,))
    assert tile(net, rows=2, layers=["a"]).in_place is None
    assert cut(net, {}).in_place == ((), (0,))


def test_scores_of_attention_are_cut_along_queries():
    tokens, scores = (6, 8), (2, 6, 6)
    net = graph_of(
        elementwise("q", tokens, [(None, tokens)]), elementwise("k", tokens, [(None, tokens)]),
        Operator("scores", scores, (Read(0, tokens, (Reach(1), None)), Read(1, tokens, (Reach(2), None)))),
        Operator("softmax", scores, (Read(2, scores, (Reach(0), Reach(1), None)),)),
    )  # fmt: skip
    tiled = tile(net, rows=3)
    row = tiled.index["c[0:3]"]
    assert [tiled.nodes[u] for u in tiled.predecessors[row]] == ["a[0:3]", "b[0:3]", "b[3:6]"]
    assert [tiled.nodes[u] for u in tiled.predecessors[tiled.index["d[3:6]"]]] == ["c[3:6]"]


def test_what_is_flattened_stays_whole():
    image, flat = (4, 4, 2), (32,)
    net = graph_of(
        elementwise("relu", image, [(None, image)]),
        Operator("flatten", flat, (Read(0, image, (Reach(0, divisor=8), None, None)),)),
    )
    assert tile(net, rows=2).nodes == ("a[0:2]", "a[2:4]", "b")


def test_facts_of_layers_are_kept_and_shared():
    graph = replace(
        CHAIN, labels=("one", "two", "three"), backward=(False, False, True), computed_once=(1,),
        device_durations={"gpu": (10, None, 7)}, workspaces=(3, 0, 1), fixed_memory={"parameters": 9},
    )  # fmt: skip
    tiled = tile(graph, rows=2)
    assert tiled.labels == ("one[0:2]", "one[2:4]", "two[0:2]", "two[2:4]", "three step 0", "three")
    assert tiled.backward == (False,) * 4 + (True,) * 2 and tiled.computed_once == (2, 3)
    assert tiled.device_durations == {"gpu": (5, 5, None, None, 3, 4)} and tiled.workspaces == (3, 3, 0, 0, 1, 1)
    assert tiled.fixed_memory == {"parameters": 9}


def test_tiled_graphs_are_written_and_read(tmp_path):
    tiled = tile(CHAIN, rows=1)
    write_graph(tiled, tmp_path / "tiled.json")
    assert read_graph(tmp_path / "tiled.json") == tiled


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing is to be cut: give rows, columns or channels"),
        ({"rows": 0}, "rows is 0, expected an integer of 1 or more"),
        ({"rows": True}, "rows is True, expected an integer of 1 or more"),
        ({"rows": 1, "layers": ["conv*"]}, "no layer is named 'conv*'"),
        ({"rows": 1, "layers": "conv*"}, "layers: expected a sequence of patterns, got 'conv*'"),
        ({"rows": 1, "layers": [7]}, "layers has 7, expected a pattern"),
    ],
)
def test_tile_refuses(arguments, message):
    with pytest.raises(InputError) as caught:
        tile(CHAIN, **arguments)
    assert str(caught.value) == message


def test_only_graphs_with_operators_are_tiled_and_only_once():
    with pytest.raises(InputError, match="^the graph has no operators"):
        tile(replace(CHAIN, operators=None), rows=1)
    with pytest.raises(InputError, match="^the graph is tiled: tile the one that it was made of$"):
        tile(tile(CHAIN, rows=1), rows=1)
    with pytest.raises(InputError, match=r"^node a: its output cannot be cut along \[7\]$"):
        cut(CHAIN, {0: {7: (0, 1, 2)}})


# --- Random graphs: sums, and edges found place by place ------------------------------------------------------


@st.composite
def reaches(draw, axis: int) -> Reach:
    small = st.integers(1, 3)
    return Reach(
        axis,
        draw(small),
        draw(small),
        draw(small),
        draw(st.integers(-2, 2)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )


@st.composite
def layered(draw) -> ComputationGraph:
    """A few layers of two axes, each reading some earlier ones by any windows."""
    operators: list[Operator] = []
    for at in range(draw(st.integers(1, 4))):
        shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
        sources = draw(st.lists(st.integers(0, at - 1), unique=True, max_size=2)) if at else []
        reads = []
        for source in sources:
            axes = tuple(draw(st.none() | reaches(draw(st.integers(0, 1)))) for _ in range(2))
            reads.append(Read(source, operators[source].shape, axes))
        operators.append(Operator("any", shape, tuple(reads), draw(st.sampled_from([0, 0, 4]))))
    return graph_of(*operators, unit=draw(st.integers(0, 3)))


@st.composite
def cut_layers(draw):
    graph = draw(layered())
    cuts = {}
    for v, operator in enumerate(graph.operators):
        axes = draw(st.lists(st.integers(0, 1), unique=True, max_size=2))
        inner = {axis: draw(st.sets(st.integers(1, max(1, operator.shape[axis] - 1)))) for axis in axes}
        cuts[v] = {axis: tuple(sorted({0, *at, operator.shape[axis]})) for axis, at in inner.items()}
    return graph, cuts


@pytest.mark.few(2)
@given(case=cut_layers())
def test_parts_add_up_to_their_layers(case):
    graph, cuts = case
    tiled = cut(graph, cuts)
    places = _places(graph, tiled)
    needed = _needed(graph, cuts)
    inner = {v: {axis: points for axis, points in own.items() if len(points) > 2} for v, own in cuts.items()}
    assert len(tiled.nodes) <= nodes_of(graph, inner)
    for v in range(len(graph.nodes)):
        own = [at for at, (layer, _) in enumerate(places) if layer == v]
        results = [at for at in own if " step " not in str(tiled.nodes[at])]
        boxes = _boxes(graph.operators[v].shape, cuts[v])
        kept = [box for box in boxes if (v, box) in needed]
        assert sorted(places[at][1] for at in results) == sorted(kept)
        volume, whole = (sum(map(_volume, each)) for each in (kept, boxes))
        assert sum(tiled.sizes[at] for at in results) == graph.sizes[v] * volume // whole
        rounded = 0 if kept == boxes else len(boxes)
        assert abs(sum(tiled.durations[at] for at in own) - graph.durations[v] * volume // whole) <= rounded


def _needed(graph, cuts):
    """All parts of layers that no other reads, and what these read, place by place; everything, if nothing is cut."""
    boxes = [_boxes(operator.shape, cuts[v]) for v, operator in enumerate(graph.operators)]
    cut_at_all = any(len(row) > 1 for row in boxes)
    waiting = [(v, box) for v, row in enumerate(boxes) for box in row if not (graph.successors[v] and cut_at_all)]
    found = set(waiting)
    while waiting:
        new = set(_met(graph, *waiting.pop(), boxes)) - found
        found |= new
        waiting += new
    return found


def _volume(box):
    return prod(stop - start for start, stop in box)


def test_rows_between_the_windows_of_a_stride_are_left_out():
    """Windows of three rows, ten rows apart: 7 of 21 rows are read, and what only the others read is left out too."""
    net = graph_of(
        elementwise("relu", (21, 4, 1), [(None, (21, 4, 1))]),
        elementwise("relu", (21, 4, 1), [(0, (21, 4, 1))]),
        window(1, 1, (21, 4, 1), (3, 4, 1), stride=10, window=3),
    )
    rows = {0, 1, 9, 10, 11, 19, 20}
    tiled = tile(net, rows=1)
    for name in "ab":
        assert {int(node[2:].split(":")[0]) for node in tiled.nodes if node[0] == name} == rows
    assert tiled.total_duration < net.total_duration
    assert tile(net, rows=3).nodes[:4] == ("a[0:3]", "a[9:12]", "a[18:21]", "b[0:3]")
    once = replace(net, computed_once=(0,))
    assert sum(node[0] == "a" for node in tile(once, rows=1).nodes) == 21


def test_a_sum_that_reads_nothing_but_padding_is_still_computed():
    reads = Read(0, (2, 1), (None, Reach(0, before=1)))
    net = graph_of(Operator("any", (2, 1)), Operator("any", (1, 1), (reads,), 4))
    tiled = cut(net, {0: {0: (0, 1, 2)}, 1: {}})
    assert tiled.nodes == ("b",) and tiled.durations == net.durations[1:]  # nothing reads a


@pytest.mark.parametrize("extents", [(1, None, None), (1, 1, None), (1, 1, 1), (2, 3, 4), (None, None, 1)])
def test_steps_of_sums_are_counted_with_the_parts(extents, monkeypatch):
    """A mean of parts over all parts of an image: as many steps as both together, which are refused before they are
    made."""
    read = Read(0, (8, 8, 6), (None, None, Reach(0)))
    net = graph_of(elementwise("relu", (8, 8, 6), [(None, (8, 8, 6))]), Operator("mean", (6,), (read,), 4))
    made = tile(net, *extents)
    assert nodes_of(net, cuts_of(net, *extents)) == len(made.nodes)
    monkeypatch.setattr(cutting, "PARTS_LIMIT", len(made.nodes))
    assert tile(net, *extents).nodes == made.nodes
    monkeypatch.setattr(cutting, "PARTS_LIMIT", len(made.nodes) - 1)
    monkeypatch.setattr(cutting, "_cut_layer", None)
    with pytest.raises(InputError, match=r"^more than \d+ parts and steps of sums over them: choose larger ones$"):
        tile(net, *extents)


@pytest.mark.few(2)
@given(case=cut_layers())
def test_a_part_reads_the_parts_that_its_places_read(case):
    graph, cuts = case
    tiled = cut(graph, cuts)
    places, reads = _places(graph, tiled), {}
    for at, place in enumerate(places):
        reads.setdefault(place, set()).update({places[u] for u in tiled.predecessors[at]} - {place})
    boxes = [_boxes(operator.shape, cuts[v]) for v, operator in enumerate(graph.operators)]
    assert reads == {(v, box): set(_met(graph, v, box, boxes)) for v, box in _needed(graph, cuts)}


def _boxes(shape, cuts):
    return list(product(*(list(pairwise(cuts.get(axis, (0, extent)))) for axis, extent in enumerate(shape))))


def _places(graph, tiled):
    """The layer and the box of each node of a tiled graph; all steps of a result have its box."""
    found = []
    for at, node in enumerate(tiled.nodes):
        part = tiled.parts[at] if tiled.parts else None
        v = graph.index[part.layer if part else node]
        found.append((v, part.box if part else tuple((0, extent) for extent in graph.operators[v].shape)))
    return found


def _met(graph, v, box, boxes):
    """The parts that hold a place that some place of the box reads, each axis for itself: of a diagonal its square."""
    for read in graph.operators[v].reads:
        by_place = [_read_by(read, place) for place in product(*(range(*each) for each in box))]
        touched = [set().union(*met) for met in zip(*by_place, strict=True)]
        for other in boxes[read.source]:
            if all(any(start <= x < stop for x in met) for met, (start, stop) in zip(touched, other, strict=True)):
                yield read.source, other


def _read_by(read, place):
    """By axis of an input the places that one place reads, by the definition of `Reach`."""

    def along(reach, extent):
        if reach is None:
            return range(extent)
        first = place[reach.axis] * reach.stride - reach.before
        met = [first + k * reach.dilation for k in range(reach.window)]
        met = [x // reach.divisor for x in met if not reach.exact or x % reach.divisor == 0]
        return [x for x in met if 0 <= x < extent]

    return [along(reach, extent) for reach, extent in zip(read.axes, read.shape, strict=True)]


# --- Single rows need no more than any parts of rows ----------------------------------------------------------


@st.composite
def schedules_of_rows(draw):
    """A graph, parts of several rows of it, and a schedule of them that computes some again."""
    graph = draw(layered())
    graph = replace(graph, operators=[replace(each, accumulator=0) for each in graph.operators])
    rows = cuts_of(graph, rows=1)
    coarse = {}
    for v, cuts in rows.items():
        for axis, points in cuts.items():
            inner = draw(st.sets(st.sampled_from(points[1:-1]))) if len(points) > 2 else set()
            coarse[v] = {axis: tuple(sorted({0, *inner, points[-1]}))}
    parts = cut(graph, coarse)
    sequence = list(parts.input_order())
    for _ in range(draw(st.integers(0, 6))):
        again = draw(st.sampled_from(sequence))
        sequence.insert(draw(st.integers(sequence.index(again) + 1, len(sequence))), again)
    return graph, parts, sequence, cut(graph, rows)


@pytest.mark.few(2)
@given(case=schedules_of_rows())
def test_single_rows_need_no_more_than_parts_of_rows(case):
    graph, parts, sequence, rows = case
    places, own = _places(graph, parts), _places(graph, rows)
    inside = [
        [at for at, (layer, box) in enumerate(own) if layer == v and all(map(_is_within, box, outer))]
        for v, outer in places
    ]
    by_rows = [at for part in sequence for at in inside[part]]
    one, other = simulate(parts, sequence), simulate(rows, by_rows)
    assert one.feasible and other.feasible and other.duration <= one.duration and other.peak <= one.peak


def _is_within(inner, outer):
    return outer[0] <= inner[0] and inner[1] <= outer[1]
