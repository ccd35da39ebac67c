"""What is known of the values of an ONNX model: types, shapes, sizes, and which of them are constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.graphs.importers.onnx.model import VALUES_KEPT, is_standard, operator_sets, packages, reads, subgraphs
from moccasin_mzn.graphs.reduction import ELEMENTWISE

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
    """Bytes of values inside that are there at a time, at most, besides what the operator outputs; None if unknown."""
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
    """Values of small constants, by name."""
    inside: dict[str, Inside] = field(default_factory=dict)
    """By first output of an operator with subgraphs: what is in them."""
    seen: set[str] = field(default_factory=set)
    """Names of all values, those in subgraphs included."""
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    stated: dict[str, Tensor] = field(default_factory=dict)
    """What the file declares about values whose shape cannot be inferred."""
    in_doubt: set[str] = field(default_factory=set)
    """Values whose shape is declared where it depends on what is computed, such as that of NonZero, and what is made of
    them: another run may have another shape, and numbers that are computed from it are no constants. ONNX Runtime may
    refuse operators that are added behind such a value, as it infers other shapes when it loads a model."""

    def of(self, name: str) -> Tensor:
        """What is known of a value."""
        return self.tensors.get(name, UNKNOWN)

    def size_of(self, name: str) -> int | None:
        """Bytes of a value; None if that is unknown."""
        size = self.of(name).size
        return self.sizes.get(name) if size is None else size

    def around(self, graph: onnx.GraphProto) -> Shapes:
        """For a subgraph: what is known of values around it, and what the file declares of its own."""
        copied = {what: dict(getattr(self, what)) for what in ("tensors", "constants", "values", "inside", "types")}
        inner = Shapes(self.model, self.named, self.sizes, **copied, seen=self.seen, stated=dict(self.stated),
                       in_doubt={*self.in_doubt})  # fmt: skip
        inner.note_stated(graph)
        return inner

    def note_stated(self, graph: onnx.GraphProto) -> None:
        """Note the declared shapes of a graph: those of its values; exporters write 0 for what they do not know."""
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
        self.in_doubt.discard(name)

    def tensor_of(self, kind: onnx.TypeProto) -> Tensor:
        """A type of the file, with the named dimensions filled in."""
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


@dataclass(frozen=True)
class Call:
    """An operator, with what is known of what it reads and outputs."""

    node: onnx.NodeProto
    shapes: Shapes

    def read(self, at: int) -> Tensor:
        """What is known of an input.

        Raises:
            LookupError: its shape is not.
        """
        tensor = self.shapes.of(self.node.input[at])
        if tensor.shape is None:
            raise LookupError
        return tensor

    def shape(self, at: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        shape = self.read(at).shape
        assert shape is not None
        return shape

    def has(self, at: int) -> bool:
        """Is this input given?"""
        return at < len(self.node.input) and bool(self.node.input[at])

    def attribute(self, name: str, default: Json = None) -> Json:
        """An attribute."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return packages().helper.get_attribute_value(attribute)
        return default

    def value(self, at: int) -> numpy.ndarray:
        """The value of an input that is a small constant."""
        return self.shapes.values[self.node.input[at]]


def varies(node: onnx.NodeProto) -> bool:
    """May the operator output something else in each run though it reads the same?

    So do random numbers, and a custom operator that reads nothing: it gets what it outputs from elsewhere.
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


# --- The values of small constants of an ONNX model: what shapes are computed from, by `onnx.reference` -------

# Only a list of operators is ever run, on few numbers, and only where the result is small as well.


VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose output has the elements of their first input."""
OF_SHAPE = frozenset({"Shape", "Size"})
"""Operators that read no more than the shape of their input."""
_RUN = frozenset(
    """
    Abs Add And Cast Ceil Clip Concat ConstantOfShape Div Equal Expand Floor Gather GatherND Greater
    GreaterOrEqual Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or Pow Range Reciprocal ReduceMax ReduceMin
    ReduceProd ReduceSum Round ScatterElements ScatterND Sign Slice Split Sqrt Sub Sum Tile Transpose Where
    """.split()  # noqa: SIM905
)
"""What shapes are computed with; quick for small inputs."""
_GROWING = frozenset({"ConstantOfShape", "Expand", "Range", "Tile"})
"""Operators whose output may be large though their inputs are small."""


def stored_value(tensor: onnx.TensorProto) -> numpy.ndarray | None:
    """The value in a file; None if it was dropped, stands in an external file, or is broken."""
    if tensor.data_location == tensor.EXTERNAL:  # to_array would open that file
        return None
    try:
        return packages().numpy_helper.to_array(tensor)
    except Exception:  # of several types, for data whose length is not that of the dimensions
        return None


