"""Buffers that lie somewhere already, that would like to, and that have gaps: against every offset of every buffer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from address_cases import cells_of, draw_buffers, gaps_of, given_sets
from arena_oracle import least_arena_by_brute_force, least_arena_of_cells
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.checkers import run_checker
from moccasin_mzn.machine.addresses.allocate import CHECKER, allocate_buffers, check_arena, least_arena, model_items
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, ArenaError, bound_of, check_buffers, peak_of
from moccasin_mzn.problem.buffer import Buffer, Gap
from moccasin_mzn.problem.files.buffers import buffers_text, parse_buffers
from moccasin_mzn.problem.judges.arenas import Box, flaws
from moccasin_mzn.solvers.minizinc.run import Limits

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

RING = Buffer("ring", 0, 9, 100, gaps=(Gap(3, 6),))
TMP, TAIL = Buffer("tmp", 3, 6, 80), Buffer("tail", 6, 9, 20)


def least(buffers, alignment) -> int:
    """By trying everything."""
    most = sum(b.size + alignment for b in buffers) + max((b.offset or 0 for b in buffers), default=0)
    return least_arena_of_cells([cells_of(b) for b in buffers], alignment, most)


@pytest.mark.parametrize("seed", range(60))
def test_the_two_oracles_agree_where_nothing_is_given(seed):
    buffers, alignment = draw_buffers(seed, most=4)
    assert least(buffers, alignment) == least_arena_by_brute_force(
        [(b.start, b.end, b.size) for b in buffers], alignment
    )


@given(given_sets())
def test_bound_and_search_against_every_offset(case):
    buffers, alignment = case
    arena = search_arena(buffers, alignment)
    assert bound_of(buffers, alignment) <= least(buffers, alignment) <= arena.size
    assert all(b.offset in (None, offset) for b, offset in zip(buffers, arena.offsets, strict=True))


@given(given_sets(windows=False))
def test_search_finds_the_least_arena_of_few(case):
    """Repair and branch and bound do, without windows."""
    buffers, alignment = case
    smallest = least(buffers, alignment)
    assert search_arena(buffers, alignment, enough=smallest).size == smallest


@needs_minizinc
@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(given_sets(most=4))
def test_allocation_is_least_where_proven(case):
    buffers, alignment = case
    smallest = least(buffers, alignment)
    found = allocate_buffers(buffers, alignment)
    assert (found.status, found.arena.size) == ("optimal", smallest)
    if smallest:
        refused = allocate_buffers(tuple(replace(b, offset=None) for b in buffers), alignment, capacity=smallest - 1)
        assert refused.arena.size < smallest or refused.status in ("infeasible", "unknown")


@needs_minizinc
@pytest.mark.parametrize("solver", ["gecode", "cp-sat"])
def test_the_model_keeps_offsets_and_gaps(solver):
    """The piece at times 2 and 3 fits below the window only; a's offset leaves room below for b."""
    buffers = (
        Buffer("a", 0, 4, 4, offset=6),
        Buffer("b", 0, 6, 6, gaps=(Gap(2, 4, (0, 3)),)),
        Buffer("c", 2, 4, 3),
        Buffer("d", 4, 6, 3),
    )
    arena, outcome = least_arena(buffers, solver=solver, limits=Limits(60))
    assert (outcome.status, arena.size, arena.offsets[0]) == ("optimal", 10, 6)
    assert least(buffers, 1) == 10
    assert check_arena(arena, 10) == f"{CHECKER}: CORRECT: arena 10, peak 10"


@needs_minizinc
@pytest.mark.parametrize(
    ("offsets", "verdict"),
    [
        ([0, 0, 100], "CORRECT: arena 120, peak 120"),
        ([0, 0, 90], "INCORRECT: buffers 1 and 3 overlap at time 6, address 90"),
        ([20, 0, 0], "INCORRECT: buffer 3 has the offset 0 in place of 100"),
    ],
)
def test_the_checker_knows_gaps_and_given_offsets(offsets, verdict):
    tail = replace(TAIL, offset=100) if offsets[2] == 0 else TAIL
    items = model_items((RING, TMP, tail), 1, 1, None, 120)
    assert run_checker(CHECKER, {**items, "offset": offsets, "arena": 120}) == verdict


