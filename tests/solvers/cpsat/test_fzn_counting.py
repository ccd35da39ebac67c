"""Counting constraints: against their definitions on random instances, and through MiniZinc."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne
from unittest.mock import patch

import pytest
from few import examples
from fzn_instances import arrays, check, check_model, operands
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.constraints import counting
from moccasin_mzn.solvers.cpsat.search import add_hints
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.parser import parse

EXAMPLES = settings(max_examples=examples(25), deadline=None)
VALUES = operands(-1, 3)
TERMS = st.lists(VALUES, max_size=4)
COUNTS = operands(-1, 4)
SETS = st.frozensets(st.integers(-2, 4), max_size=4)
MANY = st.sampled_from([counting.MANY_LITERALS, counting.MANY_LITERALS, 0])
COMPARISONS = {"eq": eq, "neq": ne, "leq": le, "lt": lt, "geq": ge, "gt": gt}


@EXAMPLES
@example("eq", ["1..2", "1..2"], "7", "0..1")
@example("eq", ["1..2", "{1,3}"], "{2,5,6}", "0..2")
@example("neq", ["1..3", "=0", "2"], "=0", "=0")
@example("lt", [], "0..1", "-1..1")
@given(st.sampled_from(list(COMPARISONS)), TERMS, VALUES, COUNTS)
def test_count(name, terms, value, count):
    def holds(values, value, count) -> bool:
        return COMPARISONS[name](count, values.count(value))

    check(f"fzn_count_{name}", holds, terms, value, count)


@EXAMPLES
@given(st.sampled_from(list(COMPARISONS)), TERMS, st.integers(-1, 3), st.integers(-1, 4))
def test_count_of_a_constant(name, terms, value, count):
    def holds(values, value, count) -> bool:
        return COMPARISONS[name](count, values.count(value))

    check(f"fzn_count_{name}_par", holds, terms, value, count)


@EXAMPLES
@given(st.sampled_from([("at_least", ge), ("at_most", le), ("exactly", eq)]), st.integers(-1, 4), TERMS, st.data())
def test_limited_number(case, number, terms, data):
    name, compare = case

    def holds(number, values, value) -> bool:
        return compare(values.count(value), number)

    check(f"fzn_{name}_int", holds, number, terms, data.draw(st.integers(-1, 3)))


@EXAMPLES
@given(COUNTS, TERMS, SETS)
def test_among(number, terms, wanted):
    def holds(number, values) -> bool:
        return number == sum(value in wanted for value in values)

    check("fzn_among", holds, number, terms, wanted)


@EXAMPLES
@given(COUNTS, TERMS, MANY)
def test_nvalue(number, terms, many):
    with patch.object(counting, "MANY_LITERALS", many):
        check("fzn_nvalue", lambda number, values: number == len(set(values)), number, terms)


def different(values: list[int]) -> bool:
    return len(values) == len(set(values))


@EXAMPLES
@example(["0..2"], frozenset([0]), 0)
@given(TERMS, SETS, MANY)
def test_all_different_except(terms, exceptions, many):
    def holds(values) -> bool:
        return different([value for value in values if value not in exceptions])

    with patch.object(counting, "MANY_LITERALS", many):
        check("fzn_alldifferent_except", holds, terms, exceptions)


@EXAMPLES
@given(st.lists(st.one_of(VALUES, st.just("=0")), max_size=4), MANY)
def test_all_different(terms, many):
    with patch.object(counting, "MANY_LITERALS", many):
        check("fzn_all_different_int", different, terms)


def tally(values: list[int], cover: list[int]) -> list[int]:
    return [values.count(value) for value in cover]


@EXAMPLES
@example(True, ["1..2", "1"], [(1, "0..2"), (1, "0..2")])
@given(st.booleans(), st.lists(VALUES, max_size=3), st.lists(st.tuples(st.integers(-1, 3), COUNTS), max_size=3))
def test_cardinality(closed, terms, cover):
    def holds(values, cover, counts) -> bool:
        inside = set(values) <= set(cover) or not closed
        return inside and counts == tally(values, cover) and sum(counts) <= len(values)

    values, counts = [value for value, _ in cover], [count for _, count in cover]
    check("fzn_global_cardinality" + "_closed" * closed, holds, terms, values, counts)


@EXAMPLES
@example(True, ["1..2", "1"], [(1, 0, 2), (1, 0, -1)])
@example(True, ["1..2", "1"], [(1, 2, 2), (1, 1, 1)])
@given(st.booleans(), TERMS, st.lists(st.tuples(*[st.integers(-1, 3)] * 3), max_size=3))
def test_cardinality_within_bounds(closed, terms, bounds):
    def holds(values, cover, low, high) -> bool:
        inside = set(values) <= set(cover) and sum(low) <= len(values) <= sum(high)
        fits = all(low[i] <= count <= high[i] for i, count in enumerate(tally(values, cover)))
        return fits and (inside or not closed)

    columns = [[bound[i] for bound in bounds] for i in range(3)]
    check("fzn_global_cardinality_low_up" + "_closed" * closed, holds, terms, *columns)


def test_counting_library_agrees_with_the_standard_one(tmp_path):
    model = """
    array [0..2] of var 1..3: x; var 0..3: n; var bool: b;
    constraint count(x, 2, n);
    constraint b -> global_cardinality(x, array1d(5..6, [1, 3]), array1d(5..6, [n, 1]));
    constraint not nvalue(n, x);
    constraint b \\/ among(1, x, {1, 3, 9});
    constraint b -> all_equal([x[0], x[2], n + 1]);
    constraint b <-> at_most(1, x, 1);
    constraint b \\/ alldifferent_except(x, {1});
    """
    constraints = ["count_eq", "global_cardinality_imp", "nvalue_reif", "among_imp", "at_most_int_reif"]
    names = {f"fzn_{name}" for name in [*constraints, "alldifferent_except_imp"]}

    def holds(x, n, b) -> bool:
        if x.count(2) != n or len(set(x)) == n or b != (x.count(1) <= 1):
            return False
        if b:
            return [x.count(1), x.count(3)] == [n, 1] and n + 1 == x[0] == x[2]
        return x.count(2) == 2 and different([value for value in x if value != 1])

    check_model(model, tmp_path, {"x": arrays(3, range(1, 4)), "n": [0, 1, 2, 3], "b": [False, True]}, names, holds)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("fzn_global_cardinality([a,b],[1,2],[n,m])", [0, 2]),
        ("fzn_bin_packing_load_offset([n,m],1,[a,b],[1,3])", [0, 4]),
    ],
)
def test_several_values_follow_from_a_warm_start(constraint, expected):
    variables = "var 1..2: a; var 1..2: b; var 0..4: n; var 0..4: m;"
    problem = translate(parse(f"{variables} constraint {constraint}; solve :: warm_start([a,b],[2,2]) satisfy;"))
    add_hints(problem)
    hint = problem.builder.model.solution_hint
    values = dict(zip(hint.vars, hint.values, strict=True))
    assert [values[problem.symbols.term(name).variable] for name in "nm"] == expected
