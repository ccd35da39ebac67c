"""A plan in the place of a network, in the loops that people have: installed in it, as a module, for each shape.

    found.install()           model(x) runs the plan
    step = found.module()     step(x) does, with the network's parameters, `.config`, `.generate` and all else

A copy, or what is read back from a file, is the network without the plan: a plan is for its own parameters.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from moccasin_mzn.base.log import note
from moccasin_mzn.pytorch.call import Form, Structure
from moccasin_mzn.pytorch.devices import CPU, generator_of
from moccasin_mzn.pytorch.errors import NoPlanError, NothingToPlanError, OtherValueError, PlanError
from moccasin_mzn.pytorch.joint import INPUT, Placeholder
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    from typing import Any, Self

    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.guards import Guards, Mode
    from moccasin_mzn.pytorch.runtime import Runtime

Run = Callable[..., "PyTree"]
"""A training step: what the network is called with, and what it returns."""
_COMPILED = "_compiled_call_impl"
"""Attribute of a module whose calls `module.compile()` has compiled: what is called instead."""
_NOT_COMPILED = (
    "a plan of moccasin_mzn runs as it is, and cannot be part of one compiled graph: compile with fullgraph=False, or, "
    "for a compiled network within a budget, remove the plan and compile with moccasin_mzn.pytorch.backend"
)
_COPIED = "a copy of a network with a plan, also in a file, is the network without it: a plan is for its own parameters"


# --- Installed: the network's own `forward` runs the plan ------------------------------------------------------


class Installed:
    """What stands in the place of a network's `forward`, with the signature of that."""

    def __init__(self, run: Run, original: Run) -> None:
        self.run, self.original = not_compiled(run), original
        with contextlib.suppress(ValueError):  # nothing is known of it
            self.__signature__ = inspect.signature(original)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        return self.run(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        note(_COPIED)
        return copy.deepcopy(self.original, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        note(_COPIED)
        return _in_file(self.original)


def not_compiled(run: Run) -> Run:
    """What `torch.compile` calls as it is: a plan has the operators of its trace, and what is around it is compiled."""
    import torch

    return torch.compiler.disable(run, reason=_NOT_COMPILED)


def _in_file(value: object) -> tuple[Any, ...]:
    """How pickle is to write something else in an object's place, so that reading it takes Python alone."""
    return operator.getitem, ((value,), 0)


def installed(model: torch.nn.Module) -> Installed | None:
    """What is installed in a network; None: nothing."""
    forward = vars(model).get("forward")
    return forward if isinstance(forward, Installed) else None


def has_plan(model: torch.nn.Module) -> bool:
    """True if a plan is installed in a network, or in a part of it."""
    return any(installed(module) is not None for module in model.modules())


def install(model: torch.nn.Module, run: Run) -> Installed:
    """Have a network's own `forward` run a plan.

    Raises:
        PlanError: the network has a plan already, or hooks.
    """
    if model._forward_hooks or model._forward_pre_hooks:
        raise PlanError("the network has forward hooks, which would be called twice: use module()")
    if has_plan(model):
        raise PlanError("the network has a plan already: remove it first")
    vars(model)["forward"] = made = Installed(run, model.forward)
    return made


def remove(model: torch.nn.Module, made: Installed | None) -> None:
    """Give a network its own `forward` back; where another one was put around it, that stays, and calls it.

    Args:
        made: what was installed.

    Raises:
        PlanError: nothing is installed.
    """
    if made is None:
        raise PlanError("no plan is installed")
    made.run = original = made.original
    if vars(model).get("forward") is not made:
        return
    if getattr(original, "__self__", None) is model and original.__name__ == "forward":
        del vars(model)["forward"]
    else:
        vars(model)["forward"] = original


@contextlib.contextmanager
def _inside(model: torch.nn.Module, forward: Run) -> Iterator[None]:
    """Meanwhile a network is called without its hooks, uncompiled, and without what libraries put around `forward`."""
    own = vars(model)
    names = ("forward", "_forward_hooks", "_forward_pre_hooks", _COMPILED)
    former = {name: own.pop(name) for name in names if name in own}
    try:
        own.update(forward=forward, _forward_hooks={}, _forward_pre_hooks={})
        yield
    finally:
        own.update(former)


def check_plannable(model: torch.nn.Module) -> None:
    """Refuse a network whose parameters or calls are another library's.

    Raises:
        PlanError: it has a plan already, is wrapped for training on several devices, or its parameters are sharded, or
            made in inference mode.
    """
    if has_plan(model):
        raise PlanError("the network has a plan already: remove it first")
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind in ("DistributedDataParallel", "DataParallel"):
            text = f"{name or 'the network'} is wrapped in {kind}: plan the network inside, its .module, and install it"
            raise PlanError(text)
        if kind == "FullyShardedDataParallel":
            raise PlanError(f"{name or 'the network'} is sharded by FSDP: a plan is for whole parameters on one device")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_inference():
            raise PlanError(f"'{name}' was made under torch.inference_mode(), no backward pass may read it: clone it")
    sharded = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    for name, parameter in model.named_parameters():
        if sharded is not None and isinstance(parameter, sharded):
            text = f"parameter '{name}' is a DTensor, as FSDP's fully_shard makes them"
            raise PlanError(f"{text}: a plan is for whole parameters on one device")


# --- As a module ----------------------------------------------------------------------------------------------


def planned_module(model: torch.nn.Module, own: Run, has_loss: bool) -> torch.nn.Module:
    """A module that runs a plan; its parameters, buffers and submodules are those of the network, by the same names,
    and so are attributes that it has not itself. Those that the network has are set there.

    Args:
        has_loss: the loss is part of the plan, so that it is called with other arguments than the network.
    """
    import torch

    run = not_compiled(own)

    class PlannedModule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = model.__dict__[name]

        def forward(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
            return run(*args, **kwargs)

        @property
        def training(self) -> bool:
            return model.training

        @training.setter
        def training(self, mode: bool) -> None:
            if "_parameters" in self.__dict__:  # PyTorch's own __init__ sets it before
                model.training = mode

        def train(self, mode: bool = True) -> Self:
            model.train(mode)
            return self

        def __getattr__(self, name: str) -> Any:
            return getattr(model, name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in self.__dict__ and not hasattr(type(self), name) and hasattr(model, name):
                setattr(model, name, value)
            else:
                super().__setattr__(name, value)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return model.state_dict(*args, **kwargs)

        def _load_from_state_dict(self, *args: Any) -> None:
            model._load_from_state_dict(*args)

        def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
            note(_COPIED)
            return copy.deepcopy(model, memo)

        def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
            note(_COPIED)
            return _in_file(model)

    if not has_loss:
        with contextlib.suppress(ValueError):  # nothing is known of it
            like = inspect.signature(model.forward)
            this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            signature = like.replace(parameters=[this, *like.parameters.values()])
            vars(PlannedModule)["forward"].__signature__ = signature
    return PlannedModule()


# --- For each shape that comes --------------------------------------------------------------------------------


class PlannedCalls(Protocol):
    """A plan, as far as running it takes."""

    @property
    def budget(self) -> int:
        """The most that the step may take, in bytes."""

    @property
    def changes(self) -> bool:
        """Is it not the step as it is? Then anything is recomputed, copied or moved."""

    @property
    def step_bytes(self) -> int:
        """Bytes that the step takes without it."""

    @property
    def unchecked(self) -> bool:
        """Is its first call to be compared to the step as it is, as nothing was compared when it was made?"""

    def runtime(self, original: Run | None = None) -> Runtime:
        """What runs it."""


class CallChecks(Protocol):
    """Compares some calls of plans to the step as it is."""

    def first(self, runtime: Runtime) -> None:
        """Compare the first call of this one."""

    def before(self, runtimes: Sequence[Runtime], need: int, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> None:
        """Compare a call that is about to be made, if it is one of those."""


Make = Callable[[tuple["PyTree", ...], dict[str, "PyTree"], "int | None"], PlannedCalls]
"""Makes a plan for arguments and those by name, within a budget in bytes; None: as it was asked for."""
_Shape = tuple[tuple[object, ...], ...]
_Key = tuple[_Shape, "Mode"]
"""What a plan is for: the shapes of inputs, and the mode that the network is in."""
_MOST_VALUES = 4
"""The most plans of one shape and mode for different values that are read: each takes a search."""
_MOST_MODES = 8
"""The most modes of one shape that there are plans for: of more, the one that was not run for longest is forgotten."""
_MOST_NAMED = 3
"""The most differences that a message names."""


@dataclass(frozen=True, eq=False)
class _Way:
    """How a step is run."""

    planned: PlannedCalls
    runtime: Runtime
    as_it_is: bool
    """Nothing has to be recomputed, whatever is read: the network runs without the plan."""
    reads_values: bool
    """The plan is for what the network read when it was made."""
    step_bytes: int
    """Bytes that the step takes as it is."""


class ByShape:
    """Runs the plan for the shapes and the mode that it is called with, made when they come for the first time.

    The mode is which parameters require a gradient, which modules are in training mode, and autocast, so that networks
    that are frozen in turns have a plan for each turn. Where nothing has to be recomputed to stay within the budget, or
    nothing has a gradient, the network runs as it is. A network that reads values, such as whether a mask is all true,
    has a plan for each that comes, up to a few.
    """

    def __init__(
        self, model: torch.nn.Module, make: Make, original: Run, plans: Sequence[PlannedCalls] = (),
        installed: bool = False, checks: CallChecks | None = None,
    ) -> None:  # fmt: skip
        """Begin with the plans that are there.

        Args:
            original: the step without a plan.
            installed: that is the network's own `forward`, in whose place this is.
            checks: compares some calls to the step as it is.
        """
        self.checks = checks
        self.model, self.make, self.original, self.is_installed = model, make, original, installed
        self.plans: list[PlannedCalls] = []
        self._guards: Guards | None = None
        """The guards of the first plan: they know the call and the modules, whatever the shapes and the mode."""
        self._budget: int | None = None
        """Bytes: what the budget of the first plan came to."""
        self._ways: dict[_Key, list[_Way]] = {}
        """For each shape and mode, those that were run last at the end; ways by the values that are read, the one that
        was run last first; empty: there is no backward pass."""
        for each in plans:
            self._add(each)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        import torch

        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        if self._guards is None:
            if not _has_gradients(self.model, args, kwargs):
                return self.original(*args, **kwargs)
            self._guards = self._plan(args, kwargs)
        guards, call = self._guards, self._guards.call
        tensors = call.tensors(args, kwargs)
        shape = tuple((each.shape, each.stride(), each.dtype, each.device, each.requires_grad) for each in tensors)
        key = shape, guards.mode()
        if key not in self._ways:
            self._forget_one(shape)
            with self._named(guards, tensors):
                try:
                    self._plan(*call.arranged(args, kwargs))
                except NothingToPlanError:
                    self._ways[key] = []
        ways = self._ways[key] = self._ways.pop(key)
        if not ways:
            return self.original(*args, **kwargs)
        if self.checks is not None:
            planned = [each.runtime for each in ways if not each.as_it_is]
            self.checks.before(planned, ways[0].step_bytes, args, kwargs)
        if ways[0].as_it_is:
            return self.original(*args, **kwargs)
        if not ways[0].reads_values:
            return ways[0].runtime.run(tensors)
        return self._for_values(ways, tensors, *call.arranged(args, kwargs))

    def _for_values(
        self, ways: list[_Way], tensors: Sequence[torch.Tensor], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> PyTree:
        """Run the plan for the values that the network reads in this step, made if there is none.

        Raises:
            PlanError: there are too many already.
        """
        for way in [*ways]:
            restore = self._undone(way.runtime)
            try:
                output = way.runtime.run(tensors)
            except OtherValueError:
                if way is ways[-1] and len(ways) >= _MOST_VALUES:
                    raise
                restore()
                continue
            ways.remove(way)
            ways.insert(0, way)
            return output
        self._plan(args, kwargs)
        return ways[0].runtime.run(tensors)

    def _undone(self, runtime: Runtime) -> Callable[[], None]:
        """What undoes a step that has begun: the random states and buffers are as they are now."""
        import torch

        state, device = runtime.guards.state(), runtime.guards.given[0].form.device
        buffers = [(state[at], state[at].clone()) for at in runtime.overwritten]
        generators = [(each, each.get_state()) for each in map(generator_of, sorted({CPU, device}))]

        def restore() -> None:
            with torch.no_grad():
                for buffer, former in buffers:
                    buffer.copy_(former)
            for generator, former in generators:
                generator.set_state(former)

        return restore

    def _forget_one(self, shape: _Shape) -> None:
        """Forget the plans for a mode of a shape where there are too many."""
        keys = [key for key in self._ways if key[0] == shape]
        if len(keys) >= _MOST_MODES:
            gone = {id(way.planned) for way in self._ways.pop(keys[0])}
            self.plans = [each for each in self.plans if id(each) not in gone]
            note(f"a plan is forgotten: there are {_MOST_MODES} of its shape, for other modes of the network")

    def _plan(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Guards:
        """Make a plan for a call; returns what it takes for granted."""
        with _inside(self.model, self.original) if self.is_installed else contextlib.nullcontext():
            return self._add(self.make(args, kwargs, self._budget))

    def _add(self, made: PlannedCalls) -> Guards:
        import torch

        runtime = made.runtime(self.original)
        forms = [each.form for each in runtime.guards.given if each.kind == INPUT]
        shape = tuple(
            (one.shape, one.stride, getattr(torch, one.dtype), torch.device(one.device), one.requires_grad)
            for one in forms
        )
        reads_values = any(map(is_check, runtime.joint.nodes))
        way = _Way(made, runtime, not made.changes and not reads_values, reads_values, made.step_bytes)
        if made.unchecked and self.checks is not None:
            self.checks.first(runtime)
        self.plans.append(made)
        self._ways.setdefault((shape, runtime.guards.planned_mode()), []).insert(0, way)
        self._guards, self._budget = self._guards or runtime.guards, self._budget or made.budget
        return runtime.guards

    @contextlib.contextmanager
    def _named(self, guards: Guards, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Have an error name the shapes and modes that are new."""
        try:
            yield
        except NoPlanError as error:
            inputs = [each for each in guards.given if each.kind == INPUT]
            new = [_new(each, form) for each, form in zip(inputs, map(Form.of, tensors), strict=True)]
            new = [*filter(None, new), *guards.differences(guards.mode())]
            more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
            raise NoPlanError(f"for {', '.join(new[:_MOST_NAMED])}{more}: {error}") from None


def _new(given: Placeholder, form: Form) -> str:
    """What is different of an input, for messages; "" if nothing is."""
    if form == given.form:
        return ""
    if (form.shape, form.dtype) != (given.form.shape, given.form.dtype):
        return f"{given.name} of {form}"
    parts = [part for part in ("device", "stride", "requires_grad") if getattr(form, part) != getattr(given.form, part)]
    return f"{given.name} with " + ", ".join(f"{part.replace('_', ' ')} {getattr(form, part)}" for part in parts)


def _has_gradients(model: torch.nn.Module, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> bool:
    """True if anything that a network is given, or has, requires a gradient."""
    tensors = Structure.of((args, kwargs))[1]
    return any(each.requires_grad for each in (*model.parameters(), *model.buffers(), *tensors))
