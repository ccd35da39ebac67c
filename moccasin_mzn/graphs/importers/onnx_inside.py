"""Memory of the values inside If, Loop and Scan, which is there while the operator computes, and their multiply-adds.

As ONNX Runtime computes them: what a branch of If puts out is the memory of the output of If. An iteration of Loop
holds what the one before put out, and what each has put out for one of its scans is copied into the whole at the end.
Scan writes the parts of its outputs where they belong. Of the branches of If the larger amounts count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_costs import multiply_adds
from moccasin_mzn.graphs.importers.onnx_model import is_standard
from moccasin_mzn.graphs.importers.onnx_names import reads, subgraphs
from moccasin_mzn.graphs.importers.onnx_shapes import NOTHING_INSIDE, UNKNOWN, Inside, Shapes, Tensor
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


def loop_types(node: onnx.NodeProto, inner: Passed, around: Shapes) -> dict[str, onnx.TypeProto]:
    """Types of what Loop puts out: states that keep their shape, and scans of a number of iterations that is known."""
    ((graph, shapes),) = inner
    states = len(node.input) - 2
    turns = _turns(node, around) if _goes_on(node, graph, shapes, around) else None
    found = {}
    for at, name in enumerate(node.output):
        part = shapes.of(graph.output[1 + at].name) if 1 + at < len(graph.output) else UNKNOWN
        if not name or part.shape is None:
            continue
        if at < states and part == around.of(node.input[2 + at]):
            found[name] = Shapes.type_of(part)
        elif at >= states and turns is not None:
            found[name] = Shapes.type_of(Tensor(part.dtype, (turns, *part.shape)))
    return found


def _goes_on(node: onnx.NodeProto, graph: onnx.GraphProto, shapes: Shapes, around: Shapes) -> bool:
    """Is the condition of a Loop always true?"""
    if len(node.input) > 1 and node.input[1]:
        first = around.values.get(node.input[1])
        if first is None or not first.all():
            return False
    name = graph.output[0].name
    passed = {each.output[0]: each.input[0] for each in graph.node if is_standard(each) and each.op_type == "Identity"}
    while name in passed:
        name = passed[name]
    value = shapes.values.get(name)
    return name == graph.input[1].name or (value is not None and bool(value.all()))


def inside(node: onnx.NodeProto, inner: Passed, around: Shapes) -> Inside:
    """What is inside an operator with subgraphs."""
    if not is_standard(node) or node.op_type not in ("If", "Loop", "Scan"):
        return Inside(None, None)
    taken = _taken(node, inner) if node.op_type == "If" else inner
    memory = memory_inside(node, [(graph, _sizes_in(shapes)) for graph, shapes in taken], around.size_of)
    duration = _highest(_duration(graph, shapes) for graph, shapes in taken)
    turns = 1 if node.op_type == "If" else _turns(node, around)
    return Inside(memory, None if turns is None or duration is None else turns * duration)


def _sizes_in(shapes: Shapes) -> SizesIn:
    return SizesIn(shapes.size_of, lambda node: inside_of(node, shapes).memory)


@dataclass(frozen=True)
class SizesIn:
    """Bytes in a subgraph; None where they are unknown."""

    of: Callable[[str], int | None]
    """Of a value, by its name."""
    within: Callable[[onnx.NodeProto], int | None]
    """Of what is inside an operator."""


def memory_inside(
    node: onnx.NodeProto, inner: Sequence[tuple[onnx.GraphProto, SizesIn]], around: Callable[[str], int | None]
) -> int | None:
    """Bytes of values inside an If, Loop or Scan that are there at a time, at most, besides its outputs.

    Args:
        node: the operator.
        inner: its subgraphs with what is known of them.
        around: bytes of values around it.

    Returns:
        None if it is unknown.
    """
    if node.op_type == "If":
        return _highest(_peak(graph, sizes, {value.name for value in graph.output}) for graph, sizes in inner)
    ((graph, sizes),) = inner
    if node.op_type == "Loop":
        return _in_loop(node, graph, sizes, around)
    return _in_scan(node, graph, sizes)


def _highest(amounts: Iterable[int | None]) -> int | None:
    found = list(amounts)
    return None if None in found else max((amount for amount in found if amount is not None), default=0)


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
    if condition is None or condition.size != 1:
        return inner
    wanted = "then_branch" if condition.all() else "else_branch"
    names = [attribute.name for attribute in node.attribute if attribute.HasField("g")]
    return [one for name, one in zip(names, inner, strict=True) if name == wanted]


def _in_loop(
    node: onnx.NodeProto, graph: onnx.GraphProto, sizes: SizesIn, around: Callable[[str], int | None]
) -> int | None:
    states = len(node.input) - 2
    peak = _peak(graph, sizes)
    carried = known_total(sizes.of(value.name) for value in graph.output[1 : 1 + states])
    part = known_total(sizes.of(value.name) for value in graph.output[1 + states :])
    whole = known_total(around(name) for name in node.output[states:] if name)
    put_out = known_total(around(name) for name in node.output if name)
    if peak is None or carried is None or part is None or whole is None or put_out is None:
        return None
    return max(whole, peak + carried + max(0, whole - part) - put_out, 0)


def _in_scan(node: onnx.NodeProto, graph: onnx.GraphProto, sizes: SizesIn) -> int | None:
    scanned = next(attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs")
    states = len(node.input) - scanned
    peak = _peak(graph, sizes, {value.name for value in graph.output[states:]})
    carried = known_total(sizes.of(value.name) for value in graph.output[:states])
    return None if peak is None or carried is None else peak + 2 * carried  # two of each, which take turns


def _peak(graph: onnx.GraphProto, sizes: SizesIn, elsewhere: Iterable[str] = ()) -> int | None:
    """Most bytes of what operators of a graph put out, in their order, each there until its last read.

    Args:
        graph: a subgraph.
        sizes: what is known of it.
        elsewhere: values that take no memory here.
    """
    last = {name: at for at, node in enumerate(graph.node) for name in (*node.output, *reads(node))}
    last |= {value.name: len(graph.node) for value in graph.output}
    there: dict[str, int] = {}
    peak = 0
    for at, node in enumerate(graph.node):
        if is_standard(node) and node.op_type == "Constant":  # of the session, as initializers are
            continue
        within = sizes.within(node)
        for name in node.output:
            size = sizes.of(name) if name and name not in elsewhere else 0
            if size is None:
                return None
            there[name] = size
        if within is None:
            return None
        peak = max(peak, sum(there.values()) + within)
        there = {name: size for name, size in there.items() if name and last[name] > at}
    return peak
