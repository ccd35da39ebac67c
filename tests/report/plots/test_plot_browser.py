"""HTML pages in a real browser: all is drawn, seen in the first screen, and right in narrow and in dark windows."""

from __future__ import annotations

import json
import re
from html import escape, unescape

import pytest
from browsing import BROWSER, browse
from drawing import random_picture, random_schedule
from few import few
from paging_cases import draw_problem

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.report.plots.html_page import NIGHT
from moccasin_mzn.report.plots.interactive import render
from moccasin_mzn.report.plots.picture import COLOURS, GROUND, INK, Picture

pytestmark = [pytest.mark.full, pytest.mark.skipif(BROWSER is None, reason="no chromium here")]

MEASURE = """<script>
addEventListener("load", () => { ACT; setTimeout(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const box = (of) => { const r = of.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const reported = {
    inner: innerWidth, scroll: document.documentElement.scrollWidth,
    ground: getComputedStyle(document.body).backgroundColor,
    figure: box(document.getElementById("figure")), memory: box(document.querySelector(".subplot.xy")),
    toolbar: box(document.querySelector(".modebar")), buttons: all("button[data-traces]").map(box),
    texts: all("#figure text").filter((text) => text.textContent).map(
      (text) => [text.textContent, getComputedStyle(text.querySelector("tspan[style]") || text).fill, box(text)]),
    bars: all("g.point path").map((path) => path.getBoundingClientRect().width),
    rows: document.getElementById("figure").layout.yaxis2.range,
    tips: all("[data-title]").map((button) => button.dataset.title),
  };
  const out = document.createElement("pre"); out.id = "reported"; out.textContent = JSON.stringify(reported);
  parent.document.body.append(out);
}, 500); });
</script></head>"""


def measured(page: str, folder, width: int, dark: bool, act: str = "") -> dict:
    """What a browser reports of a page in a window of this width, 900 high, after a script."""
    framed = folder / "framed.html"  # a window is never narrower than 500, a frame is as narrow as it is reported to be
    inside = escape(page.replace("</head>", MEASURE.replace("ACT", act), 1))
    framed.write_text(
        f'<meta charset="utf-8"><meta name="color-scheme" content="light dark"><body style="margin: 0">'
        f'<iframe style="border: 0" width="{width}" height="900" srcdoc="{inside}">'
    )
    scheme = f"--blink-settings=preferredColorScheme={int(not dark)}"
    flags = ("--dump-dom", "--window-size=1400,1000", "--virtual-time-budget=20000", scheme)
    dom = browse(framed, folder / "profile", *flags, "--host-resolver-rules=MAP * ~NOTFOUND")
    return json.loads(unescape(re.search(r'<pre id="reported">(.*?)</pre>', dom, re.DOTALL)[1]))


def rgb(colour: str) -> str:
    """How a browser writes a colour."""
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def large(nodes: int) -> Picture:
    """A chain with labels of modules and thirty recomputations."""
    order = tuple(range(nodes))
    labels = [f"model.encoder.layers.{v}.attention.output aten.mm" for v in order]
    graph = ComputationGraph(order, [1] * nodes, [2**28] * nodes, [(v, v + 1) for v in range(nodes - 1)], labels=labels,
                             size_unit="byte")  # fmt: skip
    return Picture.of_schedule(graph, random_schedule(order, 30, 1), order, 2**30)


def plan() -> Picture:
    """A plan of two memories."""
    problem = next(p for p in map(draw_problem, range(100)) if len(p.platform.links) == 2)
    first, *rest = problem.instance.order
    actions = (Action(first), Action(first, 1, 0), Action(first, 0, 1), *map(Action, rest), Action(first))
    return Picture(problem.platform, actions, problem.instance.order)


PICTURES = {"small": lambda: random_picture(7, 6, "event", budget=12), "100": lambda: large(100),
            "1000": lambda: large(1000), "plan": plan}  # fmt: skip


@pytest.mark.parametrize(
    ("width", "dark"),
    few([(1280, False), (1280, True), (400, False), (400, True)], [(1280, True), (400, False)], pytest.mark.slow),
)
@pytest.mark.parametrize("name", PICTURES)
def test_pages_are_right_at_every_width_light_and_dark(tmp_path, name, width, dark):
    picture = PICTURES[name]()
    reported = measured(render(picture), tmp_path, width, dark)
    assert reported["inner"] == width >= reported["scroll"]
    assert reported["ground"] == rgb(NIGHT[GROUND] if dark else GROUND)
    assert len(reported["bars"]) == len(picture.bars) and min(reported["bars"]) > 0
    assert reported["memory"][3] < 900, "memory is in the first screen"
    for left, _, right, bottom in reported["buttons"]:
        assert 0 <= left < right <= width and bottom <= reported["figure"][1], "the legend covers nothing"
    assert reported["toolbar"][0] >= max(reported["memory"][2] - 1, 0) and reported["toolbar"][2] <= width
    texts = [text for text, *_ in reported["texts"]]
    for text, _, (left, _, right, _) in reported["texts"]:
        assert left >= -1 and right <= width + 1, f"{text} is cut off"
    inks = {colour for _, colour, _ in reported["texts"]}
    assert inks == {rgb(NIGHT[each] if dark else each) for each in (INK, COLOURS["again"])}
    marked = picture.panels[0].marked
    named = [text for text, colour, _ in reported["texts"] if colour == rgb(NIGHT[COLOURS["again"]] if dark else
                                                                        COLOURS["again"])]  # fmt: skip
    ids = {str(picture.graph.nodes[v]) for v in marked}
    assert named and {text.rpartition("(")[2].rstrip(")") for text in named} <= ids
    if name in ("small", "100"):
        assert len(texts) > len(picture.order), "all rows have names"
    assert set(reported["tips"]) == {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Download plot as a PNG"}


def test_zoomed_rows_have_all_names_and_stay_zoomed_when_a_trace_is_hidden(tmp_path):
    picture = large(1000)
    zoom = 'Plotly.relayout("figure", {"yaxis2.range": [130.4, 99.6]})'
    hide = 'document.querySelectorAll("button[data-traces]")[3].click()'
    whole, reported = (measured(render(picture), tmp_path, 1280, False, act) for act in ("", f"{zoom}; {hide}"))
    assert whole["rows"] == [999.6, -0.6] and reported["rows"] == [130.4, 99.6]
    names = [text for text, *_ in reported["texts"] if "(" in text]
    assert [int(name.rpartition("(")[2].rstrip(")")) for name in names] == list(range(130, 99, -1))
    assert 0 < len(reported["bars"]) < len(whole["bars"]) == len(picture.bars)
