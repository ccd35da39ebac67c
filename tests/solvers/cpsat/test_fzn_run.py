"""What is printed, for all kinds of small files, in this process."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from fzn_support import NeverStop, solutions, solve

from moccasin_mzn.solvers.cpsat.run import CpSatSession
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.execution import parse_options
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.stream import statistics_block

BOX = "var 0..9: x :: output_var; var bool: b :: output_var; constraint int_le_imp(7,x,b);"


def test_arrays_are_printed_with_the_index_sets_of_output_array():
    text = """
    var 1..1: x; var bool: b;
    array [1..4] of var int: m :: output_array([0..1,1..2]) = [x,2,x,-4];
    array [1..0] of var int: e :: output_array([1..2,1..0]) = [];
    array [1..2] of var bool: bs :: output_array([1..2]) = [b,true];
    constraint bool_eq(b,false);
    solve satisfy;
    """
    assert solve(text) == (
        "m = array2d(0..1, 1..2, [1, 2, 1, -4]);\n"
        "e = array2d(1..2, 1..0, []);\n"
        "bs = array1d(1..2, [false, true]);\n"
        "----------\n"
    )


UNKNOWN = "=====UNKNOWN=====\n"


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("solve satisfy;", "----------\n"),
        ("constraint bool_eq(false,true); solve satisfy;", "=====UNSATISFIABLE=====\n"),
        ("var 1..0: x :: output_var; solve satisfy;", "=====UNSATISFIABLE=====\n"),
        ("int: X = 3; solve minimize X;", "----------\n==========\n"),
        ("var 3..3: X :: output_var; solve maximize X;", "X = 3;\n----------\n==========\n"),
        ("solve minimize 7;", "----------\n==========\n"),
        ("constraint int_le(2,1); solve minimize 7;", "=====UNSATISFIABLE=====\n"),
        ("var 1..3: x :: output_var; constraint int_ne(x,3); solve maximize x;", "x = 2;\n----------\n==========\n"),
        ("var -3..3: x :: output_var; constraint int_ne(x,-3); solve minimize x;", "x = -2;\n----------\n==========\n"),
        (
            "var bool: b :: output_var; var 0..1: x :: output_var; constraint bool2int(b,x); solve maximize x;",
            "b = true;\nx = 1;\n----------\n==========\n",
        ),
        ("var -1..0: y :: output_var = 0; solve satisfy;", "y = 0;\n----------\n"),
        ("var int: x; solve maximize x;", "=====UNBOUNDED=====\n"),
        ("var int: x :: output_var; constraint int_le(x,5); solve maximize x;", "x = 5;\n----------\n==========\n"),
        ("var int: x; constraint int_lin_le([-1],[x],-8000000000000); solve satisfy;", "----------\n"),
        (
            "var int: x; var int: y; constraint int_lt(x,y); constraint int_lt(y,x); solve satisfy;",
            "=====UNKNOWN=====\n",
        ),
        (
            "array [1..0] of var set of int: s :: output_array([1..0]) = []; array [1..0] of var float: f = [];"
            "solve satisfy;",
            "s = array1d(1..0, []);\n----------\n",
        ),
        # a variable that nothing constrains does not stand in the way of a proof
        ("var int: u; var 1..1: x; constraint int_ne(x,1); solve satisfy;", "=====UNSATISFIABLE=====\n"),
        # b = 0 takes an x beyond the domain that is searched
        (
            "var int: x; var 0..1: b :: output_var; var bool: r; constraint int_le_reif(2199023255552,x,r);"
            "constraint int_eq_reif(b,0,r); solve minimize b;",
            "b = 1;\n----------\n",
        ),
    ],
)
def test_run_prints_statuses(text, out):
    assert solve(text) == out


def test_an_optimum_at_a_cut_bound_is_not_claimed():
    text = "var int: x :: output_var; var 0..1: y; constraint int_lin_le([-1,1],[x,y],0); solve maximize x;"
    assert solve(text) == f"x = {2**40};\n----------\n"


def test_all_solutions_come_once_although_an_auxiliary_bool_is_free():
    text = "var 0..2: x :: output_var; var bool: b; constraint int_le_imp(1,x,b); solve satisfy;"
    assert sorted(solution["x"] for solution in solutions(text)) == [0, 1, 2]


def test_all_solutions_come_once_among_a_million_repeats():
    free = range(20)
    text = "var 0..3: x :: output_var;" + "".join(f"var bool: b{i};" for i in free)
    text += "".join(f"constraint int_le_imp({i % 3},x,b{i});" for i in free) + "solve satisfy;"
    assert sorted(solution["x"] for solution in solutions(text)) == [0, 1, 2, 3]


def test_idle_intervals_do_not_repeat_solutions():
    text = """
    var bool: a :: output_var; var 1..3: s :: output_var; var 1..3: e :: output_var;
    constraint fzn_cumulative_intervals([a],[s],[e],[1],1); solve satisfy;
    """
    session = CpSatSession(translate(parse(text), unique=True), parse_options(["-a", "f.fzn"]))
    with contextlib.redirect_stdout(io.StringIO()):
        assert session.run(NeverStop()) == 0
    assert (session.stream.printed, session.stream.repeats) == (9 + 6, 0)


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_n_solutions(count):
    out = solve("var 1..5: x :: output_var; solve satisfy;", "-n", str(count))
    assert out.count("----------") == min(count, 5)
    assert out.endswith("==========\n") == (count > 5)


def test_only_the_best_solution_is_printed_unless_asked_for_more():
    text = BOX + "var 0..20: y :: output_var; constraint int_lin_eq([1,1,-1],[x,x,y],0); solve maximize y;"
    assert solve(text).count("----------") == 1
    for flag in ("-i", "-a"):
        objectives = [int(value) for value in re.findall(r"^y = (\d+);", solve(text, flag), re.MULTILINE)]
        assert objectives == sorted(set(objectives)) and objectives[-1] == 18


def test_statistics_precede_every_separator_and_end_the_output():
    out = solve(BOX + "solve maximize x;", "-s", "-i")
    solution, rest = out.split("----------\n", 1)
    assert solution.index("%%%mzn-stat-end") < solution.index("x = ")
    assert rest.startswith("==========\n%%%mzn-stat: objective=9\n%%%mzn-stat: objectiveBound=9\n")
    assert rest.endswith("%%%mzn-stat-end\n")
    for name in ("boolVariables", "intVariables", "solveTime", "initTime", "nodes", "failures", "propagations"):
        assert re.search(rf"^%%%mzn-stat: {name}=[0-9.]+$", rest, re.MULTILINE)


def test_statistics_that_minizinc_cannot_read_are_left_out():
    block = statistics_block({"a": 1, "b": float("inf"), "c": 2**63, "d": 2.0, "e": 'x"y', "f": None})
    assert block.splitlines() == [
        "%%%mzn-stat: a=1",
        "%%%mzn-stat: d=2.000000",
        '%%%mzn-stat: e="x\\"y"',
        "%%%mzn-stat-end",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("constraint my_own(1); solve satisfy;", "unsupported constraint my_own"),
        ("var 1..2: x; constraint int_le(x); solve satisfy;", "int_le takes 2 arguments"),
        ("var bool: x; constraint int_le(x,1); solve satisfy;", "int_le: an integer expected, found x"),
        ("constraint bool_eq(1,true); solve satisfy;", "bool_eq: a bool expected, found 1"),
        ("var 0..4611686018427387904: x; solve satisfy;", "CP-SAT refuses the model"),
        ("var 0..4000000000000000000: x; constraint int_plus(x,x,x); solve satisfy;", "CP-SAT refuses the model"),
        (
            "var float: x; solve satisfy;",
            "x is a float without bounds that follows from nothing; solve with --solver highs",
        ),
    ],
)
def test_run_reports_errors_in_one_line(text, message):
    with pytest.raises(RuntimeError) as error:
        solve(text)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_parameters_are_passed_through():
    text = BOX + "solve maximize x;"
    assert solve(text, "--params", "num_workers:1 linearization_level:2").startswith("x = 9;")
    with pytest.raises(RuntimeError, match="does not understand"):
        solve(text, "--params", "no_such_parameter:1")


def test_a_time_limit_that_is_over_before_the_search():
    assert solve(BOX + "solve maximize x;", "-t", "1") == "=====UNKNOWN=====\n"
