"""Whatever is passed to the public functions is taken, or refused in one line that names the argument."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import textwrap
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_graphs import graph_of

import moccasin_mzn as mz


@pytest.fixture(autouse=True, scope="module")
def _elsewhere(tmp_path_factory):
    """Names of files that are nonsense are written to no checkout."""
    with contextlib.chdir(tmp_path_factory.mktemp("nonsense")):
        yield


CHAIN = graph_of([1] * 4, [2] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
BUFFERS = (mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2))
ASKED = {
    mz.solve: {"graph": CHAIN, "budget": 1.0, "search": "only", "time_limit": 5},
    mz.order: {"graph": CHAIN, "time_limit": 5},
    mz.frontier: {"graph": CHAIN, "budgets": [1.0], "search": "only", "time_limit": 5},
    mz.compare: {"graph": CHAIN, "budgets": 1.0, "only": ["keep-all"], "time_limit": 5},
    mz.allocate: {"buffers": BUFFERS, "time_limit": 5},
}
BARE = networkx.DiGraph([(0, 1)])


class Odd:
    """Whatever is done with it fails."""

    def __index__(self):
        raise ZeroDivisionError

    def __iter__(self):
        raise ZeroDivisionError


NONSENSE = [
    True, 0, -1, -0.0, 10**400, 2**70, 0.5, 1.5, -0.5, float("nan"), float("inf"), -float("inf"), 1j, Decimal("0.8"),
    "", "nonsense", "80", "-3", "1e309", "0", "\x00", "a\nb", "/no/such/file", Path("/no/such/file"), Path("/"), b"x",
    [], {}, (), set(), [None], [1, 2], [[1]], {"a": 1}, {1: 2}, {"out_time": None}, {"out_time": [1]},
    {"time": object()}, {"latency": 0.5}, {"a": []}, {"a": "x:y"}, object(), Odd(), len, int, print,
    range(4), iter([]), ..., NotImplemented, np.int64(-3), np.float64("nan"), np.bool_(True),
    np.zeros(3), np.zeros((2, 2)), np.array(7), np.array("x"),
    np.str_("nonsense"), np.datetime64("2020-01-01"), BARE, networkx.Graph(), CHAIN, BUFFERS, BUFFERS[0],
]  # fmt: skip
PLACES = [(function, name) for function in ASKED for name in inspect.signature(function).parameters if name != "own"]


def refusal(call) -> str | None:
    """What is said of nonsense; None: it was taken."""
    try:
        call()
    except mz.InputError as error:
        return str(error)
    return None


def one_line(said: str | None) -> bool:
    return said is None or (said != "" and "\n" not in said)


@pytest.mark.few(16)
@pytest.mark.parametrize(("function", "name"), PLACES, ids=lambda part: getattr(part, "__name__", part))
def test_wrong_arguments_are_refused_in_one_line_or_answered(function, name):
    for value in NONSENSE:
        if name == "on_progress" and callable(value):
            continue  # the user's own function, called with what it does not take
        assert one_line(refusal(lambda: function(**{**ASKED[function], name: value})))  # noqa: B023


BORN = {
    mz.Budget: {"fraction": 0.5},
    mz.Buffer: {"name": "a", "start": 0, "end": 2, "size": 3},
    mz.ComputationGraph: {"nodes": [0, 1], "durations": [1, 1], "sizes": [1, 1], "edges": [(0, 1)]},
    mz.CopyCosts: {},
    mz.Device: {},
    mz.Gap: {"start": 0, "end": 1},
    mz.Goal: {},
    mz.MemoryPool: {},
    mz.PagingCosts: {},
}
"""Types of arguments, with what makes one."""


@pytest.mark.few(15)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in BORN for name in kind.__dataclass_fields__])
def test_wrong_values_are_refused_for_every_argument(kind, name):
    """What is taken can be asked about: it has a hash."""
    for value in NONSENSE:
        assert one_line(refusal(lambda: hash(kind(**{**BORN[kind], name: value}))))  # noqa: B023


@given(st.sampled_from(PLACES), st.sampled_from(PLACES), st.sampled_from(NONSENSE), st.sampled_from(NONSENSE))
def test_two_wrong_arguments_are_refused_in_one_line(place, other, value, second):
    function, name = place
    asked = {**ASKED[function], name: value} | ({other[1]: second} if other[0] is function else {})
    asked.pop("on_progress", None)
    assert one_line(refusal(lambda: function(**asked)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mz.solve(np.zeros(3), 0.8), "graph: expected a ComputationGraph or its file, got array([0., 0., 0.])"),
        (lambda: mz.order(None), "graph: expected a ComputationGraph or its file, got None"),
        (lambda: mz.frontier({}), "graph: expected a ComputationGraph or its file, got {}"),
        (lambda: mz.compare(BARE, 0.8), "graph: expected a ComputationGraph or its file, got <networkx"),
        (lambda: mz.solve("/no/such.json", 0.8), "/no/such.json: cannot read: No such file"),
        (lambda: mz.read_graph(None), "path: expected the path of a file, got None"),
        (lambda: mz.write_graph("x", "y"), "graph: expected a ComputationGraph, got 'x'"),
        (
            lambda: mz.solve(CHAIN, "eighty"),
            "budget 'eighty': expected a fraction of the peak (0.8 or 80%) or an amount",
        ),
        (lambda: mz.solve(CHAIN, True), "budget True: expected a fraction of the peak"),
        (lambda: mz.solve(CHAIN, np.float64("nan")), "budget nan: expected a fraction of the peak"),
        (lambda: mz.allocate(None), "buffers: expected a sequence of buffers, got None"),
        (lambda: mz.allocate([1]), "buffers[0]: 1 is not a buffer"),
        (lambda: mz.allocate(BUFFERS, capacity=-1), "capacity -1 is not an integer of 0 or more"),
        (lambda: mz.solve(CHAIN, 0.8, count_fixed="yes"), "count fixed: expected true or false, got 'yes'"),
        (lambda: mz.solve(CHAIN, 0.8, on_progress=3), "on progress: expected a function, got 3"),
        (lambda: mz.ComputationGraph.from_networkx(BARE), "node 0: attribute 'duration' is missing"),
        (lambda: mz.ComputationGraph.from_networkx(3), "3 is no networkx graph"),
        (lambda: mz.ComputationGraph([0], [0.5], [1], []), "node 0: duration is 0.5, expected an integer >= 0"),
        (lambda: mz.ComputationGraph([0], [True], [1], []), "node 0: duration is True, expected an integer >= 0"),
        (lambda: mz.ComputationGraph([0], np.array([-1]), [1], []), "node 0: duration is -1, expected an integer >= 0"),
        (lambda: mz.ComputationGraph([0], {0: 3}, [1], []), "durations: expected a sequence, got {0: 3}"),
    ],
)
def test_messages_name_the_argument(call, message):
    with pytest.raises(mz.InputError) as refused:
        call()
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("function", "misspelt", "meant"),
    [
        (mz.solve, "timeout", "time_limit"),
        (mz.solve, "max_computation", "max_computations"),
        (mz.solve, "precedance", "precedence"),
        (mz.frontier, "point", "points"),
        (mz.order, "timelimit", "time_limit"),
        (mz.compare, "budget", "budgets"),
        (mz.allocate, "aligment", "alignment"),
        (mz.read_graph, "pat", "path"),
        (mz.write_graph, "grap", "graph"),
        (mz.ComputationGraph, "edge", "edges"),
        (mz.ComputationGraph, "size", "sizes"),
        (mz.ComputationGraph.from_networkx, "durations", "duration"),
        (mz.Buffer, "alignmen", "alignment"),
        (mz.Gap, "windows", "window"),
        (mz.Budget, "fractions", "fraction"),
        (mz.Goal, "objectiv", "objective"),
        (mz.Device, "slownes", "slowness"),
        (mz.PagingCosts, "outtime", "out_time"),
        (mz.CopyCosts, "latncy", "latency"),
    ],
)
def test_a_misspelt_keyword_is_a_type_error_with_the_nearest(function, misspelt, meant):
    message = rf"^{function.__name__}\(\) got an unexpected keyword argument '{misspelt}', did you mean '{meant}'\?$"
    with pytest.raises(TypeError, match=message):
        function(CHAIN, **{misspelt: 3})


def test_a_keyword_like_no_other_is_a_type_error_without_a_guess():
    with pytest.raises(TypeError, match=r"^solve\(\) got an unexpected keyword argument 'qqq'$"):
        mz.solve(CHAIN, 1.0, qqq=1)
    with pytest.raises(TypeError, match=r"^Budget\(\) got an unexpected keyword argument 'qqq'$"):
        mz.Budget(qqq=1)
    with pytest.raises(TypeError, match="missing 3 required positional arguments"):
        mz.ComputationGraph([1])


def test_classes_are_made_as_type_checkers_are_told():
    """`__init__` stands in a class for type checkers where more is taken than the fields are."""
    seen = 0
    for kind in BORN:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
        for one in ast.walk(tree):
            if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                seen += 1
                fields = dataclasses.fields(kind)
                assert [argument.arg for argument in one.args.args] == ["self", *(part.name for part in fields)]
                least = sum(f.default is f.default_factory is dataclasses.MISSING for f in fields)
                assert len(one.args.args) - 1 - len(one.args.defaults) == least
    assert seen == 6


def test_numpy_numbers_and_arrays_are_accepted():
    edges = np.array([(0, 1), (1, 2), (2, 3), (0, 3)])
    graph = mz.ComputationGraph(
        nodes=np.arange(4), durations=np.ones(4, np.int64), sizes=[np.int32(2)] * 4, edges=edges, order=np.arange(4),
        workspaces=np.zeros(4, np.uint8), backward=np.array([False, False, True, True]), computed_once=np.array([3]),
        fixed_memory={"parameters": np.int64(3)}, device_durations={"cpu": np.full(4, 2)},
        labels=np.array(list("abcd")), in_place=[[], np.array([0]), [], []],
    )  # fmt: skip
    same = mz.ComputationGraph(
        tuple(range(4)), (1,) * 4, (2,) * 4, tuple(map(tuple, edges.tolist())), tuple(range(4)), labels=tuple("abcd"),
        backward=(False, False, True, True), computed_once=(3,), fixed_memory={"parameters": 3},
        device_durations={"cpu": (2,) * 4}, in_place=((), (0,), (), ()),
    )  # fmt: skip
    assert graph == same and hash(graph) == hash(same)
    parts = (*graph.nodes, *graph.durations, *graph.sizes, *graph.order, *graph.fixed_memory.values())
    assert {type(part) for part in (*parts, *sum(graph.edges, ()))} == {int}
    assert mz.ComputationGraph([0, 1], [1, 1], [1, 1], [[0, 1]]) == mz.ComputationGraph(
        (0, 1), (1, 1), (1, 1), ((0, 1),)
    )


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({"budget": np.float64(0.9)}, {"budget": 0.9}),
        ({"budget": np.float32(0.9)}, {"budget": 0.9}),
        ({"budget": np.int64(6)}, {"budget": 6}),
        ({"budget": np.array(0.9)}, {"budget": 0.9}),
        ({"budget": mz.Budget(np.int16(6))}, {"budget": mz.Budget(6)}),
        ({"budget": 6, "max_computations": np.int8(3)}, {"budget": 6, "max_computations": 3}),
        ({"budget": 6, "max_computations": np.full(4, 3)}, {"budget": 6, "max_computations": [3] * 4}),
        ({"budget": 6, "order": np.arange(4)}, {"budget": 6, "order": range(4)}),
        ({"budget": 6, "seed": np.uint32(1), "threads": np.int64(1)}, {"budget": 6, "seed": 1, "threads": 1}),
        ({"budget": 6, "until_gap": np.float32(0.1)}, {"budget": 6, "until_gap": 0.1}),
        ({"budget": 6, "addresses": np.bool_(True), "alignment": np.int64(2)},
         {"budget": 6, "addresses": True, "alignment": 2}),
        ({"budget": 6, "paging": {"out_time": np.float64(0.5)}}, {"budget": 6, "paging": {"out_time": 0.5}}),
        ({"devices": {"a": np.int64(6)}, "copies": {"latency": np.int64(2)}},
         {"devices": {"a": 6}, "copies": {"latency": 2}}),
        ({"budget": 8, "warm_start": np.arange(4)}, {"budget": 8, "warm_start": range(4)}),
    ],
    ids=lambda asked: " ".join(f"{name} {value}" for name, value in asked.items()),
)  # fmt: skip
def test_numpy_budgets_are_answered_like_ints(asked, same):
    one, other = (mz.solve(CHAIN, search="only", time_limit=np.float64(5), **how) for how in (asked, same))
    assert one.details.problem == other.details.problem and one.duration == other.duration


NAMED = [[0, 1], [0, "c"], ["b", "c"], [2, "7"]]


@pytest.mark.parametrize(
    "edges",
    [NAMED, [tuple(edge) for edge in NAMED], np.array([["a", "b"], ["a", "c"], ["b", "c"], ["c", "7"]]),
     np.array(NAMED, dtype=object), [("a", np.int64(1)), (np.str_("a"), 2), (1, 2), (2, 3)],
     zip("aabc", "bcc7", strict=True)],
    ids=lambda edges: type(edges).__name__,
)  # fmt: skip
def test_edges_name_nodes_by_id_or_by_position(edges):
    graph = mz.ComputationGraph(["a", "b", "c", 7], [1] * 4, [2] * 4, edges, order=["a", 1, "c", "7"],
                                computed_once=["c"])  # fmt: skip
    assert graph.edges == ((0, 1), (0, 2), (1, 2), (2, 3)) and graph.order == (0, 1, 2, 3)
    assert graph.computed_once == (2,) and graph.positions_of(["7", 0]) == (3, 0)
    assert [graph.position_of(node) for node in (np.str_("a"), np.int64(7), "7")] == [0, 3, 3]


def test_many_edges_name_nodes_too():
    nodes = [f"n{v}" for v in range(1200)]
    named = np.array([nodes[:-1], nodes[1:]]).T
    same = mz.ComputationGraph(nodes, [1] * 1200, [1] * 1200, [(v, v + 1) for v in range(1199)])
    assert mz.ComputationGraph(nodes, [1] * 1200, [1] * 1200, named) == same


@pytest.mark.parametrize(
    ("nodes", "edges", "means"),
    [
        ((1, 2, 3), [(0, 1), (1, 2)], ((0, 1), (1, 2))),  # integers are positions ...
        ((1, 2, 3), [(1, 2)], ((1, 2),)),
        ((2, 0, 1), [(0, 1)], ((0, 1),)),
        ((10, 20, 30), [(10, 20), (20, 30)], ((0, 1), (1, 2))),  # ... but where no id is one
        ((10, 20, 30), [(0, 1), (20, 2)], ((0, 1), (1, 2))),
        (("a", -5, 30), [("a", -5), (-5, 30)], ((0, 1), (1, 2))),
        (("a", -5, 30), [(-5, 30)], ((1, 2),)),
        ((1, 2, 3), [("1", "2"), ("2", "3")], ((0, 1), (1, 2))),  # text is an id
        ((1, 2, 3), [(1, 2), (2, 3)], "edges[1]: 3 is an id, not a position 0..2, which integers are where some ids "
         "are positions too: give positions, or ids as text"),
        (("a", "b", 1), [("a", "q")], "edges[0]: node 'q' is not in the graph"),
        (("a", "b", "c"), [("a", 3)], "edges[0]: 3 is not the position of a node 0..2"),
        (("a", "b", "c"), [("a", True)], "edges[0]: True is not the position of a node 0..2"),
        (("a", "b", "c"), [("a", 1.0)], "edges[0]: 1.0 is not the position of a node 0..2"),
        (("a", "b", "c"), [("a", float("nan"))], "edges[0]: nan is not the position of a node 0..2"),
        (("a", "b", "c"), ["ab"], "edges[0]: expected a sequence, got 'ab'"),
        (("a", "b", "c"), [("a", "b", "c")], "edges[0]: (0, 1, 2) is not a pair"),
    ],
    ids=str,
)  # fmt: skip
def test_integers_are_positions_and_text_is_an_id(nodes, edges, means):
    def made():
        return mz.ComputationGraph(nodes, [1] * 3, [1] * 3, edges).edges

    if not isinstance(means, str):
        assert made() == means
        return
    with pytest.raises(mz.InputError) as refused:
        made()
    assert str(refused.value) == means


def test_orders_and_starts_name_nodes_too():
    graph = mz.ComputationGraph(list("abcd"), [1] * 4, [2] * 4, [("a", "b"), ("c", "d")])
    found = mz.solve(graph, 1.0, order=np.array(list("cdab")), search="only", time_limit=5)
    assert found.sequence == list("cdab")
    assert mz.order(graph, start=list("cdab"), time_limit=5).input_peak == found.peak
    again = mz.solve(graph, 1.0, warm_start=list("abcd"), search="only", time_limit=5)
    assert again.valid
    for name in ("order", "warm_start"):
        with pytest.raises(mz.InputError, match=rf"^{name.replace('_', ' ')}\[1\]: node 'q' is not in the graph$"):
            mz.solve(graph, 1.0, **{name: ["a", "q"]})


@pytest.mark.parametrize("half", [0.5, np.float64(0.5), np.float32(0.5), np.array(0.5), Fraction(1, 2)], ids=repr)
def test_costs_are_the_numbers_that_they_are_written_as(half):
    assert mz.CopyCosts(half, energy=half) == mz.CopyCosts(Fraction(1, 2), energy=Fraction(1, 2))
    assert mz.PagingCosts(half, np.int64(2)) == mz.PagingCosts(Fraction(1, 2), 2)
    assert mz.Device(None, half, power=half) == mz.Device(None, Fraction(1, 2), power=Fraction(1, 2))
    assert mz.PagingCosts(0.1).out_time == Fraction(1, 10)


REAL = {
    mz.solve: ("budget", "time_limit", "until_gap", "threads", "seed", "max_computations", "alignment"),
    mz.order: ("time_limit", "seed"),
    mz.frontier: ("points", "time_limit", "until_gap", "threads", "seed", "max_computations"),
    mz.compare: ("budgets", "time_limit", "threads", "seed"),
    mz.allocate: ("alignment", "capacity", "time_limit", "threads", "seed"),
}


@pytest.mark.parametrize("value", [True, np.bool_(False), float("nan"), np.float64("nan"), np.float32("nan")], ids=repr)
@pytest.mark.parametrize("function", REAL, ids=lambda function: function.__name__)
def test_flags_and_nan_are_no_numbers(function, value):
    for name in REAL[function]:
        more = {"addresses": True} if name == "alignment" and function is mz.solve else {}
        said = refusal(lambda: function(**{**ASKED[function], **more, name: value}))  # noqa: B023
        assert said is not None and one_line(said), name
    for kind, names in {mz.CopyCosts: ("time", "latency", "energy"), mz.Device: ("budget", "slowness", "power"),
                        mz.PagingCosts: ("out_time", "in_time", "power"), mz.Goal: ("max_energy",),
                        mz.Budget: ("amount", "fraction"), mz.Gap: ("start", "end"),
                        mz.Buffer: ("start", "end", "size", "alignment", "offset")}.items():  # fmt: skip
        for name in names:
            given = BORN[kind] if kind is not mz.Budget else {}
            assert refusal(lambda: kind(**{**given, name: value})) is not None, (kind, name)  # noqa: B023


def test_buffers_accept_numpy_numbers():
    buffers = [mz.Buffer("a", np.int64(0), np.int64(2), np.uint8(3)), mz.Buffer("b", 1, 3, np.int64(2))]
    assert buffers == list(BUFFERS)
    found = mz.allocate(
        np.array(buffers, object), alignment=np.int64(4), capacity=np.int64(9), begin_with=np.array([0, 4])
    )
    assert found.offsets == {"a": 0, "b": 4}
