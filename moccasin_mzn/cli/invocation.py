"""The command that is being executed, as a command line: for the record of how a file was made, and with changes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from moccasin_mzn.base.commands import command
from moccasin_mzn.cli.options import OptionValue

_NOT_RECORDED = ("output", "store")


def command_line() -> str:
    """Return the command as typed in the folder of its file, without the output and defaults."""
    context = click.get_current_context()
    options, arguments = [], []
    for parameter, value in _given(context):
        if isinstance(parameter, click.Argument):
            arguments.append(value.name if isinstance(value, Path) else str(value))
        elif parameter.name not in _NOT_RECORDED:
            options += _option(parameter, value)
    like_options = any(argument.startswith("-") for argument in arguments)
    return command(*_names(context), *([*options, "--", *arguments] if like_options else [*arguments, *options]))


def with_changes(words: str, without: Collection[str] = ()) -> str:
    """Return the command with other options, to be typed in the same folder.

    Args:
        words: the options that are added or changed, as on a command line.
        without: further options to leave out, by the names of their parameters.
    """
    context = click.get_current_context()
    changes = shlex.split(words)
    kept: list[object] = []
    for parameter, value in _given(context):
        if isinstance(parameter, click.Argument):
            kept.append(value)
        elif parameter.name not in without and not set(parameter.opts) & set(changes):
            kept += _option(parameter, value)
    return command(*_names(context), *kept, *changes)


def _given(context: click.Context) -> Iterator[tuple[click.Parameter, OptionValue]]:
    """Yield what was typed, in the order of the help."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            yield parameter, context.params.get(parameter.name or "")


def _names(context: click.Context) -> list[str]:
    """Return the words of the command, without the program's name."""
    names, at = [context.info_name or ""], context.parent
    while at is not None and at.parent is not None:
        names.insert(0, at.info_name or "")
        at = at.parent
    return names


def _option(option: click.Parameter, value: OptionValue) -> list[str]:
    if isinstance(option, click.Option) and option.is_flag:
        return [option.opts[-1] if value else option.secondary_opts[-1]]
    name = option.opts[0]
    if isinstance(option, click.Option) and option.multiple:
        return [word for one in value for word in (name, _text(one))]
    return [name, *map(_text, value if isinstance(value, tuple) else (value,))]


def _text(value: OptionValue) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
