"""A PyTorch network traced to the operators it executes, and what the trace comes to as a program.

No tensor of the network's size is made: parameters, buffers and inputs are fake tensors of the CPU, which have shapes
and no memory. Nothing is decomposed or made functional, so the operators are those that a real run on a CPU executes,
with two exceptions:

- oneDNN is switched off meanwhile, because its recurrent layers keep a workspace for the backward pass that fake
  tensors know nothing of. Without it these layers are many operators of ordinary sizes.
- In evaluation mode, a real run of `nn.TransformerEncoder` or `nn.MultiheadAttention` without gradients may take a fast
  path of fused operators, with fewer and other intermediate tensors. The trace has the ordinary path.
"""

from __future__ import annotations

import contextlib
import io
import logging
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, located, missing, shown
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.generators.network import NONE, OPTIMIZERS
from moccasin_mzn.graphs.importers.program import Operation, Program, known_total
from moccasin_mzn.graphs.importers.torch.memory import CONSTANT, INPUT, STATE, Accounted, Member, Traced, account
from moccasin_mzn.graphs.importers.torch.nodes import tensor_bytes, viewed_argument
from moccasin_mzn.graphs.importers.torch.paths import PATH, Paths, mark_path, traced_so_far
from moccasin_mzn.graphs.importers.torch.spec import (
    Input,
    line_of,
    load_network,
    one_line,
    parse_inputs,
    place,
    users_code,
)

if TYPE_CHECKING:
    import torch
    from torch import fx, nn
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import PyTree


_DEPENDS_ON_VALUES = {
    "GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException",
    "UnsupportedOperatorException",
}  # fmt: skip
"""Exceptions of PyTorch."""
_NO_NUMPY = ".numpy() is not supported for tensor subclasses"
"""PyTorch's message where numbers of a fake tensor are read by numpy."""


@dataclass(frozen=True)
class Trace:
    """A traced network: the graph that can be executed, and the program of operations it comes to."""

    graph_module: fx.GraphModule
    program: Program
    kinds: Mapping[str, str] = field(hash=False)
    """For each placeholder, by name, `INPUT`, `STATE` or `CONSTANT` of `memory`."""
    members: Mapping[str, tuple[Member, ...]] = field(hash=False)
    """For each operation of the program that is no view, the traced nodes it is made of."""
    labels: Mapping[str, str] = field(hash=False)
    """For each operation of the program, the module it belongs to, where known, and its operator."""
    raw_operations: int
    """Traced nodes, those for tuples, views and weights included."""
    facts: JsonObject = field(hash=False)
    """What was traced, JSON values."""


def require_torch() -> None:
    """Check that PyTorch is there.

    Raises:
        InputError: it is not installed.
    """
    try:
        with quiet():
            import torch.export
            import torch.fx.experimental.proxy_tensor  # noqa: F401
    except ImportError as error:
        raise missing("the package torch", "torch", "importing PyTorch modules") from error


def trace_network(spec: str, inputs: Sequence[str], *, training: bool = False, optimizer: str = "none") -> Trace:
    """Trace the network of a factory; see `graph.import_torch` for arguments. THIS RUNS THE MODULE'S CODE."""
    require_torch()
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer {shown(optimizer)}, expected one of {', '.join(OPTIMIZERS)}")
    if optimizer != NONE and not training:
        raise InputError(f"optimizer {optimizer} needs training: inference has none")
    wanted = parse_inputs(inputs)
    import torch

    with quiet(), torch.random.fork_rng(devices=[]):
        network = load_network(spec)
        network.train(training)
        where = place(spec, map(str, wanted))
        with users_code(where), torch.backends.mkldnn.flags(enabled=False), fake_state(network) as mode:
            arguments = fake_inputs(wanted, mode)
            with _values_refused(where, network), located(where):
                traced = (trace_training if training else trace_inference)(network, *arguments)
            fixed = _fixed_memory(network, arguments, optimizer)
            accounted = _account(traced)
    if accounted.constants:
        fixed["constants"] = accounted.constants
    factory = spec.rpartition(":")[2]
    shapes = ", ".join(map(str, wanted))
    name = f"{factory} {'training' if training else 'inference'}, input {shapes}"
    program = Program(accounted.operations, accounted.results, name, "FLOP", fixed)
    nodes = {node.name: node for node in traced.graph_module.graph.nodes}
    facts = {"network": spec, "inputs": [str(each) for each in wanted], "training": training, "optimizer": optimizer}
    return Trace(
        traced.graph_module,
        program,
        traced.kinds,
        accounted.members,
        {each.name: _label(nodes, each, accounted.members.get(each.name, ())) for each in program.operations},
        sum(node.op == "call_function" for node in nodes.values()),
        facts,
    )


