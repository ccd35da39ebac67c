"""The commands `reduce` and `convert`, which make graph files of graph files."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH
from moccasin_mzn.cli.making import OUTPUT, write_made, write_text
from moccasin_mzn.cli.outputs import check_apart
from moccasin_mzn.cli.strict import command
from moccasin_mzn.formatting import count_text


@command()
@GRAPH
@click.option(
    "--fuse",
    is_flag=True,
    help="Merge operations with several inputs, and far from their producer, too; may lose schedules.",
)
@click.option("--elementwise", multiple=True, metavar="PATTERN",
              help='Labels of operators that run in place besides those known, such as `*_relu`.')  # fmt: skip
@OUTPUT
def reduce(graph: Path, fuse: bool, elementwise: tuple[str, ...], output: Path | None) -> int:
    """Merge operations of GRAPH that can run in place into their producers.

    Merged are elementwise operators and views, by their label, where they directly follow the producer in the input
    order, nothing else reads it and both outputs have one size. No schedule is lost by that (but the formulation staged
    knows only some of all schedules, and may lose one). The attribute "merged" lists what a node stands for.
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
@click.option("--to", "form", type=click.Choice(["json", "graphml", "dot"]), required=True, help="Format to write.")
@OUTPUT
def convert(graph: Path, form: str, output: Path | None) -> int:
    """Write GRAPH in another format; everything in it survives."""
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.formats.dot import dot_text
    from moccasin_mzn.graphs.formats.graphml import graphml_text
    from moccasin_mzn.graphs.formats.node_link import graph_text

    check_apart({"--output": output}, {"the graph": graph})
    write_text({"json": graph_text, "graphml": graphml_text, "dot": dot_text}[form](read_graph(graph)), output)
    return EXIT_FOUND
