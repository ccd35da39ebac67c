"""Arithmetic of single integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, constant
from moccasin_mzn.solvers.cpsat.registry import Int, Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet

# --- The greatest and least of several integers, and their places ---------------------------------------------


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


# --- Single integers ------------------------------------------------------------------------------------------


SMALL_TABLE = 50_000
"""The most rows with which a power is written as a table."""


@relation("int_plus", value=lambda left, right: left + right)
def int_plus(builder: Builder, left: Int, right: Int, total: Int, when: When) -> None:
    """left + right = total"""
    builder.linear((1, 1, -1), (left, right, total), (0, 0), when)


@relation("int_times", value=lambda left, right: left * right)
def int_times(builder: Builder, left: Int, right: Int, product: Int, when: When) -> None:
    """left * right = product"""
    if not left.coefficient or not right.coefficient:
        factor, term = (left.offset, right) if not left.coefficient else (right.offset, left)
        return builder.linear((factor, -1), (term, product), (0, 0), when)
    _multiply(builder, [left, right], product, when)


@relation("int_abs", value=abs)
def int_abs(builder: Builder, term: Int, size: Int, when: When) -> None:
    """|term| = size"""
    maximum_of(builder, size, [term, term.times(-1)], when)


def quotient(left: int, right: int) -> int:
    """left div right, rounded towards zero as in MiniZinc; ValueError if right = 0"""
    if right == 0:
        raise ValueError("division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


@relation("int_div", value=quotient)
def int_div(builder: Builder, left: Int, right: Int, result: Int, when: When) -> None:
    """left div right = result, rounded towards zero; false if right = 0"""
    size = _divisor(builder, right, when)
    size_is_right = builder.truth((1,), (right,), IntSet.of_range(1, HIGHEST))
    total = _total(builder, "int_div", quotient, left, size)
    builder.equal(result, total, [size_is_right, *when])
    builder.equal(result, total.times(-1), [~size_is_right, *when])


def remainder(left: int, right: int) -> int:
    """left mod right, with the sign of left; ValueError if right = 0"""
    return left - quotient(left, right) * right


@relation("int_mod", value=remainder)
def int_mod(builder: Builder, left: Int, right: Int, result: Int, when: When) -> None:
    """left mod right = result, with the sign of left; false if right = 0"""
    total = _total(builder, "int_mod", remainder, left, _divisor(builder, right, when))
    builder.equal(result, total, when)


def power(base: int, exponent: int) -> int:
    """base ** exponent, and 1 div base ** -exponent below 0; ArithmeticError for a negative power of 0 and for results
    of far more than 64 bits"""
    if abs(base) == 1:
        return base if exponent % 2 else 1
    if base == 0 and exponent < 0:
        raise ZeroDivisionError("a negative power of 0")
    if base and exponent > 64:
        raise OverflowError("a power that does not fit in 64 bits")
    return base**exponent if exponent >= 0 else 0


@relation("int_pow", "int_pow_fixed", value=power)
def int_pow(builder: Builder, base: Int, exponent: Int, result: Int, when: When) -> None:
    """base ** exponent = result; 1 div base ** -exponent for a negative exponent, false if base is 0 then"""
    if builder.size(base) * builder.size(exponent) <= SMALL_TABLE:
        return _power_table(builder, base, exponent, result, when)
    for value in builder.values(exponent):
        chosen = builder.equals_value(exponent, value)
        _fixed_power(builder, base, value, result, [chosen, *when])


def _divisor(builder: Builder, term: Term, when: When) -> Term:
    """|term|, or 1 for 0, which is excluded under `when`: CP-SAT takes no divisor that may be 0."""
    low, high = builder.bounds(term)
    if low > 0:
        return term
    if high < 0:
        return term.times(-1)
    builder.within(term, IntSet(((LOWEST, -1), (1, HIGHEST))), when)
    return greatest_of(builder, [term, term.times(-1), constant(1)])


def _multiply(builder: Builder, factors: list[Term], result: Term, when: When) -> None:
    """The product of the factors is the result. Only the equality is half-reified: the presolve of CP-SAT 9.15 never
    ends on a square that is enforced by a literal and has to be negative."""
    if when:
        low, high = 1, 1
        for factor in factors:
            corners = [one * other for one in (low, high) for other in builder.bounds(factor)]
            low, high = min(corners), max(corners)
        total = builder.integer(low, high)
        builder.equal(total, result, when)
        builder.suggest(total.variable, factors, prod)
        result = total
    proto = builder.new().int_prod
    builder.write(result, proto.target)
    builder.write_all(factors, proto.exprs)


def _total(builder: Builder, field: str, rule: Callable[[int, int], int], dividend: Term, divisor: Term) -> Term:
    """A new operand, the quotient or remainder by a positive divisor. Its definition is never half-reified: CP-SAT 9.15
    loses solutions of divisions and remainders that are enforced by a literal."""
    largest = max(map(abs, builder.bounds(dividend)))
    result = builder.integer(-largest, largest)
    proto = getattr(builder.new(), field)
    builder.write(result, proto.target)
    builder.write_all((dividend, divisor), proto.exprs)
    builder.suggest(result.variable, (dividend, divisor), lambda numbers: rule(*numbers))
    return result


def _power_table(builder: Builder, base: Term, exponent: Term, result: Term, when: When) -> None:
    low, high = builder.bounds(result)
    largest = max(abs(low), abs(high))
    rows: list[int] = []
    for number in builder.values(base):
        for times in builder.values(exponent):
            if (abs(number) >= 2 and times > largest.bit_length()) or (number == 0 and times < 0):
                continue  # too large, or undefined
            value = power(number, times)
            if low <= value <= high:
                rows.extend((number, times, value))
    if not rows:
        return builder.false(when)
    proto = builder.new(when).table
    builder.write_all((base, exponent, result), proto.exprs)
    proto.values.extend(rows)


def _fixed_power(builder: Builder, base: Term, exponent: int, result: Term, when: When) -> None:
    """base ** exponent = result, as in `int_pow`, for a base of many values"""
    if exponent > 62:  # nothing but -1, 0 and 1 has such a power within 64 bits
        builder.within(base, IntSet.of_range(-1, 1), when)
        exponent = 2 + exponent % 2
    if exponent >= 2:
        return _multiply(builder, [base] * exponent, result, when)
    if exponent >= 0:
        return builder.linear((exponent, -1), (base, result), (exponent - 1,) * 2, when)
    builder.within(base, IntSet(((LOWEST, -1), (1, HIGHEST))), when)
    one, minus_one = builder.equals_value(base, 1), builder.equals_value(base, -1)
    builder.linear((1,), (result,), (1, 1), [one, *when])
    builder.linear((1,), (result,), (power(-1, exponent),) * 2, [minus_one, *when])
    builder.linear((1,), (result,), (0, 0), [~one, ~minus_one, *when])
