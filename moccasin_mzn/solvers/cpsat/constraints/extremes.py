"""The greatest and least of several integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moccasin_mzn.solvers.cpsat.builder import TRUE, Builder, Term, known
from moccasin_mzn.solvers.cpsat.registry import Bools, Int, Ints, Par, When, relation
from moccasin_mzn.solvers.flatzinc.intset import LOWEST


def maximum_of(builder: Builder, greatest: Term, terms: list[Term], when: When) -> None:
    """max(terms) = greatest; false without terms"""
    if not terms:
        return builder.false(when)
    proto = builder.new(when).lin_max
    builder.write(greatest, proto.target)
    builder.write_all(terms, proto.exprs)


@relation("int_max", value=max)
def int_max(builder: Builder, left: Int, right: Int, greatest: Int, when: When) -> None:
    """max(left, right) = greatest"""
    maximum_of(builder, greatest, [left, right], when)


@relation("int_min", value=min)
def int_min(builder: Builder, left: Int, right: Int, least: Int, when: When) -> None:
    """min(left, right) = least"""
    maximum_of(builder, least.times(-1), [left.times(-1), right.times(-1)], when)


@relation("array_int_maximum", value=max, target=0)
def array_int_maximum(builder: Builder, greatest: Int, terms: Ints, when: When) -> None:
    """max(terms) = greatest; false without terms"""
    maximum_of(builder, greatest, terms, when)


@relation("array_int_minimum", value=min, target=0)
def array_int_minimum(builder: Builder, least: Int, terms: Ints, when: When) -> None:
    """min(terms) = least; false without terms"""
    maximum_of(builder, least.times(-1), [term.times(-1) for term in terms], when)


def _ranks(builder: Builder, terms: Sequence[Term]) -> tuple[list[Term], Term]:
    """Operands in the order of the terms, but no two of them equal: of equal terms, earlier ones rank higher; and a new
    operand that equals the highest."""
    ranks = [term.times(len(terms)).plus(-index) for index, term in enumerate(terms)]
    bounds = [builder.bounds(rank) for rank in ranks]
    highest = builder.integer(max(low for low, _ in bounds), max(high for _, high in bounds))
    maximum_of(builder, highest, ranks, [])

    def rule(value: Callable[[Term], int | None]) -> int | None:
        return None if (values := known(map(value, ranks))) is None else max(values)

    builder.suggest(highest.variable, rule)
    return ranks, highest


def not_maximum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is not that of the first maximum"""
    if terms:
        ranks, highest = _ranks(builder, terms)
        for position, rank in enumerate(ranks, first):
            chosen = builder.equals_value(index, position)
            builder.linear((1, -1), (rank, highest), (LOWEST, -1), [chosen, *when])


def _first_maximum(values: list, first: int) -> int:
    return first + values.index(max(values))


@relation(
    "fzn_maximum_arg_int_offset",
    opposite=not_maximum_arg,
    holds=lambda values, first, index: bool(values) and index == _first_maximum(values, first),
    value=_first_maximum,
)
def maximum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is that of the first maximum, counted from `first`; false without terms"""
    if not terms:
        return builder.false(when)
    builder.linear((1,), (index,), (first, first + len(terms) - 1), when)
    ranks, highest = _ranks(builder, terms)
    for position, rank in enumerate(ranks, first):
        chosen = builder.equals_value(index, position)
        builder.equal(rank, highest, [chosen, *when])
        builder.linear((1, -1), (rank, highest), (LOWEST, -1), [~chosen, *when])


def _first_minimum(values: list, first: int) -> int:
    return first + values.index(min(values))


def not_minimum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is not that of the first minimum"""
    not_maximum_arg(builder, [term.times(-1) for term in terms], first, index, when)


@relation(
    "fzn_minimum_arg_int_offset",
    opposite=not_minimum_arg,
    holds=lambda values, first, index: bool(values) and index == _first_minimum(values, first),
    value=_first_minimum,
)
def minimum_arg(builder: Builder, terms: Ints, first: Par, index: Int, when: When) -> None:
    """index is that of the first minimum, counted from `first`; false without terms"""
    maximum_arg(builder, [term.times(-1) for term in terms], first, index, when)


def _first_trues(builder: Builder, literals: Sequence[int]) -> list[int]:
    """For each index a literal: it is that of the first true literal, or the first one if none is true."""
    found, none_before = [], TRUE
    for literal in literals:
        found.append(builder.conjunction([literal, none_before]))
        none_before = builder.conjunction([~literal, none_before])
    found[0] = ~builder.conjunction([~literals[0], ~none_before])
    return found


def not_first_true(builder: Builder, literals: Bools, first: Par, index: Int, when: When) -> None:
    """index is neither that of the first true literal nor, if none is true, the first one"""
    if literals:
        for position, found in enumerate(_first_trues(builder, literals), first):
            builder.clause([~found, ~builder.equals_value(index, position)], when)


@relation(
    "fzn_maximum_arg_bool_offset",
    opposite=not_first_true,
    holds=lambda values, first, index: bool(values) and index == _first_maximum(values, first),
    value=_first_maximum,
)
def first_true(builder: Builder, literals: Bools, first: Par, index: Int, when: When) -> None:
    """index is that of the first true literal, or the first one if none is true, counted from `first`; false without
    literals"""
    if not literals:
        return builder.false(when)
    for position, found in enumerate(_first_trues(builder, literals), first):
        builder.clause([~found, builder.equals_value(index, position)], when)


def not_first_false(builder: Builder, literals: Bools, first: Par, index: Int, when: When) -> None:
    """index is neither that of the first false literal nor, if none is false, the first one"""
    not_first_true(builder, [~literal for literal in literals], first, index, when)


@relation(
    "fzn_minimum_arg_bool_offset",
    opposite=not_first_false,
    holds=lambda values, first, index: bool(values) and index == _first_minimum(values, first),
    value=_first_minimum,
)
def first_false(builder: Builder, literals: Bools, first: Par, index: Int, when: When) -> None:
    """index is that of the first false literal, or the first one if none is false, counted from `first`; false without
    literals"""
    first_true(builder, [~literal for literal in literals], first, index, when)
