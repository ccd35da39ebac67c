"""Print a Markdown table on the graphs of ResNet18 and a transformer of two blocks, imported from PyTorch.

    python scripts/torch_table.py [--time-limit 20] [--images 8x3x224x224] [--tokens 8x128:int64]

Each network forward, and with the backward pass: what was traced, the graph, its sizes next to those of a real run (all
storages that the operators of an eager run allocate, see tests/graphs/pytorch/real_run.py), and what solving at 0.9
gives. Needs the extra `torch`, and the tests next to the scripts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from row_tables import print_markdown

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.torch.graph import graph_of, versions
from moccasin_mzn.graphs.importers.torch.spec import Input, load_network
from moccasin_mzn.graphs.importers.torch.trace import trace_network
from moccasin_mzn.problem.judges.schedules import simulate

TESTS = Path(__file__).resolve().parents[1] / "tests" / "graphs" / "pytorch"
HEADER = (
    "network", "mode", "fx operations", "nodes", "edges", "output bytes", "real run", "difference %", "peak",
    "floor/peak", "solve at 0.9", "TDI %", "gap %", "s",
)  # fmt: skip
LARGEST_TOKEN = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=20, help="of each solve, in seconds; default 20")
    parser.add_argument("--images", default="8x3x224x224", help="input of ResNet18")
    parser.add_argument("--tokens", default="8x128:int64", help="input of the transformer, at most 256 long")
    arguments = parser.parse_args()
    try:
        print(f"PyTorch {versions()['torch']}, inputs {arguments.images} and {arguments.tokens}\n")
        print_markdown(HEADER, rows(arguments), HEADER)
    except InputError as error:
        sys.exit(str(error))


def rows(arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """One row for each network and mode, as text."""
    for name, shape in (("resnet18", arguments.images), ("transformer", arguments.tokens)):
        for training in (False, True):
            spec = f"{TESTS / 'networks.py'}:{name}"
            trace = trace_network(spec, [shape], training=training)
            graph = graph_of(trace)
            real = real_run(spec, shape, training)
            peak = simulate(graph, graph.input_order()).peak
            result = solve(graph, 0.9, time_limit=arguments.time_limit, if_none="stop").details
            yield (
                name,
                "training" if training else "inference",
                str(trace.raw_operations),
                str(len(graph.nodes)),
                str(len(graph.edges)),
                f"{graph.total_size:,}",
                f"{real:,}",
                f"{100 * (graph.total_size / real - 1):.3f}",
                f"{peak:,}",
                f"{graph.largest_working_set().memory / peak:.3f}",
                result.status,
                f"{result.tdi_percent:.2f}" if result.valid else "",
                f"{result.gap_percent:.2f}" if result.valid else "",
                f"{result.seconds.total:.1f}",
            )


def real_run(spec: str, shape: str, training: bool) -> int:
    """Bytes that a real run of the network on random input allocates for outputs."""
    import torch

    sys.path.insert(0, str(TESTS))
    from real_run import real_bytes

    wanted = Input.parse(shape)
    tokens = wanted.dtype == "int64"
    tensor = torch.randint(0, LARGEST_TOKEN, wanted.shape) if tokens else torch.randn(wanted.shape)
    return real_bytes(load_network(spec), tensor, training=training)


if __name__ == "__main__":
    main()
