"""A command under guard: its output line by line, limits of time, memory and cores, and what it used."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Literal

import psutil

from moccasin_mzn.base.clock import POLL_SECONDS, never
from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import JsonObject

GRACE_SECONDS = 5.0
"""Time that a command with SIGTERM may take before it is killed, in seconds."""
STDERR_CHARACTERS = 4_000
LOST_SECONDS = 1.0
"""Time that the guard's report may still be on its way after its end, in seconds."""
END_SECONDS = 15.0
"""Time that a guard may take to kill all it guards, once it has to end, in seconds."""
LINES_AHEAD = 10_000
"""Number of lines that are read ahead of their use."""
MARK = "MOCCASIN_GUARD_"
"""All that a guard starts has a variable of this and something random in its environment."""


@dataclass(frozen=True)
class Ending:
    """The ending of a command, and what it used."""

    how: Literal["exited", "time", "memory", "stopped", "lost"]
    """"exited": by itself; "time", "memory": killed at a limit; "stopped": on request; "lost": the guard died."""
    exit_status: int | None
    """Exit status of the command; negative: the signal that ended it, 127: it was not found, 126: it cannot run; None:
    not known."""
    stderr: str
    """The last 4,000 characters of stderr."""
    seconds: float
    """Wall-clock time."""
    cpu_seconds: float
    """CPU time of the command and all it started, those that have ended included; 0 if lost."""
    memory_peak: int
    """Largest sum of resident memory seen over them, in bytes; what lives only for tenths of a second is not seen."""


def ignore(line: str) -> None:
    """Do nothing with a line."""


def run_guarded(
    command: Sequence[str],
    *,
    text: str = "",
    hard_limit: float | None = None,
    memory_limit: int | None = None,
    cores: frozenset[int] | None = None,
    on_line: Callable[[str], None] = ignore,
    on_error_line: Callable[[str], None] = ignore,
    stop: Callable[[], bool] = never,
    grace: float = GRACE_SECONDS,
) -> Ending:
    """Run a command to its end. However this function ends, nothing that the command started is left running.

    The command has a folder for temporary files that is removed afterwards. It is killed with all it has
    started if this process dies.

    Args:
        text: what the command reads on stdin.
        hard_limit: seconds after which all is killed.
        memory_limit: bytes; all is killed once the sum of resident memory, looked at five times a second, is more.
        cores: the processors to run on, where the system can pin processes (Linux, Windows).
        on_line: gets each line of stdout in the caller's thread, as it comes.
        on_error_line: likewise, of stderr.
        stop: called twenty times a second; once it returns true, the command gets SIGTERM, and after `grace` seconds
            it is killed.

    Raises:
        InputError: nonsense in an argument. What a callback raises is passed on, after the command has been killed.
    """
    _check(command, hard_limit, memory_limit, cores)
    begin = time.monotonic()
    token, mark = secrets.token_hex(16), MARK + secrets.token_hex(8)  # the command sees the mark, and may print it
    folder = os.path.join(tempfile.gettempdir(), "moccasin-" + secrets.token_hex(8))
    settings = {
        "token": token,
        "folder": folder,
        "hard_limit": hard_limit,
        "memory_limit": memory_limit,
        "cores": None if cores is None else sorted(cores),
        "grace": grace,
        "input": len(text.encode()),
    }
    talk = _Talk(_start_guard(mark, settings, command), token, on_line, on_error_line, text)
    try:
        talk.run(stop)
    finally:
        _finish(talk.guard, mark, folder, lost=talk.report is None)
    report = talk.report or {"how": "lost", "exit_status": None, "cpu_seconds": 0.0, "memory_peak": 0}
    return Ending(stderr=talk.stderr, seconds=time.monotonic() - begin, **report)


def _check(
    command: Sequence[str], hard_limit: float | None, memory_limit: int | None, cores: frozenset[int] | None
) -> None:
    if isinstance(command, str) or not command:
        raise InputError(f"command {shown(command)} is not a list of a program and its arguments")
    if hard_limit is not None and not 0 < hard_limit < math.inf:
        raise InputError(f"hard limit {shown(hard_limit)} is not a positive number of seconds")
    if memory_limit is not None and memory_limit < 1:
        raise InputError(f"memory limit {shown(memory_limit)} is not a positive number of bytes")
    if cores is not None and not (cores and cores <= allowed_cores()):
        raise InputError(f"cores {shown(sorted(cores))}: this process may use {shown(sorted(allowed_cores()))}")


