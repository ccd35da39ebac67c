"""Networks in parts on SRAM and PSRAM: bytes read and written in PSRAM, next to whole layers, and parts in SRAM alone.

    python scripts/bench_memories.py [NETWORK ...] [--kib 32,64,128] [--time-limit 60] [--seed 0]

NETWORK is one of `int8_networks.NETWORKS`, or `unet`, float, of `tiled_networks`. PSRAM has all the room that there is;
a byte read or written there takes as long as 4 multiply-adds, one in SRAM as long as none.

- whole, parts: bytes read and written in PSRAM, of whole layers in any order and of `--tile auto`; the gap between
  their duration and its bound; "*": proven
- SRAM alone: computation of parts over computing everything once, where PSRAM is not used; "-": nothing was found
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
from int8_networks import NETWORKS as INT8
from row_tables import print_columns
from tiled_networks import NETWORKS as FLOAT

import moccasin_mzn as mz
from moccasin_mzn.deploy.onnx_deployment import read_source
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.onnx.preparation import Optimize
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model

COST = 4
"""Multiply-adds that an access to a byte of PSRAM takes."""
HEAD = ("network", "SRAM", "nodes", "accesses, all in PSRAM", "whole", "gap %", "parts", "gap %", "SRAM alone", "s")


def main() -> None:
    """Read the command line, solve, print row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["mobilenet", "person_detection", "unet"])
    parser.add_argument("--kib", default="32,64,128", help="sizes of SRAM")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each answer")
    parser.add_argument("--seed", type=int, default=0)
    print_columns(HEAD, rows(parser.parse_args()), left=("network",))


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


if __name__ == "__main__":
    main()
