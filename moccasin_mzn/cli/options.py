"""Commands that refuse an option given twice and suggest what was meant; options made of fields of dataclasses.

The help of the whole program imports this file, and nothing of the searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import cloup

from moccasin_mzn.base.formatting import closest
from moccasin_mzn.base.option import Option, flag, options_of
from moccasin_mzn.problem.options import ProblemOptions

if TYPE_CHECKING:
    from click.parser import _OptionParser

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # of click 8.1 it has no types

OptionValue: TypeAlias = Any
"""The value of an option, as click gives it to a command: text, number, bool, path, None, or a tuple of them."""
OptionValues: TypeAlias = dict[str, OptionValue]
"""Values of options, by the names of a command's parameters."""
Decorator: TypeAlias = Callable[[OptionValue], OptionValue]
"""A decorator of click: it makes a command of a function, or adds an option to one."""


class Choice(_Choice):
    """A choice in which capitals do not matter, and whose refusal names the most similar value."""

    def __init__(self, choices: Iterable[str]) -> None:
        super().__init__(tuple(choices), case_sensitive=False)

    def convert(self, value: OptionValue, param: click.Parameter | None, ctx: click.Context | None) -> OptionValue:
        """Return the choice; a `BadParameter` names the nearest value."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = closest(str(value), map(str, self.choices))
            hint = f" Did you mean {near}?" if near else ""
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


class StrictCommand(cloup.Command):
    """A command that refuses an option given twice, unless it is for several values; click takes the last one.

    For an option that does not exist it suggests the one that may have been meant."""

    def make_parser(self, ctx: click.Context) -> _OptionParser:
        """Return click's parser, which here refuses an option that is given twice."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> tuple[OptionValues, list[str], list[click.Parameter]]:
            try:
                values, rest, given = parse(args)
            except click.NoSuchOption as error:
                raise _no_such_option(error.option_name, ctx) from None
            _refuse_twice(ctx, given)
            return values, rest, given

        parser.parse_args = parse_args  # type: ignore[method-assign]  # there is no other hook
        return parser


def _no_such_option(name: str, context: click.Context) -> click.UsageError:
    from moccasin_mzn.cli.suggestions import meant_option

    shown = [one for one in context.command.get_params(context) if not getattr(one, "hidden", False)]
    near = meant_option(name, [word for one in shown for word in (*one.opts, *one.secondary_opts)])
    return click.UsageError(f"No such option {name!r}." + (f" Did you mean {near}?" if near else ""), context)


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

    def handle_bad_command_name(
        self, bad_name: str, valid_names: list[str], error: click.UsageError
    ) -> click.UsageError:
        """Suggest a command, wherever it is."""
        from moccasin_mzn.cli.suggestions import meant_command

        assert error.ctx is not None
        near = meant_command(bad_name, error.ctx)
        return click.UsageError(
            f"No such command {bad_name!r}." + (f" Did you mean {near}?" if near else ""), error.ctx
        )


command: Callable[..., Decorator] = partial(click.command, cls=StrictCommand)
group: Callable[..., Decorator] = partial(click.group, cls=StrictGroup)


# --- Options made of the fields of frozen dataclasses ---------------------------------------------------------


def named_options(*names: str, **changes: OptionValue) -> list[Decorator]:
    """Return the model options of these names, for a group; `changes` are changed arguments of click's option."""
    from moccasin_mzn.search.options import model_options

    known = model_options()
    return [_option(name, known[name], **changes) for name in names]


def problem_options(*names: str, **changes: OptionValue) -> list[Decorator]:
    """Return the options of these names about the problem, as `named_options` does."""
    defaults: OptionValues = {"order": {"default": "input", "show_default": True}}
    return [one for name in names for one in declared(ProblemOptions, name, **{**defaults.get(name, {}), **changes})]


def declared(kind: type, *names: str, **changes: OptionValue) -> list[Decorator]:
    """Return the options of these names that a class declares, as `named_options` does."""
    known = options_of(kind)
    return [_option(name, known[name], **changes) for name in names]


def effort(limit: str | None = None, /, **defaults: OptionValue) -> Decorator:
    """Add --time-limit, --threads and --seed to a command.

    Args:
        limit: the help of --time-limit; None: the usual one.
        defaults: the defaults that are not None.
    """
    from moccasin_mzn.search.options import Effort

    helps = {} if limit is None else {"time_limit": {"help": limit}}
    shown = {name: {"default": value, "show_default": True} for name, value in defaults.items()}
    return added(*(_option(name, one, **helps.get(name, {}), **shown.get(name, {}))
                   for name, one in options_of(Effort).items()))  # fmt: skip


def grouped(kind: type) -> Decorator:
    """Add all options of a class to a command, under their headings."""
    groups: dict[str, list[Decorator]] = {}
    for name, one in options_of(kind).items():
        groups.setdefault(one.group, []).append(_option(name, one, **({} if one.group else {"hidden": True})))
    return added(*(cloup.option_group(title, *those) for title, those in groups.items() if title), *groups.get("", ()))


def added(*options: Decorator) -> Decorator:
    """Add these options to a command, in this order."""

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        for one in reversed(options):
            command = one(command)
        return command

    return decorated


def _option(name: str, one: Option, **changes: OptionValue) -> Decorator:
    arguments: OptionValues = {"help": one.help, "metavar": one.metavar, **changes}
    if one.kind is bool:
        del arguments["metavar"]
        on, off = one.flags
        arguments = {"default": None, **arguments} if off else {"is_flag": True, **arguments}
        return cloup.option(f"{on}/{off}" if off else on, name, cls=cloup.Option, **arguments)
    if one.read is None:
        arguments.setdefault("type", click.Path(path_type=Path) if one.kind is Path else one.kind)
    return cloup.option(flag(name), cls=cloup.Option, multiple=one.multiple, **arguments)
