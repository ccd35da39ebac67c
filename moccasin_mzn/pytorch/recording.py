"""What a step on fake tensors allocates: each operator is noted, and each storage from its making to its end. ::

    call 0   linear  of "up"      storage 0 made
    call 1   gelu    of "up"      storage 1 made
    call 2   linear  of "down"    storage 2 made, storage 1 freed

Small tensors that are given with values and hold whole numbers (token ids, masks, edges), and what is computed of them
alone, are computed as well, so that a network that reads them takes the path that it takes in a run.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.pytorch.devices import given_out
from moccasin_mzn.pytorch.measuring import storages_of
from moccasin_mzn.pytorch.operator_costs import likeness, plain
from moccasin_mzn.pytorch.operator_worker import Argument, OperatorCall

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import PyTree

FORWARD: Final = "forward pass"
BACKWARD: Final = "backward pass"
OPTIMIZER: Final = "optimizer step"
GRADIENT: Final = "gradients"
ACTIVATION: Final = "activations"
TEMPORARY: Final = "temporaries"
"""What a storage is for: it ends as a gradient; it is made in the forward pass; it is made later."""
_MOST_NUMBERS = 1 << 20
"""Tensors with more elements than this are not computed."""


@dataclass
class Made:
    """A storage that the step allocates."""

    bytes: int
    call: int
    """The call that makes it."""
    end: int | None = None
    """The number of calls before it was freed; None: it stays."""
    kind: str = TEMPORARY


@dataclass(eq=False)
class Called:
    """A call of an operator."""

    phase: str
    wanted: OperatorCall | None
    """To measure its workspace; None: it only makes a view, or its values decide what it makes."""
    path: str = ""
    """The path of the module that it belongs to."""
    made: list[Made] = field(default_factory=list)


class Recorder:
    """Notes calls and storages."""

    def __init__(self, mode: FakeTensorMode, device: str) -> None:
        self.device = device
        self.calls: list[Called] = []
        self._phase: str | None = FORWARD
        self._marked = 0
        self._live: dict[int, Made | None] = {}
        self._values = _Values(mode)

    def enter(self, phase: str | None) -> None:
        """Begin a phase; None: nothing is noted."""
        self._phase = phase

    def mark(self, path: str) -> None:
        """Note that the calls since the latest mark belong to the module at a path."""
        for call in self.calls[self._marked :]:
            call.path = path
        self._marked = len(self.calls)

    def know(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Compute with the values of a tensor, if it is one of whole numbers and small."""
        if not (real.is_floating_point() or real.is_complex() or real.is_meta) and real.numel() <= _MOST_NUMBERS:
            self._values.know(fake, real.detach().clone())

    def bytes_of(self, tensors: Iterable[torch.Tensor]) -> int:
        """Bytes of the storages of tensors, each counted once."""
        found = {id(storage): storage for each in tensors for storage in storages_of(each)}
        return sum(given_out(storage.nbytes(), self.device) for storage in found.values())

    def are_gradients(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note that tensors are gradients."""
        for storage in storages_of(list(tensors)):
            made = self._live.get(id(storage))
            if made is not None:
                made.kind = GRADIENT

    @contextlib.contextmanager
    def recording(self, check: Callable[..., object] = nothing) -> Iterator[None]:
        """Note every operator that is called meanwhile.

        Args:
            check: called with each before it; what it raises ends the run.
        """
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self

        class Recording(TorchDispatchMode):
            def __torch_dispatch__(
                self, func: torch._ops.OpOverload, types: object, args: tuple[PyTree, ...] = (), kwargs: PyTree = None
            ) -> PyTree:
                check(func)
                return recorder._dispatched(func, args, kwargs or {})

        with Recording():
            yield

    def _dispatched(self, func: torch._ops.OpOverload, args: tuple[PyTree, ...], kwargs: PyTree) -> PyTree:
        import torch

        if self._phase in (OPTIMIZER, None) and func is torch.ops.aten._local_scalar_dense.default:
            return self._values.number(args[0])
        before = {id(storage) for storage in storages_of((args, kwargs))}.union(self._live)
        if self._phase == BACKWARD and func is torch.ops.aten.index_put.default:
            func = torch.ops.aten.index_put_.default  # on zeros of its own; autograd only takes a copy of fake tensors
        args = self._values.with_places(func, args)
        returned = self._values.called(func, args, kwargs)
        made = {id(storage): storage for storage in storages_of(returned) if id(storage) not in before}
        if self._phase is None:
            for storage in made.values():
                self._follow(storage, None)
            return returned
        writes = func._schema.is_mutable
        measurable = (made or writes) and not by_values(func)
        call = Called(self._phase, _wanted(func, args, kwargs, self.device) if measurable else None)
        self.calls.append(call)
        kind = ACTIVATION if self._phase == FORWARD else TEMPORARY
        for storage in made.values():
            call.made.append(Made(given_out(storage.nbytes(), self.device), len(self.calls) - 1, kind=kind))
            self._follow(storage, call.made[-1])
        return returned

    def _follow(self, storage: torch.UntypedStorage, made: Made | None) -> None:
        self._live[id(storage)] = made
        weakref.finalize(storage, self._free, id(storage)).atexit = False

    def _free(self, key: int) -> None:
        made = self._live.pop(key)
        if made is not None:
            made.end = len(self.calls)


def _wanted(func: object, args: PyTree, kwargs: PyTree, device: str) -> OperatorCall | None:
    """The call of an operator, to be measured elsewhere."""
    import torch
    from torch.utils._pytree import tree_map

    if not isinstance(func, torch._ops.OpOverload):
        return None
    numbers: dict[int, int] = {}
    values: list[PyTree] = []

    def standing(leaf: PyTree) -> PyTree:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in numbers:
            numbers[id(leaf)] = len(values)
            values.append(likeness(leaf))
        return Argument(numbers[id(leaf)])

    given = tree_map(standing, (args, dict(kwargs)))
    namespace, name = func._schema.name.split("::")
    return OperatorCall((namespace, name, func._overloadname), plain(given[0]), plain(given[1]), tuple(values), device)


# --- Values of small tensors -----------------------------------------------------------------------------------


_KNOWN = "_moccasin_values"
"""Attribute of a fake tensor: a tensor with its values."""


_SOME = 0.5
"""Where an optimizer reads a number that is not known: it decides nothing of memory, but may be divided by."""


class _Values:
    """Calls operators on fake tensors, and on values where those of all tensors that they read are known."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._lost: set[int] = set()
        """Storages of values that are not right any more."""

    def know(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Keep the values of a tensor with it."""
        setattr(fake, _KNOWN, real)

    def called(self, func: torch._ops.OpOverload, args: tuple[PyTree, ...], kwargs: PyTree) -> PyTree:
        """Call an operator.

        Raises:
            Exception: whatever PyTorch raises, also where the operator needs values that are not known.
        """
        import torch
        from torch.utils._pytree import tree_leaves, tree_map_only

        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not self._computable(func, tensors):
            self._lose(func, tensors)
            return func(*args, **kwargs)
        real_args, real_kwargs = tree_map_only(torch.Tensor, self._of, (args, kwargs))
        with _no_fakes():
            real = func(*real_args, **real_kwargs)
        if by_values(func):
            return tree_map_only(torch.Tensor, self._like, real)
        returned = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(real) if isinstance(leaf, torch.Tensor)]
        for fake, values in zip(_tensors(returned), made, strict=True):
            if values.numel() <= _MOST_NUMBERS:
                self.know(fake, values)
        return returned

    def _computable(self, func: torch._ops.OpOverload, tensors: Sequence[torch.Tensor]) -> bool:
        import torch

        if torch.Tag.nondeterministic_seeded in func.tags or any(self._of(each) is None for each in tensors):
            return False
        if func._schema.is_mutable and any(getattr(each, _KNOWN, None) is None for each in tensors):
            return False  # a tensor of the network's own is not to be changed
        return bool(tensors) or func in _factories()

    def _of(self, fake: torch.Tensor) -> torch.Tensor | None:
        """The values of a tensor; None: they are not known."""
        from torch._subclasses.fake_tensor import FakeTensor

        real: torch.Tensor | None = getattr(fake, _KNOWN, None)
        if real is None and not isinstance(fake, FakeTensor) and fake.numel() <= _MOST_NUMBERS:
            return fake  # a constant of the network or of an optimizer
        return None if real is None or real.untyped_storage()._cdata in self._lost else real

    def _lose(self, func: torch._ops.OpOverload, tensors: Sequence[torch.Tensor]) -> None:
        """What may be overwritten by values that are not known is not known any more."""
        if func._schema.is_mutable:
            known = (self._of(each) for each in tensors)
            self._lost.update(each.untyped_storage()._cdata for each in known if each is not None)

    def number(self, fake: torch.Tensor) -> float:
        """The value of a number, or some value where it is not known."""
        real = self._of(fake)
        with _no_fakes():
            return _SOME if real is None else real.item()

    def with_places(self, func: torch._ops.OpOverload, args: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        """The arguments of an operator that indexes, with the places of what a known mask chooses instead of it."""
        import torch

        aten = torch.ops.aten
        if func not in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
            return args
        indices: list[torch.Tensor | None] = []
        for index in args[1]:
            known = None if index is None or index.dtype != torch.bool else self._of(index)
            indices += [index] if known is None else map(self._like, _places(known))
        return (args[0], indices, *args[2:])

    def _like(self, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor for values whose number only they decide."""
        import torch

        with self._mode:
            fake = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device=real.device)
        self.know(fake, real)
        return fake


def _tensors(value: PyTree) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def by_values(func: torch._ops.OpOverload) -> bool:
    """Do values decide what an operator returns: a number, or how many?"""
    import torch

    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def _factories() -> tuple[Callable[..., PyTree], ...]:
    """Operators that make small tensors of known values of nothing."""
    import torch

    aten = torch.ops.aten
    return (
        aten.arange.default, aten.arange.start, aten.arange.start_step, aten.scalar_tensor.default,
        aten.zeros.default, aten.ones.default, aten.full.default,
    )  # fmt: skip


def _places(mask: torch.Tensor) -> Sequence[torch.Tensor]:
    with _no_fakes():
        return mask.nonzero().unbind(1)


@contextlib.contextmanager
def _no_fakes() -> Iterator[None]:
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        yield
