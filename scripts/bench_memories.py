"""Networks in parts on SRAM and PSRAM: bytes read and written in PSRAM, next to whole layers, and parts in SRAM alone.

    python scripts/bench_memories.py [NETWORK ...] [--kib 32,64,128] [--time-limit 60] [--seed 0]
    python scripts/bench_memories.py --combined [--time-limit 60]

NETWORK is one of `int8_networks.NETWORKS`, or one of `tiled_networks.NETWORKS`, which are float, such as "U-Net". PSRAM
has all the room that there is; a byte read or written there takes as long as 4 multiply-adds, one in SRAM as long as
none.

- whole, parts: bytes read and written in PSRAM, of whole layers in any order and of `--tile auto`; the gap between
  their duration and its bound; "*": proven
- SRAM alone: computation of parts over computing everything once, where PSRAM is not used; "-": nothing was found

`--combined`: DenseNet121 in place in two memories of one device with offsets, and a training step of ResNet50 in place,
with workspaces, on two devices. There batch normalizations, activations and additions may overwrite an input, and a
convolution takes an eighth of its output in addition while it runs; each next to the same without running in place.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
from int8_networks import NETWORKS as INT8
from row_tables import print_columns
from tiled_networks import NETWORKS as FLOAT

import moccasin_mzn as mz
from moccasin_mzn.deploy.onnx_deployment import read_source
from moccasin_mzn.graphs.generators.catalogue import generate_network
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.onnx.preparation import Optimize
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model

COST = 4
"""Multiply-adds that an access to a byte of PSRAM takes."""
HEAD = ("network", "SRAM", "nodes", "accesses, all in PSRAM", "whole", "gap %", "parts", "gap %", "SRAM alone", "s")

PLAIN = "bn", "relu", "add"
"""Ends of the names of operations that work element by element."""
TOGETHER = ("graph", "machine", "nodes", "increase %", "bound %", "gap %", "peaks or arenas", "found by", "s")


def main() -> None:
    """Read the command line, solve, print row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["mobilenet", "person_detection", "U-Net"])
    parser.add_argument("--combined", action="store_true", help="the table of features together instead")
    parser.add_argument("--kib", default="32,64,128", help="sizes of SRAM")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each answer")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.combined:
        print_columns(TOGETHER, together(arguments), left=("graph", "machine"))
    else:
        print_columns(HEAD, rows(arguments), left=("network",))


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """A row for each network and size of SRAM."""
    for name in arguments.networks:
        graph = graph_named(name)
        for kib in map(int, arguments.kib.split(",")):
            yield row_of(graph, name, kib, arguments)


def graph_named(name: str) -> mz.ComputationGraph:
    """The graph of a network."""
    with tempfile.TemporaryDirectory() as folder:
        if name in INT8:
            (path := Path(folder, f"{name}.tflite")).write_bytes(INT8[name]())
            return graph_of(read_model(path), name)
        onnx.save(FLOAT[name](), path := Path(folder, f"{name}.onnx"))
        return read_source(path, OnnxImport({}, optimize=Optimize.BASIC)).graph


def row_of(graph: mz.ComputationGraph, name: str, kib: int, arguments: argparse.Namespace) -> list[str]:
    """The figures of a network with this much SRAM."""
    how = {"time_limit": arguments.time_limit, "seed": arguments.seed, "threads": 2}
    memories = {"sram": f"{kib}KiB:0", "psram": f"inf:{COST}"}
    whole = mz.solve(graph, memories=memories, order="free", **how)
    parts = mz.solve(graph, memories=memories, tile="auto", **how)
    alone = mz.solve(graph, f"{kib}KiB", tile="auto", search="only", **how)
    everything = sum((1 + len(readers)) * size for readers, size in zip(graph.successors, graph.sizes, strict=True))
    computed = f"{alone.duration / alone.graph.total_duration:.3f}" if alone.valid else "-"
    seconds = f"{whole.seconds + parts.seconds + alone.seconds:.0f}"
    nodes = f"{len(graph.nodes)}, {len(parts.graph.nodes)}"
    return [name, f"{kib} KiB", nodes, f"{everything:,}", *figures(whole), *figures(parts), computed, seconds]


def figures(found: mz.Result) -> tuple[str, str]:
    """Bytes accessed in PSRAM, and the gap."""
    if not found.valid or found.plan is None:
        return "-", "-"
    computation = sum(found.graph.durations[action.node] for action in found.plan)
    accessed = (found.duration - computation) // COST
    again = computation - found.graph.total_duration
    more = f" (+{100 * again / found.graph.total_duration:.1f} % computed)" if again else ""
    return f"{accessed:,}{'*' if found.status == 'optimal' else ''}{more}", f"{found.gap_percent:.3f}"


# --- Features together ----------------------------------------------------------------------------------------


def together(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """A row for each graph and machine, in place and not."""
    how = {"time_limit": arguments.time_limit, "seed": arguments.seed, "threads": 2}
    densenet = overwriting(layers_of("densenet121", training=False))
    step = working(overwriting(layers_of("resnet50", training=True)))
    two_memories = {"memories": {"fast": 0.6, "slow": "inf:10"}, "addresses": True, "alignment": 64}
    two_devices = {"devices": {"gpu": 0.5, "cpu": "inf:20"}, "copies": {"time": 20}}
    for graph, name, machine in (
        (densenet, "fast 0.6, slow, offsets", two_memories), (step, "gpu 0.5, cpu, workspaces", two_devices)
    ):  # fmt: skip
        for in_place in (False, True):
            found = mz.solve(graph, in_place=in_place, **machine, **how)
            yield [graph.name or "", f"{name}{', in place' if in_place else ''}", *combined(found)]


def combined(found: mz.Result) -> list[str]:
    """The figures of an answer."""
    nodes, seconds = str(len(found.graph.nodes)), f"{found.seconds:.0f}"
    if not found.valid or found.duration is None:
        return [nodes, str(found.status), "-", "-", "-", "-", seconds]
    least = found.details.problem.least_value()
    taken = found.arenas or found.peaks
    return [
        nodes, f"{100 * (found.duration / least - 1):.3f}", f"{100 * (found.bound / least - 1):.3f}",
        f"{found.gap_percent:.3f}", ", ".join(f"{name} {size:,}" for name, size in taken.items()), found.found_by,
        seconds,
    ]  # fmt: skip


def layers_of(name: str, training: bool) -> mz.ComputationGraph:
    """A published network."""
    return generate_network(name, batch=8 if training else 1, training=training)


def overwriting(graph: mz.ComputationGraph) -> mz.ComputationGraph:
    """The graph whose element by element operations may overwrite an input of their size."""
    rows = [
        tuple(u for u in inputs if graph.sizes[u] == graph.sizes[v] and name_of(graph, v).endswith(PLAIN))
        for v, inputs in enumerate(graph.predecessors)
    ]  # fmt: skip
    return replace(graph, in_place=rows)


def name_of(graph: mz.ComputationGraph, v: int) -> str:
    """The name of a node for people."""
    return str((graph.labels or graph.nodes)[v])


def working(graph: mz.ComputationGraph) -> mz.ComputationGraph:
    """The graph whose convolutions have workspaces."""
    taken = [size // 8 if name_of(graph, v).endswith("conv") else 0 for v, size in enumerate(graph.sizes)]
    return replace(graph, workspaces=taken)


if __name__ == "__main__":
    main()
