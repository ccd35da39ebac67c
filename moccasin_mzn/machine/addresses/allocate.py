"""Allocation of given buffers: first fit, then search, then the model of the least arena if there are few of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.problem.arena import Arena, bound_of, buffers_in, capacity_of, check_buffers, steps
from moccasin_mzn.problem.blocks import merged
from moccasin_mzn.problem.buffer import Buffer, Piece, pieces_of
from moccasin_mzn.search.options import Effort

if TYPE_CHECKING:
    from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, Solution, Value

MOST_MODELLED = 300
"""The model of the least arena is not tried for more buffers, or, where these have gaps, pieces of them."""
MOST_PLACED = 300
"""First fit, in plain Python, is not tried for more pieces of buffers, as its time grows with the square."""
_ORDERS: tuple[Callable[[Buffer], int], ...] = (
    lambda buffer: -buffer.size,
    lambda buffer: -buffer.size * (buffer.end - buffer.start),
    lambda buffer: buffer.start,
    lambda buffer: buffer.start - buffer.end,
)
"""Buffers are placed in ascending order of each of these, those with an offset of their own before all others."""
SEARCH_SHARE = 0.5
"""The share of a time limit for the search, if the model is tried after the search."""
MODEL_SECONDS = 30.0
"""Seconds for the model, without a time limit."""
SEARCH = "search"
"""Name of the search, in progress."""
ArenaListener = Callable[[float, int, int, str], None]
"""Function that is called with seconds, the size of an arena, the bound, and who found it."""


@dataclass(frozen=True)
class Allocation:
    """An arena and what is proven about it."""

    arena: Arena
    bound: int
    """No arena of the same buffers is smaller."""
    status: str
    """"optimal": no arena is smaller; "feasible": not proven, or not sought since the capacity is kept; "infeasible":
    none is within the capacity; "unknown": none within it was found."""
    interrupted: bool = False
    """True if an interrupt from the keyboard ended the search."""

    def document(self, capacity: int | None = None) -> JsonObject:
        """The object that `allocate --json` prints, but for its seconds."""
        arena = self.arena
        offsets = {buffer.name: offset for buffer, offset in zip(arena.buffers, arena.offsets, strict=True)}
        figures = {"buffers": len(arena.buffers), "peak": arena.peak, **arena.as_dict(), "arena_bound": self.bound}
        return {**figures, "capacity": capacity, "status": self.status, "offsets": offsets}


def allocate_buffers(
    buffers: Iterable[Buffer], alignment: int = 1, *, capacity: int | str | None = None,
    begin_with: Iterable[int] | None = None, effort: Effort = Effort(),  # noqa: B008 (frozen)
    stop: Callable[[], bool] = lambda: False, on_progress: ArenaListener = lambda seconds, size, bound, source: None,
) -> Allocation:  # fmt: skip
    """A small arena, or with a capacity one that is no larger. An interrupt from the keyboard ends it with the best.

    Args:
        begin_with: offsets to begin with, one for each buffer; refused if they are no arena.
        stop: ends the search by returning true, with the best arena so far.
        on_progress: called in this thread with the size of each smaller arena.

    Raises:
        InputError: sizes, offsets or an alignment that make no sense, buffers' own offsets that contradict each other,
            or what they do not fit; MiniZinc, if it is needed, is missing or failed.
    """
    buffers, alignment, capacity = buffers_in(buffers), plain(alignment), capacity_of(capacity)
    check_buffers(buffers, alignment, capacity)
    deadline, bound = Deadline(effort.time_limit), bound_of(buffers, alignment)
    least = None if begin_with is not None else first_fit(buffers, alignment, max(bound, capacity or 0))
    if least is not None:
        on_progress(deadline.elapsed(), least.size, bound, SEARCH)
        return Allocation(least, bound, _status(least, bound, capacity))
    return _searched(buffers, alignment, bound, capacity, begin_with, effort, stop, on_progress)


def first_fit(buffers: tuple[Buffer, ...], alignment: int, enough: int) -> Arena | None:
    """An arena of at most `enough`, by first fit; None: no order gives one, a buffer has a hint, or there are many."""
    whole = merged(buffers)
    pieces, ones = whole.pieces, whole.buffers
    if sum(map(len, pieces)) > MOST_PLACED or any(buffer.hint is not None for buffer in buffers):
        return None
    step = steps(ones, alignment)
    for rank in _ORDERS:
        offsets = [buffer.offset or 0 for buffer in ones]
        placed = [at for at, buffer in enumerate(ones) if buffer.offset is not None]
        for at in sorted(set(range(len(ones))).difference(placed), key=lambda at: (rank(ones[at]), at)):
            offsets[at] = _lowest(pieces[at], step[at], [(offsets[of], pieces[of]) for of in placed])
            placed.append(at)
        arena = Arena(buffers, whole.offsets_of(offsets), alignment)
        if arena.size <= enough:
            return arena
    return None


def _lowest(pieces: Sequence[Piece], step: int, placed: list[tuple[int, Sequence[Piece]]]) -> int:
    """The lowest offset at which pieces of a buffer overlap none of those that are placed."""
    taken = [
        (offset + other.low - piece.high, offset + other.high - piece.low)
        for offset, others in placed
        for other in others
        for piece in pieces
        if piece.start < other.end and other.start < piece.end
    ]
    lowest = 0
    for above, below in sorted(taken):  # offsets between these two, both excluded, overlap
        if lowest <= above:
            break
        if lowest < below:
            lowest = -(-below // step) * step
    return lowest


def _searched(
    buffers: tuple[Buffer, ...], alignment: int, bound: int, capacity: int | None, begin_with: Iterable[int] | None,
    effort: Effort, stop: Callable[[], bool], on_progress: ArenaListener,
) -> Allocation:  # fmt: skip
    """What search and model find; see `allocate_buffers`."""
    from moccasin_mzn.machine.addresses.search import search_arena
    from moccasin_mzn.solvers.minizinc.run import Limits

    ready(ADDRESSES)
    deadline, interrupted = Deadline(effort.time_limit), []
    if begin_with is not None:
        begin_with = Arena(
            buffers, sequence(begin_with, "begin with", "offsets, one for each buffer"), alignment
        ).offsets
    modelled = sum(len(pieces_of(buffer)) for buffer in buffers) <= MOST_MODELLED
    arena = search_arena(
        buffers, alignment, enough=capacity, seed=effort.seed or 0, begin_with=begin_with,
        time_limit=effort.time_limit and effort.time_limit * (SEARCH_SHARE if modelled else 1), stop=stop,
        on_interrupt=lambda: interrupted.append(True),
        on_arena=lambda size: on_progress(deadline.elapsed(), size, bound, SEARCH),
    )  # fmt: skip
    hopeless = capacity is not None and bound > capacity
    over = deadline.over() or stop() or bool(interrupted)
    if arena.size > max(bound, capacity or 0) and modelled and not hopeless and not over:
        left = deadline.remaining()
        limits = Limits(MODEL_SECONDS if left is None else left, effort.threads, effort.seed or 0)
        found, outcome = least_arena(
            buffers, alignment, begin_with=arena, limits=limits, enough=capacity, stop=stop,
            on_arena=lambda one: on_progress(deadline.elapsed(), one.size, bound, MODEL),
        )  # fmt: skip
        interrupted += [True] * outcome.interrupted
        if found is not None and found.size < arena.size:
            arena = found
        if outcome.status == "optimal":
            bound = max(bound, arena.size)
    return Allocation(arena, bound, _status(arena, bound, capacity), bool(interrupted))


def _status(arena: Arena, bound: int, capacity: int | None) -> str:
    if capacity is not None and arena.size > capacity:
        return "infeasible" if bound > capacity else "unknown"
    return "optimal" if arena.size <= bound else "feasible"


# --- The least arena, proven: `models/addresses.mzn`, by CP-SAT unless another solver is given -----------------


MODEL, CHECKER = "addresses.mzn", "addresses.mzc.mzn"


def least_arena(
    buffers: Sequence[Buffer], alignment: int = 1, *, begin_with: Arena | None = None, limit: int | None = None,
    enough: int | None = None, solver: str = "cp-sat", limits: Limits | None = None,
    stop: Callable[[], bool] = lambda: False, on_arena: Callable[[Arena], None] = lambda arena: None,
) -> tuple[Arena | None, Outcome]:  # fmt: skip
    """An arena and how the run ended: with status "optimal" it is proven that none is smaller.

    Args:
        begin_with: the warm start, an arena of the same buffers.
        limit: only arenas that are no larger count; None: that of `begin_with`, or of all buffers side by side.
        enough: end as soon as an arena is no larger.
        limits: of the run; None: until proven.
        stop: ends the run by returning true.
        on_arena: called with each arena that the solver finds.

    Returns:
        The smallest arena the solver found, None if it found none; status "infeasible": there is none within `limit`.

    Raises:
        SolverError: MiniZinc or the solver failed.
        InputError: the solver returned what is no arena; an unknown solver.
    """
    from moccasin_mzn.formulations import models_folder
    from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    buffers = buffers_in(buffers)
    whole = merged(buffers)
    scale = scale_of(_amounts(buffers), steps(buffers, alignment))
    items = model_items(buffers, alignment, scale, begin_with, limit)
    found: list[Arena] = []

    def note(values: Solution) -> None:
        arena = Arena(buffers, whole.offsets_of([offset * scale for offset in values.offset]), alignment)
        claimed = values.arena * scale
        if arena.size > claimed:
            raise InputError(f"{solver} reports an arena of {claimed}, but its buffers end at {arena.size}")
        found.append(arena)
        on_arena(arena)

    backend, listener = find_backend(solver), OutputListener(note, lambda bound: None)

    def over() -> bool:
        return stop() or (enough is not None and any(arena.size <= enough for arena in found))

    outcome = run_model(
        backend, models_folder() / MODEL, dzn_text(items), limits or Limits(), listener, over, begin_with is not None
    )
    return min(found, key=lambda arena: arena.size, default=None), outcome


def model_items(
    buffers: tuple[Buffer, ...], alignment: int, scale: int, begin_with: Arena | None, limit: int | None
) -> dict[str, Value]:
    """The `.dzn` items of `models/addresses.mzn`; sizes, steps, offsets and limits divided by `scale`."""
    whole, bound = merged(buffers), bound_of(buffers, alignment)
    offsets = None if begin_with is None else whole.offsets_from(begin_with.offsets)
    buffers = whole.buffers
    step = [max(1, s // scale) for s in steps(buffers, alignment)]
    if limit is None:
        everything = sum(b.size + s for b, s in zip(buffers, steps(buffers, alignment), strict=True))
        everything += max((b.offset for b in buffers if b.offset is not None), default=0)
        limit = everything if begin_with is None else begin_with.size
    incumbent = () if offsets is None or any(offset % scale for offset in offsets) else offsets
    given = [(number, b.offset) for number, b in enumerate(buffers, 1) if b.offset is not None]
    pieces = [(number, piece) for number, row in enumerate(whole.pieces, 1) for piece in row]
    return {
        "buffers": len(buffers),
        "start": [b.start for b in buffers],
        "end": [b.end for b in buffers],
        "size": [b.size // scale for b in buffers],
        "step": step,
        "given": [number for number, _ in given],
        "given_offset": [offset // scale for _, offset in given],
        "piece_of": [number for number, _ in pieces],
        "piece_start": [piece.start for _, piece in pieces],
        "piece_end": [piece.end for _, piece in pieces],
        "piece_low": [piece.low // scale for _, piece in pieces],
        "piece_high": [piece.high // scale for _, piece in pieces],
        "bound": -(-bound // scale),
        "limit": limit // scale,
        "incumbent_offset": [offset // scale for offset in incumbent],
    }


def _amounts(buffers: tuple[Buffer, ...]) -> list[int]:
    """All that offsets are sums of where everything lies as low as it can."""
    sides = [side for b in buffers for piece in pieces_of(b) for side in (piece.low, piece.high)]
    sides += [b.place for b in buffers]
    return [b.size for b in buffers] + sides + [b.offset for b in buffers if b.offset is not None]


def scale_of(sizes: Sequence[int], all_steps: Sequence[int]) -> int:
    """The unit in which sizes, steps and offsets are integers without loss.

    Pushed down as far as it goes, every buffer lies at 0 or right above others, rounded up to its step. If the steps
    divide all sizes, every such offset is a sum of sizes, and their greatest common divisor is a unit. Sizes stand for
    whatever offsets may be sums of: sides of windows and offsets that are given, too.
    """
    common = math.gcd(*sizes) or 1
    if all(common % step == 0 for step in all_steps):
        return common
    return math.gcd(common, *all_steps)


def check_arena(arena: Arena, limit: int, unit: str = "unit") -> str:
    """Have an arena checked by `models/addresses.mzc.mzn`.

    Args:
        unit: of its sizes, for the verdict.

    Returns:
        The verdict in one line.

    Raises:
        CheckError: it is rejected, or of another size.
        InputError: MiniZinc is missing or failed.
    """
    from moccasin_mzn.formulations.checkers import CheckError, run_checker

    items = model_items(arena.buffers, arena.alignment, 1, None, limit)
    offsets = merged(arena.buffers).offsets_from(arena.offsets)
    verdict = run_checker(CHECKER, {**items, "offset": offsets, "arena": arena.size})
    if verdict != f"CORRECT: arena {arena.size}, peak {arena.peak}":
        raise CheckError(f"{CHECKER} does not confirm an arena of {arena.size} and a peak of {arena.peak}: {verdict}")
    return f"{CHECKER}: CORRECT: arena {memory_text(arena.size, unit)}, peak {memory_text(arena.peak, unit)}"
