"""A training step traced as one graph: forward and backward pass, where the gradients of its outputs are inputs. ::

    placeholders: parameters, buffers, inputs, tangents (the gradient of something with respect to each output)
    results: outputs, then gradients of parameters and inputs

So a loss may be scaled, summed over several calls or computed outside, and what belongs to the backward pass is known.
Functions under `torch.utils.checkpoint` are called plainly: what is recomputed is for the plan to choose.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.base.errors import shown
from moccasin_mzn.graphs.importers.torch.paths import PATH, Paths, traced_so_far
from moccasin_mzn.graphs.importers.torch.spec import line_of, one_line
from moccasin_mzn.graphs.importers.torch.trace import (
    fake_state,
    other_state,
    parameters_put_back,
    quiet,
    reads_values,
    scratch,
)
from moccasin_mzn.pytorch.attributes import Attributes, Reading, attributes_read
from moccasin_mzn.pytorch.call import Form, Step, Structure, argument_names, misfit, output_names
from moccasin_mzn.pytorch.checkpoints import plain_checkpoints
from moccasin_mzn.pytorch.devices import (
    autocast_cache,
    draws,
    forked_random_state,
    no_autocast,
    none_drawn_by_python,
    recurrent_cells,
)
from moccasin_mzn.pytorch.errors import NothingToPlanError, NoTimeError, PlanError, UntraceableError
from moccasin_mzn.pytorch.repetition import Calls, calls_noted, check_repeated
from moccasin_mzn.pytorch.settings import check_no_global_hooks
from moccasin_mzn.pytorch.summands import summands
from moccasin_mzn.pytorch.values import reading, with_checks

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch._subclasses.fake_tensor import FakeTensorMode


Strides = Mapping[str, tuple[int, ...]]
Differentiate: TypeAlias = str | int | Sequence[str | int] | None
_COMPILED = "FX to symbolically trace a dynamo-optimized function"
"""PyTorch's message where it traces what is compiled."""

PARAMETER, BUFFER, INPUT, TANGENT = "parameter", "buffer", "input", "tangent"
"""What a placeholder is."""
_FORWARD = "moccasin_forward"


@dataclass(frozen=True)
class Placeholder:
    """One of the tensors that a traced step takes."""

    name: str
    """Name of a parameter or buffer in the network; for an input or a tangent, a name for people."""
    kind: str
    form: Form
    leaf: bool = False
    """Autograd accumulates its gradient, and takes it as it is if its layout is the same; of parameters it is known."""


@dataclass(frozen=True, eq=False)
class Joint:
    """A traced step."""

    graph_module: fx.GraphModule
    given: Mapping[fx.Node, Placeholder] = field(repr=False)
    """In the order of the placeholders: parameters, buffers, inputs, tangents."""
    outputs: tuple[fx.Node, ...]
    """The tensors that the step returns."""
    differentiable: tuple[bool, ...]
    """For each output: is there a tangent? Its gradient is then an input of the backward pass."""
    gradients: tuple[fx.Node | None, ...]
    """For each of `wanted`; None: the outputs do not depend on it."""
    backward: frozenset[fx.Node]
    """The traced nodes of the backward pass."""
    returned: Structure
    """What the outputs stand in."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """The outputs that require a gradient and get none in this plan, with their names."""
    attributes: Attributes | None = field(default=None, repr=False)
    """What the network read besides its tensors; None while it is traced."""
    apart: tuple[fx.Node, ...] = field(default=(), repr=False)
    """Placeholders whose gradients are returned summand by summand, in the order in which autograd adds them up: each
    as often as it has summands."""
    recurrent: frozenset[str] = frozenset()
    """Devices of recurrent layers that were traced as cells, and would be one operator of a library that is off."""

    @property
    def nodes(self) -> list[fx.Node]:
        return list(self.graph_module.graph.nodes)

    def of_kind(self, *kinds: str) -> list[fx.Node]:
        """The placeholders of some kinds."""
        return [node for node, placeholder in self.given.items() if placeholder.kind in kinds]

    @property
    def wanted(self) -> list[fx.Node]:
        """The placeholders that require a gradient, and those of `apart`."""
        own = [node for node, given in self.given.items() if given.form.requires_grad and given.kind != TANGENT]
        return [*own, *self.apart]


def trace_joint(
    step: Step, arguments: Structure, forms: Sequence[Form], differentiate: Differentiate = None,
    numbers: Sequence[torch.Tensor] | None = None, apart: Collection[int] = (), strides: Strides | None = None,
    check: Callable[..., object] = nothing,
) -> Joint:  # fmt: skip
    """Trace a step, on fake tensors, so that nothing of the network's size is made, or on numbers, as it is run.

    Args:
        arguments: positional ones and those by name, as a pair.
        forms: of the tensors among them.
        differentiate: the outputs that get a gradient, see `differentiated`.
        numbers: the tensors among them: the step is run on copies of them and of the network's buffers, and what it
            reads is compared in each step of a plan. None: on fake tensors, from which nothing can be read.
        apart: positions of parameters, buffers and inputs whose gradients are returned summand by summand.
        strides: of the gradients of outputs, by name, where they are laid out in another way than the outputs.
        check: called before each operator, for as long as tracing may take; what it raises ends that.

    Raises:
        PlanError: the network has data-dependent control flow, nothing in it requires a gradient, or it takes other
            inputs.
        Exception: whatever the network raises.
    """
    import torch

    check_no_global_hooks()
    with (
        quiet(), forked_random_state(), plain_checkpoints(), torch.enable_grad(), recurrent_cells(step.model) as cells,
        _inputs(step.model, forms, numbers) as (inputs, mode),
        attributes_read(step.model, {"the loss": step.loss, "arguments": arguments.rest}) as reading,
    ):  # fmt: skip
        try:
            joint = _trace(step, arguments, inputs, mode, differentiate, reading, sorted(apart), strides or {}, check)
        except NoTimeError:
            raise
        except Exception as error:
            wrong = misfit(step, *arguments.filled(inputs)) if isinstance(error, TypeError) else None
            if wrong is not None:
                raise PlanError(wrong) from error
            place = line_of(error, step.model)
            if _COMPILED in str(error):
                text = "a part of the network is compiled by torch.compile, leave that out"
                raise UntraceableError(f"{text}: {place or 'its line is not known'}") from error
            if not reads_values(error):
                raise
            text = f"{f'{place}; ' if place else ''}{type(error).__name__}: {one_line(error)}"
            raise UntraceableError(
                f"the network has data-dependent control flow, it cannot be planned ({text})"
            ) from error
    attributes = reading.found
    attributes.random.check(any(draws(node) for node in joint.nodes if node.op == "call_function"))
    _check_captured(joint, step.model, attributes.random.states)
    return replace(joint, recurrent=frozenset(cells.devices), attributes=attributes)


@contextlib.contextmanager
def _inputs(
    model: torch.nn.Module, forms: Sequence[Form], numbers: Sequence[torch.Tensor] | None
) -> Iterator[tuple[list[torch.Tensor], FakeTensorMode | None]]:
    """The tensors to trace on, and the mode of fake ones, with a state of the network that is like them."""
    import torch

    if numbers is not None:
        with parameters_put_back(model), other_state(model, scratch):
            yield [_unkept(scratch(each.detach()), each.requires_grad) for each in numbers], None
        return
    with torch.backends.mkldnn.flags(enabled=False), fake_state(model, None) as mode:
        with mode:
            inputs = [_unkept(form.empty().detach(), form.requires_grad) for form in forms]
        yield inputs, mode


def _unkept(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """An input that autocast casts each time it is read, as what another network has computed."""
    return tensor.view_as(tensor).requires_grad_() if requires_grad else tensor


def _trace(
    step: Step, arguments: Structure, inputs: list[torch.Tensor], mode: FakeTensorMode | None,
    differentiate: Differentiate, reading: Reading, apart: Sequence[int], strides: Strides,
    check: Callable[..., object],
) -> Joint:  # fmt: skip
    from torch.fx.experimental.proxy_tensor import make_fx

    parameters, buffers = dict(step.model.named_parameters()), dict(step.model.named_buffers())
    state = {**parameters, **buffers}
    if not any(tensor.requires_grad for tensor in (*state.values(), *inputs)):
        raise NothingToPlanError("nothing requires a gradient: there is no backward pass to plan")
    first, while_traced = Calls(check=check), Calls(check=check)

    def run_noted(calls: Calls) -> tuple[list[torch.Tensor], list[str]]:
        with forked_random_state(), reading.running(variables=True):  # each run draws the same numbers
            return _outputs(step, arguments, inputs, mode, calls)

    memory = {name: each.untyped_storage()._cdata for name, each in parameters.items()}
    with none_drawn_by_python(step.model, lambda: run_noted(first)) as run:
        outputs, called = run()
    if other := [name for name, each in parameters.items() if each.untyped_storage()._cdata != memory[name]]:
        raise UntraceableError(
            f"parameter '{other[0]}' is given other memory by the step (.data): it cannot be planned"
        )
    reading.ran_once()
    differentiable, left_out = _differentiable(outputs, called, differentiate)
    with mode or contextlib.nullcontext():
        named = zip(outputs, called, differentiable, strict=True)
        tangents = [_tangent(each, mode, strides.get(name, each.stride())) for each, name, has in named if has]
    del outputs
    given = [*state.values(), *inputs, *tangents]
    split = [at for at in apart if given[at].requires_grad]
    joined = _joined(step, arguments, len(state), differentiable, split, while_traced, reading)
    traced = make_fx(
        _function_of(joined, [*state]), tracing_mode="real" if mode is None else "fake",
        _error_on_data_dependent_ops=mode is not None,
    )  # fmt: skip
    with contextlib.nullcontext() if mode is not None else _one_fake_mode():
        graph_module = traced(*given)
    check_repeated(first, while_traced, run_noted)
    reading.traced(first, while_traced)
    _turned_into_views(graph_module)
    _added_in_place(graph_module)
    with_checks(graph_module)
    kinds = [PARAMETER] * len(parameters) + [BUFFER] * len(buffers) + [INPUT] * len(inputs) + [TANGENT] * len(tangents)
    names = [*state, *argument_names(*arguments.filled(inputs))]
    names += [f"gradient of output {at}" for at, has in enumerate(differentiable) if has]
    placeholders = [*map(Placeholder, names, kinds, map(Form.of, given))]
    found = _joint(graph_module, placeholders, differentiable, joined.returned)
    nodes = list(found.given)
    return replace(found, left_out=left_out, apart=tuple(nodes[at] for at in joined.order))


def _function_of(joined: Any, state: Sequence[str]) -> Callable[..., list[torch.Tensor | None]]:
    """A module of a step as a function of parameters and buffers by these names, inputs, and gradients of outputs."""
    import torch

    def joint(*tensors: torch.Tensor) -> list[torch.Tensor | None]:
        replaced = {f"model.{name}": tensor for name, tensor in zip(state, tensors, strict=False)}
        return torch.func.functional_call(joined, replaced, (tensors,))

    return joint


@contextlib.contextmanager
def _one_fake_mode() -> Iterator[None]:
    """Meanwhile `make_fx` notes what tensors are like in one mode, where it would make a mode for each of them, which
    takes half of its time."""
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode

    with tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True))):
        yield


def _differentiable(
    outputs: Sequence[torch.Tensor], names: Sequence[str], differentiate: Differentiate
) -> tuple[tuple[bool, ...], dict[int, str]]:
    """For each output whether it gets a gradient, and the names of those that require one and get none."""
    if not any(output.requires_grad for output in outputs):
        raise NothingToPlanError("no output depends on what requires a gradient: there is no backward pass to plan")
    chosen = differentiated(outputs, names, differentiate)
    left_out = {
        at: names[at] or "output"
        for at, (each, has) in enumerate(zip(outputs, chosen, strict=True))
        if each.requires_grad and not has
    }
    return chosen, left_out


def _joined(
    step: Step, arguments: Structure, state: int, differentiable: Sequence[bool], apart: Sequence[int], calls: Calls,
    while_read: Reading,
) -> Any:  # fmt: skip
    """A module of the forward and backward pass, of parameters and buffers, inputs, and gradients of outputs; it has
    what the outputs stand in as `returned`, and the order of summands as `order`.

    Args:
        state: how many parameters and buffers there are.
        apart: positions of those whose gradients are returned summand by summand.
        calls: those of the forward pass are noted there.
        while_read: what is read is noted there.
    """
    import torch

    cached = torch.is_autocast_cache_enabled()

    class Joined(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = step.model
            self.returned: Structure | None = None
            self.order: list[int] = []

        def forward(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
            paths = Paths(self.model)
            positions = len(tensors) - sum(differentiable)
            with (
                autocast_cache(cached),
                paths.forward(),
                reading(self.model, calls.check),
                calls_noted(calls, self.model),
                while_read.running(False),
            ):
                args, kwargs = arguments.filled(tensors[state:positions])
                self.returned, made = Structure.of(step(*args, **kwargs))
            for node in traced_so_far().nodes:
                node.meta[_FORWARD] = True
            sources = [output for output, has in zip(made, differentiable, strict=True) if has]
            leaves = [tensor for tensor in tensors[:positions] if tensor.requires_grad]
            split = [tensors[at] for at in apart]
            parts = summands(sources, tensors[positions:], split)
            called_back = while_read.running(while_read.reads.in_backward)
            with _backward_paths(paths, sources), no_autocast(), reading(self.model, calls.check), called_back:
                gradients = torch.autograd.grad(sources, leaves, tensors[positions:], allow_unused=True)
            pairs = zip(leaves, gradients, strict=True)
            whole = [None if any(leaf is each for each in split) else gradient for leaf, gradient in pairs]
            self.order = [apart[at] for at, _ in parts]
            return [*made, *whole, *(part for _, part in parts)]

    return Joined()


def is_number(tangent: fx.Node) -> bool:
    """Return whether an output is one number, such as a loss: PyTorch keeps its gradient to the end of the step."""
    return bool(tangent.meta["val"].numel() == 1)


def _tangent(output: torch.Tensor, mode: FakeTensorMode | None, strides: Sequence[int]) -> torch.Tensor:
    """A gradient of an output; a number's is 1, as `backward()` has it."""
    import torch

    if mode is not None:
        return torch.empty_strided(output.shape, strides, dtype=output.dtype, device=output.device)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(output.shape, strides, strict=True))
    ones = torch.ones(max(0, extent) if output.numel() else 0, dtype=output.dtype, device=output.device)
    return ones.as_strided(output.shape, strides)


