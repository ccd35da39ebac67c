"""What calls, steps and operators take, to the byte."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from moccasin_mzn.graphs.importers.torch_memory import INPUT, STATE, Traced, account
from moccasin_mzn.pytorch.measuring import (
    OperatorCosts,
    allocations,
    allocator_peak,
    eager_peaks,
    measure_operators,
    storage_peak,
)

SIDE = 64
ONE = SIDE * SIDE * 4
"""Bytes of a matrix."""
pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def matrix():
    return torch.rand(SIDE, SIDE)


def both(call):
    return storage_peak(call), allocator_peak(call)


# --- peaks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("products", "most"), [(1, 1), (2, 2), (3, 2), (9, 2)])
def test_a_chain_frees_what_it_has_read(matrix, products, most):
    def chain():
        value = matrix
        for _ in range(products):
            value = value @ matrix
        return value

    assert both(chain) == (most * ONE, most * ONE)


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_what_is_kept_counts(matrix, kept):
    assert both(lambda: [matrix.neg() for _ in range(kept)]) == (kept * ONE, kept * ONE)


def test_views_and_what_overwrites_take_nothing(matrix):
    def call():
        made = matrix.neg()
        return made.view(-1).relu_().view(SIDE, SIDE).t()[:3].tanh_()

    assert both(call) == (ONE, ONE)
    assert both(lambda: matrix.clone().mul_(matrix)) == (ONE, ONE)
    assert both(lambda: matrix.view(-1)[3:]) == (0, 0)


def test_what_was_there_before_counts_for_nothing(matrix):
    held = [matrix.neg(), matrix.clone()]

    def call():
        held.clear()
        return matrix.neg()

    assert both(call) == (ONE, ONE)


def test_a_storage_that_grows():
    def call():
        made = torch.empty(0)
        made.resize_(1000)
        return made

    assert storage_peak(call) == 4000


def test_what_others_hold_of_a_call_does_not_change_the_next_one(matrix):
    held = []
    for _ in range(3):
        assert storage_peak(lambda: held.append(matrix @ matrix)) == ONE
    del held[:]  # after the meter has gone
    assert storage_peak(lambda: matrix @ matrix) == ONE


def test_sparse_and_tuples(matrix):
    assert storage_peak(lambda: matrix.sort()) == ONE + 2 * ONE
    assert storage_peak(lambda: torch.eye(3).to_sparse()) > 0


def test_what_raises_raises():
    def call():
        raise KeyError("mine")

    for meter in (storage_peak, allocator_peak, eager_peaks):
        with pytest.raises(KeyError, match="mine"):
            meter(call)


def layers():
    """A network, and a step that leaves no gradients."""
    network = nn.Sequential(nn.Linear(SIDE, SIDE, bias=False), nn.Tanh(), nn.Linear(SIDE, SIDE, bias=False))
    given = torch.rand(SIDE, SIDE)

    def step():
        network(given).sum().backward()
        network.zero_grad(set_to_none=True)

    return network, step


def test_a_training_step():
    _, step = layers()
    peaks = eager_peaks(step)
    # two activations; the output's is freed, but its gradient is expanded from one number, then copied for the product
    assert peaks.storage == peaks.allocator
    assert 4 * ONE <= peaks.storage <= 5 * ONE + 64
    assert peaks.seconds > 0
    again = eager_peaks(step)
    assert (again.storage, again.allocator) == (peaks.storage, peaks.allocator)


def test_meters_leave_the_gradients_as_they_are():
    network, _ = layers()
    given = torch.rand(3, SIDE)
    network(given).sum().backward()
    expected = [parameter.grad.clone() for parameter in network.parameters()]
    for meter in (storage_peak, allocator_peak):
        network.zero_grad()
        meter(lambda: network(given).sum().backward())
        assert all(torch.equal(p.grad, e) for p, e in zip(network.parameters(), expected, strict=True))


def test_the_allocator_sees_what_operators_take_inside():
    pictures, weights = torch.rand(2, 8, 16, 16), torch.rand(8, 8, 3, 3)
    with torch.backends.mkldnn.flags(enabled=False):
        storage, allocator = both(lambda: torch.conv2d(pictures, weights, padding=1))
    assert storage == 2 * 8 * 16 * 16 * 4
    assert allocator == storage + 2 * 8 * 9 * 16 * 16 * 4  # all patches of the pictures


def test_numbers_are_tensors_inside(matrix):
    storage, allocator = both(lambda: matrix + 1)
    assert storage == ONE < allocator <= ONE + 64


def test_nothing_is_written_to_stderr(capfd, matrix):
    allocator_peak(lambda: matrix @ matrix)
    assert capfd.readouterr() == ("", "")


def test_allocations_are_in_order(matrix):
    returned, events = allocations(lambda: (matrix @ matrix) @ matrix)
    assert events == [ONE, ONE, -ONE]
    assert torch.equal(returned, matrix @ matrix @ matrix)


# --- operators -------------------------------------------------------------------------------------------------


def traced(function, *tensors, kinds=None):
    """Nodes and members of a function, its first argument the input."""
    module = make_fx(function, tracing_mode="fake")(*tensors)
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    found = account(Traced(module, {name: STATE if at else INPUT for at, name in enumerate(names)}))
    return module.graph.nodes, found.members


def test_an_operation_has_the_time_and_the_workspace_of_its_operators():
    nodes, members = traced(lambda x, w: (x @ w).relu_().softmax(-1).sum(), torch.rand(256, 256), torch.rand(256, 256))
    costs = measure_operators(nodes, members, repeats=3)
    assert list(costs) == list(members) == ["mm", "_softmax", "sum_1"]
    assert all(cost.measured and cost.nanoseconds >= 1 for cost in costs.values())
    assert costs["mm"].workspace == costs["_softmax"].workspace == costs["sum_1"].workspace == 0
    assert costs["mm"].nanoseconds > costs["sum_1"].nanoseconds


def test_equal_calls_are_measured_once():
    costs = OperatorCosts()

    def chain(x, w, v):
        return ((x @ w) @ w).tanh() @ v + (x @ x)

    square = [torch.rand(SIDE, SIDE) for _ in range(3)]
    nodes, members = traced(chain, *square)
    found = measure_operators(nodes, members, costs=costs)
    assert len(costs.known) == 4  # a product, of a matrix with itself, tanh, a sum
    assert found["mm"] == found["mm_1"] == found["mm_2"]
    before = dict(costs.known)
    assert measure_operators(nodes, members, costs=costs) == found
    assert costs.known == before
    longer = [torch.rand(2 * SIDE, SIDE), *square[1:]]
    measure_operators(*traced(lambda x, w, v: x @ w, *longer), costs=costs)
    assert len(costs.known) == 5  # other shapes
    measure_operators(*traced(lambda x, w, v: (x @ w.t()).sum(0), *longer), costs=costs)
    assert len(costs.known) == 7  # other strides
    measure_operators(*traced(lambda x, w, v: (x @ w.t()).sum(1), *longer), costs=costs)
    assert len(costs.known) == 8  # another constant


def convolve(x, w, b):
    return torch.conv2d(x, w, b, padding=1)


def workspace_of_a_convolution(enabled):
    with torch.backends.mkldnn.flags(enabled=enabled):
        nodes, members = traced(convolve, torch.rand(2, 8, 16, 16), torch.rand(8, 8, 3, 3), torch.rand(8))
        return measure_operators(nodes, members, repeats=1)["convolution"].workspace


def test_a_convolution_without_onednn_takes_all_patches():
    assert workspace_of_a_convolution(False) == 2 * 8 * 9 * 16 * 16 * 4


@needs_onednn
def test_a_convolution_of_onednn_takes_a_workspace():
    found = workspace_of_a_convolution(True)
    assert found > 0
    assert workspace_of_a_convolution(True) == found


def test_groups_of_outputs():
    def step(x, w, b):
        y = torch.conv2d(x, w, b, padding=1)
        y, mean, scale = torch.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)
        back = torch.ops.aten.convolution_backward(
            y, x, w, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
        )
        return back[0], back[1], back[2], mean + scale

    with torch.backends.mkldnn.flags(enabled=False):
        nodes, members = traced(step, torch.rand(8, 8, 16, 16), torch.rand(8, 8, 3, 3), torch.rand(8))
        costs = measure_operators(nodes, members, repeats=3)
    norm = next(node for node in nodes if node.name == "native_batch_norm")
    with torch.no_grad():
        inside = OperatorCosts().of(norm).workspace
    assert costs["native_batch_norm"].workspace == inside + 2 * 8 * 4  # the statistics are made with it, and freed
    assert costs["native_batch_norm_output_1_2"].workspace == 0
    assert costs["native_batch_norm_output_1_2"].nanoseconds == 1
    of_input, of_weights = (costs[f"convolution_backward{end}"] for end in ("", "_output_1_2"))
    assert of_weights.workspace == 8 * 8 * 9 * 16 * 16 * 4 > of_input.workspace  # all patches, of the weights only
    assert 0.5 < of_input.nanoseconds / of_weights.nanoseconds < 2


def test_an_operator_that_made_up_numbers_do_not_suit_is_estimated():
    def rows(x, lengths):
        return torch.segment_reduce(x @ x, "sum", lengths=lengths)  # whose lengths are all the rows

    nodes, members = traced(rows, torch.rand(32, 32), torch.full((4,), 8))
    costs = measure_operators(nodes, members, repeats=1)
    assert not costs["segment_reduce"].measured and costs["segment_reduce"].nanoseconds >= 1
    assert costs["mm"].measured


def test_expanded_tensors_and_lists_are_made_as_they_were():
    def call(x, w):
        rows = w[0].expand(8, SIDE)
        return torch.cat([x[:8] * rows, x[8:16].t().contiguous().view(8, SIDE)]).sum()

    nodes, members = traced(call, torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE))
    assert all(cost.measured for cost in measure_operators(nodes, members, repeats=1).values())


@pytest.mark.parametrize("flushed", [False, True])
def test_numbers_close_to_zero_stay_as_they_were(flushed):
    nodes, members = traced(lambda x, w: (x + w).mul_(w).mul_(w), torch.rand(8, 8), torch.rand(8, 8))
    torch.set_flush_denormal(flushed)
    try:
        costs = measure_operators(nodes, members, repeats=1)
        assert (float(torch.tensor(1e-38) * 1e-3) == 0) == flushed
    finally:
        torch.set_flush_denormal(False)
    assert list(costs) == ["add"] and costs["add"].measured


def test_the_random_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(3)
    nodes, members = traced(lambda x: nn.functional.dropout(x, 0.5), torch.rand(8, 8))
    torch.manual_seed(5)
    measure_operators(nodes, members, repeats=1)
    assert torch.equal(torch.rand(3), expected)


# --- on a GPU --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_rounds_up():
    matrix = torch.rand(SIDE, SIDE, device="cuda")
    assert storage_peak(lambda: matrix + 1) == ONE == allocator_peak(lambda: matrix + 1, "cuda")
    row = matrix[0]
    assert allocator_peak(lambda: row[:3] + 1, "cuda") == 512
