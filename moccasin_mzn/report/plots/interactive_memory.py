"""Interactive HTML pictures of memory over time by what it is for, drawn by plotly."""

from __future__ import annotations

import html

from plotly.graph_objects import Figure, Scatter

from moccasin_mzn.report.plots.html_page import LAYOUT, Entry, Page
from moccasin_mzn.report.plots.memory_picture import PALETTE, MemoryPicture
from moccasin_mzn.report.plots.picture import BUDGET, GRID, INK

_PIXELS = 560
"""The height of the figure."""


def render_memory(picture: MemoryPicture) -> str:
    """Return the picture as a page of its own."""
    figure = _figure(picture)
    entries = tuple(
        Entry(trace.name, "bar" if trace.stackgroup else "dash", trace.fillcolor or BUDGET, (place,))
        for place, trace in enumerate(figure.data)
    )
    return Page(picture.title, picture.subtitle, figure, (("", entries),)).render()


def _figure(picture: MemoryPicture) -> Figure:
    step, columns = picture.scale.step, list(range(len(picture.chosen)))
    where = [html.escape(", ".join(filter(None, picture.places[at])), quote=False) for at in picture.chosen]
    traces = [
        Scatter(
            x=columns, y=[value / step for value in values], name=name, mode="lines", stackgroup="all",
            line={"width": 0, "shape": "hvh"}, fillcolor=PALETTE[at % len(PALETTE)],
            hovertext=[
                f"{name} {picture.scale.text(value)}<br>{place}" for value, place in zip(values, where, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
        for at, (name, values) in enumerate(picture.drawn_layers.items())
    ]  # fmt: skip
    if picture.limit is not None and picture.limit[1] < 2 * picture.peak[1]:
        name, amount = picture.limit
        traces.append(
            Scatter(x=[0, len(columns) - 1], y=[amount / step] * 2, mode="lines", hoverinfo="skip",
                    name=f"{name} {picture.scale.text(amount)}", line={"color": BUDGET, "width": 1.5, "dash": "dash"})
        )  # fmt: skip
    figure = Figure(traces)
    modules = picture.modules
    figure.update_layout(LAYOUT, height=_PIXELS)
    figure.update_xaxes(
        tickmode="array", tickvals=[(span.start + span.end - 1) / 2 for span in modules], tickangle=-90,
        ticktext=[html.escape(span.name, quote=False) for span in modules], automargin=True, showgrid=False,
    )  # fmt: skip
    for span in picture.phases:
        figure.add_vline(x=span.start, line={"color": INK, "width": 0.5, "dash": "dot"},
                         annotation={"text": span.name, "textangle": 0, "xanchor": "left"})  # fmt: skip
    figure.update_yaxes(title=picture.scale.title, rangemode="tozero", gridcolor=GRID, automargin=True)
    return figure
