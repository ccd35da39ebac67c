"""How often values occur: count, among, number of values, all different with or without exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne

from moccasin_mzn.solvers.cpsat.builder import FALSE, Builder, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.constraints.comparison import (
    DIFFERENCES,
    ZERO,
    Condition,
    conjunction,
    counted,
    occurrences,
    occurs,
    possible_values,
    refute,
    require,
)
from moccasin_mzn.solvers.cpsat.registry import Int, Ints, Par, Pars, Set, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet

AT_MOST_ONE = IntSet.of_range(LOWEST, 1)
NONE = IntSet(())
MANY_LITERALS = 100_000
"""From this many literals `term = value` on, constraints that can be stated without them are."""


def add_count(
    name: str, compare: Callable[[int, int], bool], value: Callable[[list[int], int], int] | None = None
) -> None:
    """Register fzn_count_NAME: count compares to the number of terms that equal value."""

    def holds(values: list[int], value: int, count: int) -> bool:
        return compare(count, values.count(value))

    @conjunction(f"fzn_count_{name}", f"fzn_count_{name}_par", holds=holds, value=value)
    def count(builder: Builder, terms: Ints, value: Int, count: Int) -> list[Condition]:
        return [counted(count, [as_term(_equal(builder, term, value)) for term in terms], DIFFERENCES[compare])]


add_count("eq", eq, value=lambda values, value: values.count(value))
for _name, _compare in {"neq": ne, "leq": le, "lt": lt, "geq": ge, "gt": gt}.items():
    add_count(_name, _compare)


def _equal(builder: Builder, left: Term, right: Term) -> int:
    """A literal for left = right."""
    if not right.coefficient:
        return builder.equals_value(left, right.offset)
    if not left.coefficient:
        return builder.equals_value(right, left.offset)
    return builder.truth((1, -1), (left, right), ZERO)


def add_limit(name: str, compare: Callable[[int, int], bool]) -> None:
    """Register fzn_NAME_int: the number of terms with the value compares to a given one."""

    @conjunction(f"fzn_{name}_int", holds=lambda number, values, value: compare(values.count(value), number))
    def limit(builder: Builder, number: Par, terms: Ints, value: Par) -> list[Condition]:
        return [occurs(builder, terms, value, DIFFERENCES[compare].plus(number))]


for _name, _compare in {"at_least": ge, "at_most": le, "exactly": eq}.items():
    add_limit(_name, _compare)


def _number_among(values: list[int], wanted: IntSet) -> int:
    return sum(value in wanted for value in values)


@conjunction(
    "fzn_among",
    holds=lambda number, values, wanted: number == _number_among(values, wanted),
    value=_number_among,
    target=0,
)
def among(builder: Builder, number: Int, terms: Ints, values: Set) -> list[Condition]:
    """exactly `number` terms have a value from the set"""
    return [counted(number, [as_term(builder.is_in(term, values)) for term in terms])]


@conjunction(
    "fzn_nvalue",
    holds=lambda number, values: number == len(set(values)),
    value=lambda values: len(set(values)),
    target=0,
)
def nvalue(builder: Builder, number: Int, terms: Ints) -> list[Condition]:
    """the terms have `number` different values"""
    distinct = []
    if _pairs(builder, terms) <= MANY_LITERALS:
        for value in possible_values(builder, terms):
            equal = [builder.equals_value(term, value) for term in terms]
            distinct.append(~builder.conjunction([~literal for literal in equal if literal != FALSE]))
    else:  # count the terms that differ from all before
        for index, term in enumerate(terms):
            distinct.append(builder.conjunction([~_equal(builder, term, other) for other in terms[:index]]))
    return [counted(number, list(map(as_term, distinct)))]


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
    values = [value for value in possible_values(builder, terms) if value not in exceptions]
    conditions = [occurs(builder, terms, value, AT_MOST_ONE) for value in values]
    return [condition for condition in conditions if len(condition.terms) > 1]


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


# --- Global cardinality: how often each value of a cover occurs -----------------------------------------------

# A value that stands in the cover more than once is counted each time. MiniZinc demands that all counts together are
# at most the number of terms; this implies something only then.


def _counts(builder: Builder, terms: Sequence[Term], cover: Sequence[int], counts: Sequence[Term]) -> list[Condition]:
    """Value cover[i] occurs counts[i] times, and the counts are at most as many as the terms together."""
    pairs = zip(cover, counts, strict=True)
    total = Condition([1] * len(counts), counts, IntSet.of_range(LOWEST, len(terms)))
    return [*(counted(count, occurrences(builder, terms, value)) for value, count in pairs), total]


def _bounds(
    builder: Builder, terms: Sequence[Term], cover: Sequence[int], low: Sequence[int], high: Sequence[int]
) -> list[Condition]:
    """Value cover[i] occurs low[i]..high[i] times, where that is a restriction."""
    conditions = []
    for value, least, most in zip(cover, low, high, strict=True):
        numbers = IntSet.of_range(least if least > 0 else LOWEST, most if most < len(terms) else HIGHEST)
        condition = occurs(builder, terms, value, numbers)
        if least > 0 or most < len(condition.terms):
            conditions.append(condition)
    return conditions


def _covered(terms: Sequence[Term], cover: Sequence[int]) -> list[Condition]:
    """All terms have values of the cover."""
    values = IntSet.of_values(cover)
    return [Condition([1], [term], values) for term in terms]


def _tally(values: list[int], cover: list[int]) -> list[int]:
    return [values.count(value) for value in cover]


def _counted(values: list[int], cover: list[int], counts: list[int]) -> bool:
    return counts == _tally(values, cover) and sum(counts) <= len(values)


def _within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    return all(low[i] <= count <= high[i] for i, count in enumerate(_tally(values, cover)))


@conjunction("fzn_global_cardinality", holds=_counted, value=_tally)
def cardinality(builder: Builder, terms: Ints, cover: Pars, counts: Ints) -> list[Condition]:
    """cover[i] occurs counts[i] times"""
    return _counts(builder, terms, cover, counts)


@conjunction(
    "fzn_global_cardinality_closed",
    holds=lambda values, cover, counts: set(values) <= set(cover) and _counted(values, cover, counts),
    value=_tally,
)
def cardinality_closed(builder: Builder, terms: Ints, cover: Pars, counts: Ints) -> list[Condition]:
    """cover[i] occurs counts[i] times and no other value does"""
    return [*_counts(builder, terms, cover, counts), *_covered(terms, cover)]


@conjunction("fzn_global_cardinality_low_up", holds=_within)
def cardinality_low_up(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars) -> list[Condition]:
    """cover[i] occurs low[i]..high[i] times"""
    return _bounds(builder, terms, cover, low, high)


def _closed_within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    fits = sum(low) <= len(values) <= sum(high)
    return fits and set(values) <= set(cover) and _within(values, cover, low, high)


@conjunction("fzn_global_cardinality_low_up_closed", holds=_closed_within)
def cardinality_low_up_closed(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars) -> list[Condition]:
    """cover[i] occurs low[i]..high[i] times and no other value does"""
    total = Condition([1], [constant(len(terms))], IntSet.of_range(sum(low), sum(high)))
    return [*_bounds(builder, terms, cover, low, high), *_covered(terms, cover), total]
