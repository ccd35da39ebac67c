"""Tables, automata and decision diagrams against their definitions in Python, and through MiniZinc."""

from __future__ import annotations

import itertools

import pytest
from few import examples
from fzn_forms import Instance, array_text, bool_operands, int_operands, model_solutions, set_text, verdicts
from fzn_support import flatzinc, solutions
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.constraints import extension as automata

EXAMPLES = settings(max_examples=examples(40), deadline=None)

repeated = st.lists(st.integers(1, 3), max_size=1)


# Tables


def rows_of(width: int, values: st.SearchStrategy) -> st.SearchStrategy[list[list]]:
    return st.lists(st.lists(values, min_size=width, max_size=width), max_size=6)


@EXAMPLES
@given(st.data(), st.integers(1, 4), repeated)
def test_table_int(data, width, equal):
    instance = Instance()
    terms = instance.array("x", data.draw(st.lists(int_operands(-2, 4), min_size=width, max_size=width)), equal)
    rows = data.draw(rows_of(width, st.integers(-2, 4)))
    instance.check("fzn_table_int_flat", [terms, array_text(sum(rows, []))], lambda values: values in rows)


@EXAMPLES
@given(st.data(), st.integers(1, 4), repeated)
def test_table_bool(data, width, equal):
    instance = Instance()
    terms = instance.array("x", data.draw(st.lists(bool_operands, min_size=width, max_size=width)), equal)
    rows = data.draw(rows_of(width, st.booleans()))
    instance.check("fzn_table_bool_flat", [terms, array_text(sum(rows, []))], lambda values: values in rows)


def test_rows_of_the_wrong_length():
    with pytest.raises(RuntimeError, match="1: fzn_table_int_flat: the rows of a table are not as long"):
        solutions(flatzinc("fzn_table_int_flat([x,x],[1,2,3])", {"x": "0..3"}))


# Automata


def accepted(word: list[int], first: int, width: int, heads: list, start: int, finals: set[int]) -> bool:
    """Is the word accepted by an automaton whose table holds states, 0 for none, or sets of states?"""
    states = {start}
    for symbol in word:
        if not first <= symbol < first + width:
            return False
        row = [heads[(state - 1) * width + symbol - first] for state in states]
        states = set().union(*(entry if isinstance(entry, (set, frozenset)) else {entry} - {0} for entry in row))
    return bool(states & finals)


def check_automaton(name: str, kinds: list[str], equal: list[int], machine: tuple) -> None:
    first, width, heads, start, finals = machine
    instance = Instance()
    terms = instance.array("x", kinds, equal)
    parameters = [f" {first}", f" {width}", array_text(heads), f" {start}", f" {set_text(finals)}"]
    instance.check(name, [terms, *parameters], lambda word: accepted(word, *machine))


@st.composite
def machines(draw, entries):
    """First symbol, number of symbols, table, start and final states; `entries` makes what stands in the table."""
    states, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    heads = draw(st.lists(entries(states), min_size=states * width, max_size=states * width))
    finals = draw(st.sets(st.integers(1, states)))
    return draw(st.integers(-1, 1)), width, heads, draw(st.integers(1, states)), finals


words = st.lists(int_operands(-2, 4), max_size=4)


@EXAMPLES
@given(words, repeated, machines(lambda states: st.integers(0, states)))
def test_regular(kinds, equal, machine):
    check_automaton("fzn_regular_flat", kinds, equal, machine)


@EXAMPLES
@given(words, repeated, machines(lambda states: st.sets(st.integers(1, states), max_size=2)))
def test_regular_nfa(kinds, equal, machine):
    check_automaton("fzn_regular_nfa_flat", kinds, equal, machine)


TWO_ONES = (0, 2, [1, 2, 2, 3, 3, 0], 1, {3})


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("kinds", "machine"),
    [
        ([], TWO_ONES),
        ([], (0, 2, [1, 2, 2, 3, 3, 0], 3, {3})),
        (["0..1"] * 5, TWO_ONES),
        (["-1..2", "0..1", "-3..0", "1"], TWO_ONES),
        (["0", "1", "1"], TWO_ONES),
        (["2", "0..1", "0..1"], TWO_ONES),
        (["0..1", "0..1"], (0, 2, [1, 2, 2, 3, 3, 0], 1, set())),
        (["0..1"], (0, 2, [0] * 6, 1, {1})),
        (["5..7"] * 2, TWO_ONES),
        (["{-1,7}"] * 2, TWO_ONES),
    ],
)
def test_corner_cases_of_regular(kinds, machine):
    check_automaton("fzn_regular_flat", kinds, [], machine)


