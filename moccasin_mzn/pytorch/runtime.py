"""Running a plan: the function of autograd around its code, and the step that people call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.pytorch.emission import Code
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.gradients import check_parameters, targets
from moccasin_mzn.pytorch.guards import Guards
from moccasin_mzn.pytorch.joint import TANGENT, Joint

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.gradients import AccumulateGrad


@dataclass(frozen=True, eq=False)
class Runtime:
    """What runs a plan."""

    joint: Joint
    guards: Guards
    code: Code
    gradient_dependencies: tuple[frozenset[int], ...]
    """For each gradient the tangents that it depends on."""
    original: Callable[..., PyTree]
    """The step without the plan, for calls without gradients."""
    overwritten: tuple[int, ...] = ()
    """Positions, among what is given, of the buffers that a step overwrites."""
    otherwise: Callable[[PlanError], Callable[..., PyTree]] | None = None
    """What gives the function for a call that the plan is not for; None: such a call is refused."""

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        import torch

        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        try:
            tensors = self._checked(self.guards.call.tensors(args, kwargs))
        except PlanError as error:
            if self.otherwise is None:
                raise
            return self.otherwise(error)(*args, **kwargs)
        return self._outputs(tensors)

    def run(self, inputs: Sequence[torch.Tensor]) -> PyTree:
        """The step on these tensors, which are in the order of the planned call.

        Raises:
            PlanError: anything is different from what the plan is for.
        """
        return self._outputs(self._checked(inputs))

    def _checked(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """All that is given, where the plan is for it."""
        tensors = [*self.guards.state(), *inputs]
        self.guards.check(tensors)
        return tensors

    def _outputs(self, tensors: Sequence[torch.Tensor]) -> PyTree:
        check_parameters(self.added(tensors))
        given = [each.detach() if at in self.unreached else each for at, each in enumerate(tensors)]
        outputs = _function().apply(self, *given, *(given[at] for at in self.apart))
        return self.joint.returned.filled(outputs)

    @cached_property
    def apart(self) -> tuple[int, ...]:
        """The positions of what is given once more for each summand of its gradient, see `Joint.apart`."""
        position = {node: at for at, node in enumerate(self.joint.given)}
        return tuple(position[node] for node in self.joint.apart)

    @cached_property
    def unreached(self) -> frozenset[int]:
        """The positions of what no output depends on: its hooks are not to be called, as they would be, with None."""
        position = {node: at for at, node in enumerate(self.joint.given)}
        pairs = list(zip(self.joint.wanted, self.joint.gradients, strict=True))
        reached = {node for node, gradient in pairs if gradient is not None}
        return frozenset(position[node] for node, _ in pairs if node not in reached)

    @property
    def added_dependencies(self) -> list[frozenset[int]]:
        """For each gradient that is added to `.grad` the tangents that it depends on."""
        given = list(self.joint.given)
        of = dict(zip(self.joint.wanted, self.gradient_dependencies, strict=True))
        return [of[given[at]] for at in self.code.added]

    def added(self, tensors: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """The parameters to whose `.grad` gradients are added, by name, among what is given."""
        names = [each.name for each in self.joint.given.values()]
        return [(names[at], tensors[at]) for at in self.code.added]

    @contextlib.contextmanager
    def without_autocast(self) -> Iterator[None]:
        """The operators are those that autocast has chosen, when the plan was made."""
        import torch

        with contextlib.ExitStack() as stack:
            for device, _ in self.guards.autocast:
                stack.enter_context(torch.autocast(device, enabled=False))
            yield


class _Context(Protocol):
    """What the forward pass leaves for the backward pass, in the context that autograd gives to both."""

    runtime: Runtime
    kept: list[torch.Tensor] | None
    versions: list[_State]
    next_functions: tuple[tuple[AccumulateGrad, int], ...]

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether a missing gradient is passed as zeros instead of as None."""

    def mark_non_differentiable(self, *outputs: torch.Tensor) -> None:
        """Mark these outputs for autograd: they have no gradient."""


