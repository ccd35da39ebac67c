"""FlatZinc -> linear program: arrays, exactness and refusals."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError, FloatSet
from moccasin_mzn.solvers.linear.program import LinearProgram, linear_program, translate

EVERYTHING = """
array [1..2] of int: c = [3,-2];
int: n = 4;
float: half = 0.5;
var 0..1: b;
var -3..7: x;
var int: u;
var 1.5..2.5: f;
var float: g;
array [1..2] of var int: xs = [x,u];
constraint int_lin_le(c,xs,n);
constraint int_lin_eq([1,1,2],[x,x,5],20);
constraint int_le(b,x);
constraint int_lt(x,3);
constraint int_eq(u,n);
constraint int_plus(x,u,7);
constraint float_lin_le([1.0,half,-1.0],[f,g,f],2.0);
constraint float_lin_eq([2.0],[g],3.0);
constraint float_le(f,g);
constraint float_plus(f,0.25,g);
constraint bool_eq(true,true);
solve maximize u;
"""


def rows(program: LinearProgram) -> list[tuple[dict[str, float], float, float]]:
    """Coefficient by name, lower and upper side of each row."""
    found = []
    for row in range(program.rows):
        entries = range(program.row_start[row], program.row_start[row + 1])
        terms = {program.names[program.row_column[entry]]: program.row_coefficient[entry] for entry in entries}
        found.append((terms, program.row_lower[row], program.row_upper[row]))
    return found


def test_every_constraint_is_its_row():
    program = linear_program(parse(EVERYTHING))
    assert program.names == ("b", "x", "u", "f", "g")
    assert program.lower.tolist() == [0, -3, -inf, 1.5, -inf]
    assert program.upper.tolist() == [1, 7, inf, 2.5, inf]
    assert program.is_integer.tolist() == [True, True, True, False, False]
    assert program.objective.tolist() == [0, 0, 1, 0, 0]
    assert program.maximize and program.objective_offset == 0
    assert rows(program) == [
        ({"x": 3, "u": -2}, -inf, 4),
        ({"x": 2}, 10, 10),  # twice in the constraint; the constant is on the other side
        ({"b": 1, "x": -1}, -inf, 0),
        ({"x": 1}, -inf, 2),
        ({"u": 1}, 4, 4),
        ({"x": 1, "u": 1}, 7, 7),
        ({"g": 0.5}, -inf, 2),  # f cancels out
        ({"g": 2}, 3, 3),
        ({"f": 1, "g": -1}, -inf, 0),
        ({"f": 1, "g": -1}, -0.25, -0.25),
        ({}, 0, 0),
    ]


def test_columns_ascend_in_a_row():
    program = linear_program(
        parse("var 0..9: x; var 0..9: y; var 0..9: z; constraint int_lin_le([1,2,3,4],[z,x,y,z],5); solve satisfy;")
    )
    assert program.row_column.tolist() == [0, 1, 2]
    assert program.row_coefficient.tolist() == [2, 3, 5]
    assert program.row_start.tolist() == [0, 3]


def test_an_integer_and_its_float_are_one_column():
    text = """var -5..5: i; var 0.5..3.5: f; var float: f2; var 0.0..9.0: h;
        constraint int2float(i,f); constraint int2float(i,f2); constraint int2float(3,h);
        constraint float_lin_le([1.0,1.0],[f,f2],4.0); solve minimize f2;"""
    program = linear_program(parse(text))
    assert program.names == ("i", "h")
    assert (program.lower.tolist(), program.upper.tolist()) == ([1, 0], [3, 9])
    assert rows(program) == [({"h": -1}, -3, -3), ({"i": 2}, -inf, 4)]
    assert program.objective.tolist() == [1, 0]


def test_right_hand_sides_and_constant_objectives():
    program = linear_program(parse("var 1..3: x; var 0..9: y = x; var bool: b = true; int: o = 7; solve minimize o;"))
    assert rows(program) == [({"x": -1, "y": 1}, 0, 0), ({"b": 1}, 1, 1)]
    assert program.objective_offset == 7 and not program.objective.any()


def test_what_nothing_satisfies():
    program = linear_program(parse("var 1..0: x; constraint bool_eq(false,true); solve satisfy;"))
    assert program.lower.tolist() == program.upper.tolist() == [0]
    assert rows(program) == [({}, 1, 1), ({}, 1, inf)]


def test_bounds_beyond_floating_point_are_rounded_outwards():
    bound = 2**53 + 1
    program = linear_program(parse(f"var -{bound}..{bound}: x; var -9223372036854775808..5: y; solve satisfy;"))
    assert program.lower.tolist() == [-(2.0**53) - 2, -inf]
    assert program.upper.tolist() == [2.0**53 + 2, 5]


HEADER = "var 0..9: x; var 0..9: y; var bool: b; var 0.0..1.0: f;\n"


@pytest.mark.parametrize(
    ("item", "place", "message"),
    [
        ("constraint int_times(x,y,x);", "2:1", "unsupported constraint int_times"),
        ("constraint float_lin_ne([1.0],[f],1.0);", "2:1", "unsupported constraint float_lin_ne"),
        ("constraint bool_lin_le([1],[b],0);", "2:1", "unsupported constraint bool_lin_le"),
        ("constraint bool_eq(b,true);", "2:1", "bool_eq: a constant expected, found b"),
        ("constraint int_le(x);", "2:1", "int_le takes 2 arguments"),
        ("constraint int_le(x,z);", "2:1", "z is not declared"),
        ("constraint int_lin_le([1,1],[x],3);", "2:1", "2 coefficients, but 1 variables"),
        ("constraint int_lin_le([1],[x,3],3);", "2:1", "1 coefficients, but 2 variables"),
        ("constraint int_lin_le([x],[x],3);", "2:1", "int_lin_le: a constant expected, found x"),
        ("constraint int_lin_le([1],[x],y);", "2:1", "int_lin_le: a constant expected, found y"),
        ("constraint int_lin_le(x,[x],3);", "2:1", "int_lin_le: an array of constants expected, found x"),
        ("constraint int_lin_le([1],x,3);", "2:1", "int_lin_le: an array expected, found x"),
        ("constraint int_lin_le([1],[[x]],3);", "2:1", "a constant expected, found an array"),
        (
            "constraint int_lin_le([9007199254740993],[x],3);",
            "2:1",
            "the coefficient 9007199254740993 is no exact double",
        ),
        ("constraint int_lin_le([1],[x],-9007199254740993);", "2:1", "the side -9007199254740993 is no exact double"),
        (
            "constraint int_lin_le([9007199254740992,9007199254740992],[x,x],3);",
            "2:1",
            "the sum of coefficients is no exact double",
        ),
        ("constraint float_lin_le([1e999],[f],3.0);", "2:1", "a coefficient is infinite"),
        ("var {1,3}: h;", "2:1", "h: a domain with holes is not supported"),
        ("var {1.0,3.0}: h;", "2:5", "var float of listed values is not supported"),
        ("var set of 1..3: s;", "2:5", "var set is not supported"),
        ("solve minimize z;", "2:1", "z is not declared"),
        ("solve minimize \n [x];", "2:1", "a constant expected, found an array"),
    ],
)
def test_refusals_name_the_place(item, place, message):
    text = f"{HEADER}{item}{'' if 'solve' in item else ' solve satisfy;'}"
    with pytest.raises(FlatZincError) as caught:
        linear_program(parse(text, "f.fzn"))
    assert str(caught.value) == f"f.fzn:{place}: {message}"


def test_floats_are_read():
    text = """var -1.5..2e3: f :: output_var;
        array [1..2] of var float: fs :: output_array([1..2]) = [f,1.0]; solve satisfy;"""
    file = parse(text)
    assert file.variables["f"].domain == FloatSet(-1.5, 2000.0) and file.variables["f"].is_float
    assert file.arrays["fs"].is_float and not file.arrays["fs"].is_bool


def test_the_fast_path_reads_what_the_grammar_reads():
    # a comment inside of an item, a blank between - and nothing: only the grammar reads those
    lines = [
        "constraint int_lin_le([1,-2],[x,y],-3) :: domain;",
        "constraint int_lin_eq(cs,[x,y],0);",
        "constraint float_lin_le([1.5,-2e-3],[f,f],-0.25);",
        "constraint int_lin_le([1,1],[x,true],3);",
        "constraint int_lin_le([007],[x],3);",
        "constraint int_lin_le([1,1],[xs[1],2],3);",
    ]
    head = "array [1..2] of int: cs = [4,5]; var 0..9: x; var 0..9: y; var float: f; array [1..1] of var int: xs = [x];"
    fast = parse("\n".join([head, *lines, "solve satisfy;"]))
    slow = parse("\n".join([head, *(line.replace("(", "( % comment\n", 1) for line in lines), "solve satisfy;"]))
    assert [(item.name, item.arguments) for item in fast.constraints] == [
        (item.name, item.arguments) for item in slow.constraints
    ]


def test_positions_of_rows():
    text = "var 1..3: x;\nvar 0..9: y = x;\nconstraint int_le(x,y);\n  constraint int_lt(x,y); solve satisfy;"
    translation = translate(parse(text, "f"))
    places = [translation.file.where(position) for position in translation.row_position.tolist()]
    assert places == ["f:2:1", "f:3:1", "f:4:3"]


GOOD = linear_program(parse("var 0..9: x; var 0..9: y; constraint int_lin_le([1,2],[x,y],5); solve minimize x;"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": np.zeros(3)}, "there are 2 names"),
        ({"row_upper": np.zeros(2)}, "not of the same number of rows"),
        ({"row_start": np.array([0, 1])}, "do not divide"),
        ({"row_start": np.array([1, 2])}, "not of the same number of rows"),
        ({"row_column": np.array([0, 2])}, "in no column"),
        ({"row_coefficient": np.array([1.0, np.nan])}, "not finite"),
        ({"objective": np.array([1.0, np.inf])}, "not finite"),
        ({"lower": np.array([0.0, 10.0])}, "above its upper bound"),
        ({"row_lower": np.array([6.0])}, "above its upper bound"),
        ({"upper": np.array([np.nan, 1.0])}, "above its upper bound"),
    ],
)
def test_programs_that_do_not_fit_together(change, message):
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **change)
