"""Bin packing: against its definition on random instances, and through MiniZinc."""

from __future__ import annotations

from unittest.mock import patch

from few import examples
from fzn_instances import arrays, check, check_model, operands
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.constraints import scheduling as packing

EXAMPLES = settings(max_examples=examples(25), deadline=None)
ITEMS = st.lists(st.tuples(operands(-1, 3), st.integers(0, 3)), max_size=4)
MANY = st.sampled_from([packing.MANY_LITERALS, packing.MANY_LITERALS, 0])


def load(bins: list[int], weights: list[int], number: int) -> int:
    return sum(weight for item, weight in zip(bins, weights, strict=True) if item == number)


def columns(items: list[tuple]) -> tuple[list, list]:
    return [item for item, _ in items], [weight for _, weight in items]


@EXAMPLES
@given(st.integers(0, 5), ITEMS, MANY)
def test_bin_packing(capacity, items, many):
    def holds(capacity, bins, weights) -> bool:
        return all(load(bins, weights, number) <= capacity for number in bins)

    with patch.object(packing, "MANY_LITERALS", many):
        check("fzn_bin_packing", holds, capacity, *columns(items))


@EXAMPLES
@example([], 1, [])
@example([], 1, [("0..1", 0)])
@given(st.lists(st.integers(0, 5), max_size=3), st.integers(-1, 2), ITEMS)
def test_bin_packing_capa(capacities, first, items):
    def holds(capacities, first, bins, weights) -> bool:
        numbers = range(first, first + len(capacities))
        fits = all(load(bins, weights, number) <= capacities[number - first] for number in numbers)
        return fits and set(bins) <= set(numbers)

    check("fzn_bin_packing_capa_offset", holds, capacities, first, *columns(items))


@EXAMPLES
@example([], 1, [])
@example([], 1, [("0..1", 0)])
@given(st.lists(operands(-1, 5), max_size=3), st.integers(-1, 2), ITEMS)
def test_bin_packing_load(loads, first, items):
    def holds(loads, first, bins, weights) -> bool:
        numbers = range(first, first + len(loads))
        return loads == [load(bins, weights, number) for number in numbers] and set(bins) <= set(numbers)

    check("fzn_bin_packing_load_offset", holds, loads, first, *columns(items))


def test_packing_library_agrees_with_the_standard_one(tmp_path):
    model = """
    array [0..2] of var 4..7: x; array [5..6] of var 0..4: l; var bool: b;
    array [0..2] of int: w = array1d(0..2, [1, 2, 3]);
    constraint bin_packing_load(l, x, w);
    constraint b -> bin_packing(3, x, w);
    constraint not b -> bin_packing_capa(array1d(6..7, [4, 1]), array1d(0..1, [x[1], x[2]]), array1d(0..1, [2, 1]));
    constraint b <-> not bin_packing_capa(array1d(5..6, [1, 5]), x, w);
    """
    names = {
        "fzn_bin_packing_load_offset",
        "fzn_bin_packing_imp",
        "fzn_bin_packing_capa_offset_imp",
        "fzn_bin_packing_capa_offset_reif",
    }

    def holds(x, l, b) -> bool:  # noqa: E741
        loads = [load(x, [1, 2, 3], number) for number in (5, 6)]
        if loads != l or not set(x) <= {5, 6} or b == (loads[0] <= 1 and loads[1] <= 5):
            return False
        return loads[0] == loads[1] == 3 if b else x[1:] == [6, 6]

    domains = {"x": arrays(3, range(4, 8)), "l": arrays(2, range(5)), "b": [False, True]}
    check_model(model, tmp_path, domains, names, holds)


def test_knapsack_and_flow_under_a_condition(tmp_path):
    model = """
    array [0..1] of var -1..2: x; var -1..6: w; var -1..6: p; array [1..3] of var 0..1: f; var bool: b;
    constraint b -> knapsack(array1d(0..1, [1, 2]), array1d(0..1, [3, 1]), x, w, p);
    constraint b \\/ network_flow_cost([|4, 5 | 4, 6 | 5, 6|], array1d(4..6, [1, 0, -1]), [1, 3, 1], f, p);
    constraint b \\/ (x[0] = 2 /\\ x[1] = 2 /\\ w = 6);
    constraint b -> sum(f) = 0;
    """

    def holds(x, w, p, f, b) -> bool:
        if b:
            return min(x) >= 0 and w == x[0] + 2 * x[1] and p == 3 * x[0] + x[1] and sum(f) == 0
        return x == [2, 2] and w == 6 and f[0] + f[1] == 1 and f[0] == f[2] and p == f[0] + 3 * f[1] + f[2]

    amounts = range(-1, 7)
    domains = {"x": arrays(2, range(-1, 3)), "w": amounts, "p": amounts, "f": arrays(3, range(2)), "b": [False, True]}
    check_model(model, tmp_path, domains, set(), holds)
