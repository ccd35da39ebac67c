"""Small random programs of integers against brute force: optimum, infeasibility, and all solutions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from few import few
from linear_support import ENGINES, solutions, solve

CASES = 60


class Draw:
    """A random FlatZinc file of integer variables `x0..` and linear constraints, made to be feasible now and then."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.domains = [self._domain(rng) for _ in range(rng.randint(1, 4))]
        big = rng.choice([1, 3, 20, 10_000])
        witness = [rng.randint(low, high) for low, high in self.domains]
        self.constraints = [self._constraint(rng, witness, big) for _ in range(rng.randint(0, 5))]
        self.objective = [rng.choice([rng.randint(-5, 5), rng.randint(-big, big)]) for _ in self.domains]
        self.maximize = rng.random() < 0.5

    def _domain(self, rng: random.Random) -> tuple[int, int]:
        low = rng.choice([0, 0, -3, 7])
        return low, low + rng.choice([0, 1, 1, 1, 3, 6])

    def _constraint(self, rng: random.Random, witness: list[int], big: int) -> tuple[str, list[int], list[int], int]:
        places = [rng.randrange(len(witness)) for _ in range(rng.randint(1, 4))]
        coefficients = [rng.choice([rng.randint(-4, 4), rng.randint(-big, big)]) for _ in places]
        relation = rng.choice(["int_lin_le", "int_lin_le", "int_lin_eq"])
        total = sum(c * witness[place] for c, place in zip(coefficients, places, strict=True))
        return relation, coefficients, places, total + rng.choice([0, 0, 1, -1])

    def text(self, solve_item: str) -> str:
        """The file; its solutions are printed whole."""
        lines = [f"var {low}..{high}: x{i} :: output_var;" for i, (low, high) in enumerate(self.domains)]
        for relation, coefficients, places, side in self.constraints:
            lines.append(f"constraint {relation}({coefficients},[{','.join(f'x{i}' for i in places)}],{side});")
        if solve_item != "satisfy":
            lines.append("var int: total :: output_var;")
            names = ",".join(f"x{i}" for i in range(len(self.domains)))
            lines.append(f"constraint int_lin_eq({[*self.objective, -1]},[{names},total],0);")
        return "\n".join([*lines, f"solve {solve_item};"])

    def feasible(self) -> Iterator[tuple[int, ...]]:
        """All solutions."""
        for values in itertools.product(*(range(low, high + 1) for low, high in self.domains)):
            if all(
                (total <= side if relation == "int_lin_le" else total == side)
                for relation, coefficients, places, side in self.constraints
                for total in [sum(c * values[i] for c, i in zip(coefficients, places, strict=True))]
            ):
                yield values


@pytest.mark.few(46)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", few(range(2000), keep=range(CASES), mark=pytest.mark.slow))
def test_mip_solvers_find_the_optimum_of_enumeration(engine, seed):
    draw = Draw(seed)
    totals = [sum(c * x for c, x in zip(draw.objective, values, strict=True)) for values in draw.feasible()]
    out = solve(engine, draw.text("maximize total" if draw.maximize else "minimize total"))
    if not totals:
        assert out == "=====UNSATISFIABLE=====\n"
        return
    (found,) = solutions(out)
    assert out.endswith("----------\n==========\n")
    assert found["total"] == (max if draw.maximize else min)(totals)
    assert tuple(found[f"x{i}"] for i in range(len(draw.domains))) in set(draw.feasible())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", few(range(400), keep=range(20), mark=pytest.mark.slow))
def test_all_solutions_are_found_once(engine, seed):
    draw = Draw(seed)
    expected = list(itertools.islice(draw.feasible(), 13))
    if len(expected) > 12:
        out = solve(engine, draw.text("satisfy"), "-n", "5")
        assert "==========" not in out
    else:
        out = solve(engine, draw.text("satisfy"), "-a")
        assert out.endswith("==========\n") if expected else out == "=====UNSATISFIABLE=====\n"
    found = [tuple(solution.values()) for solution in solutions(out)]
    assert len(set(found)) == len(found)
    if len(expected) > 12:
        assert len(found) == 5 and set(found) <= set(draw.feasible())
    else:
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_solution_of_a_satisfaction_problem_needs_no_end_mark(engine):
    out = solve(engine, "var 3..3: x :: output_var; solve satisfy;")
    assert out == "x = 3;\n----------\n"
