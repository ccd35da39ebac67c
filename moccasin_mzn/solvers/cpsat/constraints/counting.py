"""How often values occur: count, among, number of values, all different with or without exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne

from moccasin_mzn.solvers.cpsat.builder import FALSE, Builder, Term, as_term
from moccasin_mzn.solvers.cpsat.constraints.conditions import Condition, occurrences, possible_values, refute, require
from moccasin_mzn.solvers.cpsat.registry import Int, Ints, Par, Set, When, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST, IntSet

ZERO = IntSet.of_range(0, 0)
AT_MOST_ONE = IntSet.of_range(LOWEST, 1)
NONE = IntSet(())
MANY_LITERALS = 100_000
"""From so many literals `term = value` on, constraints that can be stated without them are."""


def add_count(name: str, compare: Callable[[int, int], bool], difference: IntSet, **functional) -> None:
    """Register fzn_count_NAME: count is related to the number of terms that equal value. `difference` has the values
    of count - number for which that is true."""

    def refuted(builder: Builder, terms: Ints, value: Int, count: Int, when: When) -> None:
        _count(builder, terms, value, count, difference.complement(), when)

    @relation(
        f"fzn_count_{name}",
        f"fzn_count_{name}_par",
        opposite=refuted,
        holds=lambda values, value, count: compare(count, values.count(value)),
        **functional,
    )
    def count(builder: Builder, terms: Ints, value: Int, count: Int, when: When) -> None:
        _count(builder, terms, value, count, difference, when)


add_count("eq", eq, ZERO, value=lambda values, value: values.count(value))
add_count("neq", ne, ZERO.complement())
add_count("leq", le, IntSet.of_range(LOWEST, 0))
add_count("lt", lt, IntSet.of_range(LOWEST, -1))
add_count("geq", ge, IntSet.of_range(0, HIGHEST))
add_count("gt", gt, IntSet.of_range(1, HIGHEST))


def _count(
    builder: Builder, terms: Sequence[Term], value: Term, count: Term, difference: IntSet, when: Sequence[int]
) -> None:
    """count - the number of terms that equal value is in `difference`"""
    equal = [as_term(_equal(builder, term, value)) for term in terms]
    require(builder, [Condition([1] + [-1] * len(equal), [count, *equal], difference)], when)


def _equal(builder: Builder, left: Term, right: Term) -> int:
    """A literal for left = right."""
    if not right.coefficient:
        return builder.equals_value(left, right.offset)
    if not left.coefficient:
        return builder.equals_value(right, left.offset)
    return builder.truth((1, -1), (left, right), ZERO)


def _occurs(builder: Builder, terms: Sequence[Term], value: int, number: IntSet) -> list[Condition]:
    """The number of terms with this value is among the numbers."""
    equal = occurrences(builder, terms, value)
    return [Condition([1] * len(equal), equal, number)]


def fewer_than(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """fewer than `number` terms have the value"""
    require(builder, _occurs(builder, terms, value, IntSet.of_range(LOWEST, number - 1)), when)


@relation("fzn_at_least_int", opposite=fewer_than, holds=lambda number, values, value: values.count(value) >= number)
def at_least(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """at least `number` terms have the value"""
    require(builder, _occurs(builder, terms, value, IntSet.of_range(number, HIGHEST)), when)


def more_than(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """more than `number` terms have the value"""
    require(builder, _occurs(builder, terms, value, IntSet.of_range(number + 1, HIGHEST)), when)


@relation("fzn_at_most_int", opposite=more_than, holds=lambda number, values, value: values.count(value) <= number)
def at_most(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """at most `number` terms have the value"""
    require(builder, _occurs(builder, terms, value, IntSet.of_range(LOWEST, number)), when)


def not_exactly(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """not exactly `number` terms have the value"""
    refute(builder, _occurs(builder, terms, value, IntSet.of_range(number, number)), when)


@relation("fzn_exactly_int", opposite=not_exactly, holds=lambda number, values, value: values.count(value) == number)
def exactly(builder: Builder, number: Par, terms: Ints, value: Par, when: When) -> None:
    """exactly `number` terms have the value"""
    require(builder, _occurs(builder, terms, value, IntSet.of_range(number, number)), when)


def _among(builder: Builder, number: Term, terms: Sequence[Term], values: IntSet) -> list[Condition]:
    inside = [as_term(builder.is_in(term, values)) for term in terms]
    return [Condition([1] + [-1] * len(inside), [number, *inside], ZERO)]


def not_among(builder: Builder, number: Int, terms: Ints, values: Set, when: When) -> None:
    """the number of terms with a value from the set is another one"""
    refute(builder, _among(builder, number, terms, values), when)


def _number_among(values: list[int], wanted: IntSet) -> int:
    return sum(value in wanted for value in values)


@relation(
    "fzn_among",
    opposite=not_among,
    holds=lambda number, values, wanted: number == _number_among(values, wanted),
    value=_number_among,
    target=0,
)
def among(builder: Builder, number: Int, terms: Ints, values: Set, when: When) -> None:
    """exactly `number` terms have a value from the set"""
    require(builder, _among(builder, number, terms, values), when)


def _different_values(builder: Builder, number: Term, terms: Sequence[Term]) -> list[Condition]:
    """number - how many different values the terms have = 0"""
    distinct = []
    if _pairs(builder, terms) <= MANY_LITERALS:
        for value in possible_values(builder, terms):
            equal = [builder.equals_value(term, value) for term in terms]
            distinct.append(~builder.conjunction([~literal for literal in equal if literal != FALSE]))
    else:  # count the terms that differ from all before
        for index, term in enumerate(terms):
            distinct.append(builder.conjunction([~_equal(builder, term, other) for other in terms[:index]]))
    return [Condition([1] + [-1] * len(distinct), [number, *map(as_term, distinct)], ZERO)]


def not_nvalue(builder: Builder, number: Int, terms: Ints, when: When) -> None:
    """the number of different values is another one"""
    refute(builder, _different_values(builder, number, terms), when)


@relation(
    "fzn_nvalue",
    opposite=not_nvalue,
    holds=lambda number, values: number == len(set(values)),
    value=lambda values: len(set(values)),
    target=0,
)
def nvalue(builder: Builder, number: Int, terms: Ints, when: When) -> None:
    """the terms have `number` different values"""
    require(builder, _different_values(builder, number, terms), when)


def _pairs(builder: Builder, terms: Sequence[Term]) -> int:
    """How many pairs there are of a term and one of its values."""
    return sum(map(builder.size, terms))


def two_equal(builder: Builder, terms: Ints, when: When) -> None:
    """two terms are equal"""
    two_equal_outside(builder, terms, NONE, when)


@relation("fzn_all_different_int", opposite=two_equal, holds=lambda values: len(set(values)) == len(values))
def all_different(builder: Builder, terms: Ints, when: When) -> None:
    """no two terms are equal"""
    builder.write_all(terms, builder.new(when).all_diff.exprs)


def _at_most_once(builder: Builder, terms: Sequence[Term], exceptions: IntSet) -> list[Condition]:
    """For each value that is no exception: at most one term has it."""
    conditions = []
    for value in possible_values(builder, terms):
        if value not in exceptions:
            equal = occurrences(builder, terms, value)
            if len(equal) > 1:
                conditions.append(Condition([1] * len(equal), equal, AT_MOST_ONE))
    return conditions


def two_equal_outside(builder: Builder, terms: Ints, exceptions: Set, when: When) -> None:
    """two terms have the same value, which is no exception"""
    if _pairs(builder, terms) <= MANY_LITERALS:
        return refute(builder, _at_most_once(builder, terms, exceptions), when)
    both = []
    for index, term in enumerate(terms):
        regular = ~builder.is_in(term, exceptions)
        both += [builder.conjunction([regular, _equal(builder, term, other)]) for other in terms[:index]]
    builder.clause(both, when)


def _different_outside(values: list[int], exceptions: IntSet) -> bool:
    regular = [value for value in values if value not in exceptions]
    return len(set(regular)) == len(regular)


@relation("fzn_alldifferent_except", opposite=two_equal_outside, holds=_different_outside)
def all_different_except(builder: Builder, terms: Ints, exceptions: Set, when: When) -> None:
    """no two terms have the same value, unless it is an exception"""
    if _pairs(builder, terms) <= MANY_LITERALS:
        return require(builder, _at_most_once(builder, terms, exceptions), when)
    units = []
    for term in terms:
        regular = ~builder.is_in(term, exceptions)
        units.append(builder.constraint_count())
        proto = builder.new([regular]).interval
        builder.write(term, proto.start)
        proto.size.offset = 1
        builder.write(term.plus(1), proto.end)
    builder.new(when).no_overlap.intervals.extend(units)
