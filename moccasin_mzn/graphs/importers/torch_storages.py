"""Outputs of PyTorch's operators whose storage is larger than the tensor: what a trace cannot tell, and a run holds.

An operator of these makes a large tensor first and shrinks it in place, so that its storage stays as large as it was,
for as long as the output lives. Fake tensors have the size of the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx


def storage_elements(node: fx.Node, number: int | None) -> int:
    """Elements that the storage of an output has room for, where that is known to be more than it has; else 0.

    Args:
        number: of the output, where the operator has several.
    """
    from torch.utils._pytree import tree_map

    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name not in _RULES:
        return 0
    args, kwargs = tree_map(lambda leaf: getattr(leaf, "meta", {}).get("val", leaf), (tuple(node.args), node.kwargs))
    given = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    given |= dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
    try:
        room = _RULES[schema.name](given, node.meta["val"], number)
    except (KeyError, AttributeError):  # an argument that the trace does not know
        return 0
    return room if type(room) is int else 0


_Rule = Callable[[Mapping[str, Any], Any, int | None], int]
"""From arguments by name, outputs, and the number of one, elements of its storage."""


def _reduced_loss(given: Mapping[str, Any], made: Any, number: int | None) -> int:
    """The loss of each element is made first, and their mean or sum in the same storage."""
    import torch

    if not given["reduction"]:
        return 0
    return math.prod(torch.broadcast_shapes(given["self"].shape, given["target"].shape))


def _bags(given: Mapping[str, Any], made: Sequence[Any], number: int | None) -> int:
    if number == 1 and made[1].numel():  # the bag of each index: one more while they are summed up
        return made[1].numel() + 1
    return given["offsets"].numel() if number == 2 else 0


def _as_the_input(given: Mapping[str, Any], made: Any, number: int | None) -> int:
    return given["self"].numel()


def _window(given: Mapping[str, Any], made: Any, number: int | None) -> int:
    """A periodic window is one that is longer by one, without its end."""
    length = given["window_length"]
    return length + 1 if given.get("periodic", True) and length > 1 else 0


def _reserve(given: Mapping[str, Any], made: Sequence[Any], number: int | None) -> int:
    """What cuDNN keeps for the backward pass besides the statistics, of which fake tensors know nothing."""
    import torch

    if number != 3:
        return 0
    return torch._C._get_cudnn_batch_norm_reserve_space_size(given["input"], given["training"])  # type: ignore[attr-defined, unused-ignore]


_RULES: Mapping[str, _Rule] = {
    "aten::mse_loss": _reduced_loss,
    "aten::smooth_l1_loss": _reduced_loss,
    "aten::binary_cross_entropy": _reduced_loss,
    "aten::soft_margin_loss": _reduced_loss,
    "aten::_embedding_bag": _bags,
    "aten::_embedding_bag_forward_only": _bags,
    "aten::cudnn_batch_norm": _reserve,
    "aten::im2col": _as_the_input,
    "aten::col2im": _as_the_input,
    **{f"aten::{name}_window": _window for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
}
"""By the name of the operator's schema."""
