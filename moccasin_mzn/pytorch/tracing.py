"""A step with all that is known of it before there is a plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.problem.platform import Action
from moccasin_mzn.pytorch.accumulating import ACCUMULATED, RETURNED
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.computations import Computations, computations
from moccasin_mzn.pytorch.costs import Costs
from moccasin_mzn.pytorch.devices import CPU, CUDA, kind_of_device
from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.guards import Guards
from moccasin_mzn.pytorch.instructions import Linear
from moccasin_mzn.pytorch.joint import Joint, trace_joint
from moccasin_mzn.pytorch.operator_costs import worker
from moccasin_mzn.pytorch.problem import Planned, planned
from moccasin_mzn.pytorch.program import linear
from moccasin_mzn.pytorch.refusal import PlanError
from moccasin_mzn.pytorch.sequences import meant

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Traced:
    """A step, traced, and the graph that it comes to."""

    step: Step
    arguments: Structure
    forms: tuple[Form, ...]
    """Of the inputs."""
    joint: Joint = field(repr=False)
    program: Computations = field(repr=False)
    problem: Planned = field(repr=False)
    guards: Guards = field(repr=False)
    costs: Costs | None = field(default=None, repr=False)
    """None: durations are FLOP, and there are no workspaces."""
    gradients: str = RETURNED
    """See `accumulating`."""
    unsplit: frozenset[str] = frozenset()
    """Names of traced backward operators that make all their gradients at once, see `OperatorCosts.unsplit`."""

    @classmethod
    def of(
        cls, step: Step, arguments: Structure, forms: Sequence[Form], costs: Costs | None = None,
        gradients: str = RETURNED, unsplit: Collection[str] = (),
    ) -> Traced:  # fmt: skip
        """Trace a step, and measure its operators if that is asked for and can be.

        Args:
            unsplit: where nothing is measured, what is known of that.
        """
        _check(step.model, forms)
        if costs is not None and without_memory(step.model, forms):
            costs = None
        if costs is not None:
            worker().begin()
        joint = trace_joint(step, arguments, forms)
        whole = frozenset(unsplit) if costs is None else costs.table.unsplit(joint.nodes)
        program = computations(joint, whole)
        guards = Guards.of(step.model, joint, arguments)
        problem = planned(program, gradients == ACCUMULATED)
        told = problem if costs is None else costs.told(problem)
        if any(kind_of_device(form.device) == CUDA for form in forms):
            worker().close()  # it holds memory of the device
        return cls(step, arguments, tuple(forms), joint, program, told, guards, costs, gradients, whole)

    @property
    def device(self) -> str:
        """Whose memory is planned: that of the first tensor."""
        return next(iter(self.joint.given.values())).form.device

    def linear(self, sequence: Sequence[int] | Sequence[Action]) -> Linear:
        """The instructions of a schedule, or of a plan with slow memory."""
        workspace = None if self.costs is None else self.costs.workspace
        return linear(self.program, meant(self.problem, sequence), workspace)


def without_memory(model: torch.nn.Module, forms: Sequence[Form]) -> bool:
    """Is a parameter, a buffer or an input on the meta device? Then nothing can be run."""
    state = (*model.parameters(), *model.buffers())
    return any(tensor.device.type == "meta" for tensor in state) or any(form.device == "meta" for form in forms)


def _check(model: torch.nn.Module, forms: Sequence[Form]) -> None:
    if isinstance(model.__dict__.get("forward"), Runtime):
        raise PlanError("the network has a plan already: remove it first")
    state = (*model.named_parameters(), *model.named_buffers())
    places = [*((name, str(tensor.device)) for name, tensor in state), *(("an input", form.device) for form in forms)]
    for name, device in places:
        if kind_of_device(device) not in (CPU, "meta", CUDA):
            raise PlanError(f"{name} is on {device}: plans are for the CPU and for CUDA")
        if kind_of_device(device) == CUDA and device != places[0][1]:
            raise PlanError(f"{name} is on {device}, {places[0][0]} on {places[0][1]}: a plan is for one device")
