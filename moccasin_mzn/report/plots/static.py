"""PNG, PDF and SVG pictures of schedules and frontiers, drawn by matplotlib.

The same picture gives the same bytes with the same matplotlib.

In an SVG all parts have ids: bars are the paths of the groups "bars-only", "bars-first", "bars-again" and
"bars-copied", the others are "recomputations", "copies-in", "copies-out", "dropped", "memory-before",
"memory-after" and "budget". Those of the second memory end in "-2", and so on.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.picture import (
    AFTER,
    BEFORE,
    BUDGET,
    COLOURS,
    INK,
    KINDS,
    LONGEST,
    MARKS,
    PALE,
    Bar,
    MemoryScale,
    Panel,
    Picture,
    Profile,
    clean,
    row_name,
    shortened,
    spread,
)

_WIDTH, _TALLEST, _SHORTEST, _MEMORY_HEIGHT, _REST = 9.0, 9.0, 1.6, 2.0, 1.5
"""Inches; as wide as a page, on which the names can be read."""
_LEGEND_WIDTH, _HANDLE, _CHARACTER = 6.2, 0.5, 0.07
"""Inches: the room of a legend, next to the longest names, and what the line of an entry and a character take."""
_ROW = 0.2
_POINTS = 72
_READABLE = 8.0  # points that a name needs
_HALF_BAR = 0.36  # of a row
_HALF_OF_RECOMPUTED = 1.0  # points: what is recomputed is seen even where rows are thinner
_DOTS_PER_INCH = 150
_MOST_PATHS = 8000
"""More bars than this are drawn as pixels inside an SVG, which keeps it small."""
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "moccasin_mzn"}, "png": {"Software": "moccasin_mzn"},
    "pdf": {"CreationDate": None, "Creator": "moccasin_mzn"},
}  # fmt: skip
"""Metadata of files by form: nothing that changes between runs."""
_FORMS = {"again": ("D", "recomputations"), "in": ("v", "copies-in"), "out": ("^", "copies-out")}
"""The form and the id of each mark."""
Settings: TypeAlias = dict[Any, Any]
"""Settings of matplotlib, by key; its own types have a list of all keys, which differs between versions."""
SETTINGS: Settings = {
    "svg.hashsalt": "moccasin_mzn", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9.0,
    "axes.edgecolor": INK, "text.color": INK,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
}  # fmt: skip


def render(picture: Picture, form: str) -> bytes:
    """The picture as a "png", a "pdf" or an "svg"."""
    return rendered(lambda: figure_of(picture), form)


def rendered(draw: Callable[[], Figure], form: str, settings: Settings = SETTINGS) -> bytes:
    """Draw a figure as a "png", a "pdf" or an "svg", with the same bytes wherever it is drawn.

    Args:
        settings: settings of matplotlib.
    """
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # characters that the font does not have are drawn as boxes
        matplotlib.rcdefaults()  # no style file of this machine counts
        matplotlib.rcParams.update(settings)
        file = io.BytesIO()
        draw().savefig(file, format=form, dpi=_DOTS_PER_INCH, metadata=_METADATA[form])
    return file.getvalue()


def figure_of(picture: Picture) -> Figure:
    """Return the figure of a schedule or a plan, not yet drawn."""
    panels = picture.panels
    row = min(_ROW, _TALLEST * (1 + len(panels)) / 2 / sum(len(panel.order) for panel in panels))
    above = [max(row * len(panel.order), _SHORTEST) for panel in panels]
    heights = [inches for one in above for inches in (one, _MEMORY_HEIGHT)]
    figure = Figure(figsize=(_WIDTH, sum(heights) + _REST), layout="constrained")
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    for number, panel in enumerate(panels):
        one = _Panel(picture, panel, f"-{number + 1}" if number else "")
        one.draw_intervals(axes[2 * number], above[number])
        one.draw_memory(axes[2 * number + 1])
    axes[-1].set_xlim(picture.edges[0], picture.edges[-1])
    axes[-1].set_xlabel(picture.axis_title)
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{clean(picture.title)}\n{picture.subtitle}", x=0.01, ha="left", fontsize=11, parse_math=False, linespacing=1.5
    )
    return figure


@dataclass(frozen=True)
class _Panel:
    """Draws one panel."""

    picture: Picture
    panel: Panel
    suffix: str
    """The end of all ids."""

    def draw_intervals(self, axes: Axes, inches: float) -> None:
        panel = self.panel
        rows = max(1, len(panel.order))
        axes.set_ylim(rows - 0.4, -0.6)  # the first node of the input order on top
        row_points = _POINTS * inches / rows
        meanings = set[str]()
        for kind in KINDS:
            bars, meaning = [bar for bar in panel.bars if bar.kind == kind], self.picture.meaning(panel, kind)
            if bars:
                thin = (
                    _HALF_BAR
                    if kind == "only" and not panel.layers
                    else max(_HALF_BAR, _HALF_OF_RECOMPUTED / row_points)
                )
                self._draw_bars(axes, bars, thin, meaning if meaning not in meanings else "_")
                meanings.add(meaning)
        self._mark(axes, min(max(0.55 * row_points, 2.5), 5.5))
        self._name_rows(axes, row_points)
        axes.tick_params(axis="x", labelbottom=False)
        _add_legend(axes)

    def _draw_bars(self, axes: Axes, bars: list[Bar], half: float, meaning: str) -> None:
        """Draw bars of one kind, which extend `half`, in rows, above and below the middle of their row; a meaning that
        begins with "_" is not in the legend."""
        edges, kind, corners = self.picture.edges, bars[0].kind, []
        for bar in bars:
            left, right, row = edges[bar.start - 1], edges[bar.end], self.panel.rows[bar.node]
            corners.append([(left, row - half), (right, row - half), (right, row + half), (left, row + half)])
        axes.add_collection(
            PolyCollection(
                corners, facecolors=[self.picture.colour(self.panel, bar) for bar in bars], linewidths=0,
                label=meaning, gid=f"bars-{kind}{self.suffix}",
                rasterized=self._many, zorder=2 if kind == "only" else 3,
            ),
            autolim=False,
        )  # fmt: skip

    @property
    def _many(self) -> bool:
        return len(self.picture.bars) > _MOST_PATHS

    def _mark(self, axes: Axes, size: float) -> None:
        """Draw marks of `size` points, and thin lines from where outputs were dropped to where they are back."""
        panel = self.panel
        if panel.gaps:
            lines = [[(gap.left, gap.row), (gap.right, gap.row)] for gap in panel.gaps]
            drawn = LineCollection(lines, colors=[COLOURS[gap.kind] for gap in panel.gaps], linewidths=0.6,
                                   linestyles=(0, (1, 3)), gid=f"dropped{self.suffix}", zorder=3)  # fmt: skip
            drawn.set_rasterized(self._many)
            axes.add_collection(drawn, autolim=False)
        for what, places in panel.marks.items():
            if places:
                text, kind = MARKS[what]
                form, name = _FORMS[what]
                axes.plot(
                    *zip(*places, strict=True), linestyle="none", marker=form, markersize=size, markerfacecolor="white",
                    markeredgecolor=COLOURS[kind], markeredgewidth=size / 5, label=text, gid=f"{name}{self.suffix}",
                    clip_on=False, zorder=4, rasterized=self._many,
                )  # fmt: skip

    def _name_rows(self, axes: Axes, row_points: float) -> None:
        """Write names of all nodes where they fit, else of as many marked ones as do, with lines to their rows."""
        panel = self.panel
        marked = [panel.rows[v] for v in panel.marked]
        distance = _READABLE / row_points
        if panel.layers:
            self._name_layers(axes, distance)
            return
        if distance > 1:
            self._name_marked(axes, marked, distance)
            return
        names = [row_name(self.picture.graph, v) for v in panel.order]
        axes.set_yticks(range(len(names)), names, fontsize=min(9.0, 0.85 * row_points), parse_math=False)
        labels = axes.get_yticklabels()
        for row in marked:
            labels[row].set(color=COLOURS["again"], fontweight="bold")
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel(panel.nodes_title, parse_math=False)

    def _name_layers(self, axes: Axes, distance: float) -> None:
        """Write names of layers in the middle of their rows, of as many as fit."""
        panel = self.panel
        named = {each.middle: clean(shortened(each.name, LONGEST)) for each in panel.layers}
        places = spread(list(named), distance, len(panel.order) - 1)
        for row, place in places.items():
            axes.plot([0, -0.004, -0.01], [row, row, place], color=INK, linewidth=0.5, clip_on=False,
                      transform=axes.get_yaxis_transform())  # fmt: skip
        axes.set_yticks(
            list(places.values()), [named[row] for row in places], fontsize=0.85 * _READABLE, parse_math=False
        )
        axes.tick_params(axis="y", length=0, pad=0.012 * _POINTS * _WIDTH)
        axes.set_ylabel(panel.nodes_title, parse_math=False)

    def _name_marked(self, axes: Axes, marked: list[int], distance: float) -> None:
        """Write names `distance` rows apart next to the axes, each with a line to its row."""
        panel = self.panel
        places = spread(marked, distance, len(panel.order) - 1)
        for row, place in places.items():
            axes.plot([0, -0.004, -0.01], [row, row, place], color=COLOURS["again"], linewidth=0.5, clip_on=False,
                      transform=axes.get_yaxis_transform())  # fmt: skip
        names = [row_name(self.picture.graph, panel.order[row]) for row in places]
        axes.set_yticks(
            list(places.values()), names, fontsize=0.85 * _READABLE, color=COLOURS["again"], parse_math=False
        )
        axes.tick_params(axis="y", length=0, pad=0.012 * _POINTS * _WIDTH)
        some = "" if len(places) == len(marked) else f", {len(places)} of them"
        which = f" (named: {'marked' if panel.name else 'recomputed'}{some})" if marked else ""
        axes.set_ylabel(f"{panel.nodes_title}{which}", parse_math=False)

    def draw_memory(self, axes: Axes) -> None:
        picture, panel, suffix = self.picture, self.panel, self.suffix
        scale = picture.scale
        if panel.before is not None:
            _draw_profile(axes, panel.before, scale, gid=f"memory-before{suffix}", color=BEFORE, width=2.0,
                          label=f"input order, stage by stage, peak {picture.amount(panel.before.peak)}")  # fmt: skip
        _draw_profile(axes, panel.after, scale, gid=f"memory-after{suffix}", color=AFTER, width=1.0, fill=PALE,
                      label=f"{picture.what}, peak {picture.amount(panel.after.peak)}")  # fmt: skip
        if panel.budget is not None:
            axes.axhline(panel.budget / scale.step, color=BUDGET, linestyle=(0, (5, 3)), linewidth=1.1,
                         gid=f"budget{suffix}", zorder=5, label=f"budget {picture.amount(panel.budget)}")  # fmt: skip
        axes.set_ylim(0, 1.08 * max(panel.most, 1) / scale.step)
        axes.set_ylabel(panel.title(scale.title), parse_math=False)
        axes.yaxis.set_major_formatter("{x:,.10g}")
        _add_legend(axes)


def _add_legend(axes: Axes) -> None:
    """Add a legend above the axes, with as many columns as there is room for; it is filled column by column."""
    texts = axes.get_legend_handles_labels()[1]
    if not texts:
        return

    def width(columns: int) -> float:
        rows = -(-len(texts) // columns)
        parts = [texts[at : at + rows] for at in range(0, len(texts), rows)]
        return sum(_HANDLE + _CHARACTER * max(map(len, part)) for part in parts)

    columns = next((columns for columns in range(len(texts), 1, -1) if width(columns) <= _LEGEND_WIDTH), 1)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, borderaxespad=0.2, handlelength=1.6
    )


def _draw_profile(
    axes: Axes, profile: Profile, scale: MemoryScale, *, gid: str, color: str, width: float, label: str,
    fill: str | None = None,
) -> None:  # fmt: skip
    """Draw a step line of a width in points, and mark its peak; `fill` is the colour below it, None if absent."""
    values = [memory / scale.step for memory in profile.memory]
    axes.stairs(values, profile.edges, baseline=None if fill is None else 0, gid=gid, edgecolor=color, linewidth=width,
                facecolor=fill, fill=fill is not None, label=label)  # fmt: skip
    axes.plot([profile.peak_at], [max(values)], marker="o", markersize=4, color=color, gid=f"{gid}-peak", zorder=6)


# --- Frontiers ------------------------------------------------------------------------------------------------

# In an SVG these parts have ids: "durations", "bounds", "gap", "infeasible", "proven", "open" and "input-order".


_SIZE = 8.0, 5.2  # inches
_FEW = 40
"""The most points with marks of full size."""


def render_frontier(picture: FrontierPicture, form: str) -> bytes:
    """The picture as a "png", a "pdf" or an "svg"."""
    return rendered(lambda: frontier_figure_of(picture), form, {**SETTINGS, "hatch.linewidth": 0.5})


def frontier_figure_of(picture: FrontierPicture) -> Figure:
    """Return the figure of a frontier, not yet drawn."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    _draw_regions(picture, axes)
    _draw_steps(picture, axes)
    _draw_marks(picture, axes)
    _lay_out_frontier(picture, axes)
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


def _lay_out_frontier(picture: FrontierPicture, axes: Axes) -> None:
    axes.set_xlim(picture.left, picture.right)
    axes.set_ylim(picture.bottom, picture.top)
    axes.set_xlabel(f"budget, % of the input order's peak of {picture.peak_text}")
    axes.set_ylabel(picture.frontier.increase_title)
    axes.xaxis.set_major_formatter("{x:.10g}")
    axes.yaxis.set_major_formatter("{x:.10g}")
    axes.spines["right"].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    step = max(picture.frontier.peak, 1) / picture.scale.step / 100
    functions = (lambda x: x * step, lambda x: x / step)
    above = axes.secondary_xaxis("top", functions=functions)
    above.set_xlabel(picture.scale.title.replace("memory", "budget"))
    above.xaxis.set_major_formatter("{x:,.10g}")
    axes.figure.legend(loc="outside lower left", ncols=3, frameon=False)
