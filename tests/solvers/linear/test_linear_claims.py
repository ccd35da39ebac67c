"""What a solver in doubles claims where numbers are large, and what exact arithmetic makes of it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from linear_support import ENGINES, worker
from test_linear_brute_force import Draw
from test_linear_outcomes import Straw, answer, run  # noqa: F401  (a fixture)

from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.linear.claims import Claims
from moccasin_mzn.solvers.linear.program import LinearProgram, linear_program
from moccasin_mzn.solvers.linear.search import contradicts_itself, direct, dual_bound, is_exact, proves_infeasible

# Costs of 10^9: minimise the cost of a cover, x0 + x1 >= 1 and so on.
COVER = """var 0..1: x0; var 0..1: x1; var 0..1: x2; var 0..{limit}: total :: output_var;
    constraint int_lin_le([-1,-1],[x0,x1],-1); constraint int_lin_le([-1,-1],[x1,x2],-1);
    constraint int_lin_le([-1,-1],[x0,x2],-1);
    constraint int_lin_eq([3000000000,2000000001,4000000000,-1],[x0,x1,x2,total],-7); solve minimize total;"""
OPTIMUM = 5_000_000_008
WIDE, CLOSE, TIGHT = (COVER.format(limit=limit) for limit in (10**10, OPTIMUM, OPTIMUM - 1))


def program(text: str) -> LinearProgram:
    return linear_program(parse(text))


def solution(*values: int) -> tuple[int, ...]:
    """By column; the objective is not one of the solver's."""
    return (*values, 0)


@pytest.mark.few(2)
@pytest.mark.parametrize(("text", "claim"), [
    (WIDE, answer("infeasible")), (CLOSE, answer("infeasible")),
    (WIDE, answer("optimal", *solution(1, 0, 1), bound=7_000_000_000)),
])  # fmt: skip
def test_false_claims_are_refuted_and_the_better_solution_kept(run, text, claim):  # noqa: F811
    status, out, err = run(Straw(claim), text, "-s", "-i")
    assert (status, err) == (0, "") and out.count("==========\n") == 1
    assert f"total = {OPTIMUM};\n----------\n==========\n" in out
    assert 'claim="' not in out and 'confirmedBy="CP-SAT"' in out
    assert out.splitlines()[-20:].count(f"%%%mzn-stat: objectiveBound={OPTIMUM}") == 1


@pytest.mark.parametrize(("text", "expected"), [(WIDE, f"total = {OPTIMUM};\n----------\n==========\n"),
                                                (TIGHT, "=====UNSATISFIABLE=====\n")])  # fmt: skip
def test_true_claims_are_confirmed(run, text, expected):  # noqa: F811
    claim = answer("infeasible") if text is TIGHT else answer("optimal", *solution(1, 1, 0), bound=OPTIMUM - 7)
    assert run(Straw(claim), text) == (0, expected, "")


@pytest.mark.parametrize(("claim", "said"), [(answer("infeasible"), "infeasible"),
                                             (answer("optimal", *solution(1, 1, 0)), "optimal")])  # fmt: skip
def test_unconfirmed_proofs_are_claims(run, monkeypatch, claim, said):  # noqa: F811
    monkeypatch.setattr(
        "moccasin_mzn.solvers.linear.run.LinearSession.seconds_left", lambda session: 1e-6
    )  # no time to confirm anything
    status, out, err = run(Straw(claim), WIDE, "-s")
    assert status == 0 and "==========" not in out and "UNSATISFIABLE" not in out
    assert f'claim="{said}"' in out and "confirmedBy" not in out
    assert err == f"% no proof: HiGHS claims {said}, not provable in floating point\n"


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_bounds_are_reported_less_what_the_tolerance_hides(engine):
    _, out, err = worker(engine).solve(WIDE, "-s")
    bounds = [int(line.partition("=")[2]) for line in out.splitlines() if "objectiveBound" in line]
    assert not err and f"total = {OPTIMUM};" in out and bounds and max(bounds) <= OPTIMUM


def test_small_numbers_need_no_confirmation(run):  # noqa: F811
    text = COVER.format(limit=100).replace("000000000,", ",").replace("2000000001", "2")
    _, out, _ = run(Straw(answer("optimal", *solution(1, 1, 0), bound=5)), text, "-s")
    assert "==========" in out and "confirmedBy" not in out


def test_the_objective_becomes_costs_and_comes_back():
    whole = program(WIDE)
    change = direct(whole)
    assert change.program.objective.tolist() == [3e9, 2_000_000_001, 4e9, 0] and change.offset == 7
    assert np.isinf(change.program.row_lower[change.row]) and np.isinf(change.program.row_upper[change.row])
    assert change.restored(np.array([1.0, 1.0, 0.0, 0.0])).tolist() == [1, 1, 0, OPTIMUM]
    bounded = direct(program(CLOSE)).program  # a bound that matters stays, looser than any tolerance
    assert OPTIMUM - 7 < bounded.row_upper[3] < (OPTIMUM - 7) * 1.00001