# --- fake tensors ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def fake_state(network: torch.nn.Module, device: str | None = "cpu") -> Iterator[FakeTensorMode]:
    """Meanwhile the network's parameters and buffers are fake tensors.

    Args:
        device: that they are traced on; None: their own, but the CPU for those that have no memory.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        place = device or ("cpu" if tensor.device.type == "meta" else tensor.device)
        with mode:
            like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=place)
        if isinstance(tensor, torch.nn.Parameter):
            like = torch.nn.Parameter(like, requires_grad=tensor.requires_grad)
        return like

    with other_state(network, fake):
        yield mode


def scratch(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf of its own: a parameter in the memory of the true one, else a copy, laid out as the tensor."""
    import torch

    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    copied = tensor.detach().clone()
    if copied.stride() != tensor.stride() and tensor.numel():  # rows of a larger tensor, or the same row many times
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        whole = tensor.detach().as_strided((1 + sum((size - 1) * stride for size, stride in pairs),), (1,))
        copied = whole.clone().as_strided(tensor.shape, tensor.stride())
    return copied.requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def other_state(network: torch.nn.Module, other: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Meanwhile the network has other parameters and buffers, made of its own; tied ones stay tied."""
    made: dict[int, torch.Tensor] = {}
    places = [
        (module, name, tensor)
        for module in network.modules()
        for name, tensor in (*module._parameters.items(), *module._buffers.items())
        if tensor is not None
    ]
    try:
        for module, name, tensor in places:
            if id(tensor) not in made:
                made[id(tensor)] = other(tensor)
            setattr(module, name, made[id(tensor)])  # not into the tables: recurrent layers keep a list as well
        yield
    finally:
        for module, name, tensor in places:
            setattr(module, name, tensor)


@contextlib.contextmanager
def parameters_put_back(model: nn.Module) -> Iterator[None]:
    """Have parameters that operators change meanwhile as they were, by a copy made before the first change of each."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def has_memory(each: object) -> bool:
        if not isinstance(each, torch.Tensor) or torch.nn.parameter.is_lazy(each):
            return False
        return each.layout is torch.strided

    memory = {_memory_of(each): each.untyped_storage() for each in model.parameters() if has_memory(each)}
    before: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> None:
        key = _memory_of(tensor)
        if key in memory and key not in before:
            before[key] = memory[key].clone()

    class BeforeWrites(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: torch._ops.OpOverload, types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            formal = function._schema.arguments if function._schema.is_mutable else ()
            for at, each in enumerate(formal):
                if each.alias_info is not None and each.alias_info.is_write:
                    for tensor in tree_leaves(args[at] if at < len(args) else (kwargs or {}).get(each.name)):
                        if has_memory(tensor):
                            keep(tensor)
            return function(*args, **(kwargs or {}))

    try:
        with BeforeWrites():
            yield
    finally:
        for key, values in before.items():
            memory[key].copy_(values)


def _memory_of(tensor: torch.Tensor) -> int:
    """A number for the memory that a tensor is in."""
    return tensor.untyped_storage()._cdata


def fake_inputs(inputs: Sequence[Input], mode: FakeTensorMode) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Fake tensors for positional and for keyword arguments."""
    import torch

    with mode:
        made = [torch.empty(each.shape, dtype=getattr(torch, each.dtype)) for each in inputs]
    positional = [tensor for each, tensor in zip(inputs, made, strict=True) if each.name is None]
    named = {each.name: tensor for each, tensor in zip(inputs, made, strict=True) if each.name is not None}
    return positional, named


# --- while tracing ---------------------------------------------------------------------------------------------


def reads_values(error: BaseException) -> bool:
    """True if PyTorch raises this where a network reads numbers, which fake tensors do not have."""
    return type(error).__name__ in _DEPENDS_ON_VALUES or _NO_NUMPY in str(error)


@contextlib.contextmanager
def _values_refused(where: str, network: nn.Module) -> Iterator[None]:
    """Replaces PyTorch's long message about data-dependent control flow by a plain one."""
    try:
        yield
    except Exception as error:
        if not reads_values(error):
            raise
        place = line_of(error, network)
        message = f"{f'{place}; ' if place else ''}{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"{where}: a branch or a shape depends on values, which a trace has not ({message})"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of PyTorch, neither on stderr nor in logs."""
    tree = [logging.getLogger("torch"), *map(logging.getLogger, [*logging.root.manager.loggerDict])]
    before = {logger: logger.level for logger in tree if logger.name.partition(".")[0] == "torch"}
    try:
        for logger in before:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


# --- afterwards ------------------------------------------------------------------------------------------------


def _account(traced: Traced) -> Accounted:
    graph_module = traced.graph_module
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and "val" not in node.meta:
            node.meta["val"] = operator.attrgetter(node.target)(graph_module)
    return account(traced)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return known_total(map(tensor_bytes, tensors)) or 0


def _fixed_memory(
    network: torch.nn.Module, inputs: tuple[list[torch.Tensor], dict[str, torch.Tensor]], optimizer: str
) -> dict[str, int]:
    parameters = list(network.parameters())
    trained = _bytes(tensor for tensor in parameters if tensor.requires_grad)
    fixed = {
        "parameters": _bytes(parameters),
        "buffers": _bytes(network.buffers()),
        "inputs": _bytes((*inputs[0], *inputs[1].values())),
    }
    if optimizer != "none":
        fixed["optimizer"] = OPTIMIZERS[optimizer] * trained
    return fixed


def _label(nodes: Mapping[str, fx.Node], operation: Operation, members: Sequence[Member]) -> str:
    path = nodes[members[0].node].meta.get(PATH, "") if members else ""
    return f"{path} {operation.kind}" if path else operation.kind


# --- Forward pass, loss and backward pass of a PyTorch network, by `make_fx` ----------------------------------


_FORWARD = "moccasin_forward"
"""Key in a traced node's `meta`: it is in the forward pass."""


def trace_training(network: torch.nn.Module, inputs: Sequence[PyTree], named: Mapping[str, PyTree]) -> Traced:
    """Trace one step of training without the optimizer: results are the loss and the gradients of all parameters.

    The first output of the network is the loss if it is a scalar; otherwise the sum of all outputs is.

    Args:
        network: in training mode, its parameters and buffers fake tensors.
        inputs: fake tensors.
        named: fake tensors, by the name of the argument.

    Raises:
        InputError: no parameter is trained, or the outputs depend on none.
        Exception: whatever the network raises.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    trained = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
    if not trained:
        raise InputError("training: the network has no parameter to train")

    class Step(torch.nn.Module):
        """All in one `forward`, because checkpointing runs parts of the network again in the backward pass."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(
            self, fixed: Mapping[str, torch.Tensor], arguments: Sequence[PyTree], keywords: Mapping[str, PyTree]
        ) -> list[torch.Tensor | None]:
            paths = Paths(network)
            with paths.forward():
                outputs = network(*arguments, **keywords)
            for node in traced_so_far().nodes:
                node.meta[_FORWARD] = True
            loss = _loss(outputs)
            with paths.backward(loss):
                gradients = torch.autograd.grad(loss, [fixed[name] for name in trained], allow_unused=True)
            return [loss, *(gradient for gradient in gradients if gradient is not None)]

    def step(*tensors: torch.Tensor) -> list[torch.Tensor | None]:
        fixed = dict(zip(state, tensors, strict=False))
        arguments = tensors[len(state) :]
        keywords = dict(zip(named, arguments[len(inputs) :], strict=True))
        replaced = {f"network.{name}": tensor for name, tensor in fixed.items()}
        return torch.func.functional_call(Step(), replaced, (fixed, arguments[: len(inputs)], keywords))

    graph_module = make_fx(step, tracing_mode="fake")(*state.values(), *inputs, *named.values())
    nodes = list(graph_module.graph.nodes)
    placeholders = [node.name for node in nodes if node.op == "placeholder"]
    return Traced(
        graph_module,
        {name: STATE if at < len(state) else INPUT for at, name in enumerate(placeholders)},
        _backward(nodes),
    )


def _loss(outputs: object) -> torch.Tensor:
    """The first output if that is a scalar, else the sum of all; only outputs that depend on a parameter count."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not tensors:
        raise InputError("training: no output of the network depends on a parameter to train")
    if tensors[0].dim() == 0:
        return tensors[0]
    loss = tensors[0].sum()
    for tensor in tensors[1:]:
        loss = loss + tensor.sum()
    return loss


def _backward(nodes: Sequence[fx.Node]) -> frozenset[str]:
    """Names of the loss and of what was traced after the forward pass; the loss may be an output of the network."""
    found = {node.name for node in nodes if _FORWARD not in node.meta}
    returned: PyTree = nodes[-1].args[0]
    loss = returned[0]
    while loss is not None:  # the views that the loss is, and the operator that made it
        found.add(loss.name)
        loss = viewed_argument(loss)
    return frozenset(found)


# --- The forward pass of a PyTorch network, by `torch.export` -------------------------------------------------


def trace_inference(network: torch.nn.Module, inputs: Sequence[object], named: Mapping[str, object]) -> Traced:
    """Export a network, then trace the exported program once more, down to the operators that a CPU executes.

    The second step is needed for the memory: what is one operator to `torch.export`, such as
    `scaled_dot_product_attention`, may be several when it runs, each with an output of its own.

    The fast path that `nn.TransformerEncoder` and `nn.MultiheadAttention` may take in evaluation mode is not traced.

    Args:
        network: in evaluation mode, its parameters and buffers fake tensors.
        inputs: fake tensors.
        named: fake tensors, by the name of the argument.

    Raises:
        Exception: whatever `torch.export` or the network raises.
    """
    import torch
    from torch.export.graph_signature import InputKind
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        with contextlib.redirect_stderr(io.StringIO()):  # where it fails, it prints all that it has traced so far
            exported = torch.export.export(network, tuple(inputs), dict(named), strict=False)
        placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]

        def run(*tensors: object) -> list[torch.Tensor]:
            results = _walker(exported.graph_module).run(*tensors)
            return [result for result in results if isinstance(result, torch.Tensor)]

        graph_module = make_fx(run, tracing_mode="fake")(*(node.meta["val"] for node in placeholders))
    kinds = {InputKind.USER_INPUT: INPUT, InputKind.PARAMETER: STATE, InputKind.BUFFER: STATE}
    specs = exported.graph_signature.input_specs
    traced = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    return Traced(
        graph_module, {name: kinds.get(spec.kind, CONSTANT) for name, spec in zip(traced, specs, strict=True)}
    )


def _walker(graph_module: fx.GraphModule) -> fx.Interpreter:
    """Runs the exported program and notes which module every operator stands in."""
    from torch import fx

    class Walker(fx.Interpreter):
        def run_node(self, node: fx.Node) -> PyTree:
            result = super().run_node(node)
            mark_path(_path(node))
            return result

    return Walker(graph_module)


def _path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""
