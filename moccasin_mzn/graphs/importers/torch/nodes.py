"""What one node of a traced PyTorch graph reads, writes, allocates and costs, by its operator's schema."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.program import known_total

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree


_UNDECLARED_VIEWS = {"aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::unsafe_chunk"}
"""Views of their first input by what they do; their schemas do not show it."""
BATCH_NORMS = ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
"""With `running_mean`, `running_var` and `training` as arguments 3 to 5; on the CPU, with cuDNN, and with MIOpen."""
_UNDECLARED_WRITES = dict.fromkeys(BATCH_NORMS, ("running_mean", "running_var"))
"""What operators overwrite if their argument `training` is true; their schemas do not show it."""
_SIDE_SHARE = 16
"""An output is on the side if the largest output of the operator is at least this many times as large."""


def schema_of(node: fx.Node) -> PyTree:
    """What PyTorch knows of an operator; None of anything else."""
    return getattr(node.target, "_schema", None)


def kind_of(node: fx.Node) -> str:
    """The operator as PyTorch writes it, such as "aten.add.Tensor", without ".default"."""
    return str(node.target).removesuffix(".default") if node.target is not operator.getitem else "getitem"


def viewed_argument(node: fx.Node) -> fx.Node | None:
    """The input whose memory the output is; None for an operator that makes memory of its own."""
    first = next(iter(node.all_input_nodes), None)
    if node.target is operator.getitem:
        return first
    schema = schema_of(node)
    if schema is None:
        return None
    if schema.name in _UNDECLARED_VIEWS:
        return first
    if not any(returned.alias_info is not None for returned in schema.returns):
        return None
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None:
            return next(iter(_nodes_in(_argument(node, at, argument.name))), first)
    return first


def written_arguments(node: fx.Node) -> list[fx.Node]:
    """The inputs that the operator overwrites."""
    schema = schema_of(node)
    found: list[fx.Node] = []
    undeclared = _undeclared_writes(node)
    for at, argument in enumerate(schema.arguments if schema is not None else ()):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if declared or argument.name in undeclared:
            found.extend(_nodes_in(_argument(node, at, argument.name)))
    return list(dict.fromkeys(found))


def allocated_tensors(node: fx.Node) -> list[torch.Tensor] | None:
    """The outputs that are memory of their own; None if the trace does not know them."""
    import torch
    from torch.utils._pytree import tree_leaves

    schema = schema_of(node)
    if node.target is operator.getitem or (schema is not None and schema.name in _UNDECLARED_VIEWS):
        return []
    if "val" not in node.meta:
        return None
    value = node.meta["val"]
    outputs = [value]
    if schema is not None:
        outputs = list(value) if len(schema.returns) > 1 else [value]
        outputs = [
            output
            for output, returned in zip(outputs, schema.returns, strict=True)
            if returned.alias_info is None
        ]  # fmt: skip
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


def output_groups(node: fx.Node, needed: frozenset[fx.Node] | set[fx.Node]) -> list[tuple[int, ...]]:
    """Outputs, by number, that are memory of their own apart from the others; the first group is the operation itself.

    One group but in two cases, where one node would keep much memory for the sake of little:

    - a backward operator with a mask of gradients to compute (`output_mask`): that of its input, and those of
      parameters. To call it twice is as much work. Without the first there is one group, because some kernels
      compute the gradients of all parameters whichever are asked for.
    - small outputs that are needed, such as the statistics of a batch norm, next to a large one. They are not to be
      recomputed: that would take the time and, for a moment, the memory of the large one.

    Outputs of size 0 are in the first group, those that are not made (None) in none.
    """
    sizes = _output_sizes(node)
    used = {user.args[1] for user in node.users if user.target is operator.getitem and user in needed}
    tensors = [number for number, size in enumerate(sizes) if size is not None]
    made = {number: size for number, size in enumerate(sizes) if size}
    if len(made) < 2:
        return [tuple(tensors)]
    if is_masked(node):
        main = [0] if 0 in made else list(made)
    else:
        main = [number for number, size in made.items() if size * _SIDE_SHARE > max(made.values())]
    side = [number for number in made if number not in main]
    if not used.intersection(main) or not used.intersection(side):
        return [tuple(tensors)]
    return [tuple(number for number in tensors if number not in side), tuple(side)]


def is_masked(node: fx.Node) -> bool:
    """True for a backward operator with a mask of gradients to compute: each group can be computed by itself."""
    return mask_position(node) is not None


def is_pointwise(node: fx.Node) -> bool:
    """Does PyTorch declare that each element of the output depends on the elements at its place alone?"""
    import torch

    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def with_mask(node: fx.Node, mask: Sequence[bool]) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """Arguments to call such an operator with for some of its gradients."""
    at = mask_position(node)
    args = tuple(list(mask) if position == at else argument for position, argument in enumerate(node.args))
    return args, dict(node.kwargs)


def group_tensors(node: fx.Node, group: Sequence[int]) -> list[torch.Tensor] | None:
    """The tensors that the operator allocates for a group of its outputs; all of them for an empty group."""
    if not group or not isinstance(node.meta.get("val"), (tuple, list)):
        return allocated_tensors(node)
    return [node.meta["val"][number] for number in group]


def group_bytes(node: fx.Node, group: Sequence[int]) -> int | None:
    """Bytes of the storages that the operator allocates for a group of its outputs; see `group_tensors`."""
    tensors = group_tensors(node, group)
    if tensors is None:
        return None
    numbers = group if len(group) == len(tensors) else (None,) * len(tensors)
    elements = (storage_elements(node, number) for number in numbers)
    return known_total(
        None if (least := tensor_bytes(tensor)) is None else max(least, room * tensor.element_size())
        for tensor, room in zip(tensors, elements, strict=True)
    )


def group_duration(node: fx.Node, group: Sequence[int]) -> int | None:
    """FLOPs for a group of outputs, or elements written if PyTorch has no formula; None if the trace has neither."""
    if is_free(node):
        return 0
    at = mask_position(node)
    if at is None or not group:
        counted = flops(node)
    else:
        mask = [number in group for number in range(len(node.meta["val"]))]
        counted = flops(node, {at: mask})
    if counted is not None:
        return counted
    written = [argument.meta.get("val") for argument in written_arguments(node)]
    return elements_of(group_tensors(node, group) or written or None)


def needed_nodes(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """What the output of the graph needs, and all that overwrites memory."""
    waiting = [node for node in nodes if node.op == "output" or written_arguments(node)]
    found: set[fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found


def tensor_bytes(tensor: torch.Tensor) -> int | None:
    """Bytes of a tensor's elements; None if a dimension depends on data."""
    elements = _integer(tensor.numel())
    return None if elements is None else elements * tensor.element_size()