def allowed_cores() -> frozenset[int]:
    """The processors that this process may run on; empty where the system cannot pin processes (macOS)."""
    process = psutil.Process()
    return frozenset(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else frozenset()


def _start_guard(mark: str, settings: Mapping[str, object], command: Sequence[str]) -> subprocess.Popen[str]:
    """Start the guard in a session of its own, which Ctrl-C in a terminal does not reach."""
    program = [sys.executable, "-P", "-m", "moccasin_mzn.search.processes.guard", json.dumps(settings)]
    return subprocess.Popen(
        [*program, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        env={**own_environment(), mark: "1"},
    )


@dataclass
class _Talk:
    """The lines between the guard and this process."""

    guard: subprocess.Popen[str]
    token: str
    on_line: Callable[[str], None]
    on_error_line: Callable[[str], None]
    text: str = ""
    report: JsonObject | None = None
    """The report of the guard, once it is there."""
    stderr: str = ""
    lines: queue.Queue[tuple[str, str]] = field(default_factory=lambda: queue.Queue(LINES_AHEAD))
    over: bool = False
    """True if lines are not taken any more."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Take lines until the guard has ended and all are read, or is lost."""
        for name, stream in (("out", self.guard.stdout), ("error", self.guard.stderr)):
            threading.Thread(target=self._read, args=(name, stream), daemon=True).start()
        assert self.guard.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            self.guard.stdin.buffer.write(self.text.encode())  # type: ignore[attr-defined]  # a text stream has one
            self.guard.stdin.flush()
        try:
            self._take_all(stop)
        finally:
            self.over = True

    def _take_all(self, stop: Callable[[], bool]) -> None:
        checked, stopped, still_open, gone_since = -math.inf, False, 2, None
        while still_open:
            now = time.monotonic()
            if not stopped and now >= checked + POLL_SECONDS:
                checked, stopped = now, stop()
                if stopped:
                    self._request_end()
            try:
                name, line = self.lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if gone_since is None and self.guard.poll() is not None:
                    gone_since = now
                if gone_since is not None and now > gone_since + LOST_SECONDS:
                    return  # a process that it did not kill still has its stdout open
                continue
            if name == "end":
                still_open -= 1
            else:
                self._take(name, line)

    def _read(self, name: str, stream: IO[str]) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            for line in stream:
                self._put(name, line)
        self._put("end", "")

    def _put(self, name: str, line: str) -> None:
        while not self.over:
            with contextlib.suppress(queue.Full):
                self.lines.put((name, line), timeout=POLL_SECONDS)
                return

    def _take(self, name: str, line: str) -> None:
        if name == "error":
            self.stderr = (self.stderr + line)[-STDERR_CHARACTERS:]
            self.on_error_line(line.rstrip("\n"))
            return
        text, found, report = line.partition(self.token)
        if found:
            try:
                self.report = json.loads(report)
                line = text
            except ValueError:
                pass  # the command has listed processes, this guard among them
        if line:
            self.on_line(line.rstrip("\n"))

    def _request_end(self) -> None:
        assert self.guard.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            self.guard.stdin.write("\n")
            self.guard.stdin.flush()


def _finish(guard: subprocess.Popen[str], mark: str, folder: str, lost: bool) -> None:
    """Wait for the end of the guard, whatever it takes; if it has left without a report, sweep up what it left."""
    interrupt: KeyboardInterrupt | None = None
    assert guard.stdin is not None
    end = time.monotonic() + END_SECONDS
    while True:
        try:
            with contextlib.suppress(OSError):
                guard.stdin.close()  # which ends a guard that still runs
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(max(0.0, end - time.monotonic()))
            if guard.poll() is None:
                guard.kill()
                guard.wait()
                lost = True
            if lost:
                _sweep(mark)
                shutil.rmtree(folder, ignore_errors=True)
            break
        except KeyboardInterrupt as again:  # not before all is done
            interrupt = again
    if interrupt is not None:
        raise interrupt


def _sweep(mark: str) -> None:
    """Kill all processes with a variable `mark` in their environment."""
    for _ in range(100):
        found = [process for process in psutil.process_iter() if _is_marked(process, mark)]
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.01)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return mark in process.environ() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False
