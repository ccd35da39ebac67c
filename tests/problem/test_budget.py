"""Budgets as people give them."""

import re
from fractions import Fraction

import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.budget import Budget

PEAK = 46_319


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0.9", 41_688),  # 41,687.1 rounded up
        ("90%", 41_688),
        ("90 %", 41_688),
        ("1.0", PEAK),
        ("100%", PEAK),
        ("12.5%", 5_790),
        ("4096", 4_096),
        ("1", 1),
        ("4096B", 4_096),
        ("2KiB", 2_048),
        ("1.5 MiB", 1_572_864),
        ("1.5GiB", 1_610_612_736),
        ("1 tib", 2**40),
        ("8k", 8_000),
        ("8kB", 8_000),
        ("100M", 100_000_000),
        ("500MB", 500_000_000),
        ("1.5GB", 1_500_000_000),
        ("1.5 GB", 1_500_000_000),
        ("2G", 2_000_000_000),
        ("3 tb", 3 * 10**12),
        ("0.5T", 5 * 10**11),
    ],
)
def test_budget_text_with_units(text, amount):
    assert Budget.parse(text).resolve(PEAK) == amount


def test_refusals_name_the_forms():
    for text in ("much", "5 PB"):
        with pytest.raises(InputError, match=r"0\.8 or 80%.*4096, 512 MiB, 1\.5 GiB; in powers of 1000 1\.5 GB, 2G"):
            Budget.parse(text)


def test_a_float_means_the_decimal_fraction_it_is_written_as():
    assert Budget.of(0.9).fraction == Fraction(9, 10)
    assert Budget.of(0.1).resolve(30) == 3  # the nearest double of 0.1 is above it, and ceil would give 4


def test_an_int_is_an_amount():
    assert Budget.of(7).resolve(PEAK) == 7


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("much", "budget 'much': expected a fraction"),
        ("", "budget '': expected a fraction"),
        ("-5", "budget '-5': expected a fraction"),
        ("1e3", "unknown unit|expected a fraction"),
        ("5 PB", "unknown unit PB"),
        ("0", "budget 0 is not positive"),
        ("0.0", "budget 0 is not a fraction"),
        ("80.0", "budget 80 is not a fraction"),
        ("101%", "budget 1.01 is not a fraction"),
        (True, "budget True: expected"),
        (float("nan"), "budget nan: expected"),
        (None, "budget None: expected"),
        (-3, "budget -3 is not positive"),
    ],
)
def test_budget_rejects_what_is_no_amount(value, message):
    with pytest.raises(InputError, match=message):
        Budget.of(value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [("7.999999999", "7.999999999"), ("1.000000000000001", "1.000000000000001"), ("80.0", "80"), ("0.0", "0"),
     ("101%", "1.01"), ("1.00000000000000000001", "100000000000000000001/100000000000000000000"),
     (Fraction(4, 3), "4/3"), (1.1, "1.1"), ("1000000.5", "1000000.5")],
)  # fmt: skip
def test_what_is_no_fraction_is_named_as_it_was_given(given, shown):
    with pytest.raises(InputError, match=f"^budget {re.escape(shown)} is not a fraction of the peak, "):
        Budget.of(given)
