"""The cheapest choice of what to hold and what to compute again, against all choices there are."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from moccasin_mzn.heuristics.staged.moments import Choice


def drawn(seed: int, longest: int = 9, largest: int = 9) -> Choice:
    draw, n = random.Random(seed), 6
    kinds = [draw.choice(["needed", "prerequisite", "prerequisite", "other"]) for _ in range(n)]
    reads = [(w, u) for w in range(n) for u in range(w) if draw.random() < 0.5]
    saves = np.array([draw.randint(0, largest) for _ in range(n)])
    needed = np.array([kind == "needed" for kind in kinds])
    return Choice(
        duration=np.array([draw.randint(0, longest) for _ in range(n)]), saves=saves, holds=saves,
        reads=tuple(np.array(reads, np.int64).reshape(-1, 2).T), needed=needed,
        prerequisites=np.array([kind == "prerequisite" for kind in kinds]),
        possible=np.array([draw.random() < 0.8 for _ in range(n)]),
        excess=draw.randint(1, 1 + int(saves[needed].sum())),
    )  # fmt: skip


def all_choices(choice: Choice) -> list[tuple[int, int]]:
    """Cost and memory still to be saved of everything that may be held and computed again."""
    n, found = len(choice.duration), []
    for again in product([False, True], repeat=n):
        able = choice.possible & (choice.needed | choice.prerequisites)
        if any(a and not able[u] for u, a in enumerate(again)):
            continue
        wanted = {int(u) for w, u in zip(*choice.reads, strict=True) if again[w] and choice.prerequisites[u]}
        held = [u for u in wanted if not again[u]]
        saved = sum(int(choice.saves[u]) for u in range(n) if again[u] and choice.needed[u])
        cost = sum(int(choice.duration[u]) for u in range(n) if again[u])
        found.append((cost, choice.excess - saved + sum(int(choice.holds[u]) for u in held)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_cut_is_the_best_of_all_choices_at_any_price(seed):
    choice = drawn(seed)
    every = all_choices(choice)
    for price in (Fraction(1, 8), Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(100)):
        cut, best = choice.at(price), min(cost + price * over for cost, over in every)
        assert cut.value == -(-best.numerator // best.denominator)
        assert cut.cost + price * cut.over == best


@pytest.mark.parametrize(("longest", "largest"), [(9, 9), (10**15, 10**12), (10**15, 1), (1, 10**12)])
@pytest.mark.parametrize("seed", range(60))
def test_the_bound_is_never_above_the_cheapest_choice_that_saves_enough(seed, longest, largest):
    choice = drawn(seed, longest, largest)
    bound, cut = choice.best()
    enough = [cost for cost, over in all_choices(choice) if over <= 0]
    if enough:
        assert bound <= min(enough)
        assert cut is not None and cut.over <= 0 and cut.cost >= min(enough)
    else:
        assert cut is None


def test_prices_that_the_arithmetic_has_to_round_down_still_bound():
    duration, saves = np.array([2**40, 2**41]), np.array([3, 5])
    yes, no = np.ones(2, bool), np.zeros(2, bool)
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    choice = Choice(
        duration=duration, saves=saves, holds=saves, reads=none, needed=yes, prerequisites=no, possible=yes, excess=4
    )  # fmt: skip
    bound, cut = choice.best()
    assert 2**40 < bound <= 2**41 <= cut.cost and cut.over <= 0
