"""HTML pages: what they hand to plotly, and what a real browser makes of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from drawing import KINDS, NO_SHRINKING, figure, random_picture
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.report.plots.interactive import render
from moccasin_mzn.report.plots.picture import COLOURS, Picture
from moccasin_mzn.report.plots.picture import KINDS as NAMES

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


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
    assert traces[0]["hovertext"][0].startswith("<b>&lt;img src=x&gt;</b> &lt;i&gt;<br>copy 1 of 1<br>")
    assert layout["yaxis"]["labelalias"] == {"0": "&lt;img src=x&gt; (&lt;i&gt;)", "1": "b&amp;amp; ($)"}


def test_both_panels_share_their_zoom_and_nothing_is_loaded():
    page = render(random_picture(5, 4, "event"))
    _, layout = figure(page)
    assert layout["xaxis"]["matches"] == "x2"
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


@pytest.mark.full
@pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")
@pytest.mark.parametrize("width", [1200, pytest.param(500, marks=pytest.mark.slow)])
def test_a_browser_draws_every_bar(tmp_path, width):
    picture = random_picture(7, 6, "event", budget=12)
    page = tmp_path / "picture.html"
    page.write_text(render(picture))
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--virtual-time-budget=20000",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    bars = re.findall(r'<g class="point"><path d="M(-?[\d.]+),[^"]*H(-?[\d.]+)', dom)
    assert len(bars) == len(picture.bars)
    assert all(float(right) > float(left) for left, right in bars)
    shown = set(re.findall(r"<text[^>]*>([^<]+)</text>", dom))
    assert {picture.axis_title, "budget 12", "nodes in the input order", "memory"} <= shown
    assert len(re.findall(r'class="trace scatter', dom)) >= 4
    buttons = set(re.findall(r'data-title="([^"]+)"', dom))
    assert buttons == {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Download plot as a PNG"}  # none shares
