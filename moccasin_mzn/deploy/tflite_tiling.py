"""TFLite models whose outputs are computed in parts, by operators of the same kind on parts of what they read. ::

    y = CONV_2D(x), 3 x 3, SAME, 8 rows      y[0:4] = CONV_2D(PAD(x[0:5], 1 above, 1 left, 1 right), VALID)
                                             y[4:8] = CONV_2D(PAD(x[3:8], 1 below, 1 left, 1 right), VALID)

An operator of TFLite has no padding in numbers, only SAME, which kernels compute from the shapes, or VALID. So where
the padding of a part is not that of its shapes, a PAD comes before it, with the value that stands for nothing: zero,
or the least number for a maximum. Which places of its inputs an operator reads is known from the import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.deploy.gathering import (
    Gathering,
    Unsplittable,
    check_own_places,
    cut_axes,
    numbered_boxes,
    of_same_parts,
    read_box,
    splittable,
    suffix_of,
    useful_cuts,
    with_reductions,
)
from moccasin_mzn.deploy.tflite_micro import persistent_of
from moccasin_mzn.graphs.access_maps import Axes, total_padding
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.tflite import (
    case_of,
    graph_of,
    inputs,
    operator_name,
    outputs,
    producers,
    schema,
    sources_of,
    type_name,
)
from moccasin_mzn.graphs.importers.tflite_operators import Case, accesses
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.graphs.tiling.cutting import Box, Cuts

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT, TensorT

_VERSIONS = {
    "SLICE": {"INT8": 2, "UINT8": 1, "INT16": 4, "BOOL": 2},
    "CONCATENATION": {"INT8": 2, "INT16": 3},
    "PAD": {"INT8": 2, "INT16": 2},
    "PADV2": {"INT8": 2, "INT16": 2},
}
"""Versions of the operators that parts need, by the type of what they read; default: 1."""
_KINDS = {
    "FLOAT32": np.float32, "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "BOOL": np.bool_,
}  # fmt: skip
"""Types whose constants can be sliced and padded with."""
MOST_JOINED = 10
"""Inputs of a CONCATENATION in TensorFlow Lite Micro."""
Sides = tuple[tuple[int, int], tuple[int, int]]
"""Padding before and after rows and columns."""


@dataclass(frozen=True)
class Recipe:
    """The operator that computes a part."""

    boxes: Mapping[int, Box]
    """By input the part of it that is read; an input that is missing here is read whole."""
    padding: Sides | None = None
    """What comes before the first input's rows and columns, and after; then the operator has VALID. None: its own."""
    valid: bool = False
    """The operator has VALID; otherwise its own padding."""


def recipe_of(case: Case, box: Box) -> Recipe:
    """How to compute a part of the output of an operator.

    Args:
        box: for each axis of the output the first place, and the one after the last.

    Raises:
        Unsplittable: it cannot be done.
    """
    maps, rule = accesses(case), _RULES.get(case.name)
    if rule is None or not maps:
        raise Unsplittable(case.name)
    try:
        return rule(_Part(case, box, maps))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of what does not fit
        raise Unsplittable(case.name) from None


@dataclass(frozen=True)
class _Part:
    """A part that is to be computed."""

    case: Case
    box: Box
    maps: Mapping[int, Axes]

    @property
    def cut(self) -> set[int]:
        """Axes along which it is not all of the output."""
        return cut_axes(self.box, self.case.put_out.shape)

    def read(self, at: int) -> Box:
        """What is read of one input."""
        return read_box(self.maps[at], self.box, self.case.read[at].shape)


def _plain(part: _Part) -> Recipe:
    """Nothing but what is read changes: along axes that are cut each place reads its own."""
    check_own_places(part.maps.values(), part.cut)
    return Recipe({at: part.read(at) for at in part.maps})


def _dense(part: _Part) -> Recipe:
    """Rows of a matrix: weights and bias are read whole."""
    rank = len(part.case.put_out.shape)
    if part.cut - set(range(rank - 1)) or len(part.case.read[0].shape) != rank:
        raise Unsplittable
    return Recipe({0: part.read(0)})


