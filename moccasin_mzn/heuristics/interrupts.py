"""Interrupts while compiled code is loaded: LLVM calls back into Python, which drops what is raised there. ::

compile_all() ... LLVM ... callback     Ctrl-C here would be lost: it is raised
next function, or the end of the block  here
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def none_lost() -> Iterator[Callable[[], None]]:
    """Have an interrupt that comes within a callback wait until that is over, others as they are.

    Yields:
        What raises an interrupt that waits, if one does; the end of the block does so too.
    """
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual) or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    waits = threading.Event()

    def take(number: int, frame: FrameType | None) -> None:
        if _within_callback(frame):
            waits.set()
        else:
            usual(number, frame)

    def raise_waiting() -> None:
        if waits.is_set():
            waits.clear()
            usual(signal.SIGINT, None)

    signal.signal(signal.SIGINT, take)
    try:
        yield raise_waiting
    finally:
        signal.signal(signal.SIGINT, usual)
    raise_waiting()


def _within_callback(frame: FrameType | None) -> bool:
    """Is there a callback of llvmlite's cache of objects among what is being called?"""
    while frame is not None:
        if frame.f_code.co_name.startswith("_raw_object_cache_"):
            return True
        frame = frame.f_back
    return False
