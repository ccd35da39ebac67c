"""What is known of the values of an ONNX model: types, shapes, sizes, and which of them are constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.graphs.importers.onnx_model import VALUES_KEPT, is_standard, packages
from moccasin_mzn.graphs.importers.onnx_names import reads, subgraphs

if TYPE_CHECKING:
    import numpy
    import onnx

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose output is no constant whatever they read."""


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


@dataclass(frozen=True)
class Inside:
    """What the subgraphs of an operator come to."""

    memory: int | None = 0
    """Bytes of values inside that are there at a time, at most, besides what the operator puts out; None if unknown."""
    duration: int | None = 0
    """Multiply-adds; None if unknown."""


NOTHING_INSIDE = Inside()


@dataclass
class Shapes:
    """What the pass finds out of the values of a graph, and of those around it."""

    model: onnx.ModelProto
    named: Mapping[str, int]
    """Numbers of named dimensions."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of values whose size cannot be inferred."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    """Constants, each with the constant whose memory it is: itself, or what it is a view of."""
    values: dict[str, numpy.ndarray] = field(default_factory=dict)
    """Of small constants."""
    inside: dict[str, Inside] = field(default_factory=dict)
    """By first output of an operator with subgraphs: what is in them."""
    seen: set[str] = field(default_factory=set)
    """Names of all values, those in subgraphs included."""
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    stated: dict[str, Tensor] = field(default_factory=dict)
    """What the file says of values whose shape cannot be inferred."""

    def of(self, name: str) -> Tensor:
        """What is known of a value."""
        return self.tensors.get(name, UNKNOWN)

    def size_of(self, name: str) -> int | None:
        """Bytes of a value; None if that is unknown."""
        size = self.of(name).size
        return self.sizes.get(name) if size is None else size

    def around(self, graph: onnx.GraphProto) -> Shapes:
        """For a subgraph: what is known of values around it, and what the file says of its own."""
        copied = {what: dict(getattr(self, what)) for what in ("tensors", "constants", "values", "inside", "types")}
        inner = Shapes(self.model, self.named, self.sizes, **copied, seen=self.seen, stated=dict(self.stated))
        inner.note_stated(graph)
        return inner

    def note_stated(self, graph: onnx.GraphProto) -> None:
        """Note what a graph says of the shapes of its values; exporters write 0 for what they do not know."""
        for value in (*graph.value_info, *graph.output):
            stated = self.tensor_of(value.type)
            if stated.shape is not None and 0 not in stated.shape:
                self.stated[value.name] = stated
            else:
                self.stated.pop(value.name, None)

    def record(self, name: str, kind: onnx.TypeProto) -> None:
        """Note the type of a value.

        Raises:
            InputError: it has more elements than can be counted exactly.
        """
        tensor = self.tensor_of(kind)
        if tensor.shape is None:
            tensor = self.stated.get(name, tensor)
        if tensor.elements is not None and tensor.elements > TOTAL_LIMIT:
            raise InputError(f"{shown(name)} has more than 2**53 elements")
        self.forget(name)
        self.seen.add(name)
        self.tensors[name] = tensor
        self.types[name] = kind if tensor.shape is None else self.type_of(tensor)

    def record_constant(self, name: str, dtype: int, dims: Sequence[int], value: numpy.ndarray | None = None) -> None:
        """Note a constant of the file.

        Raises:
            InputError: it has a negative dimension.
        """
        if any(dim < 0 for dim in dims):
            raise InputError(f"initializer {shown(name)}: a negative dimension, {min(dims)}")
        self.record(name, self.type_of(Tensor(dtype, tuple(dims))))
        self.constants[name] = name
        self.record_value(name, value)

    def record_value(self, name: str, value: numpy.ndarray | None) -> None:
        """Note the value of a constant, if it is small."""
        if value is not None and value.size <= VALUES_KEPT:
            self.values[name] = value

    def forget(self, name: str) -> None:
        """Forget a value, as another one of a subgraph hides it."""
        for known in (self.constants, self.values, self.inside):
            known.pop(name, None)

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
    def type_of(tensor: Tensor) -> onnx.TypeProto:
        """The type of a tensor of known shape, as files have it."""
        return packages().helper.make_tensor_type_proto(tensor.dtype, tensor.shape)


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
