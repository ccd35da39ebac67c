"""Arguments of the functions that the package offers: checked by their annotations before anything else is done."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from os.path import realpath
from pathlib import Path
from typing import ParamSpec, TypeVar

from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import check_writable
from moccasin_mzn.base.formatting import nearest
from moccasin_mzn.base.interrupts import none_lost

Given = ParamSpec("Given")
Answered = TypeVar("Answered")
Made = TypeVar("Made")

_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "bool": (bool, "true or false"),
    "str": (str, "text"),
    "Callable": (Callable, "a function"),  # type: ignore[dict-item]
    "OnProgress": (Callable, "a function"),  # type: ignore[dict-item]
    "Mapping": (Mapping, "values by name"),
    "str | PathLike": ((str, PathLike), "the path of a file"),
    **dict.fromkeys(
        (
            "Search", "IfNone", "FormulationName", "StrategyName", "Axis", "Durations", "Workspaces", "Gradients",
            "BudgetOf", "Shapes",
        ),
        (str, "text"),
    ),
}  # fmt: skip
"""Accepted type and its name in messages, by the beginning of an annotation. All other arguments are checked by the
function that they are for."""


def checked(
    others: Callable[[], Iterable[str]] = tuple, as_given: Collection[str] = ()
) -> Callable[[Callable[Given, Answered]], Callable[Given, Answered]]:
    """Have the arguments of a function checked: flags, texts, functions and mappings are such, scalars of numpy become
    Python's own, and for an unknown keyword the message names the most similar known one. No interrupt is lost in it.

    Args:
        others: returns the keywords that are accepted in addition to those of the signature.
        as_given: parameters that nothing is done with, such as tensors, which numbers of Python could be made of.

    Raises:
        InputError: by the function, for an argument of another kind.
        TypeError: by the function, for an unknown keyword or a missing argument.
    """

    def wrap(function: Callable[Given, Answered]) -> Callable[Given, Answered]:
        signature = inspect.signature(function)
        named = {
            name: parameter
            for name, parameter in signature.parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }

        @functools.wraps(function)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Answered:
            unknown = [name for name in kwargs if name not in named]
            if unknown:
                check_keywords(function.__name__, unknown, [*named, *others()])
            bound = signature.bind(*args, **kwargs)
            for name in (bound.arguments.keys() & named.keys()).difference(as_given):
                bound.arguments[name] = _checked(name, bound.arguments[name], str(named[name].annotation))
            with none_lost():
                return function(*bound.args, **bound.kwargs)

        return call

    return wrap


def named(kind: type[Made]) -> type[Made]:
    """Have a class name the most similar parameter where it is made with an unknown keyword."""
    make = kind.__init__
    known = [name for name in inspect.signature(make).parameters if name != "self"]

    @functools.wraps(make)
    def init(self: Made, *args: object, **kwargs: object) -> None:
        try:
            make(self, *args, **kwargs)
        except TypeError:
            for name in kwargs:
                if name not in known:
                    raise _unexpected(kind.__name__, name, known) from None
            raise

    setattr(kind, "__init__", init)  # noqa: B010 (a type checker takes no other function for it)
    return kind


def check_keywords(function: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse keywords that a function does not know.

    Raises:
        TypeError: there is one; the message names the most similar known one.
    """
    for name in names:
        if name not in known:
            raise _unexpected(function, name, known)


def _unexpected(function: str, name: str, known: Iterable[str]) -> TypeError:
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{nearest(name, known, quote=chr(39))}")


def _checked(name: str, value: object, annotation: str) -> object:
    value, optional = plain(value), annotation.endswith("| None")
    kind = next((_KINDS[begin] for begin in _KINDS if annotation.removesuffix(" | None").split("[")[0] == begin), None)
    if kind is not None and not isinstance(value, kind[0]) and not (value is None and optional):
        raise InputError(f"{name.replace('_', ' ')}: expected {kind[1]}, got {shown(value)}")
    return value


# --- Files among the arguments --------------------------------------------------------------------------------


def file_name(given: str | PathLike[str] | None) -> str | None:
    """Return the path of a file as text."""
    return None if given is None else str(given)


def file_names(given: object, what: str) -> tuple[str, ...]:
    """Return the paths of several files; one may stand alone, None: there are none.

    Raises:
        InputError: there is something else among them.
    """
    if given is None or isinstance(given, str | PathLike):
        return () if given is None else (str(given),)
    files = sequence(given, what, "the path of a file, or several")
    for file in files:
        if not isinstance(file, str | PathLike):
            raise InputError(f"{what}: expected the path of a file, or several, with {shown(file)} among them")
    return tuple(map(str, files))


def check_certificate_file(path: str | PathLike[str] | None, graph: object) -> None:
    """Refuse, before any work, a certificate that cannot be made or written, or would overwrite the graph.

    Args:
        path: its file; None: none is wanted.
        graph: the graph, or its file.

    Raises:
        InputError: it is refused.
    """
    if path is None:
        return
    if isinstance(graph, str | PathLike) and realpath(path) == realpath(graph):
        raise InputError(f"{path}: is the graph, and would be lost")
    check_writable(Path(path))
