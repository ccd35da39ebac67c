"""Allocation of given buffers: search first, then the model of the least arena if there are few of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.checks import plain, sequence
from moccasin_mzn.clock import Deadline
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.problem.arena import Arena, bound_of, buffers_in, check_buffers, check_capacity
from moccasin_mzn.problem.buffer import Buffer, pieces_of

MOST_MODELLED = 300
"""The model of the least arena is not tried for more buffers, or, where these have gaps, pieces of them."""
SEARCH_SHARE = 0.5
"""Of a time limit, if the model is tried after the search."""
MODEL_SECONDS = 30.0
"""Of the model, without a time limit."""


@dataclass(frozen=True)
class Allocation:
    """An arena and what is proven about it."""

    arena: Arena
    bound: int
    """No arena of the same buffers is smaller."""
    status: str
    """"optimal": no arena is smaller; "feasible": not proven, or not sought since the capacity is kept; "infeasible":
    none is within the capacity; "unknown": none within it was found."""

    def document(self, capacity: int | None = None) -> dict[str, Any]:
        """The object that `allocate --json` prints, but for its seconds."""
        arena = self.arena
        offsets = {buffer.name: offset for buffer, offset in zip(arena.buffers, arena.offsets, strict=True)}
        told = {"buffers": len(arena.buffers), "peak": arena.peak, **arena.as_dict(), "arena_bound": self.bound}
        return {**told, "capacity": capacity, "status": self.status, "offsets": offsets}


def allocate_buffers(
    buffers: Sequence[Buffer], alignment: int = 1, *, capacity: int | None = None,
    begin_with: Sequence[int] | None = None, time_limit: float | None = None, threads: int | None = None, seed: int = 0,
) -> Allocation:  # fmt: skip
    """A small arena, or with a capacity one that is no larger. An interrupt from the keyboard ends it with the best.

    Args:
        begin_with: offsets to begin with, one for each buffer; refused if they are no arena.

    Raises:
        InputError: sizes, offsets or an alignment that make no sense, buffers' own offsets that contradict each other,
            or what they do not fit; MiniZinc, if it is needed, is missing or failed.
    """
    from moccasin_mzn.extensions.addresses.exact import least_arena
    from moccasin_mzn.solvers.minizinc.run import Limits

    buffers, alignment, capacity = buffers_in(buffers), plain(alignment), plain(capacity)
    check_capacity(capacity)
    check_buffers(buffers, alignment, capacity)
    ready(ADDRESSES)
    deadline = Deadline(time_limit)
    bound, interrupted = bound_of(buffers, alignment), []
    if begin_with is not None:
        begin_with = Arena(
            buffers, sequence(begin_with, "begin with", "offsets, one for each buffer"), alignment
        ).offsets
    modelled = sum(len(pieces_of(buffer)) for buffer in buffers) <= MOST_MODELLED
    arena = search_arena(
        buffers, alignment, enough=capacity, seed=seed, begin_with=begin_with,
        time_limit=time_limit and time_limit * (SEARCH_SHARE if modelled else 1),
        on_interrupt=lambda: interrupted.append(True),
    )  # fmt: skip
    hopeless = capacity is not None and bound > capacity
    if arena.size > max(bound, capacity or 0) and modelled and not interrupted and not hopeless and not deadline.over():
        left = deadline.remaining()
        limits = Limits(MODEL_SECONDS if left is None else left, threads, seed)
        found, outcome = least_arena(buffers, alignment, begin_with=arena, limits=limits, enough=capacity)
        if found is not None and found.size < arena.size:
            arena = found
        if outcome.status == "optimal":
            bound = max(bound, arena.size)
    return Allocation(arena, bound, _status(arena, bound, capacity))


def _status(arena: Arena, bound: int, capacity: int | None) -> str:
    if capacity is not None and arena.size > capacity:
        return "infeasible" if bound > capacity else "unknown"
    return "optimal" if arena.size <= bound else "feasible"
