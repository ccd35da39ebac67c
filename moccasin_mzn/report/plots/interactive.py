"""Interactive HTML pictures of schedules and frontiers, drawn by plotly.

Each is one file that needs no network. The same picture gives the same bytes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from plotly.graph_objects import Bar as BarTrace
from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from moccasin_mzn.formatting import duration_text
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture, Mark, Steps
from moccasin_mzn.report.plots.picture import (
    AFTER,
    BEFORE,
    BUDGET,
    COLOURS,
    INK,
    KINDS,
    MARKS,
    PALE,
    Bar,
    MemoryScale,
    Panel,
    Picture,
    Profile,
    clean,
    row_name,
)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; font-family: sans-serif; color: {ink}; background: #fff; }}
h1, p {{ font-weight: normal; margin: 0.4rem 1rem 0; }}
h1 {{ font-size: 1.1rem; }}
#figure {{ height: calc(100vh - 4.5rem) !important; min-height: {least}px; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{subtitle}</p>
{figure}
</body>
</html>
"""
_BUTTONS = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]]  # none that sends data away


def page(figure: Figure, title: str, subtitle: str, least: int) -> str:
    """Return the figure as a page; it is at least `least` pixels high."""
    division = figure.to_html(
        full_html=False, include_plotlyjs=True, div_id="figure",
        config={"displaylogo": False, "responsive": True, "modeBarButtons": _BUTTONS},
    )  # fmt: skip
    return _PAGE.format(
        title=html.escape(clean(title)), subtitle=html.escape(subtitle), figure=division, ink=INK, least=least
    )


# --- Schedules and plans --------------------------------------------------------------------------------------


_ALL_NAMED = 70  # nodes
_NAME_PIXELS, _INTERVAL_PIXELS, _MEMORY_PIXELS = 14, 400, 340
_SHARE_OF_MEMORY, _BETWEEN = 0.26, 0.07  # of the height
_FORMS = {"again": "diamond", "in": "triangle-down", "out": "triangle-up"}
_HOVER = "%{hovertext}<extra></extra>"


def render(picture: Picture) -> str:
    """The picture as a page of its own."""
    return page(_figure(picture), picture.title, picture.subtitle, sum(map(_pixels, picture.panels)))


def _pixels(panel: Panel) -> int:
    rows = len(panel.order)
    return _MEMORY_PIXELS + (_NAME_PIXELS * rows if rows <= _ALL_NAMED else _INTERVAL_PIXELS)


def _figure(picture: Picture) -> Figure:
    panels = picture.panels
    shares = [_pixels(panel) / sum(map(_pixels, panels)) for panel in panels]
    figure = make_subplots(
        rows=2 * len(panels),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=_BETWEEN / len(panels),
        row_heights=[part * share for share in shares for part in (1 - _BETWEEN - _SHARE_OF_MEMORY, _SHARE_OF_MEMORY)],
    )
    for number, panel in enumerate(panels):
        scale = MemoryScale.of(panel.most, picture.graph.size_unit)
        for row, traces in enumerate((_intervals(picture, panel), _profiles(picture, panel, scale)), 2 * number + 1):
            for trace in traces:
                figure.add_trace(trace.update(legend=_legend(row)), row=row, col=1)
        _lay_out(figure, picture, panel, scale, 2 * number + 1)
    figure.update_layout(
        template="plotly_white", barmode="overlay", hovermode="closest", dragmode="zoom",
        margin={"l": 10, "r": 40, "t": 10, "b": 10}, font={"color": INK, "size": 12}, modebar={"orientation": "v"},
    )  # fmt: skip
    ends = [picture.edges[0], picture.edges[-1]]
    figure.update_xaxes(range=ends, minallowed=ends[0], maxallowed=ends[1], showgrid=False, zeroline=False)
    figure.update_xaxes(title=picture.axis_title, row=2 * len(panels), col=1)
    return figure


def _legend(row: int) -> str:
    """Return plotly's name for the legend of a row; each row has its own."""
    return f"legend{row}" if row > 1 else "legend"


def _intervals(picture: Picture, panel: Panel) -> Iterator[BarTrace | Scatter]:
    for kind in KINDS:
        bars = [bar for bar in panel.bars if bar.kind == kind]
        if bars:
            yield _bars(picture, panel, bars)
    yield from _marks(panel)


