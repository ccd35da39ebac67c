"""How functions of this package are compiled: once, and kept on disk for the next process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit

_FOLDER = Path(__file__).parent
_KEPT = _FOLDER / "__pycache__"


def compiled(function: Callable) -> Callable:
    """Decorates a function for numba. It must not allocate: without reference counts it is 4 to 8 times faster.

    It must not call itself either: numba crashes on a kept recursive function (its issue 6061).
    """
    _forget_the_outdated()
    try:
        return njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # there is no folder to keep it in
        return njit(nogil=True, _nrt=False)(function)


@functools.cache
def _forget_the_outdated() -> None:
    """numba takes notice when a function's own file changes, but not when that of a function it calls does."""
    sources = b"".join(path.read_bytes() for path in sorted(_FOLDER.glob("*.py")))
    digest, note = hashlib.sha256(sources).hexdigest(), _KEPT / "compiled.sha256"
    with contextlib.suppress(OSError):  # installed read-only: then nothing is kept here
        if not note.exists() or note.read_text() != digest:
            for path in _KEPT.glob("*.nb[ci]"):
                path.unlink(missing_ok=True)
            _KEPT.mkdir(exist_ok=True)
            note.write_text(digest)