def _turned_into_views(graph_module: fx.GraphModule) -> None:
    """A tensor of the step's own that is given another shape in place is from then on a view: all later nodes read it
    by the node that did so, and views taken before are tensors of their own."""
    from torch import fx

    for node in graph_module.graph.nodes:
        view = _views().get(node.target)
        if view is not None:
            own = node.args[0]
            while isinstance(own, fx.Node) and own.op == "call_function" and str(own.target).split(".")[1][-1] == "_":
                own = own.args[0]  # the same tensor
            if isinstance(own, fx.Node) and own.op == "call_function":
                node.target = view
    graph_module.recompile()


def _added_in_place(graph_module: fx.GraphModule) -> None:
    """New zeros that nothing else reads are written to in place, as autograd does where nothing is traced."""
    import torch
    from torch import fx

    aten = torch.ops.aten
    zeros = {aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default}
    in_place = {
        aten.index_add.default: aten.index_add_.default,
        aten.scatter_add.default: aten.scatter_add_.default,
        aten.scatter.value: aten.scatter_.value,
        aten.scatter.src: aten.scatter_.src,
        aten.index_put.default: aten.index_put_.default,
        aten.put.default: aten.put_.default,
    }
    for node in graph_module.graph.nodes:
        own = node.args[0] if node.target in in_place else None
        if isinstance(own, fx.Node) and own.target in zeros and list(own.users) == [node]:
            forms = [(each.shape, each.stride(), each.dtype) for each in (own.meta["val"], node.meta["val"])]
            if forms[0] == forms[1]:
                node.target = in_place[node.target]
    graph_module.recompile()


