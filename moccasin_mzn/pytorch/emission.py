"""A plan as code: two graphs of PyTorch, whose Python functions free every value after its last use.

    forward([parameters, buffers, inputs])      -> [outputs, what is kept]
    backward([what is kept, tangents, parameters to whose `.grad` gradients are added])  -> gradients

Both empty the list that they are given, so that nothing outside keeps alive what they are done with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.joint import TANGENT, Joint
from moccasin_mzn.pytorch.program import Instruction, Linear, Value

if TYPE_CHECKING:
    import torch
    from torch import fx


@dataclass(frozen=True, eq=False)
class Code:
    """Two functions, and what they take and give."""

    forward: Callable[[list[Any]], Sequence[Any]]
    backward: Callable[[list[Any]], Sequence[Any]]
    taken: tuple[int, ...]
    """The placeholders that the forward function takes, by position."""
    kept_given: tuple[int, ...]
    """The placeholders that the backward function takes before the tangents."""
    added: tuple[int, ...]
    """The placeholders that the backward function takes after the tangents: parameters that it gives gradients to."""
    outputs: int
    """So many of what the forward function gives are outputs; the others are kept."""


def emitted(joint: Joint, plan: Linear) -> Code:
    """The code of a plan."""
    position = {node: at for at, node in enumerate(joint.given)}
    tangents = [plan.given[node] for node in joint.of_kind(TANGENT)]
    added = list(plan.added.values())
    other = {*tangents, *added}

    def read(instructions: Sequence[Instruction]) -> list[Value]:
        return list(dict.fromkeys(value for instruction in instructions for value in instruction.reads))

    def placeholders(values: Sequence[Value]) -> list[Value]:
        return [value for value in values if value.given in position and value not in other]

    made = {instruction.value for instruction in plan.forward}
    results = [value for value in plan.gradients if value is not None]
    kept = [value for value in dict.fromkeys([*read(plan.backward), *results]) if value in made]
    taken, kept_given = placeholders(read(plan.forward)), placeholders(read(plan.backward))
    forward = _function(joint, plan.forward, taken, [*plan.outputs, *kept], plan.given)
    backward = _function(joint, plan.backward, [*kept, *kept_given, *tangents, *added], plan.gradients, plan.given)
    return Code(
        forward, backward, tuple(position[value.given] for value in taken if value.given),
        tuple(position[value.given] for value in kept_given if value.given),
        tuple(position[node] for node in plan.added), len(plan.outputs),
    )  # fmt: skip


def _function(
    joint: Joint, instructions: Sequence[Instruction], arguments: Sequence[Value], results: Sequence[Value | None],
    given: Mapping[Any, Value],
) -> torch.nn.Module:  # fmt: skip
    from torch import fx

    graph = fx.Graph()
    nodes: dict[Value, fx.Node] = {}
    for at, value in enumerate(arguments):
        nodes[value] = graph.placeholder(f"a{at}")
    for node, value in given.items():
        if node.op == "get_attr" and any(value in instruction.reads for instruction in instructions):
            nodes[value] = graph.get_attr(str(node.target))
    for instruction in instructions:
        args, kwargs = _filled((instruction.args, dict(instruction.kwargs)), nodes)
        nodes[instruction.value] = graph.call_function(instruction.target, args, kwargs)
    graph.output([None if value is None else nodes[value] for value in results])
    graph.set_codegen(_boxed())
    return fx.GraphModule(joint.graph_module, graph)


def _filled(arguments: Any, nodes: Mapping[Value, fx.Node]) -> Any:
    if isinstance(arguments, Value):
        return nodes[arguments]
    if isinstance(arguments, dict):
        return {name: _filled(each, nodes) for name, each in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(_filled(each, nodes) for each in arguments)
    return arguments


def _boxed() -> Any:
    from torch.fx.graph import CodeGen

    class Boxed(CodeGen):
        """Functions of one list, which they empty."""

        def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
            names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
            taken = f"    {', '.join(names)}, = boxed; boxed.clear()" if names else "    pass"
            return f"def {self._func_name}(self, boxed):\n{taken}"

    return Boxed()
