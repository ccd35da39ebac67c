"""Compare generated random layered graphs with the published ones: ten statistics of each of the paper's four shapes.

    python scripts/layered_statistics.py FOLDER [--seeds 100]

FOLDER holds the published graphs random_layered_n100.json, ..., as data/paper does. A statistic
fits if the published graph's is within two standard deviations of the mean over the seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from rich import box
from rich.console import Console
from rich.table import Table

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate

SHAPES = ((100, 0.27), (250, 0.43), (500, 0.36), (1000, 0.31))
"""n and w of the paper's graphs RL G1 to G4."""
NAMED = ("edges", "layers", "skip fraction", "peak / total size")
"""What the generator was made to reproduce; the others follow from its laws."""
DEVIATIONS = 2


@dataclass(frozen=True)
class Line:
    """One statistic of one published graph next to the same of generated ones."""

    nodes: int
    statistic: str
    published: float
    mean: float
    deviation: float

    @property
    def distance(self) -> float:
        """The distance of the published value from the mean, in standard deviations."""
        if self.deviation == 0:
            return 0.0 if self.published == self.mean else float("inf")
        return abs(self.published - self.mean) / self.deviation

    @property
    def fits(self) -> bool:
        """Within two standard deviations."""
        return self.distance <= DEVIATIONS


def statistics_of(graph: ComputationGraph) -> dict[str, float]:
    """Ten statistics of a layered graph; a layer holds what is equally far, by a longest path, from the source."""
    layer = [0] * len(graph.nodes)
    for v in graph.topological_order():
        layer[v] = max((layer[u] + 1 for u in graph.predecessors[v]), default=0)
    skips = [layer[v] - layer[u] for u, v in graph.edges if layer[v] - layer[u] > 1]
    sizes = sorted(graph.sizes)
    return {
        "edges": len(graph.edges),
        "layers": len(set(layer)),
        "skip fraction": len(skips) / len(graph.edges),
        "peak / total size": simulate(graph, graph.input_order()).peak / graph.total_size,
        "mean skip, in layers": mean(skips),
        "mean size": graph.total_size / len(graph.nodes),
        "median size": sizes[len(sizes) // 2],
        "mean duration": graph.total_duration / len(graph.nodes),
        "most inputs": max(map(len, graph.predecessors)),
        "readers of the source": len(graph.successors[0]),
    }


def lines(folder: Path, seeds: int) -> Iterator[Line]:
    """All statistics of all four shapes.

    Raises:
        InputError: a published graph cannot be read.
    """
    for n, width in SHAPES:
        published = statistics_of(read_graph(folder / f"random_layered_n{n}.json"))
        generated = [statistics_of(random_layered(n, seed, width=width)) for seed in range(seeds)]
        for statistic, value in published.items():
            values = [found[statistic] for found in generated]
            yield Line(n, statistic, value, mean(values), stdev(values))


def main() -> None:
    """Read the command line, print the table and how many statistics fit; exit status 1 below nine of ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds: two seeds at least, for a standard deviation")
    try:
        found = list(lines(arguments.folder, arguments.seeds))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    table = Table("n", "statistic", "published", "mean", "deviation", "distance", "fits", box=box.MARKDOWN)
    for line in found:
        figures = (f"{value:.4g}" for value in (line.published, line.mean, line.deviation, line.distance))
        table.add_row(str(line.nodes), line.statistic, *figures, "yes" if line.fits else "NO")
    Console(width=120).print(table)
    good = True
    for what, part in (("the four named", [line for line in found if line.statistic in NAMED]), ("all", found)):
        fitting = sum(line.fits for line in part)
        good &= 10 * fitting >= 9 * len(part)
        print(f"{what}: {fitting} of {len(part)} within {DEVIATIONS} standard deviations of the mean")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
