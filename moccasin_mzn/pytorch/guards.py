"""What a plan takes for granted, checked at every call: whatever is different is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.doc_links import Page
from moccasin_mzn.pytorch.call import Form, Structure
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, Joint, Placeholder
from moccasin_mzn.pytorch.refusal import PlanError

if TYPE_CHECKING:
    import torch

Autocast = tuple[tuple[str, str], ...]
"""Devices where it is on, and its data type there."""


def autocast_now() -> Autocast:
    """Where autocast is on."""
    import torch

    return tuple(
        (device, str(torch.get_autocast_dtype(device)).removeprefix("torch."))
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    )


@dataclass(frozen=True, eq=False)
class Guards:
    """The state of the world that a plan was made in."""

    arguments: Structure
    given: tuple[Placeholder, ...]
    """Parameters, buffers and inputs."""
    places: tuple[tuple[tuple[torch.nn.Module, str], ...], ...] = field(repr=False)
    """For each parameter and buffer where it stands: in a module, under a name; tied ones in several places."""
    training: tuple[tuple[str, torch.nn.Module, bool], ...] = field(repr=False)
    autocast: Autocast

    @classmethod
    def of(cls, model: torch.nn.Module, joint: Joint, arguments: Structure) -> Guards:
        given = tuple(each for each in joint.given.values() if each.kind in (PARAMETER, BUFFER, INPUT))
        places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
        for module in model.modules():
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    places.setdefault(id(tensor), []).append((module, name))
        state = [*dict(model.named_parameters()).values(), *dict(model.named_buffers()).values()]
        training = tuple((name, module, module.training) for name, module in model.named_modules())
        return cls(arguments, given, tuple(tuple(places[id(each)]) for each in state), training, autocast_now())

    def state(self) -> list[Any]:
        """The parameters and buffers as they are now.

        Raises:
            PlanError: one is missing, or two that were tied are not.
        """
        found = []
        for number, places in enumerate(self.places):
            tensors = [module._parameters.get(name, module._buffers.get(name)) for module, name in places]
            if tensors[0] is None or any(each is not tensors[0] for each in tensors):
                each = self.given[number]
                raise PlanError(f"{each.kind} '{each.name}' is not where it was, or tied no more: make a new plan")
            found.append(tensors[0])
        return found

    def check(self, arguments: Structure, tensors: Sequence[Any]) -> None:
        """Refuse a call that the plan is not for.

        Raises:
            PlanError: anything is different.
        """
        if not self.arguments.matches(arguments):
            told = "the step is called with other arguments than it was planned for: make a plan for these"
            raise PlanError(told, Page.SHAPES)
        for given, tensor in zip(self.given, tensors, strict=True):
            form = given.form
            if (
                tensor.shape != form.shape or tensor.stride() != form.stride or tensor.dtype != _dtype(form.dtype)
                or tensor.requires_grad != form.requires_grad or str(tensor.device) != form.device
            ):  # fmt: skip
                raise PlanError(_difference(given, Form.of(tensor)), Page.SHAPES)
        for name, module, training in self.training:
            if module.training != training:
                modes = ("evaluation", "training") if training else ("training", "evaluation")
                raise PlanError(f"planned in {modes[1]} mode, {_called(name)} is in {modes[0]} mode")
        now = autocast_now()
        if now != self.autocast:
            raise PlanError(f"planned {_autocast_text(self.autocast)}, called {_autocast_text(now)}")


class _Dtypes(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        import torch

        self[name] = getattr(torch, name)
        return self[name]


_dtype: Callable[[str], Any] = _Dtypes().__getitem__


def _difference(given: Placeholder, found: Form) -> str:
    what = given.name if given.kind == INPUT else f"{given.kind} '{given.name}'"
    wanted = given.form
    if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
        return f"planned for {what} of {wanted}, called with {found}"
    for part in ("device", "stride", "requires_grad"):
        mine, its = getattr(wanted, part), getattr(found, part)
        if mine != its:
            return f"planned for {what} with {part.replace('_', ' ')} {mine}, called with {its}"
    return f"{what} is not what was planned for"


def _called(name: str) -> str:
    return f"'{name}'" if name else "the network"


def _autocast_text(autocast: Autocast) -> str:
    if not autocast:
        return "without autocast"
    return "under autocast to " + ", ".join(f"{dtype} on {device}" for device, dtype in autocast)
