"""Memory of the values inside If, Loop and Scan, which is there while the operator computes, and their multiply-adds.

As ONNX Runtime computes them: what a branch of If puts out is the memory of the output of If. An iteration of Loop
holds what the one before put out, and what each has put out for one of its scans is copied into the whole at the end.
Scan writes the parts of its outputs where they belong. Of the branches of If the larger amounts count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_costs import multiply_adds
from moccasin_mzn.graphs.importers.onnx_model import is_standard, reads, subgraphs
from moccasin_mzn.graphs.importers.onnx_shapes import NOTHING_INSIDE, Inside, Shapes
from moccasin_mzn.graphs.importers.program import known_total

if TYPE_CHECKING:
    import onnx

    Passed = Sequence[tuple[onnx.GraphProto, Shapes]]


def common_types(node: onnx.NodeProto, inner: Passed) -> dict[str, onnx.TypeProto]:
    """Types of the outputs of an If of whose branches, or of the one that is taken, all put out the same shape."""
    found = {}
    for at, name in enumerate(node.output):
        put_out = [
            shapes.of(graph.output[at].name) if at < len(graph.output) else None
            for graph, shapes in _taken(node, inner)
        ]
        first = put_out[0] if put_out else None
        if name and first is not None and first.shape is not None and all(each == first for each in put_out):
            found[name] = Shapes.type_of(first)
    return found


def inside(node: onnx.NodeProto, inner: Passed, around: Shapes) -> Inside:
    """What is inside an operator with subgraphs."""
    if not is_standard(node) or node.op_type not in ("If", "Loop", "Scan"):
        return Inside(None, None)
    if node.op_type == "If":
        branches = [
            (_peak(graph, shapes, {value.name for value in graph.output}), _duration(graph, shapes))
            for graph, shapes in _taken(node, inner)
        ]
        return Inside(*(_highest(amounts) for amounts in zip(*branches, strict=True)))
    ((graph, shapes),) = inner
    memory = (_in_loop if node.op_type == "Loop" else _in_scan)(node, graph, shapes, around)
    turns, duration = _turns(node, around), _duration(graph, shapes)
    return Inside(memory, None if turns is None or duration is None else turns * duration)


def _highest(amounts: Iterable[int | None]) -> int | None:
    found = list(amounts)
    return None if None in found else max(amount for amount in found if amount is not None)


def _turns(node: onnx.NodeProto, around: Shapes) -> int | None:
    """How often the body of Loop or Scan is computed, at most."""
    if node.op_type == "Loop":
        count = around.values.get(node.input[0]) if node.input else None
        return None if count is None else max(0, int(count.reshape(-1)[0]))
    scanned = next(attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs")
    axes = next((attribute.ints for attribute in node.attribute if attribute.name == "scan_input_axes"), [0])
    shape = around.of(node.input[-scanned]).shape
    return None if not shape else shape[axes[0]]


def _duration(graph: onnx.GraphProto, shapes: Shapes) -> int | None:
    total = 0
    for node in graph.node:
        within = inside_of(node, shapes).duration
        own = within if any(subgraphs(node)) else multiply_adds(
            node, [*map(shapes.of, node.input)], [*map(shapes.of, node.output)]
        )  # fmt: skip
        if own is None:
            own = known_total(shapes.of(name).elements for name in node.output if name)
        if own is None:
            return None
        total += own
    return total


def inside_of(node: onnx.NodeProto, shapes: Shapes) -> Inside:
    """What the pass found inside an operator."""
    return shapes.inside.get(next((name for name in node.output if name), ""), NOTHING_INSIDE)


def _taken(node: onnx.NodeProto, inner: Passed) -> Passed:
    """The branches of an If that may be taken: one, where the condition is known."""
    shapes = inner[0][1]
    condition = shapes.values.get(node.input[0]) if node.input else None
    if condition is None:
        return inner
    wanted = "then_branch" if condition.all() else "else_branch"
    names = [attribute.name for attribute in node.attribute if attribute.HasField("g")]
    return [one for name, one in zip(names, inner, strict=True) if name == wanted]


def _in_loop(node: onnx.NodeProto, graph: onnx.GraphProto, shapes: Shapes, around: Shapes) -> int | None:
    states = len(node.input) - 2
    peak = _peak(graph, shapes)
    carried = known_total(shapes.size_of(value.name) for value in graph.output[1 : 1 + states])
    part = known_total(shapes.size_of(value.name) for value in graph.output[1 + states :])
    whole = known_total(around.size_of(name) for name in node.output[states:] if name)
    put_out = known_total(around.size_of(name) for name in node.output if name)
    if peak is None or carried is None or part is None or whole is None or put_out is None:
        return None
    return max(whole, peak + carried + max(0, whole - part) - put_out, 0)


def _in_scan(node: onnx.NodeProto, graph: onnx.GraphProto, shapes: Shapes, around: Shapes) -> int | None:
    scanned = next(attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs")
    states = len(node.input) - scanned
    peak = _peak(graph, shapes, {value.name for value in graph.output[states:]})
    carried = known_total(shapes.size_of(value.name) for value in graph.output[:states])
    return None if peak is None or carried is None else peak + carried


def _peak(graph: onnx.GraphProto, shapes: Shapes, elsewhere: Iterable[str] = ()) -> int | None:
    """Most bytes of what operators of a graph put out, in their order, each there until its last read.

    Args:
        elsewhere: values that take no memory here.
    """
    last = {name: at for at, node in enumerate(graph.node) for name in (*node.output, *reads(node))}
    last |= {value.name: len(graph.node) for value in graph.output}
    there: dict[str, int] = {}
    peak = 0
    for at, node in enumerate(graph.node):
        if is_standard(node) and node.op_type == "Constant":  # of the session, as initializers are
            continue
        names = [name for name in node.output if name and name not in elsewhere]
        within = inside_of(node, shapes).memory
        sizes = [shapes.size_of(name) for name in names]
        if within is None or None in sizes:
            return None
        there |= {name: size for name, size in zip(names, sizes, strict=True) if size is not None}
        peak = max(peak, sum(there.values()) + within)
        there = {name: size for name, size in there.items() if last[name] > at}
    return peak
