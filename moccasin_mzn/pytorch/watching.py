"""Values that a traced step has read besides tensors of its own, compared before each step. ::

    self.scale                 the attribute
    self.layers["a"].weight    the entry, and the attribute of the object that it is
    self.table                 used in another way than by a constant key: all entries, and what is in them
    FACTORS[0], settings.rate  globals, attributes of modules, classes and functions, variables of closures

What is read is followed through collections and objects to any depth. A number is compared by its value, an array of
numpy by its bytes, everything else by identity; what the objects have inside is compared by entries of their own.
"""

from __future__ import annotations

import threading
import weakref
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import chain
from types import CellType, FunctionType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.base.errors import shown
from moccasin_mzn.base.log import note
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.reads import NOTHING, Reads, is_own, is_own_module, is_users_class

if TYPE_CHECKING:
    import torch

_PLAIN = bool, int, float, complex, str, bytes, type(None), Enum
_INEXACT = float, complex, np.generic
"""Numbers that may be equal without being the same: 0.0 and -0.0. No number is not equal to itself."""
_COLLECTIONS = list, tuple, dict, set, frozenset, deque
_HOLDERS = weakref.ref, ContextVar, threading.local, MappingProxyType, bytearray, array, ChainMap, UserDict, UserList
ENTRIES = object()
"""In place of a name: all entries of a collection."""
_MOST_ENTRIES = 1000
"""A collection with more entries is compared by its length."""
_MOST_BYTES = 1 << 16
"""An array of numpy with more bytes is compared by its shape and type."""
_MOST = 20_000
"""Values that are compared, at most."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A value and where it was read."""

    called: str
    """For messages."""
    fetch: Callable[[], object]
    """Gives the present value."""
    value: object
    """The value when the plan was made."""
    key: tuple[int, object]
    """The identity of what has the value, and the name there."""
    place: object
    """What has the value: it stays, so that no other object gets its identity."""


@dataclass
class Watch:
    """All values that are compared."""

    found: dict[tuple[int, object], Watched] = field(default_factory=dict)
    fake: dict[tuple[int, object], Watched] = field(default_factory=dict)
    """Fake tensors, which have no values to compare."""
    tensors: dict[int, tuple[torch.Tensor, str]] = field(default_factory=dict)
    """Tensors that were met, by identity, with their names."""

    def check(self) -> None:
        """Refuse values that are not what they were.

        Raises:
            PlanError: one is another, names it.
        """
        for fetch, value, each in self._rows:
            now = fetch()
            if now is not value and not equal(now, value):
                found, former = _text(now), _text(value)
                raise PlanError(f"planned with {each.called} = {former}, it is {found} now: make a new plan")

    @cached_property
    def _rows(self) -> list[tuple[Callable[[], object], object, Watched]]:
        return [(each.fetch, each.value, each) for each in self.found.values()]

    def changed(self) -> set[tuple[int, object]]:
        """The keys of values that are not what they were."""
        return {
            key for key, each in self.found.items()
            if (now := each.fetch()) is not each.value and not equal(now, each.value)
        }  # fmt: skip


def _text(value: object) -> str:
    if value is NOTHING:
        return "missing"
    return _Shown(value).text if isinstance(value, Bytes) else shown(value)


