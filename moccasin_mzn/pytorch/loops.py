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

from moccasin_mzn.log import note
from moccasin_mzn.pytorch.call import Form
from moccasin_mzn.pytorch.devices import CPU, generator_of
from moccasin_mzn.pytorch.errors import NoPlanError, OtherValueError, PlanError
from moccasin_mzn.pytorch.joint import INPUT
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    from typing import Any, Self

    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.runtime import Runtime

Run = Callable[..., "PyTree"]
"""A training step: what the network is called with, and what it returns."""
_COPIED = "a copy of a network with a plan, also in a file, is the network without it: a plan is for its own parameters"


# --- Installed: the network's own `forward` runs the plan ------------------------------------------------------


class Installed:
    """What stands in the place of a network's `forward`, with the signature of that."""

    def __init__(self, run: Run, original: Run) -> None:
        self.run, self.original = run, original
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
    """Meanwhile a network is called without its hooks and what other libraries put around its `forward`."""
    own = vars(model)
    former = {name: own[name] for name in ("forward", "_forward_hooks", "_forward_pre_hooks")}
    try:
        own.update(forward=forward, _forward_hooks={}, _forward_pre_hooks={})
        yield
    finally:
        own.update(former)


def check_plannable(model: torch.nn.Module) -> None:
    """Refuse a network whose parameters or calls are another library's.

    Raises:
        PlanError: it has a plan already, is wrapped for training on several devices, or its parameters are sharded.
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
    sharded = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    for name, parameter in model.named_parameters():
        if sharded is not None and isinstance(parameter, sharded):
            text = f"parameter '{name}' is a DTensor, as FSDP's fully_shard makes them"
            raise PlanError(f"{text}: a plan is for whole parameters on one device")


# --- As a module ----------------------------------------------------------------------------------------------


def planned_module(model: torch.nn.Module, run: Run, has_loss: bool) -> torch.nn.Module:
    """A module that runs a plan; its parameters, buffers and submodules are those of the network, by the same names,
    and so are attributes that it has not itself. Those that the network has are set there.

    Args:
        has_loss: the loss is part of the plan, so that it is called with other arguments than the network.
    """
    import torch

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
            own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            signature = like.replace(parameters=[own, *like.parameters.values()])
            vars(PlannedModule)["forward"].__signature__ = signature
    return PlannedModule()


# --- For each shape that comes --------------------------------------------------------------------------------


class Planned(Protocol):
    """A plan, as far as running it takes."""

    @property
    def budget(self) -> int:
        """The most that the step may take, in bytes."""

    @property
    def repeats(self) -> bool:
        """Is anything recomputed or copied?"""

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


Make = Callable[[tuple["PyTree", ...], dict[str, "PyTree"], "int | None"], Planned]
"""Makes a plan for arguments and those by name, within a budget in bytes; None: as it was asked for."""
_Shape = tuple[tuple[object, ...], ...]
_MOST_VALUES = 4
"""So many plans of one shape for different values that are read: each takes a search."""


@dataclass(frozen=True, eq=False)
class _Way:
    """How a step is run."""

    runtime: Runtime
    as_it_is: bool
    """Nothing has to be recomputed, whatever is read: the network runs without the plan."""
    reads_values: bool
    """The plan is for what the network read when it was made."""
    step_bytes: int
    """Bytes that the step takes as it is."""


class ByShape:
    """Runs the plan for the shapes that it is called with, which is made when they come for the first time.

    Where nothing has to be recomputed to stay within the budget, the network runs as it is. A network that reads
    values, such as whether a mask is all true, has a plan for each that comes, up to a few.
    """

    def __init__(
        self, model: torch.nn.Module, make: Make, original: Run, plans: Sequence[Planned] = (),
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
        self.plans: list[Planned] = []
        self._ways: dict[_Shape, list[_Way]] = {}
        """For each shape, the one that was run last first."""
        for each in plans:
            self._add(each)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        import torch

        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        if not self.plans:
            self._plan(args, kwargs)
        call = self._first.guards.call
        tensors = call.tensors(args, kwargs)
        shape = tuple((each.shape, each.stride(), each.dtype, each.device, each.requires_grad) for each in tensors)
        if shape not in self._ways:
            with self._named(tensors):
                self._plan(*call.arranged(args, kwargs))
        ways = self._ways[shape]
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

    @property
    def _first(self) -> Runtime:
        return next(iter(self._ways.values()))[0].runtime

    def _plan(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> None:
        """Make a plan for a call."""
        with _inside(self.model, self.original) if self.is_installed else contextlib.nullcontext():
            self._add(self.make(args, kwargs, self.plans[0].budget if self.plans else None))

    def _add(self, made: Planned) -> None:
        import torch

        runtime = made.runtime(self.original)
        forms = [each.form for each in runtime.guards.given if each.kind == INPUT]
        shape = tuple(
            (one.shape, one.stride, getattr(torch, one.dtype), torch.device(one.device), one.requires_grad)
            for one in forms
        )
        reads_values = any(map(is_check, runtime.joint.nodes))
        way = _Way(runtime, not made.repeats and not reads_values, reads_values, made.step_bytes)
        if made.unchecked and self.checks is not None:
            self.checks.first(runtime)
        self.plans.append(made)
        self._ways.setdefault(shape, []).insert(0, way)

    @contextlib.contextmanager
    def _named(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Have an error name the shapes that are new."""
        try:
            yield
        except NoPlanError as error:
            inputs = [each for each in self._first.guards.given if each.kind == INPUT]
            pairs = zip(inputs, map(Form.of, tensors), strict=True)
            new = ", ".join(f"{each.name} of {form}" for each, form in pairs if form != each.form)
            raise NoPlanError(f"for {new}: {error}") from None
