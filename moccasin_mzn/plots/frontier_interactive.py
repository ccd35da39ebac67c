"""Interactive HTML pictures of fronts, drawn by plotly: one file that needs no network."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from moccasin_mzn.plots.colours import AFTER, BEFORE, BUDGET, COLOURS, INK, PALE
from moccasin_mzn.plots.frontier_picture import FrontierPicture, Mark, Steps
from moccasin_mzn.plots.names import clean

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

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
#figure {{ height: calc(100vh - 4.5rem) !important; min-height: 400px; }}
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
_HOVER = "%{hovertext}<extra></extra>"


def render(picture: FrontierPicture) -> str:
    """The picture as a page of its own."""
    division = _figure(picture).to_html(
        full_html=False, include_plotlyjs=True, div_id="figure",
        config={"displaylogo": False, "responsive": True, "modeBarButtons": _BUTTONS},
    )  # fmt: skip
    title, subtitle = html.escape(clean(picture.title)), html.escape(picture.subtitle)
    return _PAGE.format(title=title, subtitle=subtitle, figure=division, ink=INK)


def _figure(picture: FrontierPicture) -> Figure:
    from plotly.graph_objects import Figure

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
        traces.append(_input_order(picture))
    figure = Figure(traces)
    _lay_out(figure, picture)
    return figure


def _regions(picture: FrontierPicture) -> list[Scatter]:
    """Where the front may be, and where there is nothing."""
    from plotly.graph_objects import Scatter

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


def _steps(steps: Steps, name: str, line: dict) -> Scatter:
    from plotly.graph_objects import Scatter

    return Scatter(x=steps.edges, y=[*steps.values, steps.values[-1]], mode="lines", hoverinfo="skip", name=name,
                   line={**line, "shape": "hv"})  # fmt: skip


def _marks(picture: FrontierPicture, marks: list[Mark], name: str, colour: str) -> Scatter:
    from plotly.graph_objects import Scatter

    texts = ["<br>".join(html.escape(line, quote=False) for line in picture.describe(mark.point)) for mark in marks]
    return Scatter(
        x=[mark.x for mark in marks], y=[mark.y for mark in marks], mode="markers", name=name, cliponaxis=False,
        marker={"size": 9, "color": colour, "line": {"color": AFTER, "width": 1.5}}, hovertext=texts,
        hovertemplate=_HOVER,
    )  # fmt: skip


def _input_order(picture: FrontierPicture) -> Scatter:
    from plotly.graph_objects import Scatter

    x, y = picture.input_order
    return Scatter(x=[x], y=[y], mode="markers", name="input order", hoverinfo="skip",
                   marker={"symbol": "square-open", "size": 15, "color": BUDGET, "line": {"width": 1.5}})  # fmt: skip


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
