"""Options of commands, made of the fields of frozen dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def added(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Adds all of them to a command, in this order."""

    def decorated(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return decorated


def _option(name: str, one: Option, **changes: Any) -> Callable[[Any], Any]:
    if one.kind is bool:
        return cloup.option("/".join(one.flags), name, **{"default": None, "help": one.help, **changes})
    kind = {"type": one.kind} if one.read is None else {}
    return cloup.option(flag(name), **{**kind, "metavar": one.metavar, "help": one.help, **changes})
