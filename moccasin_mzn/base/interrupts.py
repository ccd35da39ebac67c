"""Interrupts: none is lost, and other signals stop a search as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections import deque
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_SECONDS = 0.01
"""After this time an interrupt that was dropped comes again."""


@contextlib.contextmanager
def none_lost() -> Iterator[None]:
    """Have an interrupt that Python drops come again a little later, at the end of the block at the latest.

    Python drops what is raised where it cannot be caught: in a finalizer, a callback of a weak reference, a function
    that a library such as LLVM calls. ::

        main thread ── finalizer ── Ctrl-C ── dropped ──> sys.unraisablehook ── 10 ms ──> Ctrl-C once more

    Only the main thread is interrupted; in others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual, waiting, main = sys.unraisablehook, deque[bool](), threading.get_ident()

    def hook(dropped: UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            waiting.append(True)
            threading.Timer(AGAIN_SECONDS, later).start()
        else:
            usual(dropped)

    def later() -> None:
        while _is_called(hook.__code__, sys._current_frames().get(main)):  # where it would be dropped once more
            time.sleep(AGAIN_SECONDS)
        again()

    def again() -> None:
        with contextlib.suppress(IndexError):  # of the two that call this the first one does it
            waiting.pop()
            interrupt_main()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = usual
        while waiting:
            again()


def _is_called(code: CodeType, frame: FrameType | None) -> bool:
    """Is this function among what is being called?"""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Have SIGTERM (as from `timeout` or a job scheduler) and SIGHUP stop the search as Ctrl-C does."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.signal(getattr(signal, name), signal.default_int_handler) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
