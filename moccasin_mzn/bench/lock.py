"""At most one writer at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from moccasin_mzn.errors import InputError


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, by a file `path`.lock beside it, which is removed afterwards.

    Raises:
        InputError: another process holds it; or the folder cannot be written to.
    """
    import fcntl  # where there is none (Windows), nothing else of this package imports it

    name = f"{os.path.realpath(path)}.lock"
    while True:
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be locked: {error.strerror or error}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InputError(f"{path}: another `bench run` is writing to this store") from None
        if _is_still(name, descriptor):  # else its holder has removed it between the two
            break
        os.close(descriptor)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(descriptor)


def _is_still(name: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(name), os.fstat(descriptor))
    except FileNotFoundError:
        return False
