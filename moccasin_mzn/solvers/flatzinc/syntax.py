"""What a FlatZinc file says, item by item, before any meaning is given to it.

Expressions are plain Python values: an `int`, `bool` or `float` for a literal, a `str` for an identifier, a `list` for
an array literal, and the classes `IntSet`, `FloatSet`, `Text` and `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moccasin_mzn.solvers.flatzinc.intset import IntSet


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal, without its quotes and escapes; it can only stand in annotations."""

    content: str


@dataclass(frozen=True, slots=True)
class Call:
    """An annotation with arguments, `int_search(xs, first_fail, indomain_min)`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FloatSet:
    """The floats from `low` to `high`; of a set that lists its members, only the hull is kept."""

    low: float
    high: float


Expression = Any
"""An int, bool, float, str, list, IntSet, FloatSet, Text or Call; whoever takes one looks which."""


@dataclass(frozen=True, slots=True)
class Variable:
    """`var DOMAIN: NAME`. A `domain` of None is unbounded; for a bool it is always None, for a float a `FloatSet`."""

    name: str
    is_bool: bool
    domain: IntSet | FloatSet | None
    is_output: bool
    value: Expression | None
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class VariableArray:
    """`array [1..n] of var TYPE: NAME = [...]`; `output` holds the index sets of `output_array`, if it is there."""

    name: str
    is_bool: bool
    elements: list[Expression]
    output: tuple[IntSet, ...] | None
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """`constraint NAME(ARGUMENTS)`; `position` is an offset into the text. What annotations say is not needed."""

    name: str
    arguments: list[Expression]
    position: int


@dataclass(frozen=True, slots=True)
class Solve:
    """The solve item; `goal` is "satisfy", "minimize" or "maximize", "" until it is read, `position` an offset into the
    text."""

    goal: str
    objective: Expression | None
    annotations: tuple[Expression, ...]
    position: int


@dataclass(slots=True)
class FlatZinc:
    """All items of one file. `parameters` holds scalars, sets and arrays of parameters by name; `positions` says for
    every name where in the text its declaration starts."""

    source: str
    text: str
    parameters: dict[str, Expression] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    arrays: dict[str, VariableArray] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    solve: Solve = Solve("", None, (), 0)
    positions: dict[str, int] = field(default_factory=dict)

    def where(self, position: int) -> str:
        """`file:line:column` of an offset into the text, both counted from 1."""
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        return f"{self.source}:{line}:{column}"


class FlatZincError(Exception):
    """What is wrong with the input, in one line that starts with the place."""


class FlatZincSyntaxError(FlatZincError):
    """The text is no FlatZinc."""


class UnsupportedError(FlatZincError):
    """Good FlatZinc that this solver cannot handle."""


class ContinuousError(UnsupportedError):
    """Continuous variables that a solver with integers only cannot take; another one may."""


def calls_in(annotations: Iterable[Expression]) -> Iterator[Call]:
    """The calls among the annotations, in order, those inside of `seq_search` and `warm_start_array` too."""
    for item in annotations:
        if isinstance(item, list):
            yield from calls_in(item)
        elif isinstance(item, Call):
            if item.name in ("seq_search", "warm_start_array"):
                yield from calls_in(item.arguments)
            else:
                yield item


def warm_starts(
    file: FlatZinc, names: Iterable[str], elements: Callable[[Expression], list[Expression]]
) -> Iterator[tuple[Expression, Expression]]:
    """The variables and values of the annotations of these names; `elements` reads an array.

    Raises `FlatZincError` if there are not as many values as variables; what is no array is passed over.
    """
    for call in calls_in(file.solve.annotations):
        if call.name not in names or len(call.arguments) != 2:
            continue
        try:
            variables, values = map(elements, call.arguments)
        except FlatZincError:
            continue
        if len(variables) != len(values):
            place = file.where(file.solve.position)
            raise FlatZincError(f"{place}: {call.name}: {len(variables)} variables, but {len(values)} values")
        yield from zip(variables, values, strict=True)


def names_in(annotations: Iterable[Expression]) -> set[str]:
    """The names of the annotations, with or without arguments."""
    return {item.name if isinstance(item, Call) else item for item in annotations if isinstance(item, (Call, str))}


def describe(value: Expression) -> str:
    """An expression in a few words, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, Call):
        return f"{value.name}(...)"
    return {list: "an array", Text: "a string"}.get(type(value), "a set")
