"""What the commands that make graph files share: the record of how, and the file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.network import NONE, OPTIMIZERS
from moccasin_mzn.terminal import is_read

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph


def _checked(context: click.Context, parameter: click.Parameter, output: Path | None) -> Path | None:
    """Refuse an output that cannot be written before any work is done."""
    from moccasin_mzn.files import check_writable

    if output is not None:
        check_writable(output)
    return output


OUTPUT = click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", callback=_checked,
    help="Default: print the file on stdout.",
)  # fmt: skip
MODE = click.option(
    "--inference/--training", "inference", default=True, show_default=True,
    help="Forward pass alone, or with loss and gradients.",
)  # fmt: skip
OPTIMIZER = click.option(
    "--optimizer", type=click.Choice(list(OPTIMIZERS)), default=NONE, show_default=True,
    help="Its state is fixed memory of a training graph.",
)  # fmt: skip
SCALE = click.option(
    "--scale", metavar="19.5T",
    help="Turn operations into nanoseconds of a device that does so many of them in a second.",
)  # fmt: skip
_NOT_RECORDED = ("output", "store")


def integers(option: str, texts: Iterable[str]) -> dict[str, int]:
    """NAME=N, several times, as an option has it.

    Raises:
        InputError: another form, or a name given twice.
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
    from moccasin_mzn.files import replace_file

    if output is None:
        click.echo(text, nl=False)
    else:
        replace_file(output, text)


def command_line() -> str:
    """The command being executed, as one types it in the folder of its file, without the output and defaults."""
    context = click.get_current_context()
    names, at = [context.info_name or ""], context.parent
    while at is not None and at.parent is not None:
        names.append(at.info_name or "")
        at = at.parent
    options, arguments = [], []
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        value = context.params.get(parameter.name)
        if given and isinstance(parameter, click.Argument):
            arguments.append(value.name if isinstance(value, Path) else str(value))
        elif given and parameter.name not in _NOT_RECORDED:
            options += _option(parameter, value)
    like_options = any(argument.startswith("-") for argument in arguments)
    words = [*options, "--", *arguments] if like_options else [*arguments, *options]
    return shlex.join(["python", "-m", "moccasin_mzn", *reversed(names), *words])


def _option(option: click.Parameter, value: Any) -> list[str]:
    if isinstance(option, click.Option) and option.is_flag:
        return [option.opts[-1] if value else option.secondary_opts[-1]]
    name = option.opts[0]
    if option.multiple:
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


def tell_assumed(graph: ComputationGraph) -> None:
    """Tell on stderr what an import assumed; the attribute may be that of a stranger's file."""
    lines = graph.attributes.get("assumed")
    for line in lines if isinstance(lines, list) else ():
        click.echo(f"note: {line if isinstance(line, str) and line.isprintable() else shown(line)}", err=True)
