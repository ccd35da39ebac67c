"""The compiled searches: loaded if an earlier process kept them, else compiled, by a process in the background.

::

    Runner ── a searcher's thread ──> join ── kept? ─┬─ yes ──────────────────────> ready: loaded, in this process
                                                     └─ no ──> a process of low priority compiles and keeps them

Code that needs a search at once calls `ready`, which compiles here what is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from moccasin_mzn.base.clock import POLL_SECONDS
from moccasin_mzn.base.environment import own_environment, user_cache
from moccasin_mzn.base.errors import require_address_space
from moccasin_mzn.base.interrupts import none_lost
from moccasin_mzn.base.log import note_once
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

# --- What is made ready ---------------------------------------------------------------------------------------


FIRST_TIME = "compiling the {}, once after an installation; `moccasin-mzn compile` does it beforehand"
NOT_KEPT = (
    "note: no folder for what is compiled can be written to, so every run compiles: "
    "set NUMBA_CACHE_DIR to a folder that can be"
)
LEAST_ADDRESS_SPACE = 600 * 2**20
"""In bytes."""
IN_BACKGROUND = (
    "compiling searches in the background, once after an installation: until then the others go on without them; "
    "`moccasin-mzn compile` does it beforehand"
)
ELSEWHERE = "another process is compiling the searches: until it has, the others go on without them"
NOT_COMPILED = "note: compiling the {} failed, so that it is left out; `moccasin-mzn compile` shows why"
_ready: dict[CompiledSearch, float] = {}
"""Seconds that compiling took."""
_loading = threading.RLock()
"""One thread at a time compiles or loads."""
_processes: dict[tuple[CompiledSearch, ...], subprocess.Popen[bytes]] = {}
"""The processes begun in the background."""
_beginning = threading.Lock()
"""One thread at a time begins a process."""


@dataclass(frozen=True)
class CompiledSearch:
    name: str
    """The name in messages."""
    module: str
    """The module's `compile_all()` calls every compiled function of the search once, as the search itself does."""


def check_address_space() -> None:
    """Check that this process may map as much as searches need, before anything of theirs is imported.

    Raises:
        OutOfMemoryError: it may not.
    """
    require_address_space("a search", LEAST_ADDRESS_SPACE)


def ready(*searches: CompiledSearch) -> float:
    """Have the functions of searches compiled; a note is logged if they have to be compiled now.

    Returns:
        The seconds that compiling took, which are not for a time limit to count; 0 if all was kept.

    Raises:
        OutOfMemoryError: this process may not map as much as searches need.
    """
    if all(search in _ready for search in searches):
        return 0.0
    check_address_space()
    with _loading:
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
            if not announced:
                announced.append(search)
                if keeps():
                    note_once(FIRST_TIME.format(search.name))
                else:
                    note_once(NOT_KEPT, logging.WARNING)

        def on_end(self, event: event.Event) -> None:
            """Nothing: the class asks for it."""

    listener = Compiling()
    with none_lost():  # LLVM calls back into Python, which drops what is raised there
        event.register("numba:compile", listener)
        try:
            import_module(search.module).compile_all()
        finally:
            event.unregister("numba:compile", listener)
    _ready[search] = time.monotonic() - begin if announced else 0.0
    _note_kept(search)
    return _ready[search]


# --- In the background ----------------------------------------------------------------------------------------


LOADING_SECONDS, LOADING_MORE_SECONDS = 1.5, 0.5
"""Seconds that loading takes with numba, and where that is loaded; in them nothing ends it. As measured."""
LEAST_PRIORITY = 19
"""The niceness of a process that compiles."""


def loading_seconds() -> float:
    """Return how long loading takes: with less time left it does not begin."""
    return LOADING_MORE_SECONDS if "numba" in sys.modules else LOADING_SECONDS


def join(stop: Callable[[], bool], remaining: Callable[[], float], *searches: CompiledSearch) -> bool:
    """Have searches loaded, compiled by a process in the background first where they are not kept.

    For a thread alongside others: it waits until then. The process goes on if this one ends before; where another
    one compiles already, by whomever it was begun, it waits for that.

    Args:
        stop: asked many times a second; ends the wait.
        remaining: returns the seconds that are left.

    Returns:
        True if they are loaded; False if there is no time left for it, or compiling failed.

    Raises:
        OutOfMemoryError: this process may not map as much as searches need.
    """
    if all(search in _ready for search in searches):
        return True
    missing = tuple(search for search in searches if search not in _ready and not is_kept(search))
    while not all(map(is_kept, missing)):
        if stop():
            return False
        process = _begun(missing)
        if process is not None and process.poll() is not None and not all(map(is_kept, missing)):
            names = " and the ".join(search.name for search in missing)
            note_once(NOT_COMPILED.format(names), logging.WARNING)
            return False
        time.sleep(POLL_SECONDS)
    if stop() or remaining() < loading_seconds():
        return False
    ready(*searches)
    return True


def kept_or_begun(search: CompiledSearch) -> bool:
    """Return whether a search is kept, for who goes on without it if not; it is then compiled in the background."""
    if is_kept(search):
        return True
    if can_keep():
        _begun((search,))
    return False


