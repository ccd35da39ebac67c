"""Write what the project ships: the graphs of data/ and data/rw/, the tables in data/README.md, and data/instances.

`bench package` has graded the data files of data/instances.

Usage: python scripts/make_data.py [FOLDER]        (default: data/ next to this script's folder)

The same program writes the same bytes on every platform.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

from moccasin_mzn.base.files import replace_file
from moccasin_mzn.bench.matrix import instance_within
from moccasin_mzn.bench.package import FORMULATION, data_files, is_of_package, places
from moccasin_mzn.cli.bench_run import planned
from moccasin_mzn.formulations.catalogue import find_formulation
from moccasin_mzn.formulations.exporting import data_text
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.generators.catalogue import generate_network
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by
from moccasin_mzn.problem.judges.schedules import simulate

DATA = Path(__file__).resolve().parents[1] / "data"
COMMAND = "python scripts/make_data.py"
PACKAGE_COMMAND = "moccasin-mzn bench package instances.toml --instances 16 --no-models"
WIRING_SEED = 4

RW_WIRINGS = {358: (84, 48, 8), 442: (50, 61, 8), 574: (126, 83, 6), 698: (143, 99, 6)}
"""For each number of nodes the seed, the nodes of a cell and their neighbours. Of seeds 0..149 and the cell sizes that
can give exactly this number of nodes, the pair whose number of edges is nearest to that of the paper's graph."""
RW_PUBLISHED_EDGES = {358: 947, 442: 1247, 574: 1304, 698: 1436}
"""Nodes and edges of the paper's graphs RW 1 to 4, all that is known of them besides the results."""

_README = """\
# Shipped graphs

Written by `{command}`; do not edit. Sizes are bytes; durations are floating-point
operations, a multiply-add counted as one. *Floor* is the largest working set, the inputs and the output of one node:
no budget below it is feasible. Parameters and the input batch are in each file as fixed memory, part of no peak.

| file | n | m | peak of the input order | floor | floor / peak | total duration |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}

- `unet_training.json`: a U-Net on 256 x 256 images, batch 8, forward and backward by Checkmate's construction. It has
  only one topological order, so any budget below the peak takes recomputation.
- `randomly_wired_inference.json`: the forward pass of a randomly wired network, four Watts-Strogatz cells of 32 nodes,
  batch 1. It has many topological orders; the input order takes layers far from the output first.

## rw/: stand-ins for the paper's RW graphs

The four graphs RW 1 to 4 of the MOCCASIN paper (Bartan et al., ICML 2023) were never published. **These are not those
graphs**, and results on them cannot be compared with the paper's. They are forward passes of randomly wired networks
(Xie et al., ICCV 2019), batch 1, four cells, one node for each sum and one for each ReLU, separable convolution and
batch norm together. Seed, cell size and neighbours were chosen so that the number of nodes is the paper's and the
number of edges near it, by `python scripts/make_data.py` as well.

| file | n | m | m of the paper's graph | peak of the input order | floor | floor / peak | total duration |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{rw_rows}

All of them leave room for the paper's budgets, 0.9 and 0.8 of the peak.

The format is described in `moccasin_mzn/graphs/formats/node_link.py`.

## Not written by the script

- `run_plan.c`: executes the output of `deploy c-header`, and checks it: see [deploy](../docs/deploy.md#c).
- `minimalloc/`: the eleven challenging sets of buffers of [minimalloc](https://github.com/google/minimalloc) (Moffitt,
  ASPLOS 2023), as published there, each to be placed within 1,048,576; Apache License 2.0, `minimalloc/LICENSE`.
- `paper/`: the paper's own graphs and its table, under their own licence: see [its README](paper/README.md).
- `experiments/`: what `bench run` takes. `smoke.toml` lasts a minute, `search.toml` compares the default
  with models alone and heuristics in five minutes, `portfolio.toml` has eight solvers on twelve
  small graphs, `ablation.toml` the model without each of its redundant constraints, `paper.toml` the tables and figures
  of the paper, `extensions.toml` several memories and addresses, `instances.toml` what `instances/` is chosen from,
  `best_known.toml` the problems of `best_known.csv`.
- `instances/README.md`: how hard the instances are, by
  `bench package data/experiments/instances.toml --instances 16 --no-models -o data/instances`. Their `.dzn` are
  written by the script too, as soon as it names them.
- `best_known.csv` and the files in `best_known/`: the shortest schedules and best bounds known of these graphs, each
  with a schedule and a certificate, by
  `bench best-known data/experiments/best_known.toml --table data/best_known.csv`, which never replaces a value by a
  worse one; `validate --best-known data/best_known.csv` checks all of them.
- `search_progress.svg` and `search_proofs.svg`: two figures of the report of `experiments/search.toml`, by `make bench`
  with `EXPERIMENT=data/experiments/search.toml`.
- `execution.svg`: time over memory of training steps, the table of
  [the benchmarks](../docs/benchmarks.md#training-steps-within-a-budget) as a picture, by
  `scripts/execution_picture.py docs/benchmarks.md --plot data/execution.svg`.
- `paper_example.dzn`: the example of [the paper on a page](../docs/paper.md), for `models/paper.mzn`, with
  `paper_intervals.svg` and `paper_stages.svg`, by `scripts/paper_figures.py`.
- `unet_training.svg` and `unet_front.svg`: pictures in the project's README and `docs/`, by
  `solve data/unet_training.json --budget 0.8 --seed 1 --plot data/unet_training.svg` and
  `frontier data/unet_training.json --time-limit 60 --plot data/unet_front.svg`.
- `tiled_mobilenet.png`: the schedule of [tiling](../docs/tiling.md#an-example), by `plot parts.json schedule.json`.
"""


