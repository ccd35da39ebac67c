"""FlatZinc files."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, FlatZincError


def read(path: str) -> FlatZinc:
    """Read and parse a file; raises `FlatZincError` if it cannot be read, and as `parse` does."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # strings may hold any bytes
            text = file.read()
    except OSError as error:
        raise FlatZincError(f"{path}: {error.strerror}") from None
    return parse(text, path)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Reading makes millions of objects that stay: looking through them again and again takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
