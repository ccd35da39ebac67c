"""Bounds of `var int` without a domain: implied ones lose no solution, and cut ones are never taken for proofs."""

from __future__ import annotations

import itertools
import re
from math import inf

import pytest
from few import examples
from fzn_support import solutions, solve
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.bounds import implied_bounds
from moccasin_mzn.solvers.flatzinc.parser import parse


def bounds(text: str) -> dict[str, tuple[float, float]] | None:
    return implied_bounds(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("var 1..3: a; var int: x; constraint int_lin_eq([3,-1],[a,x],-1);", {"x": (4, 10)}),
        ("var int: x; constraint int_le(3,x); constraint int_lin_le([2],[x],17);", {"x": (3, 8)}),
        ("var int: x; constraint set_in(x,{-4,7});", {"x": (-4, 7)}),
        (
            "var int: x; var int: y; constraint int_times(x,x,y); constraint int_lt(y,26);",
            {"x": (-5, 5), "y": (0, 25)},
        ),
        ("var int: x; var -7..2: a; constraint int_abs(a,x);", {"x": (0, 7)}),
        ("var int: x; constraint int_abs(x,4);", {"x": (-4, 4)}),
        ("var int: x; var 1..4: a; constraint int_max(x,2,a);", {"x": (-inf, 4)}),
        ("array [1..2] of int: t = [5,-9]; var int: x; var 1..2: i; constraint array_int_element(i,t,x);",
         {"x": (-9, 5)}),
        ("array [1..2] of var int: a = [x,y]; var int: x; var int: y; constraint array_int_minimum(3,a);",
         {"x": (3, inf), "y": (3, inf)}),
        ("var int: x; var int: y; constraint int_times(x,y,12); constraint int_le(2,x);", {"x": (2, 12), "y": (1, 6)}),
        ("var int: x; var int: y; constraint int_times(x,y,12);", {"x": (-12, 12), "y": (-12, 12)}),
        ("var int: x; var 2..9: y; var 7..20: p; constraint int_times(x,y,p);", {"x": (1, 10)}),
        ("var int: x; var -9..-2: y; var -7..20: p; constraint int_times(x,y,p);", {"x": (-10, 3)}),
        ("var int: x; var -9..2: y; var -7..20: p; constraint int_times(x,y,p);", {"x": (-inf, inf)}),
        ("var int: x; var 2..5: y; var 3..4: q; constraint int_div(x,y,q);", {"x": (-24, 24)}),
        ("var int: x; var 7..90: y; var 3..4: q; constraint int_div(y,x,q);", {"x": (-30, 30)}),
        ("var int: x; var 7..90: y; var 2..6: d; constraint int_mod(y,d,x);", {"x": (0, 5)}),
        ("var int: x; var -7..90: y; constraint int_pow(x,3,y);", {"x": (-5, 5)}),
        ("var int: i; var int: x; var int: y; constraint array_var_int_element(i,[x,7],y);"
         "constraint int_le(2,i); constraint int_le(y,9);", {"i": (2, 2), "x": (-inf, inf), "y": (7, 7)}),
        ("var int: x; var 3..5: a; var 6..7: m; constraint int_max(x,a,m);", {"x": (6, 7)}),
        ("var int: x = 28;", {"x": (28, 28)}),
        ("var int: x = y; var -3..4: y;", {"x": (-3, 4)}),
        ("var int: x = c; int: c = 5;", {"x": (5, 5)}),
        ("var int: x; var bool: b; constraint bool2int(b,x);", {"x": (0, 1)}),
        ("var int: x; var bool: b; constraint bool_lin_eq([2,3],[b,true],x);", {"x": (3, 5)}),
        ("var int: x; var 1..9: a; constraint fzn_count_eq([a,a,3],3,x);", {"x": (0, 3)}),
        ("var int: x; var 1..9: a; constraint fzn_global_cardinality([a,a],[3],[x]);", {"x": (0, 2)}),
        ("var int: x; var int: b; constraint fzn_bin_packing_load_offset([x,3],5,[b,5],[4,-1]);",
         {"x": (-1, 4), "b": (5, 6)}),
        ("var int: x; var int: y; constraint int_lt(x,y); constraint int_le(y,x);",
         {"x": (-inf, inf), "y": (-inf, inf)}),
    ],
)  # fmt: skip
def test_implied_bounds(text, expected):
    assert bounds(text + "solve satisfy;") == expected


