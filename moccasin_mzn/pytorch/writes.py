"""What a network itself writes while it is traced, besides attributes of modules: a plan would not do it. ::

    settings.rate = 0.5       read before it was written: refused, and put back
    CALLS += 1                changes in each run: refused, and put back
    TABLE[size] = mask        was missing, and is filled once: stays

All that a step can reach is noted before its first run: what the network and its arguments have when it begins, global
variables when a function that names them is called first.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain
from types import CellType
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.pytorch.errors import UntraceableError
from moccasin_mzn.pytorch.reads import NOTHING, Reads
from moccasin_mzn.pytorch.repetition import Calls, NotedCall
from moccasin_mzn.pytorch.watching import ENTRIES, Bytes, Follower, Watch, Watched, equal, is_plain

if TYPE_CHECKING:
    import torch

_CHANGES = "which a plan would not do: return it, or leave it out in training"


class Everything(Reads):
    """As if all attributes, entries and names had been read."""

    def names_of(self, value: object, own: Mapping[str, object]) -> list[str]:
        """All attributes of an object itself."""
        return [name for name in own if isinstance(name, str) and not name.startswith("__")]

    def named_in(self, place: Iterable[str]) -> set[str]:
        """All names of attributes."""
        return {name for name in place if isinstance(name, str)}

    def constant_keys(self, name: object) -> frozenset[object] | None:
        """None: any key."""
        return None

    def is_cache(self, name: object) -> bool:
        """False: all entries are followed."""
        return False


class Writes:
    """The values that a network reaches, as they were before it ran."""

    def __init__(
        self, modules: Iterable[torch.nn.Module], own: Iterable[str], roots: Iterable[object], reads: Reads
    ) -> None:
        """Note what modules and arguments have.

        Args:
            modules: those of the network.
            own: attributes of PyTorch's own, which are left out.
            roots: what is called besides modules.
            reads: is filled with what Python code reads meanwhile.
        """
        self._reads, self._before = reads, Watch()
        modules, left_out = list(modules), {*own, "forward"}
        self._follower = Follower(self._before, Everything(), modules)
        for module in modules:
            for name in vars(module).keys() - left_out:
                self._follower.named("", vars(module), name)
        self._follower.entry("", os.environ, ENTRIES, partial(dict, os.environ), follow=False)
        for value in (*dict.fromkeys(map(type, modules)), *roots):
            self._follower.follow("", value)

    def variable(self, place: Mapping[str, Any], name: str) -> None:
        """Note a global variable before a function that names it is called for the first time."""
        is_on, self._reads.is_on = self._reads.is_on, False
        try:
            self._follower.named("", place, name)
        finally:
            self._reads.is_on = is_on

    def check_settled(self, after: Watch, first: Calls, later: Calls) -> None:
        """Refuse a network that reads what its first run has changed, and does something else since.

        Args:
            after: what it reads, as it was after the first run.
            first: the operators of the first run.
            later: those of another.

        Raises:
            UntraceableError: names what was changed.
        """
        differs = first.made != later.made
        fewer = differs and _is_within(later.made, first.made)  # it has filled a cache, or made a mask
        for each, former, now in self._changed(after):
            read = any(id(tensor) in first.tensors for tensor in _tensors(former))
            alone = isinstance(former, _tensor_class())
            if read or (differs and not alone and not (fewer and _is_filled(former, now))):
                raise UntraceableError(f"the network changes {each.called}, {_CHANGES}")

    def check_repeated(self, after: Watch) -> None:
        """Refuse a network that changes numbers in each run, or how many entries a collection has.

        Args:
            after: what it reads, as it was after the first run.

        Raises:
            UntraceableError: names it.
        """
        known = {each.key for each, _, _ in self._changed(after)}
        for key in after.changed() & known:
            each = after.found[key]
            if not equal(_outline(each.value), _outline(each.fetch())):
                raise UntraceableError(f"the network changes {each.called}, {_CHANGES}")

    def _changed(self, after: Watch) -> list[tuple[Watched, object, object]]:
        """What the first run has changed of what is read, before and after it."""
        found = []
        for key, each in chain(after.found.items(), after.fake.items()):
            before = self._before.found.get(key)
            former = NOTHING if before is None else before.value
            if before is None:
                entries = self._before.found.get((key[0], ENTRIES))
                if entries is None or not isinstance(entries.value, dict):
                    continue  # made by the run
                former = entries.value.get(key[1], NOTHING)
            if former is not each.value and not _same(former, each.value):
                found.append((each, former, each.value))
        return found

    def put_back(self, after: Watch) -> None:
        """Give what was read, and was changed since, the value that it had before."""
        places = {key[0] for key in chain(after.found, after.fake)}
        for key, each in self._before.found.items():
            now = each.fetch()
            if key[0] in places and now is not each.value and not equal(now, each.value):
                with contextlib.suppress(TypeError, AttributeError, ValueError):  # what cannot be set was not
                    _set(each)

    def clear(self) -> None:
        """Let go of all values."""
        self._before = Watch()
        self._follower = Follower(self._before, Everything())


def _set(each: Watched) -> None:
    place: Any = each.place
    name = each.key[1]
    value: Any = each.value
    if isinstance(place, CellType) and value is not NOTHING:
        place.cell_contents = value
    elif isinstance(place, ContextVar) and value is not NOTHING:
        place.set(value)
    elif isinstance(place, np.ndarray) and isinstance(value, Bytes) and value.bytes and not value.dtype.hasobject:
        place[...] = np.frombuffer(value.bytes, value.dtype).reshape(value.shape)
    elif name == ENTRIES and isinstance(place, MutableMapping):
        for key in [key for key in place if key not in value]:
            del place[key]
        place.update(value)
    elif name == ENTRIES and isinstance(place, list | deque | set):
        place.clear()
        place.update(value) if isinstance(place, set) else place.extend(value)
    elif isinstance(place, dict) and value is NOTHING:
        place.pop(name, None)
    elif isinstance(place, dict):
        place[name] = value
    elif name in ("class", "form"):
        return
    elif value is NOTHING:
        delattr(place, str(name))
    else:
        setattr(place, str(name), value)


def _is_within(fewer: Sequence[NotedCall], more: Sequence[NotedCall]) -> bool:
    """True if some calls, left out, make the one row the other."""
    rest = iter(more)
    return all(any(each == other for other in rest) for each in fewer)


def _is_filled(former: object, now: object) -> bool:
    """True where something missing has come, and all else stayed."""
    if former is NOTHING or former is None:
        return True
    if isinstance(former, dict) and isinstance(now, dict):
        return all(key in now and (former[key] is now[key] or equal(former[key], now[key])) for key in former)
    if isinstance(former, list) and isinstance(now, list):
        return len(former) <= len(now) and all(map(equal, former, now))
    return isinstance(former, set) and isinstance(now, set) and former <= now


def _tensors(value: object) -> list[torch.Tensor]:
    """A tensor, or those in a collection."""
    if isinstance(value, list | tuple | deque):
        return [tensor for each in value for tensor in _tensors(each)]
    if isinstance(value, dict):
        return _tensors([*value.values()])
    return [value] if isinstance(value, _tensor_class()) else []


def _tensor_class() -> type[torch.Tensor]:
    import torch

    return torch.Tensor


def _outline(value: object) -> object:
    """A value with classes in place of what is no number, text or collection: tensors are made in each run."""
    if isinstance(value, list | tuple | deque):
        return [_outline(each) for each in value]
    if isinstance(value, dict):
        return {key: _outline(each) for key, each in value.items()}
    return (
        value if is_plain(value) or isinstance(value, Bytes) else len(value) if isinstance(value, set) else type(value)
    )


def _same(one: object, other: object) -> bool:
    """True for equal values, and for objects of a class that have equal attributes."""
    if equal(one, other):
        return True
    if type(one) is not type(other):
        return False
    mine, its = getattr(one, "__dict__", None), getattr(other, "__dict__", None)
    return isinstance(mine, dict) and isinstance(its, dict) and bool(mine) and equal(mine, its)
