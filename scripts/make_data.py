"""Write the graphs the project ships: data/*.json and the table in data/README.md.

Usage: python scripts/make_data.py [FOLDER]        (default: data/ beside this script's folder)

The same program writes the same bytes on every platform.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from moccasin_mzn.generators.architectures import unet
from moccasin_mzn.generators.checkmate import training_graph
from moccasin_mzn.generators.randomly_wired import randomly_wired
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.readers.jsonfile import replace_file
from moccasin_mzn.readers.node_link import graph_text
from moccasin_mzn.simulate import simulate

COMMAND = "python scripts/make_data.py"
WIRING_SEED = 4

_README = """\
# Shipped graphs

Written by `{command}`; do not edit. Sizes are bytes; durations are floating-point
operations, a multiply-add counted as one. *Floor* is the largest working set, the inputs and the output of one node:
no budget below it is feasible.

| file | n | m | peak of the input order | floor | floor / peak | total duration |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

- `unet_training.json`: a U-Net on 256 x 256 images, batch 8, forward and backward by Checkmate's construction. It has
  only one topological order, so any budget below the peak takes recomputation.
- `randomly_wired_inference.json`: the forward pass of a randomly wired network, four Watts-Strogatz cells of 32 nodes,
  batch 1. It has many topological orders; the input order takes layers far from the output first.

The format is described in `moccasin_mzn/readers/node_link.py`.
"""


def graphs() -> dict[str, ComputationGraph]:
    """The shipped graphs by file name."""
    batch = 8
    unet_graph = training_graph(unet(height=256, width=256, depth=4, base_channels=64).forward_graph(batch), batch)
    wired_graph = randomly_wired(seed=WIRING_SEED, cells=4, cell_nodes=32).forward_graph(batch=1)
    return {
        "unet_training.json": replace(unet_graph, attributes={"made_by": COMMAND}),
        "randomly_wired_inference.json": replace(wired_graph, attributes={"made_by": COMMAND}),
    }


def files() -> dict[str, str]:
    """Content of every file by name."""
    shipped = graphs()
    contents = {name: graph_text(graph) for name, graph in shipped.items()}
    rows = "\n".join(_row(name, graph) for name, graph in shipped.items())
    contents["README.md"] = _README.format(command=COMMAND, rows=rows)
    return contents


def _row(name: str, graph: ComputationGraph) -> str:
    peak = simulate(graph, graph.input_order()).peak
    floor = graph.largest_working_set().memory
    return (
        f"| {name} | {len(graph.nodes)} | {len(graph.edges)} | {peak:,} | {floor:,} | {floor / peak:.3f} "
        f"| {graph.total_duration:,} |"
    )


def main(folder: Path) -> None:
    """Write all files into `folder`, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        replace_file(folder / name, content)
        print(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "data")
