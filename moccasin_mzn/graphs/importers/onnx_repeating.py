"""Which ONNX operators put out the same when they are computed again, and which element by element."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard, operator_sets
from moccasin_mzn.graphs.importers.onnx_names import subgraphs
from moccasin_mzn.graphs.importers.onnx_shapes import RANDOM, Shapes
from moccasin_mzn.graphs.reduction import ELEMENTWISE

if TYPE_CHECKING:
    import onnx

_KNOWN_DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Custom ones whose operators are functions of what they read, but for those below."""
_STATEFUL = re.compile("Random|Dropout|Sampling|PythonOp|Yield|Send|Recv|RecordEvent|WaitEvent|Optimizer|Accumul")

_MORE_ELEMENTWISE = frozenset("max mean min mod not where isnan".split())  # noqa: SIM905
"""Operators, in lower case, that are elementwise besides those that graphs are reduced by; Mean is that of tensors."""


def may_repeat(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Does this operator, computed again from the same values, put out the same?

    Random numbers are others each time, with a seed too, as the generator goes on; of custom operators nobody knows.
    """
    if is_standard(node):
        here = node.op_type not in RANDOM and (node.op_type != "Dropout" or passes_through(node, shapes))
    else:
        here = node.domain in _KNOWN_DOMAINS and not _STATEFUL.search(node.op_type)
    return here and all(may_repeat(inner, shapes) for graph in subgraphs(node) for inner in graph.node)


def is_elementwise(node: onnx.NodeProto) -> bool:
    """Does each element of its output need those alone that stand in the same place of its inputs?"""
    training = any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    return is_standard(node) and node.op_type.lower() in ELEMENTWISE | _MORE_ELEMENTWISE and not training


def passes_through(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Does this Dropout pass everything through? Its third input says so, from operator set 12 on; before 7 is_test."""
    if len(node.input) > 2 and node.input[2]:
        mode = shapes.values.get(node.input[2])
        return mode is not None and not mode.any()
    version = operator_sets(shapes.model).get("", 1)
    return version >= 7 or any(attribute.name == "is_test" and attribute.i for attribute in node.attribute)
