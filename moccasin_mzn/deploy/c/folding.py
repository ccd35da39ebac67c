"""Operators that compute shapes, which are known when C is written: they become constants. ::

    x [1, 640]  ->  SHAPE [1, 640]  ->  STRIDED_SLICE [1]  ->  PACK [1, 640]  ->  RESHAPE of x to it

Keras writes these for a layer that reshapes, as the number of images might not be known. In a file it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.deploy.c.tensors import Tensor
from moccasin_mzn.graphs.importers.tflite import inputs, operator_name, outputs, schema

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT
    from numpy import ndarray

_TYPES = {"INT32": np.int32, "INT64": np.int64}


def folded(model: ModelT, tensors: Sequence[Tensor]) -> tuple[ModelT, list[int]]:
    """The model without operators that compute shapes, and the positions of its operators in the one that is given.

    Args:
        tensors: those of the model.
    """
    graph = model.subgraphs[0]
    ends, found, kept = {int(x) for x in graph.outputs}, dict[int, "ndarray"](), list[int]()
    for at, operator in enumerate(graph.operators):
        rule, made = _RULES.get(operator_name(model, operator)), outputs(operator)
        value = None
        if rule is not None and len(made) == 1 and made[0] not in ends and tensors[made[0]].kind in _TYPES:
            read = [(tensors[x], found.get(x, tensors[x].values)) for x in inputs(operator)]
            value = rule(operator.builtinOptions, read)
        if value is None or value.shape != tensors[made[0]].shape:
            kept.append(at)
        else:
            found[made[0]] = value.astype(_TYPES[tensors[made[0]].kind])
    return (_with_constants(model, found, kept) if found else model), kept


def _with_constants(model: ModelT, values: Mapping[int, ndarray], kept: Sequence[int]) -> ModelT:
    """A copy of a model in which some tensors are constants, and some operators are left."""
    made, graph = copy(model), copy(model.subgraphs[0])
    graph.tensors, made.buffers = list(graph.tensors), list(model.buffers)
    for number, value in values.items():
        tensor, buffer = copy(graph.tensors[number]), schema().BufferT()
        buffer.data = np.frombuffer(value.tobytes(), np.uint8)
        made.buffers.append(buffer)
        tensor.buffer, graph.tensors[number] = len(made.buffers) - 1, tensor
    graph.operators = [graph.operators[at] for at in kept]
    made.subgraphs = [graph, *model.subgraphs[1:]]
    return made


# --- Rules: the value that an operator computes from its inputs and their values; None: it is not known ---------

_Read = Sequence[tuple[Tensor, "ndarray | None"]]


def _shape(options: Any, read: _Read) -> ndarray | None:
    return np.array(read[0][0].shape)


def _slice(options: Any, read: _Read) -> ndarray | None:
    """Some elements of one axis, or one of them."""
    values = [value for _, value in read if value is not None]
    masks = options.ellipsisMask, options.newAxisMask
    if len(values) != 4 or any(masks) or [value.shape for value in values[1:]] != [(1,)] * 3 or values[0].ndim != 1:
        return None
    begin, end, step = (int(value[0]) for value in values[1:])
    if options.shrinkAxisMask & 1:
        count = len(values[0])
        return values[0][begin] if -count <= begin < count else None
    if step == 0 or getattr(options, "offset", False):
        return None
    return values[0][slice(None if options.beginMask & 1 else begin, None if options.endMask & 1 else end, step)]


def _pack(options: Any, read: _Read) -> ndarray | None:
    values = [value for _, value in read if value is not None]
    if len(values) != len(read) or len({value.shape for value in values}) != 1:
        return None
    return np.stack(values, options.axis) if -1 <= options.axis <= values[0].ndim else None


_RULES: Mapping[str, Callable[[Any, _Read], ndarray | None]] = {
    "SHAPE": _shape, "STRIDED_SLICE": _slice, "PACK": _pack,
}  # fmt: skip