@pytest.mark.parametrize(
    "text",
    [
        "var 0..9: x; var float: f; constraint float_le(2.5,f); solve minimize f;",
        "var 0..9: x; var 0..9: z; constraint int_lin_eq([2,-2],[x,z],0); solve minimize z;",
        "var 0..9: x; var 0..9: z; constraint int_lin_le([1,-1],[x,z],0); solve minimize z;",
        "var 0..9: x; var 0..9: z; constraint int_eq(x,z); constraint int_le(z,x); solve minimize z;",
        "var 0..9: x; solve minimize x;", "var 0..9: x; solve satisfy;",
    ],
)  # fmt: skip
def test_other_objectives_stay_as_they_are(text):
    whole = linear_program(parse(text))
    assert direct(whole).program is whole and direct(whole).restored(np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(60))
def test_any_weights_prove_a_true_bound_and_no_false_contradiction(seed):
    """Exact arithmetic makes a bound of whatever a solver says, be it noise."""
    rng, draw = random.Random(seed), Draw(seed)
    goal = "maximize total" if draw.maximize else "minimize total"
    change = direct(program(draw.text(goal)))
    reduced = change.program
    totals = [sum(c * x for c, x in zip(draw.objective, x, strict=True)) for x in draw.feasible()]
    for scale in (0.0, 0.3, 1.0, 1e6, 1e30):
        duals = np.array([rng.uniform(-scale, scale) for _ in range(reduced.rows)])
        bound = dual_bound(reduced, duals)
        if totals and bound is not None:
            bound += change.offset
            assert bound >= max(totals) if draw.maximize else bound <= min(totals)
        assert not (totals and proves_infeasible(reduced, duals))
    assert not (totals and contradicts_itself(reduced))


def test_the_dual_bound_of_the_relaxation_is_as_good_as_the_relaxation():
    reduced = direct(program(WIDE)).program
    assert dual_bound(reduced, np.array([0, 0, 0, 0])) == 0
    duals = -np.array([5e8, 1.5e9, 2.5e9, 0.0])  # of x0 + x1 >= 1 and so on, as <= rows
    assert dual_bound(reduced, duals) == int(4.5e9)
    assert dual_bound(replace(reduced, maximize=True, objective=-reduced.objective), duals) == -int(4.5e9)


def test_contradicting_rows_are_proven_infeasible():
    apart = program("""var 0..9: x; var 0..9: y; constraint int_lin_le([1,1],[x,y],3);
        constraint int_lin_le([-1,-1],[x,y],-5); solve satisfy;""")
    for sign in (1, -1):
        assert proves_infeasible(apart, sign * np.array([-1.0, -1.0]))
        assert not proves_infeasible(apart, sign * np.array([-1.0, -0.1]))
    assert not proves_infeasible(apart, np.zeros(2))
    assert contradicts_itself(program("var int: x; var int: y; constraint int_lin_eq([4,6],[x,y],9); solve satisfy;"))
    assert not contradicts_itself(program("var int: x; constraint int_lin_eq([3],[x],9); solve satisfy;"))


@pytest.mark.parametrize(
    ("costs", "sides", "expected"),
    [(10, 10, "sound"), (10**10, 10, "bounded"), (10, 10**10, "groundless"), (10**10, 10**10, "groundless")],
)
def test_large_sums_are_doubtful(costs, sides, expected):
    text = f"""var 0..1: x; var 0..{sides}: y; var int: z; constraint int_lin_le([-{sides},-1],[x,y],-{sides});
        constraint int_lin_eq([{costs},-1],[x,z],0); solve minimize z;"""
    claims = Claims(direct(program(text)), 1e-7)
    assert expected == ("groundless" if claims.groundless else "bounded" if claims.doubtful else "sound")


def test_floats_are_left_to_tolerances():
    whole = linear_program(parse("var 0.0..1e12: f; constraint float_le(3.5,f); solve minimize f;"))
    assert not is_exact(whole) and not Claims(direct(whole), 1e-7).doubtful


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(25))
def test_large_costs_against_brute_force(engine, seed):
    rng = random.Random(seed)
    costs = [int(10 ** rng.uniform(0, 9.7)) for _ in range(6)]
    pairs = [rng.sample(range(6), 2) for _ in range(7)]
    weights = [rng.randint(1, 9) for _ in range(6)]
    room = rng.randint(6, 25)
    lines = [f"var 0..1: x{i};" for i in range(6)]
    lines += [f"constraint int_lin_le([-1,-1],[x{a},x{b}],-1);" for a, b in pairs]
    names = ",".join(f"x{i}" for i in range(6))
    lines += [f"constraint int_lin_le({weights},[{names}],{room});", "var int: total :: output_var;",
              f"constraint int_lin_eq({[*costs, -1]},[{names},total],0); solve minimize total;"]  # fmt: skip
    covers = [
        sum(c * x for c, x in zip(costs, chosen, strict=True))
        for chosen in itertools.product((0, 1), repeat=6)
        if all(chosen[a] or chosen[b] for a, b in pairs)
        and sum(w * x for w, x in zip(weights, chosen, strict=True)) <= room
    ]
    expected = f"total = {min(covers)};\n----------\n==========\n" if covers else "=====UNSATISFIABLE=====\n"
    assert worker(engine).solve("\n".join(lines)) == (0, expected, "")