def graphs() -> dict[str, ComputationGraph]:
    """The shipped graphs by file name, those of `rw_graphs` aside."""
    return _marked(
        {
            "unet_training.json": generate_network("unet", batch=8, training=True),
            "randomly_wired_inference.json": generate_network("randwire", batch=1, seed=WIRING_SEED),
        }
    )


def rw_graphs() -> dict[str, ComputationGraph]:
    """The stand-ins for the paper's RW graphs by file name."""
    found = {}
    for nodes, (seed, cell_nodes, neighbours) in RW_WIRINGS.items():
        found[f"rw/randwire_n{nodes}.json"] = generate_network(
            "randwire", batch=1, seed=seed, cell_nodes=cell_nodes, neighbours=neighbours, fused=1
        )
    return _marked(found)


def instances() -> dict[str, str]:
    """The data files that instances/README.md names, by file name."""
    found, runs = planned(DATA / "experiments" / "instances.toml", ())
    rows = [run.row for run in runs if is_of_package(run.row)]
    by_label = {graph.source.label: graph.graph for graph in found}
    asked = places(rows)
    files = dict(zip(data_files((label, budget) for label, budget, _, _ in asked), asked, strict=True))
    names = re.findall(
        r"^\| (\S+\.dzn) \|", (DATA / "instances" / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    made, form = {}, find_formulation(FORMULATION)
    for name in names:
        label, _, _, amount = files[name]
        instance = instance_within(by_label[label], amount, rows[0]["max_computations"])
        made[f"instances/{name}"] = data_text(instance, form, form.data(instance), PACKAGE_COMMAND)
    return made


def files() -> dict[str, str]:
    """Content of every file by name."""
    shipped, stand_ins = graphs(), rw_graphs()
    contents = {name: graph_text(graph) for name, graph in (shipped | stand_ins).items()} | instances()
    rows = "\n".join(_row(name, graph) for name, graph in shipped.items())
    rw_rows = "\n".join(
        _row(name, graph, f"{RW_PUBLISHED_EDGES[len(graph.nodes)]} | ") for name, graph in stand_ins.items()
    )
    contents["README.md"] = _README.format(command=COMMAND, rows=rows, rw_rows=rw_rows)
    return contents


def _marked(found: dict[str, ComputationGraph]) -> dict[str, ComputationGraph]:
    """The same graphs with a note of this script."""
    mark = {ATTRIBUTE: made_by(COMMAND)}
    return {name: replace(graph, attributes={**graph.attributes, **mark}) for name, graph in found.items()}


def _row(name: str, graph: ComputationGraph, after_edges: str = "") -> str:
    peak = simulate(graph, graph.input_order()).peak
    floor = graph.largest_working_set().memory
    return (
        f"| {name} | {len(graph.nodes)} | {len(graph.edges)} | {after_edges}{peak:,} | {floor:,} | {floor / peak:.3f} "
        f"| {graph.total_duration:,} |"
    )


def main(folder: Path) -> None:
    """Write all files into `folder`, which is made if it is not there."""
    for name, content in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
        print(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    main(parser.parse_args().folder)
