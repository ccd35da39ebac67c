"""Every builtin against its definition in Python, over all assignments of small domains."""

from __future__ import annotations

import pytest
from fzn_support import check_against, solutions

X, Y, Z = {"x": "-1..2"}, {"y": "0..3"}, {"z": "-3..6"}
XY, XYZ = X | Y, X | Y | Z
A, B, C, R = {"a": "bool"}, {"b": "bool"}, {"c": "bool"}, {"r": "bool"}
AB, ABC = A | B, A | B | C


def with_conditions(name, arguments, declarations, holds):
    """The plain, half-reified and reified form of a relation."""
    yield f"{name}({arguments})", declarations, holds
    condition = declarations | R
    yield f"{name}_imp({arguments},r)", condition, lambda r, **rest: not r or holds(**rest)
    yield f"{name}_reif({arguments},r)", condition, lambda r, **rest: r == holds(**rest)
    for constant in ("true", "false"):
        yield (
            f"{name}_imp({arguments},{constant})",
            declarations,
            lambda constant=constant, **rest: constant == "false" or holds(**rest),
        )
        yield (
            f"{name}_reif({arguments},{constant})",
            declarations,
            lambda constant=constant, **rest: (constant == "true") == holds(**rest),
        )


RELATIONS = [
    ("int_eq", "x,y", XY, lambda x, y: x == y),
    ("int_ne", "x,y", XY, lambda x, y: x != y),
    ("int_le", "x,y", XY, lambda x, y: x <= y),
    ("int_lt", "x,y", XY, lambda x, y: x < y),
    ("int_le", "1,x", X, lambda x: x >= 1),
    ("int_eq", "x,x", X, lambda x: True),
    ("int_ne", "x,x", X, lambda x: False),
    ("int_lin_eq", "[2,-1],[x,y],1", XY, lambda x, y: 2 * x - y == 1),
    ("int_lin_ne", "[2,-1],[x,y],1", XY, lambda x, y: 2 * x - y != 1),
    ("int_lin_le", "[2,-1,3],[x,y,1],1", XY, lambda x, y: 2 * x - y + 3 <= 1),
    ("int_lin_le", "[2,-3],[x,x],0", X, lambda x: -x <= 0),
    ("int_lin_le", "[],[],-1", X, lambda x: False),
    ("int_lin_eq", "[],[],0", X, lambda x: True),
    ("set_in", "x,{-1,1,2,7}", X, lambda x: x in (-1, 1, 2)),
    ("set_in", "x,0..1", X, lambda x: x in (0, 1)),
    ("set_in", "x,{}", X, lambda x: False),
    ("set_in", "5,1..3", X, lambda x: False),
    ("bool_eq", "a,b", AB, lambda a, b: a == b),
    ("bool_not", "a,b", AB, lambda a, b: a != b),
    ("bool_le", "a,b", AB, lambda a, b: a <= b),
    ("bool_lt", "a,b", AB, lambda a, b: a < b),
    ("bool_lt", "false,b", B, lambda b: b),
    ("bool_eq", "a,a", A, lambda a: True),
    ("bool_not", "a,a", A, lambda a: False),
    ("bool_clause", "[a,b],[c]", ABC, lambda a, b, c: a or b or not c),
    ("bool_clause", "[],[a]", A, lambda a: not a),
    ("bool_clause", "[],[]", A, lambda a: False),
    ("bool_clause", "[a,false],[true,b]", AB, lambda a, b: a or not b),
]

