"""Names of values in an ONNX graph: what reads which, and other names for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in its attributes: branches of If, bodies of Loop and Scan."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names of the values it reads, those that its subgraphs take from around them included, each once."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in subgraphs(node):
        names.update(dict.fromkeys(_taken_from_outside(graph)))
    return tuple(names)


def _taken_from_outside(graph: onnx.GraphProto) -> list[str]:
    defined = {value.name for value in graph.input} | set(initializer_names(graph))
    taken: list[str] = []
    for node in graph.node:
        taken.extend(name for name in reads(node) if name not in defined)
        defined.update(node.output)
    taken.extend(value.name for value in graph.output if value.name not in defined)
    return taken


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Names of the constants stored in a graph, dense and sparse."""
    return [one.name for one in graph.initializer] + [one.values.name for one in graph.sparse_initializer]


def all_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of all values, those in subgraphs included."""
    yield from (value.name for value in (*graph.input, *graph.output))
    yield from initializer_names(graph)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in subgraphs(node):
            yield from all_names(inner)


def fresh(name: str, taken: set[str]) -> str:
    """The name, with something behind it if it is taken, which it is from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def rename_reads(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Let an operator, and what is in its subgraphs, read values by other names."""
    if not renamed:
        return
    node.input[:] = [renamed.get(name, name) for name in node.input]
    for graph in subgraphs(node):
        hidden = {value.name for value in graph.input} | set(initializer_names(graph))
        seen = {name: other for name, other in renamed.items() if name not in hidden}
        for inner in graph.node:
            rename_reads(inner, seen)
            seen = {name: other for name, other in seen.items() if name not in inner.output}
        for value in graph.output:
            value.name = seen.get(value.name, value.name)
