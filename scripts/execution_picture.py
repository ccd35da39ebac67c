"""Draw time over memory of training steps: eager, checkpoints, torch.compile and plans, a panel for each network.

    python scripts/execution_picture.py docs/benchmarks.md --plot data/execution.svg

The points are those of the table of a page that `bench_execution.py` has made, so that the page and its picture agree;
`bench_execution.py --plot` draws what it has just measured. It needs no PyTorch.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import replace_file
from moccasin_mzn.report.plots.picture import GRID, INK
from moccasin_mzn.report.plots.static import rendered


@dataclass(frozen=True)
class Point:
    """A training step that was measured."""

    net: str
    method: str
    memory: float
    """The peak at the allocator, in MB."""
    over: float
    """CPU time over eager, in percent."""


@dataclass(frozen=True)
class Style:
    """The look of a method, the same in all panels."""

    label: str
    colour: str
    marker: str
    line: str = "none"
    """A line only where its points are a trade-off: less memory for more time."""


STYLES = {
    "eager": Style("eager", "#000000", "*"),
    "checkpoint": Style("torch.utils.checkpoint, every block", "#D55E00", "s"),
    "aot_eager": Style("torch.compile, activation_memory_budget", "#CC79A7", "^"),
    "aot_eager knapsack": Style("torch.compile with our knapsack solver", "#E69F00", "X"),
    "aot_eager plan": Style("our plan as a backend of torch.compile", "#009E73", "v", "--"),
    "plan": Style("our plan", "#0072B2", "o", "-"),
}
"""By method; colours of Okabe and Ito, one each."""
HEADINGS = ("net", "method", "budget", "predicted MB", "MB", "predicted %", "over %", "equal")
"""The headings of the table on the page."""
_COLUMNS, _WIDTH, _HEIGHT, _LEGEND = 2, 3.5, 2.5, 0.9
"""The panels in a row, the size of a panel, and the height of the legend, in inches: legible on a telephone."""


def read_points(page: Path) -> list[Point]:
    """Read the points from the table of a page.

    Raises:
        InputError: no table has `HEADINGS`, or a row has no such figures.
    """
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]  # fmt: skip
    first = next((at for at, row in enumerate(rows) if tuple(row) == HEADINGS), None)
    if first is None:
        raise InputError(f"{page}: no table with the headings {', '.join(HEADINGS)}")
    points = []
    for row in rows[first + 2 :]:
        if len(row) != len(HEADINGS) or row[1] not in STYLES or not re.fullmatch(r"[\d.,]+", row[4]):
            break
        points.append(Point(row[0], row[1], float(row[4].replace(",", "")), float(row[6])))
    return points


def picture(points: Sequence[Point]) -> Figure:
    """Draw all points, low and to the left is better; the legend is below the panels."""
    nets = list(dict.fromkeys(point.net for point in points))
    columns = min(_COLUMNS, len(nets))
    rows = -(-len(nets) // columns)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT + _LEGEND), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for net, axes in zip(nets, panels, strict=False):
        _draw(axes, net, [point for point in points if point.net == net])
    for axes in panels[len(nets) :]:
        axes.set_visible(False)
    handles = {
        text: handle for axes in figure.axes for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = [style.label for style in STYLES.values() if style.label in handles]
    figure.legend([handles[label] for label in labels], labels, loc="outside lower left", ncols=2, frameon=False)
    return figure


def _draw(axes: Axes, net: str, points: Sequence[Point]) -> None:
    for method, style in STYLES.items():
        places = sorted((point.memory, point.over) for point in points if point.method == method)
        if places:
            axes.plot(*zip(*places, strict=True), color=style.colour, marker=style.marker, linestyle=style.line,
                      markersize=10 if style.marker == "*" else 5.5, label=style.label, gid=f"{net}-{method}",
                      clip_on=False, zorder=3)  # fmt: skip
    axes.set_title(net, loc="left", fontweight="bold", fontsize=9, parse_math=False)
    axes.set(xlabel="peak memory, MB", ylabel="CPU time over eager, %")
    axes.set_xlim(0, 1.08 * max(point.memory for point in points))
    axes.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def write(points: Sequence[Point], path: Path) -> None:
    """Write the picture, in the form that the suffix names."""
    replace_file(path, rendered(lambda: picture(points), path.suffix.removeprefix(".")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, metavar="PAGE", help="with the table")
    parser.add_argument("--plot", type=Path, required=True, metavar="FILE", help=".svg, .png or .pdf")
    arguments = parser.parse_args()
    write(read_points(arguments.page), arguments.plot)


if __name__ == "__main__":
    main()
