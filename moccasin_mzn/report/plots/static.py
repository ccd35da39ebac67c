"""PNG and SVG pictures, drawn by matplotlib. The same picture gives the same bytes with the same matplotlib.

In an SVG what is drawn has ids: bars are the paths of the groups "bars-only", "bars-first" and "bars-again", the others
are "recomputations", "memory-before", "memory-after" and "budget".
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from moccasin_mzn.report.plots.colours import AFTER, BEFORE, BUDGET, COLOURS, INK, KINDS, PALE
from moccasin_mzn.report.plots.names import MemoryScale, clean, row_name, spread
from moccasin_mzn.report.plots.picture import Bar, Picture, Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _TALLEST, _SHORTEST, _MEMORY_HEIGHT, _REST = 12.0, 9.0, 1.4, 2.4, 1.5  # inches
_ROW = 0.2
_POINTS = 72
_READABLE = 8.0  # points that a name needs
_HALF_BAR = 0.36  # of a row
_HALF_OF_RECOMPUTED = 1.0  # points: what is recomputed is seen even where rows are thinner
_DOTS_PER_INCH = 150
_MOST_PATHS = 8000
"""More bars than this are drawn as pixels inside an SVG, which keeps it small."""
_SETTINGS = {
    "svg.hashsalt": "moccasin_mzn",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.edgecolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def render(picture: Picture, form: str) -> bytes:
    """The picture as a "png" or an "svg"."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # characters that the font does not have are drawn as boxes
        matplotlib.rcdefaults()  # not what a style file on this machine says
        matplotlib.rcParams.update(_SETTINGS)
        file = io.BytesIO()
        metadata = {"Date": None, "Creator": "moccasin_mzn"} if form == "svg" else {"Software": "moccasin_mzn"}
        _figure(picture).savefig(file, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


def _figure(picture: Picture) -> Figure:
    from matplotlib.figure import Figure

    rows = len(picture.order)
    above = min(max(_ROW * rows, _SHORTEST), _TALLEST)
    figure = Figure(figsize=(_WIDTH, above + _MEMORY_HEIGHT + _REST), layout="constrained")
    intervals, memory = figure.subplots(2, 1, sharex=True, height_ratios=[above, _MEMORY_HEIGHT])
    _draw_intervals(picture, intervals, above)
    _draw_memory(picture, memory)
    memory.set_xlim(picture.edges[0], picture.edges[-1])
    memory.set_xlabel(picture.axis_title)
    memory.xaxis.get_major_locator().set_params(integer=True)
    for axes in (intervals, memory):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{clean(picture.title)}\n{picture.subtitle}", x=0.01, ha="left", fontsize=11, parse_math=False, linespacing=1.5
    )
    return figure


def _draw_intervals(picture: Picture, axes: Axes, inches: float) -> None:
    rows = len(picture.order)
    axes.set_ylim(rows - 0.4, -0.6)  # the first node of the input order on top
    row_points = _POINTS * inches / rows
    for kind in KINDS:
        bars = [bar for bar in picture.bars if bar.kind == kind]
        if bars:
            thin = _HALF_BAR if kind == "only" else max(_HALF_BAR, _HALF_OF_RECOMPUTED / row_points)
            _draw_bars(picture, axes, bars, thin)
    again = [bar for bar in picture.bars if bar.kind == "again"]
    if again:
        _mark_recomputations(picture, axes, again, min(max(0.55 * row_points, 2.5), 5.5))
    _name_rows(picture, axes, row_points)
    axes.tick_params(axis="x", labelbottom=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderaxespad=0.2, handlelength=1.6)


def _draw_bars(picture: Picture, axes: Axes, bars: list[Bar], half: float) -> None:
    """Bars of one kind, each `half` a row high above and below the middle of its row."""
    from matplotlib.collections import PolyCollection

    edges, kind, corners = picture.edges, bars[0].kind, []
    for bar in bars:
        left, right, row = edges[bar.start - 1], edges[bar.end], picture.rows[bar.node]
        corners.append([(left, row - half), (right, row - half), (right, row + half), (left, row + half)])
    few = len(picture.bars) <= _MOST_PATHS
    axes.add_collection(
        PolyCollection(
            corners, facecolors=COLOURS[kind], linewidths=0, label=KINDS[kind], gid=f"bars-{kind}", rasterized=not few,
            zorder=2 if kind == "only" else 3,
        ),
        autolim=False,
    )  # fmt: skip


