"""Views are made once in each pass, whoever reads them."""

from __future__ import annotations

import pytest
import torch
from step_networks import NETWORKS
from step_runs import made, planned

from moccasin_mzn.pytorch.instructions import Instruction, Storage, Value, shared

ATEN = torch.ops.aten


def view(target, of, *args, storage=None):
    return Instruction(target, (of, *args), {}, Value(storage or of.storage), pure=True)


def targets(instructions):
    return [instruction.target for instruction in instructions]


def test_views_of_the_same_memory_with_the_same_arguments_are_one():
    base = Value(Storage(64))
    one, two, other = (view(ATEN.select.int, base, 0, at) for at in (1, 1, 2))
    readers = [Instruction(ATEN.add.Tensor, (base, each.value), {}, Value(Storage(4))) for each in (one, two, other)]
    found = shared([one, two, other, *readers], [])
    assert found[0].value is one.value and found[1].value is other.value and len(found) == 5
    assert [each.args[1] for each in found[2:]] == [one.value, one.value, other.value]


def test_views_of_views_are_shared_too_and_what_is_detached_is_what_it_was():
    base = Value(Storage(64))
    first, second = view(ATEN.detach.default, base), view(ATEN.detach.default, base)
    views = [view(ATEN.t.default, first.value), view(ATEN.t.default, second.value)]
    reader = Instruction(ATEN.mm.default, (views[0].value, views[1].value), {}, Value(Storage(4)))
    found = shared([first, second, *views, reader], [])
    assert targets(found) == [ATEN.t.default, ATEN.mm.default]
    assert found[0].args == (base,) and found[1].args == (found[0].value, found[0].value)


def test_results_and_what_has_memory_of_its_own_stay():
    base = Value(Storage(64))
    output, again = view(ATEN.detach.default, base), view(ATEN.t.default, base)
    same = view(ATEN.t.default, base)
    copies = [view(ATEN.clone.default, base, storage=Storage(64)) for _ in range(2)]
    calls = [output, again, same, *copies]
    found = shared(calls, [output.value, same.value])
    assert targets(found) == targets(calls) and [each.value for each in found] == [each.value for each in calls]


@pytest.mark.parametrize("name", ["gpt", "lstm"])
def test_a_plan_has_no_view_twice(name):
    found = planned(*made(NETWORKS[name]), "1TiB").linear
    for part in (found.forward, found.backward):
        views = [each for each in part if each.pure and not each.makes]
        assert views and len({(each.target, str(each.args), *map(id, each.reads)) for each in views}) == len(views)
        assert all(each.value in found.outputs for each in part if each.target is ATEN.detach.default)


def pooled():
    """Pooling to one number each gives a tensor of channels last another layout in place."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
    )  # fmt: skip
    layout = {"memory_format": torch.channels_last}
    return model.to(**layout), (torch.rand(4, 3, 16, 16).to(**layout),)


class Laid(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).as_strided_((4, 6), (1, 4)).sin()


@pytest.mark.parametrize("build", [pooled, lambda: (Laid(6, 4), (torch.rand(6, 6),))])
def test_a_layout_that_is_changed_in_place_is_a_view_from_then_on(build):
    model, inputs = build()
    found = planned(model, inputs, 0.85, durations="flop", workspaces="none")
    assert found.recomputations or len(inputs[0]) == 6
    targets = {str(node.target) for node in found.traced.joint.nodes}
    assert "aten.as_strided.default" in targets and "aten.as_strided_.default" not in targets
    checked = found.verify(inputs)
    assert checked.equal and checked.peak == found.predicted_peak <= checked.eager_peak
