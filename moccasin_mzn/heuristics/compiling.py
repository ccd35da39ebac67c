"""How functions are compiled, once, and kept on disk for the next process; and what compiled searches share."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import config, njit
from numba.misc.appdirs import AppDirs

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.problem.instance import Instance

_FOLDER = Path(__file__).parent
_for_this_run: list[tempfile.TemporaryDirectory] = []
"""A folder, where no other is to be had."""


def compiled(function: Callable) -> Callable:
    """`@compiled` has numba compile a function. It must not allocate: without reference counts it is 4 to 8
    times faster.

    It must not call itself either: numba crashes on a kept recursive function (its issue 6061).

    With NUMBA_BOUNDSCHECK=1 an index out of range raises an IndexError. Such code is kept in a folder of its own: numba
    would take code kept without these checks for code with them, and the other way round.
    """
    if config.BOUNDSCHECK:
        _keep_apart()
    try:
        made = njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # there is no folder to keep it in
        _keep_for_this_run()
        made = njit(cache=True, nogil=True, _nrt=False)(function)
    _forget_the_outdated(Path(function.__code__.co_filename).parent, Path(made.stats.cache_path))
    return made


@functools.cache
def keeps() -> bool:
    """Is what is compiled there for later runs?"""
    compiled(_anything)
    return not _for_this_run


def _anything() -> None: ...


@functools.cache
def _keep_apart() -> None:
    config.CACHE_DIR = str(Path(config.CACHE_DIR or AppDirs("numba", "numba").user_cache_dir) / "bounds-checked")


def _keep_for_this_run() -> None:
    """Keep what is compiled in a temporary folder, also for the processes that this one starts."""
    _for_this_run.append(tempfile.TemporaryDirectory(prefix="moccasin-"))
    config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = _for_this_run[0].name


@functools.cache
def _forget_the_outdated(folder: Path, kept: Path) -> None:
    """numba takes notice when a function's own file changes, but not when that of a function it calls does.

    So what is kept of a folder goes whenever a file with compiled functions in it, or in this one, has changed.
    """
    files = [path for place in dict.fromkeys((_FOLDER, folder)) for path in sorted(place.glob("*.py"))]
    sources = [source for source in (path.read_bytes() for path in files) if b"@compiled" in source]
    digest = hashlib.sha256(b"".join(sources)).hexdigest()
    note = kept / "compiled.sha256"
    with contextlib.suppress(OSError):  # installed read-only: then nothing is kept here
        if not note.exists() or note.read_text() != digest:
            for path in kept.glob("*.nb[ci]"):
                path.unlink(missing_ok=True)
            kept.mkdir(exist_ok=True)
            note.write_text(digest)


# --- Random numbers; a generator is an array of one uint64 other than 0 ---------------------------------------


def generator_of(seed: int) -> np.ndarray:
    """A generator, another one for each seed."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)


@compiled
def _random(generator):
    """The next 64 random bits (xorshift64*)."""
    x = generator[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    generator[0] = x
    return x * np.uint64(2685821657736338717)


@compiled
def below(generator, n):
    """A random integer in 0..n-1."""
    return np.int64((_random(generator) >> np.uint64(33)) % np.uint64(n))


@compiled
def unit(generator):
    """A random number in [0, 1)."""
    return np.float64(_random(generator) >> np.uint64(11)) / 9007199254740992.0


# --- An instance as flat arrays: nodes along the input order, each with slots for computations ----------------


NONE = -1


class ProblemArrays(NamedTuple):
    """What does not change. All arrays along the input order; sizes, workspaces and durations in any integer unit."""

    duration: np.ndarray
    size: np.ndarray
    workspace: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    succ_ptr: np.ndarray
    succ: np.ndarray
    slot_ptr: np.ndarray
    """Slots of node v are slot_ptr[v]..slot_ptr[v + 1] - 1."""
    slot_node: np.ndarray
    budget: int
    over_ptr: np.ndarray
    """Inputs that node v may overwrite are over[over_ptr[v]..over_ptr[v + 1] - 1]; `over` is empty if none may."""
    over: np.ndarray
    output_of: np.ndarray
    """For each node the one whose computation puts it out too, NONE for most; empty if that is so for all."""


def problem_with(instance: Instance, slots_for: Callable[[np.ndarray], np.ndarray], without: int = 0) -> ProblemArrays:
    """An instance for compiled code; sizes are rounded up, and the budget down, if sums of them might pass 2**62.

    Args:
        slots_for: gets C_v of each node, 1 where more is of no use, and returns how many slots each has.
        without: how many computations each node has that take no slot.
    """
    arrays = graph_arrays(instance.graph, instance.order)
    most = np.array([instance.max_computations[v] for v in instance.order], np.int64)
    slots = slots_for(np.where((arrays.size > 0) & (np.diff(arrays.succ_ptr) > 0), most, 1))
    slot_ptr = np.zeros(arrays.node_count + 1, np.int64)
    np.cumsum(slots, out=slot_ptr[1:])
    unit = size_unit(int(arrays.size.sum() + arrays.workspace.max()), int(slot_ptr[-1]) + without * arrays.node_count)
    return ProblemArrays(
        duration=arrays.duration,
        size=-(-arrays.size // unit),
        workspace=-(-arrays.workspace // unit),
        pred_ptr=arrays.pred_ptr,
        pred=arrays.pred,
        succ_ptr=arrays.succ_ptr,
        succ=arrays.succ,
        slot_ptr=slot_ptr,
        slot_node=np.repeat(np.arange(arrays.node_count, dtype=np.int64), slots),
        budget=np.int64(instance.budget // unit),  # type: ignore[arg-type]  # an int to compiled code
        **_overwritable(instance),
        output_of=_output_of(instance),
    )


def _overwritable(instance: Instance) -> dict[str, np.ndarray]:
    """`over_ptr` and `over` of a problem."""
    rows = instance.graph.overwritable or ((),) * len(instance.order)
    number = {v: k for k, v in enumerate(instance.order)} if instance.graph.overwritable else {}
    over_ptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(rows[v]) for v in instance.order], out=over_ptr[1:])
    return {"over_ptr": over_ptr, "over": np.array([number[u] for v in instance.order for u in rows[v]], np.int32)}


def _output_of(instance: Instance) -> np.ndarray:
    given = instance.graph.output_of
    if given is None:
        return np.zeros(0, np.int32)
    number = {v: k for k, v in enumerate(instance.order)}
    firsts = (given[v] for v in instance.order)
    return np.array([NONE if first is None else number[first] for first in firsts], np.int32)


@compiled
def slot_at(problem, places, v, place):
    """The first slot of v at a place, a stage or a position, one for each slot in `places`; NONE: none is."""
    for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
        if places[slot] == place:
            return slot
    return np.int64(NONE)


def size_unit(total: int, events: int) -> int:
    """The unit in which all sizes together, summed over that number of events, stay within 2**62."""
    return max(1, -(-total * events // 2**62))