def test_a_chain_of_starts_in_any_order():
    names = [f"s{i}" for i in range(200)]
    links = [f"constraint int_lin_le([1,-1],[s{i},s{i + 1}],-2);" for i in range(199)]
    text = "".join(f"var int: {name};" for name in names) + "".join(reversed(links)) + "constraint int_le(0,s0);"
    found = bounds(text + "solve satisfy;")
    assert found["s199"] == (398, inf)


def test_endless_improvements_end():
    text = "var int: x; var int: y; constraint int_le(0,x); constraint int_lt(x,y); constraint int_lt(y,x);"
    assert all(low < 1000 and high == inf for low, high in bounds(text + "solve satisfy;").values())


@pytest.mark.parametrize("box", ["2..2", "5..5", "2..9"])
@pytest.mark.parametrize("product", ["int_times(x,x,x)", "int_times(x,z,x)", "int_times(x,x,y)"])
def test_bounds_that_would_grow_without_end(box, product):
    text = f"var int: x; var int: y; var {box}: z; constraint int_max(z,2,x); constraint {product};"
    text += "constraint int_le(y,x);"
    assert bounds(text + "solve satisfy;") is None
    assert solve(text + "solve minimize z;") == "=====UNSATISFIABLE=====\n"


def test_bounds_stay_within_what_variables_can_hold():
    """x = 2 x, x >= 1, has no solution, but no bounds that say so."""
    found = bounds("var int: x; constraint int_times(2,x,x); constraint int_le(1,x); solve satisfy;")
    assert found is None or all(abs(end) < 2**62 or abs(end) == inf for end in found["x"])


BOUND = 3


def quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


RELATIONS = {
    "int_times({},{},{})": lambda x, y, z: x * y == z,
    "int_lin_eq([2,-1,1],[{},{},{}],1)": lambda x, y, z: 2 * x - y + z == 1,
    "int_lin_le([-2,1,3],[{},{},{}],-1)": lambda x, y, z: -2 * x + y + 3 * z <= -1,
    "int_max({},{},{})": lambda x, y, z: max(x, y) == z,
    "int_min({},{},{})": lambda x, y, z: min(x, y) == z,
    "array_int_maximum({},[{},{},1])": lambda x, y, z: x == max(y, z, 1),
    "int_plus({},{},{})": lambda x, y, z: x + y == z,
    "int_div({},{},{})": lambda x, y, z: y != 0 and quotient(x, y) == z,
    "int_mod({},{},{})": lambda x, y, z: y != 0 and x - quotient(x, y) * y == z,
    "int_abs({},{})": lambda x, y: abs(x) == y,
    "int_pow({},2,{})": lambda x, y: x**2 == y,
    "int_pow({},3,{})": lambda x, y: x**3 == y,
    "array_var_int_element({},[{},2,{}],{})": lambda i, x, y, z: 1 <= i <= 3 and (x, 2, y)[i - 1] == z,
    "array_var_int_element_from(-1,{},[{},{}],{})": lambda i, x, y, z: -1 <= i <= 0 and (x, y)[i + 1] == z,
}
names = st.sampled_from("xyz")
constraint = st.tuples(st.sampled_from(sorted(RELATIONS)), names, names, names, names)


def hold(constraints, row: dict[str, int]) -> bool:
    """Are all of the constraints true?"""
    return all(
        RELATIONS[form](*(row[name] for name in operands[: form.count("{}")])) for form, *operands in constraints
    )


def items_of(constraints) -> list[str]:
    return [f"constraint {form.format(*operands)};" for form, *operands in constraints]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(constraint, min_size=1, max_size=4), st.booleans())
def test_no_solution_is_lost(constraints, bounded_last):
    """The same constraints between unbounded variables, held in a small box by constraints, not by their types."""
    box = [f"constraint int_le(-{BOUND},{name}); constraint int_le({name},{BOUND});" for name in "xyz"]
    items = items_of(constraints)
    items = items + box if bounded_last else box + items
    declarations = "".join(f"var int: {name} :: output_var;" for name in "xyz")
    expected = []
    for values in itertools.product(range(-BOUND, BOUND + 1), repeat=3):
        row = dict(zip("xyz", values, strict=True))
        if hold(constraints, row):
            expected.append(row)
    found = solutions(declarations + "".join(items) + "solve satisfy;")
    key = lambda row: tuple(row.values())  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, expected))


COST = "var int: c :: output_var; var 2..5: d; constraint int_le({}); solve minimize c;"


def test_an_optimum_is_proven_away_from_the_cut():
    assert solve(COST.format("d,c")) == "c = 2;\n----------\n==========\n"


