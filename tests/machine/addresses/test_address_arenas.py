"""Arenas: what the judge rejects, and what search and model find against brute force."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
from address_cases import buffer_sets, draw_buffers
from arena_oracle import least_arena_by_brute_force
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.checkers import run_checker
from moccasin_mzn.machine.addresses.allocate import CHECKER, allocate_buffers, check_arena, least_arena, model_items
from moccasin_mzn.machine.addresses.insertion import NOBODY, drop, insertion, settle, straighten
from moccasin_mzn.machine.addresses.kernel import UNLIMITED, place, repair
from moccasin_mzn.machine.addresses.search import compressed, search_arena
from moccasin_mzn.problem.arena import Arena, ArenaError, Buffer, bound_of, peak_of
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.solvers.minizinc.run import Limits

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
A, B, C = Buffer("a", 1, 3, 2), Buffer("b", 1, 3, 1), Buffer("c", 3, 4, 2)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def brute_force(buffers, alignment):
    return least_arena_by_brute_force([(b.start, b.end, b.size) for b in buffers], alignment)


def test_arena_example_of_the_docstring_is_valid():
    arena = Arena((A, B, C), (0, 2, 0))
    assert (arena.size, arena.peak, arena.bound, arena.is_least) == (3, 3, 3, True)
    assert arena.fragmentation_percent == 0


@pytest.mark.parametrize(
    ("offsets", "alignment", "message"),
    [
        ((0, 1, 0), 1, "buffers a and b overlap at time 1: 0..1 and 1..1"),
        ((0, -1, 0), 1, "buffer b: offset -1 is negative"),
        ((0, 3, 0), 2, "buffer b: offset 3 is not a multiple of 2"),
    ],
)
def test_damaged_arenas_are_rejected_for_the_right_reason(offsets, alignment, message):
    with pytest.raises(ArenaError, match="^" + message.replace(".", r"\.")):
        Arena((A, B, C), offsets, alignment)


def test_half_open_lifespans_that_touch_may_share_memory():
    assert Arena((A, C), (0, 0)).size == 2
    with pytest.raises(ArenaError, match="overlap at time 3"):
        Arena((A, Buffer("c", 2, 4, 2), Buffer("d", 3, 4, 2)), (0, 2, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("a", 1, 1, 2), "buffer a: lifespan from 1 to before 1 is empty"),
        (("a", 1, 2, -1), "buffer a: size -1 is not an integer from 0"),
        (("a", 1, 2, 1.5), "buffer a: size 1.5 is not an integer"),
        (("a", True, 2, 1), "buffer a: start True is not an integer"),
        (("a", 1, 2, 1, 0), "buffer a: alignment 0 is not an integer from 1"),
        ((7, 1, 2, 1), "buffer name 7 is not a string"),
    ],
)
def test_bad_buffers_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Buffer(*fields)


@pytest.mark.parametrize("offsets", [(0, 2), (0, 2, 0.0)])
def test_bad_offsets_are_refused(offsets):
    with pytest.raises(InputError, match="offset"):
        Arena((A, B, C), offsets)


@given(buffer_sets(), st.sampled_from([1, 2, 4]), st.randoms())
def test_the_judge_agrees_with_a_look_at_every_pair(buffers, alignment, rng):
    offsets = [rng.randint(-1, 60) for _ in buffers]
    boxes = [(b.start, b.end, b.size, alignment) for b in buffers]
    kinds = {flaw.kind for flaw in flaws(boxes, offsets)}
    pairs = [(i, j) for i in range(len(boxes)) for j in range(i)]
    times = [set(range(b.start, b.end)) for b in buffers]
    memory = [set(range(offset, offset + b.size)) for offset, b in zip(offsets, buffers, strict=True)]
    assert ("overlap" in kinds) == any(times[i] & times[j] and memory[i] & memory[j] for i, j in pairs)
    assert ("negative" in kinds) == any(offset < 0 for offset in offsets)
    assert ("misaligned" in kinds) == any(offset >= 0 and offset % alignment for offset in offsets)


@given(buffer_sets(), st.sampled_from([1, 2, 4]))
def test_buffer_peak_is_that_of_a_count_at_every_time(buffers, alignment):
    peak = max((sum(b.size for b in buffers if b.start <= t < b.end) for t in range(41)), default=0)
    assert peak_of(buffers) == peak <= bound_of(buffers, alignment)


@pytest.mark.parametrize("seed", range(200))
def test_bound_and_search_against_brute_force(seed):
    buffers, alignment = draw_buffers(seed)
    least = brute_force(buffers, alignment)
    arena = search_arena(buffers, alignment)
    assert arena.bound <= least <= arena.size
    assert arena.size == least  # so few buffers are placed best by one of the orders tried


def test_search_is_reproducible_and_takes_what_is_known():
    rng = random.Random(1)
    starts = [rng.randint(0, 30) for _ in range(40)]
    buffers = [Buffer(str(i), at, at + rng.randint(1, 9), rng.randint(1, 99)) for i, at in enumerate(starts)]
    first = search_arena(buffers, seed=3)
    assert search_arena(buffers, seed=3).offsets == first.offsets
    again = search_arena(buffers, begin_with=first.offsets, time_limit=1e-9)
    assert again.size <= first.size


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_an_order_against_a_walk_over_all_pairs(seed):
    rng = random.Random(seed)
    rows = [(at := rng.randint(0, 30), at + rng.randint(1, 9), rng.randint(1, 99), 1) for _ in range(25)]
    start, end, size, step = np.array(rows, np.int64).T.copy()
    order, top = np.array(rng.sample(range(25), 25), np.int64), np.zeros(end.max(), np.int64)
    head, tail, offset = np.zeros((3, 25), np.int64)
    without = order[rng.randrange(25)] if seed % 2 else NOBODY
    most = drop(order, start, end, size, without, top, head, False)
    drop(order, start, end, size, without, top, tail, True)
    below, above = {}, {}
    for b in order:
        if b != without:
            below[b] = max((below[a] + size[a] for a in below if start[a] < end[b] and start[b] < end[a]), default=0)
    for b in order[::-1]:
        if b != without:
            above[b] = max((above[a] + size[a] for a in above if start[a] < end[b] and start[b] < end[a]), default=0)
    assert all(head[b] == below[b] and tail[b] == above[b] for b in below)
    assert most == max(below[b] + size[b] for b in below) == max(above[b] + size[b] for b in above)
    straight = order.copy()
    straighten(straight, size, head, tail, rng.random(), np.zeros(25))
    assert sorted(straight) == list(range(25))
    if without == NOBODY:
        assert settle(straight, start, end, size, step, top, offset) == most and (offset == head).all()


@given(buffer_sets(most=30).filter(len))
def test_lifespans_in_fewer_times_overlap_as_before(buffers):
    spans = np.array([(b.start, b.end) for b in buffers], np.int64).T
    start, end = compressed(*spans)
    assert (start < end).all() and start.min() == 0
    before = (spans[0][:, None] < spans[1]) & (spans[0] < spans[1][:, None])
    assert (before == ((start[:, None] < end) & (start < end[:, None]))).all()
    assert end.max() <= len(np.unique(spans[0]))


@pytest.mark.parametrize("best_fit", [False, True])
def test_repair_stays_within_its_limit(best_fit):
    rng = random.Random(7)
    rows = [(at := rng.randint(0, 60), at + rng.randint(5, 40), rng.randint(1, 99), 1) for _ in range(60)]
    boxes = tuple(np.array(rows, np.int64).T.copy())
    order, generator = np.arange(60), np.array([5], np.uint64)
    room, offset = np.zeros((2, 60), np.int64)
    first, _ = place(order, boxes, best_fit, False, UNLIMITED, room, offset)
    size = repair(order, boxes, best_fit, first - 1, 2000, generator, room, offset)
    assert 0 < size < first
    arena = Arena(tuple(Buffer(str(i), *row) for i, row in enumerate(rows)), tuple(offset.tolist()))
    assert arena.size == size


@pytest.mark.parametrize("seed", range(5))
def test_insertion_shortens_the_longest_chain(seed):
    rng = random.Random(seed)
    rows = [(at := rng.randint(0, 60), at + rng.randint(5, 40), rng.randint(1, 99)) for _ in range(60)]
    start, end, size = np.array(rows, np.int64).T.copy()
    order, best = np.arange(60), np.arange(60)
    room = (*np.zeros((2, 60), np.int64), *np.zeros((2, 60), np.int32), np.zeros(end.max(), np.int32), np.zeros(60))
    top, offset, control = np.zeros(end.max(), np.int64), np.zeros(60, np.int64), np.array([30.0, 0.997, np.inf])
    first = settle(order, start, end, size, np.ones(60, np.int64), top, offset)
    bound = peak_of([Buffer(str(i), *row) for i, row in enumerate(rows)])
    generator = np.array([seed + 1], np.uint64)
    insertion(order, start, end, size.astype(np.int32), bound, 2000, 4, control, generator, room, best)
    assert sorted(order) == sorted(best) == list(range(60))
    last = settle(best, start, end, size, np.ones(60, np.int64), top, offset)
    assert last == control[2] and bound <= last < 0.9 * first


def test_arena_search_ends_at_the_target():
    buffers = [Buffer("a", 0, 2, 4), Buffer("b", 1, 3, 4), Buffer("c", 2, 4, 4)]
    assert search_arena(buffers, enough=100).size <= 100
    assert search_arena([], 4).size == 0
    assert search_arena([Buffer("z", 0, 1, 0)], 4).offsets == (0,)


def test_arena_search_keeps_the_best_at_an_interrupt():
    buffers = [Buffer(str(i), i, i + 2, 3) for i in range(3)]
    asked = []

    def interrupt():
        raise KeyboardInterrupt

    # the bound, 6, is below what an alignment of 5 and 7 allows, so that there is something left to search
    buffers = [replace(buffer, alignment=5 + 2 * (i % 2)) for i, buffer in enumerate(buffers)]
    arena = search_arena(buffers, stop=interrupt, on_interrupt=lambda: asked.append(1))
    assert len(arena.offsets) == len(buffers) and arena.size > arena.bound and asked
    with pytest.raises(KeyboardInterrupt):
        search_arena(buffers, stop=interrupt)


@pytest.mark.few(2)
@needs_minizinc
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 200))])
def test_the_model_finds_the_least_arena(seed):
    buffers, alignment = draw_buffers(seed, most=5)
    arena, outcome = least_arena(buffers, alignment, solver="gecode", limits=Limits(60))
    assert (outcome.status, arena.size) == ("optimal", brute_force(buffers, alignment))


@pytest.mark.full
@needs_minizinc
def test_cp_sat_starts_from_an_arena_and_proves_it():
    boxes = ("a", 0, 2, 4), ("b", 1, 4, 6), ("c", 3, 6, 4), ("d", 5, 7, 6)
    buffers = tuple(Buffer(*box) for box in boxes)
    start = Arena(buffers, (0, 4, 12, 20))
    arena, outcome = least_arena(buffers, begin_with=start, limits=Limits(60, 1))
    assert (outcome.status, arena.size) == ("optimal", brute_force(buffers, 1))
    arena, outcome = least_arena(buffers, limit=9, limits=Limits(60, 1))
    assert (outcome.status, arena) == ("infeasible", None)


@pytest.mark.full
@needs_minizinc
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "CORRECT: arena 3, peak 3"),
        ({"offset": [0, 1, 0]}, "INCORRECT: buffers 1 and 2 overlap at time 1, address 1"),
        slow({"offset": [-2, 2, 0]}, "INCORRECT: buffer 1 has the negative offset -2"),
        slow({"step": [1, 4, 1]}, "INCORRECT: buffer 2 is misaligned: 2 is no multiple of 4"),
        ({"arena": 2}, "INCORRECT: arena is 2, the buffers end at 3"),
        slow({"limit": 2}, "INCORRECT: arena 3 is over the limit 2"),
    ],
)
def test_the_checker_names_what_is_wrong(change, verdict):
    items = model_items((A, B, C), 1, 1, None, 3)
    assert run_checker(CHECKER, {**items, "offset": [0, 2, 0], "arena": 3, **change}) == verdict


@pytest.mark.full
@needs_minizinc
def test_the_checker_confirms_an_arena():
    assert check_arena(Arena((A, B, C), (0, 2, 0)), 3) == f"{CHECKER}: CORRECT: arena 3, peak 3"


def test_allocation_reports_what_is_proven():
    assert allocate_buffers((A, B, C)).status == "optimal"
    assert allocate_buffers((A, B, C), capacity=5).status in ("feasible", "optimal")
    refused = allocate_buffers((A, B, C), capacity=2)
    assert (refused.status, refused.bound) == ("infeasible", 3)
    with pytest.raises(ArenaError, match="overlap"):
        allocate_buffers((A, B, C), begin_with=(0, 0, 0))
