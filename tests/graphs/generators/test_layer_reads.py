"""What layers are said to read is what they need: each is computed in numpy with all else changed."""

from __future__ import annotations

import numpy as np
import pytest
from access_judge import assert_needed, assert_sufficient, random_box
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.catalogue import NETWORKS, generate_network
from moccasin_mzn.graphs.generators.network import INPUT, Network
from moccasin_mzn.graphs.tiling.cutting import tile

SIDES = st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 3))


def windows(x, put_out, size, stride):
    """Sums over windows of each channel; padding as TensorFlow's, half of it in front, rounded down."""
    sums = np.zeros((*put_out[:2], x.shape[2]))
    for row, column in np.ndindex(*put_out[:2]):
        at = []
        for place, extent, count in zip((row, column), x.shape, put_out, strict=False):
            before = max((count - 1) * stride + size - extent, 0) // 2
            first = place * stride - before
            at.append(slice(max(first, 0), max(first + size, 0)))
        sums[row, column] = x[tuple(at)].sum((0, 1))
    return sums


def spread(x, factor, size):
    sums = np.zeros(((x.shape[0] - 1) * factor + size, (x.shape[1] - 1) * factor + size, x.shape[2]))
    for row, column in np.ndindex(*x.shape[:2]):
        sums[row * factor : row * factor + size, column * factor : column * factor + size] += x[row, column]
    return sums


def between(x, factor):
    """Linear in between along both axes, pixels being squares."""
    for axis in (0, 1):
        at = np.clip((np.arange(x.shape[axis] * factor) + 0.5) / factor - 0.5, 0, x.shape[axis] - 1)
        below = at.astype(int)
        share = (at - below).reshape([-1 if each == axis else 1 for each in range(3)])
        above = np.minimum(below + 1, x.shape[axis] - 1)
        x = x.take(below, axis) * (1 - share) + x.take(above, axis) * share
    return x


def scores(q, k, heads):
    split = [each.reshape(len(each), heads, -1).transpose(1, 0, 2) for each in (q, k)]
    return split[0] @ split[1].transpose(0, 2, 1)


def context(w, v):
    return (w @ v.reshape(len(v), len(w), -1).transpose(1, 0, 2)).transpose(1, 0, 2).reshape(v.shape)


def mixed(x, channels):
    """Each channel of the output from all of the input."""
    return x.sum(-1, keepdims=True) * np.arange(1, channels + 1)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


WINDOWS = st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from(["same", "valid"]))


