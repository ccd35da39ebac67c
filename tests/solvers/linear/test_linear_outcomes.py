"""What is concluded from what a solver says, which may be wrong: solvers of straw say it."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator

import numpy as np
import pytest

from moccasin_mzn.solvers.linear import highs
from moccasin_mzn.solvers.linear import run as runner
from moccasin_mzn.solvers.linear.configuration import parse_options
from moccasin_mzn.solvers.linear.engine import Ending, EngineError, RowWeights, Settings, SolutionListener
from moccasin_mzn.solvers.linear.program import LinearProgram

TEXT = "var 0..9: x :: output_var; var 0..9: y; constraint int_lin_le([-1,-1],[x,y],-3); solve {};"
MIXED = """var 0..9: x :: output_var; var 0.0..9.0: f :: output_var; var float: g;
    constraint int2float(x,g); constraint float_lin_eq([1.0,-2.0],[f,g],0.5); solve {};"""


class NeverStop:
    requested = False
    armed = False


class Straw:
    """An engine that gives one answer after the other, and keeps what it was asked."""

    def __init__(self, *answers: Ending) -> None:
        self.answers: Iterator[Ending] = iter(answers)
        self.asked: list[tuple[LinearProgram, Settings]] = []

    def __call__(self, program: LinearProgram, settings: Settings, listener: SolutionListener) -> Ending:
        self.asked.append((program, settings))
        return next(self.answers)


def answer(status: str, *values: float, bound: float = math.nan) -> Ending:
    return Ending(status, np.array(values) if values else None, bound)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a file with an engine of straw: (exit status, stdout, stderr)."""

    def call(engine, text: str, *flags: str) -> tuple[int, str, str]:
        path = tmp_path / "f.fzn"
        path.write_text(text)
        monkeypatch.setattr(highs, "solve", engine)
        monkeypatch.setattr(highs, "relax", lambda program, settings: RowWeights())
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            status = runner.run(parse_options([*flags, str(path)]), NeverStop())
        return status, out.getvalue(), err.getvalue().replace(str(path), "f")

    return call


def test_a_solution_that_is_none_is_refused_and_the_tolerance_made_smaller(run):
    engine = Straw(*(answer("optimal", 1.0 + k / 10, 1.4, bound=1) for k in range(3)))
    status, out, err = run(engine, TEXT.format("minimize x"))
    assert (status, out) == (0, "=====UNKNOWN=====\n")
    assert (
        err == "% no proof, since the solver came to a solution that is none: f:1:41: this constraint does not hold\n"
    )
    asked = [(settings.tolerance, settings.presolve) for _, settings in engine.asked]
    assert asked == [(1e-7, True), (1e-7, False), (1e-9, False)]


def test_the_second_trial_counts(run):
    engine = Straw(answer("optimal", 1, 1, bound=1), answer("optimal", 2, 1, bound=2))
    assert run(engine, TEXT.format("minimize x")) == (0, "x = 2;\n----------\n==========\n", "")


def test_a_bound_that_does_not_reach_the_optimum_is_no_proof(run):
    engine = Straw(answer("optimal", 2, 1, bound=0.9))
    status, out, err = run(engine, TEXT.format("minimize x"), "-s")
    assert status == 0 and "==========" not in out and "x = 2;\n----------\n" in out
    assert "objectiveBound=1\n" in out
    assert err == "% no proof, since the solver came to an objective beyond its precision\n"


@pytest.mark.parametrize("bound", [1.02, 1.9999999, 2.0, 2.0000009])
def test_a_bound_within_the_gap_of_integers_is_a_proof(run, bound):
    status, out, err = run(Straw(answer("optimal", 2, 1, bound=bound)), TEXT.format("minimize x"), "-s")
    assert (status, err) == (0, "") and out.rstrip().endswith("mzn-stat-end") and "==========\n" in out
    assert out.count("objectiveBound=2\n") == 2


def test_numerical_trouble(run):
    status, out, err = run(Straw(*[answer("failed")] * 3), TEXT.format("minimize x"))
    assert (status, out, err) == (0, "=====UNKNOWN=====\n", "% no proof, since the solver came to numerical trouble\n")


@pytest.mark.parametrize("last", ["infeasible", "failed"])
def test_infeasible_after_a_false_solution_is_no_proof(run, last):
    engine = Straw(answer("optimal", 0, 1), answer("infeasible"), answer(last))
    status, out, err = run(engine, TEXT.format("minimize x"))
    assert (status, out) == (0, "=====UNKNOWN=====\n") and err.startswith("% no proof, since the solver came to ")


LARGE = """var 0..1000000: x :: output_var; var 0.0..1.0: f;
    constraint int_lin_eq([100000],[x],{}00000); solve minimize x;"""


def test_infeasible_with_large_numbers_and_floats_is_checked_twice(run):
    engine = Straw(answer("infeasible"), answer("infeasible"))
    assert run(engine, LARGE.format(10_000)) == (0, "=====UNSATISFIABLE=====\n", "")
    assert [settings.presolve for _, settings in engine.asked] == [True, False]
    engine = Straw(answer("infeasible"), answer("optimal", 10_000, bound=10_000))
    assert run(engine, LARGE.format(10_000)) == (0, "x = 10000;\n----------\n==========\n", "")
    engine = Straw(answer("infeasible"))
    assert run(engine, LARGE.format(9999)) == (0, "=====UNSATISFIABLE=====\n", "")


