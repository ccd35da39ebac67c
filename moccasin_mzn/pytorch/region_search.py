"""The parts of a network that a plan can be for: the largest submodules that can be traced as the network calls them.

    network              reads values                   runs as it is
      encoder            traced                         a region
      router             its inputs have a shape that depends on values
      decoder            draws numbers by Python's random
        layers.0         traced                         a region
        layers.1         traced                         a region

The step is run twice: once to see which outputs of each submodule get a gradient, and once to trace each submodule,
from the network downwards, on the arguments that it is called with.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from weakref import finalize

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.graphs.importers.torch.spec import one_line
from moccasin_mzn.pytorch.call import Form, Step, Structure, output_names
from moccasin_mzn.pytorch.checkpoints import plain_checkpoints
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.gradients import RETURNED
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.joint import Joint
from moccasin_mzn.pytorch.operator_process import NO_DEADLINE
from moccasin_mzn.pytorch.steps import Copies
from moccasin_mzn.pytorch.summands import edge_of, nodes_behind
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.pytorch.values import is_check, shaped_by_values

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_LEAST_SHARE = 0.01
"""A submodule that keeps less than this fraction of what all keep for the backward pass is no region."""


@dataclass(frozen=True, eq=False)
class Region:
    """A submodule as it is called."""

    name: str
    """In the network; "" for the network itself."""
    traced: Traced = field(repr=False)
    calls: int
    """How often it is called so in a step."""


@dataclass(frozen=True, eq=False)
class Found:
    """The parts of a network."""

    regions: tuple[Region, ...]
    outside: Mapping[str, str]
    """Why submodules that were tried are no regions, by name."""


def find_regions(
    step: Step, scratch: Copies, within: Collection[str], gradients: str, limit: Deadline = NO_DEADLINE
) -> Found:
    """The largest submodules that can be traced, do not depend on values, and keep enough to be worth a plan.

    Args:
        step: what is run.
        scratch: makes copies of its state.
        within: names of submodules; others are no regions, and nothing in them is.
        gradients: see `plan`.
        limit: no submodule is traced after it.

    Raises:
        PlanError: there are none.
    """
    chosen = {
        name: module
        for name, module in step.model.named_modules()
        if any(not top or name == top or name.startswith(f"{top}.") for top in within)
    }
    shapes = _Shapes()
    search = _Search(gradients, shapes, limit)
    with scratch() as copy, _calling(chosen, search.note_gradients):
        copy.step(step, search.note_readers)
    search.calls.clear()
    with scratch() as copy, plain_checkpoints(), shapes.followed(), _calling(chosen, search.trace):
        args, kwargs = copy.arguments
        step(*args, **kwargs)
    found = search.found()
    if not found.regions:
        reasons = "; ".join(f"{name or 'the network'}: {why}" for name, why in [*found.outside.items()][:3])
        raise PlanError(f"no submodule can be planned{': ' + reasons if reasons else ''}")
    return found


Called = Callable[["_Call"], "PyTree"]


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of a submodule while the step runs."""

    name: str
    module: torch.nn.Module
    original: Callable[..., PyTree]
    args: tuple[PyTree, ...]
    kwargs: Mapping[str, PyTree]

    def run(self) -> PyTree:
        return self.original(*self.args, **self.kwargs)


@contextlib.contextmanager
def _calling(modules: Mapping[str, torch.nn.Module], called: Called) -> Iterator[None]:
    """Meanwhile a function is called instead of each submodule's `forward`, as a plan would be."""
    import torch

    patched: list[tuple[torch.nn.Module, dict[str, object]]] = []
    for name, module in {id(each): (name, each) for name, each in reversed([*modules.items()])}.values():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        own = {"forward": module.__dict__["forward"]} if "forward" in module.__dict__ else {}
        patched.append((module, own))
        module.__dict__["forward"] = _Instead(name, module, module.forward, called)
    try:
        yield
    finally:
        for module, own in patched:
            module.__dict__.pop("forward", None)
            module.__dict__.update(own)


@dataclass(frozen=True, eq=False)
class _Instead:
    """What is called instead of a submodule's `forward`."""

    name: str
    module: torch.nn.Module
    original: Callable[..., PyTree]
    called: Called

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        return self.called(_Call(self.name, self.module, self.original, args, kwargs))


@contextlib.contextmanager
def _as_it_is(module: torch.nn.Module) -> Iterator[None]:
    """Meanwhile nothing is called instead of a module's `forward`, nor of those in it."""
    replaced = [(each, each.__dict__["forward"]) for each in module.modules() if "forward" in each.__dict__]
    replaced = [(each, forward) for each, forward in replaced if isinstance(forward, _Instead)]
    for each, forward in replaced:
        del each.__dict__["forward"]
        if getattr(forward.original, "__self__", None) is not each:
            each.__dict__["forward"] = forward.original
    try:
        yield
    finally:
        for each, forward in replaced:
            each.__dict__["forward"] = forward