THIRD_LAST_IS_ONE = (0, 2, [{1}, {1, 2}, {3}, {3}, {4}, {4}, set(), set()], 1, {4})


def test_automaton_that_is_too_large_if_made_deterministic(monkeypatch):
    monkeypatch.setattr(automata, "MOST_STATES", 4)
    instance = Instance()
    terms = instance.array("x", ["0..1", "-1..1", "0..1", "0..2", "0..1"])
    first, width, heads, start, finals = THIRD_LAST_IS_ONE
    arguments = [terms, f" {first}", f" {width}", array_text(heads), f" {start}", f" {set_text(finals)}"]
    holds = lambda word: accepted(word, *THIRD_LAST_IS_ONE)  # noqa: E731
    instance.check("fzn_regular_nfa_flat", arguments, holds, forms=["", "_imp"])
    with pytest.raises(RuntimeError, match="has more than .* states"):
        instance.check("fzn_regular_nfa_flat", arguments, holds, forms=["_reif"])


def test_unbounded_operands():
    parameters = ",".join(text.strip() for text in ("0", "2", array_text(TWO_ONES[2]), "1", "{3}"))
    text = flatzinc(
        f"fzn_regular_flat_reif([x,y],{parameters},r)", {"x": "-5000000000..5000000000", "y": "0..1", "r": "bool"}
    ).replace("solve", "constraint int_le(x,-4999999999); constraint int_eq(y,1); solve")
    assert sorted(tuple(each.values()) for each in solutions(text)) == [
        (-5000000000, 1, False),
        (-4999999999, 1, False),
    ]
    text = flatzinc(f"fzn_regular_flat([x,y],{parameters})", {"x": "-5000000000..5000000000", "y": "0..1"})
    assert solutions(text) == [{"x": 1, "y": 1}]


# Decision diagrams


@st.composite
def diagrams(draw):
    """The length of the words and edges (tail, label, head) between layers; the nodes of a layer are numbered in a
    row, 0 is the last one."""
    length = draw(st.integers(1, 3))
    sizes = [1, *draw(st.lists(st.integers(1, 3), min_size=length - 1, max_size=length - 1))]
    ends = list(itertools.accumulate(sizes))
    layers = [list(range(end - size + 1, end + 1)) for size, end in zip(sizes, ends, strict=True)] + [[0]]
    edges = []
    for tails, heads in itertools.pairwise(layers):
        edge = st.tuples(st.sampled_from(tails), st.sets(st.integers(-2, 3), max_size=3), st.sampled_from(heads))
        edges.extend(draw(st.lists(edge, max_size=4)))
    return length, edges


def on_path(word: list[int], edges: list[tuple]) -> bool:
    nodes = {1}
    for symbol in word:
        nodes = {head for tail, label, head in edges if tail in nodes and symbol in label}
    return 0 in nodes


@EXAMPLES
@given(st.data(), diagrams(), st.sampled_from(["fzn_mdd", "fzn_mdd_nondet"]), repeated)
@example(None, (2, [(1, {0}, 2), (1, {1}, 3), (2, {0, 1}, 0), (3, {-1}, 0)]), "fzn_mdd", [])
def test_mdd(data, diagram, name, equal):
    length, edges = diagram
    kinds = data.draw(st.lists(int_operands(-3, 4), min_size=length, max_size=length)) if data else ["-1..2"] * 2
    instance = Instance()
    terms = instance.array("x", kinds, equal)
    tails, labels, heads = ([edge[column] for edge in edges] for column in range(3))
    count = max(tails + heads, default=1)
    columns = [f" {count}", " []", f" {len(edges)}", array_text(tails), array_text(labels), array_text(heads)]
    instance.check(name, [terms, *columns], lambda word: on_path(word, edges))


# Costs


