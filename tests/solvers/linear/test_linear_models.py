"""MiniZinc models, compiled with the library `linear`, against Gecode, CP-SAT and brute force."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from cases import MODELS, Case, data_text, draw_case, least_duration
from linear_support import ENGINES, minizinc, solve

TEMPLATES = {
    "knapsack": """
        array [1..8] of var 0..3: x; constraint x[1] + x[2] >= 1;
        constraint forall(i in 1..2)(sum(j in 1..8)({weights}[(i * j) mod 8 + 1] * x[j]) <= 60);
        solve maximize sum(j in 1..8)({values}[j] * x[j]);""",
    "assignment": """
        include "all_different.mzn"; array [1..5] of var 1..5: job; constraint all_different(job);
        constraint job[1] < job[2] \\/ job[3] = 2;
        solve minimize sum(i in 1..5)([{values}[(3 * i * j + {a}) mod 8 + 1] | j in 1..5][job[i]]);""",
    "reified comparisons": """
        array [1..4] of var -4..9: x; array [1..4] of var bool: b; constraint b[1] <-> (2 * x[1] - 3 * x[2] <= {a});
        constraint b[2] -> (x[3] != x[4] /\\ x[1] + x[4] = {b}); constraint b[3] <-> (x[2] = x[3] + 1);
        constraint b[4] <-> (x[1] in {{-2, 0, 5}}); constraint sum(b) >= 2; constraint b[1] xor b[4];
        solve maximize sum(i in 1..4)({values}[i] * (x[i] - 4)) + 9 * sum(b);""",
    "element and table": """
        include "table.mzn"; var 1..8: i; var 1..8: j; var 0..60: t; array [1..3] of var 0..9: y;
        constraint t = {values}[i] + {weights}[j]; constraint y[i mod 3 + 1] = j; constraint i != j;
        constraint table([i, j, y[1]], [| 1, 2, 3 | 4, 5, 6 | 7, 8, {a} | 2, 4, {b} | 5, 1, 7 |]);
        solve maximize 3 * t - sum(y);""",
    "cumulative": """
        include "cumulative.mzn"; array [1..5] of var 0..15: s; var 0..30: end;
        constraint cumulative(s, [2, 3, 1 + {a}, 4, 2], [1, 2, 1, 2, 3], 3);
        constraint s[4] >= s[1] + 2; constraint forall(i in 1..5)(end >= s[i] + [2, 3, 1 + {a}, 4, 2][i]);
        solve minimize 10 * end + sum(s);""",
    "cumulative of variable durations": """
        include "cumulative.mzn"; array [1..3] of var 0..6: s; array [1..3] of var 1..3: d; array [1..3] of var 1..2: r;
        constraint cumulative(s, d, r, 3); constraint sum(d) >= 5 + {a}; constraint sum(r) >= 4;
        constraint forall(i in 1..3)(s[i] + d[i] <= 7); solve maximize sum(i in 1..3)({values}[i] * d[i] - s[i]);""",
    "a tour": """
        include "circuit.mzn"; array [1..5] of var 1..5: next; constraint circuit(next);
        solve minimize sum(i in 1..5)([{weights}[(5 * i + i * j + {b}) mod 8 + 1] | j in 1..5][next[i]]);""",
    "arithmetic": """
        var -6..6: x; var 1..5: y; var -40..40: z; var -9..9: q; var -9..9: r; var 0..9: m;
        constraint z = x * y; constraint q = z div y + {a}; constraint r = (x - 3) mod 4; constraint m = abs(x - {b});
        constraint max([x, y, m]) >= 4; constraint min(x, z) <= -1; constraint pow(y, 2) != 9;
        solve maximize 2 * z - 3 * m + q + r;""",
    "sets and counting": """
        include "global_cardinality.mzn"; include "lex_less.mzn"; array [1..5] of var 1..4: x; var set of 1..4: s;
        constraint global_cardinality(x, [1, 2], [{a}, 2]); constraint forall(i in 1..5)(x[i] in s);
        constraint card(s) <= 3; constraint lex_less([x[1], x[2]], [x[4], x[5]]);
        solve maximize sum(i in 1..5)({values}[i] * x[i]) - 5 * card(s);""",
    "clauses": """
        array [1..7] of var bool: b; constraint forall(i in 1..5)(b[i] \\/ not b[i + 1] \\/ b[i + 2]);
        constraint forall([b[1], b[4]]) <-> exists([b[2], b[7]]); constraint not b[3] -> (b[5] xor b[6]);
        solve minimize sum(i in 1..7)(({values}[i] - 5) * b[i]);""",
}


def model(name: str, seed: int) -> str:
    rng = random.Random(f"{name} {seed}")
    weights, values = ([rng.randint(1, 12) for _ in range(8)] for _ in range(2))
    return TEMPLATES[name].format(weights=weights, values=values, a=rng.randint(0, 3), b=rng.randint(-1, 4))


def flatten(path: Path, *data: object) -> str | None:
    """FlatZinc for both engines; None if MiniZinc finds that nothing is a solution."""
    target = path.parent / "flat.fzn"
    target.unlink(missing_ok=True)
    told = minizinc("-c", "--solver", "org.moccasin-mzn.highs", "--no-output-ozn", "--fzn", target, path, *data)
    if "inconsistency" in told.stderr:
        return None
    assert told.returncode == 0, told.stderr
    return target.read_text()


def optimum(out: str) -> int | None:
    """The proven optimum of an output with statistics; None if there is no solution."""
    if "=====UNSATISFIABLE=====" in out:
        return None
    assert "==========" in out, out
    return int(re.findall(r"objective=(-?\d+)", out)[-1])


def oracle(path: Path, *solver: str) -> int | None:
    told = minizinc("--solver", *solver, "--output-objective", "--output-mode", "dzn", path)
    if "=====UNSATISFIABLE=====" in told.stdout:
        return None
    assert "==========" in told.stdout, told.stdout + told.stderr
    return int(re.findall(r"^_objective = (-?\d+);", told.stdout, re.MULTILINE)[-1])


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 15))])
@pytest.mark.parametrize("name", TEMPLATES)
def test_same_optimum_as_gecode_and_cp_sat(name, seed, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text(model(name, seed))
    expected = oracle(path, "gecode", "-G", "std")
    flat = flatten(path)
    assert [flat and optimum(solve(engine, flat, "-s")) for engine in ENGINES] == [expected] * 2
    if seed:
        assert oracle(path, "cp-sat") == expected


def small_case(seed: int) -> Case:
    """A case of at most 5 nodes and 2 computations."""
    while True:
        case = draw_case(seed)
        if len(case.graph.nodes) <= 5:
            return Case(case.graph, case.budget, min(case.max_computations, 2))
        seed += 1000


@pytest.mark.few(3)
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", [3, 4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 25))])
def test_models_of_the_project_against_brute_force(formulation, seed, tmp_path):
    case = small_case(seed)
    data, copy = tmp_path / "data.dzn", tmp_path / "model.mzn"
    data.write_text(data_text(case))
    copy.write_text(f'include "{MODELS / formulation}.mzn";')
    flat = flatten(copy, data)
    expected = least_duration(case, formulation)
    assert [flat and optimum(solve(engine, flat, "-s")) for engine in ENGINES] == [expected] * 2


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_mip_models_take_floats(engine, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text("""
        var -10.0..10.0: a; var -10.0..10.0: b; var 0..5: i; var bool: p; array [1..3] of var 0.0..4.0: c;
        constraint a + b <= 7.5; constraint max(c) = a; constraint min(c) >= 0.25; constraint p -> a >= 2.0 * b;
        constraint i + a <= 6.7; constraint abs(b - 1.5) <= a; constraint c[i] >= 1.1; constraint sum(c) <= 5.0;
        constraint a < 1.0 \\/ b > 0.3; constraint 3.0 * a = 2.0 * c[1] + b;
        solve maximize 2.0 * a - 0.5 * b + i + if p then 3.25 else 0.0 endif;
        output ["\\(i) \\(p) " ++ show_float(0, 4, a)];""")
    told = minizinc("--solver", f"org.moccasin-mzn.{engine}", path)
    assert told.stdout == "3 false 3.6500\n----------\n==========\n", told.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_sets_bools_and_arrays_come_back(engine, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text("""
        var set of 1..4: s; var bool: b; array [0..1, 1..2] of var 1..2: x; var 3..3: y;
        constraint b <-> 2 in s; constraint card(s) = 1; constraint x[0, 1] > x[1, 2]; constraint x[0, 2] = x[1, 1];
        solve maximize 4 * b + x[0, 2] + y; output ["\\(s) \\(b) \\(x) \\(x[0, 2]) \\(y)"];""")
    told = minizinc("--solver", f"org.moccasin-mzn.{engine}", path)
    assert told.stdout == "2..2 true [2, 2, 2, 1] 2 3\n----------\n==========\n", told.stderr
