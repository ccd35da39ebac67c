"""Forward pass, loss and backward pass of a PyTorch network, by `make_fx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.graphs.importers.torch_memory import INPUT, STATE, Traced
from moccasin_mzn.graphs.importers.torch_nodes import viewed_argument
from moccasin_mzn.graphs.importers.torch_paths import Paths, traced_so_far

if TYPE_CHECKING:
    import torch
    from torch import fx

_FORWARD = "moccasin_forward"
"""Key in a traced node's `meta`: it is in the forward pass."""


def trace_training(network: torch.nn.Module, inputs: Sequence[Any], named: Mapping[str, Any]) -> Traced:
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

        def forward(self, fixed: Mapping[str, Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
            paths = Paths(network)
            with paths.forward():
                outputs = network(*arguments, **keywords)
            for node in traced_so_far().nodes:
                node.meta[_FORWARD] = True
            loss = _loss(outputs)
            with paths.backward(loss):
                gradients = torch.autograd.grad(loss, [fixed[name] for name in trained], allow_unused=True)
            return [loss, *(gradient for gradient in gradients if gradient is not None)]

    def step(*tensors: Any) -> list[Any]:
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


def _loss(outputs: Any) -> torch.Tensor:
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
    returned: Any = nodes[-1].args[0]
    loss = returned[0]
    while loss is not None:  # the views that the loss is, and the operator that made it
        found.add(loss.name)
        loss = viewed_argument(loss)
    return frozenset(found)
