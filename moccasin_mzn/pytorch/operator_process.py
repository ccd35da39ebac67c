"""The process in which operators are called to be measured: begun when it is first asked, and again after it has died.

It may die of an operator, which then counts as failed, see `operator_worker` for what it does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.log import note
from moccasin_mzn.pytorch.operator_worker import (
    Begun,
    Done,
    Failed,
    Findings,
    Job,
    Memory,
    OperatorCall,
    OperatorSettings,
    Ready,
    Sample,
)

_BEGIN = "from moccasin_mzn.pytorch.operator_worker import main; main()"
"""Not run as a module: what is sent would be of the classes of another one, `__main__`."""
_NOTE_SECONDS = 2.0
"""Seconds between two notes on how far measuring is."""
_PATIENCE = 300.0
"""Seconds to wait for an operator, after which its process is killed."""
NO_DEADLINE = Deadline()
_CRASHES = tuple(-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT))
"""Exit statuses of a process that has crashed; one that is killed for lack of memory has another."""
_GRACE = 0.5
"""Seconds after the end of a job for the call that is underway, after which its process is killed."""


@dataclass(frozen=True)
class OperatorCost:
    """What one call of an operator takes, or one operation of several."""

    nanoseconds: int
    """CPU time of the calling thread, the median of several calls."""
    workspace: int
    """Bytes that it takes at the worst in addition to its inputs and the outputs that the operation keeps."""
    output_bytes: int = 0
    """Bytes that an operator leaves allocated: the storages of its outputs."""
    measured: bool = True
    """False: its time is not known, because it could not be called on tensors made for that, or for lack of time; it is
    estimated by the bytes that it reads and writes."""


UNCALLED = OperatorCost(0, 0, measured=False)
"""Stands for what a call takes for which there was no time."""


class Worker:
    """A process that calls operators, begun when it is first asked, and again after it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._ready = False
        """The process has imported PyTorch."""

    @property
    def running(self) -> bool:
        """True between the first question and the end of the process."""
        return self._running is not None

    def measured(
        self, calls: Sequence[OperatorCall | None], repeats: int, deadline: Deadline = NO_DEADLINE,
        end: Deadline = NO_DEADLINE, partly: Sequence[bool] = (), crashing: set[tuple[str, ...]] | None = None,
    ) -> list[OperatorCost | None]:  # fmt: skip
        """What calls take, from some samples each, or fewer or none when time is over, though each is called for what
        memory it takes; None: there is no such call, it failed, or the process died of it; `UNCALLED`: after the end
        it was not called.

        Args:
            partly: which calls are to make only some of their outputs; by default none.
            crashing: names of operators in which the process has crashed in such a call are added to it, and no other
                such call of them is made.
        """
        pickled = [_pickled(call) for call in calls]
        found = [Findings(failed=each is None) for each in pickled]
        with self._lock:
            try:
                while left := [
                    (at, each, repeats - len(known.samples))
                    for at, (each, known) in enumerate(zip(pickled, found, strict=True))
                    if each is not None and not known.failed and len(known.samples) < repeats
                ]:
                    ended = self._finished(tuple(left), found, deadline, end)
                    if crashing is not None:
                        chosen = [
                            pair for pair, part in zip(zip(calls, found, strict=True), partly, strict=True) if part
                        ]
                        _leave_out(crashing, chosen)
                    if ended:
                        break
            except BaseException:
                self._end()
                raise
        return [_cost(each) for each in found]

    def _finished(
        self, calls: tuple[tuple[int, bytes, int], ...], found: list[Findings], deadline: Deadline, end: Deadline
    ) -> bool:
        """Make calls as far as that goes; False: the process has died, and the call that it died of is marked."""
        begun: int | None = None
        fresh = self._running is None
        try:
            asked = self._started()
            if not self._is_ready(asked, end):
                return True
            asked.send(Job(OperatorSettings.current(), calls, deadline.remaining(), end.remaining()))
            whole, counted, noted = sum(count for _, _, count in calls), 0, time.monotonic()
            while asked.poll(_wait(None if begun is None else _PATIENCE, end)):
                message = asked.recv()
                if isinstance(message, Done):
                    return True
                if isinstance(message, Begun):
                    begun = message.number
                elif isinstance(message, Memory):
                    found[message.number].note(message)
                elif isinstance(message, Sample):
                    found[message.number].add(message)
                    counted += 1
                    if time.monotonic() > noted + _NOTE_SECONDS:
                        noted = time.monotonic()
                        note(f"measuring operators: {100 * counted // whole} % of {count_text(whole, 'call')}")
                elif isinstance(message, Failed):
                    found[message.number].failed = True
        except (EOFError, OSError):
            pass  # it has died
        late = end.over()
        status = self._end()
        if begun is not None and status in _CRASHES:
            found[begun].crashed = found[begun].failed = True
        if late:
            return True
        if begun is not None:
            found[begun].failed = True
        elif fresh:  # it cannot even begin: there is not the memory, or no other process
            for number, _, _ in calls:
                found[number].failed = True
        return False

    def _is_ready(self, asked: Connection, end: Deadline) -> bool:
        """Wait for the process to have imported PyTorch; False: the end came before that."""
        if not self._ready and asked.poll(end.remaining()):
            self._ready = isinstance(asked.recv(), Ready)
        return self._ready

    def begin(self) -> None:
        """Start the process, which takes some seconds to import PyTorch, while there is something else to do."""
        with self._lock:
            self._started()

    def _started(self) -> Connection:
        if self._running is None:
            ours, its = Pipe()
            command = [sys.executable, "-P", "-c", _BEGIN, str(its.fileno())]
            nowhere = subprocess.DEVNULL
            with its:
                process = subprocess.Popen(
                    command, stdin=nowhere, stdout=nowhere, stderr=nowhere, pass_fds=[its.fileno()],
                    env=own_environment(), start_new_session=True,
                )  # fmt: skip
            self._running = process, ours
        return self._running[1]

    def _end(self) -> int | None:
        """End the process, and return its exit status if it had ended by itself."""
        running, self._running, self._ready = self._running, None, False
        if running is None:
            return None
        process, connection = running
        with contextlib.suppress(OSError):
            process.kill()
        connection.close()
        return process.wait()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


def _leave_out(crashing: set[tuple[str, ...]], calls: Sequence[tuple[OperatorCall | None, Findings]]) -> None:
    """Make no more calls of operators in which the process has crashed."""
    crashing |= {call.operator for call, known in calls if call is not None and known.crashed}
    for call, known in calls:
        known.failed |= call is not None and call.operator in crashing


def worker() -> Worker:
    """The worker of this process, with which it ends."""
    return _worker_of(os.getpid())


@functools.cache
def _worker_of(process: int) -> Worker:
    made = Worker()
    atexit.register(made.close)
    return made


def _wait(seconds: float | None, end: Deadline) -> float | None:
    """Seconds to wait for a message: no longer than some, nor much longer than to the end; None: without a limit."""
    left = end.remaining()
    waits = [each for each in (seconds, None if left is None else left + _GRACE) if each is not None]
    return min(waits, default=None)


def _cost(found: Findings) -> OperatorCost | None:
    if found.failed:
        return None
    if not found.called:
        return UNCALLED
    return OperatorCost(found.nanoseconds, found.workspace, found.output_bytes, bool(found.samples))


def _pickled(call: OperatorCall | None) -> bytes | None:
    if call is None:
        return None
    try:
        return pickle.dumps(call)
    except Exception:  # an object of somebody's own among the constants
        return None