def test_an_optimum_at_the_cut_is_no_proof():
    assert solve(COST.format("c,d")) == "c = -1099511627776;\n----------\n"


WIDE = 40


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(constraint, min_size=1, max_size=4),
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted),
    st.sampled_from(["z", "y", "x"]),
    st.sampled_from(["minimize", "maximize"]),
)
def test_what_is_proven_is_true(constraints, box, objective, goal):
    """Of three variables one has bounds; others may get some by products and the like. What is called an optimum is the
    best of all within a wide box, and what is called infeasible has no solution there."""
    low, high = box
    declared = "var int: x :: output_var; var int: y :: output_var;" + f"var {low}..{high}: z :: output_var;"
    out = solve(f"{declared} {''.join(items_of(constraints))} solve {goal} {objective};", "-t", "2000", "-p", "1")
    if "==========" not in out and "UNSAT" not in out:
        return
    wide = range(-WIDE, WIDE + 1)
    rows = (dict(zip("xyz", values, strict=True)) for values in itertools.product(wide, wide, range(low, high + 1)))
    found = [row[objective] for row in rows if hold(constraints, row)]
    if "UNSAT" in out:
        assert not found
    else:
        told = int(re.findall(rf"^{objective} = (-?\d+);", out, re.MULTILINE)[-1])
        assert not found or (told <= min(found) if goal == "minimize" else told >= max(found))


FIXED = {
    "var int: z :: output_var = 28; solve maximize z;": "z = 28;",
    "var 0..9: y; var int: z :: output_var = y; solve maximize z;": "z = 9;",
    "var int: z :: output_var = y; var 0..9: y; solve minimize z;": "z = 0;",
    "int: best = 6; var int: z :: output_var = best; solve minimize best;": "z = 6;",
    "var int: z :: output_var; constraint int_le(3,z); solve minimize 7;": "z = 3;",
    "var 2..2: z :: output_var; var int: y; constraint int_le(3,y); solve maximize z;": "z = 2;",
    "var bool: z :: output_var = true; var int: y; constraint int_le(3,y); solve maximize z;": "z = true;",
    "var bool: c; var bool: z :: output_var = c; solve maximize z;": "z = true;",
    "bool: c = false; var bool: z :: output_var = c; solve maximize c;": "z = false;",
    "var 1..1: z :: output_var; solve maximize true;": "z = 1;",
    "var float: z :: output_var = 2.5; solve maximize z;": "z = 2.5;",
    "var 0.0..4.5: y; var float: z :: output_var = y; solve maximize z;": "z = 4.5;",
    "float: best = 2.5; var float: z :: output_var = best; solve minimize best;": "z = 2.5;",
    "var 1..1: z :: output_var; solve minimize 2.5;": "z = 1;",
}


@pytest.mark.parametrize(("text", "line"), FIXED.items())
def test_an_objective_that_is_fixed_or_another_name_is_proven(text, line):
    assert solve(text) == f"{line}\n----------\n==========\n"


@pytest.mark.parametrize(
    ("goal", "proven"), [("minimize z", True), ("maximize z", False), ("minimize y", True), ("maximize y", False)]
)
def test_a_bound_of_the_objective_that_is_reached_is_a_proof_whatever_was_cut(goal, proven):
    text = "var int: y; var int: z; constraint int_ne(y,z); constraint int_lin_le([1,-1],[z,y],5);"
    text += "constraint int_le(2,z);"
    assert solve(f"{text} solve {goal};").endswith("==========\n") is proven


def test_a_product_too_large_for_the_first_cut_is_searched_within_a_narrower_one():
    text = "var int: x :: output_var; var int: y; var bool: b; constraint int_times_imp(x,x,y,b);"
    out = solve(
        text + "constraint int_times(x,y,27); constraint int_le(x,4); constraint bool_eq(b,true); solve maximize x;"
    )
    assert out == "x = 3;\n----------\n==========\n"


def test_factors_of_a_number_are_proven():
    """x * y = 12345678, 1 < x < y, with the least difference."""
    text = "var int: x :: output_var; var int: y :: output_var; var int: d; constraint int_times(x,y,12345678);"
    text += "constraint int_lt(1,x); constraint int_lt(x,y); constraint int_lin_eq([1,-1,-1],[y,x,d],0); "
    least = min(12345678 // x - x for x in range(2, 3514) if 12345678 % x == 0)
    out = solve(text + "solve minimize d;")
    x, y = map(int, re.findall(r"= (\d+);", out))
    assert (x * y, y - x) == (12345678, least) and out.endswith("==========\n")