def elements_of(tensors: Iterable[PyTree] | None) -> int | None:
    """Elements of some tensors; None if they are unknown."""
    return None if tensors is None else known_total(_integer(tensor.numel()) for tensor in tensors)


def storage_bytes(value: object) -> int:
    """Bytes of all the memory that a tensor is a view of; 0 if it is no tensor."""
    import torch

    return (_integer(value.untyped_storage().nbytes()) or 0) if isinstance(value, torch.Tensor) else 0


def _integer(extent: object) -> int | None:
    if type(extent) is int:
        return extent
    hint = getattr(getattr(extent, "node", None), "hint", None)
    return hint if type(hint) is int else None


def _argument(node: fx.Node, at: int, name: str) -> PyTree:
    return node.args[at] if at < len(node.args) else node.kwargs.get(name)


def _nodes_in(argument: object) -> list[fx.Node]:
    from torch import fx
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(argument) if isinstance(leaf, fx.Node)]


def _undeclared_writes(node: fx.Node) -> tuple[str, ...]:
    schema = schema_of(node)
    names = _UNDECLARED_WRITES.get(schema.name, ()) if schema is not None else ()
    if schema is None or not names:
        return ()
    at = [argument.name for argument in schema.arguments].index("training")
    return names if _argument(node, at, "training") else ()


