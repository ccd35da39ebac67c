"""Commands and groups of commands that take an option once, unless it may be given several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import cloup


class StrictCommand(cloup.Command):
    """A command. Click alone takes the last of several values without a word."""

    def make_parser(self, ctx: click.Context) -> Any:
        """Click's parser, which tells every option in the order given."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> tuple[dict[str, Any], list[str], list[click.Parameter]]:
            values, rest, given = parse(args)
            _refuse_twice(ctx, given)
            return values, rest, given

        parser.parse_args = parse_args  # type: ignore[method-assign]  # there is no other hook
        return parser


def _refuse_twice(context: click.Context, given: list[click.Parameter]) -> None:
    """Refuse the first option that is there twice; those that end the command, such as --help, may be."""
    seen = set()
    for option in given:
        if not isinstance(option, click.Option) or option.multiple or option.count or option.is_eager:
            continue
        if option.name in seen:
            names = "/".join((max(option.opts, key=len), *option.secondary_opts))
            raise click.UsageError(f"{names} is given twice", ctx=context)
        seen.add(option.name)


class StrictGroup(StrictCommand, cloup.Group):
    """A group; `@group.command()` makes commands that are strict as well."""

    command_class = StrictCommand


command: Callable[..., Any] = partial(click.command, cls=StrictCommand)
group: Callable[..., Any] = partial(click.group, cls=StrictGroup)
