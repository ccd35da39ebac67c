"""A supervisor between a program and a command it runs: whatever happens, nothing of the command is left running.

`python -m moccasin_mzn.search.processes.guard SETTINGS COMMAND...` is what `guarded.run_guarded` starts. The command's
output goes straight to the guard's own stdout and stderr. On stdin the guard reads from its parent: first the input of
the command, as many bytes as the settings give; then a byte requests a gentle end of the command, and the end of the
pipe means that the parent is gone. When the command and everything it ever started have ended, the guard writes its
report on stdout: the token of the settings and one line of JSON.

Linux hands orphans to the guard (it is a child subreaper) and kills the command if the guard is killed. Elsewhere the
guard knows the descendants that it has seen while their parents lived, and a command outlives a guard that is killed
unless `run_guarded` is still there to sweep up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from moccasin_mzn.base.files import Json

POLL_SECONDS = 0.05
"""Time between two checks of the guard whether the command has ended or something is requested, in seconds."""
USAGE_SECONDS = 0.2
"""Time between two sums of the memory of the tree, in seconds."""
KILL_SECONDS = 10.0
"""Time for which it tries to kill what does not die, such as a process in the kernel, in seconds."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit statuses for a command that cannot start, as in a shell."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Tree:
    """All descendants of this process, with their use of memory and processors."""

    def __init__(self) -> None:
        self.memory = 0
        """Sum of resident memory at the latest look, in bytes."""
        self.memory_peak = 0
        self._seconds: dict[psutil.Process, float] = {}
        self._known: set[psutil.Process] = set()

    def look(self) -> list[psutil.Process]:
        """Find the live descendants and note what they use."""
        alive, memory = [], 0
        for process in self._descendants():
            with contextlib.suppress(psutil.Error), process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                alive.append(process)
                memory += process.memory_info().rss
                times = process.cpu_times()
                self._seconds[process] = times.user + times.system
        self.memory, self.memory_peak = memory, max(memory, self.memory_peak)
        return alive

    def _descendants(self) -> set[psutil.Process]:
        """Children of children too, and those seen before whose parents have gone since."""
        found = set(psutil.Process().children(recursive=True))
        for process in self._known - found:
            if process.is_running():
                found.add(process)
                with contextlib.suppress(psutil.Error):
                    found.update(process.children(recursive=True))
        self._known = found
        return found

    def reap(self, command: int) -> None:
        """Take note of the orphans that have ended; `command` is left to who started it."""
        if not hasattr(os, "WNOHANG"):
            return
        for process in self._known:
            if process.pid != command:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill every descendant, and those started meanwhile."""
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            alive = self.look()
            for descendant in alive:
                with contextlib.suppress(psutil.Error):
                    descendant.kill()
            process.poll()
            self.reap(process.pid)
            if not alive and not self._descendants():
                return
            time.sleep(0.005)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all descendants, those that have ended included, in user and kernel mode."""
        seen = sum(self._seconds.values())
        try:
            import resource
        except ImportError:  # not on Windows
            return seen
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return max(seen, usage.ru_utime + usage.ru_stime)


class Guard:
    """Runs one command to its end, or ends it."""

    def __init__(self, settings: dict[str, Json], command: Sequence[str]) -> None:
        self.settings, self.command = settings, command
        self.tree = Tree()
        self.wake = threading.Event()
        self.end_requested = False
        """True if a gentle end of the command was requested."""
        self.alone = False
        """True if the parent has gone, or the guard itself has to end."""

    def run(self) -> dict[str, Json]:
        """Run the command and return the report."""
        begin = time.monotonic()
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: self._end_now())
        how, status = "exited", None
        folder = self.settings["folder"]
        try:
            os.mkdir(folder, 0o700)
            process = self._start(folder)
            try:
                how = self._watch(process, begin)
            finally:
                self.tree.kill(process)
            status = process.poll()
        except OSError as error:
            sys.stderr.write(f"{self.command[0]}: cannot be run: {error.strerror or error}\n")
            sys.stderr.flush()
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        usage = {"cpu_seconds": self.tree.cpu_seconds(), "memory_peak": self.tree.memory_peak}
        return {"how": how, "exit_status": status, **usage}

    def _start(self, folder: str) -> subprocess.Popen[bytes]:
        """Start the command, in a session of its own, with a folder for its temporary files.

        Raises:
            OSError: it cannot be started.
        """
        if self.settings["cores"] is not None:
            psutil.Process().cpu_affinity(self.settings["cores"])  # the command inherits it
        environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)}
        with tempfile.TemporaryFile(dir=folder) as text:
            text.write(self._text())
            text.seek(0)
            process = subprocess.Popen(
                self.command, stdin=text, start_new_session=True, preexec_fn=tied_to_this_process(), env=environment
            )
        threading.Thread(target=self._listen, daemon=True).start()  # after the fork, which is of one thread
        return process

    def _text(self) -> bytes:
        """Read the input of the command; less of it if the parent is gone."""
        parts, missing = [], self.settings["input"]
        while missing and (part := os.read(0, missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _listen(self) -> None:
        while os.read(0, 1):
            self.end_requested = True
            self.wake.set()
        self._end_now()

    def _end_now(self) -> None:
        self.alone = True
        self.wake.set()

    def _watch(self, process: subprocess.Popen[bytes], begin: float) -> str:
        """Wait for the end of the command, or end it at a limit; return how it ended."""
        hard_limit, memory_limit = self.settings["hard_limit"], self.settings["memory_limit"]
        requested, look_next = None, 0.0
        while process.poll() is None:
            now = time.monotonic()
            if now >= look_next:
                self.tree.look()
                self.tree.reap(process.pid)
                look_next = time.monotonic() + USAGE_SECONDS
            if memory_limit is not None and self.tree.memory > memory_limit:
                return "memory"
            if hard_limit is not None and now - begin > hard_limit:
                return "time"
            if self.end_requested and requested is None:
                requested = now
                process.terminate()
            if self.alone or (requested is not None and now - requested > self.settings["grace"]):
                return "stopped"
            if self.wake.wait(POLL_SECONDS):
                self.wake.clear()
        return "exited" if requested is None else "stopped"


def tied_to_this_process() -> Callable[[], None] | None:
    """Return what a child calls before it becomes the command, so that it is killed when this process dies; Linux only.

    This process adopts all orphans among its descendants from now on.
    """
    if not sys.platform.startswith("linux"):
        return None
    library, this = ctypes.CDLL(None), os.getpid()
    library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def tie() -> None:
        library.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != this:  # it died before
            os._exit(NOT_EXECUTABLE)

    return tie


def main() -> None:
    """Run the command of the command line and report on stdout."""
    settings = json.loads(sys.argv[1])
    guard = Guard(settings, sys.argv[2:])
    report = (settings["token"] + json.dumps(guard.run()) + "\n").encode()
    while not guard.alone:  # else nobody reads it
        try:
            os.write(1, report)  # at once: it is shorter than what a pipe takes in one piece
            return
        except BlockingIOError:  # the command has made the pipe so
            time.sleep(POLL_SECONDS)
        except OSError:
            return


if __name__ == "__main__":
    main()
