"""Tensors in plain objects, such as batches and caches of libraries: seen and put back, as those in lists are. ::

    Batch(x=tensor, sizes=[tensor, tensor], name="a")  --->  tensors [x, sizes.0, sizes.1], the rest Batch(name="a")

An object that is returned is made again at each call, with the tensors of that call.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch.utils._pytree import KeyEntry, PyTree

_DEEPEST = 6
"""Objects within objects are looked into so far."""
_PLAIN = bool, int, float, complex, str, bytes, type(None)
"""Types of what an object has besides tensors, by which two of them are compared."""
_CLOSED = (*_PLAIN, type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, np.ndarray, np.generic)
"""What no tensor is sought in."""


@dataclass(eq=False)
class Opened:
    """An object with tensors, as a node of a tree of them."""

    rest: Rest
    parts: list[PyTree]


@dataclass(eq=False)
class Rest:
    """An object without its tensors; equal to another of the same class that has equal plain attributes besides."""

    like: object = field(repr=False)
    names: tuple[str, ...]
    """Names of the attributes that have tensors."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rest) or type(self.like) is not type(other.like) or self.names != other.names:
            return False
        return self._plain() == other._plain()

    __hash__ = None  # type: ignore[assignment]  # it is compared only

    def _plain(self) -> dict[str, object]:
        return {name: value for name, value in vars(self.like).items() if isinstance(value, _PLAIN)}


def opened(value: PyTree) -> PyTree:
    """A value with each object in it that has tensors as a node of the tree."""
    from torch.utils._pytree import tree_map

    _register()
    return tree_map(lambda leaf: _opened(leaf, _DEEPEST), value)


def _opened(leaf: object, depth: int) -> PyTree:
    from torch.utils._pytree import tree_map

    if not depth or not _is_open(leaf) or not _has_tensors(vars(leaf).values(), depth, set()):
        return leaf
    names = tuple(name for name, value in vars(leaf).items() if _has_tensors([value], depth, {id(leaf)}))
    parts = [tree_map(lambda each: _opened(each, depth - 1), getattr_of(leaf, name)) for name in names]
    like = copy.copy(leaf)
    for name in names:
        vars(like)[name] = None
    return Opened(Rest(like, names), parts)


def getattr_of(leaf: object, name: str) -> PyTree:
    """An attribute of an object itself, whatever its class makes of the name."""
    return vars(leaf)[name]


def _is_open(leaf: object) -> bool:
    import torch

    return not isinstance(leaf, (*_CLOSED, torch.Tensor, torch.nn.Module)) and isinstance(
        getattr(leaf, "__dict__", None), dict
    )


def _has_tensors(values: Iterable[object], depth: int, seen: set[int]) -> bool:
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            return True
        if not depth or isinstance(value, _CLOSED) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            inner: Iterable[object] = value.values()
        elif isinstance(value, list | tuple):
            inner = value
        elif _is_open(value):
            inner = vars(value).values()
        else:
            continue
        if _has_tensors(inner, depth - 1, seen):
            return True
    return False


def _filled(parts: Iterable[PyTree], rest: Rest) -> object:
    made = copy.copy(rest.like)
    vars(made).update(zip(rest.names, parts, strict=True))
    return made


@cache
def _register() -> None:
    """Have PyTorch's trees know these nodes; once in a process."""
    from torch.utils._pytree import GetAttrKey, register_pytree_node

    def keyed(node: Opened) -> tuple[list[tuple[KeyEntry, Any]], Rest]:
        return [(GetAttrKey(name), part) for name, part in zip(node.rest.names, node.parts, strict=True)], node.rest

    register_pytree_node(Opened, lambda node: (node.parts, node.rest), _filled, flatten_with_keys_fn=keyed)