@st.composite
def images(draw):
    """A layer of images, shapes of its inputs, and how to compute it from its inputs and the shape of its output."""
    shape, (size, stride, padding) = draw(SIDES), draw(WINDOWS)
    factor, tokens, heads = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    slid = lambda x, out: windows(x, out, size, stride)  # noqa: E731
    sequence = (tokens, heads * draw(st.integers(1, 2)))
    return draw(
        st.sampled_from([
            (nn.Convolution(2, size, stride, padding), [shape], lambda x, out: mixed(slid(x, out), 2)),
            (nn.DepthwiseConvolution(size, stride, padding), [shape], slid),
            (nn.SeparableConvolution(4, size, stride, padding), [shape], lambda x, out: mixed(slid(x, out), 4)),
            (nn.Pooling(size, stride, padding), [shape], slid),
            (nn.ReluConvolution(3, size, stride), [shape], lambda x, out: mixed(slid(abs(x), out), 3)),
            (nn.ReluSeparableConvolution(3, size, stride), [shape] * 2,
             lambda x, y, out: mixed(slid(abs(x + y), out), 3)),
            (nn.TransposedConvolution(2, size, stride), [shape], lambda x, out: mixed(spread(x, stride, size), 2)),
            (nn.Upsampling(factor), [shape], lambda x, out: x.repeat(factor, 0).repeat(factor, 1)),
            (nn.Upsampling(factor, bilinear=True), [shape], lambda x, out: between(x, factor)),
            (nn.Unpooling(factor), [shape] * 2, lambda x, y, out: (x * y).repeat(factor, 0).repeat(factor, 1)),
            (nn.GlobalPooling(), [shape], lambda x, out: x.mean((0, 1))),
            (nn.ZeroPadding(size, 1, 0, stride), [shape], lambda x, out: np.pad(x, [(size, 1), (0, stride), (0, 0)])),
            (nn.Crop(shape[0] - 2, shape[1] - 1), [shape], lambda x, out: x[1:-1, 1:]),
            (nn.Concatenate(), [shape, (*shape[:2], 2)], lambda x, y, out: np.concatenate([x, y], 2)),
            (nn.Flatten(), [shape], lambda x, out: x.ravel()),
            (nn.Reshape((shape[0] * shape[1], shape[2])), [shape], lambda x, out: x.reshape(out)),
            (nn.Add(), [shape] * 3, lambda x, y, z, out: x + y + z),
            (nn.BatchNorm(), [shape], lambda x, out: 2 * x),
            (nn.LayerNorm(), [shape], lambda x, out: x / np.abs(x).sum(-1, keepdims=True)),
            (nn.Activation(), [shape], lambda x, out: np.tanh(x)),
            (nn.Activation(softmax=True), [shape], lambda x, out: softmax(x)),
            (nn.Dense(3), [(7,)], lambda x, out: mixed(x, 3)),
            (nn.Linear(3), [sequence], lambda x, out: mixed(x, 3)),
            (nn.AttentionScores(heads), [sequence] * 2, lambda q, k, out: scores(q, k, heads)),
            (nn.AttentionContext(), [(heads, tokens, tokens), sequence], lambda w, v, out: context(w, v)),
        ])
    )  # fmt: skip


NEEDED = (nn.Convolution, nn.DepthwiseConvolution, nn.Pooling, nn.TransposedConvolution, nn.Linear, nn.Concatenate)
"""Layers that need all that they are said to read."""


@settings(max_examples=examples(400))
@given(layer=images(), batch=st.integers(1, 2), seed=st.integers(0, 2**32 - 1))
def test_layers_read_what_they_need(layer, batch, seed):
    layer, shapes, compute = layer
    random, net = np.random.default_rng(seed), Network("one", shapes[0])
    inputs = [net.add(f"x{at}", _Given(shape), INPUT) for at, shape in enumerate(shapes)]
    net.add("layer", layer, *inputs)
    operator = net.forward_graph(batch).operators[-1]
    assert operator.name == type(layer).__name__
    out = operator.shape[1:]

    def run(given):
        return np.stack([compute(*each, out) for each in zip(*given, strict=True)]).astype(float)

    numbers, other = ([random.uniform(1, 2, (batch, *shape)) for shape in shapes] for _ in "ab")
    box = random_box(operator.shape, random)
    assert_sufficient(operator, run, numbers, other, box)
    if isinstance(layer, NEEDED):
        assert_needed(operator, run, numbers, other, box)


class _Given(nn.Layer):
    """Anything of a shape."""

    def __init__(self, shape):
        object.__setattr__(self, "shape", shape)

    def output(self, *inputs):
        return nn.Output(self.shape, reads=((None,) * len(inputs[0]),))


@pytest.mark.parametrize("name", [*NETWORKS])
def test_networks_have_operators(name):
    graph = generate_network(name, batch=2)
    assert None not in graph.operators
    for operator in graph.operators:
        assert operator.shape[0] == 2
        for read in operator.reads:
            assert read.axes[0].is_identity  # samples do not mix
            assert read.source is None or read.shape == graph.operators[read.source].shape
    assert generate_network(name, batch=2, training=True).operators is None


def test_a_generated_network_in_parts():
    graph = generate_network("unet", batch=1, input=(64, 64, 3))
    tiled = tile(graph, rows=4)
    assert len(tiled.nodes) > 100 and sum(tiled.durations) == sum(graph.durations)
    assert tiled.largest_working_set().memory < graph.largest_working_set().memory / 4
