"""Random networks: the sizes of the graph against those of a real run, and its edges by computing all again."""

from __future__ import annotations

import torch
from executor import Executor, Plain, tensors_for
from hypothesis import given, settings
from hypothesis import strategies as st
from real_run import real_bytes
from torch import nn
from torch_registry import registered

from moccasin_mzn.graphs.importers.torch.graph import graph_of, import_torch
from moccasin_mzn.graphs.importers.torch.trace import trace_network


class Residual(nn.Module):
    """Adds what its layers make of the input to the input."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


SAME_SHAPE = {
    "conv": lambda: nn.Conv2d(4, 4, 3, padding=1),
    "pointwise": lambda: nn.Conv2d(4, 4, 1, bias=False),
    "grouped": lambda: nn.Conv2d(4, 4, 3, padding=1, groups=2),
    "batch norm": lambda: nn.BatchNorm2d(4),
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm(8),
    "relu": nn.ReLU,
    "relu in place": lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(inplace=True)),
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "softmax": lambda: nn.Softmax(dim=-1),
    "dropout": lambda: nn.Dropout(0.2),
    "linear": lambda: nn.Linear(8, 8),
    "pool": lambda: nn.MaxPool2d(3, 1, 1),
    "average": lambda: nn.AvgPool2d(3, 1, 1),
}
names = st.sampled_from(sorted(SAME_SHAPE))
networks = st.lists(st.one_of(names, st.lists(names, min_size=1, max_size=3)), max_size=6)


def factory(layers):
    def build():
        made = [
            SAME_SHAPE[layer]() if isinstance(layer, str) else Residual([SAME_SHAPE[name]() for name in layer])
            for layer in layers
        ]
        return nn.Sequential(nn.Conv2d(4, 4, 1), *made, nn.Flatten(), nn.Linear(256, 3))

    return build


@settings(max_examples=25)
@given(networks, st.booleans())
def test_torch_sizes_of_random_networks_are_those_of_a_real_run(layers, training):
    graph = import_torch(registered(factory(layers)), ["2x4x8x8"], training=training)
    assert graph.total_size == real_bytes(factory(layers)(), torch.randn(2, 4, 8, 8), training=training)


@settings(max_examples=8)
@given(networks, st.booleans())
def test_torch_recomputation_gives_the_same_results(layers, training):
    trace = trace_network(registered(factory(layers)), ["2x4x8x8"], training=training)
    graph = graph_of(trace)
    tensors = tensors_for(trace)
    sequence = []
    for position in graph.input_order():
        again, waiting = set(), [position]
        while waiting:
            node = waiting.pop()
            if node not in again:
                again.add(node)
                waiting.extend(graph.predecessors[node])
        sequence.extend(sorted(again))
    with torch.no_grad():
        expected = Plain(trace.graph_module).run(*[tensor.clone() for tensor in tensors])
        found = Executor(trace, graph, tensors).run(sequence)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)
