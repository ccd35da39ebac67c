"""Only solutions in exact integers pass."""

from __future__ import annotations

import numpy as np
import pytest

from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.linear.program import translate
from moccasin_mzn.solvers.linear.search import Checker


def checker(text: str) -> Checker:
    return Checker(translate(parse(f"{text} solve satisfy;", "f")))


@pytest.mark.parametrize(
    ("values", "expected", "complaint"),
    [
        ([1.0000001, 2.9999999], [1, 3], None),
        ([1.4, 3.4], [1, 3], None),
        ([2.0, 3.0], None, "f:1:36: this constraint does not hold"),
        ([1.0, 2.0], None, "f:1:36: this constraint does not hold"),
        ([4.0, 0.0], None, "x = 4 is outside its domain"),
        ([-0.6, 5.0], None, "x = -1 is outside its domain"),
        ([np.nan, 3.0], None, "x = nan is no exact double"),
        ([np.inf, 3.0], None, "x = inf is no exact double"),
    ],
)
def test_integers_are_rounded_and_checked(values, expected, complaint):
    judge = checker("var 0..3: x; var int: y;           constraint int_lin_eq([2,1],[x,y],5);")
    checked = judge.check(np.array(values))
    assert (None if checked is None else checked.tolist()) == expected
    assert judge.complaint == complaint


HUGE = 2**53 - 1


@pytest.mark.parametrize("error", [-1, 0, 1])
def test_sums_that_floating_point_cannot_distinguish_are_checked_exactly(error):
    text = f"constraint int_lin_eq([{HUGE},-{HUGE},1],[x,y,z],{HUGE});"
    judge = checker(f"var int: x; var int: y; var int: z; {text}")
    # HUGE (x - y) + z = HUGE with HUGE x far beyond 64 bits
    checked = judge.check(np.array([HUGE, HUGE - 1, error], dtype=float))
    assert (checked is not None) == (error == 0)


@pytest.mark.parametrize("error", [-1, 0, 1])
def test_sums_beyond_53_bits_but_within_64(error):
    judge = checker(f"var int: x; var int: y; constraint int_lin_eq([256,1],[x,y],{2**60});")
    checked = judge.check(np.array([2**52 - 2, 512 + error], dtype=float))
    assert (checked is not None) == (error == 0)


def test_one_sided_rows_and_rows_without_entries():
    judge = checker("var -9..9: x; constraint int_le(x,4); constraint int_le(2,3); constraint int_lt(-5,x);")
    assert [judge.check(np.array([float(x)])) is not None for x in (-5, -4, 4, 5)] == [False, True, True, False]
    assert checker("var 0..1: x; constraint int_le(3,2);").check(np.zeros(1)) is None


def test_an_integer_beyond_exact_floating_point_is_reported():
    judge = checker("var int: x; var int: y; constraint int_le(x,y);")
    assert judge.check(np.array([0.0, 2.0**53 + 2])) is None
    assert judge.overflown


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 0.5, 2.5], [1, 0.5, 2.5]),
        ([0.9999999, 0.5000001, 2.5], [1, 0.5000001, 2.5]),
        ([1.0, -1e-9, 1.0], [1, 0, 1.0]),
        ([1.0, 0.5, 2.51], None),
        ([0.6, 0.5, 2.5], [1, 0.5, 2.5]),
        ([1.0, np.nan, 2.5], None),
        ([1.0, 0.5, np.inf], None),
    ],
)
def test_floats_may_be_off_by_little(values, expected):
    judge = checker("var 0..1: i; var 0.0..9.0: f; var float: g; constraint float_lin_eq([1.0,3.0,-1.0],[j,f,g],0.0);"
                    "var float: j; constraint int2float(i,j);")  # fmt: skip
    checked = judge.check(np.array(values))
    assert (None if checked is None else checked.tolist()) == expected


def test_rows_of_integers_with_fractions_are_checked_as_well():
    judge = checker("var 0..9: i; var float: f; constraint int2float(i,f); constraint float_lin_le([0.1],[f],0.3);")
    assert judge.check(np.array([3.0])) is not None
    assert judge.check(np.array([4.0])) is None
