"""Branch and bound for offsets: against brute force, and on sets of buffers that are known to be hard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from address_cases import buffer_sets
from arena_oracle import least_arena_by_brute_force
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.machine.addresses.allocate import allocate_buffers
from moccasin_mzn.machine.addresses.branch import Branching, offsets_within
from moccasin_mzn.machine.addresses.branching import EXHAUSTED, FOUND, RANKINGS
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.files.buffers import read_buffers

HARD = Path(__file__).resolve().parents[3] / "data" / "minimalloc"


def boxes_of(buffers, step=1):
    return np.array([(b.start, b.end, b.size, step) for b in buffers], np.int64).T.copy()


@given(buffer_sets(), st.integers(1, 4))
def test_branch_and_bound_agrees_with_brute_force(buffers, alignment):
    buffers = tuple(Buffer(b.name, b.start, b.end, b.size) for b in buffers if b.size)[:6]
    if not buffers:
        return
    least = least_arena_by_brute_force([(b.start, b.end, b.size) for b in buffers], alignment)
    offsets, ended = offsets_within(boxes_of(buffers, alignment), least, lambda: False)
    assert ended and Arena(buffers, tuple(offsets.tolist()), alignment).size <= least
    offsets, ended = offsets_within(boxes_of(buffers, alignment), least - 1, lambda: False)
    assert ended and offsets is None


@given(buffer_sets(), st.integers(1, 20), st.sampled_from(RANKINGS))
def test_every_ranking_gives_the_same_arena_in_small_steps(buffers, capacity, ranking):
    """Gone on with for one node at a time; and the state is then what it was, but for what is found."""
    buffers = tuple(b for b in buffers if b.size)[:6]
    if not buffers:
        return
    start, end, size, step = boxes_of(buffers)
    times = {time: at for at, time in enumerate(sorted({*start.tolist(), *end.tolist()}))}
    first, behind = (np.array([times[t] for t in side.tolist()], np.int64) for side in (start, end))
    if any(not np.any((first <= s) & (s < behind)) for s in range(int(behind.max()))):
        return  # parts that nothing links are searched for one by one
    search = Branching(
        np.array([size, step, first, behind, end - start, np.full(len(size), -1)], np.int64), capacity, ranking
    )
    before = [a.copy() for a in (search.offset, search.lowest, search.floor, search.total, search.cuts)]
    found = 0
    while found not in (FOUND, EXHAUSTED):
        found = search.go_on(1)
    least = least_arena_by_brute_force([(b.start, b.end, b.size) for b in buffers], 1)
    assert (found == FOUND) == (least <= capacity)
    after = (search.offset, search.lowest, search.floor, search.total, search.cuts)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["C", *(pytest.param(x, marks=pytest.mark.full) for x in "ABDEFGHIJK")])
def test_hard_sets_fit_their_capacity(name):
    buffers = read_buffers(HARD / f"{name}.1048576.csv")
    looks = iter(range(300))
    offsets, _ = offsets_within(boxes_of(buffers), 2**20, lambda: next(looks, None) is None)
    assert Arena(buffers, tuple(offsets.tolist())).size <= 2**20


@pytest.mark.full
def test_without_a_time_limit_it_is_the_same_arena_again():
    buffers = read_buffers(HARD / "C.1048576.csv")
    one, other = (allocate_buffers(buffers, capacity=2**20) for _ in range(2))
    assert one == other and one.arena.size <= 2**20 and one.status in ("feasible", "optimal")


def test_branch_and_bound_stops_when_asked():
    buffers = read_buffers(HARD / "A.1048576.csv")
    asked = []
    assert offsets_within(boxes_of(buffers), 2**20, lambda: len(asked) > 3 or asked.append(1)) == (None, False)
    assert len(asked) == 4