def _concatenated(part: _Part) -> Recipe:
    axis = part.case.options.axis % len(part.box)
    if axis in part.cut:
        raise Unsplittable
    return Recipe({at: part.read(at) for at in part.maps})


def _convolution(part: _Part) -> Recipe:
    case = part.case
    return _window(part, case.read[1].shape[1:3], (case.options.dilationHFactor, case.options.dilationWFactor))


def _pool(part: _Part) -> Recipe:
    found = _window(part, (part.case.options.filterHeight, part.case.options.filterWidth), (1, 1))
    if part.case.name == "AVERAGE_POOL_2D" and found.padding is not None:
        raise Unsplittable  # places of padding are not counted
    return found


def _window(part: _Part, sizes: Sequence[int], dilations: Sequence[int]) -> Recipe:
    """A window that slides over rows and columns."""
    case, options = part.case, part.case.options
    if part.cut & {0, 3}:
        raise Unsplittable
    spans: list[tuple[int, int]] = []
    padding: list[tuple[int, int]] = []
    own = True
    sides = zip((1, 2), sizes, dilations, (options.strideH, options.strideW), strict=True)
    for axis, size, dilation, stride in sides:
        extent, count = case.read[0].shape[axis], case.put_out.shape[axis]
        before, reach = total_padding(extent, count, size, stride, dilation) // 2, (size - 1) * dilation + 1
        start, stop = part.box[axis]
        first, last = start * stride - before, (stop - 1) * stride - before + reach
        low, high = max(0, first), min(extent, last)
        if low >= high:
            raise Unsplittable
        spans.append((low, high))
        padding.append((low - first, last - high))
        same = total_padding(high - low, stop - start, size, stride, dilation)
        own &= -(-(high - low) // stride) == stop - start and same // 2 == low - first
    read = ((0, case.read[0].shape[0]), *spans, (0, case.read[0].shape[3]))
    if own and options.padding == schema().Padding.SAME:
        return Recipe({0: read})
    if not any(map(any, padding)):
        return Recipe({0: read}, valid=True)
    return Recipe({0: read}, (padding[0], padding[1]), valid=True)


_PLAIN = """
    ABS ADD CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FLOOR GELU GREATER GREATER_EQUAL HARD_SWISH L2_NORMALIZATION
    LEAKY_RELU LESS LESS_EQUAL LOG LOG_SOFTMAX LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MEAN MINIMUM
    MUL NEG NOT_EQUAL POW PRELU QUANTIZE REDUCE_MAX REDUCE_MIN RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT
    SELECT_V2 SIN SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE SUB SUM TANH
    """.split()  # noqa: SIM905
_RULES: Mapping[str, Callable[[_Part], Recipe]] = {
    **dict.fromkeys(_PLAIN, _plain),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _pool),
    "FULLY_CONNECTED": _dense,
    "CONCATENATION": _concatenated,
}


# --- The model ------------------------------------------------------------------------------------------------


