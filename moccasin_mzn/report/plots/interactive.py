"""Interactive HTML pictures of schedules, drawn by plotly.

Memory is on top, so that it is in the first screen. Below it are the retention intervals, however many there are, and a
table of the nodes that are recomputed. The same picture gives the same bytes.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from plotly.graph_objects import Bar as BarTrace
from plotly.graph_objects import Scatter
from plotly.subplots import make_subplots

from moccasin_mzn.base.formatting import duration_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.report.plots.html_page import LAYOUT, MARGINS, Entry, NamedRows, Page, table_of
from moccasin_mzn.report.plots.picture import (
    AFTER,
    BEFORE,
    BUDGET,
    COLOURS,
    GRID,
    GROUND,
    KINDS,
    LONGEST,
    MARKS,
    PALE,
    Bar,
    Panel,
    Picture,
    Profile,
    clean,
    row_name,
    shortened,
)

_ALL_NAMED = 100
"""The most nodes whose rows are high enough for names."""
_NAME_PIXELS, _THIN_ROWS_PIXELS, _FEWEST_PIXELS = 14, 700, 80
"""Pixels: the height of a row with a name, of all rows where there are more, and of the fewest rows."""
_MEMORY_PIXELS, _MEMORIES_PIXELS, _BETWEEN_PIXELS = 250, 150, 56
"""Pixels: the height of a memory panel, of each of several, and between panels, where axes have their titles."""
_NARROW_NAME, _NARROW_TITLE = 16, 26
"""The most characters of names and of lines of titles in narrow windows."""
_MEMORY, _INTERVALS = "Memory", "Intervals"
"""The groups of the legend."""
_FORMS = {"again": "diamond", "in": "triangle-down", "out": "triangle-up"}
_HOVER = "%{hovertext}<extra></extra>"


def render(picture: Picture) -> str:
    """Return the picture as a page of its own."""
    drawing = _Page(picture)
    for m, panel in enumerate(picture.panels):
        drawing.draw_memory(panel, m + 1)
    for m, panel in enumerate(picture.panels):
        drawing.draw_intervals(panel, len(picture.panels) + m + 1)
    drawing.lay_out()
    groups = tuple((title, tuple(entries.values())) for title, entries in drawing.legend.items())
    narrow = "<br>".join(textwrap.wrap(picture.axis_title, _NARROW_TITLE))
    titles = {_axis("x", row): narrow for row in drawing.titled}
    return Page(
        picture.title, picture.subtitle, drawing.figure, groups, tuple(drawing.rows), titles, _table(picture)
    ).render()


@dataclass
class _Page:
    """A figure with the memory panels above those of intervals, and what the page around it has to know."""

    picture: Picture
    legend: dict[str, dict[str, Entry]] = field(default_factory=dict)
    """Entries by group and text."""
    rows: list[NamedRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        panels = self.picture.panels
        memory = _MEMORY_PIXELS if len(panels) == 1 else _MEMORIES_PIXELS
        heights = [memory] * len(panels) + [_pixels(panel) for panel in panels]
        inside = sum(heights) + _BETWEEN_PIXELS * (len(heights) - 1)
        self.figure = make_subplots(rows=len(heights), cols=1, shared_xaxes=True, row_heights=heights,
                                    vertical_spacing=_BETWEEN_PIXELS / inside)  # fmt: skip
        self.figure.update_layout(height=inside + MARGINS["t"] + MARGINS["b"])
        self.titled = (len(panels), 2 * len(panels))
        """The rows under which the horizontal axis has its title."""

    def add(self, trace: Scatter | BarTrace, row: int, group: str, entry: Entry) -> None:
        """Add a trace to a row of the figure, and to the entry of the legend with this text."""
        known, place = self.legend.setdefault(group, {}), len(self.figure.data)
        self.figure.add_trace(trace, row=row, col=1)
        before = known[entry.text].traces if entry.text in known else ()
        known[entry.text] = Entry(entry.text, entry.swatch, entry.colour, (*before, place))

    # intervals

    def draw_intervals(self, panel: Panel, row: int) -> None:
        for kind in KINDS:
            bars, text = [bar for bar in panel.bars if bar.kind == kind], self.picture.meaning(panel, kind)
            if bars:
                colour = self.picture.colour(panel, bars[0])
                self.add(_bars(self.picture, panel, bars), row, _INTERVALS, Entry(text, "bar", colour, ()))
        self._draw_marks(panel, row)
        self._name_rows(panel, row)

    def _draw_marks(self, panel: Panel, row: int) -> None:
        """Draw what happens, and dotted lines from where outputs were dropped to where they are back."""
        for what, places in panel.marks.items():
            if not places:
                continue
            text, kind = MARKS[what]
            entry = Entry(text, _FORMS[what], COLOURS[kind], ())
            gaps = [gap for gap in panel.gaps if gap.kind == kind] if what != "out" else []
            if gaps:
                lines = Scatter(
                    x=[x for gap in gaps for x in (gap.left, gap.right, None)],
                    y=[y for gap in gaps for y in (str(gap.row), str(gap.row), None)],
                    line={"color": COLOURS[kind], "width": 1, "dash": "dot"}, mode="lines", hoverinfo="skip",
                )  # fmt: skip
                self.add(lines, row, _INTERVALS, entry)
            marker = {"symbol": _FORMS[what], "size": 9 if len(panel.order) <= _ALL_NAMED else 6, "color": GROUND,
                      "line": {"color": COLOURS[kind], "width": 1.5}}  # fmt: skip
            marks = Scatter(x=[x for x, _ in places], y=[str(at) for _, at in places], mode="markers", marker=marker,
                            hoverinfo="skip", name=text)  # fmt: skip
            self.add(marks, row, _INTERVALS, entry)

    def _name_rows(self, panel: Panel, row: int) -> None:
        graph, marked = self.picture.graph, {panel.rows[v] for v in panel.marked}
        shown = {each.middle for each in panel.layers} or marked
        names, short = (_coloured(_names(graph, panel, most), set() if panel.layers else marked)
                        for most in (LONGEST, _NARROW_NAME))  # fmt: skip
        self.rows.append(NamedRows(_axis("y", row), names, short, tuple(sorted(shown)), _pixels(panel)))
        self.figure.update_yaxes(
            type="category", categoryorder="array", categoryarray=list(map(str, range(len(names)))), row=row, col=1,
            labelalias={str(at): name for at, name in enumerate(names)}, title=_shown(panel.nodes_title),
            range=[len(names) - 0.4, -0.6], showgrid=False, zeroline=False, automargin=True,
        )  # fmt: skip

    # memory

    def draw_memory(self, panel: Panel, row: int) -> None:
        """Draw memory before and after, the budget, and invisible points in the middle of each step to hover over."""
        picture, step, group = self.picture, self.picture.scale.step, panel.name or _MEMORY
        names = [row_name(picture.graph, v) for v in range(len(picture.graph.nodes))]
        if panel.before is not None:
            text = f"input order, stage by stage, peak {picture.amount(panel.before.peak)}"
            entry = Entry(text, "line", BEFORE, ())
            self.add(_steps(panel.before, step, text, {"color": BEFORE, "width": 3}), row, group, entry)
            doing = [f"input order, computing {names[v]}" for v in picture.order]
            self.add(_points(picture, panel.before, doing), row, group, entry)
        text = f"{picture.what}, peak {picture.amount(panel.after.peak)}"
        entry = Entry(text, "line", AFTER, ())
        line = {"color": AFTER, "width": 1.5}
        self.add(_steps(panel.after, step, text, line, fill="tozeroy", fillcolor=PALE), row, group, entry)
        self.add(_points(picture, panel.after, _actions(picture, names)), row, group, entry)
        if panel.budget is not None:
            ends, level = [picture.edges[0], picture.edges[-1]], panel.budget / step
            text = f"budget {picture.amount(panel.budget)}"
            budget = Scatter(x=ends, y=[level, level], mode="lines", hoverinfo="skip", name=text,
                             line={"color": BUDGET, "width": 1.5, "dash": "dash"})  # fmt: skip
            self.add(budget, row, group, Entry(text, "dash", BUDGET, ()))
        self.figure.update_yaxes(
            title=_shown(panel.title(picture.scale.title)), range=[0, 1.08 * max(panel.most, 1) / step],
            fixedrange=True, tickformat=",", automargin=True, row=row, col=1,
        )  # fmt: skip

    def lay_out(self) -> None:
        """Set what all panels share: colours, and the horizontal axis, with ticks below each."""
        edges, figure = self.picture.edges, self.figure
        figure.update_layout(LAYOUT, barmode="overlay")
        figure.update_yaxes(gridcolor=GRID, zerolinecolor=GRID)
        figure.update_xaxes(range=[edges[0], edges[-1]], minallowed=edges[0], maxallowed=edges[-1], showgrid=False,
                            zeroline=False, showticklabels=True)  # fmt: skip
        for row in self.titled:
            figure.update_xaxes(title={"text": self.picture.axis_title, "standoff": 4}, row=row, col=1)


def _axis(letter: str, row: int) -> str:
    """Return the key of an axis of a row in plotly's layout."""
    return f"{letter}axis{row}" if row > 1 else f"{letter}axis"


