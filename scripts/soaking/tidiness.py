"""What a question leaves behind: processes and temporary files."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path

import psutil

PATIENCE = 5.0
"""Seconds for a process to end."""
MARK = "MOCCASIN_SOAK"
"""An environment variable by which processes are known to come from here."""


class Room:
    """Folders of this process for files of questions, temporary ones and to work in; and a mark for what it starts."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.temporary = folder / "temporary"
        self.here = folder / "here"
        for path in (self.files, self.temporary, self.here):
            path.mkdir(parents=True, exist_ok=True)
        self.mark = uuid.uuid4().hex
        self.before = set(psutil.Process().children(recursive=True))
        os.environ[MARK] = self.mark
        os.environ["TMPDIR"] = str(self.temporary)
        tempfile.tempdir = None  # looked up again
        os.chdir(self.here)

    def emptied(self) -> Path:
        """The folder for a question's files, with nothing in it."""
        shutil.rmtree(self.files, ignore_errors=True)
        self.files.mkdir()
        return self.files

    def left_behind(self, thoroughly: bool) -> list[str]:
        """What is still there, some seconds later; it is removed.

        Args:
            thoroughly: look at all processes, not only at children of this one.
        """
        end = time.monotonic() + PATIENCE
        while (processes := self._processes(thoroughly)) and time.monotonic() < end:
            time.sleep(0.05)
        found = []
        for process in processes:
            with contextlib.suppress(psutil.Error):
                found.append(f"left behind: process {' '.join(process.cmdline())[:300]}")
                process.kill()
        for path in (*self.temporary.iterdir(), *self.here.iterdir()):
            found.append(f"left behind: file {path.parent.name}/{path.name}")
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        return found

    def _processes(self, thoroughly: bool) -> list[psutil.Process]:
        children = psutil.Process().children(recursive=True)
        own = [child for child in children if child not in self.before and _lives(child)]
        if not thoroughly:
            return own
        return own + [process for process in psutil.process_iter() if process not in own and self._is_marked(process)]

    def _is_marked(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return process.pid != os.getpid() and process.environ().get(MARK) == self.mark and _lives(process)
        return False


def _lives(process: psutil.Process) -> bool:
    """Python's own tracker of shared memory aside, which a process keeps once it has one."""
    with contextlib.suppress(psutil.Error):
        tracker = any("multiprocessing.resource_tracker" in word for word in process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and not tracker
    return False