@given(given_sets(most=6), st.randoms())
def test_the_judge_agrees_with_a_look_at_every_cell(case, rng):
    buffers, alignment = case
    offsets = [rng.randint(0, 8) if b.offset is None or rng.random() < 0.3 else b.offset for b in buffers]
    boxes = [
        Box(b.start, b.end, b.size, alignment, tuple((g.start, g.end, *(g.window or (0, 0))) for g in b.gaps), b.offset)
        for b in buffers
    ]
    kinds = {flaw.kind for flaw in flaws(boxes, offsets)}
    cells = [
        {(t, offset + at) for t, _, low, high in cells_of(b)[1] for at in range(low, high)}
        for b, offset in zip(buffers, offsets, strict=True)
    ]
    assert ("overlap" in kinds) == any(cells[i] & cells[j] for i in range(len(cells)) for j in range(i))
    assert ("moved" in kinds) == any(b.offset not in (None, offset) for b, offset in zip(buffers, offsets, strict=True))
    assert ("misaligned" in kinds) == any(offset % alignment for offset in offsets)


@given(given_sets(most=6))
def test_buffer_peak_with_gaps_is_that_of_a_count_at_every_time(case):
    taken: dict[int, int] = {}
    for time, _, low, high in (piece for b in case[0] for piece in cells_of(b)[1]):
        taken[time] = taken.get(time, 0) + high - low
    assert peak_of(case[0]) == max(taken.values(), default=0)


def test_what_is_given_stays_and_what_is_hinted_comes_first():
    given_at = (replace(RING, offset=128), TMP, TAIL)
    assert search_arena(given_at).offsets == (128, 0, 0)
    apart = (Buffer("a", 0, 3, 64, hint=64), Buffer("b", 1, 4, 64, hint=0))
    assert search_arena(apart).offsets == (64, 0)
    assert search_arena([replace(b, hint=64 - b.hint) for b in apart]).offsets == (0, 64)
    same = [replace(b, hint=7) for b in apart]  # the second one has to give way, and both may in the end
    assert search_arena(same).size == 128


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ((replace(TMP, offset=0), replace(RING, gaps=(), offset=79)), "buffers ring and tmp overlap at time 3"),
        ((replace(TMP, offset=5),), "buffer tmp: offset 5 is not a multiple of 4"),
        ((replace(TMP, offset=120),), "buffer tmp: offset 120 and size 80 are over the capacity 199"),
    ],
)
def test_offsets_that_contradict_are_refused(buffers, message):
    with pytest.raises(ArenaError, match=message):
        allocate_buffers(buffers, 1 if "overlap" in message else 4, capacity=199)


def test_an_arena_has_what_is_given():
    with pytest.raises(ArenaError, match="buffer tmp: offset 0 is not the one given, 40"):
        Arena((replace(TMP, offset=40),), (0,))
    with pytest.raises(ArenaError, match="over the capacity"):
        check_buffers((replace(TMP, offset=40),), 1, 100)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"offset": -1}, "buffer b: offset -1 is not an integer from 0"),
        ({"offset": 3, "alignment": 2}, "buffer b: offset 3 is not a multiple of 2, its alignment"),
        ({"hint": 0.5}, "buffer b: hint 0.5 is not an integer from 0"),
        ({"gaps": [(2, 3)]}, r"buffer b: \(2, 3\) is not a gap"),
        ({"gaps": 3}, "buffer b: gaps: expected a sequence of gaps, got 3"),
        ({"gaps": [Gap(0, 3)]}, r"buffer b: gap 0\.\.2 is not within the lifespan 2\.\.8"),
        ({"gaps": [Gap(6, 10)]}, r"buffer b: gap 6\.\.9 is not within"),
        ({"gaps": [Gap(5, 7), Gap(2, 6)]}, r"buffer b: gaps 2\.\.5 and 5\.\.6 overlap"),
        ({"gaps": [Gap(3, 4, (0, 6))]}, r"buffer b: window 0\.\.5 of a gap is over its size 5"),
    ],
)
def test_buffers_reject_wrong_values(fields, message):
    with pytest.raises(InputError, match=message):
        Buffer("b", 2, 9, 5, **fields)


@pytest.mark.parametrize("fields", [(3, 3), (-1, 2), (1, 2, (2, 2)), (1, 2, (0,)), (1, 2, "ab"), (1, True)])
def test_gaps_reject_wrong_values(fields):
    with pytest.raises(InputError, match="gap"):
        Gap(*fields)


