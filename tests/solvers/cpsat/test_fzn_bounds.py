"""Bounds of `var int` without a domain: implied ones lose no solution, and cut ones are never taken for proofs."""

from __future__ import annotations

import itertools
from math import inf

import pytest
from few import examples
from fzn_support import solutions, solve
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.bounds import implied_bounds
from moccasin_mzn.solvers.flatzinc.parser import parse


def bounds(text: str) -> dict[str, tuple[float, float]]:
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


BOUND = 3
RELATIONS = {
    "int_times({},{},{})": lambda x, y, z: x * y == z,
    "int_lin_eq([2,-1,1],[{},{},{}],1)": lambda x, y, z: 2 * x - y + z == 1,
    "int_lin_le([-2,1,3],[{},{},{}],-1)": lambda x, y, z: -2 * x + y + 3 * z <= -1,
    "int_max({},{},{})": lambda x, y, z: max(x, y) == z,
    "int_min({},{},{})": lambda x, y, z: min(x, y) == z,
    "array_int_maximum({},[{},{},1])": lambda x, y, z: x == max(y, z, 1),
    "int_plus({},{},{})": lambda x, y, z: x + y == z,
    "int_div({},{},{})": lambda x, y, z: y != 0 and abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) == z,
}
names = st.sampled_from("xyz")
constraint = st.tuples(st.sampled_from(sorted(RELATIONS)), names, names, names)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(constraint, min_size=1, max_size=4), st.booleans())
def test_no_solution_is_lost(constraints, bounded_last):
    """The same constraints between unbounded variables, held in a small box by constraints, not by their types."""
    box = [f"constraint int_le(-{BOUND},{name}); constraint int_le({name},{BOUND});" for name in "xyz"]
    items = [f"constraint {form.format(*operands)};" for form, *operands in constraints]
    items = items + box if bounded_last else box + items
    declarations = "".join(f"var int: {name} :: output_var;" for name in "xyz")
    expected = []
    for values in itertools.product(range(-BOUND, BOUND + 1), repeat=3):
        row = dict(zip("xyz", values, strict=True))
        if all(RELATIONS[form](*(row[name] for name in operands)) for form, *operands in constraints):
            expected.append(row)
    found = solutions(declarations + "".join(items) + "solve satisfy;")
    key = lambda row: tuple(row.values())  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, expected))


COST = "var int: c :: output_var; var 2..5: d; constraint int_le({}); solve minimize c;"


def test_an_optimum_is_proven_away_from_the_cut():
    assert solve(COST.format("d,c")) == "c = 2;\n----------\n==========\n"


def test_an_optimum_at_the_cut_is_no_proof():
    assert solve(COST.format("c,d")) == "c = -1099511627776;\n----------\n"
