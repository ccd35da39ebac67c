"""HTML pages: what they hand to plotly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from drawing import KINDS, NO_SHRINKING, colours, figure, random_picture, random_schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.report.plots.html_page import NIGHT
from moccasin_mzn.report.plots.interactive import render
from moccasin_mzn.report.plots.picture import AFTER, BUDGET, COLOURS, GROUND, INK, Picture
from moccasin_mzn.report.plots.picture import KINDS as NAMES


@settings(max_examples=10, phases=NO_SHRINKING)
@given(st.integers(0, 10**6), st.integers(0, 9), st.sampled_from(["event", "stage"]))
def test_interactive_pictures_have_a_bar_for_every_interval(seed, recomputations, by):
    picture = random_picture(seed, recomputations, by, budget=1 + seed % 40)
    traces, _ = figure(render(picture))
    bars = {trace["name"]: trace for trace in traces if trace["type"] == "bar"}
    for kind in KINDS:
        expected = [bar for bar in picture.bars if bar.kind == kind]
        if not expected:
            assert NAMES[kind] not in bars
            continue
        trace = bars[NAMES[kind]]
        assert trace["marker"]["color"] == COLOURS[kind]
        assert trace["y"] == [str(picture.panels[0].rows[bar.node]) for bar in expected]
        assert trace["base"] == [picture.edges[bar.start - 1] for bar in expected]
        ends = [base + length for base, length in zip(trace["base"], trace["x"], strict=True)]
        assert ends == pytest.approx([picture.edges[bar.end] for bar in expected])
        for bar, text in zip(expected, trace["hovertext"], strict=True):
            assert f"<b>{picture.graph.nodes[bar.node]}</b><br>copy {bar.copy} of {bar.copies}<br>" in text
            assert f"events {bar.start}..{bar.end}, stages " in text
    lines = {trace["name"]: trace for trace in traces if trace.get("name") and trace["type"] != "bar"}
    budget = lines[f"budget {picture.panels[0].budget}"]
    assert budget["y"] == [picture.panels[0].budget, picture.panels[0].budget]
    (after,) = (trace for name, trace in lines.items() if name.startswith("schedule, peak"))
    assert tuple(after["y"]) == (*picture.panels[0].after.memory, picture.panels[0].after.memory[-1])
    assert tuple(after["x"]) == picture.edges
    assert ("recomputation" in lines) == (recomputations > 0)
    if recomputations:
        assert len(lines["recomputation"]["x"]) == recomputations


def test_interactive_pictures_show_names_as_they_are():
    graph = ComputationGraph(
        ["<img src=x>", "b&amp;"], [1, 2], [3, 4], [(0, 1)], name="</script><b>", labels=["<i>", "$"]
    )
    page = render(Picture.of_schedule(graph, (0, 1), (0, 1)))
    assert "<h1>&lt;/script&gt;&lt;b&gt;: 2 nodes, 0 recomputations</h1>" in page
    traces, layout = figure(page)
    bars = next(trace for trace in traces if trace["type"] == "bar")
    assert bars["hovertext"][0].startswith("<b>&lt;img src=x&gt;</b> &lt;i&gt;<br>copy 1 of 1<br>")
    assert layout["yaxis2"]["labelalias"] == {"0": "&lt;img src=x&gt; (&lt;i&gt;)", "1": "b&amp;amp; ($)"}


def test_both_panels_share_their_zoom_and_nothing_is_loaded():
    page = render(random_picture(5, 4, "event"))
    _, layout = figure(page)
    assert {layout["xaxis"].get("matches"), layout["xaxis2"].get("matches")} == {None, "x2"}
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)


def test_pages_have_few_traces():
    few, _ = figure(render(random_picture(5, 1, "event", budget=9)))
    many, _ = figure(render(random_picture(5, 60, "event", budget=9)))
    assert len(few) == len(many) <= 10


@pytest.mark.full
def test_the_same_picture_gives_the_same_bytes():
    code = "import sys; from drawing import random_picture as p;"
    code += "from moccasin_mzn.report.plots.interactive import render as r;"
    code += "sys.stdout.buffer.write(r(p(5, 4, 'stage', budget=20)).encode())"
    folders = os.pathsep.join(path for path in sys.path if path)
    pages = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folders},
            capture_output=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert pages == {render(random_picture(5, 4, "stage", budget=20)).encode()}


@pytest.mark.parametrize("nodes", [1, 20, 100, 101, 1000])
def test_memory_is_in_the_first_screen_however_many_nodes_there_are(nodes):
    order = tuple(range(nodes))
    graph = ComputationGraph(order, [1] * nodes, [1] * nodes, [(v, v + 1) for v in range(nodes - 1)])
    _, layout = figure(render(Picture.of_schedule(graph, order, order)))
    inside = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    memory, intervals = layout["yaxis"], layout["yaxis2"]
    assert memory["title"]["text"] == "memory" and memory["domain"][0] > intervals["domain"][1]
    assert (1 - memory["domain"][0]) * inside <= 300
    assert layout["xaxis"]["showticklabels"] and layout["xaxis"]["title"]["text"]


@pytest.mark.parametrize("nodes", [20, 1000])
def test_every_recomputed_node_is_in_the_table_with_its_full_name(nodes):
    order = tuple(range(nodes))
    graph = ComputationGraph(order, [1] * nodes, [1] * nodes, [(v, v + 1) for v in range(nodes - 1)],
                             labels=[f"model.encoder.layers.{v}.attention.output aten.mm" for v in order])  # fmt: skip
    sequence = random_schedule(order, 30, 1)
    page = render(Picture.of_schedule(graph, sequence, order))
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", page)
    again = [v for v in order if sequence.count(v) > 1]
    assert [name for name, _ in rows] == [f"{v} ({graph.labels[v]})" for v in again]
    for (_, events), v in zip(rows, again, strict=True):
        assert [int(event) for event in events.replace(",", "").split()] == [
            at for at, node in enumerate(sequence, 1) if node == v
        ]
    assert 'href="#nodes"' in page
    assert 'href="#nodes"' not in render(Picture.of_schedule(graph, order, order))


def test_the_legend_is_beside_the_figure_and_has_every_trace_once():
    page = render(random_picture(5, 4, "event", budget=9))
    traces, layout = figure(page)
    assert layout["showlegend"] is False
    buttons = re.findall(r'<button type="button" data-traces="(.*?)">.*?</svg> (.*?)</button>', page)
    assert sorted(place for places, _ in buttons for place in json.loads(places)) == list(range(len(traces)))
    for places, text in buttons:
        assert text in {traces[place].get("name") for place in json.loads(places)}


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_lines_and_texts_contrast_with_light_and_dark_pages():
    for night in (False, True):
        ground, ink, *lines = (
            NIGHT[colour] if night else colour
            for colour in (GROUND, INK, COLOURS["first"], COLOURS["again"], COLOURS["copied"], AFTER, BUDGET)
        )
        assert contrast(ink, ground) > 7
        assert all(contrast(line, ground) > 3 for line in lines)
    assert set(COLOURS.values()) < set(NIGHT)


def test_only_colours_with_a_partner_for_dark_pages_are_used():
    used = colours(render(random_picture(5, 4, "event", budget=9)))
    assert len(used) >= 8 and used <= set(NIGHT)
