"""The commands `generate ...`, `reduce` and `convert`, and what all commands that write graph files share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.commands import command as command_text
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.terminal import is_read
from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH, check_apart
from moccasin_mzn.cli.invocation import command_line
from moccasin_mzn.cli.options import Choice, command, group
from moccasin_mzn.graphs.generators.network import NONE, OPTIMIZERS

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph


def _checked(context: click.Context, parameter: click.Parameter, output: Path | None) -> Path | None:
    """Refuse an output that cannot be written before any work is done."""
    from moccasin_mzn.base.files import check_writable

    if output is not None:
        check_writable(output)
    return output


OUTPUT = click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", callback=_checked,
    help="The file to write.  [default: stdout]",
)  # fmt: skip
MODE = click.option(
    "--inference/--training", "inference", default=True, show_default=True,
    help="The forward pass alone, or with the loss and all gradients.",
)  # fmt: skip
OPTIMIZER = click.option(
    "--optimizer", type=Choice(list(OPTIMIZERS)), default=NONE, show_default=True,
    help="The optimizer, whose state counts as fixed memory of a training graph.",
)  # fmt: skip
SCALE = click.option(
    "--scale", metavar="19.5T",
    help="Turn numbers of operations into nanoseconds, on a device with this many operations per second.",
)  # fmt: skip


def integers(option: str, texts: Iterable[str]) -> dict[str, int]:
    """Parse the values NAME=N of an option that may be given several times.

    Raises:
        InputError: a value has another form, or a name is given twice.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name or not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise InputError(f"{option} {shown(text)}: expected NAME=N with an integer N")
        if name in found:
            raise InputError(f"{option} {shown(name)} is given twice")
        found[name] = int(number)
    return found


def write_text(text: str, output: Path | None) -> None:
    """Write a file, or print it."""
    from moccasin_mzn.base.files import replace_file

    if output is None:
        click.echo(text, nl=False)
    else:
        replace_file(output, text)


def write_made(
    graph: ComputationGraph, output: Path | None, versions: Mapping[str, str] | None = None, **facts: Json
) -> int:
    """Write a graph with the record of how it was made, which includes an older record, and print its counts.

    Args:
        output: the file; None: the graph goes to stdout, the counts to stderr.
        versions, facts: see `provenance.made_by`.

    Returns:
        The exit status.
    """
    from moccasin_mzn.graphs.formats.node_link import graph_text
    from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by
    from moccasin_mzn.report.schedules import graph_line

    if ATTRIBUTE in graph.attributes:
        facts["before"] = graph.attributes[ATTRIBUTE]
    record = made_by(command_line(), versions, **facts)
    graph = replace(graph, attributes={**graph.attributes, ATTRIBUTE: record})
    line = graph_line(graph)
    write_text(graph_text(graph), output)
    if output is not None or is_read():
        click.echo(f"{output or 'stdout'}: {line}", err=output is None)
    return EXIT_FOUND


def print_assumptions(graph: ComputationGraph) -> None:
    """Print what an import assumed on stderr; the attribute is checked, as it may come from any file."""
    lines = graph.attributes.get("assumed")
    for line in lines if isinstance(lines, list) else ():
        click.echo(f"note: {line if isinstance(line, str) and line.isprintable() else shown(line)}", err=True)


# --- generate: instance families and published networks -------------------------------------------------------


NODES = click.option("--nodes", "-n", type=int, required=True, metavar="N", help="Number of nodes.")
SEED = click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the random numbers; the same seed makes the same file.",
)


@group()
def generate() -> None:
    """Make a graph: a random one of a family, or a published network."""


@generate.command()
@NODES
@SEED
@click.option("--width", type=float, metavar="W",
              help="w in the paper: a layer has about sqrt(n w / (1 - w)) nodes.  [default: 0.31]")  # fmt: skip
@click.option("--layer-width", type=float, metavar="NODES",
              help="Mean number of nodes of a layer, in place of w; the number of edges is linear in n.")  # fmt: skip
@click.option("--width-spread", type=float, default=0.75, show_default=True, metavar="F",
              help="nlv in the paper: how far widths of layers may be from the mean, as a fraction.")  # fmt: skip
@click.option("--density", type=float, default=0.2, show_default=True, metavar="F",
              help="ed in the paper: fraction of pairs of nodes in neighbouring layers that are edges.")  # fmt: skip
@click.option("--skips", type=float, default=0.14, show_default=True, metavar="F",
              help="scd in the paper: fraction of the edges that skip layers.")  # fmt: skip
@OUTPUT
def layered(
    nodes: int, seed: int, width: float | None, layer_width: float | None, width_spread: float, density: float,
    skips: float, output: Path | None,
) -> int:  # fmt: skip
    """Make a random layered graph, as the paper's graphs RL G1 to G4, whose w is 0.27, 0.43, 0.36 and 0.31."""
    from moccasin_mzn.graphs.generators.random_layered import random_layered, width_of_layers

    if layer_width is not None and width is not None:
        raise InputError("--width and --layer-width set the same thing: give one of them")
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
@click.option(
    "--density", type=float, default=1.0, show_default=True, metavar="F", help="Fraction of all possible skips."
)
@click.option("--shrink", type=float, default=1.0, show_default=True, metavar="F",
              help="Sizes in the middle, relative to those at both ends.")  # fmt: skip
