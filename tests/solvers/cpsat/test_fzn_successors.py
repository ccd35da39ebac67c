"""Circuit, subcircuit and inverse against their definitions in Python, and through MiniZinc."""

from __future__ import annotations

import itertools

import pytest
from few import examples
from fzn_forms import Instance, int_operands, model_solutions, verdicts
from hypothesis import given, settings
from hypothesis import strategies as st

EXAMPLES = settings(max_examples=examples(40), deadline=None)

repeated = st.lists(st.integers(1, 3), max_size=1)


def is_circuit(successors: list[int], first: int) -> bool:
    """Following them from the first node, one returns there after as many steps as there are nodes, at least two."""
    node, steps = 0, 0
    while steps < len(successors):
        node, steps = successors[node] - first, steps + 1
        if node == 0 or not 0 <= node < len(successors):
            break
    return node == 0 and steps == len(successors) != 1


def is_subcircuit(successors: list[int], first: int) -> bool:
    """The nodes that do not succeed themselves make a circuit, if there are any."""
    moved = [node for node, head in enumerate(successors, first) if head != node]
    heads = [successors[node - first] for node in moved]
    return set(heads) <= set(moved) and is_circuit([moved.index(head) for head in heads], 0)


CIRCUITS = {"fzn_circuit_offset": is_circuit, "fzn_subcircuit_offset": is_subcircuit}


def check_circuit(name: str, kinds: list[str], first: int, equal: list[int]) -> None:
    instance = Instance()
    terms = instance.array("x", kinds, equal)
    instance.check(name, [terms, f" {first}"], lambda values: CIRCUITS[name](values, first))


@pytest.mark.parametrize("name", CIRCUITS)
@EXAMPLES
@given(st.data(), st.integers(-1, 2), repeated)
def test_random_circuits(name, data, first, equal):
    check_circuit(name, data.draw(st.lists(int_operands(first - 1, first + 4), max_size=4)), first, equal)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize(
    ("kinds", "first"),
    [
        ([], 1),
        (["1..1"], 1),
        (["0"], 0),
        (["4..6"], 5),
        (["1..4"] * 4, 1),
        (["-1..3"] * 3, -1),
        (["0..5", "0..4", "1..5", "0..4"], 1),
        (["2", "1", "1..4", "1..4"], 1),
        (["0..1", "0..1"], 0),
        (["0..1"], 0),
    ],
)
def test_circuit_has_the_solutions_of_enumeration(name, kinds, first):
    check_circuit(name, kinds, first, [])


def are_inverse(left: list[int], right: list[int], first: int, other: int) -> bool:
    """Both are inside the indices of the other, and going there and back leads to where one was."""
    there = all(0 <= j - other < len(right) and right[j - other] == i for i, j in enumerate(left, first))
    return there and all(0 <= i - first < len(left) and left[i - first] == j for j, i in enumerate(right, other))


def are_inverse_in_range(left: list[int], right: list[int], first: int, other: int) -> bool:
    """Whatever is inside the indices of the other leads back."""
    there = all(right[j - other] == i for i, j in enumerate(left, first) if 0 <= j - other < len(right))
    return there and all(left[i - first] == j for j, i in enumerate(right, other) if 0 <= i - first < len(left))


INVERSES = {"fzn_inverse_offset": are_inverse, "fzn_inverse_in_range_offset": are_inverse_in_range}


def check_inverse(name: str, left: list[str], right: list[str], first: int, other: int, equal: list[int]) -> None:
    instance = Instance()
    operands = [instance.array("x", left, equal), instance.array("y", right)]
    instance.check(name, [*operands, f" {first}", f" {other}"], lambda *values: INVERSES[name](*values, first, other))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", INVERSES)
@EXAMPLES
@given(st.data(), st.integers(-1, 2), st.integers(-1, 2), st.integers(0, 3), st.integers(0, 9), repeated)
def test_random_inverses(name, data, first, other, size, longer, equal):
    left = data.draw(st.lists(int_operands(other - 1, other + size), min_size=size, max_size=size))
    size = size + 1 if longer == 9 else size
    right = data.draw(st.lists(int_operands(first - 1, first + size), min_size=size, max_size=size))
    check_inverse(name, left, right, first, other, equal)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", INVERSES)
