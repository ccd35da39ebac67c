"""Types and shapes of all values of an ONNX model, and which of them are constants.

One pass in the order of execution: `onnx.shape_inference` for each operator, given the values of small constants, or
`shape_rules` where `onnx` has no rule. Where a shape is itself computed (Shape, Gather, Concat, then Reshape),
`shapes.evaluate` computes it: the shape of a value is a constant once it is known. Subgraphs are passed over as well,
with what is known around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx.costs import multiply_adds
from moccasin_mzn.graphs.importers.onnx.model import (
    graph_inputs,
    is_standard,
    operator_sets,
    packages,
    reads,
    subgraphs,
)
from moccasin_mzn.graphs.importers.onnx.shape_rules import CORRECTED, ruled
from moccasin_mzn.graphs.importers.onnx.shapes import (
    NOTHING_INSIDE,
    OF_SHAPE,
    UNKNOWN,
    VIEWS,
    Inside,
    Shapes,
    Tensor,
    evaluate,
    stored_value,
    varies,
)
from moccasin_mzn.graphs.importers.program import known_total

if TYPE_CHECKING:
    import numpy
    import onnx
    import onnx as onnx_package

    Passed = Sequence[tuple[onnx.GraphProto, Shapes]]


def infer(model: onnx.ModelProto, named: Mapping[str, int], sizes: Mapping[str, int] | None = None) -> Shapes:
    """Run the pass over a model whose inputs have no open dimensions.

    Args:
        named: numbers of named dimensions.
        sizes: bytes of values whose size cannot be inferred.

    Raises:
        InputError: a constant with a negative dimension, a value of more than 2**53 elements.
    """
    shapes = Shapes(model, named, sizes or {})
    shapes.note_stated(model.graph)
    _pass_over(shapes, model.graph, [value.type for value in graph_inputs(model.graph)])
    return shapes


def _pass_over(shapes: Shapes, graph: onnx.GraphProto, types: Sequence[onnx.TypeProto]) -> Shapes:
    for tensor in graph.initializer:
        shapes.record_constant(tensor.name, tensor.data_type, tensor.dims, stored_value(tensor))
    for sparse in graph.sparse_initializer:
        shapes.record_constant(sparse.values.name, sparse.values.data_type, sparse.dims)
    for value, kind in zip(graph_inputs(graph), types, strict=False):
        shapes.record(value.name, kind)
    operators = _Operators(shapes)
    for node in graph.node:
        operators.visit(node)
    return shapes


class _Operators:
    """The step of the pass: one operator."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.sets = operator_sets(shapes.model)
        self.set_list = list(shapes.model.opset_import)
        self.misread = set[str]()
        """Outputs of the last operator to which `onnx`, and so ONNX Runtime as it loads a model, gives too few axes."""

    def visit(self, node: onnx.NodeProto) -> None:
        """Record types, constants and values of its outputs."""
        shapes, self.misread = self.shapes, set()
        types = self._infer(node)
        inner = self._passed_inside(node)
        if node.op_type == "If":
            types |= common_types(node, inner)
        elif is_standard(node) and node.op_type == "Loop" and inner:
            types |= loop_types(node, inner, shapes)
        doubtful = not shapes.in_doubt.isdisjoint(reads(node))
        for name in node.output:
            if name:
                shapes.record(name, types.get(name) or packages().TypeProto())
                declared = (
                    is_standard(node) and shapes.of(name).shape is not None and not self._complete(types.get(name))
                )
                shapes.in_doubt.update([name] if doubtful or declared or name in self.misread else [])
        if inner:
            shapes.inside[next(name for name in node.output if name)] = inside(node, inner, shapes)
        if self._is_known(node) and not doubtful:
            view = is_standard(node) and node.op_type in VIEWS and node.input
            base = shapes.constants.get(node.input[0]) if view else None
            for name in node.output:
                if name:
                    shapes.constants[name] = base or name
        if self._is_known(node):
            self._evaluate(node)

    def _passed_inside(self, node: onnx.NodeProto) -> list[tuple[onnx.GraphProto, Shapes]]:
        """The operator's subgraphs, each with what the pass finds out of the values inside."""
        if not any(node.output):
            return []
        return [
            (graph, _pass_over(self.shapes.around(graph), graph, self._types_inside(node, graph)))
            for graph in subgraphs(node)
        ]

    def _types_inside(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> list[onnx.TypeProto]:
        """Types of the inputs of a subgraph, as far as those of the operator determine them."""
        onnx, shapes = packages(), self.shapes
        read = [shapes.types.get(name, onnx.TypeProto()) for name in node.input]
        if node.op_type == "Loop":
            kinds = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
            return [*(onnx.helper.make_tensor_type_proto(kind, []) for kind in kinds), *read[2:]]
        if node.op_type != "Scan" or self.sets[""] < 9:
            return [onnx.TypeProto() for _ in graph.input]
        attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        states = len(read) - attributes["num_scan_inputs"]
        axes = attributes.get("scan_input_axes") or [0] * attributes["num_scan_inputs"]
        for at, axis in enumerate(axes, start=states):
            tensor = shapes.of(node.input[at])
            if tensor.shape:
                axis %= len(tensor.shape)
                shape = [dim for place, dim in enumerate(tensor.shape) if place != axis]
                read[at] = onnx.helper.make_tensor_type_proto(tensor.dtype, shape)
        return read

    def _is_known(self, node: onnx.NodeProto) -> bool:
        """Is what it outputs a constant, or would be one if shapes that are in doubt were as they are declared?"""
        if is_standard(node) and node.op_type in OF_SHAPE and node.input:
            return self.shapes.of(node.input[0]).shape is not None
        constants, values = self.shapes.constants, self.shapes.values
        return all(name in constants or name in values for name in reads(node)) and not varies(node)

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types by output; without the values of constants first, as passing these takes time."""
        onnx, shapes = packages(), self.shapes
        types: dict[str, onnx_package.TypeProto] = {}
        domain = "" if is_standard(node) else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self.sets[domain], domain)
        except (onnx.defs.SchemaError, KeyError):
            schema = None
        values = {name: shapes.values[name] for name in node.input if name in shapes.values}
        for data in ({}, values) if schema is not None else ():
            try:
                types = self._infer_once(schema, node, data)
            except Exception:  # the bindings raise several types for what does not fit; then it stays unknown
                continue
            if self._all_known(node, types) and node.op_type not in CORRECTED:
                return types
        found = types | ruled(node, shapes, self._delegated)
        self.misread = {name for name, kind in types.items() if _rank(kind) not in (None, _rank(found[name]))}
        return found

    def _delegated(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types of an operator of ONNX that is computed as another one is."""
        return self._infer_once(packages().defs.get_schema(node.op_type, max(self.sets[""], 13)), node, {})

    def _infer_once(
        self, schema: onnx.defs.OpSchema, node: onnx.NodeProto, values: Mapping[str, numpy.ndarray]
    ) -> dict[str, onnx.TypeProto]:
        onnx = packages()
        return onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: self.shapes.types[name] for name in reads(node)},
            {name: onnx.numpy_helper.from_array(value) for name, value in values.items()},
            opset_imports=self.set_list,
            ir_version=self.shapes.model.ir_version,
        )

    def _all_known(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> bool:
        return all(not name or self._complete(types.get(name)) for name in node.output)

    def _complete(self, kind: onnx.TypeProto | None) -> bool:
        return kind is not None and self.shapes.tensor_of(kind).shape is not None

    def _evaluate(self, node: onnx.NodeProto) -> None:
        shapes = self.shapes
        if not is_standard(node):
            return
        inputs = {name: shapes.values.get(name) for name in node.input if name}
        described = shapes.of(node.input[0]).shape if node.input else None
        outputs = [shapes.of(name).shape if name else () for name in node.output]
        for name, value in evaluate(node, self.sets[""], inputs, described, outputs).items():
            shapes.record_value(name, value)


def _rank(kind: onnx.TypeProto) -> int | None:
    return len(kind.tensor_type.shape.dim) if kind.tensor_type.HasField("shape") else None


# --- Memory of the values inside If, Loop and Scan, which is there while the operator computes, and their
# multiply-adds

# As ONNX Runtime computes them: what a branch of If puts out is the memory of the output of If. An iteration of Loop
# holds what the one before put out, and what each has put out for one of its scans is copied into the whole at the
# end. Scan writes the parts of its outputs where they belong. Of the branches of If the larger amounts count.


def common_types(node: onnx.NodeProto, inner: Passed) -> dict[str, onnx.TypeProto]:
    """Types of the outputs of an If of whose branches, or of the one that is taken, all output the same shape."""
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
    """Types of what Loop outputs: states that keep their shape, and scans of a number of iterations that is known."""
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
    """Bytes of a value, by its name."""
    within: Callable[[onnx.NodeProto], int | None]
    """Bytes of what is inside an operator."""


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
    """Most bytes of what operators of a graph output, in their order, each there until its last read.

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
