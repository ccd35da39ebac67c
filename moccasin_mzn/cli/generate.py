"""The commands `generate ...`: instance families and published networks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.making import MODE, OPTIMIZER, OUTPUT, SCALE, integers, write_made
from moccasin_mzn.cli.strict import group
from moccasin_mzn.errors import InputError

NODES = click.option("--nodes", "-n", type=int, required=True, metavar="N", help="Number of nodes.")
SEED = click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Same seed, same bytes.")


@group()
def generate() -> None:
    """Make a graph: a random one of a family, or a published network."""


@generate.command()
@NODES
@SEED
@click.option("--width", type=float, metavar="W",
              help="w of the paper: layers have about sqrt(n w / (1 - w)) nodes.  [default: 0.31]")  # fmt: skip
@click.option("--layer-width", type=float, metavar="NODES",
              help="Mean nodes of a layer, instead of w: edges then grow like n.")  # fmt: skip
@click.option("--width-spread", type=float, default=0.75, show_default=True, metavar="F",
              help="nlv: layers differ from their mean width by up to this fraction.")  # fmt: skip
@click.option("--density", type=float, default=0.2, show_default=True, metavar="F",
              help="ed: fraction of the pairs of neighbouring layers that are edges.")  # fmt: skip
@click.option("--skips", type=float, default=0.14, show_default=True, metavar="F",
              help="scd: fraction of the edges that skip layers.")  # fmt: skip
@OUTPUT
def layered(
    nodes: int, seed: int, width: float | None, layer_width: float | None, width_spread: float, density: float,
    skips: float, output: Path | None,
) -> int:  # fmt: skip
    """A random layered graph with an input order, the paper's RL: w is 0.27, 0.43, 0.36, 0.31 for its G1 to G4."""
    from moccasin_mzn.graphs.generators.random_layered import random_layered, width_of_layers

    if layer_width is not None and width is not None:
        raise InputError("--width and --layer-width say the same thing: give one of them")
    if layer_width is not None:
        width = width_of_layers(nodes, layer_width)
    parts = {"width_spread": width_spread, "density": density, "skips": skips}
    graph = random_layered(nodes, seed, **({} if width is None else {"width": width}), **parts)
    return write_made(graph, output)


@generate.command("u-shaped")
@NODES
@SEED
@click.option("--shortest", type=int, default=2, show_default=True, metavar="N", help="Length of the shortest skip.")
@click.option("--longest", type=int, metavar="N", help="Length of the longest skip.  [default: n - 1]")
@click.option("--density", type=float, default=1.0, show_default=True, metavar="F", help="Fraction of these skips.")
@click.option("--shrink", type=float, default=1.0, show_default=True, metavar="F",
              help="Sizes in the middle relative to those at the ends.")  # fmt: skip
@OUTPUT
def u_shaped(
    nodes: int, seed: int, shortest: int, longest: int | None, density: float, shrink: float, output: Path | None
) -> int:
    """A chain whose second half reads the first again, as in a U-Net."""
    from moccasin_mzn.graphs.generators.families import u_shaped as make

    graph = make(nodes, seed, shortest=shortest, longest=longest, density=density, shrink=shrink)
    return write_made(graph, output)


@generate.command()
@NODES
@SEED
@click.option("--training/--inference", default=True, show_default=True, help="With loss and gradients, or without.")
@click.option("--unit", is_flag=True, help="All sizes and durations of the layers 1.")
@OUTPUT
def chain(nodes: int, seed: int, training: bool, unit: bool, output: Path | None) -> int:
    """A chain of N layers, in training with a loss and N gradients."""
    from moccasin_mzn.graphs.generators.families import chain as make

    return write_made(make(nodes, seed, training=training, unit=unit), output)


@generate.command("random-dag")
@NODES
@SEED
@click.option("--edges", type=int, metavar="M", help="Number of edges.  [default: 2 n]")
@click.option("--largest", type=int, default=999, show_default=True, metavar="N",
              help="Sizes and durations are from 0 to this.")  # fmt: skip
@OUTPUT
def random_dag(nodes: int, seed: int, edges: int | None, largest: int, output: Path | None) -> int:
    """A random acyclic graph without structure, for tests."""
    from moccasin_mzn.graphs.generators.families import random_dag as make

    return write_made(make(nodes, seed, edges=edges, largest=largest), output)


@generate.command()
@click.argument("name", required=False)
@click.option("--batch", type=int, default=1, show_default=True, metavar="B", help="Samples.")
@click.option("--input", "shape", type=int, nargs=3, metavar="H W C", help="Of one sample.  [default: see --list]")
@MODE
@OPTIMIZER
@click.option("--set", "settings", multiple=True, metavar="KEY=N", help="Other parameters of the network, see --list.")
@SCALE
@click.option("--list", "listing", is_flag=True, help="List the networks with their inputs and parameters.")
@OUTPUT
def network(
    name: str | None, batch: int, shape: tuple[int, int, int] | None, inference: bool, optimizer: str,
    settings: tuple[str, ...], scale: str | None, listing: bool, output: Path | None,
) -> int:  # fmt: skip
    """A published network, by Checkmate's construction and cost model: sizes in bytes, durations in FLOP."""
    from moccasin_mzn.graphs.generators.catalogue import NETWORKS, find, generate_network
    from moccasin_mzn.graphs.importers.program import parse_peak, scaled
    from moccasin_mzn.report.schedules import print_networks

    if listing:
        print_networks(NETWORKS.values(), sys.stdout)
        return EXIT_FOUND
    if name is None:
        raise InputError("which network? `generate network --list` lists them")
    peak = None if scale is None else parse_peak(scale)
    parameters = find(name).chosen(**integers("--set", settings))  # checked here: "batch" is no parameter of a network
    graph = generate_network(name, batch, shape, training=not inference, optimizer=optimizer, **parameters)
    return write_made(graph if peak is None else scaled(graph, peak), output)
