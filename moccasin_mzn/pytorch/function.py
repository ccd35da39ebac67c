"""A plan as a function of autograd, and the step that people call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.accumulating import check_parameters, targets
from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.emission import Code
from moccasin_mzn.pytorch.guards import Guards
from moccasin_mzn.pytorch.joint import TANGENT, Joint
from moccasin_mzn.pytorch.refusal import PlanError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Runtime:
    """What runs a plan."""

    joint: Joint
    guards: Guards
    code: Code
    reached: tuple[frozenset[int], ...]
    """For each gradient the tangents that it depends on."""
    original: Callable[..., Any]
    """The step without the plan, for calls without gradients."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        arguments, inputs = Structure.of((args, kwargs))
        tensors = [*self.guards.state(), *inputs]
        self.guards.check(arguments, tensors)
        check_parameters(self.added(tensors))
        outputs = _function().apply(self, *tensors)
        return self.joint.returned.filled(outputs)

    @property
    def reached_added(self) -> list[frozenset[int]]:
        """For each gradient that is added to `.grad` the tangents that it depends on."""
        given = list(self.joint.given)
        of = dict(zip(self.joint.wanted, self.reached, strict=True))
        return [of[given[at]] for at in self.code.added]

    def added(self, tensors: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
        """The parameters to whose `.grad` gradients are added, by name, among what is given."""
        names = [each.name for each in self.joint.given.values()]
        return [(names[at], tensors[at]) for at in self.code.added]

    @contextlib.contextmanager
    def without_autocast(self) -> Any:
        """The operators are those that autocast has chosen, when the plan was made."""
        import torch

        with contextlib.ExitStack() as stack:
            for device, _ in self.guards.autocast:
                stack.enter_context(torch.autocast(device, enabled=False))
            yield


@cache
def _function() -> Any:
    import torch

    class Planned(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, runtime: Runtime, *tensors: Any) -> Any:
            code = runtime.code
            with runtime.without_autocast():
                results = code.forward([tensors[at] for at in code.taken])
            outputs = tuple(results[: code.outputs])
            ctx.runtime = runtime
            ctx.kept = [*results[code.outputs :], *(tensors[at] for at in code.kept_given)]
            ctx.versions = [_version(each) for each in ctx.kept]
            ctx.set_materialize_grads(False)
            pairs = zip(outputs, runtime.joint.differentiable, strict=True)
            ctx.mark_non_differentiable(*(output for output, has in pairs if not has))
            return outputs

        @staticmethod
        def backward(ctx: Any, *tangents: Any) -> Any:
            runtime = ctx.runtime
            there = {at for at, tangent in enumerate(_wanted(runtime, tangents)) if tangent is not None}
            added = targets([ctx.next_functions[at][0] for at in runtime.code.added])
            boxed = _kept(ctx)
            boxed += _tangents(runtime, tangents)
            boxed += (each if on & there else None for each, on in zip(added, runtime.reached_added, strict=True))
            del added
            with runtime.without_autocast():
                made = runtime.code.backward(boxed)
            gradients = (each if on & there else None for each, on in zip(made, runtime.reached, strict=True))
            given = [each for each in runtime.joint.given.values() if each.kind != TANGENT]
            return (None, *(next(gradients) if each.form.requires_grad else None for each in given))

    return Planned


def _version(kept: Any) -> int | None:
    import torch

    return kept._version if isinstance(kept, torch.Tensor) else None


def _kept(ctx: Any) -> list[Any]:
    """What the forward pass has kept, which is then kept no more.

    Raises:
        PlanError: it was handed out before, is to be differentiated once more, or has been changed.
    """
    import torch

    if torch.is_grad_enabled():
        raise PlanError("a plan gives no second derivatives: call the backward pass without create_graph")
    if ctx.kept is None:
        raise PlanError("the backward pass of a plan runs once: call the step again before it")
    runtime, own = ctx.runtime, len(ctx.kept) - len(ctx.runtime.code.kept_given)
    for at, (each, version) in enumerate(zip(ctx.kept, ctx.versions, strict=True)):
        if _version(each) != version:
            if at < own:
                raise PlanError("an output was changed in place between forward and backward: change a copy")
            given = list(runtime.joint.given.values())[runtime.code.kept_given[at - own]]
            raise PlanError(f"{given.kind} '{given.name}' was changed in place between forward and backward")
    boxed, ctx.kept = ctx.kept, None
    return boxed


def _tangents(runtime: Runtime, tangents: tuple[Any, ...]) -> list[Any]:
    """The gradients of the outputs as they were traced: laid out so, and zero where there are none."""
    import torch

    forms = [each.form for each in runtime.joint.given.values() if each.kind == TANGENT]
    found = []
    for tangent, form in zip(_wanted(runtime, tangents), forms, strict=True):
        if tangent is None or tangent.stride() != form.stride:
            like = torch.empty_strided(form.shape, form.stride, dtype=getattr(torch, form.dtype), device=form.device)
            tangent = like.zero_() if tangent is None else like.copy_(tangent)
        found.append(tangent)
    return found


def _wanted(runtime: Runtime, tangents: tuple[Any, ...]) -> list[Any]:
    return [tangent for tangent, has in zip(tangents, runtime.joint.differentiable, strict=True) if has]


def planned_module(model: torch.nn.Module, runtime: Runtime) -> torch.nn.Module:
    """A module that runs a plan; its parameters, buffers and submodules are those of the network, by the same names."""
    import torch

    class PlannedModule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = model.__dict__[name]
            self.training = model.training

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return runtime(*args, **kwargs)

        def train(self, mode: bool = True) -> Any:
            model.train(mode)
            self.training = mode
            return self

    return PlannedModule()
