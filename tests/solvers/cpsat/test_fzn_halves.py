"""Reified constraints of which one direction is enough: the same optima, with fewer variables."""

from __future__ import annotations

import itertools
from operator import eq, le, lt, ne

import pytest
from few import examples
from fzn_support import solve
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.registry import IF_FALSE, IF_TRUE, Half, find_halves
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.parser import parse

DECLARATIONS = "var bool: a; var bool: b; var bool: c; var 0..9: x; var 0..9: y; constraint int_le_reif(x,y,b);\n"


@pytest.mark.parametrize(
    ("rest", "direction", "twin"),
    [
        ("constraint bool_clause([b],[a]);", IF_TRUE, ("a", False)),
        ("constraint bool_clause([a,b],[]);", IF_TRUE, ("a", True)),
        ("constraint array_bool_or([b,a],true);", IF_TRUE, ("a", True)),
        ("constraint bool_clause([a],[b]);", IF_FALSE, ("a", False)),
        ("constraint bool_clause([],[b,a]);", IF_FALSE, ("a", True)),
        ("constraint bool_clause([a,b,c],[]);", IF_TRUE, None),
        ("constraint bool_clause([b],[a]); constraint bool_clause([b],[c]);", IF_TRUE, None),
        ("constraint bool_clause([a],[b]); constraint bool_clause([b],[c]);", None, None),
        ("constraint bool_clause([b],[a]); constraint int_eq_reif(x,y,b);", None, None),
        ("constraint bool_clause([b],[a]); constraint bool_eq(b,c);", None, None),
        ("constraint bool_clause([b],[a]); constraint array_bool_or([b,a],c);", None, None),
        ("array [1..1] of var bool: bs = [b]; constraint bool_clause(bs,[a]);", None, None),
        ("array [1..1] of var bool: bs :: output_array([1..1]) = [b]; constraint bool_clause([b],[a]);", None, None),
        ("var bool: d = b; constraint bool_clause([b],[a]);", None, None),
        ("constraint bool_clause([b],[b]);", None, None),
        ("", None, None),
    ],
)
def test_which_direction_is_enough(rest, direction, twin):
    file = parse(f"{DECLARATIONS}{rest} solve satisfy;")
    half = find_halves(file).get(id(file.constraints[0]))
    assert (half and (half.direction, half.counterpart)) == (None if direction is None else (direction, twin))


def test_a_printed_bool_keeps_both_directions():
    file = parse(DECLARATIONS.replace("b;", "b :: output_var;", 1) + "constraint bool_clause([b],[a]); solve satisfy;")
    assert find_halves(file) == {}


def test_the_clause_and_the_bool_disappear():
    text = f"{DECLARATIONS} constraint bool_clause([b],[a]); solve minimize x;"
    file = parse(text)
    assert find_halves(file) == {id(file.constraints[0]): Half(IF_TRUE, file.constraints[1], ("a", False))}
    problem = translate(file)
    assert problem.symbols.literals["a"] == problem.symbols.literals["b"]
    assert problem.builder.constraint_count() == 1


RELATIONS = {"int_le": le, "int_lt": lt, "int_eq": eq, "int_ne": ne}
operands = st.sampled_from(["x", "y", "1", "2"])
literals = st.lists(st.sampled_from(["b0", "b1", "b2", "a0", "a1"]), max_size=2)
reified = st.lists(st.tuples(st.sampled_from(sorted(RELATIONS)), operands, operands), min_size=3, max_size=3)


@settings(max_examples=examples(300), deadline=None)
@given(
    reified,
    st.lists(st.tuples(literals, literals), min_size=1, max_size=4),
    st.lists(st.integers(-3, 3), min_size=4, max_size=4),
)
def test_half_reification_keeps_optima(relations, clauses, weights):
    """b0, b1 and b2 say whether three comparisons hold; they and two free bools stand in random clauses."""
    lines = ["var 0..3: x :: output_var; var 0..3: y :: output_var; var -99..99: z :: output_var;"]
    lines += [f"var bool: a{i} :: output_var; var 0..1: i{i}; constraint bool2int(a{i},i{i});" for i in range(2)]
    for i, (name, left, right) in enumerate(relations):
        lines.append(f"var bool: b{i}; constraint {name}_reif({left},{right},b{i});")
    lines += [f"constraint bool_clause([{','.join(yes)}],[{','.join(no)}]);" for yes, no in clauses]
    lines += [f"constraint int_lin_eq({[*weights, -1]},[x,y,i0,i1,z],0); solve minimize z;"]
    best = None
    for x, y, a0, a1 in itertools.product(range(4), range(4), (False, True), (False, True)):
        value = {"x": x, "y": y, "1": 1, "2": 2, "a0": a0, "a1": a1}
        for i, (name, left, right) in enumerate(relations):
            value[f"b{i}"] = RELATIONS[name](value[left], value[right])
        if all(any(value[v] for v in yes) or not all(value[v] for v in no) for yes, no in clauses):
            total = sum(weight * part for weight, part in zip(weights, (x, y, a0, a1), strict=True))
            best = total if best is None else min(best, total)
    out = solve("\n".join(lines), "-p", "1")
    assert (f"z = {best};\n" in out and out.endswith("==========\n")) if best is not None else "UNSAT" in out
