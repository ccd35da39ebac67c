"""What a plan takes for granted, checked at every call: whatever is different is reported in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.pytorch.attributes import Attributes
from moccasin_mzn.pytorch.binding import Call
from moccasin_mzn.pytorch.call import Form
from moccasin_mzn.pytorch.devices import is_kept_by_autocast, is_on, switch_text
from moccasin_mzn.pytorch.errors import OtherCallError, PlanError
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, Joint, Placeholder
from moccasin_mzn.pytorch.settings import Settings

if TYPE_CHECKING:
    import torch
    from torch import fx


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


_EACH = '; Plans, or shapes="each", plan each mode'
Mode = tuple[tuple[bool, ...], tuple[bool, ...], Autocast]
"""What may change from call to call besides shapes: which parameters and buffers require a gradient, which modules are
in training mode, and where autocast is on."""


@dataclass(frozen=True, eq=False)
class Guards:
    """The state of the world that a plan was made in."""

    call: Call
    given: tuple[Placeholder, ...]
    """Parameters, buffers and inputs."""
    places: tuple[tuple[tuple[torch.nn.Module, str], ...], ...] = field(repr=False)
    """For each parameter and buffer where it stands: in a module, under a name; tied ones in several places."""
    training: tuple[tuple[str, torch.nn.Module, bool], ...] = field(repr=False)
    autocast: Autocast
    attributes: Attributes = field(repr=False)
    recurrent: frozenset[str]
    """See `Joint.recurrent`."""
    cast_often: tuple[int, ...]
    """Positions of inputs that autocast casts each time they are read, more than once."""
    autocast_cache: bool | None
    """Autocast kept the weights that it had cast; None: none is read more than once, so that it does not matter."""
    settings: Settings = field(default_factory=Settings.now)

    @classmethod
    def of(cls, joint: Joint, call: Call) -> Guards:
        import torch

        model = call.step.model
        assert joint.attributes is not None
        given = tuple(each for each in joint.given.values() if each.kind in (PARAMETER, BUFFER, INPUT))
        places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
        for module in model.modules():
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    places.setdefault(id(tensor), []).append((module, name))
        state = [*dict(model.named_parameters()).values(), *dict(model.named_buffers()).values()]
        training = tuple((name, module, module.training) for name, module in model.named_modules())
        stand = tuple(tuple(places[id(each)]) for each in state)
        inputs = joint.of_kind(INPUT)
        often = tuple(at for at, node in enumerate(joint.given) if node in inputs and len(_casts(node)) > 1)
        cache = torch.is_autocast_cache_enabled() if _is_any_cast_shared(joint) else None
        return cls(call, given, stand, training, autocast_now(), joint.attributes, joint.recurrent, often, cache)

    def state(self) -> list[torch.Tensor]:
        """The parameters and buffers as they are now.

        Raises:
            PlanError: one is missing, or two that were tied are not.
        """
        found = []
        for number, places in enumerate(self.places):
            tensors = [_tensor_in(module, name) for module, name in places]
            if tensors[0] is None or any(each is not tensors[0] for each in tensors):
                each = self.given[number]
                raise PlanError(f"{each.kind} '{each.name}' is not where it was, or tied no more: make a new plan")
            found.append(tensors[0])
        return found

    def mode(self) -> Mode:
        """The mode that the network is in now."""
        state = [_tensor_in(*places[0]) for places in self.places]
        required = tuple(each is not None and each.requires_grad for each in state)
        return required, tuple(module.training for _, module, _ in self.training), autocast_now()

    def planned_mode(self) -> Mode:
        """The mode that the plan is for."""
        required = tuple(each.form.requires_grad for each in self.given if each.kind != INPUT)
        return required, tuple(training for *_, training in self.training), self.autocast

    def differences(self, mode: Mode) -> list[str]:
        """What is different in another mode, for messages."""
        required, training, autocast = self.planned_mode()
        state = [each for each in self.given if each.kind != INPUT]
        found = [
            f"{each.kind} '{each.name}' that {'requires a' if now else 'requires no'} gradient"
            for each, was, now in zip(state, required, mode[0], strict=True) if was != now
        ]  # fmt: skip
        found += [
            f"{_called(name)} in {'training' if now else 'evaluation'} mode"
            for (name, *_), was, now in zip(self.training, training, mode[1], strict=True) if was != now
        ]  # fmt: skip
        return found + ([autocast_text(mode[2])] if mode[2] != autocast else [])

    def check(self, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse a call that the plan is not for.

        Raises:
            OtherCallError: anything is different.
            PlanError: a setting, a hook or a submodule is another than when the plan was made, or autocast would keep
                the cast of an input.
        """
        for given, tensor in zip(self.given, tensors, strict=True):
            form = given.form
            if (
                tensor.shape != form.shape or tensor.stride() != form.stride or tensor.dtype != _dtype(form.dtype)
                or tensor.requires_grad != form.requires_grad or str(tensor.device) != form.device
            ):  # fmt: skip
                raise OtherCallError(_difference(given, Form.of(tensor)), Page.SHAPES)
        for name, module, training in self.training:
            if module.training != training:
                modes = ("evaluation", "training") if training else ("training", "evaluation")
                raise OtherCallError(f"planned in {modes[1]} mode, {_called(name)} is in {modes[0]} mode{_EACH}")
        now = autocast_now()
        if now != self.autocast:
            raise OtherCallError(f"planned {autocast_text(self.autocast)}, called {autocast_text(now)}{_EACH}")
        for device in filter(is_on, self.recurrent):
            raise OtherCallError(switch_text(device))
        self.settings.check()
        self._check_casts(tensors)

    def _check_casts(self, tensors: Sequence[torch.Tensor]) -> None:
        import torch

        cache = torch.is_autocast_cache_enabled()
        if self.autocast_cache not in (None, cache):
            raise OtherCallError(
                f"planned with autocast's cache_enabled={self.autocast_cache}, called with {cache}, where it casts a "
                "weight another number of times: make the plan under the same torch.autocast"
            )
        for at in self.cast_often:
            if cache and is_kept_by_autocast(tensors[at]):
                raise PlanError(
                    f"{self.given[at].name} requires a gradient and is computed from nothing, so that autocast casts "
                    "it once and adds its gradients up in the lower precision, a plan casts it each time it is read: "
                    "pass its clone, or use torch.autocast(..., cache_enabled=False)"
                )
        self.attributes.check()


