"""What is a view, what overwrites memory, what has several outputs, what depends on no input."""

from __future__ import annotations

import pytest
import torch
from real_run import real_bytes
from torch import nn
from torch.nn import functional
from torch_registry import registered

from moccasin_mzn.graphs.importers.torch.graph import import_torch
from moccasin_mzn.graphs.importers.torch.trace import quiet
from moccasin_mzn.problem.judges.schedules import simulate


def module(forward, **parts):
    """A factory of a network with a linear layer `l`, 8 to 8, these further parts and this `forward(network, x)`."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(8, 8)
            for name, part in parts.items():
                made = part()
                if isinstance(made, nn.Module):
                    setattr(self, name, made)
                else:
                    self.register_buffer(name, made)

        def forward(self, x):
            return forward(self, x)

    return Network


def imported(factory, shape="4x8", **options):
    return import_torch(registered(factory), [shape], **options)


def drawn(graph):
    """Operator -> operators it reads, short; each has a name of its own in these tests."""
    return {
        graph.nodes[v]: tuple(graph.nodes[u] for u in inputs) for v, inputs in enumerate(graph.predecessors)
    }  # fmt: skip


def test_a_chain_of_views_is_its_source():
    def forward(net, x):
        y = net.l(x).view(2, 2, 8).transpose(0, 1).unsqueeze(0)[0, 1:].permute(2, 0, 1).expand(3, 8, 1, 2)
        return y.relu()

    graph = imported(module(forward))
    assert drawn(graph) == {"addmm": (), "relu": ("addmm",)}
    assert graph.sizes == (4 * 8 * 4, 3 * 8 * 2 * 4)


@pytest.mark.parametrize("cut", [lambda y: y.split(2, -1), lambda y: y.chunk(4, -1), lambda y: y.unbind(-1)])
def test_pieces_are_views(cut):
    factory = module(lambda net, x: sum(piece.relu() for piece in cut(net.l(x))))
    graph = imported(factory)
    assert all("addmm" in reads for node, reads in drawn(graph).items() if node.startswith("relu"))
    assert not any(kind in label for label in graph.labels for kind in ("split", "unbind", "getitem"))
    assert graph.total_size == real_bytes(factory(), torch.randn(4, 8))


def test_all_tensors_of_a_nested_output_are_results():
    graph = imported(module(lambda net, x: (net.l(x), {"a": [x * 2], "b": net.l(x).t(), "n": 3})))
    assert graph.labels[-1] == "results"
    assert drawn(graph)["results"] == ("addmm", "mul", "addmm_1")
    assert "results" not in imported(module(lambda net, x: (net.l(x), x * 2)), keep_results=False).labels


def test_an_operator_that_overwrites_is_one_with_the_one_before():
    graph = imported(module(lambda net, x: net.l(x).relu_().add_(x * 2)))
    assert drawn(graph) == {"mul": (), "addmm": ("mul",)}
    assert graph.labels[1] == "l aten.addmm + aten.relu_ + aten.add_.Tensor"
    assert graph.sizes == (128, 128)
    assert graph.durations == (32, 2 * 4 * 8 * 8 + 32 + 32)


def test_what_was_read_before_is_not_overwritten():
    def forward(net, x):
        y = net.l(x)
        z = y.sigmoid()
        y.relu_()
        return y + z

    graph = imported(module(forward))
    assert drawn(graph) == {"addmm": (), "sigmoid": ("addmm",), "relu_": ("addmm",), "add": ("relu_", "sigmoid")}
    assert graph.sizes == (128,) * 4


def test_an_old_view_of_overwritten_memory_reads_what_is_new():
    def forward(net, x):
        y = net.l(x)
        old = y.view(-1)
        z = y.sigmoid()
        y.relu_()
        return (old * 2).view(4, 8) + z

    graph = imported(module(forward))
    assert drawn(graph)["mul"] == ("relu_",)


def test_overwriting_several_tensors_at_once():
    def forward(net, x):
        a, b = net.l(x), x * 2
        torch._foreach_mul_([a, b], 3.0)
        c = a.relu()
        b.add_(1)
        return b + c

    graph = imported(module(forward))
    assert drawn(graph) == {
        "addmm": (), "mul": (), "_foreach_mul_": ("addmm", "mul"), "relu": ("_foreach_mul_",),
        "add_": ("_foreach_mul_",), "add": ("add_", "relu"),
    }  # fmt: skip


def test_writing_pieces_is_one_operation():
    def forward(net, x):
        rows = torch.zeros(4, 8)
        for number in range(4):
            rows[number] = net.l(x[number : number + 1])[0]
        return rows

    graph = imported(module(forward))
    assert graph.sizes == (32, 32, 32, 32, 128)
    assert graph.labels[-1] == " + ".join(["aten.copy_"] * 4)
    assert graph.fixed_memory["constants"] == 128  # the zeros, of which the operation has a copy


def test_the_input_is_not_overwritten():
    graph = imported(module(lambda net, x: net.l(x.relu_()) + x))
    assert drawn(graph) == {"relu_": (), "addmm": ("relu_",), "add": ("addmm", "relu_")}
    assert graph.sizes == (128, 128, 128)


def test_writing_to_a_buffer_takes_no_memory():
    graph = imported(module(lambda net, x: net.cache.copy_(net.l(x)) * 2, cache=lambda: torch.zeros(4, 8)))
    assert drawn(graph) == {"addmm": (), "copy_": ("addmm",), "mul": ("copy_",)}
    assert graph.sizes == (128, 0, 128)
    assert graph.fixed_memory["buffers"] == 128


def test_what_depends_on_no_input_is_left_out():
    def forward(net, x):
        mask = torch.ones(4, 8).tril() == 0
        return (x @ (net.l.weight.t() * 2)).masked_fill(mask, 0.0)

    graph = imported(module(forward))
    assert drawn(graph) == {"mm": (), "masked_fill": ("mm",)}
    assert graph.fixed_memory["constants"] == 8 * 8 * 4 + 4 * 8  # the doubled weights and the mask


def test_tied_weights_are_counted_once():
    def tied():
        network = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10, bias=False))
        network[1].weight = network[0].weight
        return network

    graph = imported(tied, "4:int64", training=True)
    assert graph.fixed_memory["parameters"] == 320
    assert len(graph.predecessors[-1]) == 2  # the loss and one gradient
    assert graph.total_size == real_bytes(tied(), torch.zeros(4, dtype=torch.int64), training=True)


def test_checkpointed_layers_are_recomputed():
    from torch.utils.checkpoint import checkpoint

    def forward(net, x):
        return checkpoint(lambda y: torch.sigmoid(net.l(y)), x, use_reentrant=False)

    graph = imported(module(forward), training=True)
    assert sum("addmm" in label for label in graph.labels) == 2
    assert "constants" not in graph.fixed_memory
    assert graph.total_size == real_bytes(module(forward)(), torch.randn(4, 8), training=True)


def test_recurrent_layers():
    factory = module(lambda net, x: net.r(x)[0], r=lambda: nn.LSTM(8, 16, batch_first=True))
    with quiet(), torch.backends.mkldnn.flags(enabled=False):
        real = real_bytes(factory(), torch.randn(4, 5, 8), training=True)
    graph = imported(factory, "4x5x8", training=True)
    assert graph.total_size == pytest.approx(real, rel=0.02)  # the state of zeros is a constant
    assert len(graph.predecessors[-1]) == 1 + 4


def random_relu():
    return nn.Sequential(nn.Linear(8, 8), nn.RReLU(), nn.Linear(8, 8))


def test_an_output_and_a_written_input_are_one_operation_with_what_wrote_that_input():
    graph = imported(random_relu, training=True)
    assert set(drawn(graph)["rrelu_with_noise_backward"]) == {"addmm", "empty_like", "mm"}
    assert graph.labels[graph.nodes.index("empty_like")] == "1 aten.empty_like + aten.rrelu_with_noise"
    assert graph.sizes[graph.nodes.index("empty_like")] == 2 * 128
    assert graph.total_size == real_bytes(random_relu(), torch.randn(4, 8), training=True)


def computed_statistics(net, x):
    y = net.l(x)
    some = y[:2]  # of all of it they would hardly change, if at all
    mean, variance = some.mean(0).detach(), some.var(0).detach()
    return functional.batch_norm(y, mean, variance, training=True) + mean


def test_computed_statistics_are_written_by_batch_norm():
    graph = imported(module(computed_statistics))
    reads = drawn(graph)
    assert reads["native_batch_norm"] == ("addmm", "mean", "var")
    assert reads["add"] == ("native_batch_norm",)
    outputs = (32 + 8 + 8) * 4
    assert graph.sizes[graph.nodes.index("native_batch_norm")] == outputs + 2 * 8 * 4  # and copies of the statistics
    copies = 2 * 8 * 4
    assert graph.total_size == real_bytes(module(computed_statistics)(), torch.randn(4, 8)) + copies


def one_computed_statistic(net, x):
    y = net.l(x)
    mean = y[:2].mean(0).detach()
    normal = functional.batch_norm(y, mean, net.variance, training=True)
    return normal + mean


def test_a_computed_statistic_alone_is_overwritten_and_a_buffer_stays():
    factory = module(one_computed_statistic, variance=lambda: torch.ones(8))
    graph = imported(factory)
    assert drawn(graph) == {"addmm": (), "mean": ("addmm",), "add": ("mean",)}
    assert graph.labels[1] == "aten.mean.dim + aten.native_batch_norm"
    assert graph.total_size == real_bytes(factory(), torch.randn(4, 8))


# --- several outputs -------------------------------------------------------------------------------------------


def conv_net():
    return nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()) for _ in range(3)))


def test_statistics_and_gradients_of_parameters_are_apart():
    graph = imported(conv_net, "2x4x16x16", training=True)
    assert graph.total_size == real_bytes(conv_net(), torch.randn(2, 4, 16, 16), training=True)
    size = dict(zip(graph.nodes, graph.sizes, strict=True))
    assert size["native_batch_norm"] == 2 * 4 * 16 * 16 * 4
    assert size["native_batch_norm_output_1_2"] == 2 * 4 * 4
    assert size["convolution_backward"] == 2 * 4 * 16 * 16 * 4
    assert size["convolution_backward_output_1_2"] == (4 * 4 + 4) * 4
    labels = dict(zip(graph.nodes, graph.labels, strict=True))
    assert labels["convolution_backward_output_1_2"].endswith("aten.convolution_backward [outputs 1, 2]")
    kept = sum(graph.sizes[v] for v in graph.predecessors[-1])
    assert kept == graph.fixed_memory["parameters"] + 4  # and no gradient of any layer's input
    largest = 2 * 4 * 16 * 16 * 4
    peak = simulate(graph, graph.input_order()).peak
    assert peak < 10 * largest  # 2 activations kept for each of 3 layers, and 3 at work


def test_statistics_that_nobody_reads_stay_where_they_are():
    graph = imported(lambda: nn.LayerNorm(8))
    assert graph.sizes == ((4 * 8 + 4 + 4) * 4,)


def test_large_outputs_stay_together():
    graph = imported(module(lambda net, x: torch.cat([y.float() for y in net.l(x).sort(-1)])))
    assert graph.sizes[graph.nodes.index("sort")] == 4 * 8 * (4 + 8)


def test_dropout_in_training_is_a_mask_and_a_product():
    graph = imported(module(lambda net, x: functional.dropout(net.l(x), 0.5, net.training)), training=True)
    assert "aten.empty_like + aten.bernoulli_.float + aten.div_.Scalar" in graph.labels
    evaluated = imported(module(lambda net, x: functional.dropout(net.l(x), 0.5, net.training)))
    assert evaluated.labels == ("l aten.addmm",)


def best_three(net, x):
    y = net.l(x)
    values, places = y.topk(3)
    twice = values * 2
    values.relu_()
    return twice + values + y.gather(1, places)


def test_an_output_that_is_overwritten_leaves_the_others():
    graph = imported(module(best_three))
    reads = drawn(graph)
    assert reads["relu_"] == ("topk",)
    assert reads["gather"] == ("addmm", "topk")
    assert reads["add"] == ("mul", "relu_")
    assert graph.sizes[graph.nodes.index("relu_")] == 4 * 3 * 4
    copied = 4 * 3 * 4
    assert graph.total_size == real_bytes(module(best_three)(), torch.randn(4, 8)) + copied


def test_an_output_overwritten_before_any_is_read_is_overwritten_in_place():
    def forward(net, x):
        values, places = net.l(x).topk(3)
        values.relu_()
        return x.gather(1, places) + values

    graph = imported(module(forward))
    assert drawn(graph) == {"addmm": (), "topk": ("addmm",), "gather": ("topk",), "add": ("gather", "topk")}
    assert graph.labels[1] == "aten.topk + aten.relu_"
    assert graph.total_size == real_bytes(module(forward)(), torch.randn(4, 8))


def test_a_list_of_outputs_is_overwritten_one_by_one():
    def forward(net, x):
        first, second = torch._foreach_mul([net.l(x), x], 2.0)
        read = first.sigmoid()
        first.relu_()
        return read + first + second

    reads = drawn(imported(module(forward)))
    assert reads["relu_"] == ("_foreach_mul",)
    assert set(reads["add_1"]) == {"_foreach_mul", "add"}


def test_one_storage_overwritten_twice_by_one_operator_is_copied_once():
    def forward(net, x):
        y = net.l(x)
        read = y.sigmoid()
        torch._foreach_mul_(list(y.split(4, 1)), 2.0)
        return read + y

    graph = imported(module(forward))
    assert graph.sizes[graph.nodes.index("_foreach_mul_")] == 4 * 8 * 4  # a copy of the whole storage