FUNCTIONS = [
    ("bool2int(a,x)", A | X, lambda a, x: x == a),
    ("bool2int(true,x)", X, lambda x: x == 1),
    ("bool2int(a,0)", A, lambda a: not a),
    ("bool_and(a,b,r)", AB | R, lambda a, b, r: r == (a and b)),
    ("bool_or(a,b,r)", AB | R, lambda a, b, r: r == (a or b)),
    ("bool_xor(a,b,r)", AB | R, lambda a, b, r: r == (a != b)),
    ("bool_xor(a,b,true)", AB, lambda a, b: a != b),
    ("bool_xor_imp(a,b,r)", AB | R, lambda a, b, r: not r or a != b),
    ("bool_ne_imp(a,b,r)", AB | R, lambda a, b, r: not r or a != b),
    ("array_bool_and([a,b,c],r)", ABC | R, lambda a, b, c, r: r == (a and b and c)),
    ("array_bool_and([a,b],true)", AB, lambda a, b: a and b),
    ("array_bool_and([a,b],false)", AB, lambda a, b: not (a and b)),
    ("array_bool_and([a,false],r)", A | R, lambda a, r: not r),
    ("array_bool_and([],r)", R, lambda r: r),
    ("array_bool_or([a,b,c],r)", ABC | R, lambda a, b, c, r: r == (a or b or c)),
    ("array_bool_or([a,b],true)", AB, lambda a, b: a or b),
    ("array_bool_or([a,b],false)", AB, lambda a, b: not (a or b)),
    ("array_bool_or([],r)", R, lambda r: not r),
    ("array_bool_xor([a,b,c])", ABC, lambda a, b, c: (a + b + c) % 2 == 1),
    ("array_bool_xor([a,true])", A, lambda a: not a),
    ("array_bool_xor([])", A, lambda a: False),
    ("bool_lin_eq([2,-1],[a,b],x)", AB | X, lambda a, b, x: 2 * a - b == x),
    ("bool_lin_le([2,-1],[a,b],1)", AB, lambda a, b: 2 * a - b <= 1),
    ("int_plus(x,y,z)", XYZ, lambda x, y, z: x + y == z),
    ("int_plus(x,1,z)", X | Z, lambda x, z: x + 1 == z),
    ("int_times(x,y,z)", XYZ, lambda x, y, z: x * y == z),
    ("int_times(x,x,z)", X | Z, lambda x, z: x * x == z),
    ("int_times(-2,x,z)", X | Z, lambda x, z: -2 * x == z),
    ("int_abs(z,y)", Y | Z, lambda y, z: abs(z) == y),
    ("int_abs(-2,y)", Y, lambda y: y == 2),
    ("int_max(x,y,z)", XYZ, lambda x, y, z: max(x, y) == z),
    ("int_max(x,0,z)", X | Z, lambda x, z: max(x, 0) == z),
    ("int_min(x,y,z)", XYZ, lambda x, y, z: min(x, y) == z),
    ("int_min_imp(x,y,z,r)", XYZ | R, lambda x, y, z, r: not r or min(x, y) == z),
    ("array_int_maximum(z,[x,y,1])", XYZ, lambda x, y, z: max(x, y, 1) == z),
    ("array_int_minimum(z,[x,y,1])", XYZ, lambda x, y, z: min(x, y, 1) == z),
    ("array_int_maximum(z,[])", Z, lambda z: False),
    ("array_int_maximum_imp(z,[x,y],r)", XYZ | R, lambda x, y, z, r: not r or max(x, y) == z),
    ("array_int_minimum_imp(z,[],r)", Z | R, lambda z, r: not r),
    ("array_int_element(x,[3,-3],z)", X | Z, lambda x, z: 1 <= x <= 2 and z == [3, -3][x - 1]),
    ("array_int_element(x,[],z)", X | Z, lambda x, z: False),
    ("array_var_int_element(x,[y,4],z)", XYZ, lambda x, y, z: 1 <= x <= 2 and z == [y, 4][x - 1]),
    ("array_var_int_element(2,[y,4],z)", Y | Z, lambda y, z: z == 4),
    ("array_bool_element(x,[true,false],b)", X | B, lambda x, b: 1 <= x <= 2 and b == (x == 1)),
    ("array_var_bool_element(x,[a,true],b)", X | AB, lambda x, a, b: 1 <= x <= 2 and b == [a, True][x - 1]),
    ("array_var_bool_element(x,[a,b],true)", X | AB, lambda x, a, b: 1 <= x <= 2 and [a, b][x - 1]),
    ("fzn_all_different_int([x,y,1])", XY, lambda x, y: len({x, y, 1}) == 3),
    ("fzn_all_different_int([])", X, lambda x: True),
    ("fzn_all_different_int_imp([x,y],r)", XY | R, lambda x, y, r: not r or x != y),
]

CASES = [case for relation in RELATIONS for case in with_conditions(*relation)] + FUNCTIONS


@pytest.mark.parametrize(("constraint", "declarations", "holds"), CASES, ids=[case[0] for case in CASES])
def test_builtins_have_the_solutions_of_enumeration(constraint, declarations, holds):
    check_against(constraint, declarations, holds)


def test_names_that_are_one_literal():
    text = """
    var bool: a :: output_var; var bool: b :: output_var; var bool: c :: output_var;
    var 0..1: x :: output_var; var 0..5: y :: output_var; var bool: d :: output_var = a;
    constraint bool_not(a,b); constraint bool_eq(b,c); constraint bool_not(c,a);
    constraint bool2int(b,x); constraint bool2int(b,y);
    solve satisfy;
    """
    found = sorted(tuple(solution.values()) for solution in solutions(text))
    assert found == [(False, True, True, 1, 1, False), (True, False, False, 0, 0, True)]


def test_contradicting_aliases():
    assert (
        solutions("var bool: a; var bool: b; constraint bool_eq(a,b); constraint bool_not(a,b); solve satisfy;") == []
    )