@cache
def _views() -> dict[object, torch._ops.OpOverload]:
    """For operators that change the shape of a tensor in place those that make a view."""
    import torch

    aten = torch.ops.aten
    return {
        aten.t_.default: aten.t.default,
        aten.transpose_.default: aten.transpose.int,
        aten.unsqueeze_.default: aten.unsqueeze.default,
        aten.as_strided_.default: aten.as_strided.default,
        **{getattr(aten.squeeze_, name): getattr(aten.squeeze, name) for name in ("default", "dim", "dims")},
    }


def _check_captured(joint: Joint, model: torch.nn.Module, states: Sequence[torch.Tensor]) -> None:
    """Refuse tensors that a network holds by other means, where a plan could not follow them.

    Args:
        states: random states that the step has read.
    """
    import torch

    state = (*model.named_parameters(), *model.named_buffers())
    known = {tensor.untyped_storage()._cdata: name for name, tensor in state}
    for node in joint.nodes:
        captured = operator.attrgetter(str(node.target))(joint.graph_module) if node.op == "get_attr" else None
        if isinstance(captured, torch.Generator):
            raise UntraceableError("the network draws from a generator of its own: it cannot be planned")
        if isinstance(captured, torch.Tensor) and any(captured is each for each in states):
            raise UntraceableError("the network computes with the random state, which a plan would not read again")
        if isinstance(captured, torch.Tensor) and captured.requires_grad:
            raise UntraceableError("a tensor that is no parameter requires a gradient: make it a parameter")
        if isinstance(captured, torch.Tensor) and captured.untyped_storage()._cdata in known:
            name = known[captured.untyped_storage()._cdata]
            raise UntraceableError(
                f"a tensor that is no parameter or buffer shares the memory of '{name}': use that instead"
            )


