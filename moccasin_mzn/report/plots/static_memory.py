"""PNG, PDF and SVG pictures of memory over time by what it is for, drawn by matplotlib.

In an SVG the layers have ids, "layer-0" from below, and so have "peak", "limit" and "phases".
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moccasin_mzn.report.plots.memory_picture import PALETTE, MemoryPicture
from moccasin_mzn.report.plots.picture import BUDGET, INK, clean
from moccasin_mzn.report.plots.static import rendered

_SIZE = 9.0, 5.0  # inches
_NAME_POINTS = 7.0


def render_memory(picture: MemoryPicture, form: str) -> bytes:
    """The picture as a "png", a "pdf" or an "svg"."""
    return rendered(lambda: memory_figure_of(picture), form)


def memory_figure_of(picture: MemoryPicture) -> Figure:
    """Return the figure, not yet drawn."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    _draw_layers(picture, axes)
    _name_modules(picture, axes)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{clean(picture.title)}\n{clean(picture.subtitle)}", x=0.01, ha="left", fontsize=10, parse_math=False,
        linespacing=1.5,
    )  # fmt: skip
    return figure


def _draw_layers(picture: MemoryPicture, axes: Axes) -> None:
    step, columns = picture.scale.step, len(picture.chosen)
    below = [0.0] * columns
    for at, (name, values) in enumerate(picture.drawn_layers.items()):
        above = [low + value / step for low, value in zip(below, values, strict=True)]
        axes.fill_between(
            range(columns), below, above, step="mid", linewidth=0, facecolor=PALETTE[at % len(PALETTE)], label=name,
            gid=f"layer-{at}",
        )  # fmt: skip
        below = above
    place, peak = picture.peak
    axes.plot([place], [peak / step], marker="o", markersize=4, color=INK, gid="peak", zorder=6)
    if picture.limit is not None and picture.limit[1] < 2 * peak:
        name, amount = picture.limit
        axes.axhline(amount / step, color=BUDGET, linestyle=(0, (5, 3)), linewidth=1.1, gid="limit", zorder=5,
                     label=f"{name} {picture.scale.text(amount)}")  # fmt: skip
    axes.set_xlim(0, max(1, columns - 1))
    axes.set_ylim(bottom=0)
    axes.set_ylabel(picture.scale.title)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=4, frameon=False)


def _name_modules(picture: MemoryPicture, axes: Axes) -> None:
    modules = picture.modules
    axes.set_xticks(
        [(span.start + span.end - 1) / 2 for span in modules], [clean(span.name) for span in modules], rotation=90,
        fontsize=_NAME_POINTS, parse_math=False,
    )  # fmt: skip
    for span in picture.phases:
        axes.axvline(span.start, color=INK, linewidth=0.5, linestyle=":", gid="phases")
        axes.text(span.start, 1.0, f" {span.name}", transform=axes.get_xaxis_transform(), fontsize=_NAME_POINTS,
                  va="bottom", color=INK, parse_math=False)  # fmt: skip
