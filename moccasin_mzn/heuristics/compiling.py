"""How functions of this package are compiled: once, and kept on disk for the next process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import config, njit

_FOLDER = Path(__file__).parent


def compiled(function: Callable) -> Callable:
    """Decorates a function for numba. It must not allocate: without reference counts it is 4 to 8 times faster.

    It must not call itself either: numba crashes on a kept recursive function (its issue 6061).

    With NUMBA_BOUNDSCHECK=1 an index out of range raises an IndexError, and nothing is kept: numba would take code kept
    without these checks for code with them, and the other way round.
    """
    if config.BOUNDSCHECK:
        return njit(nogil=True, boundscheck=True, _nrt=False)(function)
    _forget_the_outdated(Path(function.__code__.co_filename).parent)
    try:
        return njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # there is no folder to keep it in
        return njit(nogil=True, _nrt=False)(function)


@functools.cache
def _forget_the_outdated(folder: Path) -> None:
    """numba takes notice when a function's own file changes, but not when that of a function it calls does.

    So what is kept in a folder goes whenever a file with compiled functions in it, or in this one, has changed.
    """
    files = [path for place in dict.fromkeys((_FOLDER, folder)) for path in sorted(place.glob("*.py"))]
    sources = [source for source in (path.read_bytes() for path in files) if b"compiled" in source]
    digest = hashlib.sha256(b"".join(sources)).hexdigest()
    kept = folder / "__pycache__"
    note = kept / "compiled.sha256"
    with contextlib.suppress(OSError):  # installed read-only: then nothing is kept here
        if not note.exists() or note.read_text() != digest:
            for path in kept.glob("*.nb[ci]"):
                path.unlink(missing_ok=True)
            kept.mkdir(exist_ok=True)
            note.write_text(digest)
