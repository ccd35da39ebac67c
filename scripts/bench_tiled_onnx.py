"""ONNX models computed in parts, next to the models they were made of, in ONNX Runtime: peaks and outputs.

    python scripts/bench_tiled_onnx.py [NETWORK ...] [--time-limit 10] [--most-nodes 1500]

NETWORK is one of `tiled_networks.NETWORKS`, or the file of a model; by default each of them. Of each, tilings from
coarse to fine are ordered, each operator computed once, and the one of least peak is written, run and measured.

- file: peak in the order of the file, KB, which is also measured; order: the proven least of all orders without parts
- planned, measured: peak with parts, slices and concatenations included
- computed: multiply-adds of all operators but slices and concatenations, over those of the model
- copied: bytes of slices and concatenations that parts need, KB
- apart: largest difference of outputs, in units in the last place of the largest number
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from row_tables import print_columns
from tiled_networks import NETWORKS

import moccasin_mzn as mz
from moccasin_mzn.deploy.onnx_comparing import Comparison, compare
from moccasin_mzn.deploy.onnx_deployment import Deployment, Source, deploy, in_parts, read_source
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.tiling.choosing import tilings

HEADINGS = (
    "model",
    "file",
    "order",
    "planned",
    "measured",
    "of it",
    "nodes",
    "computed",
    "copied",
    "apart",
    "in order",
)


@dataclass(frozen=True)
class Found:
    """A model in parts, and what it came to."""

    least_whole: int
    """Bound on the peak of all orders of the model without parts."""
    source: Source
    deployed: Deployment
    measured: Comparison

    @property
    def work(self) -> tuple[float, int]:
        """Multiply-adds over those of the model, and bytes of the copies that parts need."""
        assert self.source.whole is not None
        of_whole, of_parts = _work(self.source.whole.graph), _work(self.source.graph)
        return of_parts[0] / of_whole[0], of_parts[1] - of_whole[1]


def _work(graph: ComputationGraph) -> tuple[int, int]:
    """Multiply-adds, and those of slices and concatenations, which are bytes."""
    labels = graph.labels or graph.nodes
    copied = sum(graph.durations[v] for v, label in enumerate(labels) if label in ("Concat", "Slice"))
    return graph.total_duration - copied, copied


def least(path: Path, time_limit: float, most_nodes: int) -> Found:
    """The tiling of least peak, each operator computed once."""
    whole = read_source(path)
    bound = mz.order(whole.graph, time_limit=time_limit).bound
    best: tuple[int, Source, tuple[int, ...]] | None = None
    for cuts in tilings(whole.trace.graph, max(whole.graph.working_sets)):
        parts = in_parts(whole, cuts)
        if len(parts.graph.nodes) > most_nodes and best is not None:
            break
        found = mz.order(parts.graph, time_limit=time_limit)
        if best is None or found.peak < best[0]:
            best = found.peak, parts, found.positions
    assert best is not None
    _, parts, sequence = best
    deployed = deploy(parts, sequence)
    return Found(bound, parts, deployed, compare(deployed.model, deployed.original, folder=path.parent))


def row(name: str, found: Found) -> tuple[str, ...]:
    """A row of the table."""
    computed, copied = found.work
    peaks = (found.deployed.former_peak, found.least_whole, found.deployed.planned_peak, found.measured.peak)
    return (
        name, *(f"{peak / 1000:,.1f}" for peak in peaks), f"{found.measured.peak / found.measured.former_peak:.3f}",
        str(len(found.source.graph.nodes)), f"{computed:.4f}", f"{copied / 1000:,.0f}",
        f"{found.measured.rounding:.3g}",
        "yes" if found.measured.late is None else found.measured.late,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--most-nodes", type=int, default=1500)
    arguments = parser.parse_args()
    print_columns(HEADINGS, rows(arguments), left=("model", "in order"))


def rows(arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks:
            path = Path(folder) / "network.onnx" if name in NETWORKS else Path(name)
            if name in NETWORKS:
                onnx.save(NETWORKS[name](), path)
            yield row(name, least(path, arguments.time_limit, arguments.most_nodes))


if __name__ == "__main__":
    main()
