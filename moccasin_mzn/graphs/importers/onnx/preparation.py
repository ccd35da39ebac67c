"""Dimensions that an ONNX file leaves open, such as the batch: found, fixed, or asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, shown, some_of
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.graphs.importers.onnx.model import (
    graph_inputs,
    is_standard,
    one_line,
    packages,
    parse_model,
    reads,
    subgraphs,
)
from moccasin_mzn.graphs.importers.onnx.runtime import runtime, with_weights
from moccasin_mzn.graphs.importers.onnx.shapes import Shapes

if TYPE_CHECKING:
    import onnx


_NAMED = 8
"""This many dimensions are named in a message."""


def fix_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> dict[str, int]:
    """Write numbers for the open dimensions into the inputs of `model`, and by name into all else that it declares.

    A dimension is open if it has no number, or 0 or -1, which some exporters write for it. What is open otherwise is
    declared without a number, see `declare`.

    Args:
        dims: numbers by name of the dimension ("batch"), or by input and axis ("x[0]"), which goes before the name.

    Returns:
        The numbers of the dimensions that have a name, but for names that mean several (some exporters write "?").

    Raises:
        InputError: a dimension of `dims` that is not in the file or has another number there; one open in an input
            that is read, and not in `dims`; a number that is invalid. The message lists what there is.
    """
    check_numbers(dims)
    places = _places(model)
    names = {place: dim.dim_param for place, dim in places.items() if dim.dim_param}
    open_places = [place for place, dim in places.items() if dim.dim_value <= 0]
    _check_keys(dims, places, names, open_places)
    missing = []
    numbers: dict[str, set[int]] = {}
    for place in open_places:
        number = dims.get(place, dims.get(names.get(place, place)))
        if number is None:
            missing.append(f"{place} ({names[place]})" if place in names else place)
        else:
            places[place].dim_value = number
            numbers.setdefault(names.get(place, ""), set()).add(number)
    if missing:
        raise InputError(f"give a number for each open dimension (--dim, dims), by place or name: {_some_of(missing)}")
    named = {name: min(found) for name, found in numbers.items() if name and len(found) == 1}
    _close(model.graph, named)
    return named


def _close(graph: onnx.GraphProto, named: Mapping[str, int]) -> None:
    """Write numbers for named dimensions of what a graph declares, and of its subgraphs; forget what is no number."""
    inner = [each for node in graph.node for each in subgraphs(node)]
    declared = [*graph.value_info, *graph.output, *(value for each in inner for value in each.input)]
    for dim in (dim for value in declared for dim in value.type.tensor_type.shape.dim):
        if dim.dim_param in named:
            dim.dim_value = named[dim.dim_param]
        elif dim.HasField("dim_value") and dim.dim_value <= 0:
            dim.ClearField("dim_value")
    for each in inner:
        _close(each, named)


def undeclared(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, list[int]]:
    """By value that is declared with another shape than it has, or with none, the shape that it has."""
    found = {}
    for value in (*graph.value_info, *graph.output):
        shape = shapes.of(value.name).shape
        if shape is not None and value.type.HasField("tensor_type") and shapes.tensor_of(value.type).shape != shape:
            found[value.name] = [*shape]
    return found


def declare(graph: onnx.GraphProto, known: Mapping[str, Sequence[int]]) -> None:
    """Declare outputs with these shapes, and forget what is declared otherwise of other values."""
    for value in graph.output:
        if value.name in known:
            kind = value.type.tensor_type.elem_type
            value.type.CopyFrom(packages().helper.make_tensor_type_proto(kind, known[value.name]))
    kept = [value for value in graph.value_info if value.name not in known]
    graph.ClearField("value_info")
    graph.value_info.extend(kept)


def check_numbers(dims: Mapping[str, int]) -> None:
    """Are these numbers of dimensions?

    Raises:
        InputError: one is not.
    """
    for key, number in dims.items():
        if type(number) is not int or not 0 <= number <= TOTAL_LIMIT:
            raise InputError(f"dimension {shown(key)}: {shown(number)}, expected an integer from 0 to 2**53")


def _places(model: onnx.ModelProto) -> dict[str, onnx.TensorShapeProto.Dimension]:
    """The dimensions of the inputs that are read, by input and axis."""
    needed = {name for node in model.graph.node for name in reads(node)}
    places = {}
    for value in graph_inputs(model.graph):
        if value.name not in needed or not value.type.HasField("tensor_type"):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(f"input {shown(value.name)} has no shape in the file")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < -1:
                raise InputError(f"input {shown(value.name)}: dimension {axis} is {dim.dim_value}")
            places[f"{value.name}[{axis}]"] = dim
    return places


def _check_keys(
    dims: Mapping[str, int],
    places: Mapping[str, onnx.TensorShapeProto.Dimension],
    names: Mapping[str, str],
    open_places: list[str],
) -> None:
    for key, number in dims.items():
        if key in names.values():
            continue
        if key not in places:
            there = [*dict.fromkeys(names.values()), *open_places]
            offer = f"there are {_some_of(there)}" if there else "the file leaves none open"
            raise InputError(f"no dimension {shown(key)}; {offer}")
        if key not in open_places and places[key].dim_value != number:
            raise InputError(f"dimension {shown(key)} is {places[key].dim_value} in the file, not {number}")


def _some_of(names: Iterable[str]) -> str:
    return some_of((shown(name)[1:-1] for name in names), _NAMED)


# --- Which values of an ONNX model that depend on constants alone are computed when a new model is written ----

# ONNX Runtime without graph optimizations computes in every run whatever is no initializer, and holds it as all other
# values. So what is not folded is an operator of the graph as others are. A file is not to grow by much: weights that
# are dequantized, or tables made of their shape, are larger than what they are made of.


SMALL = 64 * 1024
"""Bytes that a value may have in any case."""


class Fold(StrEnum):
    """What is folded of that which depends on constants alone."""

    NONE = "none"
    SMALL = "small"
    """What has no more bytes than the constants it is made of, or than `SMALL`."""
    ALL = "all"


def keep_operators(graph: onnx.GraphProto, shapes: Shapes, fold: Fold) -> list[str]:
    """Let values that are not folded be no constants.

    Returns:
        Names of the values that are, but for those of the operator Constant, and of Shape and Size.
    """
    alone = frozenset(shapes.constants)
    folded: list[str] = []
    sources: dict[str, frozenset[str]] = {}
    for node in graph.node:
        names = [name for name in node.output if name]
        needed = reads(node)
        if not alone.issuperset(names) or _is_stored(node) or not alone.issuperset(needed):
            continue
        found = frozenset().union(*(sources.get(name, frozenset({name})) for name in needed))
        sources |= dict.fromkeys(names, found)
        if fold is not Fold.NONE and _is_folded(node, shapes, None if fold is Fold.ALL else found):
            folded.extend(names)
        else:
            for name in names:
                del shapes.constants[name]
    return folded


def _is_stored(node: onnx.NodeProto) -> bool:
    return is_standard(node) and node.op_type == "Constant"


def _is_folded(node: onnx.NodeProto, shapes: Shapes, sources: frozenset[str] | None) -> bool:
    """Are its outputs of no more bytes than the constants that they are made of, or than `SMALL`? None: whatever."""
    for name in filter(None, node.output):
        size = shapes.size_of(name) if _is_kept(shapes.of(name).dtype) else None
        if size is None:
            return False
        if sources is not None and size > max(SMALL, sum(shapes.size_of(source) or 0 for source in sources)):
            return False
    return True


def _is_kept(dtype: int) -> bool:
    """Has NumPy this type itself?"""
    helper = packages().helper
    try:
        return helper.tensor_dtype_to_np_dtype(dtype).kind in "fiub" and dtype != packages().TensorProto.BFLOAT16
    except KeyError:
        return False


# --- An ONNX model as ONNX Runtime rewrites it before it runs it: constants folded, operators fused, channels in
# blocks

# What it rewrites a model to depends on its version, and at the highest level on the processor.


class Optimize(StrEnum):
    """The level of ONNX Runtime's graph optimizations."""

    NONE = "none"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"


def optimized(data: bytes, level: Optimize, folder: Path, dims: Mapping[str, int]) -> tuple[bytes, dict[str, int]]:
    """The bytes of a file as ONNX Runtime optimizes it, weights inside, and the dimensions that are open still.

    Args:
        data: of the file.
        level: none leaves all as it is.
        folder: of external files.
        dims: numbers of open dimensions.

    Raises:
        InputError: ONNX Runtime is missing, or cannot load the model; see `with_weights` and `fix_dims`.
    """
    if level is Optimize.NONE:
        return data, dict(dims)
    module = runtime()
    model = parse_model(data, weights=True)
    fix_dims(model, dims)
    options = module.SessionOptions()
    options.graph_optimization_level = getattr(module.GraphOptimizationLevel, f"ORT_ENABLE_{level.name}")
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        whole = with_weights(model, folder).SerializeToString()
        try:
            module.InferenceSession(whole, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own types derive from nothing but Exception
            raise InputError(f"ONNX Runtime {module.__version__}: {one_line(error)}") from None
        return path.read_bytes(), {}
