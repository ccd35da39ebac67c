"""Schedules with recomputations, executed with real tensors, give the results of the plain run."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from executor import Executor, Plain, tensors_for
from torch import nn
from torch_registry import registered

from moccasin_mzn.importers.torch_module import graph_of
from moccasin_mzn.importers.torch_trace import trace_network
from moccasin_mzn.solve import solve


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
        result = solve(graph, budget, time_limit=5, threads=1, seed=1)
        assert result.valid
        assert len(result.sequence) > len(graph.nodes)
        found = Executor(trace, graph, tensors).run(result.sequence)
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)


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
