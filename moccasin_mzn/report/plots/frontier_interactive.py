"""Interactive HTML pictures of fronts, drawn by plotly: one file that needs no network."""

from __future__ import annotations

import html
from typing import Any

from plotly.graph_objects import Figure, Scatter

from moccasin_mzn.report.plots.colours import AFTER, BEFORE, BUDGET, COLOURS, INK, PALE
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture, Mark, Steps
from moccasin_mzn.report.plots.page import page

_LEAST_PIXELS = 400
_HOVER = "%{hovertext}<extra></extra>"


def render(picture: FrontierPicture) -> str:
    """The picture as a page of its own."""
    return page(_figure(picture), picture.title, picture.subtitle, _LEAST_PIXELS)


def _figure(picture: FrontierPicture) -> Figure:
    traces = [*_regions(picture)]
    if picture.bounds is not None:
        traces.append(_steps(picture.bounds, "bound", {"color": COLOURS["again"], "width": 1.5, "dash": "dash"}))
    if picture.durations is not None:
        traces.append(_steps(picture.durations, "shortest schedule known", {"color": AFTER, "width": 2}))
    for name, proven in (("proven shortest", True), ("not proven", False)):
        marks = [mark for mark in picture.marks if mark.point.proven == proven]
        if marks:
            traces.append(_marks(picture, marks, name, AFTER if proven else "#fff"))
    if picture.input_order is not None:
        (x, y), marker = (
            picture.input_order,
            {"symbol": "square-open", "size": 15, "color": BUDGET, "line": {"width": 1.5}},
        )
        traces.append(Scatter(x=[x], y=[y], mode="markers", name="input order", hoverinfo="skip", marker=marker))
    figure = Figure(traces)
    _lay_out(figure, picture)
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


def _steps(steps: Steps, name: str, line: dict[str, Any]) -> Scatter:
    return Scatter(x=steps.edges, y=[*steps.values, steps.values[-1]], mode="lines", hoverinfo="skip", name=name,
                   line={**line, "shape": "hv"})  # fmt: skip


def _marks(picture: FrontierPicture, marks: list[Mark], name: str, colour: str) -> Scatter:
    texts = ["<br>".join(html.escape(line, quote=False) for line in picture.describe(mark.point)) for mark in marks]
    return Scatter(
        x=[mark.x for mark in marks], y=[mark.y for mark in marks], mode="markers", name=name, cliponaxis=False,
        marker={"size": 9, "color": colour, "line": {"color": AFTER, "width": 1.5}}, hovertext=texts,
        hovertemplate=_HOVER,
    )  # fmt: skip


def _lay_out(figure: Figure, picture: FrontierPicture) -> None:
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
