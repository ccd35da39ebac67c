"""The joint graph of `torch.compile` as a traced step: forward and backward pass without side effects, by AOTAutograd.

    primals_1, ..., tangents_1, ...  --->  what the forward pass returns, then a gradient for each primal, or none

What a network writes to its buffers stands at the end, as copies into primals; it belongs to the forward pass.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch.paths import PATH
from moccasin_mzn.pytorch.call import Form, Structure
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, TANGENT, Joint, Placeholder, where
from moccasin_mzn.pytorch.refusal import PlanError

if TYPE_CHECKING:
    from torch import fx

_TAG, _FORWARD, _WRITES_BACK = "partitioner_tag", "is_forward", "must_be_in_forward"
"""What AOTAutograd says of a node in its `meta`."""


@dataclass(frozen=True, eq=False)
class AotStep:
    """A joint graph."""

    joint: Joint
    results: tuple[Any, ...]
    """What the forward pass is to return: traced nodes, and among them what is no tensor."""
    gradients: tuple[fx.Node | None, ...]
    """For each primal."""
    descriptions: tuple[Any, ...]
    """What AOTAutograd knows of the results and the gradients, in this order."""

    @property
    def primals(self) -> list[fx.Node]:
        return self.joint.of_kind(BUFFER, INPUT)


def aot_step(graph_module: fx.GraphModule, outputs: int, static: Collection[int]) -> AotStep:
    """Read a joint graph; it is put in order: the forward pass, its copies into primals, the backward pass.

    Args:
        outputs: so many of its results are of the forward pass.
        static: the primals, by number, that are there before the step and after it: parameters and buffers.

    Raises:
        PlanError: shapes may change, or it has what is no operator on tensors.
    """
    from torch.utils._pytree import arg_tree_leaves

    graph_module.graph.eliminate_dead_code()
    nodes = list(graph_module.graph.nodes)
    for node in nodes:
        _check(node)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    returned = arg_tree_leaves(*nodes[-1].args)
    backward = _in_order(nodes)
    results, gradients = returned[:outputs], returned[outputs:]
    primals = [node for node in placeholders if not node.name.startswith("tangents")]
    wanted = {node for node, gradient in zip(primals, gradients, strict=False) if gradient is not None}
    given = {node: _placeholder(node, node in wanted, at in static) for at, node in enumerate(placeholders)}
    tensors = tuple(each for each in results if hasattr(each, "meta"))
    joint = Joint(
        graph_module, given, tensors, (True,) * len(tensors),
        tuple(each for each in gradients if each is not None), backward, Structure.of(())[0],
    )  # fmt: skip
    described = arg_tree_leaves(nodes[-1].meta.get("desc", [None] * len(returned)))
    return AotStep(joint, tuple(results), tuple(gradients), tuple(described))


def _check(node: fx.Node) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    if node.op == "get_attr" or node.op == "output":
        return
    for leaf in tree_leaves(node.meta.get("val")):
        symbolic = isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool))
        if symbolic or (isinstance(leaf, torch.Tensor) and any(type(size) is not int for size in leaf.shape)):
            raise PlanError("compiled for shapes that change, a plan is for fixed ones: compile with dynamic=False")
    if node.op == "placeholder":
        if not isinstance(node.meta.get("val"), torch.Tensor) or not node.name.startswith(("primals", "tangents")):
            raise PlanError(f"{node.name} of the compiled step is no tensor: it cannot be planned")
        return
    stack = list(node.meta.get("nn_module_stack", {}).values())
    if stack:
        node.meta[PATH] = str(stack[-1][0]).removeprefix("L['self']").removeprefix(".")
    if not isinstance(node.target, torch._ops.OpOverload) and node.target is not operator.getitem:
        raise PlanError(f"{where(node)} is no operator on tensors: it cannot be planned")


def _in_order(nodes: Sequence[fx.Node]) -> frozenset[fx.Node]:
    """Put the copies into primals to the end of the forward pass; the nodes of the backward pass."""
    calls = [node for node in nodes if node.op in ("call_function", "get_attr")]
    back = [node for node in calls if node.meta.get(_TAG) == _WRITES_BACK]
    last = max((at for at, node in enumerate(calls) if node.meta.get(_TAG) == _FORWARD), default=-1)
    tangents = {node for node in nodes if node.op == "placeholder" and node.name.startswith("tangents")}
    backward: set[fx.Node] = set()
    for at, node in enumerate(calls):
        late = at > last and node.op == "call_function" and node not in back
        if late or any(each in backward or each in tangents for each in node.all_input_nodes):
            backward.add(node)
    first = next((node for node in nodes if node in backward), nodes[-1])
    for node in calls:
        if node not in backward:
            first.prepend(node)
    return frozenset(backward)


def _placeholder(node: fx.Node, differentiable: bool, static: bool) -> Placeholder:
    import torch

    value = node.meta["val"]
    dtype = str(value.dtype).removeprefix("torch.")
    form = Form(tuple(value.shape), tuple(value.stride()), dtype, str(value.device), differentiable)
    if node.name.startswith("tangents"):
        return Placeholder(node.name, TANGENT, form)
    written = any(user.target is torch.ops.aten.copy_.default and user.args[0] is node for user in node.users)
    return Placeholder(node.name, BUFFER if written else INPUT, form, leaf=static)
