"""The forward pass of a PyTorch network, by `torch.export`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch_memory import CONSTANT, INPUT, STATE, Traced
from moccasin_mzn.graphs.importers.torch_paths import mark_path

if TYPE_CHECKING:
    import torch
    from torch import fx


def trace_inference(network: torch.nn.Module, inputs: Sequence[Any], named: Mapping[str, Any]) -> Traced:
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

        def run(*tensors: Any) -> list[Any]:
            results = _walker(exported.graph_module).run(*tensors)
            return [result for result in results if isinstance(result, torch.Tensor)]

        graph_module = make_fx(run, tracing_mode="fake")(*(node.meta["val"] for node in placeholders))
    kinds = {InputKind.USER_INPUT: INPUT, InputKind.PARAMETER: STATE, InputKind.BUFFER: STATE}
    specs = exported.graph_signature.input_specs
    traced = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    return Traced(
        graph_module,
        {name: kinds.get(spec.kind, CONSTANT) for name, spec in zip(traced, specs, strict=True)},
    )


def _walker(graph_module: fx.GraphModule) -> fx.Interpreter:
    """Runs the exported program and notes which module every operator stands in."""
    from torch import fx

    class Walker(fx.Interpreter):
        def run_node(self, node: fx.Node) -> Any:
            result = super().run_node(node)
            mark_path(_path(node))
            return result

    return Walker(graph_module)


def _path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""
