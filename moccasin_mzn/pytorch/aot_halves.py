"""Forward and backward graph of a compiled step, whoever parted them, as instructions: so that their peak is known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch.nodes import allocated_tensors, storage_bytes, viewed_argument
from moccasin_mzn.pytorch.computations import ALL, Root
from moccasin_mzn.pytorch.instructions import Instruction, Linear, Storage, Value
from moccasin_mzn.pytorch.joint import INPUT, TANGENT

if TYPE_CHECKING:
    from torch import fx

Values = dict["fx.Node", Value]


def read_halves(forward: fx.Graph, backward: fx.Graph, outputs: int, workspace: Callable[[fx.Node], int]) -> Linear:
    """What two graphs do, of which the second takes what the first one returns after its outputs, then the tangents.

    Args:
        workspace: bytes that an operator takes while it runs.
    """
    from torch.utils._pytree import arg_tree_leaves

    first, second = _Reader(workspace), _Reader(workspace)
    for node in forward.find_nodes(op="placeholder"):
        first.give(node, INPUT)
    instructions = first.instructions(forward)
    returned = [first.values.get(each) for each in arg_tree_leaves(*forward.output_node().args)]
    placeholders = backward.find_nodes(op="placeholder")
    kept = returned[outputs:]
    for node, value in zip(placeholders, kept, strict=False):
        if value is not None:
            second.values[node] = value
    for node in placeholders[len(kept) :]:
        second.give(node, TANGENT)
    others = second.instructions(backward)
    gradients = [second.values.get(each) for each in arg_tree_leaves(*backward.output_node().args)]
    own = tuple(value for value in returned[:outputs] if value is not None)
    return Linear(tuple(instructions), own, tuple(others), tuple(gradients), {**first.given, **second.given})


class _Reader:
    def __init__(self, workspace: Callable[[fx.Node], int]) -> None:
        self.workspace = workspace
        self.values: Values = {}
        self.given: Values = {}
        self.several: dict[fx.Node, dict[int, Storage]] = {}
        """For a node with several outputs in memory of their own."""

    def give(self, node: fx.Node, kind: str) -> None:
        value = node.meta.get("val")
        self.values[node] = self.given[node] = Value(Storage(storage_bytes(value), kind), node, value)

    def instructions(self, graph: fx.Graph) -> list[Instruction]:
        from torch import fx

        read: Any = self.values.__getitem__
        found = []
        for node in graph.nodes:
            if node.op == "get_attr":
                self.give(node, "constant")
            elif node.op == "call_function":
                value, makes = self._made(node)
                self.values[node] = value
                args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), read)
                found.append(
                    Instruction(node.target, args, kwargs, value, tuple(makes), self.workspace(node), node=node)
                )
        return found

    def _made(self, node: fx.Node) -> tuple[Value, Iterable[Storage]]:
        made = node.meta.get("val")
        if allocated_tensors(node):
            if isinstance(made, (tuple, list)):
                self.several[node] = {at: Storage(_bytes(node, at)) for at, each in enumerate(made) if each is not None}
                return Value(None), self.several[node].values()
            storage = Storage(_bytes(node, ALL))
            return Value(storage), (storage,)
        if node.target is operator.getitem and node.args[0] in self.several:
            whole: Any = node.args[0]
            return Value(self.several[whole].get(node.args[1])), ()  # type: ignore[arg-type, unused-ignore]
        viewed = viewed_argument(node)
        return Value(self.values[viewed].storage if viewed in self.values else None), ()


def _bytes(node: fx.Node, number: int) -> int:
    root = Root(node, number)
    return root.allocated if hasattr(root.value, "element_size") else 0
