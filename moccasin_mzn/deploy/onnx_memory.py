"""Most memory that the values of an ONNX model take, computed in an order that was seen, with sizes that were seen.

A value is there from its computation to its last read, what the model returns to the end. What depends on constants
alone may count as parameters, not here. Values inside If, Loop and Scan are there while these compute. Not seen is what
else an operator takes for itself, such as a convolution, and what alignment or an arena waste.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx.model import graph_inputs, is_standard, reads
from moccasin_mzn.graphs.importers.onnx.shapes import VIEWS, is_elementwise, varies

if TYPE_CHECKING:
    import onnx


def peak_of(
    graph: onnx.GraphProto, order: Sequence[int], sizes: Mapping[str, int], inside: Mapping[int, int] | None = None,
    *, shared_views: bool = False, in_place: bool = False, constants: bool = False,
) -> int:  # fmt: skip
    """The peak in bytes.

    Args:
        graph: of the model.
        order: positions of the operators in the order in which they were computed.
        sizes: bytes of the values they put out.
        inside: bytes that operators take for values in their subgraphs, by position.
        shared_views: Reshape and its like take no memory of their own.
        in_place: so do elementwise operators, and views, whose output is as large as an input that is read no more.
        constants: what depends on constants alone takes memory too, but for what Constant puts out.
    """
    counted = _computed(graph) if constants else _varying(graph)
    last = {name: time for time, at in enumerate(order) for name in (*graph.node[at].output, *reads(graph.node[at]))}
    last |= {value.name: len(order) for value in graph.output}
    root: dict[str, str] = {}
    if shared_views:
        for at in order:
            node = graph.node[at]
            if _is_view(node):
                (name,) = filter(None, node.output)
                root[name] = root.get(node.input[0], node.input[0])
                last[root[name]] = max(last.get(root[name], 0), last[name])
    there: dict[str, int] = {}
    memory = peak = 0
    for time, at in enumerate(order):
        node = graph.node[at]
        born = {name: sizes.get(name, 0) for name in node.output if name in counted and name not in root}
        overwritten = _overwritten(node, born, there, last, root, time) if in_place else None
        memory += 0 if overwritten else sum(born.values())
        there |= born
        if overwritten:
            del there[overwritten]
        peak = max(peak, memory + (inside or {}).get(at, 0))
        for name in {root.get(name, name) for name in (*born, *reads(node), *filter(None, node.output))}:
            if name in there and last[name] == time:
                memory -= there.pop(name)
    return peak


def _overwritten(
    node: onnx.NodeProto, born: Mapping[str, int], there: Mapping[str, int], last: Mapping[str, int],
    root: Mapping[str, str], time: int,
) -> str | None:  # fmt: skip
    """The input in whose memory an operator computes, if there is one."""
    if len(born) != 1 or not (_is_view(node) or is_elementwise(node)):
        return None
    (size,) = born.values()
    for read in node.input[: 1 if _is_view(node) else None]:
        name = root.get(read, read)
        if there.get(name) == size and last[name] == time:
            return name
    return None


def _is_view(node: onnx.NodeProto) -> bool:
    """Can its output be the memory of its first input?"""
    passing = node.op_type == "Dropout" and len(node.input) < 3 and sum(map(bool, node.output)) == 1
    return is_standard(node) and (node.op_type in VIEWS or passing) and bool(node.input and node.input[0])


def _computed(graph: onnx.GraphProto) -> set[str]:
    return {name for node in graph.node if node.op_type != "Constant" for name in node.output if name}


def _varying(graph: onnx.GraphProto) -> set[str]:
    """Values that depend on an input, or on chance."""
    found = {value.name for value in graph_inputs(graph)}
    inputs = frozenset(found)
    for node in graph.node:
        if varies(node) or any(name in found for name in reads(node)):
            found.update(name for name in node.output if name)
    return found - inputs
