"""Draw the two pictures of docs/paper.md: the retention intervals of data/paper_example.dzn, and the events of stages.

Usage: python scripts/paper_figures.py [FOLDER]        (default: data/ next to this script's folder)

It writes paper_intervals.svg and paper_stages.svg, the same bytes with the same matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from moccasin_mzn.base.files import replace_file
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.report.plots.picture import COLOURS, INK, PALE, Bar, Picture
from moccasin_mzn.report.plots.static import render, rendered

DATA = Path(__file__).resolve().parents[1] / "data"
GRAPH = ComputationGraph(
    nodes=("node 1", "node 2", "node 3", "node 4"), durations=(1, 1, 1, 1), sizes=(1, 2, 2, 1),
    edges=((0, 1), (0, 3), (1, 2), (2, 3)), name="example of the paper",
)  # fmt: skip
BUDGET, SEQUENCE = 4, (0, 1, 2, 0, 3)
_WIDTH, _HEIGHT = 9.0, 3.2  # inches
_HALF = 0.3
"""Half the height of a bar, in rows."""


def intervals() -> Picture:
    """The schedule 1 2 3 1 4: what the general form of models/paper.mzn finds."""
    return Picture.of_schedule(GRAPH, SEQUENCE, GRAPH.input_order(), BUDGET)


def event(stage: int, node: int) -> int:
    """The event of a node in a stage, both from 1, as (11) numbers them."""
    return stage * (stage - 1) // 2 + node


def stages() -> Figure:
    """The same schedule in stages: an event for each pair of a stage and a node in it, few of them used."""
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes, n = figure.subplots(), len(GRAPH.nodes)
    picture = intervals()
    events = [event(stage, node + 1) for stage, node in zip(picture.stages, SEQUENCE, strict=True)]
    for stage in range(1, n + 1):
        _draw_stage(axes, stage)
    for bar in picture.bars:
        _draw_bar(axes, bar, events)
    axes.set(xlim=(0.5, event(n, n) + 0.5), ylim=(n - 0.4, -1.1), xlabel="event")
    axes.set_xticks(range(1, event(n, n) + 1))
    axes.set_yticks(range(n), [str(name) for name in GRAPH.nodes])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _draw_stage(axes: Axes, stage: int) -> None:
    """A band from the first event of a stage to its last, and a box for each node at its event."""
    left, right = event(stage, 1) - 0.5, event(stage, stage) + 0.5
    if stage % 2 == 0:
        axes.axvspan(left, right, color=PALE, alpha=0.5, linewidth=0, zorder=0)
    axes.text((left + right) / 2, -0.75, f"stage {stage}", ha="center", va="center")
    for node in range(1, stage + 1):
        corner = (event(stage, node) - 0.5 + 0.06, node - 1 - 1.2 * _HALF)
        axes.add_patch(Rectangle(corner, 0.88, 2.4 * _HALF, fill=False, edgecolor=INK, linewidth=0.6, zorder=1))


def _draw_bar(axes: Axes, bar: Bar, events: list[int]) -> None:
    """A retention interval between two events, the first of them its computation."""
    start, end = events[bar.start - 1], events[bar.end - 1]
    corner, width = (start - 0.5 + 0.06, bar.node - _HALF), end - start + 0.88
    axes.add_patch(Rectangle(corner, width, 2 * _HALF, color=COLOURS[bar.kind], linewidth=0, alpha=0.45, zorder=2))
    axes.add_patch(Rectangle(corner, 0.88, 2 * _HALF, color=COLOURS[bar.kind], linewidth=0, zorder=3))


def files() -> dict[str, bytes]:
    """Content of both pictures by file name."""
    return {"paper_intervals.svg": render(intervals(), "svg"), "paper_stages.svg": rendered(stages, "svg")}


def main(folder: Path) -> None:
    """Write both pictures into `folder`."""
    for name, content in files().items():
        replace_file(folder / name, content)
        print(folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    main(parser.parse_args().folder)
