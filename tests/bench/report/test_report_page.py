"""The page in a real browser, at two widths: figures have a size and are drawn, and nothing is wider than the page."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path

import pytest
from browsing import BROWSER, browse
from report_frames import frames, row

from moccasin_mzn.bench.report.runs import read_runs
from moccasin_mzn.bench.report.sections import document
from moccasin_mzn.bench.report.writing import write

MEASURE = """<script>
addEventListener("load", () => {
  const box = (element) => { const r = element.getBoundingClientRect(); return [r.width, r.height]; };
  const told = {
    inner: innerWidth, scroll: document.documentElement.scrollWidth,
    figures: [...document.querySelectorAll(".panel svg")].map((svg) => ({
      size: box(svg), texts: [...svg.querySelectorAll("text")].filter((text) => box(text)[0] > 0).length,
      paths: [...svg.querySelectorAll("path")].filter((path) => Math.max(...box(path)) > 0).length,
    })),
    tables: [...document.querySelectorAll(".scroll")].map((scroll) => scroll.getBoundingClientRect().right),
  };
  const out = document.createElement("pre"); out.id = "told"; out.textContent = JSON.stringify(told);
  parent.document.body.append(out);
});
</script></head>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A report of 8 methods on 3 graphs and 2 budgets, two of them with long names."""
    rows, traces = [], {}
    for number in range(8):
        for nodes in (10, 30, 90):
            for budget in ("0.9", "0.8"):
                duration = 103 + number if number < 6 or nodes < 90 else None
                status = "unknown" if duration is None else "optimal" if number < 3 else "feasible"
                known = {"status": status, "duration": duration, "nodes": nodes, "seconds": 0.1 * nodes * (number + 1)}
                made = row(f"method number {number}, with a long name", f"a graph of {nodes} nodes", budget, **known)
                rows.append(made)
                traces[made["key"]] = [(0.03 * nodes, duration and duration + 10, 100), (0.06 * nodes, duration, 101)]
    folder = tmp_path_factory.mktemp("page")
    path, *_ = write(document(read_runs(*frames(rows, traces))), folder, ["html"])
    return path


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 400])
def test_figures_render_and_nothing_overflows(page, tmp_path, width):
    measured = escape(page.read_text().replace("</head>", MEASURE, 1))
    framed = tmp_path / "framed.html"  # a window is never narrower than 500, a frame is as narrow as it is told to be
    framed.write_text(
        f'<body style="margin: 0"><iframe style="border: 0" width="{width}" height="900" srcdoc="{measured}">'
    )
    dom = browse(framed, tmp_path / "profile", "--dump-dom", "--window-size=1400,1000")
    told = json.loads(unescape(re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)[1]))
    assert told["inner"] == width
    assert told["scroll"] <= width
    assert all(right <= width for right in told["tables"])
    assert len(told["figures"]) == 6 + 1 + 2 + 1 + 2
    for figure in told["figures"]:
        assert figure["size"][0] > 250 and figure["size"][1] > 150
        assert figure["size"][0] < width
        assert figure["texts"] > 4 and figure["paths"] > 12


@pytest.mark.full
def test_the_picture_has_the_colours_of_the_methods(page, tmp_path):
    from PIL import Image

    from moccasin_mzn.bench.report.drawing import COLORS

    picture = tmp_path / "page.png"
    browse(page, tmp_path / "profile", f"--screenshot={picture}", "--window-size=1280,9000")
    counts = {color: number for number, color in Image.open(picture).convert("RGB").getcolors(2**24)}
    for color in COLORS[:6]:
        assert counts.get(tuple(bytes.fromhex(color[1:])), 0) > 100
