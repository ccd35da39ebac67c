"""Most memory that the values of an ONNX model take, computed in an order that was seen, with sizes that were seen.

A value is there from its computation to its last read, what the model returns to the end. What depends on constants
alone counts as parameters, not here. Not seen is what an operator takes for itself while it computes, and what
alignment or an arena waste; and that ONNX Runtime computes some operators in the memory of their input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import graph_inputs, is_standard, reads
from moccasin_mzn.graphs.importers.onnx_shapes import varies
from moccasin_mzn.graphs.importers.onnx_values import VIEWS

if TYPE_CHECKING:
    import onnx


def peak_of(
    graph: onnx.GraphProto, order: Sequence[int], sizes: Mapping[str, int], *, shared_views: bool = False
) -> int:
    """The peak in bytes.

    Args:
        order: positions of the operators in the order in which they were computed.
        sizes: bytes of the values they put out.
        shared_views: Reshape and its like take no memory of their own.
    """
    counted = _varying(graph)
    root: dict[str, str] = {}
    last: dict[str, int] = {}
    born: list[list[str]] = []
    for time, at in enumerate(order):
        node = graph.node[at]
        for name in reads(node):
            last[root.get(name, name)] = time
        outputs = [name for name in node.output if name]
        if shared_views and _is_view(node):
            root[outputs[0]] = root.get(node.input[0], node.input[0])
            outputs = []
        born.append([name for name in outputs if name in counted])
        last.update((name, time) for name in outputs)
    for value in graph.output:
        last[root.get(value.name, value.name)] = len(order)
    return _highest(born, last, sizes)


def _is_view(node: onnx.NodeProto) -> bool:
    """Can its output be the memory of its first input?"""
    passing = node.op_type == "Dropout" and len(node.input) < 3 and sum(map(bool, node.output)) == 1
    return is_standard(node) and (node.op_type in VIEWS or passing) and bool(node.input and node.input[0])


def _highest(born: Sequence[Sequence[str]], last: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Values that begin at each time, and the last time of each, come to this memory at most."""
    dying: dict[int, int] = {}
    memory = peak = 0
    for time, names in enumerate(born):
        for name in names:
            size = sizes.get(name, 0)
            memory += size
            dying[last[name]] = dying.get(last[name], 0) + size
        peak = max(peak, memory)
        memory -= dying.get(time, 0)
    return peak


def _varying(graph: onnx.GraphProto) -> set[str]:
    """Values that depend on an input, or on chance."""
    found = {value.name for value in graph_inputs(graph)}
    inputs = frozenset(found)
    for node in graph.node:
        if varies(node) or any(name in found for name in reads(node)):
            found.update(name for name in node.output if name)
    return found - inputs