def _pixels(panel: Panel) -> int:
    """Return the height of the intervals of a panel."""
    rows = len(panel.order)
    return max(_NAME_PIXELS * rows, _FEWEST_PIXELS) if rows <= _ALL_NAMED else _THIN_ROWS_PIXELS


def _names(graph: ComputationGraph, panel: Panel, most: int) -> list[str]:
    """Return the names of rows: of nodes, or of the layers whose parts they are."""
    if panel.layers:
        return [shortened(panel.layers[number].name, most) for number in panel.layer_of_row]
    return [row_name(graph, v, most) for v in panel.order]


def _coloured(names: Sequence[str], marked: set[int]) -> tuple[str, ...]:
    """Return names for plotly, those of the marked rows in their colour."""
    colour = COLOURS["again"]
    return tuple(f'<span style="color:{colour}">{_shown(name)}</span>' if at in marked else _shown(name)
                 for at, name in enumerate(names))  # fmt: skip


def _bars(picture: Picture, panel: Panel, bars: list[Bar]) -> BarTrace:
    edges, kind = picture.edges, bars[0].kind
    return BarTrace(
        orientation="h",
        y=[str(panel.rows[bar.node]) for bar in bars],
        base=[edges[bar.start - 1] for bar in bars],
        x=[edges[bar.end] - edges[bar.start - 1] for bar in bars],
        width=0.72,
        marker={
            "color": [picture.colour(panel, bar) for bar in bars] if panel.layers else COLOURS[kind],
            "line": {"width": 0},
        },
        name=picture.meaning(panel, kind),
        hovertext=[_bar_text(picture, bar) for bar in bars],
        hovertemplate=_HOVER,
    )