def _bars(picture: Picture, panel: Panel, bars: list[Bar]) -> BarTrace:
    edges, kind = picture.edges, bars[0].kind
    return BarTrace(
        orientation="h",
        y=[str(panel.rows[bar.node]) for bar in bars],
        base=[edges[bar.start - 1] for bar in bars],
        x=[edges[bar.end] - edges[bar.start - 1] for bar in bars],
        width=0.72,
        marker={"color": COLOURS[kind], "line": {"width": 0}},
        name=KINDS[kind],
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


def _marks(panel: Panel) -> Iterator[Scatter]:
    """Yield dotted lines from where outputs were dropped to where they are back, and marks of what happens."""
    for kind in ("again", "copied"):
        gaps = [gap for gap in panel.gaps if gap.kind == kind]
        if gaps:
            yield Scatter(
                x=[x for gap in gaps for x in (gap.left, gap.right, None)],
                y=[y for gap in gaps for y in (str(gap.row), str(gap.row), None)],
                line={"color": COLOURS[kind], "width": 1, "dash": "dot"},
                mode="lines", hoverinfo="skip", showlegend=False,
            )  # fmt: skip
    for what, places in panel.marks.items():
        if places:
            name, kind = MARKS[what]
            marker = {"symbol": _FORMS[what], "size": 9 if len(panel.order) <= _ALL_NAMED else 6, "color": "#fff",
                      "line": {"color": COLOURS[kind], "width": 1.5}}  # fmt: skip
            yield Scatter(x=[x for x, _ in places], y=[str(row) for _, row in places], mode="markers", marker=marker,
                          hoverinfo="skip", name=name)  # fmt: skip


def _profiles(picture: Picture, panel: Panel, scale: MemoryScale) -> Iterator[Scatter]:
    """Yield memory before and after, the budget, and invisible points in the middle of each step to hover over."""
    names, memories = [row_name(picture.graph, v) for v in range(len(picture.graph.nodes))], picture.platform.memories
    if panel.before is not None:
        name = f"input order, stage by stage, peak {picture.amount(panel.before.peak)}"
        yield _steps(panel.before, scale, name, {"color": BEFORE, "width": 3})
    name = f"{picture.what}, peak {picture.amount(panel.after.peak)}"
    yield _steps(panel.after, scale, name, {"color": AFTER, "width": 1.5}, fill="tozeroy", fillcolor=PALE)
    if panel.before is not None:
        doing = [f"input order, computing {names[v]}" for v in picture.order]
        yield _points(picture, panel.before, scale, doing)
    doing = [
        f"{picture.what}, computing {names[action.node]}"
        if action.source is None
        else f"copying {names[action.node]}, {memories[action.source].name} -> {memories[action.memory].name}"
        for action in picture.plan
    ]
    yield _points(picture, panel.after, scale, doing)
    if panel.budget is not None:
        ends, level = [picture.edges[0], picture.edges[-1]], panel.budget / scale.step
        yield Scatter(x=ends, y=[level, level], mode="lines", hoverinfo="skip",
                      line={"color": BUDGET, "width": 1.5, "dash": "dash"},
                      name=f"budget {picture.amount(panel.budget)}")  # fmt: skip


def _steps(profile: Profile, scale: MemoryScale, name: str, line: dict[str, object], **style: str) -> Scatter:
    values = [memory / scale.step for memory in profile.memory]
    return Scatter(x=profile.edges, y=[*values, values[-1]], mode="lines", hoverinfo="skip",
                   name=name, line={**line, "shape": "hv"}, **style)  # fmt: skip


def _points(picture: Picture, profile: Profile, scale: MemoryScale, doing: list[str]) -> Scatter:
    edges = profile.edges
    middles = [(edges[i] + edges[i + 1]) / 2 for i in range(len(profile.memory))]
    texts = [f"{_shown(what)}<br>{picture.amount(memory)}" for what, memory in zip(doing, profile.memory, strict=True)]
    return Scatter(x=middles, y=[memory / scale.step for memory in profile.memory], mode="markers", showlegend=False,
                   marker={"opacity": 0, "size": 6}, hovertext=texts, hovertemplate=_HOVER)  # fmt: skip


def _lay_out(figure: Figure, picture: Picture, panel: Panel, scale: MemoryScale, row: int) -> None:
    """Set the axes and legends of a panel, whose intervals are in `row` and whose memory is in the next one."""
    marked = {panel.rows[v] for v in panel.marked}
    names = [_shown(row_name(picture.graph, v)) for v in panel.order]
    names = [f'<span style="color:{COLOURS["again"]}">{name}</span>' if at in marked else name
             for at, name in enumerate(names)]  # fmt: skip
    all_named = (
        {"tickmode": "linear", "dtick": 1} if len(names) <= _ALL_NAMED else {}
    )  # else those that fit, at any zoom
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=list(map(str, range(len(names)))), row=row, col=1,
        labelalias={str(at): name for at, name in enumerate(names)},
        title=_shown(panel.nodes_title),
        range=[len(names) - 0.4, -0.6], showgrid=False, zeroline=False, automargin=True, **all_named,
    )  # fmt: skip
    top = 1.08 * max(panel.most, 1) / scale.step
    title = _shown(panel.title(scale.title))
    figure.update_yaxes(range=[0, top], fixedrange=True, title=title, tickformat=",", row=row + 1, col=1)
    for at in (row, row + 1):
        (axis,) = figure.select_yaxes(row=at, col=1)
        figure.layout[_legend(at)] = {
            "orientation": "h", "yanchor": "bottom", "x": 0, "y": axis.domain[1], "traceorder": "normal"
        }  # fmt: skip


