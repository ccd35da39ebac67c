"""The branch of an If whose condition is known, in place of the operator. ::

y = If(yes) {then: t = Exp(x); u = Neg(t)}        t = Exp(x)    y = Neg(t)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard, packages
from moccasin_mzn.graphs.importers.onnx_names import all_names, fresh, initializer_names, rename_reads
from moccasin_mzn.graphs.importers.onnx_shapes import Shapes

if TYPE_CHECKING:
    import onnx


def known_branches(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, bool]:
    """By first output of each If of the graph whose condition is known: is it true?"""
    return {
        node.output[0]: bool(shapes.values[node.input[0]].all())
        for node in graph.node
        if is_standard(node) and node.op_type == "If" and node.input and node.input[0] in shapes.values
        and shapes.values[node.input[0]].size == 1 and node.output and node.output[0]
    }  # fmt: skip


def take_branches(graph: onnx.GraphProto, taken: Mapping[str, bool]) -> None:
    """Put the branch that is taken in place of each If that `known_branches` found."""
    nodes = list(graph.node)
    used = set(all_names(graph))
    new: list[onnx.NodeProto] = []
    for node in nodes:
        if node.op_type == "If" and node.output and node.output[0] in taken:
            wanted = "then_branch" if taken[node.output[0]] else "else_branch"
            branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
            new.extend(_unwrapped(node, branch, graph, used))
        else:
            copy = type(node)()
            copy.CopyFrom(node)
            new.append(copy)
    del graph.node[:]
    graph.node.extend(new)


def _unwrapped(
    node: onnx.NodeProto, branch: onnx.GraphProto, graph: onnx.GraphProto, used: set[str]
) -> list[onnx.NodeProto]:
    """The operators of a branch, with names that are free in the graph, to which its constants are added."""
    made = [name for inner in branch.node for name in inner.output if name]
    names: dict[str, str] = {}
    copied = []
    for name, value in zip(node.output, branch.output, strict=False):
        if name and value.name in made and value.name not in names:
            names[value.name] = name
        elif name:
            copied.append((value.name, name))
    for name in (*initializer_names(branch), *made):
        names.setdefault(name, fresh(f"{node.output[0]}/{name}", used))
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    for sparse in branch.sparse_initializer:
        graph.sparse_initializer.add().CopyFrom(sparse)
        graph.sparse_initializer[-1].values.name = names[sparse.values.name]
    for value in branch.value_info:
        if value.name in names:
            graph.value_info.add().CopyFrom(value)
            graph.value_info[-1].name = names[value.name]
    found = []
    for inner in branch.node:
        new = type(inner)()
        new.CopyFrom(inner)
        if node.name and inner.name:
            new.name = f"{node.name}/{inner.name}"
        new.output[:] = [names.get(name, name) for name in inner.output]
        rename_reads(new, names)
        found.append(new)
    make = packages().helper.make_node
    return found + [make("Identity", [names.get(name, name)], [given]) for name, given in copied]