def evaluate(
    node: onnx.NodeProto,
    version: int,
    inputs: Mapping[str, numpy.ndarray | None],
    described: Sequence[int] | None,
    outputs: Sequence[Sequence[int] | None],
) -> dict[str, numpy.ndarray]:
    """Values of the outputs of one operator of ONNX's own, by name; none if it cannot or should not be computed.

    Args:
        version: of the operator set.
        inputs: values by name, None if unknown.
        described: the shape of the first input, which is all that Shape and Size read; None if unknown.
        outputs: the shape of each output, None if unknown.
    """
    if not node.output or not node.output[0]:
        return {}
    known = {name: value for name, value in inputs.items() if value is not None}
    if node.op_type == "Constant":
        value = _constant(node)
    elif node.op_type in OF_SHAPE:
        value = _of_shape(node, described)
    elif not inputs or len(known) < len(inputs):
        return {}
    elif node.op_type in VIEWS:
        value = _reshaped(next(iter(known.values())), outputs[0])
    else:
        return _run(node, version, known, outputs) if node.op_type in _RUN else {}
    return {} if value is None else {node.output[0]: value}


def _reshaped(value: numpy.ndarray, shape: Sequence[int] | None) -> numpy.ndarray | None:
    return None if shape is None or prod(shape) != value.size else value.reshape(shape)


def _constant(node: onnx.NodeProto) -> numpy.ndarray | None:
    import numpy

    for attribute in node.attribute:
        if attribute.HasField("t"):
            return stored_value(attribute.t)
        if attribute.name.startswith(("value_int", "value_float")):
            dtype = numpy.int64 if attribute.name.startswith("value_int") else numpy.float32
            return numpy.asarray(packages().helper.get_attribute_value(attribute), dtype)
    return None


def _of_shape(node: onnx.NodeProto, shape: Sequence[int] | None) -> numpy.ndarray | None:
    import numpy

    if shape is None:
        return None
    if node.op_type == "Size":
        return numpy.asarray(prod(shape), numpy.int64)
    limits = {attribute.name: attribute.i for attribute in node.attribute}
    return numpy.asarray(shape[limits.get("start", 0) : limits.get("end", len(shape))], numpy.int64)


def _run(
    node: onnx.NodeProto, version: int, inputs: Mapping[str, numpy.ndarray], outputs: Sequence[Sequence[int] | None]
) -> dict[str, numpy.ndarray]:
    import numpy
    from onnx.reference import ReferenceEvaluator

    onnx = packages()
    if any(prod(shape) > VALUES_KEPT if shape is not None else node.op_type in _GROWING for shape in outputs):
        return {}
    graph = onnx.GraphProto(
        name="one",
        node=[node],
        input=[onnx.ValueInfoProto(name=name) for name in inputs],
        output=[onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = onnx.ModelProto(ir_version=8, graph=graph, opset_import=[onnx.helper.make_opsetid("", version)])
    try:
        with numpy.errstate(all="ignore"):
            values = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception:  # numpy's and the evaluator's own, for numbers that do not fit; then it stays unknown
        return {}
    return dict(zip((name for name in node.output if name), map(numpy.asarray, values), strict=False))


# --- Which ONNX operators put out the same when they are recomputed, and which element by element ---------


_KNOWN_DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Custom ones whose operators are functions of what they read, but for those below."""
_STATEFUL = re.compile("Random|Dropout|Sampling|PythonOp|Yield|Send|Recv|RecordEvent|WaitEvent|Optimizer|Accumul")

_MORE_ELEMENTWISE = frozenset(
    """
    acos acosh and asin asinh atan atanh bitshift bitwiseand bitwisenot bitwiseor bitwisexor cosh equal greater
    greaterorequal isinf isnan less lessorequal max mean min mod not or shrink sinh where xor
    """.split()  # noqa: SIM905
)
"""Operators, in lower case, that are elementwise besides those that graphs are reduced by; Mean is that of tensors."""
_ELEMENTWISE = ELEMENTWISE | _MORE_ELEMENTWISE


def may_repeat(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Does this operator, recomputed from the same values, output the same?

    Random numbers are others each time, with a seed too, as the generator goes on; of custom operators it is unknown.
    """
    if is_standard(node):
        here = node.op_type not in RANDOM and (node.op_type != "Dropout" or passes_through(node, shapes))
    else:
        here = node.domain in _KNOWN_DOMAINS and not _STATEFUL.search(node.op_type)
    return here and all(may_repeat(inner, shapes) for graph in subgraphs(node) for inner in graph.node)


def is_elementwise(node: onnx.NodeProto) -> bool:
    """Does each element of its output need those alone that stand in the same place of its inputs?"""
    training = any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    return is_standard(node) and node.op_type.lower() in _ELEMENTWISE and not training


def passes_through(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Does this Dropout pass everything through? Its third input decides, from operator set 12 on; before 7 is_test."""
    if len(node.input) > 2 and node.input[2]:
        mode = shapes.values.get(node.input[2])
        return mode is not None and not mode.any()
    version = operator_sets(shapes.model).get("", 1)
    return version >= 7 or any(attribute.name == "is_test" and attribute.i for attribute in node.attribute)