# --- Frontiers ------------------------------------------------------------------------------------------------


_LEAST_PIXELS = 400


def render_frontier(picture: FrontierPicture) -> str:
    """The picture as a page of its own."""
    return page(_frontier_figure(picture), picture.title, picture.subtitle, _LEAST_PIXELS)


def _frontier_figure(picture: FrontierPicture) -> Figure:
    traces = [*_regions(picture)]
    if picture.bounds is not None:
        traces.append(
            _frontier_steps(picture.bounds, "bound", {"color": COLOURS["again"], "width": 1.5, "dash": "dash"})
        )
    if picture.durations is not None:
        traces.append(_frontier_steps(picture.durations, "shortest schedule known", {"color": AFTER, "width": 2}))
    for name, proven in (("proven shortest", True), ("not proven", False)):
        marks = [mark for mark in picture.marks if mark.point.proven == proven]
        if marks:
            traces.append(_frontier_marks(picture, marks, name, AFTER if proven else "#fff"))
    if picture.input_order is not None:
        (x, y), marker = (
            picture.input_order,
            {"symbol": "square-open", "size": 15, "color": BUDGET, "line": {"width": 1.5}},
        )
        traces.append(Scatter(x=[x], y=[y], mode="markers", name="input order", hoverinfo="skip", marker=marker))
    figure = Figure(traces)
    _lay_out_frontier(figure, picture)
    return figure


def _regions(picture: FrontierPicture) -> list[Scatter]:
    regions = []
    if picture.gap:
        xs, ys = [], []
        for a, b, low, high in picture.gap:
            xs += [a, b, b, a, a, None]
            ys += [low, low, high, high, low, None]
        regions.append(Scatter(x=xs, y=ys, mode="lines", line={"width": 0}, fill="toself", fillcolor=PALE,
                               hoverinfo="skip", name="gap: not known"))  # fmt: skip
    left, right = picture.left, picture.infeasible
    if right > left:
        pattern = {"shape": "/", "fgcolor": BEFORE, "bgcolor": "#F2F2F2", "size": 8, "solidity": 0.1}
        regions.append(
            Scatter(
                x=[left, right, right, left, left], y=[picture.bottom] * 2 + [picture.top] * 2 + [picture.bottom],
                mode="lines", line={"width": 0, "color": BEFORE}, fill="toself", fillpattern=pattern, hoveron="fills",
                hoverinfo="text", text=f"proven: no schedule below {picture.amount(picture.frontier.least_bound)}",
                name="proven: no schedule",
            )
        )  # fmt: skip
    return regions


def _frontier_steps(steps: Steps, name: str, line: dict[str, object]) -> Scatter:
    return Scatter(x=steps.edges, y=[*steps.values, steps.values[-1]], mode="lines", hoverinfo="skip", name=name,
                   line={**line, "shape": "hv"})  # fmt: skip


def _frontier_marks(picture: FrontierPicture, marks: list[Mark], name: str, colour: str) -> Scatter:
    texts = ["<br>".join(html.escape(line, quote=False) for line in picture.describe(mark.point)) for mark in marks]
    return Scatter(
        x=[mark.x for mark in marks], y=[mark.y for mark in marks], mode="markers", name=name, cliponaxis=False,
        marker={"size": 9, "color": colour, "line": {"color": AFTER, "width": 1.5}}, hovertext=texts,
        hovertemplate=_HOVER,
    )  # fmt: skip


def _lay_out_frontier(figure: Figure, picture: FrontierPicture) -> None:
    figure.update_layout(
        template="plotly_white", hovermode="closest", dragmode="zoom", font={"color": INK, "size": 12},
        margin={"l": 10, "r": 40, "t": 10, "b": 10}, modebar={"orientation": "v"},
        legend={"x": 0.99, "y": 0.99, "xanchor": "right", "yanchor": "top", "traceorder": "normal",
                "bgcolor": "rgba(255,255,255,0.9)"},
    )  # fmt: skip
    figure.update_xaxes(
        range=[picture.left, picture.right], title=f"budget, % of the input order's peak of {picture.peak_text}",
        ticksuffix=" %", zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(range=[picture.bottom, picture.top], title="duration increase (TDI), %", zeroline=False)
