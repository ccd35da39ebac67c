"""Options of commands, made of the fields of frozen dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import cloup

from moccasin_mzn.option import Option, flag, options_of
from moccasin_mzn.search.options import Effort, model_options


def typed(*names: str, **changes: Any) -> list[Callable[[Any], Any]]:
    """The options of models of these names, for a group; `changes` are of what click is told of them."""
    known = model_options()
    return [_option(name, known[name], **changes) for name in names]


def effort(limit: str | None = None, /, **defaults: Any) -> Callable[[Any], Any]:
    """Adds --time-limit, --threads and --seed to a command.

    Args:
        limit: the help of the first, if it is not for everything.
        defaults: those that are not None.
    """
    helps = {} if limit is None else {"time_limit": {"help": limit}}
    shown = {name: {"default": value, "show_default": True} for name, value in defaults.items()}
    return added(*(_option(name, one, **helps.get(name, {}), **shown.get(name, {}))
                   for name, one in options_of(Effort).items()))  # fmt: skip


def grouped(kind: type) -> Callable[[Any], Any]:
    """Adds all options of a class to a command, under their headings."""
    groups: dict[str, list[Callable[[Any], Any]]] = {}
    for name, one in options_of(kind).items():
        groups.setdefault(one.group, []).append(_option(name, one, **({} if one.group else {"hidden": True})))
    return added(*(cloup.option_group(title, *those) for title, those in groups.items() if title), *groups.get("", ()))


def added(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Adds all of them to a command, in this order."""

    def decorated(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return decorated


def _option(name: str, one: Option, **changes: Any) -> Callable[[Any], Any]:
    told: dict[str, Any] = {"help": one.help, **changes}
    if one.kind is bool:
        on, off = one.flags
        told = {"default": None, **told} if off else {"is_flag": True, **told}
        return cloup.option(f"{on}/{off}" if off else on, name, cls=cloup.Option, **told)
    if one.read is None:
        told["type"] = click.Path(path_type=Path) if one.kind is Path else one.kind
    return cloup.option(flag(name), cls=cloup.Option, metavar=one.metavar, multiple=one.multiple, **told)
