"""The values of small constants of an ONNX model: what shapes are computed from, by `onnx.reference`.

Only a list of operators is ever run, on few numbers, and only where the result is small as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import VALUES_KEPT, packages

if TYPE_CHECKING:
    import numpy
    import onnx

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
"""Those whose output may be large though their inputs are small."""


def stored_value(tensor: onnx.TensorProto) -> numpy.ndarray | None:
    """The value in a file; None if it was dropped, stands in an external file, or is broken."""
    if tensor.data_location == tensor.EXTERNAL:  # to_array would open that file
        return None
    try:
        return packages().numpy_helper.to_array(tensor)
    except Exception:  # of several types, for data that are not as long as the dimensions say
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
    node: onnx.NodeProto,
    version: int,
    inputs: Mapping[str, numpy.ndarray],
    outputs: Sequence[Sequence[int] | None],
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
