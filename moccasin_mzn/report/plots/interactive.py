"""Interactive HTML pictures, drawn by plotly: one file that needs no network. The same picture gives the same bytes."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from moccasin_mzn.report.plots.colours import AFTER, BEFORE, BUDGET, COLOURS, INK, KINDS, PALE
from moccasin_mzn.report.plots.names import MemoryScale, clean, row_name
from moccasin_mzn.report.plots.page import page
from moccasin_mzn.report.plots.picture import Bar, Picture, Profile
from moccasin_mzn.words import duration_text

if TYPE_CHECKING:
    from plotly.graph_objects import Bar as BarTrace
    from plotly.graph_objects import Figure, Scatter

_ALL_NAMED = 70  # nodes
_NAME_PIXELS, _INTERVAL_PIXELS, _MEMORY_PIXELS = 14, 400, 340
_SHARE_OF_MEMORY, _BETWEEN = 0.26, 0.07  # of the height
_HOVER = "%{hovertext}<extra></extra>"


def render(picture: Picture) -> str:
    """The picture as a page of its own."""
    rows = len(picture.order)
    least = _MEMORY_PIXELS + (_NAME_PIXELS * rows if rows <= _ALL_NAMED else _INTERVAL_PIXELS)
    return page(_figure(picture), picture.title, picture.subtitle, least)


def _figure(picture: Picture) -> Figure:
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=_BETWEEN,
        row_heights=[1 - _BETWEEN - _SHARE_OF_MEMORY, _SHARE_OF_MEMORY],
    )
    for kind in KINDS:
        bars = [bar for bar in picture.bars if bar.kind == kind]
        if bars:
            figure.add_trace(_bars(picture, bars), row=1, col=1)
    again = [bar for bar in picture.bars if bar.kind == "again"]
    if again:
        for trace in _recomputations(picture, again):
            figure.add_trace(trace, row=1, col=1)
    largest = max(picture.before.peak, picture.after.peak, picture.budget or 0)
    scale = MemoryScale.of(largest, picture.graph.size_unit)
    for trace in _profiles(picture, scale):
        figure.add_trace(trace, row=2, col=1)
    _lay_out(figure, picture, scale, largest)
    return figure


def _bars(picture: Picture, bars: list[Bar]) -> BarTrace:
    """All bars of one kind as one trace."""
    from plotly.graph_objects import Bar as BarTrace

    edges, kind = picture.edges, bars[0].kind
    return BarTrace(
        orientation="h",
        y=[str(picture.rows[bar.node]) for bar in bars],
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
    lines = [
        f"<b>{_shown(str(graph.nodes[v]))}</b>" + (f" {_shown(graph.labels[v])}" if graph.labels else ""),
        f"copy {bar.copy} of {bar.copies}",
        f"events {bar.start:,}..{bar.end:,}, stages {first:,}..{last:,}",
        f"size {picture.amount(graph.sizes[v])}",
        f"duration {duration_text(graph.durations[v], graph.duration_unit)}",
    ]
    return "<br>".join(lines)


def _shown(text: str) -> str:
    """`text` as plotly shows it literally: it reads a little HTML."""
    return html.escape(clean(text), quote=False)


def _recomputations(picture: Picture, again: list[Bar]) -> list[Scatter]:
    """A dotted line from where each output was dropped to where it is computed again, and a diamond there."""
    from plotly.graph_objects import Scatter

    edges, last, x, y = picture.edges, {}, [], []
    for bar in picture.bars:
        if bar.kind == "again":
            row = str(picture.rows[bar.node])
            x += [edges[last[bar.node]], edges[bar.start - 1], None]
            y += [row, row, None]
        last[bar.node] = bar.end
    line = {"color": COLOURS["again"], "width": 1, "dash": "dot"}
    marker = {"symbol": "diamond", "size": 9 if len(picture.order) <= _ALL_NAMED else 6, "color": "#fff",
              "line": {"color": COLOURS["again"], "width": 1.5}}  # fmt: skip
    return [
        Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False),
        Scatter(x=x[1::3], y=y[1::3], mode="markers", marker=marker, hoverinfo="skip", name="recomputation"),
    ]


def _profiles(picture: Picture, scale: MemoryScale) -> list[Scatter]:
    """Memory before and after, the budget, and invisible points in the middle of each step to hover over."""
    from plotly.graph_objects import Scatter

    before, after = picture.profile_before, picture.profile_after
    names = [f"input order, stage by stage, peak {picture.amount(picture.before.peak)}",
             f"schedule, peak {picture.amount(picture.after.peak)}"]  # fmt: skip
    traces = [
        _steps(before, scale, names[0], {"color": BEFORE, "width": 3}),
        _steps(after, scale, names[1], {"color": AFTER, "width": 1.5}, fill="tozeroy", fillcolor=PALE),
        _points(picture, before, scale, picture.order, "input order, computing"),
        _points(picture, after, scale, picture.sequence, "schedule, computing"),
    ]
    if picture.budget is not None:
        ends, level = [picture.edges[0], picture.edges[-1]], picture.budget / scale.step
        traces.append(Scatter(x=ends, y=[level, level], mode="lines", hoverinfo="skip",
                              line={"color": BUDGET, "width": 1.5, "dash": "dash"},
                              legend="legend2", name=f"budget {picture.amount(picture.budget)}"))  # fmt: skip
    return traces


def _steps(profile: Profile, scale: MemoryScale, name: str, line: dict, **style: str) -> Scatter:
    from plotly.graph_objects import Scatter

    values = [memory / scale.step for memory in profile.memory]
    return Scatter(x=profile.edges, y=[*values, values[-1]], mode="lines", hoverinfo="skip", legend="legend2",
                   name=name, line={**line, "shape": "hv"}, **style)  # fmt: skip


def _points(picture: Picture, profile: Profile, scale: MemoryScale, sequence: tuple[int, ...], what: str) -> Scatter:
    from plotly.graph_objects import Scatter

    edges, graph = profile.edges, picture.graph
    middles = [(edges[i] + edges[i + 1]) / 2 for i in range(len(profile.memory))]
    texts = [
        f"{what} {_shown(row_name(graph, v))}<br>{picture.amount(memory)}"
        for v, memory in zip(sequence, profile.memory, strict=True)
    ]
    return Scatter(x=middles, y=[memory / scale.step for memory in profile.memory], mode="markers", showlegend=False,
                   marker={"opacity": 0, "size": 6}, hovertext=texts, hovertemplate=_HOVER)  # fmt: skip


def _lay_out(figure: Figure, picture: Picture, scale: MemoryScale, largest: int) -> None:
    again = {picture.rows[v] for v in picture.recomputed}
    names = [_shown(row_name(picture.graph, v)) for v in picture.order]
    names = [f'<span style="color:{COLOURS["again"]}">{name}</span>' if row in again else name
             for row, name in enumerate(names)]  # fmt: skip
    legend = {"orientation": "h", "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    figure.update_layout(
        template="plotly_white", barmode="overlay", hovermode="closest", dragmode="zoom",
        margin={"l": 10, "r": 40, "t": 10, "b": 10}, font={"color": INK, "size": 12},
        modebar={"orientation": "v"}, legend=legend | {"y": 1}, legend2=legend | {"y": _SHARE_OF_MEMORY},
    )  # fmt: skip
    ends = [picture.edges[0], picture.edges[-1]]
    figure.update_xaxes(range=ends, minallowed=ends[0], maxallowed=ends[1], showgrid=False, zeroline=False)
    figure.update_xaxes(title=picture.axis_title, row=2, col=1)
    all_named = (
        {"tickmode": "linear", "dtick": 1} if len(names) <= _ALL_NAMED else {}
    )  # else those that fit, at any zoom
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=list(map(str, range(len(names)))), row=1, col=1,
        labelalias={str(row): name for row, name in enumerate(names)}, title="nodes in the input order",
        range=[len(names) - 0.4, -0.6], showgrid=False, zeroline=False, automargin=True, **all_named,
    )  # fmt: skip
    top = 1.08 * max(largest, 1) / scale.step
    figure.update_yaxes(range=[0, top], fixedrange=True, title=scale.title, tickformat=",", row=2, col=1)