def possible_cuts(model: ModelT, graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> dict[int, Cuts]:
    """What of some cuts can be done.

    Args:
        graph: of the model.
        cuts: by node.
    """
    found: dict[int, Cuts] = {}
    sources, operators = sources_of(model), model.subgraphs[0].operators
    for v, wanted in cuts.items():
        if isinstance(graph.nodes[v], int) and graph.operators is not None and graph.operators[v] is not None:
            case = case_of(model, operators[int(graph.nodes[v])], sources)
            if all(each.kind in _KINDS for each in (case.put_out, *case.read)):
                found[v] = splittable(case.put_out.shape, wanted, partial(recipe_of, case))
    return {v: own for v, own in found.items() if own}


def tiled_model(model: ModelT, graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> tuple[ModelT, ComputationGraph]:
    """The model that computes some outputs in parts, and its graph, which knows the parts.

    Args:
        model: of `read_model`; it is not changed.
        graph: of the model.
        cuts: by node, as `possible_cuts` leaves them.
    """
    tiling = _Tiling(model)
    by_operator = {int(graph.nodes[v]): own for v, own in cuts.items()}
    for at in range(len(model.subgraphs[0].operators)):
        tiling.add(at, by_operator.get(at, {}))
    made = tiling.finished()
    in_arena = "inputs" not in graph.fixed_memory
    tiled = graph_of(made, graph.name, inputs_in_arena=in_arena, with_operators=not tiling.part_of)
    parts = [tiling.part_of.get(int(node)) if isinstance(node, int) else None for node in tiled.nodes]
    return made, replace(tiled, parts=tuple(parts)) if tiling.part_of else tiled


def _all(tensors: Sequence[int] | None) -> Sequence[int]:
    return () if tensors is None else tensors


def _renumbered(signature: Any, number: Mapping[int, int]) -> Any:
    """The names of inputs and outputs for other numbers of tensors."""
    new = copy(signature)
    for side in ("inputs", "outputs"):
        named = [copy(one) for one in getattr(signature, side) or ()]
        for one in named:
            one.tensorIndex = number[int(one.tensorIndex)]
        setattr(new, side, named)
    return new


@dataclass
class TfliteCutter:
    """Graphs of a model in parts, and what they are of."""

    model: ModelT
    made: list[tuple[ModelT, ComputationGraph]] = field(default_factory=list)

    def cut(self, graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> ComputationGraph:
        """The graph of the model that computes outputs in parts, as far as it can; `graph` is the model's own."""
        possible = possible_cuts(self.model, graph, cuts)
        chosen = useful_cuts(graph, possible_cuts(self.model, graph, with_reductions(graph, possible)))
        self.made.append(tiled_model(self.model, graph, chosen))
        return self.made[-1][1]

    def whole(self, graph: ComputationGraph) -> set[int]:
        """The nodes that are never cut: no operator of the kind, or of the types, is known to compute parts."""
        sources, operators, found = sources_of(self.model), self.model.subgraphs[0].operators, set[int]()
        for v, node in enumerate(graph.nodes):
            if not isinstance(node, int) or graph.operators is None or graph.operators[v] is None:
                found.add(v)
                continue
            case = case_of(self.model, operators[node], sources)
            if case.name not in _RULES or not all(each.kind in _KINDS for each in (case.put_out, *case.read)):
                found.add(v)
        return found

    def persistent(self, graph: ComputationGraph, sequence: Sequence[int]) -> int:
        """About what TensorFlow Lite Micro takes in addition to tensors for a schedule of a graph made here."""
        return persistent_of(self.model_of(graph), graph, sequence)

    def model_of(self, graph: ComputationGraph) -> ModelT:
        """The one that has a graph which was made here."""
        return next(model for model, made in reversed(self.made) if of_same_parts(made, graph))


@dataclass
class _Tiling(Gathering[int]):
    """The operators of a tiled model so far; values are numbers of tensors."""

    original: ModelT
    operators: list[OperatorT] = field(default_factory=list)
    part_of: dict[int, Part] = field(default_factory=dict)
    """By number of a new operator the part that it computes."""
    added: set[int] = field(default_factory=set)
    """Tensors that new operators output, but for parts of what nothing reads in the original."""

    def __post_init__(self) -> None:
        self.model = copy(self.original)
        self.subgraph = copy(self.original.subgraphs[0])
        self.model.subgraphs = [self.subgraph, *self.original.subgraphs[1:]]
        self.model.buffers, self.model.operatorCodes = list(self.model.buffers), list(self.model.operatorCodes)
        self.subgraph.tensors = list(self.subgraph.tensors)
        self.maker = producers(self.original)
        self.sources = sources_of(self.original)
        of = self.original.subgraphs[0]
        self.used = {int(x) for operator in of.operators for x in inputs(operator)} | {int(x) for x in of.outputs}

    def add(self, at: int, cuts: Cuts) -> None:
        """Add an operator of the model, or its parts."""
        operator = self.original.subgraphs[0].operators[at]
        if not cuts:
            for x in operator.inputs if operator.inputs is not None else ():
                self.whole(int(x))
            self.operators.append(operator)
            return
        case, (made,) = case_of(self.original, operator, self.sources), outputs(operator)
        values = {}
        for index, box in numbered_boxes(case.put_out.shape, cuts).items():
            values[index] = self._part(operator, case, box, list(cuts))
            self.part_of[len(self.operators) - 1] = Part(str(at), box)
        self.keep_parts(made, cuts, values)

    def finished(self) -> ModelT:
        """The model."""
        for x in self.subgraph.outputs:
            self.whole(int(x))
        self._leave_out_unread()
        self._number_anew()
        return self.model

    def _leave_out_unread(self) -> None:
        """Leave out new operators whose output is not read, such as rows between the windows of a stride."""
        read, kept = {int(x) for x in self.subgraph.outputs}, list[int]()
        for at in range(len(self.operators) - 1, -1, -1):
            made = outputs(self.operators[at])
            if not made or not read.isdisjoint(made) or not self.added.issuperset(made):
                kept.append(at)
                read.update(inputs(self.operators[at]))
        number = {at: new for new, at in enumerate(reversed(kept))}
        self.operators = [self.operators[at] for at in number]
        self.part_of = {number[at]: part for at, part in self.part_of.items() if at in number}

    def _number_anew(self) -> None:
        """Drop tensors that are not read or outputs any more, which TensorFlow Lite Micro would place."""
        subgraph = self.subgraph
        ends = map(int, (*subgraph.inputs, *subgraph.outputs))
        used = {int(x) for operator in self.operators for x in (*_all(operator.inputs), *_all(operator.outputs))}
        kept = sorted(x for x in used | set(ends) if x >= 0)
        number = {-1: -1, **{x: at for at, x in enumerate(kept)}}
        subgraph.tensors = [subgraph.tensors[x] for x in kept]
        subgraph.operators = [copy(operator) for operator in self.operators]
        for each in subgraph.operators:
            each.inputs = [number[int(x)] for x in _all(each.inputs)]
            each.outputs = [number[int(x)] for x in _all(each.outputs)]
        subgraph.inputs, subgraph.outputs = ([number[int(x)] for x in of] for of in (subgraph.inputs, subgraph.outputs))
        self.model.signatureDefs = [
            _renumbered(signature, number) if signature.subgraphIndex == 0 else signature
            for signature in self.model.signatureDefs or ()
        ]

    def shape_of(self, value: int) -> tuple[int, ...]:
        shape = self.subgraph.tensors[value].shape
        return () if shape is None else tuple(map(int, shape))

    def add_concatenation(self, pieces: Sequence[int], axis: int, whole: int | None) -> int:
        if (count := len(pieces)) > MOST_JOINED:  # no more memory than at once: pieces are dropped group by group
            groups = -(-count // MOST_JOINED)
            cuts = [count * at // groups for at in range(groups + 1)]
            pieces = [self._joined(pieces[start:stop], axis, None) for start, stop in pairwise(cuts)]
            return self.add_concatenation(pieces, axis, whole)
        made = self._like(pieces[0], self._joined_shape(pieces, axis), "+") if whole is None else whole
        options = schema().ConcatenationOptionsT()
        options.axis = axis
        self._operator("CONCATENATION", pieces, made, "ConcatenationOptions", options)
        return made

    def add_slice(self, value: int, own: Box, inner: Mapping[int, tuple[int, int]]) -> int:
        box = [inner.get(axis, (0, stop - start)) for axis, (start, stop) in enumerate(own)]
        sizes = [stop - start for start, stop in box]
        suffix = suffix_of(tuple(box), list(inner))
        constant = self._constant_value(value)
        if constant is not None:
            places = tuple(slice(*each) for each in box)
            return self._like(value, sizes, suffix, np.ascontiguousarray(constant[places]))
        made = self._like(value, sizes, suffix)
        begin, size = self._integers([start for start, _ in box]), self._integers(sizes)
        self._operator("SLICE", (value, begin, size), made, "SliceOptions", schema().SliceOptionsT())
        return made

    def _part(self, operator: OperatorT, case: Case, box: Box, axes: list[int]) -> int:
        """Add the operator of a part, and what it needs; the tensor that it outputs."""
        recipe, read = recipe_of(case, box), []
        for at, x in enumerate(map(int, operator.inputs)):
            if x < 0:
                read.append(x)
            elif at in recipe.boxes:
                read.append(self.read(x, recipe.boxes[at]))
            else:
                self.whole(x)
                read.append(x)
        if recipe.padding is not None:
            read[0] = self._padded(read[0], recipe.padding, lowest=case.name == "MAX_POOL_2D")
        new = copy(operator)
        new.inputs = read
        made = self._like(outputs(operator)[0], [stop - start for start, stop in box], suffix_of(box, axes))
        new.outputs = [made]
        self.added.update([made] if outputs(operator)[0] in self.used else [])
        if recipe.valid:
            new.builtinOptions = copy(operator.builtinOptions)
            new.builtinOptions.padding = schema().Padding.VALID
        self.operators.append(new)
        return made

    def _padded(self, x: int, padding: Sides, *, lowest: bool) -> int:
        """Have a tensor with more rows and columns: of zeros, or of the lowest number."""
        key = ("Pad", x, padding, lowest)
        if key not in self.made:
            shape = list(self.shape_of(x))
            for axis, (before, after) in zip((1, 2), padding, strict=True):
                shape[axis] += before + after
            made = self._like(x, shape, " padded")
            numbers = self._integers([[0, 0], *map(list, padding), [0, 0]])
            if lowest:
                dtype = _KINDS[type_name(self.model, x)]
                value = np.finfo(dtype).min if dtype is np.float32 else np.iinfo(dtype).min
                least = self._like(x, [1], " lowest", np.asarray([value], dtype))
                self._operator("PADV2", (x, numbers, least), made, "PadV2Options", schema().PadV2OptionsT())
            else:
                self._operator("PAD", (x, numbers), made, "PadOptions", schema().PadOptionsT())
            self.made[key] = made
        return self.made[key]

    def _operator(self, name: str, read: Sequence[int], made: int, kind: str, options: object) -> None:
        operator = schema().OperatorT()
        operator.opcodeIndex = self._code(name, _VERSIONS[name].get(type_name(self.model, read[0]), 1))
        operator.inputs, operator.outputs = list(read), [made]
        self.added.add(made)
        operator.builtinOptionsType, operator.builtinOptions = getattr(schema().BuiltinOptions, kind), options
        self.operators.append(operator)

    def _code(self, name: str, version: int) -> int:
        for at, code in enumerate(self.model.operatorCodes):
            probe = schema().OperatorT()
            probe.opcodeIndex = at
            if operator_name(self.model, probe) == name and code.version >= version:
                return at
        code = schema().OperatorCodeT()
        code.builtinCode = getattr(schema().BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def _like(self, x: int, shape: Sequence[int], suffix: str, values: np.ndarray | None = None) -> int:
        """Have a tensor of the type of another, with values if it is a constant."""
        tensor: TensorT = copy(self.subgraph.tensors[x])
        name = tensor.name.decode() if isinstance(tensor.name, bytes) else tensor.name or ""
        tensor.name, tensor.shape = f"{name}{suffix}", list(shape)
        tensor.shapeSignature, tensor.buffer = None, 0 if values is None else self._buffer(values)
        self.subgraph.tensors.append(tensor)
        return len(self.subgraph.tensors) - 1

    def _integers(self, numbers: Sequence[object]) -> int:
        """Have integers as a constant."""
        values = np.asarray(numbers, np.int32)
        key = ("numbers", values.shape, *values.ravel().tolist())
        if key not in self.made:
            tensor = schema().TensorT()
            tensor.name, tensor.shape = f"numbers {values.ravel().tolist()}", list(values.shape)
            tensor.type, tensor.buffer = schema().TensorType.INT32, self._buffer(values)
            self.subgraph.tensors.append(tensor)
            self.made[key] = len(self.subgraph.tensors) - 1
        return self.made[key]

    def _buffer(self, values: np.ndarray) -> int:
        buffer = schema().BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def _constant_value(self, x: int) -> Any:
        """The values of a constant; None: it is not one, or is unpacked first."""
        data = self.model.buffers[self.subgraph.tensors[x].buffer].data
        if x in self.maker or data is None or not len(data):
            return None
        return np.asarray(data, np.uint8).view(_KINDS[type_name(self.model, x)]).reshape(self.shape_of(x))

    def _joined_shape(self, pieces: Sequence[int], axis: int) -> list[int]:
        shapes = [self.shape_of(x) for x in pieces]
        first = list(shapes[0])
        first[axis] = sum(shape[axis] for shape in shapes)
        return first
