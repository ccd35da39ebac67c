"""Sums at the ends, between two integers and next to that: each kind of layer rounds as LiteRT's kernels do."""

from __future__ import annotations

import math
from itertools import product

import c_programs
import int8_networks
import numpy as np
import pytest
from few import few

from moccasin_mzn.deploy.c.fixed_point import Double, Factor
from moccasin_mzn.deploy.c.reference import run

needs_cc = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
SCALES = (
    (2.0**-4, 2.0**-5, 2.0**-8), (0.1, 0.05, 0.01), (0.1, 0.1, 0.1), (0.5, 2.0**-9, 49 * 2.0**-8), (1 / 3, 0.7, 0.9),
    (3 * 2.0**-6, 5 * 2.0**-7, 15 * 2.0**-3), (0.0123, 0.00456, 0.0789), (1e-6, 3e-5, 0.02), (200.0, 30.0, 0.5),
    (1.0, 1.0, 2.0**-29), (2.0**-16, 2.0**-16, 1.0),
)  # fmt: skip
"""Those of input, weights and output: powers of two, round, equal, fractions, any, far below and above 1."""


def sums(factor: float, zero: int) -> np.ndarray:
    """The integers next to all ties of outputs, some others, and the largest and smallest ones."""
    halves = (np.arange(-140, 141) + 0.5) / factor
    near = np.round(halves)[:, None] + np.arange(-1, 2)
    random = np.random.default_rng(zero + 128).integers(-200 / factor - 9, 200 / factor + 9, 200)
    ends = [-(2**31), 1 - 2**31, -1, 0, 1, 2**31 - 1]
    return np.unique(np.clip([*near.ravel(), *random, *ends], -(2**31), 2**31 - 1).astype(np.int64))


def layer(kind: str, scales: tuple[float, float, float], zero: int, by_channel: bool) -> tuple[bytes, np.ndarray]:
    """A layer whose sums are its bias, as its inputs count for nothing; and these sums."""
    of, weights, out = (float(np.float32(each)) for each in scales)
    given = sums(of * weights / out, zero)
    count, dense = len(given), kind == "FULLY_CONNECTED"
    net = int8_networks.Builder(0, *((1, 1) if dense else (1, 1, 1, 1)), scale=of)
    shape = {"FULLY_CONNECTED": (count, 1), "CONV_2D": (count, 1, 1, 1), "DEPTHWISE_CONV_2D": (1, 1, 1, count)}[kind]
    each, axis = [weights] * (count if by_channel else 1), 3 if kind == "DEPTHWISE_CONV_2D" else 0
    w = net.tensor(shape, each, values=np.zeros(shape, np.int8), axis=axis)
    products = [float(np.float32(of) * np.float32(weights))] * len(each)
    b = net.tensor((count,), products, kind="INT32", values=given.astype(np.int32))
    y = net.tensor((1, count) if dense else (1, 1, 1, count), out, zero)
    about = {} if dense else {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    if kind == "DEPTHWISE_CONV_2D":
        about["depthMultiplier"] = count
    options = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}[kind]
    return net.packed(net.operator(kind, (net.input, w, b), y, f"{options}Options", **about)), given


CASES = [*product(("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"), SCALES, (0, -128, 127), (False, True))]


@needs_cc
@pytest.mark.parametrize(("kind", "scales", "zero", "by_channel"), few(CASES, keep=6))
def test_sums_are_rounded_as_the_reference_kernels_do(kind, scales, zero, by_channel, tmp_path):
    data, _ = layer(kind, scales, zero, by_channel)
    net = c_programs.network(data, tmp_path)
    assert c_programs.run(c_programs.in_order(net), tmp_path).startswith("1 of 1 outputs are equal")


@pytest.mark.parametrize("scales", SCALES)
def test_matrix_products_round_a_double_with_halves_away_from_zero(scales, tmp_path):
    data, given = layer("FULLY_CONNECTED", scales, 0, by_channel=False)
    ((found,),) = run(c_programs.network(data, tmp_path).model, [[np.zeros((1, 1), np.int8)]])
    of, weights, out = (float(np.float32(each)) for each in scales)
    exact = [float(each) * (of * weights / out) for each in given]
    fits = np.array([abs(each) < 2**31 - 1 for each in exact])
    away = [math.trunc(each) + (abs(each - math.trunc(each)) >= 0.5) * math.copysign(1, each) for each in exact]
    assert np.array_equal(np.clip(away, -128, 127)[fits], found.ravel()[fits])


def test_a_factor_of_31_bits_is_not_that_of_a_double():
    """Both are of the same number, and round this sum to different integers."""
    value = float(np.float32(0.1)) * float(np.float32(0.05)) / float(np.float32(0.01))
    double, factor = Double.of(value), Factor.of(value)
    assert double.multiplier / 2**double.down == value
    assert factor.multiplier * 2.0 ** (factor.shift - 31) != value
