"""SVG and PNG files: what is in them is measured against the picture."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from drawing import KINDS, NO_SHRINKING, SVG, corners, groups, random_picture, random_schedule, sequence_of
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox
from paging_cases import draw_problem

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.report.plots.picture import Picture
from moccasin_mzn.report.plots.static import figure_of, render

CLOSE = 0.01  # points


def chain(n: int) -> ComputationGraph:
    return ComputationGraph(range(n), [1] * n, [1] * n, [(v, v + 1) for v in range(n - 1)])


def extent(points: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    """Left, right, top, bottom."""
    xs, ys = zip(*points, strict=True)
    return min(xs), max(xs), min(ys), max(ys)


def drawn_bars(picture: Picture, found: dict) -> dict[str, list[tuple[float, float, float, float]]]:
    """Extents of the bars by kind, with x in units of the axis and y in rows."""
    raw = {kind: [extent(points) for points in corners(found.get(f"bars-{kind}"))] for kind in KINDS}
    boxes = [box for kind in KINDS for box in raw[kind]]
    left, right = min(box[0] for box in boxes), max(box[1] for box in boxes)
    middles = [(box[2] + box[3]) / 2 for box in boxes]
    top, bottom, rows = min(middles), max(middles), len(picture.order) - 1
    first, last = picture.edges[0], picture.edges[-1]

    def x(at: float) -> float:
        return first + (at - left) / (right - left) * (last - first)

    def y(at: float) -> float:
        return (at - top) / (bottom - top) * rows if rows else 0.0

    return {kind: [(x(a), x(b), y(c), y(d)) for a, b, c, d in raw[kind]] for kind in KINDS}


@pytest.mark.full
@settings(max_examples=8, phases=NO_SHRINKING)
@given(st.integers(0, 10**6), st.integers(0, 9), st.sampled_from(["event", "stage"]))
def test_static_pictures_have_a_bar_for_every_interval(seed, recomputations, by):
    picture = random_picture(seed, recomputations, by)
    drawn = drawn_bars(picture, groups(render(picture, "svg")))
    for kind in KINDS:
        expected = [bar for bar in picture.bars if bar.kind == kind]
        assert len(drawn[kind]) == len(expected)
        for bar, (left, right, top, bottom) in zip(expected, drawn[kind], strict=True):
            assert left == pytest.approx(picture.edges[bar.start - 1], abs=CLOSE)
            assert right == pytest.approx(picture.edges[bar.end], abs=CLOSE)
            assert (top + bottom) / 2 == pytest.approx(picture.panels[0].rows[bar.node], abs=CLOSE)
            assert bottom - top < 1


@pytest.mark.full
@settings(max_examples=8, phases=NO_SHRINKING)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_memory_and_budget_are_to_scale(seed, recomputations):
    picture = random_picture(seed, recomputations, "event", budget=1 + seed % 40)
    found = groups(render(picture, "svg"))
    (after,), (before,) = corners(found["memory-after"]), corners(found["memory-before"])
    (budget,) = corners(found["budget"])
    zero, peak = max(y for _, y in after), min(y for _, y in after)
    if not picture.panels[0].after.peak:
        return
    unit = (zero - peak) / picture.panels[0].after.peak

    def levels(points):
        return {round((zero - y) / unit, 2) for _, y in points}

    assert levels(budget) == {picture.panels[0].budget}
    assert levels(after) == {0, *picture.panels[0].after.memory}
    assert levels(before) == set(picture.before.memory)
    left, right = (x for x, _ in budget)
    width = (right - left) / len(sequence_of(picture))
    for points, profile in ((after, picture.panels[0].after), (before, picture.profile_before)):
        for x, _ in points:
            at = 0.5 + (x - left) / width
            assert any(at == pytest.approx(edge, abs=CLOSE) for edge in profile.edges)


@pytest.mark.full
@settings(max_examples=4, phases=NO_SHRINKING)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_recomputations_are_marked_and_joined_to_the_copy_before(seed, recomputations):
    picture = random_picture(seed, recomputations, "event")
    found = groups(render(picture, "svg"))
    assert len(list(found["recomputations"].iter(f"{SVG}use"))) == recomputations
    assert len(corners(found["dropped"])) == recomputations


def test_texts_name_the_peaks_the_budget_and_all_nodes():
    name = "<b>&amp; $x^2$\x07"
    graph = ComputationGraph(
        ["in", "out"], [1, 1], [2**30, 2**29], [(0, 1)], name=name, labels=["$\\alpha$", "x" * 99], size_unit="byte"
    )
    found = groups(render(Picture.of_schedule(graph, (0, 0, 1), (0, 1), 3 * 2**29), "svg"))
    texts = {text.text for group in found.values() for text in group.iter(f"{SVG}text")}
    assert {
        "<b>&amp; $x^2$?: 2 nodes, 1 recomputation",
        "duration increase (TDI) 50.000 %, peak 1.50 GiB / budget 1.50 GiB",
        "in ($\\alpha$)", "schedule, peak 1.50 GiB", "input order, stage by stage, peak 1.50 GiB", "budget 1.50 GiB",
        "memory, GiB",
    } <= texts  # fmt: skip
    assert any(text.startswith("out (xxx") and text.endswith("…" + 13 * "x" + ")") for text in texts)


def test_without_recomputation_and_budget_neither_is_drawn():
    found = groups(render(Picture.of_schedule(chain(3), (0, 1, 2), (0, 1, 2)), "svg"))
    assert len(corners(found["bars-only"])) == 3
    assert not {"bars-first", "bars-again", "recomputations", "budget"} & set(found)


@pytest.mark.parametrize("size", [0, 7])
def test_static_picture_of_a_single_node(size):
    graph = ComputationGraph(["a"], [0], [size], [])
    found = groups(render(Picture.of_schedule(graph, (0,), (0,), 5, "stage"), "svg"))
    assert len(corners(found["bars-only"])) == 1


def test_a_thousand_nodes_are_small_and_the_recomputed_are_named():
    graph = chain(1000)
    picture = Picture.of_schedule(graph, random_schedule(tuple(range(1000)), 40, 1), tuple(range(1000)), 3)
    svg = render(picture, "svg")
    found = groups(svg)
    assert sum(len(corners(found[f"bars-{kind}"])) for kind in KINDS) == 1040
    assert len(svg) < 1_000_000
    texts = {text.text for group in found.values() for text in group.iter(f"{SVG}text")}
    assert {str(v) for v in picture.panels[0].marked} <= texts


@pytest.mark.slow
def test_many_bars_are_pixels_in_an_svg():
    n = 9000
    svg = render(Picture.of_schedule(chain(n), tuple(range(n)), tuple(range(n)), 2), "svg")
    assert len(svg) < 3_000_000
    assert b"data:image/png;base64" in svg


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_picture_gives_the_same_bytes_whatever_styles_are_set(form):
    import matplotlib

    picture = random_picture(5, 4, "stage", budget=20)
    first = render(picture, form)
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.facecolor": "red"}):
        assert render(picture, form) == first
        assert matplotlib.rcParams["font.size"] == 30


def test_a_png_is_a_png():
    data = render(random_picture(5, 4, "event"), "png")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 1350 and 500 < height < 2500


def legends(drawn: Figure) -> Iterator[tuple[Legend, list[Bbox]]]:
    """Each legend, and the boxes that have data: its axes, or all of the figure."""
    for axes in drawn.axes:
        if axes.get_legend():
            yield axes.get_legend(), [axes.get_window_extent()]
    for legend in drawn.legends:
        yield legend, [axes.get_window_extent() for axes in drawn.axes]


def check_legends(drawn: Figure) -> None:
    """Legends are whole and cover no data."""
    drawn.draw_without_rendering()
    found = list(legends(drawn))
    assert found
    for legend, boxes in found:
        own = legend.get_window_extent()
        assert (
            drawn.bbox.x0 <= own.x0 and own.x1 <= drawn.bbox.x1 and drawn.bbox.y0 <= own.y0 and own.y1 <= drawn.bbox.y1
        )
        for box in boxes:
            assert own.y0 >= box.y1 - 0.5 or own.y1 <= box.y0 + 0.5
        labels = [text.get_text() for text in legend.get_texts()]
        assert len(set(labels)) == len(labels)


def test_legends_are_whole_and_cover_no_data():
    names = [f"model.encoder.layers.{v}.attention.output aten.mm" for v in range(30)]
    graph = ComputationGraph(range(30), [1] * 30, [255 * 2**40] * 30, [(v, v + 1) for v in range(29)], labels=names,
                             size_unit="byte")  # fmt: skip
    order = tuple(range(30))
    check_legends(figure_of(Picture.of_schedule(graph, random_schedule(order, 9, 1), order, 2**52)))
    problem = next(p for p in map(draw_problem, range(100)) if len(p.platform.links) == 2)
    first, *rest = problem.instance.order
    actions = (Action(first), Action(first, 1, 0), Action(first, 0, 1), *map(Action, rest), Action(first))
    check_legends(figure_of(Picture(problem.platform, actions, problem.instance.order)))


def test_lines_of_a_panel_have_colours_of_their_own_and_axes_have_titles():
    picture = random_picture(5, 4, "event", budget=9)
    drawn = figure_of(picture)
    intervals, memory = drawn.axes
    assert memory.get_ylabel() == "memory" and memory.get_xlabel() == picture.axis_title
    for axes in (intervals, memory):
        handles, labels = axes.get_legend_handles_labels()
        colours = [to_hex(first_colour(handle)) for handle, label in zip(handles, labels, strict=True)
                   if label != "recomputation"]  # fmt: skip
        assert len(set(colours)) == len(colours) >= 3


def first_colour(handle):
    """The colour of what a legend shows: of a patch its edge or its face."""
    if hasattr(handle, "get_markeredgecolor"):
        return handle.get_color()
    if hasattr(handle, "get_facecolors"):
        return handle.get_facecolors()[0]
    return handle.get_edgecolor()


def test_a_pdf_has_texts_and_the_same_bytes_each_time():
    picture = random_picture(5, 4, "event", budget=9)
    data = render(picture, "pdf")
    assert data.startswith(b"%PDF-") and b"CreationDate" not in data
    assert b"/FontFile2" in data, "fonts are in the file as TrueType, as journals want it"
    assert data == render(picture, "pdf")
