"""Measured durations."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_registry import registered

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.torch.graph import graph_of, measure, profile_torch
from moccasin_mzn.graphs.importers.torch.trace import trace_network


@pytest.mark.parametrize("training", [False, True])
def test_every_node_that_is_executed_has_a_duration(training):
    trace = trace_network("networks:transformer", ["2x16:int64"], training=training)
    times = measure(trace, warm_ups=0, repeats=1)
    graph = graph_of(trace)
    assert set(graph.nodes) - set(times) == ({"results"} if training else set())
    assert all(type(nanoseconds) is int and nanoseconds >= 1 for nanoseconds in times.values())


def test_a_large_product_takes_longer_than_a_small_one():
    spec = registered(lambda: nn.Sequential(nn.Linear(4, 2048), nn.Linear(2048, 2048), nn.Linear(2048, 4)))
    times = profile_torch(spec, ["256x4"])
    assert list(times) == ["addmm", "addmm_1", "addmm_2"]
    assert times["addmm_1"] > times["addmm"]
    assert times["addmm_1"] > times["addmm_2"]


def test_parts_of_an_operator_share_its_time():
    spec = registered(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3)))
    trace = trace_network(spec, ["8x3x64x64"], training=True)
    times = measure(trace, warm_ups=1, repeats=3)
    assert times["native_batch_norm"] > times["native_batch_norm_output_1_2"]
    input_part, other = times["convolution_backward"], times["convolution_backward_output_1_2"]
    assert 0.9 < input_part / other < 1.1  # as many FLOPs


def test_torch_profile_keeps_the_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    profile_torch("networks:transformer", ["1x4:int64"], warm_ups=0, repeats=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("options", "complaint"), [({"repeats": 0}, "repeats: 0"), ({"warm_ups": -1}, "warm-ups: -1")])
def test_torch_profile_rejects_wrong_counts(options, complaint):
    with pytest.raises(InputError, match=complaint):
        profile_torch("networks:transformer", ["1x4:int64"], **options)
