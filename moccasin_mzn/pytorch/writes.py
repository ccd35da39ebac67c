"""What a network itself writes while it is traced, besides attributes of modules: a plan would not do it. ::

    settings.rate = 0.5       read before it was written: refused, and put back
    CALLS += 1                changes in each run: refused, and put back
    TABLE[size] = mask        was missing, and is filled once: stays

All that a step can reach is noted before its first run: what the network and its arguments have when it begins, global
variables when a function that names them is called first.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import CellType
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.pytorch.errors import UntraceableError
from moccasin_mzn.pytorch.reads import NOTHING, Reads
from moccasin_mzn.pytorch.repetition import Call
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
        for value in (*dict.fromkeys(map(type, modules)), *roots):
            self._follower.follow("", value)

    def variable(self, place: Mapping[str, Any], name: str) -> None:
        """Note a global variable before a function that names it is called for the first time."""
        is_on, self._reads.is_on = self._reads.is_on, False
        try:
            self._follower.named("", place, name)
        finally:
            self._reads.is_on = is_on

    def check_settled(self, after: Watch, first: Sequence[Call], later: Sequence[Call]) -> None:
        """Refuse a network that reads what its first run has changed, and does something else since.

        Args:
            after: what it reads, as it was after the first run.
            first: the operators of the first run.
            later: those of another.

        Raises:
            UntraceableError: names what was changed.
        """
        fewer = _is_within(later, first)  # it has filled a cache, or made a mask
        for each, former, now in self._changed(after):
            other_tensor = _is_tensor(former) and _is_tensor(now)
            if (first != later and not (fewer and _is_filled(former, now))) or other_tensor:
                raise UntraceableError(f"the network changes {each.called}, {_CHANGES}")

    def check_repeated(self, after: Watch) -> None:
        """Refuse a network that changes something in each run.

        Args:
            after: what it reads, as it was after the first run.

        Raises:
            UntraceableError: names it.
        """
        known = {each.key for each, _, _ in self._changed(after)}
        for key in after.changed():
            each = after.found[key]
            if key in known and _is_kept(each.value) and _is_kept(each.fetch()):
                raise UntraceableError(f"the network changes {each.called}, {_CHANGES}")

    def _changed(self, after: Watch) -> list[tuple[Watched, object, object]]:
        """What the first run has changed of what is read, before and after it."""
        found = []
        for key, each in after.found.items():
            before = self._before.found.get(key)
            former = NOTHING if before is None else before.value
            if before is None:
                entries = self._before.found.get((key[0], ENTRIES))
                if entries is None or not isinstance(entries.value, dict):
                    continue  # made by the run
                former = entries.value.get(key[1], NOTHING)
            if former is not each.value and not _alike(former, each.value):
                found.append((each, former, each.value))
        return found

    def put_back(self, after: Watch) -> None:
        """Give what was read, and was changed since, the value that it had before."""
        places = {key[0] for key in after.found}
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
    elif name == ENTRIES and isinstance(place, list | deque | dict | set):
        place.clear()
        place.extend(value) if isinstance(place, list | deque) else place.update(value)
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


def _is_within(fewer: Sequence[Call], more: Sequence[Call]) -> bool:
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


def _is_tensor(value: object) -> bool:
    """True for a tensor, or a collection of some, that was not just computed from what requires a gradient."""
    import torch

    if isinstance(value, list | tuple | deque):
        return any(map(_is_tensor, value))
    if isinstance(value, dict):
        return any(map(_is_tensor, value.values()))
    return isinstance(value, torch.Tensor) and value.grad_fn is None


def _is_kept(value: object) -> bool:
    """True for what is compared by its value."""
    return (
        value is NOTHING or isinstance(value, Bytes) or is_plain(value) or isinstance(value, list | dict | set | deque)
    )


def _alike(one: object, other: object) -> bool:
    """True for equal values, and for objects of a class that have equal attributes."""
    if equal(one, other):
        return True
    if type(one) is not type(other):
        return False
    mine, its = getattr(one, "__dict__", None), getattr(other, "__dict__", None)
    return isinstance(mine, dict) and isinstance(its, dict) and bool(mine) and equal(mine, its)
