"""How functions of this package are compiled: once, and kept on disk for the next process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from numba import config, njit
from numba.misc.appdirs import AppDirs

_FOLDER = Path(__file__).parent
_for_this_run: list[tempfile.TemporaryDirectory] = []
"""A folder, where no other is to be had."""


def compiled(function: Callable) -> Callable:
    """`@compiled` has numba compile a function. It must not allocate: without reference counts it is 4 to 8
    times faster.

    It must not call itself either: numba crashes on a kept recursive function (its issue 6061).

    With NUMBA_BOUNDSCHECK=1 an index out of range raises an IndexError. Such code is kept in a folder of its own: numba
    would take code kept without these checks for code with them, and the other way round.
    """
    if config.BOUNDSCHECK:
        _keep_apart()
    try:
        made = njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # there is no folder to keep it in
        _keep_for_this_run()
        made = njit(cache=True, nogil=True, _nrt=False)(function)
    _forget_the_outdated(Path(function.__code__.co_filename).parent, Path(made.stats.cache_path))
    return made


@functools.cache
def keeps() -> bool:
    """Is what is compiled there for later runs?"""
    compiled(_anything)
    return not _for_this_run


def _anything() -> None: ...


@functools.cache
def _keep_apart() -> None:
    config.CACHE_DIR = str(Path(config.CACHE_DIR or AppDirs("numba", "numba").user_cache_dir) / "bounds-checked")


def _keep_for_this_run() -> None:
    """Keep what is compiled in a temporary folder, also for the processes that this one starts."""
    _for_this_run.append(tempfile.TemporaryDirectory(prefix="moccasin-"))
    config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = _for_this_run[0].name


@functools.cache
def _forget_the_outdated(folder: Path, kept: Path) -> None:
    """numba takes notice when a function's own file changes, but not when that of a function it calls does.

    So what is kept of a folder goes whenever a file with compiled functions in it, or in this one, has changed.
    """
    files = [path for place in dict.fromkeys((_FOLDER, folder)) for path in sorted(place.glob("*.py"))]
    sources = [source for source in (path.read_bytes() for path in files) if b"@compiled" in source]
    digest = hashlib.sha256(b"".join(sources)).hexdigest()
    note = kept / "compiled.sha256"
    with contextlib.suppress(OSError):  # installed read-only: then nothing is kept here
        if not note.exists() or note.read_text() != digest:
            for path in kept.glob("*.nb[ci]"):
                path.unlink(missing_ok=True)
            kept.mkdir(exist_ok=True)
            note.write_text(digest)
