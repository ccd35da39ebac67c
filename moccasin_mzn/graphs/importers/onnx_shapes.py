"""Types and shapes of all values of an ONNX model, and which of them are constants.

One pass in the order of execution: `onnx.shape_inference` for each operator, given the values of small constants. Where
a shape is itself computed (Shape, Gather, Concat, then Reshape), `onnx_values` computes it: the shape of a value is a
constant once it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.graphs.importers.onnx_model import (
    VALUES_KEPT,
    graph_inputs,
    is_standard,
    operator_sets,
    packages,
    reads,
    subgraphs,
)
from moccasin_mzn.graphs.importers.onnx_values import OF_SHAPE, VIEWS, evaluate, stored_value

if TYPE_CHECKING:
    import numpy
    import onnx

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose output is no constant whatever they read."""
_LIKE_INPUT = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators for which `onnx` has no rule; their output is like their first input."""


@dataclass(frozen=True)
class Tensor:
    """What is known of one value."""

    dtype: int
    """A `TensorProto.DataType`; 0 if it is unknown, or no tensor."""
    shape: tuple[int, ...] | None
    """None if it is unknown."""

    @cached_property
    def elements(self) -> int | None:
        """None if unknown."""
        return None if self.shape is None else prod(self.shape)

    @cached_property
    def size(self) -> int | None:
        """Bytes, types of less than a byte packed; None if unknown, as for strings."""
        bits = _bits(self.dtype)
        return None if self.elements is None or bits is None else -(-self.elements * bits // 8)


UNKNOWN = Tensor(0, None)


@dataclass
class Shapes:
    """What the pass finds out."""

    model: onnx.ModelProto
    named: Mapping[str, int]
    """Numbers of named dimensions."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    """Constants, each with the constant whose memory it is: itself, or what it is a view of."""
    values: dict[str, numpy.ndarray] = field(default_factory=dict)
    """Of small constants."""
    _types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    _stated: dict[str, Tensor] = field(default_factory=dict)
    """What the file says of values whose shape cannot be inferred."""

    def of(self, name: str) -> Tensor:
        """What is known of a value of the main graph."""
        return self.tensors.get(name, UNKNOWN)

    def record(self, name: str, kind: onnx.TypeProto) -> None:
        """Note the type of a value.

        Raises:
            InputError: it has more elements than can be counted exactly.
        """
        tensor = self.tensor_of(kind)
        if tensor.shape is None:
            tensor = self._stated.get(name, tensor)
        if tensor.elements is not None and tensor.elements > TOTAL_LIMIT:
            raise InputError(f"{shown(name)} has more than 2**53 elements")
        self.tensors[name] = tensor
        self._types[name] = kind if tensor.shape is None else self._type_of(tensor)

    def tensor_of(self, kind: onnx.TypeProto) -> Tensor:
        """What a type of the file says, with the named dimensions filled in."""
        tensor = kind.tensor_type
        if not kind.HasField("tensor_type"):
            return UNKNOWN
        if not tensor.HasField("shape"):
            return Tensor(tensor.elem_type, None)
        shape = [self.named.get(dim.dim_param, -1) if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        known = all(dim.dim_param or dim.HasField("dim_value") for dim in tensor.shape.dim)
        return Tensor(tensor.elem_type, tuple(shape) if known and min(shape, default=0) >= 0 else None)

    @staticmethod
    def _type_of(tensor: Tensor) -> onnx.TypeProto:
        return packages().helper.make_tensor_type_proto(tensor.dtype, tensor.shape)


def infer(model: onnx.ModelProto, named: Mapping[str, int]) -> Shapes:
    """Run the pass over a model whose inputs have no open dimensions.

    Raises:
        InputError: a constant with a negative dimension, a value of more than 2**53 elements.
    """
    shapes = Shapes(model, named)
    graph = model.graph
    for value in (*graph.value_info, *graph.output):
        stated = shapes.tensor_of(value.type)
        if stated.shape is not None and 0 not in stated.shape:  # exporters write 0 for what they do not know
            shapes._stated[value.name] = stated
    for tensor in graph.initializer:
        _record_constant(shapes, tensor.name, tensor.data_type, tensor.dims)
        _record_value(shapes, tensor.name, stored_value(tensor))
    for sparse in graph.sparse_initializer:
        _record_constant(shapes, sparse.values.name, sparse.values.data_type, sparse.dims)
    for value in graph_inputs(graph):
        shapes.record(value.name, value.type)
    operators = _Operators(shapes)
    for node in graph.node:
        operators.visit(node)
    return shapes


def _record_constant(shapes: Shapes, name: str, dtype: int, dims: list[int]) -> None:
    if any(dim < 0 for dim in dims):
        raise InputError(f"initializer {shown(name)}: a negative dimension, {min(dims)}")
    shapes.record(name, Shapes._type_of(Tensor(dtype, tuple(dims))))
    shapes.constants[name] = name


def _record_value(shapes: Shapes, name: str, value: numpy.ndarray | None) -> None:
    if value is not None and value.size <= VALUES_KEPT:
        shapes.values[name] = value


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
        for name in node.output:
            if name:
                shapes.record(name, types.get(name) or packages().TypeProto())
        if self._is_constant(node):
            view = is_standard(node) and node.op_type in VIEWS and node.input
            base = shapes.constants.get(node.input[0]) if view else None
            for name in node.output:
                if name:
                    shapes.constants[name] = base or name
            self._evaluate(node)

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        if is_standard(node) and node.op_type in OF_SHAPE and node.input:
            return self.shapes.of(node.input[0]).shape is not None
        return all(name in self.shapes.constants for name in reads(node)) and not varies(node)

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types by output; without the values of constants first, as passing these takes time."""
        onnx = packages()
        domain = "" if is_standard(node) else node.domain
        if not domain and node.op_type in _LIKE_INPUT and node.input and node.input[0]:
            return {node.output[0]: self.shapes._types[node.input[0]]} if node.output else {}
        try:
            schema = onnx.defs.get_schema(node.op_type, self.sets[domain], domain)
        except (onnx.defs.SchemaError, KeyError):
            return {}
        types: dict[str, Any] = {}
        values = {name: self.shapes.values[name] for name in node.input if name in self.shapes.values}
        for data in ({}, values):
            try:
                types = self._infer_once(schema, node, data)
            except Exception:  # the bindings raise several types for what does not fit; then it stays unknown
                continue
            if all(not name or self._complete(types.get(name)) for name in node.output):
                break
        return types

    def _infer_once(
        self, schema: onnx.defs.OpSchema, node: onnx.NodeProto, values: Mapping[str, numpy.ndarray]
    ) -> dict[str, onnx.TypeProto]:
        onnx = packages()
        return onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: self.shapes._types[name] for name in reads(node)},
            {name: onnx.numpy_helper.from_array(value) for name, value in values.items()},
            opset_imports=self.set_list,
            ir_version=self.shapes.model.ir_version,
        )

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
            _record_value(shapes, name, value)


def varies(node: onnx.NodeProto) -> bool:
    """May it put out something else in each run though it reads the same?

    So do random numbers, and a custom operator that reads nothing: it gets what it puts out from elsewhere.
    """
    if node.op_type in RANDOM or not (is_standard(node) or reads(node)):
        return True
    return any(varies(inner) for graph in subgraphs(node) for inner in graph.node)


def _bits(dtype: int) -> int | None:
    """Bits of one element; None for strings and what is unknown."""
    onnx = packages()
    name = onnx.TensorProto.DataType.Name(dtype) if dtype in onnx.TensorProto.DataType.values() else ""
    return _BITS.get(name)


_BITS = {
    **{"FLOAT": 32, "DOUBLE": 64, "FLOAT16": 16, "BFLOAT16": 16, "BOOL": 8, "COMPLEX64": 64, "COMPLEX128": 128},
    **{f"{sign}INT{bits}": bits for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)},
    **dict.fromkeys(("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"), 8),
    **{"FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "FLOAT4E2M1": 4},
}
