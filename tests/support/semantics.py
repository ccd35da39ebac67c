"""What the integer and bool constraints of FlatZinc mean, as predicates on values.

Written from the FlatZinc reference, without a look at the solver: the fuzz tests compare the two. A relation that is
undefined for some values (division by zero, an index outside the array) is false for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Relation:
    """The kinds of the arguments (see `moccasin_mzn.solvers.cpsat.registry`) and the predicate on their values.

    `equal_lengths`: all arrays among the arguments are to be of one length.
    """

    kinds: tuple[str, ...]
    holds: Callable[..., bool]
    equal_lengths: bool = False


def divide(left: int, right: int) -> int | None:
    """left div right, rounded towards zero; None if undefined"""
    return math.trunc(Fraction(left, right)) if right else None


def modulo(left: int, right: int) -> int | None:
    """left mod right, with the sign of left; None if undefined"""
    return left - right * divide(left, right) if right else None


def is_power(base: int, exponent: int, result: int) -> bool:
    """base ** exponent = result, a negative power being 1 div the positive one"""
    if abs(exponent) > 64 and abs(base) > 1:
        return exponent < 0 and result == 0
    if exponent >= 0:
        return base**exponent == result
    return divide(1, base**-exponent) == result


def element(index: int, values: list, value: object, first: int = 1) -> bool:
    """values[index] = value, the first index being `first`"""
    return dict(enumerate(values, first)).get(index) == value


def dot(factors: list[int], values: list[int]) -> int:
    """sum factors * values"""
    return sum(factor * value for factor, value in zip(factors, values, strict=True))


def relation(kinds: str, holds: Callable[..., bool], equal_lengths: bool = False) -> Relation:
    return Relation(tuple(kinds.split()), holds, equal_lengths)


FUNCTIONS = {
    "bool2int": relation("Bool Int", lambda a, x: x == (1 if a else 0)),
    "bool_and": relation("Bool Bool Bool", lambda a, b, r: r == (a and b)),
    "bool_or": relation("Bool Bool Bool", lambda a, b, r: r == (a or b)),
    "bool_xor": relation("Bool Bool Bool", lambda a, b, r: r == (a is not b)),
    "bool_xor_imp": relation("Bool Bool Bool", lambda a, b, r: a is not b or not r),
    "array_bool_and": relation("Bools Bool", lambda xs, r: r == (False not in xs)),
    "array_bool_or": relation("Bools Bool", lambda xs, r: r == (True in xs)),
    "bool_lin_eq": relation("Pars Bools Int", lambda cs, xs, y: dot(cs, xs) == y, True),
    "bool_lin_le": relation("Pars Bools Int", lambda cs, xs, y: dot(cs, xs) <= y, True),
}
"""Constraints that exist in one form only."""

RELATIONS = {
    "int_eq": relation("Int Int", lambda x, y: x == y),
    "int_ne": relation("Int Int", lambda x, y: x != y),
    "int_le": relation("Int Int", lambda x, y: x <= y),
    "int_lt": relation("Int Int", lambda x, y: x < y),
    "int_lin_eq": relation("Pars Ints Par", lambda cs, xs, k: dot(cs, xs) == k, True),
    "int_lin_ne": relation("Pars Ints Par", lambda cs, xs, k: dot(cs, xs) != k, True),
    "int_lin_le": relation("Pars Ints Par", lambda cs, xs, k: dot(cs, xs) <= k, True),
    "set_in": relation("Int Set", lambda x, values: x in values),
    "bool_eq": relation("Bool Bool", lambda a, b: a is b),
    "bool_not": relation("Bool Bool", lambda a, b: a is not b),
    "bool_ne": relation("Bool Bool", lambda a, b: a is not b),
    "bool_le": relation("Bool Bool", lambda a, b: b or not a),
    "bool_lt": relation("Bool Bool", lambda a, b: b and not a),
    "bool_clause": relation("Bools Bools", lambda xs, ys: True in xs or False in ys),
    "array_bool_xor": relation("Bools", lambda xs: xs.count(True) % 2 == 1),
    "int_plus": relation("Int Int Int", lambda x, y, z: x + y == z),
    "int_times": relation("Int Int Int", lambda x, y, z: x * y == z),
    "int_div": relation("Int Int Int", lambda x, y, z: divide(x, y) == z),
    "int_mod": relation("Int Int Int", lambda x, y, z: modulo(x, y) == z),
    "int_pow": relation("Int Int Int", is_power),
    "int_pow_fixed": relation("Int Int Int", is_power),
    "int_abs": relation("Int Int", lambda x, y: y in (x, -x) and y >= 0),
    "int_max": relation("Int Int Int", lambda x, y, z: z == (x if x > y else y)),
    "int_min": relation("Int Int Int", lambda x, y, z: z == (x if x < y else y)),
    "array_int_maximum": relation("Int Ints", lambda z, xs: z in xs and all(z >= x for x in xs)),
    "array_int_minimum": relation("Int Ints", lambda z, xs: z in xs and all(z <= x for x in xs)),
    "array_int_element": relation("Int Pars Int", element),
    "array_var_int_element": relation("Int Ints Int", element),
    "array_bool_element": relation("Int Bools Bool", element),
    "array_var_bool_element": relation("Int Bools Bool", element),
    "array_var_int_element_from": relation("Par Int Ints Int", lambda k, i, xs, y: element(i, xs, y, k)),
    "array_var_bool_element_from": relation("Par Int Bools Bool", lambda k, i, xs, b: element(i, xs, b, k)),
}
"""Constraints that may be half-reified (`NAME_imp`) and reified (`NAME_reif`)."""


def meaning(name: str) -> Relation | None:
    """The relation of this name, plain, half-reified or reified; None if it is none of FlatZinc's own."""
    if name in FUNCTIONS or name in RELATIONS:
        return FUNCTIONS.get(name) or RELATIONS[name]
    base, _, form = name.rpartition("_")
    if base not in RELATIONS or form not in ("imp", "reif"):
        return None
    plain = RELATIONS[base]

    def holds(*values) -> bool:
        *operands, condition = values
        truth = bool(plain.holds(*operands))
        return truth == condition if form == "reif" else truth or not condition

    return Relation((*plain.kinds, "Bool"), holds, plain.equal_lengths)
