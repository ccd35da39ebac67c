"""Real numbers as integers, as kernels of C have them: near what they stand for, and as the runtime rounds them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.deploy.c.fixed_point import Factor, exponentials, limits


@given(st.floats(2.0**-30, 2.0**20))
def test_factors_are_the_nearest(value):
    factor = Factor.of(value)
    assert 2**30 <= factor.multiplier < 2**31
    assert abs(factor.multiplier * 2.0 ** (factor.shift - 31) - value) <= value * 2.0**-31


def test_what_rounds_up_to_one_is_one_of_the_next_power():
    assert Factor.of(1.0 - 2.0**-40) == Factor(2**30, 1)
    assert Factor.of(0.0) == Factor.of(2.0**-40) == Factor(0, 0)


@given(st.floats(2.0**-10, 4.0), st.integers(1, 10_000))
def test_a_mean_is_rounded_down(value, count):
    factor = Factor.of(value).over(count)
    found = factor.multiplier * 2.0 ** (factor.shift - 31)
    assert -(2.0**-30) <= (value / count - found) / (value / count) <= 2.0**-28


@given(st.floats(0.001, 2.0))
def test_exponentials_are_near(scale):
    found = [*exponentials(1.0, scale)]
    assert found[0] == 2**31 - 1 and len(found) <= 256
    for distance, value in enumerate(found):
        assert value / 2**31 == pytest.approx(math.exp(-distance * scale), abs=2e-7 * (1 + distance))


def test_limits_of_activations():
    assert limits("NONE", 0.1, 3) == (-128, 127)
    assert limits("RELU", 0.1, 3) == (3, 127)
    assert limits("RELU6", 0.1, 3) == (3, 63)
    assert limits("RELU_N1_TO_1", 0.1, 3) == (-7, 13)
    assert limits("RELU6", 0.01, -128) == (-128, 127)
    with pytest.raises(KeyError):
        limits("TANH", 0.1, 0)
