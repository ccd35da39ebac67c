"""The exact oracle of the soak knows what the pages show, and what it finds when answers are wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from few import few
from soaking.exact import Tiny, account, arena_best, best, layout_flaw, least_arena, least_peak
from soaking.exact_kinds import KINDS, ask
from soaking.exact_questions import Asked, _compare

import moccasin_mzn as mz


def test_the_oracle_knows_the_examples_of_the_page_of_proofs():
    diamond = Tiny([1] * 4, [1] * 4, [(0, 1), (1, 2), (1, 3), (2, 3)])
    assert account(diamond, [0, 1, 2, 1, 3]).intervals == ((0, 0, 3), (1, 1, 2), (2, 2, 4), (1, 3, 4), (3, 4, 4))
    overwriting = Tiny([1] * 4, [5, 3, 2, 2], [(0, 1), (1, 2), (0, 3), (2, 3)], ip=[(), (0,), (1,), (0, 2)])
    assert account(overwriting, [0, 1, 2, 3]).memory == (5, 8, 8, 7)
    example = Tiny([5, 1, 1, 1, 1], [2, 1, 7, 1, 1], [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)])
    assert best(example, 8, "first", 2)[0] == 14 and best(example, 7, "free") is None
    assert least_peak(example, "first", 2) == 8 and least_peak(example, "first", 1) == 10
    assert arena_best(example, 8, 1, 2, "first")[0] == 14 and arena_best(example, 7, 1, 2) is None


def test_the_oracle_knows_overlaps():
    boxes = [(2, 1, [(0, 2, 0, 2)]), (3, 1, [(1, 3, 0, 3)])]
    assert layout_flaw(boxes, [0, 2]) == "" and layout_flaw(boxes, [0, 1]) == "buffers 0 and 1 overlap at time 1"
    assert least_arena(boxes, [None, None], 9) == 5 and least_arena(boxes, [1, None], 9) == 6


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("number", few(range(12), 1))
def test_answers_are_the_exact_ones(kind, number):
    assert ask(number, kind).flaws == ()


def test_wrong_answers_are_found():
    asked = Asked(random.Random(3), 5)
    budget = max(1, account(asked.tiny, asked.tiny.order).peak)
    found = mz.solve(asked.graph, budget, **asked.how, search="only", threads=1)
    _compare(asked, found, budget)
    assert asked.flaws == []
    _compare(asked, mz.Result(replace(found.details, status="infeasible", reason="none")), budget)
    asked.judge(found.positions[:-1], budget, found.duration)
    assert "infeasible, but" in asked.flaws[0] and "no schedule" in asked.flaws[1]
