"""How long an operator of PyTorch takes: FLOPs where PyTorch counts them, else elements written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

_FREE = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
"""They take memory and write nothing."""


def flops(node: fx.Node, replaced: Mapping[int, Any] | None = None) -> int | None:
    """FLOPs of a traced operation, 2 for a multiply-add, by the formulas of `torch.utils.flop_counter` and those below.

    Args:
        replaced: arguments to count with instead of the node's own, by their position.

    Returns:
        None for operators without a formula: everything but convolutions, products of matrices and vectors, and
        attention; and if the count depends on data.
    """
    from torch.utils._pytree import tree_map

    formula = _formula(node.target)
    if formula is None:
        return None
    args, kwargs = tree_map(_value, (node.args, node.kwargs))
    args = [(replaced or {}).get(at, argument) for at, argument in enumerate(args)]
    count = formula(*args, **kwargs, out_val=node.meta.get("val"))
    return count if type(count) is int else None


def is_free(node: fx.Node) -> bool:
    """True for operators that only reserve memory."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name in _FREE


def _formula(target: Any) -> Callable[..., int] | None:
    import torch
    from torch.utils.flop_counter import flop_registry

    aten = torch.ops.aten
    same = {  # the counter has the GPU's names of these only; the arguments that matter are the same
        "aten::_scaled_dot_product_flash_attention_for_cpu": aten._scaled_dot_product_flash_attention,
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": aten._scaled_dot_product_flash_attention_backward,
    }
    schema = getattr(target, "_schema", None)
    packet = getattr(target, "overloadpacket", target)
    own: dict[str, Callable[..., int]] = {
        "aten::mv": _matrix_vector,
        "aten::addmv": lambda vector, matrix, *rest, **more: _matrix_vector(matrix),
        "aten::addmv_": lambda vector, matrix, *rest, **more: _matrix_vector(matrix),
        "aten::dot": _matrix_vector,
        "aten::vdot": _matrix_vector,
        "aten::_trilinear": _trilinear,
    }  # fmt: skip
    if schema is not None and schema.name in own:
        return own[schema.name]
    return flop_registry.get(same.get(schema.name, packet) if schema is not None else packet)


def _matrix_vector(matrix: Any, *rest: Any, **more: Any) -> int:
    """A multiply-add for each element of a matrix, or of one of two vectors."""
    return 2 * matrix.numel()


def _trilinear(
    first: Any, second: Any, third: Any, expand1: Any, expand2: Any, expand3: Any, *rest: Any, **more: Any
) -> int:
    """Products of two tensors, then a multiply-add with the third for each element that the three span."""
    import torch

    def expanded(tensor: Any, dimensions: Any) -> list[int]:
        shape = list(tensor.shape)
        for dimension in sorted(dimensions):
            shape.insert(dimension, 1)
        return shape

    pair = torch.broadcast_shapes(expanded(first, expand1), expanded(second, expand2))
    return math.prod(pair) + 2 * math.prod(torch.broadcast_shapes(pair, expanded(third, expand3)))


def _value(argument: Any) -> Any:
    from torch import fx

    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument
