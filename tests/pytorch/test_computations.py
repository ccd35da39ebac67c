"""What a plan may compute again, and what not."""

from __future__ import annotations

import torch
from step_networks import NETWORKS
from step_runs import excess, made, planned

from moccasin_mzn.pytorch.computations import Computation


def groups_of(problem, operator):
    """The groups of outputs of an operator that are computed by themselves: may they be computed again?"""
    firsts = ((each.members[0], many) for each, many in zip(problem.meanings, problem.most, strict=True)
              if isinstance(each, Computation))  # fmt: skip
    return {(member.outputs, many) for member, many in firsts if member.node.target is operator}


def test_planned_statistics_are_computed_once_and_gradients_any_number_of_times():
    model, inputs = made(NETWORKS["resnet"])
    problem = planned(model, inputs, "1TiB", durations="flop", workspaces="none").traced.problem
    assert groups_of(problem, torch.ops.aten.native_batch_norm.default) == {((0,), True), ((1, 2), False)}
    gradients = groups_of(problem, torch.ops.aten.convolution_backward.default)
    assert len(gradients) > 1 and all(many for _, many in gradients)


class Neighbours(torch.nn.Module):
    """Rows gathered from rows, as in networks of graphs and of words."""

    def __init__(self):
        super().__init__()
        self.line, self.table = torch.nn.Linear(64, 64), torch.nn.Parameter(torch.rand(64, 64))

    def forward(self, rows, columns):
        near = self.line(self.table).relu().index_select(0, rows)
        return near.gather(1, columns).exp().mean()


def test_gradients_of_what_is_gathered_are_added_in_place_as_in_eager():
    torch.manual_seed(0)
    model = Neighbours()
    given = [torch.randint(64, (96,)), torch.randint(64, (96, 32))]
    found = planned(model, given, 1.0)
    assert found.unplanned.whole <= found.eager_peak and found.verify(given).equal
    assert excess(found, found.module(), given)[0] == 0
    written = {str(node.target) for node in found.traced.joint.nodes if node in found.traced.joint.backward}
    assert {"aten.index_add_.default", "aten.scatter_add_.default"} <= written