def _joint(
    graph_module: fx.GraphModule, given: list[Placeholder], differentiable: tuple[bool, ...], returned: Structure
) -> Joint:
    nodes = list(graph_module.graph.nodes)
    for node in nodes:
        if node.op == "get_attr" and "val" not in node.meta:
            node.meta["val"] = operator.attrgetter(node.target)(graph_module)
    results = nodes[-1].args[0]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    return Joint(
        graph_module,
        dict(zip(placeholders, given, strict=True)),
        tuple(results[: len(differentiable)]),
        differentiable,
        tuple(results[len(differentiable) :]),
        frozenset(node for node in nodes if node.op == "call_function" and _FORWARD not in node.meta),
        returned,
    )


def _outputs(
    step: Step, arguments: Structure, inputs: list[torch.Tensor], mode: FakeTensorMode | None, calls: Calls
) -> tuple[list[torch.Tensor], list[str]]:
    """What the step returns, without what autograd keeps for it, and their names; its calls are noted.

    The state is fake, and has no values to spoil, or a scratch copy.
    """
    import torch

    with mode or contextlib.nullcontext(), autocast_cache(torch.is_autocast_cache_enabled()):
        args, kwargs = arguments.filled(inputs)
        with calls_noted(calls, step.model):
            returned = step(*args, **kwargs)
        outputs = Structure.of(returned)[1]
        return [each.detach().requires_grad_(each.requires_grad) for each in outputs], output_names(returned)


LOSS, EVERY = "loss", "all"
"""The name of an output that is differentiated alone; what asks for all of them."""


def differentiated(outputs: Sequence[torch.Tensor], names: Sequence[str], asked: Differentiate) -> tuple[bool, ...]:
    """For each output of a step: does it get a gradient?

    Args:
        asked: names or positions of outputs, "all", or None: those called loss; else the only one that is a single
            number and requires a gradient; else all that require one.

    Raises:
        PlanError: what is asked for is no output, or requires no gradient.
    """
    requiring = [bool(output.requires_grad) for output in outputs]
    if asked is None:
        losses = [has and name.rpartition(".")[-1] == LOSS for has, name in zip(requiring, names, strict=True)]
        numbers = [has and output.numel() == 1 for has, output in zip(requiring, outputs, strict=True)]
        return tuple(losses if any(losses) else numbers if sum(numbers) == 1 else requiring)
    if asked == EVERY:
        return tuple(requiring)
    chosen = [False] * len(outputs)
    for one in (asked,) if isinstance(asked, str | int) else asked:
        places = [at for at, name in enumerate(names) if name == str(one) or name.startswith(f"{one}.")]
        if not any(requiring[at] for at in places):
            known = ", ".join(name or "the only output" for name, has in zip(names, requiring, strict=True) if has)
            raise PlanError(
                f"differentiate: {shown(one)} is no output that requires a gradient, expected some of {known}"
            )
        for at in places:
            chosen[at] = requiring[at]
    return tuple(chosen)


@contextlib.contextmanager
def _backward_paths(paths: Paths, sources: Sequence[torch.Tensor]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for source in sources[:1]:
            stack.enter_context(paths.backward(source))
        yield


def where(node: fx.Node) -> str:
    """The operator and its module, for messages."""
    name = str(node.target).removesuffix(".default")
    path = node.meta.get(PATH)
    return f"{name} in '{path}'" if path else name