def cost_of(word: list[int], machine: tuple, costs: list[int]) -> int | None:
    first, width, heads, state, finals = machine
    total = 0
    for symbol in word:
        if state == 0 or not first <= symbol < first + width:
            return None
        place = (state - 1) * width + symbol - first
        state, total = heads[place], total + costs[place]
    return total if state in finals else None


@pytest.mark.full
@settings(EXAMPLES, max_examples=examples(25))
@given(st.data(), st.lists(int_operands(-2, 4), max_size=3), repeated, machines(lambda states: st.integers(0, states)))
@example(None, ["0..2", "0..1"], [], TWO_ONES)
@example(None, [], [], (0, 1, [1], 1, {1}))
def test_cost_regular(data, kinds, equal, machine):
    first, width, heads, start, finals = machine
    costs = data.draw(st.lists(st.integers(-3, 3), min_size=len(heads), max_size=len(heads))) if data else [1] * 6
    instance = Instance()
    terms, total = instance.array("x", kinds, equal), instance.operand("c", "-4..4")
    parameters = [f" {first}", f" {width}", array_text(heads), f" {start}", f" {set_text(finals)}"]
    instance.check(
        "fzn_cost_regular_flat",
        [terms, *parameters, array_text(costs[: len(heads)]), total],
        lambda word, cost: cost_of(word, machine, costs) == cost,
    )


# Warm starts, bounds, and the library


@pytest.mark.parametrize("values", [(0, 1, 1, 0), (1, 1, 1, 0), (0, 5, 1, 1)])
@pytest.mark.parametrize("reified", [False, True])
def test_table_hints_reach_every_variable(values, reified):
    first, width, heads, start, finals = TWO_ONES
    instance = Instance()
    terms, total = instance.array("x", ["0..5"] * 4), instance.operand("c", "0..20")
    cost = cost_of(list(values), TWO_ONES, [1, 2, 3, 4, 5, 6])
    if not reified and cost is None:
        return
    forms = ["_reif", "_imp"] if reified else [""]
    machine = [f" {first}", f" {width}", array_text(heads), f" {start}", f" {set_text(finals)}"]
    assignment = dict(zip([*terms, total], [*values, cost or 3], strict=True))
    instance.check_hints(
        "fzn_cost_regular_flat", [terms, *machine, array_text([1, 2, 3, 4, 5, 6]), total], assignment, forms
    )
    instance.check_hints("fzn_regular_flat", [terms, *machine], assignment, forms)
    nfa = [f" {first}", f" {width}", array_text([{head} - {0} for head in heads]), f" {start}", f" {set_text(finals)}"]
    instance.check_hints("fzn_regular_nfa_flat", [terms, *nfa], assignment, forms)
    instance.check_hints("fzn_table_int_flat", [terms, array_text([*values, 5, 5, 5, 5])], assignment, forms)
    instance.check_hints("fzn_table_int_flat", [terms, array_text([5, 5, 5, 5])], assignment, ["_reif", "_imp"])


def test_undeclared_bounds():
    text = "var int: x :: output_var; var int: y :: output_var; constraint {}; solve satisfy;"
    dfa = "0,2,[1,2,2,3,3,0],1,{3}"
    assert len(solutions(text.format("fzn_table_int_flat([x,y],[-3,4,9,4])"))) == 2
    assert solutions(text.format(f"fzn_regular_flat([x,y],{dfa})")) == [{"x": 1, "y": 1}]
    assert solutions(text.format(f"fzn_cost_regular_flat([x,1],{dfa},[1,2,3,4,5,6],y)")) == [{"x": 1, "y": 6}]
    assert solutions(text.format("fzn_circuit_offset([x,y],3)")) == [{"x": 4, "y": 3}]
    assert len(solutions(text.format("fzn_subcircuit_offset([x,y],3)"))) == 2
    assert solutions(text.format("fzn_inverse_offset([3,x],[y,2],1,3)")) == [{"x": 4, "y": 1}]


