"""Coefficients that add up to more than 32 bits: optima against brute force; bounds that doubles do not hold."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest
from fzn_support import solve

from moccasin_mzn.solvers.cpsat.builder import certain_bound

WRONG = [(10, 679), (10, 1117), (12, 219), (12, 938), (12, 1213), (12, 1226), (12, 1302), (14, 219)]
"""CP-SAT 9.15 calls optimal what is not, where it looks for inclusions (OR-Tools issue 5293)."""


class Cover:
    """Least cost of 0-1 variables whose weights reach what each of several rows needs; some imply others."""

    def __init__(self, digits: int, seed: int) -> None:
        rng = random.Random(seed)
        n = self.n = rng.randint(6, 13)
        self.weights = [int(float(10**digits) ** rng.uniform(0.7, 1)) for _ in range(n)]
        self.costs = [rng.randint(1, 50) for _ in range(n)]
        self.rows = []
        for _ in range(rng.randint(2, 7)):
            k = rng.randint(2, n)
            if rng.random() < 0.5:
                chosen = sorted(rng.sample(range(n), k))
            else:
                chosen = list(range(rng.randint(0, n - k), n))[:k]
            self.rows.append((chosen, rng.randint(1, sum(self.weights[i] for i in chosen))))
        self.implied = [tuple(rng.sample(range(n), 2)) for _ in range(rng.randint(0, 5))]

    def text(self) -> str:
        """As FlatZinc."""
        names = [f"x{i}" for i in range(self.n)]
        lines = [f"var 0..1: {name};" for name in names]
        for chosen, need in self.rows:
            weights = [-self.weights[i] for i in chosen]
            lines.append(f"constraint int_lin_le({weights},[{','.join(names[i] for i in chosen)}],{-need});")
        lines += [f"constraint int_le(x{a},x{b});" for a, b in self.implied]
        lines.append("var int: total :: output_var;")
        lines.append(f"constraint int_lin_eq({[*self.costs, -1]},[{','.join(names)},total],0); solve minimize total;")
        return "\n".join(lines)

    def least(self) -> int | None:
        """By brute force."""
        x = np.array(list(itertools.product((0, 1), repeat=self.n)), dtype=np.int64)
        fits = np.ones(len(x), dtype=bool)
        for chosen, need in self.rows:
            fits &= x[:, chosen] @ np.array([self.weights[i] for i in chosen], dtype=np.int64) >= need
        for a, b in self.implied:
            fits &= x[:, a] <= x[:, b]
        return int((x @ np.array(self.costs))[fits].min()) if fits.any() else None


@pytest.mark.parametrize(
    ("digits", "seed"),
    [
        *WRONG,
        *(pytest.param(digits, seed, marks=pytest.mark.slow) for digits in (9, 10, 12, 14) for seed in range(200)),
    ],
)
def test_wide_sums_have_the_optimum_of_enumeration(digits, seed):
    cover = Cover(digits, seed)
    least = cover.least()
    expected = "=====UNSATISFIABLE=====\n" if least is None else f"total = {least};\n----------\n==========\n"
    assert solve(cover.text(), "-p", "1") == expected


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("seed", [211, *range(12)])
def test_bound_is_none_that_the_optimum_refutes(seed, maximize):
    """CP-SAT tells bounds as doubles, 1 too high for seed 211."""
    cover, draw = Cover(3, seed), random.Random(seed)
    cover.costs = [draw.randint(1, 7 * 10**14) for _ in range(cover.n)]
    text = cover.text()
    if maximize:
        text = text.replace(f"[{cover.costs[0]}", f"[-{cover.costs[0]}").replace("minimize", "maximize")
    printed = solve(text, "-s", "-a", "-p", "1")
    values = [int(value) for value in re.findall(r"^total = (-?\d+)", printed, re.MULTILINE)]
    bounds = [int(bound) for bound in re.findall(r"objectiveBound=(-?\d+)$", printed, re.MULTILINE)]
    assert values or printed.startswith("=====UNSATISFIABLE=====")
    if values:
        assert bounds[-1] == values[-1]
        assert all(bound >= values[-1] if maximize else bound <= values[-1] for bound in bounds)


@pytest.mark.parametrize(
    ("value", "magnitude", "bound"),
    [
        (41.0, 100, 41),
        (-7.0, 2**40, -7),
        (2637724158352115.5, 6835612187140482, 2637724158352116 - 24),
        (0.0, 2**53, -32),
        (float("-inf"), 1, None),
        (2.0**62, 1, None),
    ],
)
def test_certain_bound(value, magnitude, bound):
    assert certain_bound(value, magnitude) == bound