@OUTPUT
def u_shaped(
    nodes: int, seed: int, shortest: int, longest: int | None, density: float, shrink: float, output: Path | None
) -> int:
    """Make a chain whose second half reads outputs of the first, as in a U-Net."""
    from moccasin_mzn.graphs.generators.families import u_shaped as make

    graph = make(nodes, seed, shortest=shortest, longest=longest, density=density, shrink=shrink)
    return write_made(graph, output)


@generate.command()
@NODES
@SEED
@click.option(
    "--training/--inference", default=True, show_default=True, help="Whether the graph has the loss and all gradients."
)
@click.option("--unit", is_flag=True, help="Give all layers size 1 and duration 1.")
@OUTPUT
def chain(nodes: int, seed: int, training: bool, unit: bool, output: Path | None) -> int:
    """Make a chain of N layers, with a loss and N gradients unless it is for inference."""
    from moccasin_mzn.graphs.generators.families import chain as make

    return write_made(make(nodes, seed, training=training, unit=unit), output)


@generate.command("random-dag")
@NODES
@SEED
@click.option("--edges", type=int, metavar="M", help="Number of edges.  [default: 2 n]")
@click.option("--largest", type=int, default=999, show_default=True, metavar="N",
              help="Sizes and durations are random numbers from 0 to this.")  # fmt: skip
@OUTPUT
def random_dag(nodes: int, seed: int, edges: int | None, largest: int, output: Path | None) -> int:
    """Make a random acyclic graph without structure, for tests."""
    from moccasin_mzn.graphs.generators.families import random_dag as make

    return write_made(make(nodes, seed, edges=edges, largest=largest), output)


@generate.command()
@click.argument("name", required=False)
@click.option("--batch", type=int, default=1, show_default=True, metavar="B", help="Number of samples in a batch.")
@click.option(
    "--input",
    "shape",
    type=int,
    nargs=3,
    metavar="H W C",
    help="Height, width and channels of a sample.  [default: see --list]",
)
@MODE
@OPTIMIZER
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=N",
    help="Another parameter of the network, see --list; may be given several times.",
)
@SCALE
@click.option("--list", "listing", is_flag=True, help="List the networks with their inputs and parameters.")
@OUTPUT
def network(
    name: str | None, batch: int, shape: tuple[int, int, int] | None, inference: bool, optimizer: str,
    settings: tuple[str, ...], scale: str | None, listing: bool, output: Path | None,
) -> int:  # fmt: skip
    """Make a published network, by Checkmate's construction and cost model: sizes in bytes, durations in FLOP."""
    from moccasin_mzn.graphs.generators.catalogue import NETWORKS, find, generate_network
    from moccasin_mzn.graphs.importers.program import parse_peak, scaled
    from moccasin_mzn.report.schedules import print_networks

    if listing:
        print_networks(NETWORKS.values(), sys.stdout)
        return EXIT_FOUND
    if name is None:
        raise InputError(f"which network? this lists them: {command_text('generate', 'network', '--list')}")
    peak = None if scale is None else parse_peak(scale)
    parameters = find(name).chosen(**integers("--set", settings))  # checked here: "batch" is no parameter of a network
    graph = generate_network(name, batch, shape, training=not inference, optimizer=optimizer, **parameters)
    return write_made(graph if peak is None else scaled(graph, peak), output)


# --- reduce and convert: graph files of graph files -----------------------------------------------------------


@command()
@GRAPH
@click.option(
    "--fuse",
    is_flag=True,
    help="Also merge operations with several inputs, or that follow later; this may lose schedules.",
)
@click.option("--elementwise", multiple=True, metavar="PATTERN",
              help="Labels of further operators that run in place, such as `*_relu`; may be given several "
                   "times.")  # fmt: skip
@OUTPUT
def reduce(graph: Path, fuse: bool, elementwise: tuple[str, ...], output: Path | None) -> int:
    """Merge operations of GRAPH that can run in place into the operations that they read.

    An elementwise operator or a view, recognized by its label, is merged if it directly follows the operation that it
    reads in the input order, nothing else reads that, and both outputs have one size. This loses no schedule, though
    the formulation staged may lose one of those that it knows. The attribute "merged" lists what each node stands for.
    """
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.reduction import reduce_graph

    check_apart({"--output": output}, {"the graph": graph})
    reduction = reduce_graph(read_graph(graph), fuse=fuse, elementwise=elementwise)
    before, after = len(reduction.original.nodes), len(reduction.graph.nodes)
    click.echo(f"{count_text(before, 'node')} became {after:,}", err=True)
    return write_made(reduction.graph, output)


@command()
@GRAPH
@click.option("--to", "form", type=Choice(["json", "graphml", "dot"]), required=True, help="Format to write.")
@OUTPUT
def convert(graph: Path, form: str, output: Path | None) -> int:
    """Write GRAPH in another format, without loss."""
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.formats.dot import dot_text
    from moccasin_mzn.graphs.formats.graphml import graphml_text
    from moccasin_mzn.graphs.formats.node_link import graph_text

    check_apart({"--output": output}, {"the graph": graph})
    write_text({"json": graph_text, "graphml": graphml_text, "dot": dot_text}[form](read_graph(graph)), output)
    return EXIT_FOUND
