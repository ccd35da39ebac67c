"""Options as fields of frozen dataclasses, from which commands, command lines and keys of experiments are made."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import one_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Option:
    """The documentation of an option, and how its value is read and written. ::

    field in code      until_gap: float = option(0.0, "1%|0.01", "Stop at this gap.", read=parse_gap)
    command line       --until-gap 1%
    experiment         until_gap = "1%"
    """

    metavar: str
    """Form of the values, as the help shows it."""
    help: str
    kind: type = str
    """Type of a value on the command line: str, int, float, or bool."""
    multiple: bool = False
    """True if it may be given several times; its value is then a tuple."""
    choices: tuple[str, ...] = ()
    """All values, the default first; empty: there are too many to list."""
    read: Callable[[str], object] | None = None
    """Makes a value of a text; None: the text is the value, or click reads it by its `kind`."""
    write: Callable[[Any], str] = str
    group: str = ""
    """Heading in the help; empty: it is not shown there."""
    always: bool = False
    """True if the default is written as well, since commands have another one."""
    flags: tuple[str, str] = ("", "")
    """The two flags of a bool: for true and for false."""


def option(default: object, metavar: str, help: str, **more: Any) -> Any:
    """Make a field of a dataclass that is an `Option`; `more` are further fields of that."""
    return field(default=default, metadata={"option": Option(metavar, help, **more)})


def options_of(kind: type) -> dict[str, Option]:
    """Return the options among the fields of a dataclass, by name."""
    return {part.name: part.metadata["option"] for part in fields(kind) if "option" in part.metadata}


def check_choices(options: DataclassInstance) -> None:
    """Check that the value of each option that has choices is one of them.

    Raises:
        InputError: one is not; the message names the choices, and the most similar one.
    """
    for name, one in options_of(type(options)).items():
        value = getattr(options, name)
        if one.choices and not (isinstance(value, str) and value in one.choices):
            raise InputError(f"{name.replace('_', ' ')} {shown(value)}: {one_of(value, one.choices)}")


def flag(name: str) -> str:
    """Return an option's name as on a command line."""
    return f"--{name.replace('_', '-')}"


def values_of(kind: type, given: Mapping[str, object]) -> dict[str, Any]:
    """Read the values of texts; what is no text, or no option of the class, stays as it is."""
    known = options_of(kind)

    def value(name: str, raw: object) -> object:
        read = known[name].read if name in known else None
        return raw if read is None or not isinstance(raw, str) else read(raw)

    return {name: value(name, raw) for name, raw in given.items()}


def words_of(options: DataclassInstance, without: Container[str] = ()) -> list[str]:
    """Return the command line of all that differs from the defaults; reading it gives an equal object."""
    return [
        word
        for name, one in options_of(type(options)).items()
        if name not in without
        for word in _words(options, name, one)
    ]


def _words(options: DataclassInstance, name: str, one: Option) -> Iterator[str]:
    value = getattr(options, name)
    if isinstance(value, tuple):
        for part in value:
            yield from (flag(name), one.write(part))
    elif value is None or (value == type(options).__dataclass_fields__[name].default and not one.always):
        return
    elif one.kind is bool:
        yield one.flags[not value]
    else:
        yield from (flag(name), one.write(value))