def _begun(searches: tuple[CompiledSearch, ...]) -> subprocess.Popen[bytes] | None:
    """The process of this one that compiles searches, begun now if need be; None while another process compiles any."""
    with _beginning:
        if searches not in _processes:
            with _lock_to_compile() as (taken, lock):
                if taken:
                    if not _processes:
                        note_once(ELSEWHERE)
                    return None
                note_once(IN_BACKGROUND)
                _processes[searches] = _process(searches, lock)
        return _processes[searches]


def _process(searches: tuple[CompiledSearch, ...], lock: int | None) -> subprocess.Popen[bytes]:
    """A process in a session of its own that compiles searches and keeps them, and has the lock until it ends."""
    words = [f"{search.name}={search.module}" for search in searches]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "moccasin_mzn.heuristics.compiled_searches", *words],
        stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, env=own_environment(),
        pass_fds=() if lock is None else (lock,),
    )  # fmt: skip


@contextlib.contextmanager
def _lock_to_compile() -> Iterator[tuple[bool, int | None]]:
    """Take the lock of what compiles, where the system has locks, for this process and those that inherit it.

    Yields:
        Whether another process has it, and its file descriptor.
    """
    folder = _marks_folder()
    try:
        import fcntl
    except ImportError:
        folder = None
    if folder is None:
        yield False, None
        return
    with open(folder / "compiling.lock", "w") as file:
        taken = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            taken = True
        except OSError:
            pass  # a file system without locks
        yield taken, None if taken else file.fileno()


def compile_and_keep(searches: list[CompiledSearch]) -> None:
    """Compile searches at the least priority."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(LEAST_PRIORITY)
    ready(*(search for search in searches if not is_kept(search)))


# --- What is kept: a file without content for each search -----------------------------------------------------


def can_keep() -> bool:
    """Return whether there is a folder in which later processes find what is compiled."""
    return _marks_folder() is not None


def is_kept(search: CompiledSearch) -> bool:
    """Return whether an earlier process has compiled a search as it is now, for this machine, and kept it."""
    mark = _mark_of(search)
    return mark is not None and mark.exists()


def _note_kept(search: CompiledSearch) -> None:
    mark = _mark_of(search)
    if mark is None:
        return
    with contextlib.suppress(OSError):
        for old in mark.parent.glob(f"{search.module}.*.kept"):
            old.unlink(missing_ok=True)
        mark.touch()


def _mark_of(search: CompiledSearch) -> Path | None:
    folder = _marks_folder()
    return None if folder is None else folder / f"{search.module}.{_state()}.kept"


def _marks_folder() -> Path | None:
    """The folder of the marks; None if none can be written to. Like numba: with the sources, or in the user's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    places = (lambda: Path(given),) if given else (lambda: Path(__file__).parent / "__pycache__", user_cache)
    for place in places:
        with contextlib.suppress(OSError):
            folder = place()
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


@cache
def _state() -> str:
    """A digest of all that compiled code depends on: sources, numba, Python, the processor, checks of bounds."""
    package, numba = Path(__file__).parents[1], find_spec("numba")
    places = [place for room in ("heuristics", "machine", "strategies") for place in (package / room).rglob("*.py")]
    places += [] if numba is None or numba.origin is None else [Path(numba.origin).with_name("_version.py")]
    stamps = [(str(place), place.stat().st_mtime_ns, place.stat().st_size) for place in sorted(places)]
    first: list[str] = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as cores:
        first = list(itertools.takewhile(str.strip, cores))  # there may be hundreds more
    chosen = [line for line in first if line.startswith(("model name", "flags", "Features", "CPU"))]
    known = (stamps, sys.version, chosen, os.environ.get("NUMBA_BOUNDSCHECK"), os.environ.get("NUMBA_CPU_NAME"))
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


# --- What all of them compile on ------------------------------------------------------------------------------


def small_instance(order: str = "input") -> Instance:
    """To compile on: it needs 8 with a recomputation and 10 without."""
    edges = ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    graph = ComputationGraph((0, 1, 2, 3, 4), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), edges)
    return Instance.build(graph, 8, order=order)


def later(times: int) -> Callable[[], bool]:
    """A condition to stop that is false a number of times, then true."""
    left = itertools.repeat(False, times)
    return lambda: next(left, True)


def ignore(found: object) -> None:
    """Schedules are of no use where only compiling matters."""


LOCAL = CompiledSearch("local search", "moccasin_mzn.heuristics.staged.search")
ORDERS = CompiledSearch("search for orders", "moccasin_mzn.heuristics.orders.order_search")
FREE = CompiledSearch("annealing of orders", "moccasin_mzn.heuristics.free_order.search")
STREAMING = CompiledSearch("streaming search", "moccasin_mzn.heuristics.streaming.search")


if __name__ == "__main__":
    from moccasin_mzn.heuristics import compiled_searches as itself  # whose searches are those that others know

    itself.compile_and_keep([itself.CompiledSearch(*word.split("=")) for word in sys.argv[1:]])
