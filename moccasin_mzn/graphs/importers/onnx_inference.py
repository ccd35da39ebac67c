"""Types and shapes of all values of an ONNX model, and which of them are constants.

One pass in the order of execution: `onnx.shape_inference` for each operator, given the values of small constants, or
`onnx_shape_rules` where `onnx` has no rule. Where a shape is itself computed (Shape, Gather, Concat, then Reshape),
`onnx_values` computes it: the shape of a value is a constant once it is known. Subgraphs are passed over as well, with
what is known around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.onnx_inside import common_types, inside, loop_types
from moccasin_mzn.graphs.importers.onnx_model import graph_inputs, is_standard, operator_sets, packages
from moccasin_mzn.graphs.importers.onnx_names import reads, subgraphs
from moccasin_mzn.graphs.importers.onnx_shape_rules import CORRECTED, ruled
from moccasin_mzn.graphs.importers.onnx_shapes import Shapes, varies
from moccasin_mzn.graphs.importers.onnx_values import OF_SHAPE, VIEWS, evaluate, stored_value

if TYPE_CHECKING:
    import numpy
    import onnx


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

    def visit(self, node: onnx.NodeProto) -> None:
        """Record types, constants and values of its outputs."""
        shapes = self.shapes
        types = self._infer(node)
        inner = self._passed_inside(node)
        if node.op_type == "If":
            types |= common_types(node, inner)
        elif is_standard(node) and node.op_type == "Loop" and inner:
            types |= loop_types(node, inner, shapes)
        for name in node.output:
            if name:
                shapes.record(name, types.get(name) or packages().TypeProto())
        if inner:
            shapes.inside[next(name for name in node.output if name)] = inside(node, inner, shapes)
        if self._is_constant(node):
            view = is_standard(node) and node.op_type in VIEWS and node.input
            base = shapes.constants.get(node.input[0]) if view else None
            for name in node.output:
                if name:
                    shapes.constants[name] = base or name
            self._evaluate(node)

    def _passed_inside(self, node: onnx.NodeProto) -> list[tuple[onnx.GraphProto, Shapes]]:
        """Its subgraphs, each with what the pass finds out of the values inside."""
        if not any(node.output):
            return []
        return [
            (graph, _pass_over(self.shapes.around(graph), graph, self._types_inside(node, graph)))
            for graph in subgraphs(node)
        ]

    def _types_inside(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> list[onnx.TypeProto]:
        """Types of the inputs of a subgraph, as far as those of the operator tell them."""
        onnx, shapes = packages(), self.shapes
        read = [shapes.types.get(name, onnx.TypeProto()) for name in node.input]
        if node.op_type == "Loop":
            kinds = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
            return [*(onnx.helper.make_tensor_type_proto(kind, []) for kind in kinds), *read[2:]]
        if node.op_type != "Scan" or self.sets[""] < 9:
            return [onnx.TypeProto() for _ in graph.input]
        told = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        states = len(read) - told["num_scan_inputs"]
        axes = told.get("scan_input_axes") or [0] * told["num_scan_inputs"]
        for at, axis in enumerate(axes, start=states):
            tensor = shapes.of(node.input[at])
            if tensor.shape:
                axis %= len(tensor.shape)
                shape = [dim for place, dim in enumerate(tensor.shape) if place != axis]
                read[at] = onnx.helper.make_tensor_type_proto(tensor.dtype, shape)
        return read

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        if is_standard(node) and node.op_type in OF_SHAPE and node.input:
            return self.shapes.of(node.input[0]).shape is not None
        return all(name in self.shapes.constants for name in reads(node)) and not varies(node)

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types by output; without the values of constants first, as passing these takes time."""
        onnx, shapes = packages(), self.shapes
        types: dict[str, Any] = {}
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
        return types | ruled(node, shapes, self._delegated)

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
