"""PNG and SVG pictures of fronts, drawn by matplotlib. The same front gives the same bytes with the same matplotlib.

In an SVG what is drawn has ids: "durations", "bounds", "gap", "infeasible", "proven", "open" and "input-order".
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from moccasin_mzn.report.plots.colours import AFTER, BEFORE, BUDGET, COLOURS, PALE
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.names import MemoryScale, clean
from moccasin_mzn.report.plots.static import SETTINGS, rendered

_SIZE = 8.0, 5.2  # inches
_FEW = 40
"""Points; of more the marks are smaller."""


def render(picture: FrontierPicture, form: str) -> bytes:
    """The picture as a "png" or an "svg"."""
    return rendered(lambda: _figure(picture), form, {**SETTINGS, "hatch.linewidth": 0.5})


def _figure(picture: FrontierPicture) -> Figure:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    _draw_regions(picture, axes)
    _draw_steps(picture, axes)
    _draw_marks(picture, axes)
    _lay_out(picture, axes)
    figure.suptitle(
        f"{clean(picture.title)}\n{picture.subtitle}", x=0.01, ha="left", fontsize=10, parse_math=False, linespacing=1.5
    )
    return figure


def _draw_regions(picture: FrontierPicture, axes: Axes) -> None:
    left, right = picture.left, picture.infeasible
    if right > left:
        axes.axvspan(left, right, facecolor="#F2F2F2", edgecolor=BEFORE, hatch="////", linewidth=0, gid="infeasible",
                     label="proven: no schedule", zorder=1)  # fmt: skip
    if picture.gap:
        corners = [[(a, low), (b, low), (b, high), (a, high)] for a, b, low, high in picture.gap]
        axes.add_collection(
            PolyCollection(corners, facecolors=PALE, linewidths=0, gid="gap", zorder=2, label="gap: not known"),
            autolim=False,
        )


def _draw_steps(picture: FrontierPicture, axes: Axes) -> None:
    bounds, durations = picture.bounds, picture.durations
    if bounds is not None:
        axes.stairs(bounds.values, bounds.edges, baseline=None, color=COLOURS["again"], linewidth=1.2,
                    linestyle=(0, (4, 2)), gid="bounds", label="bound", zorder=3)  # fmt: skip
    if durations is not None:
        axes.stairs(durations.values, durations.edges, baseline=None, color=AFTER, linewidth=1.6, gid="durations",
                    label="shortest schedule known", zorder=4)  # fmt: skip


def _draw_marks(picture: FrontierPicture, axes: Axes) -> None:
    size = 5.0 if len(picture.marks) <= _FEW else 3.0
    for gid, proven, label in (("proven", True, "proven shortest"), ("open", False, "not proven")):
        places = [(mark.x, mark.y) for mark in picture.marks if mark.point.proven == proven]
        if places:
            xs, ys = zip(*places, strict=True)
            axes.plot(xs, ys, linestyle="none", marker="o", markersize=size, markeredgecolor=AFTER, markeredgewidth=1.1,
                      markerfacecolor=AFTER if proven else "white", gid=gid, label=label, zorder=5)  # fmt: skip
    if picture.input_order is not None:
        x, y = picture.input_order
        axes.plot([x], [y], linestyle="none", marker="s", markersize=1.6 * size, markerfacecolor="none",
                  markeredgecolor=BUDGET, markeredgewidth=1.0, gid="input-order", label="input order",
                  zorder=6)  # fmt: skip


def _lay_out(picture: FrontierPicture, axes: Axes) -> None:
    peak, unit = picture.frontier.peak, picture.frontier.graph.size_unit
    axes.set_xlim(picture.left, picture.right)
    axes.set_ylim(picture.bottom, picture.top)
    axes.set_xlabel(f"budget, % of the input order's peak of {picture.peak_text}")
    axes.set_ylabel("duration increase (TDI), %")
    axes.xaxis.set_major_formatter("{x:.10g}")
    axes.yaxis.set_major_formatter("{x:.10g}")
    axes.spines["right"].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    scale = MemoryScale.of(peak, unit)
    step = max(peak, 1) / scale.step / 100
    functions: Any = (lambda x: x * step, lambda x: x / step)
    above = axes.secondary_xaxis("top", functions=functions)
    above.set_xlabel(scale.title.replace("memory", "budget"))
    above.xaxis.set_major_formatter("{x:,.10g}")
    axes.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")
