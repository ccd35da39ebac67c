"""Does a network do the same each time? A trace has Python's numbers as constants, which a plan repeats in every step.

Counters and schedules that are no attributes of a module (`STATE["step"]`), the clock, or a library that behaves
differently while it is traced show in the operators that a forward pass calls::

    run        mul(T, 1)
    traced     mul(T, 2)      not the same: run once more
    run        mul(T, 3)      neither: refused, with the line. If it is what was traced, the first run has made
                              something that is kept, such as a mask.

What is compared is the row of operators with all of their arguments that are no tensors, and the values of tensors that
are made of numbers. What changes from time to time only is compared before each step, see `watching`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.graphs.importers.torch.spec import line_here
from moccasin_mzn.pytorch.errors import UntraceableError

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_MOST = 1000
"""Tensors that are made of more numbers are not compared."""
_SILENT = "aten.detach.default"
"""A fake tensor has no numbers, and looking at a tensor calls it."""


@dataclass(frozen=True)
class NotedCall:
    """An operator and its arguments, without tensors."""

    operator: str
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        numbers = ", ".join(str(each) for each in self.arguments if each is not _TENSOR)
        return f"{self.operator.removesuffix('.default')}({numbers})"


@dataclass
class Calls:
    """The operators that a forward pass has called, in their order."""

    made: list[NotedCall] = field(default_factory=list)
    expected: Sequence[NotedCall] | None = None
    """The values of another run; None: it is the first."""
    place: str = ""
    """The user's line of the first call that is not the expected one."""
    tensors: set[int] = field(default_factory=set)
    """The identities of their arguments."""
    check: Callable[..., object] = nothing
    """Called with each operator before it; what it raises ends the run."""


class _AnyTensor:
    def __repr__(self) -> str:
        return "T"


_TENSOR = _AnyTensor()


@contextlib.contextmanager
def calls_noted(calls: Calls, network: torch.nn.Module) -> Iterator[None]:
    """Meanwhile operators are noted, to be entered around a forward pass, traced or not."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: torch._ops.OpOverload, types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            calls.check(function)
            leaves = tree_leaves((args, kwargs or {}))
            calls.tensors.update(id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
            if function.namespace == "aten" and str(function) != _SILENT:
                self.note(NotedCall(str(function), _constants(function, leaves)))
            return function(*args, **(kwargs or {}))

        def note(self, call: NotedCall) -> None:
            at, expected = len(calls.made), calls.expected
            if expected is not None and not calls.place and (at >= len(expected) or expected[at] != call):
                calls.place = line_here(network) or "the line is not known"
            calls.made.append(call)

    with Noted():
        yield


def _constants(function: torch._ops.OpOverload, leaves: Sequence[object]) -> tuple[object, ...]:
    """The arguments that are no tensors, as texts, as no number is not equal to itself then."""
    import torch

    if function._schema.name in ("aten::lift_fresh", "aten::lift_fresh_copy"):
        return tuple(_numbers(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves)
    return tuple(_TENSOR if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves)


def _numbers(tensor: torch.Tensor) -> object:
    """The values of a tensor that is made of a few numbers of Python."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import _disable_current_modes

    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.numel() > _MOST:
        return _TENSOR
    with _disable_current_modes():
        return repr(tensor.tolist())


def check_repeated(run: Calls, traced: Calls, again: Callable[[Calls], object]) -> None:
    """Refuse a network that called other operators while it was traced than when it ran, unless it does so from now on.

    Args:
        run: the calls of a run before.
        again: runs once more and notes its calls.

    Raises:
        UntraceableError: it is not the same each time; names the line, and what was called there.
    """
    if run.made == traced.made:
        return
    once_more = Calls(expected=traced.made, check=traced.check)
    again(once_more)
    if once_more.made == traced.made:
        return
    pairs = zip_longest(traced.made, once_more.made)
    one, other = next((mine, its) for mine, its in pairs if mine != its)
    raise UntraceableError(
        f"the network does not do the same each time it is called: {one or 'nothing'} was traced, "
        f"{other or 'nothing'} was called when it ran: {once_more.place or 'at its end'}; "
        "a number that changes must be an input, a buffer, or an attribute of a module"
    )
