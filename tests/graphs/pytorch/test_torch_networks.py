"""ResNet18 and a transformer, forward and with the backward pass: sizes against real runs, and solving."""

from __future__ import annotations

from fractions import Fraction

import networks
import pytest
import torch
from real_run import real_bytes, traced_bytes
from solving import solve
from torch.utils.flop_counter import FlopCounterMode

from moccasin_mzn.graphs.importers.torch.graph import graph_of
from moccasin_mzn.graphs.importers.torch.trace import trace_network
from moccasin_mzn.problem.judges.schedules import simulate

CASES = [(name, training) for name in ("resnet18", "transformer") for training in (False, True)]
SHAPES = {"resnet18": "4x3x128x128", "transformer": "4x64:int64"}


def real_inputs(name):
    return torch.randn(4, 3, 128, 128) if name == "resnet18" else torch.randint(0, 512, (4, 64))


@pytest.fixture(scope="module")
def traces():
    return {
        (name, training): trace_network(f"networks:{name}", [SHAPES[name]], training=training)
        for name, training in CASES
    }


@pytest.mark.parametrize(("name", "training"), CASES)
def test_torch_sizes_are_those_of_a_real_run(traces, name, training):
    total = graph_of(traces[name, training]).total_size
    assert total == real_bytes(getattr(networks, name)(), real_inputs(name), training=training)
    assert total == traced_bytes(traces[name, training])


@pytest.mark.parametrize("training", [False, True])
def test_torch_flops_are_those_of_a_real_run(traces, training):
    network = networks.resnet18().train(training)
    with FlopCounterMode(display=False) as counter:
        output = network(real_inputs("resnet18"))
        if training:
            output.sum().backward()
    graph = graph_of(traces["resnet18", training])
    counted = sum(
        duration
        for duration, label in zip(graph.durations, graph.labels, strict=True)
        if any(kind in label for kind in ("convolution", "aten.mm", "aten.addmm"))
    )
    assert counted == counter.get_total_flops()


def test_attention_is_counted_as_two_matrix_products(traces):
    graph = graph_of(traces["transformer", True])
    duration = dict(zip(graph.nodes, graph.durations, strict=True))
    product = 2 * 4 * 4 * 64 * 64 * 32  # batch, heads, length, length, width of a head; 2 for a multiply-add
    assert duration["_scaled_dot_product_flash_attention_for_cpu"] == 2 * product
    assert duration["_scaled_dot_product_flash_attention_for_cpu_backward"] == 5 * product


@pytest.mark.parametrize("name", SHAPES)
def test_training_graph(traces, name):
    graph = graph_of(traces[name, True])
    first = graph.backward.index(True)
    assert graph.labels[first] == "aten.sum"
    assert not any(graph.backward[:first])
    assert all(graph.backward[first:])
    last = len(graph.nodes) - 1
    parameters = list(getattr(networks, name)().parameters())
    kept = {graph.nodes[position] for position in graph.predecessors[last]}
    assert len(kept) <= len(parameters) + 1
    assert graph.fixed_memory["parameters"] == 4 * sum(parameter.numel() for parameter in parameters)
    assert not graph.successors[last]
    assert sum(graph.sizes[position] for position in graph.predecessors[last]) == graph.fixed_memory["parameters"] + 4


@pytest.mark.parametrize("name", SHAPES)
def test_solving_training_at_nine_tenths(traces, name):
    graph = graph_of(traces[name, True])
    peak = simulate(graph, graph.input_order()).peak
    assert graph.largest_working_set().memory < Fraction(9, 10) * peak
    result = solve(graph, 0.9, time_limit=10, threads=1, seed=1)
    assert result.valid
    assert result.tdi_percent < 5
    judged = simulate(graph, result.sequence)
    assert judged.feasible and judged.peak <= Fraction(9, 10) * peak + 1


@pytest.mark.parametrize("name", SHAPES)
def test_inference_has_nothing_to_gain(traces, name):
    """It is nearly a chain: one node, or a node and the shortcut around it, already needs the peak."""
    graph = graph_of(traces[name, False])
    assert graph.largest_working_set().memory > Fraction(8, 10) * simulate(graph, graph.input_order()).peak
    assert solve(graph, 0.9, time_limit=10, threads=1, seed=1).status == "infeasible"
    assert solve(graph, 1.0, time_limit=10, threads=1, seed=1).tdi_percent == 0


def test_labels_name_module_and_operator(traces):
    graph = graph_of(traces["resnet18", False])
    assert graph.labels[:2] == ("conv1 aten.convolution", "bn1 aten.native_batch_norm + aten.relu_")
    assert "layer1.0.bn2 aten.native_batch_norm + aten.add_.Tensor + aten.relu_" in graph.labels
    assert graph.labels[-1] == "fc aten.addmm"
    assert graph.name == "resnet18 inference, input 4x3x128x128"
    training = graph_of(traces["resnet18", True])
    label = dict(zip(training.nodes, training.labels, strict=True))
    assert label["convolution"] == "conv1 aten.convolution"
    assert label["sum_1"] == "aten.sum"
    assert label["convolution_backward"] == "layer4.1.conv2 aten.convolution_backward"
    assert label["native_batch_norm_backward_19"] == "bn1 aten.native_batch_norm_backward"
    assert label["convolution_backward_19"] == "conv1 aten.convolution_backward"
