"""The code of a plan: two graphs of PyTorch, whose Python functions free every value after its last use.

    forward([parameters, buffers, inputs])      -> [outputs, what is kept]
    backward([what is kept, tangents, parameters to whose `.grad` gradients are added])  -> gradients

Both empty the list that they are given, so that nothing outside keeps alive what they are done with.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moccasin_mzn.pytorch.instructions import Instruction, Linear, Value
from moccasin_mzn.pytorch.joint import TANGENT, Joint

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.fx.graph import CodeGen, PythonCode
    from torch.utils._pytree import PyTree


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
    """How many values of what the forward function gives are outputs; the others are kept."""
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