def _casts(given: fx.Node) -> list[fx.Node]:
    """The casts of what is given to a lower precision."""
    import torch

    lower = (torch.bfloat16, torch.float16)
    copies = [node for node in given.users if node.target == torch.ops.aten._to_copy.default]
    return [node for node in copies if node.kwargs.get("dtype") in lower]


def _is_any_cast_shared(joint: Joint) -> bool:
    """Return whether a parameter or buffer is cast more than once, or its cast is read more than once."""
    for given in joint.of_kind(PARAMETER, BUFFER):
        casts = _casts(given)
        if len(casts) > 1 or any(
            len([each for each in cast.users if each not in joint.backward]) > 1 for cast in casts
        ):
            return True
    return False


def _tensor_in(module: torch.nn.Module, name: str) -> torch.Tensor | None:
    """A parameter or a buffer; the tables of modules of TorchScript are no dictionaries."""
    for table in (module._parameters, module._buffers):
        if name in table:
            return table[name]
    return None


class _Dtypes(dict[str, "torch.dtype"]):
    def __missing__(self, name: str) -> torch.dtype:
        import torch

        self[name] = getattr(torch, name)
        return self[name]


_dtype: Callable[[str], torch.dtype] = _Dtypes().__getitem__


def _difference(given: Placeholder, found: Form) -> str:
    what = given.name if given.kind == INPUT else f"{given.kind} '{given.name}'"
    wanted = given.form
    if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
        hint = '; shapes="each" plans each shape' if given.kind == INPUT and wanted.dtype == found.dtype else ""
        return f"planned for {what} of {wanted}, called with {found}{hint}"
    for part in ("device", "stride", "requires_grad"):
        mine, its = getattr(wanted, part), getattr(found, part)
        if mine != its:
            hint = _EACH if part == "requires_grad" else ""
            return f"planned for {what} with {part.replace('_', ' ')} {mine}, called with {its}{hint}"
    return f"{what} is not what was planned for"


def _called(name: str) -> str:
    return f"'{name}'" if name else "the network"


def autocast_text(autocast: Autocast) -> str:
    """Where autocast is on, for messages."""
    if not autocast:
        return "without autocast"
    return "under autocast to " + ", ".join(f"{dtype} on {device}" for device, dtype in autocast)
