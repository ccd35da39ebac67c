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
import logging
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError, located, missing, shown
from moccasin_mzn.graphs.importers.program import Operation, Program, known_total
from moccasin_mzn.graphs.importers.torch_memory import Accounted, Member, Traced, account
from moccasin_mzn.graphs.importers.torch_nodes import tensor_bytes
from moccasin_mzn.graphs.importers.torch_paths import PATH
from moccasin_mzn.graphs.importers.torch_spec import (
    Input,
    load_network,
    one_line,
    parse_inputs,
    place,
    users_code,
)
from moccasin_mzn.graphs.optimizers import NONE, OPTIMIZERS

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch._subclasses.fake_tensor import FakeTensorMode

_DEPENDS_ON_VALUES = {
    "GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException",
}  # fmt: skip
"""Exceptions of PyTorch."""


@dataclass(frozen=True)
class Trace:
    """A traced network: the graph that can be executed, and the program of operations it comes to."""

    graph_module: fx.GraphModule
    program: Program
    kinds: Mapping[str, str] = field(hash=False)
    """For each placeholder, by name, `INPUT`, `STATE` or `CONSTANT` of `torch_memory`."""
    members: Mapping[str, tuple[Member, ...]] = field(hash=False)
    """For each operation of the program that is no view, the traced nodes it is made of."""
    labels: Mapping[str, str] = field(hash=False)
    """For each operation of the program, the module it belongs to, where known, and its operator."""
    raw_operations: int
    """Traced nodes, those for tuples, views and weights included."""
    facts: Mapping[str, Any] = field(hash=False)
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
    """Trace the network of a factory; see `torch_module.import_torch` for arguments. THIS RUNS THE MODULE'S CODE."""
    require_torch()
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer {shown(optimizer)}, expected one of {', '.join(OPTIMIZERS)}")
    if optimizer != NONE and not training:
        raise InputError(f"optimizer {optimizer} needs training: inference has none")
    wanted = parse_inputs(inputs)
    import torch

    from moccasin_mzn.graphs.importers.torch_inference import trace_inference
    from moccasin_mzn.graphs.importers.torch_training import trace_training

    with quiet(), torch.random.fork_rng(devices=[]):
        network = load_network(spec)
        network.train(training)
        where = place(spec, map(str, wanted))
        with users_code(where), torch.backends.mkldnn.flags(enabled=False), fake_state(network) as mode:
            arguments = fake_inputs(wanted, mode)
            with _values_refused(where), located(where):
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
        device: that they are said to be on; None: their own, but the CPU for those that have no memory.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: Any) -> Any:
        place = device or ("cpu" if tensor.device.type == "meta" else tensor.device)
        with mode:
            like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=place)
        if isinstance(tensor, torch.nn.Parameter):
            like = torch.nn.Parameter(like, requires_grad=tensor.requires_grad)
        return like

    with other_state(network, fake):
        yield mode


@contextlib.contextmanager
def other_state(network: torch.nn.Module, other: Callable[[Any], Any]) -> Iterator[None]:
    """Meanwhile the network has other parameters and buffers, made of its own; tied ones stay tied."""
    made: dict[int, Any] = {}
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


def fake_inputs(inputs: Sequence[Input], mode: FakeTensorMode) -> tuple[list[Any], dict[str, Any]]:
    """Fake tensors for positional and for keyword arguments."""
    import torch

    with mode:
        made = [torch.empty(each.shape, dtype=getattr(torch, each.dtype)) for each in inputs]
    positional = [tensor for each, tensor in zip(inputs, made, strict=True) if each.name is None]
    named = {each.name: tensor for each, tensor in zip(inputs, made, strict=True) if each.name is not None}
    return positional, named


# --- while tracing ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _values_refused(where: str) -> Iterator[None]:
    """Says in plain words what PyTorch says in many when a network's course depends on values."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _DEPENDS_ON_VALUES:
            raise
        told = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"{where}: a branch or a shape depends on values, which a trace has not ({told})") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of PyTorch, neither on stderr nor in logs."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# --- afterwards ------------------------------------------------------------------------------------------------


def _account(traced: Traced) -> Accounted:
    graph_module = traced.graph_module
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and "val" not in node.meta:
            node.meta["val"] = operator.attrgetter(node.target)(graph_module)
    return account(traced)


def _bytes(tensors: Iterable[Any]) -> int:
    return known_total(map(tensor_bytes, tensors)) or 0


def _fixed_memory(network: torch.nn.Module, inputs: tuple[list[Any], dict[str, Any]], optimizer: str) -> dict[str, int]:
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