def _mark_recomputations(picture: Picture, axes: Axes, again: list[Bar], size: float) -> None:
    """A diamond of `size` points where a recomputation starts, and a thin line from where the output was dropped."""
    from matplotlib.collections import LineCollection

    colour, edges, last, gaps = COLOURS["again"], picture.edges, {}, []
    for bar in picture.bars:
        if bar.kind == "again":
            row = picture.rows[bar.node]
            gaps.append([(edges[last[bar.node]], row), (edges[bar.start - 1], row)])
        last[bar.node] = bar.end
    many = len(picture.bars) > _MOST_PATHS
    lines = LineCollection(gaps, colors=colour, linewidths=0.6, linestyles=(0, (1, 3)), gid="dropped", zorder=3)
    lines.set_rasterized(many)
    axes.add_collection(lines, autolim=False)
    axes.plot(
        [edges[bar.start - 1] for bar in again], [picture.rows[bar.node] for bar in again], linestyle="none",
        marker="D", markersize=size, markerfacecolor="white", markeredgecolor=colour, markeredgewidth=size / 5,
        label="recomputation", gid="recomputations", clip_on=False, zorder=4, rasterized=many,
    )  # fmt: skip


def _name_rows(picture: Picture, axes: Axes, row_points: float) -> None:
    """Names of all nodes where they fit, else of as many recomputed ones as do, with lines to their rows."""
    again = [picture.rows[v] for v in picture.recomputed]
    distance = _READABLE / row_points
    if distance > 1:
        _name_recomputed(picture, axes, again, distance)
        return
    names = [row_name(picture.graph, v) for v in picture.order]
    axes.set_yticks(range(len(names)), names, fontsize=min(9.0, 0.85 * row_points), parse_math=False)
    labels = axes.get_yticklabels()
    for row in again:
        labels[row].set(color=COLOURS["again"], fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("nodes in the input order")


def _name_recomputed(picture: Picture, axes: Axes, again: list[int], distance: float) -> None:
    """Names `distance` rows apart beside the axes, each with a line to its row."""
    places = spread(again, distance, len(picture.order) - 1)
    for row, place in places.items():
        axes.plot([0, -0.004, -0.01], [row, row, place], color=COLOURS["again"], linewidth=0.5, clip_on=False,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    names = [row_name(picture.graph, picture.order[row]) for row in places]
    axes.set_yticks(list(places.values()), names, fontsize=0.85 * _READABLE, color=COLOURS["again"], parse_math=False)
    axes.tick_params(axis="y", length=0, pad=0.012 * _POINTS * _WIDTH)
    some = "" if len(places) == len(again) else f", {len(places)} of them"
    axes.set_ylabel(f"nodes in the input order; named: the recomputed{some}" if again else "nodes in the input order")


def _draw_memory(picture: Picture, axes: Axes) -> None:
    before, after, budget = picture.before.peak, picture.after.peak, picture.budget
    scale = MemoryScale.of(max(before, after, budget or 0), picture.graph.size_unit)
    _draw_profile(axes, picture.profile_before, scale, gid="memory-before", color=BEFORE, linewidth=2.0,
                  label=f"input order, stage by stage, peak {picture.amount(before)}")  # fmt: skip
    _draw_profile(axes, picture.profile_after, scale, gid="memory-after", color=AFTER, linewidth=1.0, facecolor=PALE,
                  fill=True, label=f"schedule, peak {picture.amount(after)}")  # fmt: skip
    if budget is not None:
        axes.axhline(budget / scale.step, color=BUDGET, linestyle=(0, (5, 3)), linewidth=1.1, gid="budget", zorder=5,
                     label=f"budget {picture.amount(budget)}")  # fmt: skip
    axes.set_ylim(0, 1.08 * max(before, after, budget or 0, 1) / scale.step)
    axes.set_ylabel(scale.title)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2)


def _draw_profile(axes: Axes, profile: Profile, scale: MemoryScale, *, gid: str, color: str, **style: object) -> None:
    """A step line with its peak marked."""
    values = [memory / scale.step for memory in profile.memory]
    axes.stairs(values, profile.edges, baseline=0 if style.get("fill") else None, gid=gid, edgecolor=color, **style)
    axes.plot([profile.peak_at], [max(values)], marker="o", markersize=4, color=color, gid=f"{gid}-peak", zorder=6)
