"""Which values of an ONNX model that depend on constants alone are computed when a new model is written.

ONNX Runtime without graph optimizations computes in every run whatever is no initializer, and holds it as it holds all
other values. So what is not folded is an operator of the graph as others are. A file is not to grow by much: weights
that are dequantized, or tables made of their shape, are larger than what they are made of.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard, packages
from moccasin_mzn.graphs.importers.onnx_names import reads
from moccasin_mzn.graphs.importers.onnx_shapes import Shapes

if TYPE_CHECKING:
    import onnx

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
