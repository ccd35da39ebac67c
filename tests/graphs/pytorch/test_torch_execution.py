"""Schedules with recomputations, executed with real tensors, give the results of the plain run."""

from __future__ import annotations

import random

import pytest
import torch
from executor import Executor, Plain, tensors_for
from solving import solve
from test_torch_memory import best_three, computed_statistics, module, one_computed_statistic, random_relu
from torch import nn
from torch_registry import registered

from moccasin_mzn.graphs.importers.torch.graph import graph_of
from moccasin_mzn.graphs.importers.torch.trace import trace_network


def plain_network():
    """Without anything that overwrites: batch norm with a separate relu, a shortcut, and pooling."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(6))
            self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(6))
            self.linear = nn.Linear(64, 3)

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms, strict=True):
                x = x + norm(conv(x)).relu()
            return self.linear(nn.functional.max_pool2d(x, 4).flatten(1))

    return Network()


@pytest.mark.parametrize(
    ("spec", "shape", "budget"),
    [
        ("networks:resnet18", "4x3x128x128", 0.8),
        ("networks:transformer", "8x64:int64", 0.7),
        ("plain", "2x4x16x16", 0.7),
    ],
)
def test_a_schedule_gives_the_results_of_the_plain_run(spec, shape, budget):
    trace = trace_network(registered(plain_network) if spec == "plain" else spec, [shape], training=True)
    graph = graph_of(trace)
    tensors = tensors_for(trace)
    with torch.no_grad():
        expected = Plain(trace.graph_module).run(*[tensor.clone() for tensor in tensors])
        result = solve(graph, budget, time_limit=60, until_gap=0.5, threads=1, seed=1)
        assert result.valid
        assert len(result.sequence) > len(graph.nodes)
        found = Executor(trace, graph, tensors).run(result.sequence)
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["resnet18", "transformer"])
@pytest.mark.parametrize("training", [False, True])
def test_the_input_order_reads_only_what_edges_hold(name, training):
    trace = trace_network(f"networks:{name}", ["2x3x32x32" if name == "resnet18" else "2x16:int64"], training=training)
    graph = graph_of(trace)
    tensors = tensors_for(trace)
    with torch.no_grad():
        expected = Plain(trace.graph_module).run(*[tensor.clone() for tensor in tensors])
        found = Executor(trace, graph, tensors).run(graph.input_order())
    for value, wanted in zip(found, expected, strict=True):
        assert torch.equal(value, wanted)


def overwritten_after_reading(net, x):
    y = net.l(x)
    z = y.sigmoid()
    y.relu_()
    y[:, 0].add_(1)
    return (y * z).tanh() + y


def sorted_and_overwritten(net, x):
    y = net.l(x)
    values, places = y.sort()
    gathered = y.gather(1, places)
    values.relu_()
    places.add_(0)
    return gathered + values + y.gather(1, places)


WRITING = {
    "random relu": random_relu,
    "computed statistics": module(computed_statistics),
    "one computed statistic": module(one_computed_statistic, variance=lambda: torch.ones(8)),
    "best three": module(best_three),
    "sorted": module(sorted_and_overwritten),
    "overwritten after reading": module(overwritten_after_reading),
}


REFUSED = {"overwritten after reading", "sorted"}
"""By autograd: what the backward pass needs is overwritten."""


@pytest.mark.parametrize(
    ("name", "training"), [(name, training) for name in WRITING for training in sorted({False, name not in REFUSED})]
)
def test_whatever_is_recomputed_what_is_overwritten_is_not_spoilt(name, training):
    trace = trace_network(registered(WRITING[name]), ["4x8"], training=training)
    graph = graph_of(trace)
    tensors = tensors_for(trace)
    draw = random.Random(1)
    with torch.no_grad():
        expected = Plain(trace.graph_module).run(*[tensor.clone() for tensor in tensors])
        for _ in range(8):
            sequence = []
            for position in graph.input_order():
                sequence.extend(draw.choices(sequence, k=draw.randint(0, 2)) if sequence else [])
                sequence.extend(read for read in graph.predecessors[position] if draw.random() < 0.5)
                sequence.append(position)
            found = Executor(trace, graph, tensors).run(sequence)
            for value, wanted in zip(found, expected, strict=True):
                torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)
