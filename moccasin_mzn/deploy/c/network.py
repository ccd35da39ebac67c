"""An int8 network as C sees it: layers that have a kernel, tensors of four axes, and the graph that plans are for.

Every tensor is (images, rows, columns, channels); one of fewer axes has ones before them::

    [1, 144, 144, 3]   images 1, rows 144, columns 144, channels 3
    [49, 40]           images 1, rows   1, columns  49, channels 40

Inputs and outputs of the network belong to the caller: they take nothing of the arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.folding import folded
from moccasin_mzn.deploy.c.kernels import Kernel, Unsupported, kernel_of, resize_tables
from moccasin_mzn.deploy.c.tensors import SIZES, Given, Tensor
from moccasin_mzn.graphs.access_maps import covering
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.tflite import graph_of, inputs, operator_name, outputs, sources_of, type_name
from moccasin_mzn.graphs.operators import Operator, Read
from moccasin_mzn.graphs.tiling.cutting import Cuts, cut

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT

_NAMED = 5
"""Operators without a kernel that a message names."""
_WIDEST = 2**16 - 1
"""Most rows or columns of a tensor."""
_WHOLE = frozenset(("mean", "reshape"))
"""Kernels whose output is not cut."""
_SUMS = frozenset(("mean",))
"""Kernels that compute in steps over the parts of what they read."""
_ARRAYS = {
    "FLOAT32": "<f4", "INT32": "<i4", "INT64": "<i8", "INT8": "i1", "UINT8": "u1", "INT16": "<i2", "BOOL": "?",
}  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """One operator with its kernel."""

    node: int
    """The layer's position in the model without what is folded, which is its node's id."""
    name: str
    """The name of what it outputs."""
    kernel: Kernel
    reads: tuple[Tensor, ...]
    """What the kernel reads as activations, in its order; constants among them are in the model."""
    output: Tensor


@dataclass(frozen=True)
class Network:
    """A model that can be written as C."""

    model: ModelT
    """As it was read: LiteRT runs this one."""
    name: str
    layers: Mapping[int, Layer]
    """By node."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    graph: ComputationGraph
    """The model's, in which the network's outputs and its views take nothing."""
    views: Mapping[int, Tensor]
    """By tensor that is an input or a constant in another shape that one: it is read where it is."""

    def cut(self, graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> ComputationGraph:
        """The graph of parts, as far as kernels compute parts: rows and columns of one image.

        Args:
            graph: that of this network.
            cuts: by node.
        """
        kept = {}
        for v, own in cuts.items():
            layer = self.layers.get(graph.nodes[v]) if isinstance(graph.nodes[v], int) else None  # type: ignore[arg-type]
            if layer is None or layer.kernel.function in _WHOLE or layer.output.extents[0] != 1:
                continue
            before = 4 - len(layer.output.shape)
            kept[v] = {axis: points for axis, points in own.items() if axis + before in (1, 2)}
        return cut(graph, {v: own for v, own in kept.items() if own})


def network_of(model: ModelT, name: str = "") -> Network:
    """The network of a model.

    Args:
        model: of `read_model`.

    Raises:
        InputError: operators that have no kernel, which are named; outputs that no operator computes.
    """
    given, (model, positions) = model, folded(model, _tensors(model))
    graph, tensors = graph_of(model, name, inputs_in_arena=False), _tensors(model)
    layers = _layers(model, [node for node in graph.nodes if isinstance(node, int)], tensors, positions)
    ends = [int(x) for x in model.subgraphs[0].outputs]
    made = {layer.output.number for layer in layers.values()}
    if not set(ends) <= made or len(set(ends)) < len(ends):
        raise InputError(
            "an output of the network is an input, a constant, or an output twice: C has no kernel to copy it"
        )
    views = _views(layers, made, set(ends))
    network = Network(
        given, name, layers, tuple(tensors[int(x)] for x in model.subgraphs[0].inputs), tuple(tensors[x] for x in ends),
        _planned(graph, layers, {*ends, *views}), views,
    )  # fmt: skip
    for tensor in (*network.inputs, *network.outputs):
        if tensor.kind not in SIZES:
            raise InputError(f"{tensor.name} is {tensor.kind}: inputs and outputs are INT8 or FLOAT32")
    return network


def _layers(model: ModelT, nodes: Sequence[int], tensors: list[Tensor], positions: Sequence[int]) -> dict[int, Layer]:
    """The layers of operators.

    Args:
        positions: of all operators in the file, which messages name.

    Raises:
        InputError: some have no kernel.
    """
    layers, missing = {}, []
    for node in nodes:
        operator = model.subgraphs[0].operators[node]
        try:
            layers[node] = _layer(model, node, operator, tensors)
        except Unsupported as error:
            missing.append(_missing_text(model, positions[node], operator, str(error)))
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise InputError(f"no kernel of C for {'; '.join(missing[:_NAMED])}{more}")
    return layers


def _views(layers: Mapping[int, Layer], made: set[int], ends: set[int]) -> dict[int, Tensor]:
    """By tensor that is another one in another shape, and needs no memory, that one.

    Args:
        made: tensors that layers output.
        ends: outputs of the network.
    """
    found: dict[int, Tensor] = {}
    for _, layer in sorted(layers.items()):
        if layer.kernel.function == "reshape" and layer.output.number not in ends:
            (read,) = layer.reads
            if read.number not in made or read.number in found:
                found[layer.output.number] = found.get(read.number, read)
    return found


def _missing_text(model: ModelT, node: int, operator: OperatorT, why: str) -> str:
    made = outputs(operator)
    name = _text(model.subgraphs[0].tensors[made[0]].name) if made else ""
    return f"operator {node}, {operator_name(model, operator)} ({name})" + (f": {why}" if why else "")


def _text(name: bytes | str | None) -> str:
    text = name.decode(errors="replace") if isinstance(name, bytes) else name or ""
    return " ".join(text.split())


def _tensors(model: ModelT) -> list[Tensor]:
    sources, found = sources_of(model), []
    for number, of in enumerate(model.subgraphs[0].tensors):
        shape = () if of.shape is None else tuple(map(int, of.shape))
        about = of.quantization
        scales = () if about is None or about.scale is None else tuple(float(x) for x in about.scale)
        zeros = () if about is None or about.zeroPoint is None else tuple(int(x) for x in about.zeroPoint)
        data = None if number in sources else model.buffers[of.buffer].data
        kind = type_name(model, number)
        values, element = None, np.dtype(_ARRAYS.get(kind, "u1"))
        if data is not None and kind in _ARRAYS and 0 < len(data) == prod(shape) * element.itemsize:
            values = np.asarray(data, np.uint8).view(element).reshape(shape)
        axis = 0 if about is None else int(about.quantizedDimension or 0)
        found.append(Tensor(number, _text(of.name), shape, kind, scales, zeros, axis, values))
    return found


def _layer(model: ModelT, node: int, operator: OperatorT, tensors: list[Tensor]) -> Layer:
    made = outputs(operator)
    if len(made) != 1:
        raise Unsupported(f"{len(made)} outputs")
    read = tuple(tensors[x] for x in inputs(operator))
    given = Given(model, operator, operator_name(model, operator), operator.builtinOptions, read, tensors[made[0]])
    try:
        kernel = kernel_of(given)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of options that do not fit
        raise Unsupported("its options or shapes do not fit") from None
    views = tuple(read[at] for at in kernel.views)
    for tensor in (*views, given.output):
        if max(tensor.extents[0] * tensor.extents[1], tensor.extents[2]) > _WIDEST:
            raise Unsupported(f"more than {_WIDEST:,} rows or columns")
        if len(tensor.shape) > 4 and kernel.function != "reshape":
            raise Unsupported("more than four axes")
    return Layer(node, given.output.name, kernel, views, given.output)


# --- The graph ------------------------------------------------------------------------------------------------


def _planned(graph: ComputationGraph, layers: Mapping[int, Layer], free: set[int]) -> ComputationGraph:
    """The graph in which some tensors take nothing, and operators read what their kernels read."""
    sizes, operators = list(graph.sizes), list(graph.operators or ())
    for v, node in enumerate(graph.nodes):
        layer = layers.get(node) if isinstance(node, int) else None
        operator = operators[v]
        if layer is None or operator is None:
            continue
        if layer.output.number in free:
            sizes[v] = 0
        if layer.kernel.function not in _SUMS:
            operator = replace(operator, accumulator=0)
        operators[v] = _resized(operator, layer) if layer.kernel.function in ("nearest", "bilinear") else operator
    return replace(graph, sizes=tuple(sizes), operators=tuple(operators))


def _resized(operator: Operator, layer: Layer) -> Operator:
    """What an image that is resized reads, by the tables of its kernel."""
    (read,) = operator.reads or (None,)
    if read is None:
        return operator
    axes: list[Any] = list(read.axes)
    for axis, table in zip((1, 2), resize_tables(layer.kernel), strict=True):
        step = Fraction(read.shape[axis], operator.shape[axis])
        axes[axis] = covering(axis, table.min(1), table.max(1), step) if read.shape[axis] > 1 else None
    return replace(operator, reads=(Read(read.source, read.shape, tuple(axes)),))


def bytes_of(tensor: Tensor) -> int:
    """Bytes of a tensor that is whole."""
    return prod(tensor.shape) * SIZES[tensor.kind]
