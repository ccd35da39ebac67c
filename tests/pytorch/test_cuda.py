"""Plans on a GPU: the same code, its random numbers and its allocator."""

from __future__ import annotations

import os

import pytest
import torch
from step_networks import NETWORKS
from step_runs import made, planned
from torch import nn

from moccasin_mzn.pytorch.devices import device_of, generator_of, given_out

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize(
    ("name", "budget"), [*((name, 0.9) for name in NETWORKS), ("resnet", "least"), ("gpt", "least")]
)
def test_a_step_is_that_without_a_plan(name, budget):
    model, inputs = made(NETWORKS[name])
    model, inputs = model.cuda(), [each.cuda() if isinstance(each, torch.Tensor) else each for each in inputs]
    cells = name == "lstm"  # as recurrent layers are traced
    with torch.backends.cudnn.flags(enabled=not cells, benchmark=False, deterministic=True):
        found = planned(model, inputs, budget, time_limit=6.0)
        told = found.verify(inputs)
    assert (told.equal, told.unequal) == (True, ())
    assert told.storage_peak <= told.predicted_storage_peak  # which is of blocks
    assert found.predicted_peak <= found.budget
    assert told.peak <= told.predicted_peak + 2**20  # large blocks are not always split


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_what_cudnn_keeps_of_a_batch_norm_is_counted(kind, layout):
    """Statistics are updated once, however often the layer is computed."""
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())]
    model = nn.Sequential(*layers).cuda().to(memory_format=layout)
    inputs = [torch.randn(16, 8, 32, 32, device="cuda").to(memory_format=layout)]
    with (
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
        torch.autocast("cuda", kind, enabled=kind is not torch.float32),
    ):
        found = planned(model, inputs, "least", time_limit=6.0)
        told = found.verify(inputs)
    assert found.recomputations > 0
    assert (told.equal, told.unequal) == (True, ())
    assert told.storage_peak <= told.predicted_storage_peak


@pytest.mark.cuda
@needs_cuda
def test_operators_are_measured_where_they_run():
    model, inputs = made(NETWORKS["resnet"])
    graph = planned(model.cuda(), [each.cuda() for each in inputs], 1.0).graph
    assert graph.duration_unit == "ns" and sum(graph.durations) > 0
    assert all(size % 512 == 0 for size in graph.sizes)


@pytest.fixture(autouse=True)
def the_same_at_each_run():
    """Otherwise kernels add up in any order, and eager is not equal to eager."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


def test_cuda_blocks_are_rounded_as_the_allocator_does():
    assert [given_out(size, "cuda:0") for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    assert given_out(513, "cpu") == 513


def test_devices_and_generators_of_operators():
    graph = planned(*made(NETWORKS["mlp"]), 1.0).traced.joint.graph_module.graph
    assert {device_of(node) for node in graph.nodes} == {"cpu"}
    assert generator_of("cpu") is torch.default_generator
