"""Interactive HTML pictures of frontiers, drawn by plotly. The same picture gives the same bytes."""

from __future__ import annotations

import html

from plotly.graph_objects import Figure, Scatter

from moccasin_mzn.report.plots.frontier_picture import FrontierPicture, Mark, Steps
from moccasin_mzn.report.plots.html_page import LAYOUT, Entry, Page
from moccasin_mzn.report.plots.picture import AFTER, BEFORE, BUDGET, COLOURS, GRID, GROUND, PALE, SHADE

_PIXELS = 560
"""The height of the figure."""
_HOVER = "%{hovertext}<extra></extra>"
_SWATCHES = {
    "gap: not known": ("bar", PALE), "proven: no schedule": ("hatch", BEFORE), "bound": ("dash", COLOURS["again"]),
    "shortest schedule known": ("line", AFTER), "proven shortest": ("dot", AFTER), "not proven": ("circle", AFTER),
    "input order": ("square", BUDGET),
}  # fmt: skip
"""The swatch and the colour in the legend, by the name of the trace."""


def render_frontier(picture: FrontierPicture) -> str:
    """Return the picture as a page of its own."""
    figure = _frontier_figure(picture)
    entries = tuple(Entry(trace.name, *_SWATCHES[trace.name], (place,)) for place, trace in enumerate(figure.data))
    narrow = {"xaxis": f"budget, % of the peak<br>of {picture.peak_text}"}
    return Page(picture.title, picture.subtitle, figure, (("", entries),), narrow_titles=narrow).render()


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
            traces.append(_frontier_marks(picture, marks, name, AFTER if proven else GROUND))
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
        pattern = {"shape": "/", "fgcolor": BEFORE, "bgcolor": SHADE, "size": 8, "solidity": 0.1}
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
    figure.update_layout(LAYOUT, height=_PIXELS)
    figure.update_xaxes(
        range=[picture.left, picture.right], title=f"budget, % of the input order's peak of {picture.peak_text}",
        ticksuffix=" %", zeroline=False, gridcolor=GRID,
    )  # fmt: skip
    figure.update_yaxes(range=[picture.bottom, picture.top], title=picture.frontier.increase_title, zeroline=False,
                        gridcolor=GRID, automargin=True)  # fmt: skip
