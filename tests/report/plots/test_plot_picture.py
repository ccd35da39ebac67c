"""What a picture shows, as numbers, against the judge's account of the same schedule."""

from __future__ import annotations

import re

import pytest
from drawing import random_picture, sequence_of
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Action, Link, Memory, Platform
from moccasin_mzn.report.plots.interactive import render as render_page
from moccasin_mzn.report.plots.picture import LONGEST, MemoryScale, Picture, clean, row_name, spread, stages
from moccasin_mzn.report.plots.static import render

GRAPH = ComputationGraph(list("abcd"), [1, 2, 3, 4], [5, 6, 7, 8], [(0, 1), (1, 2), (1, 3), (2, 3)], size_unit="byte")
SEQUENCE = (0, 1, 2, 1, 3)

pictures = st.builds(random_picture, st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(["event", "stage"]))


def test_the_example_of_the_module():
    by_event = Picture.of_schedule(GRAPH, SEQUENCE, (0, 1, 2, 3), 20)
    assert by_event.stages == (1, 2, 3, 4, 4)
    assert by_event.edges == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    assert Picture.of_schedule(GRAPH, SEQUENCE, (0, 1, 2, 3), by="stage").edges == (0.5, 1.5, 2.5, 3.5, 4.0, 4.5)
    assert [(bar.node, bar.copy, bar.copies, bar.start, bar.end, bar.kind) for bar in by_event.bars] == [
        (0, 1, 1, 1, 4, "only"), (1, 1, 2, 2, 3, "first"), (2, 1, 1, 3, 5, "only"), (1, 2, 2, 4, 5, "again"),
        (3, 1, 1, 5, 5, "only"),
    ]  # fmt: skip
    assert by_event.panels[0].marked == (1,)
    assert by_event.profile_before.edges == (0.5, 1.5, 2.5, 3.5, 5.5)
    assert by_event.title == "graph: 4 nodes, 1 recomputation"
    assert by_event.subtitle == "duration increase (TDI) 20.000 %, peak 21 B / budget 20 B - OVER THE BUDGET"


@given(pictures)
def test_bars_are_the_intervals_of_the_judge(picture):
    sequence = sequence_of(picture)
    simulation = simulate(picture.graph, sequence)
    assert [(bar.node, bar.start, bar.end) for bar in picture.bars] == [
        (interval.node, interval.start, interval.end) for interval in simulation.intervals
    ]
    for v in range(len(picture.graph.nodes)):
        copies = [bar for bar in picture.bars if bar.node == v]
        assert [bar.copy for bar in copies] == list(range(1, len(copies) + 1))
        assert {bar.copies for bar in copies} == {sequence.count(v)}
        assert [bar.kind == "again" for bar in copies] == [
            bar.start != sequence_of(picture).index(v) + 1 for bar in copies
        ]


@given(pictures)
def test_the_axis_gives_every_position_and_every_stage_its_place(picture):
    n, edges = len(picture.order), picture.edges
    assert len(edges) == len(sequence_of(picture)) + 1
    assert all(left < right for left, right in zip(edges, edges[1:], strict=False))
    assert edges[-1] == pytest.approx((len(sequence_of(picture)) if picture.by == "event" else n) + 0.5)
    if picture.by == "stage":
        for p, k in enumerate(picture.stages):
            assert k - 0.5 <= edges[p] + 1e-9 and edges[p + 1] <= k + 0.5 + 1e-9
    firsts = [sequence_of(picture).index(v) for v in picture.order]
    assert [picture.stages[p] for p in firsts] == list(range(1, n + 1))


@given(pictures)
def test_the_input_order_has_the_width_of_the_stages(picture):
    before = picture.profile_before
    assert before.memory == simulate(picture.graph, picture.order).memory
    assert (before.edges[0], before.edges[-1]) == (picture.edges[0], picture.edges[-1])
    ends = [picture.edges[sequence_of(picture).index(v) + 1] for v in picture.order[:-1]]
    assert list(before.edges[1:-1]) == ends


