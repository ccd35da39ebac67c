"""What the commands that make graph files share: the record of how, and the file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moccasin_mzn.commands.common import EXIT_FOUND

if TYPE_CHECKING:
    from moccasin_mzn.graph import ComputationGraph

OUTPUT = click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Default: print the file on stdout."
)
SCALE = click.option(
    "--scale", metavar="19.5T",
    help="Turn operations into nanoseconds of a device that does so many of them in a second.",
)  # fmt: skip
_NOT_RECORDED = ("output",)


def command_line() -> str:
    """The command being executed, as one types it in the folder of its file, without the output and defaults."""
    context = click.get_current_context()
    names, at = [context.info_name], context.parent
    while at.parent is not None:
        names.append(at.info_name)
        at = at.parent
    words = ["python", "-m", "moccasin_mzn", *reversed(names)]
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if given and parameter.name not in _NOT_RECORDED:
            words += _words(parameter, context.params[parameter.name])
    return shlex.join(words)


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [value.name if isinstance(value, Path) else str(value)]
    if parameter.is_flag:
        return [parameter.opts[-1] if value else parameter.secondary_opts[-1]]
    name = parameter.opts[0]
    if parameter.multiple:
        return [word for one in value for word in (name, str(one))]
    return [name, *map(str, value if isinstance(value, tuple) else (value,))]


def write_made(
    graph: ComputationGraph, output: Path | None, versions: Mapping[str, str] | None = None, **facts: Any
) -> int:
    """Write a graph with the record of how it was made, an older record within it, and tell its counts; exit status.

    Args:
        output: None: the file goes to stdout, the counts to stderr.
        versions, facts: see `provenance.made_by`.
    """
    from moccasin_mzn.provenance import ATTRIBUTE, made_by
    from moccasin_mzn.readers.jsonfile import replace_file
    from moccasin_mzn.readers.node_link import graph_text
    from moccasin_mzn.report import memory_text
    from moccasin_mzn.simulate import simulate

    if ATTRIBUTE in graph.attributes:
        facts["before"] = graph.attributes[ATTRIBUTE]
    record = made_by(command_line(), versions, **facts)
    graph = replace(graph, attributes={**graph.attributes, ATTRIBUTE: record})
    text = graph_text(graph)
    if output is None:
        click.echo(text, nl=False)
    else:
        replace_file(output, text)
    for line in graph.attributes.get("assumed", ()):
        click.echo(f"note: {line}", err=True)
    peak = simulate(graph, graph.input_order()).peak
    floor = graph.largest_working_set().memory
    click.echo(
        f"{output or 'stdout'}: {len(graph.nodes):,} nodes, {len(graph.edges):,} edges, outputs "
        f"{memory_text(graph.total_size, graph.size_unit)}, peak {memory_text(peak, graph.size_unit)}, "
        f"largest working set {100 * floor / peak if peak else 0:.1f} % of it",
        err=output is None,
    )
    return EXIT_FOUND
