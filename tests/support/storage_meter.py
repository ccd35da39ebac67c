"""The memory of tensors while something runs, by watching what operators return; needs PyTorch."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageMeter(TorchDispatchMode):
    """Counts the bytes of storages that operators return, from then until they are freed."""

    def __init__(self, given: Iterable[Any] = ()) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in given}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if hasattr(leaf, "untyped_storage"):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size
