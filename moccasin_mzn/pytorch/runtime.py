"""Running a plan: its code, the guards of what it was made for, and the function of autograd around it.

The code is two graphs of PyTorch, whose Python functions free every value after its last use.

    forward([parameters, buffers, inputs])      -> [outputs, what is kept]
    backward([what is kept, tangents, parameters to whose `.grad` gradients are added])  -> gradients

Both empty the list that they are given, so that nothing outside keeps alive what they are done with.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol

from moccasin_mzn.doc_links import Page
from moccasin_mzn.pytorch.attributes import Attributes
from moccasin_mzn.pytorch.binding import Call
from moccasin_mzn.pytorch.call import Form
from moccasin_mzn.pytorch.devices import is_on, switch_text
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.gradients import check_parameters, targets
from moccasin_mzn.pytorch.instructions import Instruction, Linear, Value
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, TANGENT, Joint, Placeholder
from moccasin_mzn.pytorch.settings import Settings

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.fx.graph import CodeGen, PythonCode
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.gradients import AccumulateGrad


@dataclass(frozen=True, eq=False)
class Code:
    """Two functions, and what they take and give."""

    forward: Callable[[list[torch.Tensor | None]], Sequence[torch.Tensor]]
    backward: Callable[[list[torch.Tensor | None]], Sequence[torch.Tensor]]
    taken: tuple[int, ...]
    """The placeholders that the forward function takes, by position."""
    kept_given: tuple[int, ...]
    """The placeholders that the backward function takes before the tangents."""
    added: tuple[int, ...]
    """The placeholders that the backward function takes after the tangents: parameters that it gives gradients to."""
    outputs: int
    """So many of what the forward function gives are outputs; the others are kept."""
    constants: tuple[torch.Tensor, ...] = ()
    """Tensors of the network that are neither parameters, nor buffers, nor inputs, and that the backward function
    reads."""


def emitted(joint: Joint, plan: Linear) -> Code:
    """The code of a plan."""
    from torch import fx

    position = {node: at for at, node in enumerate(joint.given)}
    tangents = [plan.given[node] for node in joint.of_kind(TANGENT)]
    added = list(plan.added.values())
    kept, taken, kept_given = (
        handed_on(plan),
        placeholders_read(plan, plan.forward),
        placeholders_read(plan, plan.backward),
    )
    forward = graph_of(plan.forward, taken, [*plan.outputs, *kept], plan.given)
    backward = graph_of(plan.backward, [*kept, *kept_given, *tangents, *added], plan.gradients, plan.given)
    for graph in (forward, backward):
        graph.set_codegen(_boxed())
    names = [str(node.target) for node in backward.find_nodes(op="get_attr")]
    captured = [operator.attrgetter(name)(joint.graph_module) for name in names]
    return Code(
        fx.GraphModule(joint.graph_module, forward), fx.GraphModule(joint.graph_module, backward),
        tuple(position[value.given] for value in taken if value.given),
        tuple(position[value.given] for value in kept_given if value.given),
        tuple(position[node] for node in plan.added), len(plan.outputs), tuple(captured),
    )  # fmt: skip


def handed_on(plan: Linear) -> list[Value]:
    """What the forward pass makes and the backward pass reads."""
    made = {instruction.value for instruction in plan.forward}
    results = [value for value in plan.gradients if value is not None]
    return [value for value in dict.fromkeys([*_read(plan.backward), *results]) if value in made]


def placeholders_read(plan: Linear, instructions: Sequence[Instruction]) -> list[Value]:
    """Parameters, buffers and inputs that some instructions read, but for those that gradients are added to."""
    others = set(plan.added.values())
    return [
        value for value in _read(instructions)
        if value.given is not None and value.given.op == "placeholder" and value not in others
        and value.storage is not None and value.storage.given != TANGENT
    ]  # fmt: skip


def _read(instructions: Sequence[Instruction]) -> list[Value]:
    return list(dict.fromkeys(value for instruction in instructions for value in instruction.reads))


def graph_of(
    instructions: Sequence[Instruction], arguments: Sequence[Value], results: Sequence[object],
    given: Mapping[fx.Node, Value],
) -> fx.Graph:  # fmt: skip
    """Instructions as a graph of PyTorch; of the results those that are no values are returned as they are."""
    from torch import fx

    graph = fx.Graph()
    nodes: dict[Value, fx.Node] = {}
    names: set[str] = set()
    for at, value in enumerate(arguments):
        name = f"a{at}" if value.given is None or value.given.name in names else value.given.name
        names.add(name)  # of two by one name the second would be taken for both
        nodes[value] = graph.placeholder(name)
    read = set(_read(instructions))
    for node, value in given.items():
        if node.op == "get_attr" and value in read:
            nodes[value] = graph.get_attr(str(node.target))
    for instruction in instructions:
        args, kwargs = _filled((instruction.args, dict(instruction.kwargs)), nodes)
        assert callable(instruction.target)
        made = nodes[instruction.value] = graph.call_function(instruction.target, args, kwargs)
        if instruction.node is not None:
            made.meta["val"] = instruction.node.meta.get("val")
    for value, node in nodes.items():
        if value.fake is not None:
            node.meta["val"] = value.fake
    returned: PyTree = tuple(nodes[value] if isinstance(value, Value) else value for value in results)
    graph.output(returned)
    return graph


def _filled(arguments: PyTree, nodes: Mapping[Value, fx.Node]) -> PyTree:
    if isinstance(arguments, Value):
        return nodes[arguments]
    if isinstance(arguments, dict):
        return {name: _filled(each, nodes) for name, each in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(_filled(each, nodes) for each in arguments)
    return arguments


def _bound(code: PythonCode) -> PythonCode:
    """The code with operators as names of its own, found and called sooner than `torch.ops.aten.t.default`."""
    import torch

    found: dict[str, object] = {}

    def name(match: re.Match[str]) -> str:
        own = match[1].replace(".", "_")
        found[own] = operator.attrgetter(match[1])(torch.ops)._op
        return f"{own}("

    source = re.sub(r"(?<![\w.])torch\.ops\.(\w+\.\w+\.\w+)\(", name, code.src)
    return replace(code, src=source, globals={**code.globals, **found})


def _boxed() -> CodeGen:
    from torch.fx.graph import CodeGen

    class Boxed(CodeGen):
        """Functions of one list, which they empty."""

        def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: object) -> str:
            names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
            taken = f"    {', '.join(names)}, = boxed; boxed.clear()" if names else "    pass"
            return f"def {self._func_name}(self, boxed):\n{taken}"

        def _gen_python_code(self, *args: PyTree, **kwargs: PyTree) -> PythonCode:
            return _bound(super()._gen_python_code(*args, **kwargs))

    return Boxed()


# --- What a plan takes for granted, checked at every call: whatever is different is reported in one sentence ------


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
    settings: Settings = field(default_factory=Settings.now)

    @classmethod
    def of(cls, joint: Joint, call: Call) -> Guards:
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
        return cls(call, given, stand, training, autocast_now(), joint.attributes, joint.recurrent)

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
            PlanError: anything is different.
        """
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
                raise PlanError(f"planned in {modes[1]} mode, {_called(name)} is in {modes[0]} mode{_EACH}")
        now = autocast_now()
        if now != self.autocast:
            raise PlanError(f"planned {autocast_text(self.autocast)}, called {autocast_text(now)}{_EACH}")
        for device in filter(is_on, self.recurrent):
            raise PlanError(switch_text(device))
        self.settings.check()
        self.attributes.check()


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


# --- A plan as a function of autograd, and the step that people call ------------------------------------------


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
