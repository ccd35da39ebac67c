"""All temporary files of a run in one folder; those of runs that were killed are removed by the next one.

The folder has a file that its process has locked. The lock ends with the process, however that ends, and other
containers and hosts that share the folder see it as well. Process ids are not used: the system assigns them again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

PREFIX = "moccasin-files-"
_LOCK = "lock"
_VARIABLES = "TMPDIR", "TEMP", "TMP"


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """Keep temporary files of this process, and of those that it starts, in a folder that is removed afterwards.

    What killed processes of this user have left is removed first. Where there are no locks, or nothing can be written,
    all stays as it is.
    """
    try:
        base = tempfile.gettempdir()
        remove_the_left(base)
        folder, lock = _made(base)
    except (ImportError, OSError):
        yield
        return
    before = tempfile.tempdir, {name: os.environ.get(name) for name in _VARIABLES}
    tempfile.tempdir = folder
    os.environ.update(dict.fromkeys(_VARIABLES, folder))
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        for name, value in before[1].items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_the_left(base: str) -> None:
    """Remove the folders of this user's processes that are no more."""
    for entry in os.scandir(base):
        with contextlib.suppress(OSError):
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _is_own(entry):
                lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
                try:
                    _lock_file(lock)
                    shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(lock)


def _made(base: str) -> tuple[str, int]:
    """Create a folder and lock it, before any other process takes it for one that was left behind."""
    early = tempfile.mkdtemp(prefix=".moccasin-", dir=base)
    lock = os.open(os.path.join(early, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock_file(lock)
        folder = os.path.join(base, PREFIX + os.path.basename(early).removeprefix(".moccasin-"))
        os.rename(early, folder)
    except BaseException:
        os.close(lock)
        shutil.rmtree(early, ignore_errors=True)
        raise
    return folder, lock


def _lock_file(lock: int) -> None:
    """Take a lock.

    Raises:
        OSError: another process has it, or there are no locks there.
        ImportError: there are none at all (Windows).
    """
    import fcntl

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_own(entry: os.DirEntry[str]) -> bool:
    return entry.stat(follow_symlinks=False).st_uid == os.getuid()
