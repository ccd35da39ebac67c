"""What calls and steps take, to the byte."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from moccasin_mzn.pytorch.measuring import allocations, allocator_peak, eager_peaks, storage_peak

SIDE = 64
ONE = SIDE * SIDE * 4
"""Bytes of a matrix."""
pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")


@pytest.fixture
def matrix():
    return torch.rand(SIDE, SIDE)


def both(call):
    return storage_peak(call), allocator_peak(call)


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


# --- on a GPU --------------------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_rounds_up():
    matrix = torch.rand(SIDE, SIDE, device="cuda")
    assert storage_peak(lambda: matrix + 1) == ONE == allocator_peak(lambda: matrix + 1, "cuda")
    row = matrix[0]
    assert allocator_peak(lambda: row[:3] + 1, "cuda") == 512
