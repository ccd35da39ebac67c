"""Programs of operations to graphs of tensors in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.program import Missing, Operation, Program, program_graph, unique_names


def op(name: str, *inputs: str, size: int | None = 4, duration: int | None = 1, **more) -> Operation:
    return Operation(name, more.pop("kind", "Op"), inputs, size, more.pop("elements", 1), duration, **more)


#    a --> norm --> pick (plumbing) --> flat (a view) --> z
#             `---> other (plumbing, read by nobody)
#    weight view w, read by z; dead reads a
PROGRAM = Program(
    (
        op("w", view=True),
        op("a"),
        op("norm", "a", size=9),
        op("pick", "norm", view=True),
        op("other", "norm", view=True),
        op("flat", "pick", view=True),
        op("dead", "a"),
        op("z", "flat", "w", "flat"),
    ),
    ("z",),
)


def test_views_and_plumbing_become_what_they_read():
    graph = program_graph(PROGRAM, Missing())
    assert graph.nodes == ("a", "norm", "z")
    assert graph.edges == ((0, 1), (1, 2))
    assert graph.sizes == (4, 9, 4)
    assert graph.order == (0, 1, 2)
    assert graph.backward is None


def test_views_may_be_nodes():
    graph = program_graph(PROGRAM, Missing(), merge_views=False)
    assert graph.nodes == ("w", "a", "norm", "pick", "flat", "z")
    assert set(graph.edges) == {(1, 2), (2, 3), (3, 4), (4, 5), (0, 5)}


def test_several_results_are_kept_to_the_end():
    program = replace(PROGRAM, results=("z", "other", "a", "w"))
    graph = program_graph(program, Missing())
    assert graph.nodes == ("a", "norm", "z", "results")
    assert {edge for edge in graph.edges if edge[1] == 3} == {(0, 3), (1, 3), (2, 3)}
    assert (graph.sizes[3], graph.durations[3], graph.labels[3]) == (0, 0, "results")
    assert program_graph(program, Missing(), keep_results=False).nodes == ("a", "norm", "z")


def test_the_last_node_gets_a_name_of_its_own():
    program = Program((op("results"), op("b", "results")), ("results", "b"))
    assert program_graph(program, Missing()).nodes == ("results", "b", "results_2")


def test_backward_operations_are_marked():
    program = Program((op("a"), op("b", "a", backward=True), op("c", "b", backward=True)), ("b", "c"))
    assert program_graph(program, Missing()).backward == (False, True, True, True)


UNKNOWN = Program(
    (op("a", size=None, elements=None), op("b", "a", duration=None, elements=7, kind="Erf"), op("c", "b")), ("c",)
)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (Missing(), "the size is unknown of 1 node (1 Op): a; choose what to take (--unknown-size)"),
        (
            Missing(size=0, duration="stop"),
            "the duration is unknown of 1 node (1 Erf): b; choose what to take (--unknown-duration)",
        ),
    ],
)
def test_what_is_unknown_is_named(missing, message):
    with pytest.raises(InputError) as caught:
        program_graph(UNKNOWN, missing)
    assert str(caught.value) == f"{message} (see ONNX: docs/graphs.md#onnx)"


@pytest.mark.parametrize(
    ("duration", "expected", "said"), [("elements", 7, "one for each element of the output"), (3, 3, "3")]
)
def test_what_is_assumed_is_recorded(duration, expected, said):
    graph = program_graph(UNKNOWN, Missing(size=5, duration=duration), attributes={"producer": "hand"})
    assert graph.sizes == (5, 4, 4)
    assert graph.durations == (1, expected, 1)
    assert graph.attributes == {
        "producer": "hand",
        "assumed": ["size unknown, 5 bytes taken: 1 node (1 Op): a",
                    f"duration unknown, {said} taken: 1 node (1 Erf): b"],
    }  # fmt: skip


def test_elements_may_be_unknown_too():
    program = Program((op("a", duration=None, elements=None),), ("a",))
    with pytest.raises(InputError, match="the duration is unknown of 1 node"):
        program_graph(program, Missing())
    assert program_graph(program, Missing(duration=2)).durations == (2,)


def test_names_in_messages_are_few():
    program = Program(tuple(op(f"v{v}", *([f"v{v - 1}"] if v else []), size=None) for v in range(9)), ("v8",))
    with pytest.raises(InputError, match=r"9 nodes \(9 Op\): v0, v1, v2, v3, v4, \.\.\.; choose"):
        program_graph(program, Missing())


@pytest.mark.parametrize(
    ("operations", "results", "message"),
    [
        ((op("a", "b"), op("b")), ("a",), "Op a reads 'b' before it is computed"),
        ((op("a"), op("a")), ("a",), "Op a: the name is given twice"),
        ((op("a"),), ("b",), "result 'b' is no operation"),
    ],
)
def test_programs_are_checked(operations, results, message):
    with pytest.raises(InputError, match=message):
        Program(operations, results)


@pytest.mark.parametrize("arguments", [{"size": -1}, {"duration": 1.5}, {"elements": True}])
def test_operations_are_checked(arguments):
    with pytest.raises(InputError, match="expected an integer >= 0"):
        op("a", **arguments)


@pytest.mark.parametrize("arguments", [{"size": "elements"}, {"size": -1}, {"duration": "go"}, {"duration": None}])
def test_defaults_are_checked(arguments):
    with pytest.raises(InputError, match="unknown (size|duration) .*: expected"):
        Missing(**arguments)


def test_a_program_of_views_has_nothing_to_compute():
    with pytest.raises(InputError, match="nothing is computed from the network's inputs"):
        program_graph(Program((op("a", view=True),), ("a",)), Missing())


@given(st.lists(st.text(max_size=4)))
def test_unique_names_are_fit_for_ids(names):
    found = unique_names(names)
    assert len(set(found)) == len(found) == len(names)
    assert all(name and name == name.strip() and name.isprintable() for name in found)


def test_unique_names_stay_where_they_can():
    assert unique_names(["a", "", "a", " b\n", "node"]) == ["a", "node", "a_2", "b_", "node_2"]


def test_many_equal_names_take_no_time():
    found = unique_names(["x"] * 50_000)
    assert found[-1] == "x_50000"