@cache
def _function() -> type[torch.autograd.Function]:
    import torch

    class Planned(torch.autograd.Function):
        boxed_grads_call = True  # so that gradients of outputs are freed once they are read

        @staticmethod
        def forward(ctx: _Context, runtime: Runtime, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            code = runtime.code
            with runtime.without_autocast():
                results = code.forward([tensors[at] for at in code.taken])
            outputs = tuple(results[: code.outputs])
            ctx.runtime = runtime
            ctx.kept = [*results[code.outputs :], *(tensors[at] for at in code.kept_given)]
            ctx.versions = [*map(_state, ctx.kept), *map(_state, code.constants)]
            ctx.set_materialize_grads(False)
            pairs = zip(outputs, runtime.joint.differentiable, strict=True)
            left_out = runtime.joint.left_out
            ctx.mark_non_differentiable(*(o for at, (o, has) in enumerate(pairs) if not has and at not in left_out))
            return outputs

        @staticmethod
        def backward(ctx: _Context, tangents: list[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
            runtime = ctx.runtime
            _check_left_out(runtime, tangents)
            there = {at for at, tangent in enumerate(_wanted(runtime, tangents)) if tangent is not None}
            added = targets([ctx.next_functions[at][0] for at in runtime.code.added])
            boxed = _kept(ctx)
            boxed += _tangents(runtime, tangents)
            boxed += (each if on & there else None for each, on in zip(added, runtime.added_dependencies, strict=True))
            del added
            with runtime.without_autocast():
                made = runtime.code.backward(boxed)
            gradients = (
                each if on & there else None for each, on in zip(made, runtime.gradient_dependencies, strict=True)
            )
            given = [each for each in runtime.joint.given.values() if each.kind != TANGENT]
            whole = [next(gradients) if each.form.requires_grad else None for each in given]
            return (None, *whole, *gradients)

    return Planned


def _check_left_out(runtime: Runtime, tangents: Sequence[torch.Tensor | None]) -> None:
    """Refuse gradients of outputs that are none of those the plan is for.

    Raises:
        PlanError: there is one.
    """
    for at, name in runtime.joint.left_out.items():
        if tangents[at] is not None:
            text = f"output '{name}' gets a gradient, which this plan leaves out: plan with differentiate including it"
            raise PlanError(text, Page.DIFFERENTIATED)


_State = tuple[int, "torch.UntypedStorage"] | None
"""The version of a tensor, which counts its changes in place, and its memory, which `.data` sets."""


def _state(kept: object) -> _State:
    import torch

    return (kept._version, kept.untyped_storage()) if isinstance(kept, torch.Tensor) else None


def _is_as_it_was(kept: object, state: _State) -> bool:
    now = _state(kept)
    return now is state or (
        now is not None and state is not None and now[0] == state[0] and now[1]._cdata == state[1]._cdata
    )


def _kept(ctx: _Context) -> list[torch.Tensor | None]:
    """What the forward pass has kept, which is then kept no more.

    Raises:
        PlanError: it was handed out before, is to be differentiated once more, or has been changed.
    """
    import torch

    if torch.is_grad_enabled():
        raise PlanError("a plan gives no second derivatives: call the backward pass without create_graph")
    if ctx.kept is None:
        raise PlanError("the backward pass of a plan runs once: call the step again before it")
    runtime = ctx.runtime
    for at, (each, state) in enumerate(zip([*ctx.kept, *runtime.code.constants], ctx.versions, strict=True)):
        if not _is_as_it_was(each, state):
            raise PlanError(f"{_kept_name(runtime, at, len(ctx.kept))} between forward and backward")
    boxed: list[torch.Tensor | None] = [*ctx.kept]
    ctx.kept = None
    ctx.versions.clear()  # they keep memory alive
    return boxed


def _kept_name(runtime: Runtime, at: int, count: int) -> str:
    """What was changed, by its position among what is kept, `count` tensors, and constants."""
    own = count - len(runtime.code.kept_given)
    if at < own:
        return "an output was changed in place"
    if at < count:
        given = list(runtime.joint.given.values())[runtime.code.kept_given[at - own]]
        return f"{given.kind} '{given.name}' was changed in place"
    constant = runtime.code.constants[at - count]
    _, name = runtime.guards.attributes.watch.tensors.get(id(constant), (None, ""))
    return f"tensor '{name}', which is no buffer, was changed in place" if name else "a tensor was changed in place"


def _tangents(runtime: Runtime, tangents: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """The gradients of the outputs, laid out as they were traced, zero where there are none; `tangents` is emptied."""
    import torch

    forms = [each.form for each in runtime.joint.given.values() if each.kind == TANGENT]
    found, wanted = [], _wanted(runtime, tangents)
    tangents.clear()
    wanted.reverse()
    for form in forms:
        tangent = wanted.pop()
        if tangent is None or tangent.stride() != form.stride:
            like = torch.empty_strided(form.shape, form.stride, dtype=getattr(torch, form.dtype), device=form.device)
            tangent = like.zero_() if tangent is None else like.copy_(tangent)
        found.append(tangent)
    return found


def _wanted(runtime: Runtime, tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [tangent for tangent, has in zip(tangents, runtime.joint.differentiable, strict=True) if has]