def test_numerical_trouble_that_passes_is_forgotten(run):
    engine = Straw(answer("failed", 4, 1), answer("optimal", 2, 1, bound=2))
    assert run(engine, TEXT.format("minimize x")) == (0, "x = 2;\n----------\n==========\n", "")


def test_a_solver_that_refuses(run):
    def engine(program, settings, listener):
        raise EngineError("no such parameter")

    assert run(engine, TEXT.format("satisfy")) == (1, "", "error: no such parameter\n")


@pytest.mark.parametrize("first", ["unbounded", "undecided"])
@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (answer("optimal", 9, 9), "=====UNBOUNDED=====\n"),
        (answer("infeasible"), "=====UNSATISFIABLE=====\n"),
        (answer("stopped"), "=====UNKNOWN=====\n"),
        (answer("stopped", 9, 9), "=====UNKNOWN=====\n"),
    ],
)
def test_unbounded_or_infeasible(run, first, second, expected):
    engine = Straw(answer(first), second)
    assert run(engine, TEXT.format("maximize x")) == (0, expected, "")
    assert not engine.asked[1][0].objective.any()


def test_a_solution_kept_when_the_time_is_up(run):
    engine = Straw(answer("stopped", 4, 1, bound=2))
    assert run(engine, TEXT.format("minimize x")) == (0, "x = 4;\n----------\n", "")


def test_a_false_solution_at_the_time_limit_is_not_printed(run):
    assert run(Straw(answer("stopped", 0, 1, bound=0)), TEXT.format("minimize x")) == (0, "=====UNKNOWN=====\n", "")


def test_infeasible_after_a_solution_is_no_proof(run):
    def engine(program, settings, listener):
        listener.solution(np.array([4.0, 1.0]))
        return answer("infeasible")

    assert run(engine, TEXT.format("minimize x")) == (0, "x = 4;\n----------\n", "")


def test_floats_are_found_anew_for_rounded_integers(run):
    engine = Straw(answer("optimal", 2.001, 4.502, bound=4.5), answer("optimal", 2.0, 4.5))
    status, out, err = run(engine, MIXED.format("satisfy"))
    assert (status, out, err) == (0, "x = 2;\nf = 4.5;\n----------\n", "")
    fixed, _ = engine.asked[1]
    assert fixed.lower[0] == fixed.upper[0] == 2 and fixed.lower[1] == 0


def test_no_floats_for_rounded_integers(run):
    engine = Straw(*[answer("optimal", 2.3, 5.1), answer("infeasible")] * 3)
    status, out, err = run(engine, MIXED.format("satisfy"))
    assert (status, out) == (0, "=====UNKNOWN=====\n") and "f:2:32: this constraint does not hold" in err


def test_a_refused_solution_is_excluded(run):
    engine = Straw(answer("optimal", 2, 1), answer("optimal", 2, 1, 0, 0))
    status, out, err = run(engine, TEXT.format("satisfy"), "-a")
    assert (status, out) == (0, "x = 2;\n----------\n")
    assert err == "% no proof, since the solver came to a solution that it was asked to leave out\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MIXED, "f is a float"),
        ("var int: u :: output_var; var 0..1: x; constraint int_le(0,u); solve {};", "u is not bounded"),
    ],
)
def test_indistinguishable_solutions_prove_nothing(run, text, reason):
    engine = Straw(answer("optimal", 1, 2.5) if "f" in reason else answer("optimal", 1, 0))
    status, out, err = run(engine, text.format("satisfy"), "-n", "2")
    assert status == 0 and out.count("----------") == 1 and "==========" not in out
    assert err == f"% no more than this solution: {reason}\n"


def test_an_integer_beyond_exact_floating_point_is_never_proven(run):
    text = "var int: x :: output_var; var 0..1: y; solve minimize x;"
    engine = Straw(answer("optimal", -(2.0**60), 0, bound=-(2.0**60)))
    status, out, err = run(engine, text)
    assert (status, out) == (0, "=====UNKNOWN=====\n"), err
    assert "is no exact double" in err
    assert len(engine.asked) == 1


def test_settings_come_from_the_command_line(run):
    engine = Straw(answer("infeasible"))
    text = TEXT.format("x").replace(
        "solve x", "solve :: seq_search([warm_start([x,y],[4,77])]) :: warm_start([x],[5]) minimize x"
    )
    run(engine, text, "-p", "3", "-r", "7", "--params", "a=b", "-f", "-t", "1000000000")
    settings = engine.asked[0][1]
    assert (settings.threads, settings.seed, settings.parameters, settings.gap) == (3, 7, "a=b", 0.99)
    assert settings.start == {0: 4.0}  # 77 is outside of the domain of y, and the first value for x counts
    assert settings.log is None and 900_000 < settings.seconds < 1_000_000


def test_warm_starts_of_unequal_length(run):
    text = TEXT.format(":: warm_start([x,y],[1]) satisfy")
    assert run(Straw(), text) == (1, "", "f:1:82: warm_start: 2 variables, but 1 values\n")
