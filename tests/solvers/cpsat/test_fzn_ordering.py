"""Lexicographic order, value precedence and positions of extremes: on random instances, and through MiniZinc."""

from __future__ import annotations

from operator import le, lt
from unittest.mock import patch

from few import examples
from fzn_forms import bool_operands
from fzn_instances import arrays, check, check_model, operands
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.constraints import ordering

EXAMPLES = settings(max_examples=examples(25), deadline=None)
TERMS = st.lists(operands(-1, 2), max_size=4)
ORDERS = st.sampled_from([("less", lt), ("lesseq", le)])


@EXAMPLES
@given(ORDERS, TERMS, st.lists(st.one_of(operands(-1, 2), st.just("=0")), max_size=4))
def test_lexicographic_integers(order, left, right):
    name, compare = order
    check(f"fzn_lex_{name}_int", compare, left, right)


@EXAMPLES
@given(ORDERS, st.lists(bool_operands, max_size=4), st.lists(bool_operands, max_size=4))
def test_lexicographic_bools(order, left, right):
    name, compare = order
    check(f"fzn_lex_{name}_bool", compare, left, right)


def precede(order: list[int], values: list[int]) -> bool:
    """Before every order[i + 1] there is an order[i]."""
    pairs = list(zip(order, order[1:], strict=False))
    return all(
        before in values[:place] for place, value in enumerate(values) for before, after in pairs if value == after
    )


@EXAMPLES
@given(st.integers(-1, 2), st.integers(-1, 2), TERMS)
def test_value_precede(before, after, terms):
    check("fzn_value_precede_int", lambda before, after, values: precede([before, after], values), before, after, terms)


@EXAMPLES
@given(st.lists(st.integers(-1, 2), max_size=4), TERMS)
def test_value_precede_chain(order, terms):
    check("fzn_value_precede_chain_int", precede, order, terms)


@EXAMPLES
@example(["1..3", "1..4", "2..4"], 0)
@example(["-3..-1", "-3..-2"], 0)
@given(st.lists(operands(-1, 5, 4), max_size=4), st.sampled_from([ordering.MANY_LITERALS, 0]))
def test_seq_precede_chain(terms, many):
    with patch.object(ordering, "MANY_LITERALS", many):
        check("fzn_seq_precede_chain_int", lambda values: precede(range(1, 6), values), terms)


EXTREMES = st.sampled_from([max, min])
INDICES = st.integers(-1, 2), operands(-2, 5, 5)


def check_position(extreme, kind: str, *arguments) -> None:
    def holds(values, first, index) -> bool:
        return bool(values) and index == first + values.index(extreme(values))

    check(f"fzn_{extreme.__name__}imum_arg_{kind}_offset", holds, *arguments)


@EXAMPLES
@given(EXTREMES, TERMS, *INDICES)
def test_position_of_an_extreme_integer(extreme, terms, first, index):
    check_position(extreme, "int", terms, first, index)


@EXAMPLES
@given(EXTREMES, st.lists(bool_operands, max_size=4), *INDICES)
def test_position_of_an_extreme_bool(extreme, literals, first, index):
    check_position(extreme, "bool", literals, first, index)


BOOLS = [False, True]


def test_library_of_orders(tmp_path):
    model = """
    array [0..2] of var 1..3: x; array [4..5] of var 1..3: y; var bool: b;
    constraint b -> lex_less(x, y);
    constraint b \\/ lex_lesseq([y[4] > 1, true], [x[0] > 2, x[1] < 3]);
    constraint b \\/ not lex_greater(y, x);
    constraint b <-> value_precede(2, 1, x);
    constraint b \\/ seq_precede_chain(y);
    constraint not (b /\\ value_precede_chain([3, 1, 2], y));
    """
    names = {"lex_lesseq_bool_imp", "lex_less_int_reif", "value_precede_int_reif"}
    names |= {"seq_precede_chain_int_imp", "value_precede_chain_int_reif"}

    def holds(x, y, b) -> bool:
        return (
            (not b or x < y)
            and (b or [y[0] > 1, True] <= [x[0] > 2, x[1] < 3])
            and (b or y <= x)
            and b == precede([2, 1], x)
            and (b or precede([1, 2, 3], y))
            and not (b and precede([3, 1, 2], y))
        )

    domains = {"x": arrays(3, range(1, 4)), "y": arrays(2, range(1, 4)), "b": BOOLS}
    check_model(model, tmp_path, domains, {f"fzn_{name}" for name in names}, holds)


def test_library_of_matrix_orders(tmp_path):
    model = """
    array [1..2, 1..2] of var 0..2: x; var bool: b; var bool: c;
    constraint b -> lex2(x);
    constraint c -> strict_lex2(x);
    constraint b \\/ c \\/ lex_chain_less(x);
    constraint not c -> increasing([x[2, 2], x[1, 1]]);
    """
    names = {"fzn_lex_lesseq_int_imp", "fzn_lex_less_int_imp"}

    def holds(x, b, c) -> bool:
        rows, columns = [x[:2], x[2:]], [x[::2], x[1::2]]
        return (
            (not b or (rows[0] <= rows[1] and columns[0] <= columns[1]))
            and (not c or (rows[0] < rows[1] and columns[0] < columns[1]))
            and (b or c or columns[0] < columns[1])
            and (c or x[3] <= x[0])
        )

    check_model(model, tmp_path, {"x": arrays(4, range(3)), "b": BOOLS, "c": BOOLS}, names, holds)


def test_library_of_positions(tmp_path):
    model = """
    array [0..2] of var 1..3: x; array [2..4] of var bool: y; var 0..5: i; var bool: b;
    constraint arg_max(x) = i;
    constraint b -> minimum_arg(x, i + 1);
    constraint b <-> maximum_arg(y, i + 2);
    constraint arg_min(y) = 3;
    """
    kinds = ["maximum_arg_int", "minimum_arg_int", "maximum_arg_bool", "minimum_arg_bool"]
    forms = ["", "_imp", "_reif", ""]

    def holds(x, y, i, b) -> bool:
        return (
            i == x.index(max(x))
            and (not b or x.index(min(x)) == i + 1)
            and b == (y.index(max(y)) == i)
            and y.index(min(y)) == 1
        )

    names = {f"fzn_{kind}_offset{form}" for kind, form in zip(kinds, forms, strict=True)}
    domains = {"x": arrays(3, range(1, 4)), "y": arrays(3, BOOLS), "i": range(6), "b": BOOLS}
    check_model(model, tmp_path, domains, names, holds)


def test_precedence_of_sets(tmp_path):
    model = """
    array [0..1] of var set of 1..2: s; var bool: b; array [0..3] of var bool: x;
    constraint b <-> value_precede(2, 1, s);
    constraint forall (i in 0..1, v in 1..2) (x[2 * i + v - 1] <-> v in s[i]);
    """

    def holds(x, b) -> bool:
        return b == (x[::2] <= x[1::2])

    check_model(model, tmp_path, {"x": arrays(4, BOOLS), "b": BOOLS}, {"fzn_lex_lesseq_bool_reif"}, holds)
