"""Sizes are those of real storages; outputs that are made in one go are computed in one go; what a run has to hold."""

from __future__ import annotations

import pytest
import torch
from real_run import real_bytes
from test_torch_memory import conv_net, drawn, imported, module
from torch import nn
from torch.nn import functional
from torch_registry import registered

from moccasin_mzn.graphs.importers.torch.graph import import_torch
from moccasin_mzn.graphs.importers.torch.trace import trace_network

LOSSES = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "kl_div",
    "binary_cross_entropy_with_logits", "poisson_nll_loss", "multilabel_soft_margin_loss",
)  # fmt: skip


def loss_net(name, reduction):
    def forward(net, x):
        return getattr(functional, name)(net.l(x).sigmoid(), x.sigmoid(), reduction=reduction)

    return module(forward)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_a_loss_is_as_large_as_its_storage(reduction):
    for name in LOSSES:
        factory = loss_net(name, reduction)
        graph = imported(factory, "32x8", training=True)
        held = graph.total_size + graph.fixed_memory.get("constants", 0)
        assert held == real_bytes(factory(), torch.rand(32, 8), training=True), name


@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_the_storage_of_a_loss_has_room_for_what_its_arguments_span():
    factory = module(lambda net, x: functional.mse_loss(net.l(x)[:, :1], x))
    graph = imported(factory, "32x8")
    assert dict(zip(graph.nodes, graph.sizes, strict=True))["mse_loss"] == 32 * 8 * 4
    assert graph.total_size == real_bytes(factory(), torch.rand(32, 8))


BAGS = [("sum", None, False), ("sum", 0, False), ("mean", None, False), ("max", None, False), ("mean", None, True)]


@pytest.mark.parametrize(("mode", "padding", "last"), BAGS)
@pytest.mark.parametrize("training", [False, True])
def test_bags_of_embeddings(mode, padding, last, training):
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(10, 8, mode=mode, padding_idx=padding, include_last_offset=last)

        def forward(self, words, offsets):
            return self.bag(words, offsets)

    graph = import_torch(registered(Bags), ["24:int64", "4:int64"], training=training)
    offsets = torch.tensor([0, 3, 9, 24 if last else 12])
    assert graph.sizes[0] == real_bytes(Bags(), torch.ones(24, dtype=torch.int64), offsets)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows(name):
    def forward(net, x):
        window = getattr(torch, f"{name}_window")
        return net.l(x) * window(8) + window(8, periodic=False) + window(1)

    factory = module(forward)
    graph = imported(factory, "4x8")
    held = graph.total_size + graph.fixed_memory["constants"]
    assert held == real_bytes(factory(), torch.rand(4, 8))


@pytest.mark.parametrize("stride", [1, 4])
def test_patches_of_pictures(stride):
    def forward(net, x):
        return functional.fold(functional.unfold(net.l(x), 2, stride=stride), 8, 2, stride=stride)

    factory = module(forward)
    assert imported(factory, "2x3x8x8", training=True).total_size == real_bytes(
        factory(), torch.rand(2, 3, 8, 8), training=True
    )


# --- groups of outputs -----------------------------------------------------------------------------------------


def test_gradients_of_parameters_alone_are_one_node():
    graph = imported(conv_net, "2x4x16x16", training=True)
    backward = [node for node in graph.nodes if node.startswith("convolution_backward")]
    assert len(backward) == 2 * 2 + 1  # the first layer's has no gradient of the input
    assert dict(zip(graph.nodes, graph.sizes, strict=True))[backward[-1]] == (4 * 4 + 4) * 4
    assert all(graph.durations[graph.nodes.index(node)] > 0 for node in backward)


@pytest.mark.parametrize("norm", [lambda: nn.LayerNorm(8), lambda: nn.GroupNorm(2, 4), lambda: nn.BatchNorm1d(4)])
def test_norms_whose_input_needs_no_gradient(norm):
    factory = module(lambda net, x: net.n(x), n=norm)
    graph = imported(factory, "2x4x8", training=True)
    assert sum("_backward" in node for node in graph.nodes) == 1


def test_every_tensor_that_an_operator_makes_is_in_a_group():
    factory = module(lambda net, x: net.n(net.l(x)).relu(), n=lambda: nn.BatchNorm1d(4))
    evaluated = trace_network(registered(factory), ["2x4x8"])
    for trace in (evaluated, trace_network(registered(conv_net), ["2x4x16x16"], training=True)):
        nodes = {node.name: node for node in trace.graph_module.graph.nodes}
        made = {}
        for members in trace.members.values():
            for member in members:
                made.setdefault(member.node, []).extend(member.outputs)
        for name, outputs in made.items():
            values = nodes[name].meta["val"]
            if isinstance(values, tuple):
                assert sorted(outputs) == [at for at, value in enumerate(values) if value is not None], name
    assert [member.outputs for member in evaluated.members["native_batch_norm"]] == [(0, 1, 2)]  # two of size 0


def test_imported_statistics_are_computed_once_and_gradients_any_number_of_times():
    graph = imported(conv_net, "2x4x16x16", training=True)
    once = [f"native_batch_norm{number}_output_1_2" for number in ("", "_1", "_2")]
    assert [graph.nodes[v] for v in graph.computed_once] == once
    plain = imported(module(lambda net, x: net.l(x)), training=True)
    assert plain.computed_once == ()


def test_what_overwrites_statistics_is_computed_once_too():
    def forward(net, x):
        variance, mean = torch.native_batch_norm(net.l(x), None, None, None, None, True, 0.1, 1e-5)[:2]
        mean.add_(1)
        return variance * mean

    graph = imported(module(forward), "64x8")
    assert [graph.nodes[v] for v in graph.computed_once] == ["native_batch_norm_output_1_2"]
    assert "add_" in graph.labels[graph.nodes.index("native_batch_norm_output_1_2")]


# --- what is there besides -------------------------------------------------------------------------------------


def test_a_constant_that_is_overwritten_is_there_beside_its_copy():
    def forward(net, x):
        state = torch.ones(4, 8) @ net.l.weight  # as a recurrent layer's first
        return state.add_(net.l(x)).tanh()

    graph = imported(module(forward))
    assert drawn(graph) == {"addmm": (), "add_": ("addmm",), "tanh": ("add_",)}
    assert graph.fixed_memory["constants"] == 4 * 8 * 4


def test_gru():
    class Gru(nn.GRU):
        def forward(self, x):
            return super().forward(x)[0]

    graph = imported(lambda: Gru(8, 16), "3x4x8")
    state = 4 * 16 * 4
    assert graph.fixed_memory["constants"] == state + 3 * state  # zeros, and their product with the weights


def test_a_constant_result_is_retained():
    factory = module(lambda net, x: (net.l(x), torch.ones(4, 8).tril()))
    assert imported(factory).fixed_memory["constants"] == 4 * 8 * 4
    assert "constants" not in imported(module(lambda net, x: (net.l(x), net.l.weight))).fixed_memory
