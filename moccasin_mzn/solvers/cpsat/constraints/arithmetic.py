"""Arithmetic of single integers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, constant
from moccasin_mzn.solvers.cpsat.constraints.extremes import greatest_of, maximum_of
from moccasin_mzn.solvers.cpsat.registry import Int, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet

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
    """As `int_pow`, for a base of many values."""
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
