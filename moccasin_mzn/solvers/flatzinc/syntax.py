"""What a FlatZinc file holds, item by item, before any meaning is given to it; sets of integers as sorted ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
MOST_LISTED = 4_000_000
"""The largest set that may be iterated over, before memory runs out."""


@dataclass(frozen=True, slots=True)
class IntSet:
    """A set of integers; `ranges` are closed `(low, high)` pairs, ascending, disjoint and not adjacent.

    `LOWEST` and `HIGHEST` as ends mean unbounded.
    """

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def of_range(low: int, high: int) -> IntSet:
        """The set `low..high`, empty if `low > high`."""
        return IntSet(((low, high),) if low <= high else ())

    @staticmethod
    def of_values(values: Iterable[int]) -> IntSet:
        """The set of the given values, in any order, repeated or not."""
        return IntSet.of_ranges((value, value) for value in values)

    @staticmethod
    def of_ranges(pairs: Iterable[tuple[int, int]]) -> IntSet:
        """The union of `low..high` for all pairs, in any order; those with `low > high` are empty."""
        ranges: list[tuple[int, int]] = []
        for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
            if ranges and low <= ranges[-1][1] + 1:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        return IntSet(tuple(ranges))

    def __contains__(self, value: int) -> bool:
        return any(low <= value <= high for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        if sum(high - low + 1 for low, high in self.ranges) > MOST_LISTED:
            raise ValueError(f"a set of more than {MOST_LISTED} values would have to be listed")
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __and__(self, other: IntSet) -> IntSet:
        pairs = (
            (max(low, other_low), min(high, other_high))
            for low, high in self.ranges
            for other_low, other_high in other.ranges
        )
        return IntSet(tuple(sorted(pair for pair in pairs if pair[0] <= pair[1])))

    def complement(self) -> IntSet:
        """All 64-bit integers outside the set."""
        result, low = [], LOWEST
        for first, last in self.ranges:
            if low < first:
                result.append((low, first - 1))
            low = last + 1
        if low <= HIGHEST:
            result.append((low, HIGHEST))
        return IntSet(tuple(result))

    def plus(self, amount: int) -> IntSet:
        """The set moved by an amount; where it is unbounded it stays so."""
        ends = [end if end in (LOWEST, HIGHEST) else end + amount for end in self.flat()]
        return IntSet(tuple(zip(ends[::2], ends[1::2], strict=True)))

    def flat(self) -> list[int]:
        """`[low, high, low, high, ...]`, the form of CP-SAT domains."""
        return [end for pair in self.ranges for end in pair]

    def __str__(self) -> str:
        if not self.ranges:
            return "1..0"
        if len(self.ranges) == 1:
            return f"{self.ranges[0][0]}..{self.ranges[0][1]}"
        return "{" + ",".join(map(str, self)) + "}"


# --- The items of a FlatZinc file, before any meaning is given to it -------------------------------

# Expressions are plain Python values: an `int`, `bool` or `float` for a literal, a `str` for an identifier, a `list`
# for an array literal, and the classes `IntSet`, `FloatSet`, `Text` and `Call`.


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
"""An int, bool, float, str, list, IntSet, FloatSet, Text or Call; its user looks which."""


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
    """`constraint NAME(ARGUMENTS)`; `position` is an offset into the text. The contents of annotations are not
    needed."""

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
    """All items of one file. `parameters` holds scalars, sets and arrays of parameters by name; `positions` states for
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
