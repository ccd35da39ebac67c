"""Pictures of fronts: what is in the files is measured against the front."""

from __future__ import annotations

import re

import pytest
from drawing import colours
from drawing_of_fronts import NO_SHRINKING, figure, groups, paths, uses
from hypothesis import given, settings
from hypothesis import strategies as st
from stairs import GRAPH, Stairs, stairs

from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.api.frontier.sweep import SweepPlan, sweep
from moccasin_mzn.report.plots.files import write_picture
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.html_page import NIGHT
from moccasin_mzn.report.plots.interactive_frontier import render_frontier as render_page
from moccasin_mzn.report.plots.picture import GROUND
from moccasin_mzn.report.plots.static import frontier_figure_of
from moccasin_mzn.report.plots.static import render_frontier as render

OPEN = Frontier(
    GRAPH,
    (
        FrontierPoint(6, None, 60, None, None, "unknown"),
        FrontierPoint(10, 50, 45, 9, (0, 1, 0), "feasible"),
        FrontierPoint(16, 44, 44, 14, (0, 1, 0), "optimal"),
        FrontierPoint(20, 40, 40, 20, (0, 1), "optimal"),
    ),
    20, 40, 5, 9,
)  # fmt: skip


def test_frontier_picture_has_steps_and_points():
    picture = FrontierPicture(OPEN)
    assert picture.infeasible == 25
    assert (picture.durations.edges[:3], picture.durations.values) == ((45, 70, 100), (25, pytest.approx(10), 0))
    assert picture.bounds.edges[:5] == (25, 30, 50, 80, 100)
    assert picture.bounds.values == pytest.approx((50, 12.5, 10, 0, 0))
    boxes = [tuple(round(value, 6) for value in box) for box in picture.gap]
    assert boxes == [
        (25, 30, 50, round(picture.top, 6)), (30, 45, 12.5, round(picture.top, 6)), (45, 50, 12.5, 25),
        (50, 70, 10, 25), (80, 100, 0, 10),
    ]  # fmt: skip
    assert [(mark.x, round(mark.y, 6), mark.point.proven) for mark in picture.marks] == [
        (50, 25, False), (80, 10, True), (100, 0, True)
    ]  # fmt: skip
    assert picture.input_order == (100, 0)
    assert picture.left < 25 and picture.right > 100 and picture.top > 50


@given(stairs(), st.integers(2, 9))
def test_bounds_are_never_above_durations(heights, points):
    picture = FrontierPicture(sweep(Stairs(heights), SweepPlan(points, 1000)))
    for edge in (*picture.durations.edges[:-1], *picture.bounds.edges[:-1]):
        bound, duration = picture.bounds.at(edge), picture.durations.at(edge)
        assert bound is None or duration is None or bound <= duration
    for box in picture.gap:
        assert box[0] < box[1] and box[2] < box[3]


@pytest.mark.full
@settings(max_examples=3, phases=NO_SHRINKING)
@given(stairs(), st.integers(2, 9), st.booleans())
def test_files_hold_every_point(heights, points, vague):
    front = sweep(Stairs(heights, vague=vague), SweepPlan(points, 1000))
    picture = FrontierPicture(front)
    drawn = groups(render(picture, "svg"))
    proven = sum(point.proven for point in front.found)
    assert uses(drawn.get("proven")) == proven
    assert uses(drawn.get("open")) == len(front.found) - proven
    assert len(paths(drawn.get("gap"))) == len(picture.gap)
    assert {"durations", "bounds", "input-order"} <= drawn.keys()
    traces = {trace["name"]: trace for trace in figure(render_page(picture))[0]}
    xs = [x for name in ("proven shortest", "not proven") for x in traces.get(name, {"x": []})["x"]]
    assert sorted(xs) == pytest.approx(sorted(front.budget_percent(point.budget) for point in front.found))
    assert tuple(traces["shortest schedule known"]["x"]) == picture.durations.edges
    assert tuple(traces["bound"]["y"][:-1]) == picture.bounds.values


def test_the_legend_of_a_frontier_covers_no_data():
    drawn = frontier_figure_of(FrontierPicture(OPEN))
    drawn.draw_without_rendering()
    (axes, *_), (legend,) = drawn.axes, drawn.legends
    own = legend.get_window_extent()
    assert own.y1 <= axes.get_window_extent().y0 and 0 <= own.x0 < own.x1 <= drawn.bbox.x1 and own.y0 >= 0
    assert not axes.get_legend()


def test_frontier_pages_have_only_colours_with_a_partner_for_dark_pages():
    used = colours(render_page(FrontierPicture(OPEN)))
    assert len(used) >= 7 and used <= set(NIGHT)


def test_hollow_where_open_and_hatched_where_infeasible():
    drawn = groups(render(FrontierPicture(OPEN), "svg"))
    assert "infeasible" in drawn
    assert (uses(drawn["proven"]), uses(drawn["open"])) == (2, 1)
    traces = {trace["name"]: trace for trace in figure(render_page(FrontierPicture(OPEN)))[0]}
    assert traces["not proven"]["marker"]["color"] == GROUND != traces["proven shortest"]["marker"]["color"]
    assert traces["proven: no schedule"]["x"][1] == 25
    text = traces["not proven"]["hovertext"][0]
    assert "budget 10 (50.0 %), feasible" in text and "duration 50, +25.000 %" in text and "bound +12.500 %" in text


@pytest.mark.full
def test_names_are_shown_as_they_are():
    from dataclasses import replace

    graph = replace(GRAPH, name="</script><b>$x$")
    page = render_page(FrontierPicture(replace(OPEN, graph=graph)))
    assert "<h1>&lt;/script&gt;&lt;b&gt;$x$: duration against memory" in page
    assert b"&lt;/script&gt;&lt;b&gt;$x$" in render(FrontierPicture(replace(OPEN, graph=graph)), "svg")


@pytest.mark.full
def test_pages_load_nothing_and_are_the_same_again():
    page = render_page(FrontierPicture(OPEN))
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    assert page == render_page(FrontierPicture(OPEN))
    assert render(FrontierPicture(OPEN), "svg") == render(FrontierPicture(OPEN), "svg")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("A.SVG", b"<?xml"), ("a.html", b"<!DOCTYPE html>")]
)
def test_frontier_picture_has_the_format_of_its_suffix(tmp_path, name, start):
    write_picture(tmp_path / name, FrontierPicture(OPEN))
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "front",
    [
        Frontier(GRAPH, (FrontierPoint(0, 0, 0, 0, (0, 1), "optimal"),), 0, 0, 0, 0),
        Frontier(GRAPH, (FrontierPoint(3, None, 40, None, None, "infeasible"),), 20, 40, 5, 20),
    ],
)
def test_frontiers_with_hardly_anything_to_see(front):
    found = len(front.found)
    assert uses(groups(render(FrontierPicture(front), "svg")).get("proven")) == found
    names = [trace["name"] for trace in figure(render_page(FrontierPicture(front)))[0]]
    assert ("proven shortest" in names) == bool(found)