@pytest.mark.parametrize(
    ("left", "right", "first", "other"),
    [
        ([], [], 1, 1),
        ([], ["1..1"], 1, 1),
        (["1"], ["0..2"], 1, 1),
        (["0..1", "0..1"], ["0..1", "0..1"], 0, 0),
        (["4..6"] * 2, ["-2..0"] * 3, -2, 4),
        (["1..3"] * 3, ["1..3"] * 3, 1, 1),
    ],
)
def test_inverse_has_the_solutions_of_enumeration(name, left, right, first, other):
    check_inverse(name, left, right, first, other, [])


@pytest.mark.full
@pytest.mark.parametrize("name", INVERSES)
def test_own_inverse(name):
    instance = Instance()
    operands = instance.array("x", ["0..5"] * 4)
    instance.check(name, [operands, operands, " 1", " 1"], lambda x, y: INVERSES[name](x, y, 1, 1))


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("values", [(2, 3, 4, 1), (2, 1, 4, 3), (1, 3, 2, 4), (1, 2, 3, 4), (2, 2, 4, 1), (5, 1, 2, 3)])
def test_hints_of_circuits(name, values):
    instance = Instance()
    arguments = [instance.array("x", ["0..5"] * 4), " 1"]
    forms = ["", "_imp", "_reif"] if CIRCUITS[name](list(values), 1) else ["_imp", "_reif"]
    instance.check_hints(name, arguments, dict(zip(arguments[0], values, strict=True)), forms)


@pytest.mark.parametrize("name", INVERSES)
@pytest.mark.parametrize("values", [(2, 3, 1, 3, 1, 2), (2, 3, 1, 2, 3, 1), (5, 5, 5, 5, 5, 5)])
def test_hints_of_inverses(name, values):
    instance = Instance()
    left, right = instance.array("x", ["0..5"] * 3), instance.array("y", ["1..5"] * 3)
    forms = ["", "_imp", "_reif"] if INVERSES[name](values[:3], values[3:], 1, 1) else ["_imp", "_reif"]
    instance.check_hints(name, [left, right, " 1", " 1"], dict(zip(left + right, values, strict=True)), forms)


@pytest.mark.full
def test_successor_library_agrees_with_the_standard_one(tmp_path):
    model = r"""
    include "globals.mzn";
    array [0..2] of var -1..3: x; array [2..4] of var -1..3: f = array1d(2..4, x);
    array [0..2] of var int: g = array1d(0..2, [x[1] + 2, x[2] + 2, x[0] + 2]);
    array [1..6] of var bool: b;
    constraint b[1] <-> circuit(x) /\ subcircuit(array1d(1..0, []));
    constraint b[2] <-> not subcircuit(x);
    constraint b[3] -> subcircuit(x);
    constraint b[4] <-> inverse(f, g);
    constraint inverse_in_range(f, g) -> b[5];
    constraint b[6] -> (inverse_in_range(f, g) \/ circuit(x));
    constraint inverse(array1d(1..0, []), array1d(1..0, [])) /\ circuit(array1d(1..0, []));
    output ["(\(x), \(b))"];
    """
    expected = []
    for x in itertools.product(range(-1, 4), repeat=3):
        ring, part = is_circuit(x, 0), is_subcircuit(x, 0)
        inverse, in_range = (each(x, [x[1] + 2, x[2] + 2, x[0] + 2], 2, 0) for each in INVERSES.values())
        truths = ring, not part, part, inverse, in_range, in_range or ring
        expected.extend((list(x), b) for b in verdicts("==>=<>", *truths))
    assert model_solutions(model, tmp_path) == sorted(expected, key=str)


@pytest.mark.full
def test_library_with_optional_successors(tmp_path):
    model = r"""
    include "circuit_opt.mzn";
    array [0..2] of var opt -1..3: x; array [1..3] of var bool: b;
    constraint b[1] -> circuit(x);
    constraint b[2] <-> circuit(x);
    constraint b[3] <-> not circuit(x);
    output ["(\(x), \(b))"];
    """
    expected = []
    for x in itertools.product([None, *range(-1, 4)], repeat=3):
        holds = is_subcircuit([i if j is None else j for i, j in enumerate(x)], 0) and all(
            i != j for i, j in enumerate(x)
        )
        expected.extend((list(x), b) for b in verdicts(">==", holds, holds, not holds))
    assert model_solutions(model, tmp_path) == sorted(expected, key=str)
