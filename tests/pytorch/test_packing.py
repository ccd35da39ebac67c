"""The knapsack of PyTorch's own partitioner, solved so that a budget holds of the peak."""

from __future__ import annotations

import pytest
import torch
from step_networks import NETWORKS
from step_runs import made, same, steps, twin
from test_compiling import peak
from torch._functorch import config

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import PlanError, knapsack, packing
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.packing import read_halves
from moccasin_mzn.pytorch.tracing import Costs

TOO_SMALL = 0.2
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    with config.patch(enable_autograd_cache=False):
        yield
    torch.compiler.reset()


def answers():
    """What was answered to each budget, of the graph that was asked about last."""
    return list(packing._KNOWN.values())[-1][1].answers


def test_the_peak_is_within_the_budget_and_never_rises():
    model, inputs = made(NETWORKS["gpt"])
    other, fresh = twin(model, inputs)
    plainly = torch.compile(other, backend="aot_eager")
    wanted, usual = steps(other, plainly, fresh, 2), peak(plainly, other, fresh)
    found = []
    for share in (0.95, 0.85, TOO_SMALL):
        torch.compiler.reset()
        own, data = twin(*made(NETWORKS["gpt"]))
        with config.patch(activation_memory_budget=0.01, activation_memory_budget_solver=knapsack(share)):
            step = torch.compile(own, backend="aot_eager")
            if share == TOO_SMALL:
                with pytest.raises(PlanError, match="PyTorch's partitioner was seen to take .* at the least"):
                    step(*data)
                break
            assert same(steps(own, step, data, 2), wanted)
            found.append(peak(step, own, data))
        budget, answer = list(answers().items())[-1]
        assert found[-1] == answer.peak <= budget
        assert share * usual <= budget < share * usual + 1
    assert len(found) == 2 and found == sorted(found, reverse=True)


@pytest.mark.parametrize("name", ["mlp", "gpt", "llama", "unet"])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_the_peak_of_any_partition_is_known(name, share):
    """Of PyTorch's own, that nothing here has a part in."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch.utils._python_dispatch import _disable_current_modes

    told = []

    def part(graph, inputs, *, num_fwd_outputs, **others):
        halves = min_cut_rematerialization_partition(graph, inputs, num_fwd_outputs=num_fwd_outputs, **others)
        with _disable_current_modes():
            costs = Costs()
            plan = read_halves(
                halves[0].graph, halves[1].graph, num_fwd_outputs, lambda node: costs.workspace(node, None)
            )
            told.append(peaks(plan).whole)
        return halves

    model, inputs = made(NETWORKS[name])
    with config.patch(activation_memory_budget=share):
        step = torch.compile(model, backend=aot_autograd(fw_compiler=boxed_nop, partition_fn=part))
        assert peak(step, model, inputs) == told[-1]


def test_knapsack_rejects_wrong_budgets():
    with pytest.raises(InputError, match="budget 3"):
        knapsack(3.0)
