"""Values that a network reads while it runs, such as `if x.isnan().any()`: a plan is for those that it was traced with.

A step that is traced on numbers goes the way that these numbers choose. What was read is then computed in each step of
the plan as well, and compared::

    traced    any = aten.any(x); read = aten._local_scalar_dense(any)      False
    planned   any = aten.any(x); as_traced([any], "_local_scalar_dense", "False", "net.py:7, ...")

Another value is refused in that step, before anything else depends on it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import getitem
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.graphs.importers.torch.paths import traced_so_far
from moccasin_mzn.graphs.importers.torch.spec import line_here
from moccasin_mzn.pytorch.errors import OtherValueError

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree

NAMESPACE = "moccasin_mzn"
_SHAPE = "shape"
"""What is compared of an operator whose output has a shape that depends on values."""
_WHOLE = "whole"
"""What is compared of a tensor that is made a list or an array."""
_READ = "moccasin_read"
"""Key in a traced node's `meta`: what it read, as text, and the user's line."""


@contextlib.contextmanager
def reading(network: torch.nn.Module, check: Callable[..., object] = nothing) -> Iterator[None]:
    """Note what is read while `make_fx` traces, to be entered within what is traced.

    Args:
        check: called with each operator before it; what it raises ends the trace.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    operator, whole = _operator(), {torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__}

    class Numbers(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: torch._ops.OpOverload, types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            check(function)
            made = function(*args, **(kwargs or {}))
            if torch.Tag.data_dependent_output in function.tags or shaped_by_values(function, args):
                if _is_outside(args):  # PyTorch takes the value for a constant
                    operator(list(args), function._schema.name.partition("::")[2], repr(made), _place(network))
                    return made
                node = next((node for node in reversed(traced_so_far().nodes) if node.target is function), None)
                if node is not None:
                    node.meta[_READ] = _shapes(made) or repr(made), _place(network)
            return made

    class Arrays(TorchFunctionMode):
        """All values at once, which no operator shows."""

        def __torch_function__(
            self, function: Callable[..., PyTree], types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            if function in whole and not isinstance(args[0], FakeTensor):
                operator([args[0].detach()], _WHOLE, _digest(args[0]), _place(network))
            return function(*args, **(kwargs or {}))

    with Numbers(), Arrays():
        yield


def _place(network: torch.nn.Module) -> str:
    return line_here(network) or "the line is not known"


def _is_outside(args: Sequence[PyTree]) -> bool:
    """True for one tensor that the step has not made, and that is no parameter, buffer or input."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    if mode is None or len(args) != 1 or not isinstance(args[0], torch.Tensor) or isinstance(args[0], FakeTensor):
        return False
    return get_proxy_slot(args[0], mode.tracer, None) is None


def _shapes(made: PyTree) -> str:
    """The shape of a tensor, or those of several; "" for other values."""
    import torch

    tensors = made if isinstance(made, tuple | list) else [made]
    return " and ".join(str(tuple(each.shape)) for each in tensors if isinstance(each, torch.Tensor))


def _digest(tensor: torch.Tensor) -> str:
    """A digest of all values."""
    return hashlib.sha256(str(tensor.detach().cpu().tolist()).encode()).hexdigest()[:12]


def shaped_by_values(function: torch._ops.OpOverload, args: Sequence[PyTree]) -> bool:
    """Does the output's shape depend on values? Of indices only where some are masks."""
    import torch

    if function is torch.ops.aten.index.Tensor:
        return any(isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    return torch.Tag.dynamic_output_shape in function.tags


def with_checks(graph_module: fx.GraphModule) -> None:
    """Have a traced step compare what it reads; nodes that return no tensor are replaced by that."""
    import torch

    graph, operator = graph_module.graph, _operator()
    for node in list(graph.nodes):
        if _READ not in node.meta:
            continue
        expected, place = node.meta[_READ]
        value = node.meta.get("val")
        parts = [user for user in node.users if user.target is getitem] if isinstance(value, tuple | list) else []
        shaped = isinstance(value, torch.Tensor) or bool(parts)
        read = parts or ([node] if shaped else list(node.all_input_nodes))
        what = _SHAPE if shaped else node.target._schema.name.partition("::")[2]
        with graph.inserting_after(read[-1] if shaped else node):
            check = graph.call_function(operator, (read, what, expected, place))
        check.meta = {key: each for key, each in node.meta.items() if key != _READ}
        check.meta["val"] = read[0].meta["val"].new_empty(0)
        if not shaped:
            graph.erase_node(node)
    graph_module.recompile()


def is_check(node: fx.Node) -> bool:
    """True for a node that compares what was read."""
    return getattr(node.target, "namespace", "") == NAMESPACE


@cache
def _operator() -> torch._ops.OpOverload:
    """The operator that compares, registered once in a process."""
    import torch

    _LIBRARIES.append(library := torch.library.Library(NAMESPACE, "DEF"))
    library.define("as_traced(Tensor[] read, str what, str expected, str place) -> Tensor")
    library.impl("as_traced", _as_traced, "CompositeExplicitAutograd")
    torch.fx.node.has_side_effect(torch.ops.moccasin_mzn.as_traced.default)  # it stays, though nobody reads it
    return torch.ops.moccasin_mzn.as_traced.default


_LIBRARIES: list[torch.library.Library] = []
"""What is registered lives as long as its library."""


def _as_traced(read: Sequence[torch.Tensor], what: str, expected: str, place: str) -> torch.Tensor:
    """Compare what is read now.

    Raises:
        OtherValueError: it is not what it was when the plan was made.
    """
    import torch

    if what == _WHOLE:
        if _digest(read[0]) != expected:
            raise OtherValueError(f"all values of a tensor are read, others than when the plan was made: {place}")
        return read[0].new_empty(0)
    found = _shapes(read) if what == _SHAPE else repr(getattr(torch.ops.aten, what).default(*read))
    if found != expected:
        what = "a shape depends on values, and" if what == _SHAPE else "a value is read, which"
        raise OtherValueError(f"{what} was {expected} when the plan was made and is {found} now: {place}")
    return read[0].new_empty(0)