_Key = tuple[str, int]
"""A submodule's name, and the number of its call."""


_Edge = tuple["torch.autograd.graph.Node | None", int]


@dataclass(frozen=True, eq=False)
class _Reading:
    """What a call of a submodule reads."""

    edges: Mapping[int, _Edge]
    """For what requires a gradient, by position, where its gradient is added up."""
    begin: int
    end: int
    """Autograd's nodes of the call have sequence numbers between these."""
    state: int
    """How many of the positions are those of parameters and buffers."""


def _sequence_number() -> int:
    """The sequence number of the next node of autograd, which is made for that."""
    import torch

    node = torch.ones((), requires_grad=True).neg().grad_fn
    return 0 if node is None else node._sequence_nr()


@dataclass
class _Search:
    gradients: str
    shapes: _Shapes
    limit: Deadline = NO_DEADLINE
    used: dict[_Key, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    """The outputs of each call that get a gradient, with the strides of that."""
    reading: dict[_Key, _Reading] = field(default_factory=dict)
    apart: dict[str, set[int]] = field(default_factory=dict)
    """What each submodule reads and others read as well, by position among parameters, buffers and inputs."""
    calls: Counter[str] = field(default_factory=Counter)
    """How often each submodule was called so far."""
    traces: dict[str, list[Traced]] = field(default_factory=dict)
    """The forms that each region is called in."""
    counts: Counter[Traced] = field(default_factory=Counter)
    outside: dict[str, str] = field(default_factory=dict)

    def _key(self, call: _Call) -> _Key:
        self.calls[call.name] += 1
        return call.name, self.calls[call.name]

    def note_gradients(self, call: _Call) -> PyTree:
        """Run a submodule, and note the outputs whose gradients the backward pass computes."""
        key = self._key(call)
        used = self.used[key] = dict[str, tuple[int, ...]]()
        state = [*dict(call.module.named_parameters()).values(), *dict(call.module.named_buffers()).values()]
        given = [*state, *Structure.of((call.args, dict(call.kwargs)))[1]]
        edges = {at: edge_of(each) for at, each in enumerate(given) if each.requires_grad}
        began = _sequence_number()
        returned = call.run()
        self.reading[key] = _Reading(edges, began, _sequence_number(), len(state))
        for name, output in zip(output_names(returned), Structure.of(returned)[1], strict=True):
            if output.requires_grad:
                output.register_hook(partial(_note_used, used, name))
        return returned

    def note_readers(self, outputs: Sequence[torch.Tensor]) -> None:
        """Note which tensors each submodule reads that others read as well, so that their gradients have summands of
        several: those are added up in the order in which they come."""
        readers: dict[_Edge, list[int]] = {}
        for node in nodes_behind(outputs):
            for edge in node.next_functions:
                readers.setdefault(edge, []).append(node._sequence_nr())
        for (name, _), reading in self.reading.items():
            edges = [*reading.edges.values()]
            for at, edge in reading.edges.items():
                own = at >= reading.state or self.gradients == RETURNED
                outside = any(not reading.begin < number < reading.end for number in readers.get(edge, ()))
                if own and (outside or edges.count(edge) > 1):
                    self.apart.setdefault(name, set()).add(at)
        self.reading.clear()

    def trace(self, call: _Call) -> PyTree:
        """Run a submodule; what can be traced of it on these arguments becomes a region."""
        import torch

        used = self.used.get(self._key(call))
        if used and torch.is_grad_enabled() and call.name not in self.outside:
            with _as_it_is(call.module):
                if self._is_region(call, used):
                    return call.run()
        return call.run()

    def _is_region(self, call: _Call, used: dict[str, tuple[int, ...]]) -> bool:
        from torch.utils._python_dispatch import _disable_current_modes

        arguments, tensors = Structure.of((call.args, dict(call.kwargs)))
        forms = tuple(Form.of(tensor) for tensor in tensors)
        known = self.traces.get(call.name, [])
        for traced in known:
            if traced.forms == forms and traced.arguments.matches(arguments):
                self.counts[traced] += 1
                return True
        if self.limit.over():
            why = "there was no time to trace it"
        elif self.shapes.depend(tensors):
            why = "the shape of an input depends on values"
        else:
            with _disable_current_modes():
                why = self._traced(call, arguments, tensors, used)
        if why and not known:
            self.outside[call.name] = why
        return not why or bool(known)

    def _traced(
        self, call: _Call, arguments: Structure, tensors: Sequence[torch.Tensor], used: dict[str, tuple[int, ...]]
    ) -> str:
        """Trace a submodule; why it is no region, or "" if it is one."""
        module = call.module
        if module._forward_hooks or module._forward_pre_hooks:
            return "it has forward hooks"
        try:
            traced = Traced.of(
                Step(module), arguments, [Form.of(each) for each in tensors], gradients=self.gradients,
                differentiate=tuple(sorted(used)), numbers=tensors,
                apart=self.apart.get(call.name, ()),
                strides=used, limit=self.limit,
            )  # fmt: skip
        except PlanError as error:
            return error.reason
        except Exception as error:  # an operator that cannot be traced, or whatever the network raises then
            return f"{type(error).__name__}: {one_line(error)}"
        why = _values_read(traced.joint)
        if not why:
            self.traces.setdefault(call.name, []).append(traced)
            self.counts[traced] += 1
        return why

    def found(self) -> Found:
        """The regions that keep enough for the backward pass."""
        kept = {each: self.counts[each] * _kept(each) for forms in self.traces.values() for each in forms}
        least = _LEAST_SHARE * sum(kept.values())
        regions = [
            Region(name, traced, self.counts[traced])
            for name, forms in self.traces.items()
            for traced in forms
            if kept[traced] >= least
        ]
        return Found(tuple(regions), self.outside)


def _note_used(used: dict[str, tuple[int, ...]], name: str, gradient: torch.Tensor) -> None:
    used[name] = tuple(gradient.stride())


def _kept(traced: Traced) -> int:
    return peaks(traced.linear(traced.problem.graph.input_order())).kept


def _values_read(joint: Joint) -> str:
    """Which values of tensors a traced step reads that may be others in the next one; "": none."""
    varying = {*joint.given}
    for node in joint.nodes:
        if varying.intersection(node.all_input_nodes):
            varying.add(node)
            if is_check(node):
                return f"it reads values: {node.args[3]}"
    return ""


class _Shapes:
    """Which sizes of tensors depend on values, followed from operator to operator while a step runs."""

    def __init__(self) -> None:
        self.sizes: dict[int, frozenset[int]] = {}
        """By the identity of a storage that is alive."""

    def depend(self, tensors: Iterable[torch.Tensor]) -> bool:
        """True if a size of one of these tensors does."""
        return any(self._of(tensor).intersection(tensor.shape) for tensor in tensors)

    def _of(self, tensor: torch.Tensor) -> frozenset[int]:
        return self.sizes.get(id(tensor.untyped_storage()), frozenset()) if tensor.layout is _strided() else frozenset()

    def _note(self, tensor: torch.Tensor, sizes: frozenset[int]) -> None:
        if not sizes or tensor.layout is not _strided():
            return
        storage = tensor.untyped_storage()
        if id(storage) not in self.sizes:
            finalize(storage, self.sizes.pop, id(storage), None).atexit = False
        self.sizes[id(storage)] = self.sizes.get(id(storage), frozenset()) | sizes

    def called(self, function: torch._ops.OpOverload, read: Sequence[torch.Tensor], made: PyTree) -> None:
        """Note what an operator has made: sizes that its values have decided, and those that come of such ones."""
        import torch
        from torch.utils._pytree import tree_leaves

        known = frozenset(size for each in read for size in self._of(each).intersection(each.shape))
        usual = frozenset(size for each in read for size in each.shape) - known
        for output in tree_leaves(made):
            if not isinstance(output, torch.Tensor):
                continue
            if function is torch.ops.aten.index.Tensor and shaped_by_values(function, _indices(read)):
                masks = [each for each in read[1:] if each.dtype in (torch.bool, torch.uint8)]
                self._note(output, known | {int(mask.count_nonzero()) for mask in masks})
            elif torch.Tag.dynamic_output_shape in function.tags and function is not torch.ops.aten.index.Tensor:
                self._note(output, known | frozenset(output.shape[:1]))
            elif known:
                self._note(output, frozenset(size for size in output.shape if size in known or size not in usual))

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Meanwhile operators are followed."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        shapes = self

        class Followed(TorchDispatchMode):
            def __torch_dispatch__(
                self, function: torch._ops.OpOverload, types: object, args: PyTree = (), kwargs: PyTree = None
            ) -> PyTree:
                read = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
                made = function(*args, **(kwargs or {}))
                shapes.called(function, read, made)
                return made

        with Followed():
            yield


def _indices(read: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return read[0], list(read[1:])


def _strided() -> torch.layout:
    import torch

    return torch.strided