@given(st.data(), st.booleans())
def test_columns_are_kept(data, placed):
    buffers = [b for b in data.draw(given_sets(most=6))[0] if not placed or b.offset is None]
    buffers = [replace(b, gaps=data.draw(gaps_of(b.start, b.end, b.size))) for b in buffers]
    offsets = tuple(range(len(buffers))) if placed else None
    buffers = tuple(replace(b, offset=None) if placed else b for b in buffers)
    if not placed:
        try:
            check_buffers(buffers, 1)
        except ArenaError:
            return
        assert parse_buffers(buffers_text(buffers), "x.csv") == buffers
    else:
        text = buffers_text(buffers, offsets)
        assert [line.rsplit(",", 1)[1] for line in text.splitlines()[1:]] == [str(offset) for offset in offsets]


def test_columns_are_those_of_minimalloc():
    text = "id,start,end,size,hint,gaps,offset\na,0,8,4,-1,2-3 5-6@1:3,0\nb,0,8,4,4,,\n"
    a = Buffer("a", 0, 9, 4, offset=0, gaps=(Gap(2, 4), Gap(5, 7, (1, 3))))
    b = Buffer("b", 0, 9, 4, hint=4)
    assert parse_buffers(text, "x.csv") == (a, b)  # "end" is the last time, of gaps too
    written = "id,lower,upper,size,hint,gaps,offset\na,0,9,4,-1,2-4 5-7@1:3,0\nb,0,9,4,4,,\n"
    assert buffers_text((a, b)) == written


HEADER = "id,lower,upper,size,alignment,hint,gaps,offset\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,0,3,4,1,,,-4\n", "line 2: buffer a: offset -4 is not an integer from 0"),
        ("a,0,3,4,1,x,,\n", "line 2: hint 'x' is not an integer"),
        ("a,0,3,4,1,,1,\n", "line 2: gap '1' is not like 3-6, or 3-6@0:4 with a window"),
        ("a,0,3,4,1,,1-2@3,\n", "line 2: gap '1-2@3' is not like"),
        ("a,0,3,4,1,,2-1,\n", "line 2: gap from 2 to before 1 is empty"),
        ("a,0,3,4,1,,2-4,\n", "line 2: buffer a: gap 2..3 is not within the lifespan 0..2"),
        ("a,0,3,4,1,,0-2 1-3,\n", "line 2: buffer a: gaps 0..1 and 1..2 overlap"),
        ("a,0,3,4,1,,0-2@0:5,\n", "line 2: buffer a: window 0..4 of a gap is over its size 4"),
        ("a,0,3,4,2,,,3\n", "line 2: buffer a: offset 3 is not a multiple of 2, its alignment"),
        ("a,0,3,4,1,,,0\nb,0,3,4,1,,,\n\nc,2,3,4,1,,,2\n", "line 5: buffers a and c overlap at time 2: 0..3 and 2..5"),
        ("a,0,3,4,1,,,0\nb,0,3,4,1,,,7\n", "line 3: buffer b: offset 7 and size 4 are over the capacity 10"),
    ],
)
def test_contradictions_in_files_are_one_line(command, tmp_path, lines, message):
    path = tmp_path / "x.csv"
    path.write_text(HEADER + lines)
    status, out, err = command("allocate", path, "--capacity", "10")
    assert (status, out) == (2, "") and err.startswith(f"error: {path}: {message}") and err.count("\n") == 1


def test_an_infeasible_capacity_is_an_answer(command, tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "out.csv"
    path.write_text("id,lower,upper,size,offset\na,0,3,4,3\nb,0,3,3,\nc,0,3,4,\n")
    status, text, _ = command("allocate", path, "--json", "--output", out)
    assert status == 0 and json.loads(text)["arena"] == 11 and json.loads(text)["offsets"]["a"] == 3
    assert [b.offset for b in parse_buffers(out.read_text(), out)] == [3, 0, 7]
    assert command("allocate", path, "--capacity", "10")[0] == 1


def test_the_page_of_the_format_is_an_example(command, tmp_path):
    """The ring whose gap another buffer uses: 120 with the gap, 180 without."""
    path = tmp_path / "gaps.csv"
    path.write_text(buffers_text((RING, TMP, TAIL)))
    assert path.read_text() == "id,lower,upper,size,gaps\nring,0,9,100,3-6\ntmp,3,6,80,\ntail,6,9,20,\n"
    assert json.loads(command("allocate", path, "--json")[1])["arena"] == 120
    path.write_text(buffers_text((replace(RING, gaps=()), TMP, TAIL)))
    assert json.loads(command("allocate", path, "--json")[1])["arena"] == 180