def test_recomputations_after_the_last_first_computation_are_of_the_last_stage():
    assert stages((0, 1, 0, 2, 1, 0)) == (1, 2, 3, 3, 3, 3)
    assert stages(()) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence": (0, 2, 1, 3)}, "not a schedule: position 2: node c reads node b, which is not computed before"),
        ({"sequence": (0, 1, 2)}, "not a schedule: node d is never computed"),
        ({"by": "day"}, "axis 'day': expected event or stage"),
        ({"budget": -1}, "budget -1 is negative"),
        ({"order": (1, 0, 2, 3)}, "order"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(InputError, match=f"^{message}"):
        Picture.of_schedule(**{"graph": GRAPH, "sequence": SEQUENCE, "order": (0, 1, 2, 3), **options})


@given(
    st.sets(st.integers(0, 300), min_size=1).map(sorted), st.floats(1.5, 40)
)  # fmt: skip
def test_names_keep_their_distance(rows, distance):
    places = spread(rows, distance, 300)
    assert list(places) == sorted(places) and set(places) <= set(rows)
    assert len(places) == min(len(rows), int(300 / distance) + 1)
    at = list(places.values())
    assert all(later - earlier >= distance - 1e-9 for earlier, later in zip(at, at[1:], strict=False))
    assert at[0] >= -1e-9 and at[-1] <= 300


@pytest.mark.parametrize(
    ("largest", "unit", "expected"),
    [(3 * 2**30, "byte", "memory, GiB"), (2**20 - 1, "byte", "memory, KiB"), (0, "byte", "memory, B"),
     (5, "unit", "memory"), (5, "tiles", "memory, tiles")],
)  # fmt: skip
def test_memory_axes_have_units(largest, unit, expected):
    assert MemoryScale.of(largest, unit).title == expected


def test_names_hold_only_characters_that_xml_can_hold():
    assert clean("a\x07b\n c\ud800") == "a?b c?"


@pytest.mark.parametrize(
    ("node", "label", "expected"),
    [
        ("mul_8", "encoder.layers.1.self_attn aten.mul.Tensor", "…layers.1.self_attn (mul_8)"),
        ("mul_8", "model.encoder.layers.11.self_attn aten.mul.Tensor", "…layers.11.self_attn (mul_8)"),
        (12, "model.encoder.layers.3.attention.q_proj", "…layers.3.attention.q_proj (12)"),
        ("native_layer_norm_backward_4_output_1_2", "encoder.layers.0.norm2 a.x", "…layers.0.norm2 (native_la…_1_2)"),
        ("/model/layers.0/attn/q_proj/MatMul", "MatMul", "…0/attn/q_proj/MatMul (MatMul)"),
        ("conv", "a label without a path that goes on", "conv (a label with…that goes on)"),
        ("convolution_backward_3", "stage2.0.conv aten.convolution_backward", "stage2.0.conv (convolution_b…_3)"),
        ("block0.op0_conv", "Block 0, layer 0 of 12, convolution 7", "block0.op0_conv (Block …ution 7)"),
        ("n", "x." + "y" * 60, "…" + "y" * 27 + " (n)"),
        ("relu", "act", "relu (act)"),
    ],
)  # fmt: skip
def test_names_keep_the_end_of_a_path(node, label, expected):
    graph = ComputationGraph([node], [1], [1], [], labels=[label])
    name = row_name(graph, 0)
    assert name == expected and len(name) <= LONGEST


@given(
    st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="._/"), min_size=1, max_size=60),
    st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="._/ "), max_size=60),
    st.integers(12, 40),
)
def test_names_are_never_longer_than_asked_for(node, label, longest):
    graph = ComputationGraph([node], [1], [1], [], labels=[label or "a"])
    assert 0 < len(row_name(graph, 0, longest)) <= longest
    assert 0 < len(row_name(ComputationGraph([node], [1], [1], []), 0, longest)) <= longest


def test_all_amounts_of_a_figure_have_one_unit():
    sizes = (3 * 2**30, 5 * 2**20, 4 * 2**10, 0)
    graph = ComputationGraph(list("abcd"), [1] * 4, sizes, [(0, 1), (1, 2), (2, 3)], size_unit="byte")
    memories = (Memory("fast", 4 * 2**30, graph.durations), Memory("slow", 2**20, (None,) * 4))
    links = (Link(0, 1, (1,) * 4, (0,) * 4), Link(1, 0, (1,) * 4, (0,) * 4))
    plan = (Action(0), Action(1), Action(2), Action(2, 1, 0), Action(3))
    picture = Picture(Platform(graph, memories, links), plan, (0, 1, 2, 3))
    assert [picture.amount(size) for size in sizes] == ["3.00 GiB", "0.00488 GiB", "0.00000381 GiB", "0.00 GiB"]
    for text in (render(picture, "svg").decode(), render_page(picture).partition("<body>")[2]):
        assert "GiB" in text and not re.search(r"\d [KM]iB|memory, [KM]iB", text)