@pytest.mark.full
def test_table_library_agrees_with_the_standard_one(tmp_path):
    model = r"""
    include "table.mzn";
    array [0..1] of var 0..2: x; array [1..2] of var bool: p; array [1..5] of var bool: b;
    array [3..4, 0..1] of int: t = array2d(3..4, 0..1, [0, 1, 2, 2]);
    constraint b[1] <-> table(x, t);
    constraint b[2] -> table(x, t);
    constraint not table(x, t) -> b[3];
    constraint b[4] <-> table(p, [|true, false | false, true|]);
    constraint b[5] -> not table(p, [|true, false | false, true|]);
    constraint table(p, array2d(1..3, 1..2, [true, true, true, false, false, true]));
    constraint table(array1d(1..0, []), array2d(1..2, 1..0, []));
    constraint not table(array1d(1..0, []), array2d(1..0, 1..0, []));
    constraint not table(x, array2d(1..0, 0..1, []));
    output ["(\(x), \(p), \(b))"];
    """
    expected = []
    for x, y in itertools.product(range(3), repeat=2):
        inside = (x, y) in ((0, 1), (2, 2))
        for p in ([True, True], [True, False], [False, True]):
            differ = p[0] != p[1]
            choices = verdicts("=><=>", inside, inside, not inside, differ, not differ)
            expected.extend(([x, y], p, b) for b in choices)
    assert model_solutions(model, tmp_path) == sorted(expected, key=str)


@pytest.mark.full
def test_automaton_library_agrees_with_the_standard_one(tmp_path):
    model = r"""
    include "regular.mzn"; include "regular_nfa.mzn"; include "cost_regular.mzn"; include "mdd.mzn";
    include "mdd_nondet.mzn"; include "regular_regexp.mzn";
    array [3..5] of var -1..2: x; array [1..10] of var bool: b;
    array [1..2, 1..2] of int: d = [|1, 2 | 2, 0|];
    array [1..2, 0..1] of set of int: n = array2d(1..2, 0..1, [{1}, {1, 2}, {2}, {}]);
    array [1..2, 1..2] of int: cost = [|1, 2 | 3, 4|];
    constraint b[1] <-> regular(x, 2, 2, d, 1, {2});
    constraint b[2] <-> not regular(x, 2, 0..1, array2d(1..2, 0..1, [1, 2, 2, 0]), 1, {2});
    constraint b[3] -> regular(x, 2, 0..1, array2d(1..2, 0..1, [1, 2, 2, 0]), 1, {2});
    constraint b[4] <-> regular_nfa(x, 2, 0..1, n, 1, {2});
    constraint b[5] <-> regular_nfa(x, 2, 2, array2d(1..2, 1..2, [{1}, {1, 2}, {2}, {}]), 1, {2});
    constraint b[6] <-> cost_regular(x, 2, 2, d, 1, {2}, cost, 6);
    constraint b[7] -> cost_regular(x, 2, 2, d, 1, {2}, cost, 5);
    constraint b[8] <-> mdd(x, 4, [1, 2, 2, 3], 4, [1, 1, 2, 4], [{-1}, 0..1, {1}, 1..2], [2, 3, 4, 0]);
    constraint b[9] <-> not mdd_nondet(x, 4, [1, 2, 2, 3], 4, [1, 1, 3, 4], [{1}, 0..1, {1}, {1}], [2, 3, 4, 0]);
    constraint b[10] <-> regular(x, "1* 2 .*");
    output ["(\(x), \(b))"];
    """
    dfa, nfa, cost = [1, 2, 2, 0], [{1}, {1, 2}, {2}, set()], [1, 2, 3, 4]
    expected = []
    for x in itertools.product(range(-1, 3), repeat=3):
        low, high = accepted(x, 0, 2, dfa, 1, {2}), accepted(x, 1, 2, dfa, 1, {2})
        price = cost_of(x, (1, 2, dfa, 1, {2}), cost)
        nfas = (accepted(x, first, 2, nfa, 1, {2}) for first in (0, 1))
        mdds = x[:2] == (-1, 1) and x[2] in (1, 2), x[0] not in (0, 1) or x[1:] != (1, 1)
        expression = 2 in x and all(value == 1 for value in x[: x.index(2)])
        choices = verdicts("==>===>===", high, not low, low, *nfas, price == 6, price == 5, *mdds, expression)
        expected.extend((list(x), b) for b in choices)
    assert model_solutions(model, tmp_path) == sorted(expected, key=str)