def _bar_text(picture: Picture, bar: Bar) -> str:
    graph, v = picture.graph, bar.node
    first, last = picture.stages[bar.start - 1], picture.stages[bar.end - 1]
    origin = "" if bar.source is None else f", from {_shown(picture.platform.memories[bar.source].name)}"
    lines = [
        f"<b>{_shown(str(graph.nodes[v]))}</b>" + (f" {_shown(graph.labels[v])}" if graph.labels else ""),
        f"copy {bar.copy} of {bar.copies}{origin}",
        f"events {bar.start:,}..{bar.end:,}, stages {first:,}..{last:,}",
        f"size {picture.amount(graph.sizes[v])}",
        f"duration {duration_text(graph.durations[v], graph.duration_unit)}",
    ]
    return "<br>".join(lines)


def _shown(text: str) -> str:
    """Escape text for plotly, which reads a little HTML."""
    return html.escape(clean(text), quote=False)


def _actions(picture: Picture, names: Sequence[str]) -> list[str]:
    """Return what each action of the plan does, as text."""
    memories = picture.platform.memories
    return [
        f"{picture.what}, computing {names[action.node]}"
        if action.source is None
        else f"copying {names[action.node]}, {memories[action.source].name} -> {memories[action.memory].name}"
        for action in picture.plan
    ]


def _steps(profile: Profile, step: int, name: str, line: dict[str, object], **style: str) -> Scatter:
    values = [memory / step for memory in profile.memory]
    return Scatter(x=profile.edges, y=[*values, values[-1]], mode="lines", hoverinfo="skip",
                   name=name, line={**line, "shape": "hv"}, **style)  # fmt: skip


def _points(picture: Picture, profile: Profile, doing: list[str]) -> Scatter:
    edges, step = profile.edges, picture.scale.step
    middles = [(edges[i] + edges[i + 1]) / 2 for i in range(len(profile.memory))]
    texts = [f"{_shown(what)}<br>{picture.amount(memory)}" for what, memory in zip(doing, profile.memory, strict=True)]
    return Scatter(x=middles, y=[memory / step for memory in profile.memory], mode="markers",
                   marker={"opacity": 0, "size": 6}, hovertext=texts, hovertemplate=_HOVER)  # fmt: skip


def _table(picture: Picture) -> str:
    """Return the nodes that are recomputed or copied, with full names, as a table; empty if absent."""
    graph = picture.graph
    rows = [
        (clean(node_text(graph, v)), ", ".join(f"{place:,}" for place in places), picture.amount(graph.sizes[v]),
         duration_text(graph.durations[v], graph.duration_unit))
        for v, places in picture.recomputed
    ]  # fmt: skip
    if not rows:
        return ""
    title = "Nodes that are recomputed or copied" if picture.copies else "Nodes that are recomputed"
    return table_of(title, ("node", "events", "size", "duration"), rows)
