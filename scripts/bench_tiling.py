"""Chains of published networks in rows: bytes and computation of our schedules, and of msf-CNN's fusion.

    python scripts/bench_tiling.py [NETWORK[@BYTES] ...] [--time-limit 120] [--seed 0]

For each budget the parts are single rows, or these cut into columns of some hundred bytes, or where strips overlap.

The layers are those of msf-CNN (Huang et al., NeurIPS 2025), `analysis_optimization.py`: int8, a byte an element; the
network's input and its last output take no memory. Its points are the published ones of its own model, MACs over those
of computing everything once; *board* is what its tightest point took on boards.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from row_tables import print_columns

import moccasin_mzn as mz
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import cut, steps
from moccasin_mzn.graphs.tiling.strips import strips_within

CONVOLUTION, DEPTHWISE = "conv", "depthwise"
Layer = tuple[str, int, int, int, int]
"""Kind, channels, kernel, stride, padding."""


def inverted(before: int, after: int, expansion: int, stride: int, padding: int = 1, kernel: int = 3) -> list[Layer]:
    """An inverted bottleneck, without its addition."""
    return [
        (CONVOLUTION, before * expansion, 1, 1, 0), (DEPTHWISE, before * expansion, kernel, stride, padding),
        (CONVOLUTION, after, 1, 1, 0),
    ]  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """A network, and what msf-CNN published of it."""

    side: int
    """Height and width of the input of three channels."""
    layers: tuple[Layer, ...]
    published: tuple[tuple[int, float], ...]
    """Bytes, and MACs over those of computing everything once."""
    budgets: tuple[tuple[int, str], ...]
    """Bytes, and the parts: `rows`, `600 B` for rows cut into columns of at most that amount, or `3 strips`."""


def _mobilenet() -> tuple[Layer, ...]:
    def channels(of: int) -> int:
        return int(of * 0.35)

    rows = [
        (32, 16, 1, 1), (16, 24, 6, 2), (24, 24, 6, 1), (24, 32, 6, 2), (32, 32, 6, 1), (32, 32, 6, 1), (32, 64, 6, 2),
        *[(64, 64, 6, 1)] * 3, (64, 96, 6, 1), *[(96, 96, 6, 1)] * 2, (96, 160, 6, 2), *[(160, 160, 6, 1)] * 2,
        (160, 320, 6, 1),
    ]  # fmt: skip
    blocks = [each for before, after, e, s in rows for each in inverted(channels(before), channels(after), e, s)]
    return ((CONVOLUTION, channels(32), 3, 2, 1), *blocks, (CONVOLUTION, channels(1280), 1, 1, 0))


def _mcunet(*rows: tuple[int, ...]) -> tuple[Layer, ...]:
    first: list[Layer] = [(CONVOLUTION, 16, 3, 2, 1), (DEPTHWISE, 16, 3, 1, 1), (CONVOLUTION, 8, 1, 1, 0)]
    return (*first, *(each for row in rows for each in inverted(*row)))


CHAINS = {
    "mobilenet": Chain(
        144, _mobilenet(),
        ((181_440, 1.0), (67_905, 1.097), (25_674, 1.253), (21_288, 1.297), (15_340, 1.382), (13_926, 1.563),
         (7_887, 1.679)),
        ((18_580, "rows"), (15_340, "2 strips"), (13_926, "2 strips"), (12_000, "600 B"), (12_000, "2 strips"),
         (8_560, "3 strips"), (7_887, "4 strips")),
    ),
    "vww5": Chain(
        80, _mcunet(
            (8, 16, 6, 2), (16, 16, 3, 1), (16, 16, 3, 1), (16, 24, 3, 2, 3, 7), (24, 24, 6, 1), (24, 24, 5, 1, 2, 5),
            (24, 40, 6, 2, 3, 7), (40, 40, 6, 1, 3, 7), (40, 48, 6, 1), (48, 48, 4, 1), (48, 96, 5, 2, 2, 5),
            (96, 96, 5, 1), (96, 96, 4, 1), (96, 160, 3, 1, 3, 7),
        ),
        ((32_792, 1.039), (13_376, 1.345), (12_000, 1.957)), ((13_120, "500 B"), (12_000, "2 strips")),
    ),
    "mcunet": Chain(
        176, _mcunet(
            (8, 16, 3, 2, 3, 7), (16, 16, 5, 1), (16, 16, 5, 1, 3, 7), (16, 16, 4, 1, 2, 5), (16, 24, 5, 2, 2, 5),
            (24, 24, 5, 1, 2, 5), (24, 24, 5, 1, 2, 5), (24, 40, 5, 2), (40, 40, 6, 1, 3, 7), (40, 40, 4, 1, 2, 5),
            (40, 48, 5, 1, 2, 5), (48, 48, 5, 1, 3, 7), (48, 48, 5, 1), (48, 96, 6, 2), (96, 96, 5, 1, 3, 7),
            (96, 96, 4, 1), (96, 160, 5, 1, 3, 7),
        ),
        ((94_184, 1.455), (62_880, 2.020), (42_643, 2.695)), ((56_320, "rows"), (42_643, "3 strips")),
    ),
}  # fmt: skip


def graph_of(name: str) -> mz.ComputationGraph:
    """The chain as a graph: a node for each layer, sizes in bytes, durations in MACs."""
    chain = CHAINS[name]
    operators: list[Operator] = []
    durations: list[int] = []
    shape = (chain.side, chain.side, 3)
    for at, (kind, channels, kernel, stride, padding) in enumerate(chain.layers):
        side = (shape[0] + 2 * padding - kernel) // stride + 1
        windows = [Reach(axis, stride, kernel, 1, padding) for axis in (0, 1)]
        met = Reach(2) if kind == DEPTHWISE else None
        made = side, side, channels
        operators.append(Operator(kind, made, (Read(at - 1 if at else None, shape, (*windows, met)),)))
        per_element = kernel**2 * (1 if kind == DEPTHWISE else shape[2])
        durations.append(side * side * channels * per_element)
        shape = made
    count = len(operators)
    return mz.ComputationGraph(
        nodes=[f"{each.name}{at}" for at, each in enumerate(operators)], durations=durations,
        sizes=[*(each.elements for each in operators[:-1]), 0], edges=[(at, at + 1) for at in range(count - 1)],
        name=name, duration_unit="MAC", size_unit="byte", operators=operators,
    )  # fmt: skip


def published_at(chain: Chain, budget: int) -> str:
    """The least computation that is published within a budget."""
    within = [factor for amount, factor in chain.published if amount <= budget]
    return f"{min(within):.3f}" if within else "-"


def parts_of(graph: mz.ComputationGraph, budget: int, parts: str) -> mz.ComputationGraph:
    """Single rows, cut into columns of a number of bytes at most, or for a number of strips."""
    amount = 0 if parts == "rows" else int(parts.split()[0])
    if parts.endswith("strips"):
        return cut(graph, strips_within(graph, amount, budget))
    cuts: dict[int, dict[int, tuple[int, ...]]] = {}
    for v, operator in enumerate(graph.operators or ()):
        assert operator is not None
        rows, columns, channels = operator.shape
        width = max(1, amount // channels) if amount else columns
        cuts[v] = {0: steps(rows, 1), 1: steps(columns, width)}
    return cut(graph, cuts)


def row_of(name: str, budget: int, parts: str, arguments: argparse.Namespace) -> list[str]:
    """Solve for one budget; the cells of its row."""
    tiled = parts_of(graph_of(name), budget, parts)
    found = mz.solve(
        tiled, budget, order="free", max_computations="auto", time_limit=arguments.time_limit, seed=arguments.seed,
        threads=2, if_none="stop",
    )  # fmt: skip
    factor = f"{found.duration / tiled.total_duration:.4f}" if found.sequence else "none found"
    peak = f"{found.peak:,}" if found.sequence else "-"
    bound = f"{(found.bound or tiled.total_duration) / tiled.total_duration:.4f}"
    mark = published_at(CHAINS[name], budget)
    return [name, parts, str(len(tiled.nodes)), f"{budget:,}", mark, factor, bound, peak, f"{found.seconds:.0f}"]


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help="names, or NAME@BYTES")
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    print_columns(("network", "parts", "nodes", "bytes", "msf-CNN", "ours", "bound", "peak", "s"), rows(arguments))


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    for one in arguments.networks or CHAINS:
        name, _, budget = one.partition("@")
        for amount, parts in CHAINS[name].budgets:
            if not budget or amount == int(budget):
                yield row_of(name, amount, parts, arguments)


if __name__ == "__main__":
    main()