def _output_sizes(node: fx.Node) -> list[int | None]:
    """Bytes of each output of an operator with several, all memory of its own, None if it is not made; else nothing."""
    import torch

    schema, values = schema_of(node), node.meta.get("val")
    if schema is None or len(schema.returns) < 2 or not isinstance(values, (tuple, list)):
        return []
    if any(returned.alias_info is not None for returned in schema.returns):
        return []
    return [(tensor_bytes(value) or 0) if isinstance(value, torch.Tensor) else None for value in values]


def mask_position(node: fx.Node) -> int | None:
    """Where the mask of such an operator stands among its arguments; None of others, see `is_masked`."""
    schema = schema_of(node)
    if schema is None or not schema.name.endswith("_backward"):
        return None
    names = [argument.name for argument in schema.arguments]
    at = names.index("output_mask") if "output_mask" in names else len(node.args)
    return at if at < len(node.args) else None


# --- Outputs of PyTorch's operators whose storage is larger than the tensor: what a trace cannot show, and a run
# holds

# An operator of these makes a large tensor first and shrinks it in place, so that its storage stays as large as it
# was, for as long as the output lives. Fake tensors have the size of the elements.


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


_Rule = Callable[[Mapping[str, "PyTree"], "PyTree", int | None], int]
"""From arguments by name, outputs, and the number of one, elements of its storage."""


def _reduced_loss(given: Mapping[str, PyTree], made: PyTree, number: int | None) -> int:
    """The loss of each element is made first, and their mean or sum in the same storage."""
    import torch

    if not given["reduction"]:
        return 0
    return math.prod(torch.broadcast_shapes(given["self"].shape, given["target"].shape))


def _bags(given: Mapping[str, PyTree], made: Sequence[torch.Tensor], number: int | None) -> int:
    if number == 1 and made[1].numel():  # the bag of each index: one more while they are summed up
        return made[1].numel() + 1
    return given["offsets"].numel() if number == 2 else 0


def _as_the_input(given: Mapping[str, PyTree], made: PyTree, number: int | None) -> int:
    return given["self"].numel()


def _window(given: Mapping[str, PyTree], made: PyTree, number: int | None) -> int:
    """A periodic window is one that is longer by one, without its end."""
    length = given["window_length"]
    return length + 1 if given.get("periodic", True) and length > 1 else 0


def _reserve(given: Mapping[str, object], made: Sequence[object], number: int | None) -> int:
    """What cuDNN keeps for the backward pass besides the statistics, about which fake tensors know nothing."""
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


# --- How long an operator of PyTorch takes: FLOPs where PyTorch counts them, else elements written ------------


_FREE = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
"""These operators take memory and write nothing."""


def flops(node: fx.Node, replaced: Mapping[int, object] | None = None) -> int | None:
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


def _formula(target: object) -> Callable[..., int] | None:
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


def _matrix_vector(matrix: torch.Tensor, *rest: object, **more: object) -> int:
    """A multiply-add for each element of a matrix, or of one of two vectors."""
    return 2 * matrix.numel()


def _trilinear(
    first: torch.Tensor, second: torch.Tensor, third: torch.Tensor, expand1: Sequence[int], expand2: Sequence[int],
    expand3: Sequence[int], *rest: object, **more: object,
) -> int:  # fmt: skip
    """Products of two tensors, then a multiply-add with the third for each element that the three span."""
    import torch

    def expanded(tensor: torch.Tensor, dimensions: Sequence[int]) -> list[int]:
        shape = list(tensor.shape)
        for dimension in sorted(dimensions):
            shape.insert(dimension, 1)
        return shape

    pair = torch.broadcast_shapes(expanded(first, expand1), expanded(second, expand2))
    return math.prod(pair) + 2 * math.prod(torch.broadcast_shapes(pair, expanded(third, expand3)))


def _value(argument: PyTree) -> PyTree:
    from torch import fx

    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument
