"""The greatest and least of several integers, and array access by a variable index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, constant
from moccasin_mzn.solvers.cpsat.registry import Int, Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import LOWEST


def maximum_of(builder: Builder, greatest: Term, terms: Sequence[Term], when: When) -> None:
    """max(terms) = greatest; false without terms"""
    if not terms:
        return builder.false(when)
    proto = builder.new(when).lin_max
    builder.write(greatest, proto.target)
    builder.write_all(terms, proto.exprs)


def greatest_of(builder: Builder, terms: Sequence[Term]) -> Term:
    """A new operand max(terms)."""
    lows, highs = zip(*map(builder.bounds, terms), strict=True)
    greatest = builder.integer(max(lows), max(highs))
    maximum_of(builder, greatest, terms, [])
    builder.suggest(greatest.variable, terms, max)
    return greatest


def _ranked(builder: Builder, terms: Sequence[Term], index: Term, first: int) -> list[tuple[int, Term, Term]]:
    """For each term: whether it has the index, its rank, and a new operand that equals the highest rank. Ranks are in
    the order of the terms, but no two of them are equal: of equal terms, earlier ones rank higher."""
    ranks = [term.times(len(terms)).plus(-place) for place, term in enumerate(terms)]
    highest = greatest_of(builder, ranks)
    return [(builder.equals_value(index, place), rank, highest) for place, rank in enumerate(ranks, first)]


def not_maximum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is not that of the first maximum"""
    for chosen, rank, highest in _ranked(builder, terms, index, first) if terms else ():
        builder.linear((1, -1), (rank, highest), (LOWEST, -1), [chosen, *when])


def maximum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is that of the first maximum, counted from `first`; false without terms"""
    if not terms:
        return builder.false(when)
    builder.linear((1,), (index,), (first, first + len(terms) - 1), when)
    for chosen, rank, highest in _ranked(builder, terms, index, first):
        builder.equal(rank, highest, [chosen, *when])
        builder.linear((1, -1), (rank, highest), (LOWEST, -1), [~chosen, *when])


def add_extreme(short: str, long: str, choose: Callable[..., int], sign: int) -> None:
    """Register the constraints on greatest values, or, with sign -1, on least ones, which are the greatest of the
    negated terms."""

    @relation(f"int_{short}", value=choose)
    def of_two(builder: Builder, left: Int, right: Int, extreme: Int, when: When) -> None:
        of_all(builder, extreme, [left, right], when)

    @relation(f"array_int_{long}", value=choose, target=0)
    def of_all(builder: Builder, extreme: Int, terms: Ints, when: When) -> None:
        maximum_of(builder, extreme.times(sign), [term.times(sign) for term in terms], when)

    def first_extreme(values: list[int], first: int) -> int:
        return first + values.index(choose(values))

    def not_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
        not_maximum_arg(builder, [term.times(sign) for term in terms], first, index, when)

    @relation(
        f"fzn_{long}_arg_int_offset",
        bools={f"fzn_{long}_arg_bool_offset": ("Bools", "Par", "Int")},
        opposite=not_arg,
        holds=lambda values, first, index: bool(values) and index == first_extreme(values, first),
        value=first_extreme,
    )
    def arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
        maximum_arg(builder, [term.times(sign) for term in terms], first, index, when)


add_extreme("max", "maximum", max, 1)
add_extreme("min", "minimum", min, -1)


# --- Array access by a variable index, counted from 1 or from a given one; an index outside the array is false


def _at(index: int, values: Sequence[int]) -> int:
    """The element at an index that may lie outside, where any value does."""
    return values[min(max(index, 1), len(values)) - 1] if values else 0


@relation(
    "array_var_int_element",
    bools=dict.fromkeys(("array_var_bool_element", "array_bool_element"), ("Int", "Bools", "Bool")),
    value=_at,
)
def array_var_int_element(builder: Builder, index: Int, terms: Ints, value: Int, when: When) -> None:
    """terms[index] = value"""
    if not terms:
        return builder.false(when)
    builder.linear((1,), (index,), (1, len(terms)), when)
    proto = builder.new(when).element
    builder.write(index.plus(-1), proto.linear_index)
    builder.write(value, proto.linear_target)
    builder.write_all(terms, proto.exprs)


@relation("array_int_element", value=_at)
def array_int_element(builder: Builder, index: Int, values: Pars, value: Int, when: When) -> None:
    """values[index] = value"""
    array_var_int_element(builder, index, [constant(number) for number in values], value, when)


@relation(
    "array_var_int_element_from",
    bools={"array_var_bool_element_from": ("Par", "Int", "Bools", "Bool")},
    value=lambda first, index, values: _at(index - first + 1, values),
)
def array_var_int_element_from(builder: Builder, first: Par, index: Int, terms: Ints, value: Int, when: When) -> None:
    """terms[index] = value, counted from `first`"""
    array_var_int_element(builder, index.plus(1 - first), terms, value, when)