@dataclass(frozen=True)
class Bytes:
    """An array of numpy by its bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bytes: bytes

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Bytes:
        return cls(array.shape, array.dtype, array.tobytes() if array.nbytes <= _MOST_BYTES else b"")


@dataclass(frozen=True)
class _Shown:
    value: Bytes

    @property
    def text(self) -> str:
        if not self.value.bytes or self.value.dtype.hasobject:
            return f"an array of {self.value.dtype}{list(self.value.shape)}"
        return shown(np.frombuffer(self.value.bytes, self.value.dtype).reshape(self.value.shape).tolist())


# --- When two values are the same -----------------------------------------------------------------------------


def is_plain(value: object) -> bool:
    """True for values that are compared by `==`: numbers, texts, and collections of them."""
    import torch

    if isinstance(value, list | tuple | set | frozenset | deque):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(each) for key, each in value.items())
    return isinstance(value, (*_PLAIN, np.generic, torch.dtype, torch.device, torch.memory_format))


def equal(one: object, other: object) -> bool:
    """True for the same value: numbers bit for bit, tensors by their values, other objects by identity."""
    import torch

    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, _INEXACT):
        return repr(one) == repr(other)
    if isinstance(one, list | tuple | deque) and isinstance(other, list | tuple | deque):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(map(equal, one, other)) and all(map(equal, one.values(), other.values()))
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset) and not is_plain(other):
        return {*map(id, one)} == {*map(id, other)}
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return same_tensors(one, other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return not one.dtype.hasobject and Bytes.of(one) == Bytes.of(other) and one.nbytes <= _MOST_BYTES
    return (is_plain(other) or isinstance(other, Bytes)) and bool(one == other)


def same_tensors(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True for tensors that are equal bit for bit, but fake ones, which have no values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    forms = [(each.shape, each.dtype, each.device, each.requires_grad) for each in (one, other)]
    if forms[0] != forms[1] or isinstance(one, FakeTensor) or isinstance(other, FakeTensor):
        return False
    return not one.is_meta and bool(torch.equal(one, other))


# --- Following values -----------------------------------------------------------------------------------------


class Follower:
    """Adds to a watch what was read, through collections and objects."""

    def __init__(self, watch: Watch, reads: Reads, without: Iterable[torch.nn.Module] = ()) -> None:
        """Begin.

        Args:
            reads: what Python code has read.
            without: modules whose attributes are followed elsewhere.
        """
        self.watch, self.reads = watch, reads
        self._visited: dict[int, object] = {id(each): each for each in without}

    def entry(self, called: str, place: object, name: object, fetch: Callable[[], object], follow: bool = True) -> None:
        """Watch one value, and follow it."""
        key = id(place), name
        value = fetch()
        if _is_fake(value):
            self.watch.fake[key] = Watched(called, fetch, value, key, place)
        if key in self.watch.found or key in self.watch.fake:
            return
        if len(self.watch.found) >= _MOST:
            self._full()
            return
        self.watch.found[key] = Watched(called, fetch, value, key, place)
        if follow:
            self.follow(called, value, name)

    def _full(self) -> None:
        if _MOST not in self._visited:
            self._visited[_MOST] = None
            note(f"more than {_MOST} values are read, of which those beyond are not compared")

    def named(self, called: str, place: Mapping[str, Any], name: str) -> None:
        """Watch an entry of a dictionary, such as the attributes of an object."""
        self.entry(called, place, name, partial(place.get, name, NOTHING))

    def follow(self, called: str, value: object, name: object = None) -> None:
        """Watch what a value has inside.

        Args:
            name: of the attribute or variable that has the value.
        """
        import torch

        if isinstance(value, (*_PLAIN, np.generic)) or id(value) in self._visited:
            return
        self._visited[id(value)] = value
        if isinstance(value, torch.Tensor):
            self._tensor(called, value)
        elif isinstance(value, np.ndarray):
            self.entry(called, value, "array", partial(Bytes.of, value), follow=False)
        elif isinstance(value, _COLLECTIONS):
            self._collection(called, value, name)
        elif isinstance(value, FunctionType):
            self._function(called, value)
        elif isinstance(value, partial):
            self._all(called, {"func": value.func, "args": value.args, "keywords": value.keywords})
        elif isinstance(value, property | staticmethod | classmethod):
            self.follow(called, value.fget if isinstance(value, property) else value.__func__)
        elif isinstance(value, MethodType):
            self._all(called, {"function": value.__func__, "self": value.__self__})
        elif isinstance(value, type):
            self._class(called, value)
        elif isinstance(value, _HOLDERS):
            self._holder(called, value)
        elif isinstance(value, ModuleType):
            if is_own_module(value):
                self._vocabulary(called, vars(value))
        else:
            self._object(called, value)

    def _holder(self, called: str, value: Any) -> None:
        """Watch what an object of Python's own has inside."""
        if isinstance(value, weakref.ref):
            self.entry(called, value, "referent", value)
        elif isinstance(value, ContextVar):
            self.entry(called, value, "value", partial(value.get, NOTHING))
        elif isinstance(value, threading.local):
            self._vocabulary(called, vars(value))
        elif isinstance(value, MappingProxyType):
            self.entry(called, value, "entries", partial(dict, value), follow=False)
            self._all(called, dict(value))
        elif isinstance(value, bytearray | array):
            self.entry(called, value, "bytes", partial(bytes, value), follow=False)
        else:
            self.follow(called, value.maps if isinstance(value, ChainMap) else value.data)

    def _all(self, called: str, parts: Mapping[str, object]) -> None:
        for each in parts.values():
            self.follow(called, each)

    def _tensor(self, called: str, value: torch.Tensor) -> None:
        if _is_fake(value):
            return
        self.watch.tensors[id(value)] = value, called.strip("'")
        form = partial(_form, value)
        self.entry(called, value, "form", form, follow=False)

    def _collection(self, called: str, value: Any, name: object) -> None:
        if len(value) > _MOST_ENTRIES:
            self.entry(f"the length of {called}", value, "length", partial(len, value), follow=False)
            return
        keys = self.reads.constant_keys(name) if isinstance(value, dict) else None
        if isinstance(value, dict) and keys is None and self.reads.is_cache(name):
            keys = frozenset(value)
        if keys is not None:
            for key in sorted(keys, key=repr):
                self.entry(_inside(called, f"[{key!r}]"), value, key, partial(dict.get, value, key, NOTHING))
            return
        if not isinstance(value, tuple | frozenset):
            copied = next(kind for kind in _COLLECTIONS if isinstance(value, kind))
            self.entry(called, value, ENTRIES, partial(copied, value), follow=False)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in [*pairs]:
            self.follow(_inside(called, f"[{key!r}]"), each, key)

    def _function(self, called: str, value: FunctionType) -> None:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            self.entry(f"'{name}'", cell, name, partial(_content, cell))
        if is_own(value.__code__.co_filename):
            for name, kind in (("__defaults__", tuple), ("__kwdefaults__", dict)):
                fetch = partial(_filled, kind, value, name)
                self.entry(f"{name} of {called}", value, name, fetch, follow=False)
        for each in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self.follow(called, each)
        wrapped = vars(value).get("__wrapped__")
        if wrapped is not None:
            self.follow(called, wrapped)
        self._vocabulary(called, vars(value))

    def _class(self, called: str, value: type) -> None:
        """Watch the attributes of a class, and of those that it is derived from, that code has named: each may be set
        in any class before the one that has it."""
        kinds = [kind for kind in value.__mro__ if is_users_class(kind)]
        for at, kind in enumerate(kinds):
            if kind is value or id(kind) not in self._visited:
                self._visited[id(kind)] = kind
                names = self.reads.named_in(chain.from_iterable(map(vars, kinds[at:])))
                self._vocabulary(f"'{kind.__name__}'", vars(kind), names, kind)
        if is_users_class(type(value)):
            self.follow(called, type(value))

    def _vocabulary(
        self, called: str, place: Mapping[str, Any], names: Iterable[str] | None = None, holder: object = None
    ) -> None:
        """Watch attributes whose names stand in code that has run.

        Args:
            holder: the class that has them; None: the dictionary itself.
        """
        for name in sorted(self.reads.named_in(place) if names is None else names):
            method = isinstance(place.get(name), FunctionType) and name != "__getattribute__"  # which notes reads
            if method or not name.startswith("__"):
                fetch = partial(place.get, name, NOTHING)
                self.entry(_inside(called, f".{name}"), place if holder is None else holder, name, fetch)

    def _object(self, called: str, value: object) -> None:
        import torch

        if isinstance(value, torch.nn.Module):
            self._module(called, value)
            return
        if not is_users_class(type(value)):
            return
        self.entry(f"the class of {called}", value, "class", partial(type, value))
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            for name in self.reads.names_of(value, own):
                self.named(_inside(called, f".{name}"), own, name)
        for kind in type(value).__mro__:
            for name, each in vars(kind).items():
                if isinstance(each, MemberDescriptorType) and is_users_class(kind):
                    self.entry(_inside(called, f".{name}"), value, name, partial(getattr, value, name, NOTHING))

    def _module(self, called: str, value: torch.nn.Module) -> None:
        """Watch a module that the network calls, and that is no submodule of it, such as a loss."""
        own = vars(value)
        names = {name for name in self.reads.modules.get(id(value), ()) if name in own}
        for name in sorted({"training", "forward", *names}):
            self.named(_inside(called, f".{name}"), own, name)
        for table in ("_parameters", "_buffers", "_modules"):
            for name in own[table]:
                self.named(_inside(called, f".{name}"), own[table], name)
        self._class(called, type(value))


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def _inside(called: str, part: str) -> str:
    return f"{called[:-1]}{part}'" if called.endswith("'") else f"{called}{part}"


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable without a value yet
        return NOTHING


def _filled(kind: Callable[[Any], object], function: FunctionType, name: str) -> object:
    """Default arguments of a function; there may be none."""
    return kind(getattr(function, name) or ())


def _is_fake(value: object) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)
