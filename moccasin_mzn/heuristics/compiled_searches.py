"""The compiled searches, made ready before a clock starts: loaded if they were kept by an earlier process."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import FrameType

from moccasin_mzn.errors import require_address_space
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

# --- Interrupts while compiled code is loaded -----------------------------------------------------------------

# LLVM calls back into Python, which drops what is raised there::
#
#     compile_all() ... LLVM ... callback     Ctrl-C here would be lost: it is raised
#     next function, or the end of the block  here


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


# --- What is made ready ---------------------------------------------------------------------------------------


FIRST_TIME = "compiling the {}, once after an installation; `python -m moccasin_mzn compile` does it beforehand"
NOT_KEPT = (
    "note: no folder for what is compiled can be written to, so every run compiles: "
    "set NUMBA_CACHE_DIR to a folder that can be"
)
LEAST_ADDRESS_SPACE = 600 * 2**20
"""In bytes."""
_ready: dict[CompiledSearch, float] = {}
"""Seconds that compiling took."""
_noted: set[str] = set()


@dataclass(frozen=True)
class CompiledSearch:
    name: str
    """The name in messages."""
    module: str
    """Its `compile_all()` calls every compiled function of the search once, as the search itself does."""


def ready(*searches: CompiledSearch) -> float:
    """Have the functions of searches compiled; a line on stderr if they have to be compiled now.

    Returns:
        The seconds that compiling took, which are not for a time limit to count; 0 if all was kept.

    Raises:
        OutOfMemoryError: this process may not map as much as searches need.
    """
    require_address_space("a search", LEAST_ADDRESS_SPACE)
    return sum(_made_ready(search) for search in searches if search not in _ready)


def compiled_for(free_order: bool) -> tuple[CompiledSearch, ...]:
    """The searches of one memory, along the input order or any."""
    return (LOCAL, ORDERS, FREE) if free_order else (LOCAL,)


def seconds_spent() -> float:
    """What compiling has taken so far in this process."""
    return sum(_ready.values())


def _made_ready(search: CompiledSearch) -> float:
    from numba.core import event

    from moccasin_mzn.heuristics.compiling import keeps

    begin, announced = time.monotonic(), list[CompiledSearch]()

    class Compiling(event.Listener):
        def on_start(self, event: event.Event) -> None:
            raise_waiting()
            if not announced:
                announced.append(search)
                _print_once(FIRST_TIME.format(search.name) if keeps() else NOT_KEPT)

        def on_end(self, event: event.Event) -> None:
            raise_waiting()

    listener = Compiling()
    with none_lost() as raise_waiting:
        event.register("numba:compile", listener)
        try:
            import_module(search.module).compile_all()
        finally:
            event.unregister("numba:compile", listener)
    _ready[search] = time.monotonic() - begin if announced else 0.0
    return _ready[search]


def _print_once(line: str) -> None:
    if line not in _noted:
        _noted.add(line)
        print(line, file=sys.stderr, flush=True)


def small_instance(order: str = "input") -> Instance:
    """To compile on: it needs 8 with a recomputation and 10 without."""
    edges = ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    graph = ComputationGraph((0, 1, 2, 3, 4), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), edges)
    return Instance.build(graph, 8, order=order)


def later(times: int) -> Callable[[], bool]:
    """A condition to stop that is false so many times, then true."""
    left = itertools.repeat(False, times)
    return lambda: next(left, True)


def ignore(found: object) -> None:
    """Schedules are of no use where only compiling matters."""


LOCAL = CompiledSearch("local search", "moccasin_mzn.heuristics.staged.search")
ORDERS = CompiledSearch("search for orders", "moccasin_mzn.heuristics.orders.order_search")
FREE = CompiledSearch("annealing of orders", "moccasin_mzn.heuristics.free_order.search")
