"""What imported graphs know of their nodes: sources, accumulators, views, and what is not known."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_operator_cases
import pytest
import tflite_operator_cases
from onnx_models import branch, load, node, numbers, value, weights, write
from tflite_models import skipping

from moccasin_mzn.graphs.formats import dot, graphml, read_graph, write_graph
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx, trace_onnx
from moccasin_mzn.graphs.importers.tflite import import_tflite
from moccasin_mzn.graphs.operators import Reach
from moccasin_mzn.graphs.reduction import reduce_graph
from moccasin_mzn.graphs.tiling.cutting import tile


def operators(graph):
    return dict(zip(graph.nodes, graph.operators, strict=True))


def sources(graph, node):
    """Ids that an operator reads, None for inputs of the network."""
    return [read.source if read.source is None else graph.nodes[read.source] for read in operators(graph)[node].reads]


RESIDUAL = (
    [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]), node("Add", ["r", "x"], ["y"])],
    {"x": (1, 3, 8, 6)},
    ["y"],
    [weights("w", 3, 3, 3, 3)],
)


def assert_kept(graph, folder):
    """In files of all formats, and in one of parts."""
    for suffix, to, back in (
        ("json", write_graph, read_graph),
        ("graphml", graphml.write_graphml, graphml.read_graphml),
        ("dot", dot.write_dot, dot.read_dot),
    ):
        to(graph, folder / f"g.{suffix}")
        assert back(folder / f"g.{suffix}").operators == graph.operators
    assert len(tile(graph, rows=2).nodes) > len(graph.nodes)


# --- ONNX -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolated", [False, True])
def test_sources_are_nodes_and_inputs_and_no_constants(isolated, tmp_path):
    graph = import_onnx(write(tmp_path, *RESIDUAL), OnnxImport(isolated=isolated))
    assert (sources(graph, "c"), sources(graph, "r"), sources(graph, "y")) == ([None], ["c"], ["r", None])
    rows = operators(graph)["c"].reads[0].axes
    assert rows == (Reach(0), None, Reach(2, window=3, before=1), Reach(3, window=3, before=1))
    assert_kept(graph, tmp_path)


def test_several_outputs_and_unknown_shapes_are_not_known(tmp_path):
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=1), node("Dropout", ["a"], ["d", "mask"]), node("Add", ["d", "b"], ["s"]),
        node("NonZero", ["s"], ["n"]), node("Identity", ["n"], ["y"]),
    ]  # fmt: skip
    path = write(tmp_path, nodes, {"x": (1, 4, 8)}, ["y"], sets=[("", 12)])
    with pytest.raises(Exception, match="unknown"):
        load(path)
    graph = load(write(tmp_path, nodes[:3], {"x": (1, 4, 8)}, ["s"], sets=[("", 12)]))
    known = operators(graph)
    assert known["a"] is None and known["d"].shape == (1, 2, 8)
    assert sources(graph, "s") == ["d", "b"]
    assert [str(each)[:2] for each in tile(graph, columns=4).nodes].count("s[") == 2


def test_what_is_read_inside_is_read_whole(tmp_path):
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("If", ["yes"], ["y"], then_branch=branch("t", "Exp", "r"), else_branch=branch("f", "Neg", "x")),
    ]
    inputs = [value("x", 1, [2, 3]), value("yes", 9, [])]
    graph = load(write(tmp_path, nodes, inputs, ["y"]))
    read = operators(graph)["y"].reads
    assert [(each.shape, each.axes) for each in read] == [((), ()), ((2, 3), (None, None)), ((2, 3), (None, None))]
    assert sources(graph, "y") == [None, None, "r"]


VIEWS = [
    node("Reshape", ["x", "flat"], ["v"]), node("Relu", ["v"], ["a"]), node("Reshape", ["a", "image"], ["i"]),
    node("Transpose", ["i"], ["t"], perm=[0, 2, 3, 1]), node("Reshape", ["i", "odd"], ["o"]), node("Exp", ["o"], ["e"]),
    node("ReduceSum", ["e"], ["s"]), node("Identity", ["t"], ["y"]), node("Add", ["y", "s"], ["z"]),
]  # fmt: skip


def test_views_are_seen_through(tmp_path):
    constants = [numbers("flat", 1, 3, 16), numbers("image", 1, 3, 4, 4), numbers("odd", 6, 8)]
    path = write(tmp_path, VIEWS, {"x": (1, 3, 4, 4)}, ["z"], constants)
    graph = load(path, merge_views=True)
    assert graph.nodes == ("a", "t", "e", "s", "z")
    known = operators(graph)
    assert sources(graph, "a") == [None] and known["a"].reads[0].shape == (1, 3, 4, 4)  # a view of the input
    assert known["a"].reads[0].axes == (Reach(0), Reach(1), Reach(2, divisor=4), None)
    assert known["t"].reads[0].axes[:2] == (Reach(0), Reach(3)) and known["t"].reads[0].shape == (1, 3, 16)
    assert sources(graph, "e") == ["a"] and sources(graph, "z") == ["t", "s"]
    for at, operator in enumerate(graph.operators):
        for read in operator.reads:
            assert read.source is None or read.shape == graph.operators[read.source].shape, at
    assert len(tile(graph, channels=1, rows=1).nodes) > len(graph.nodes)


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "about", "bytes_each"),
    [
        ("ReduceSum", (1, 4, 5), np.int32, {"keepdims": 0}, 4),
        ("ReduceSum", (1, 4, 5), np.int64, {}, 8),
        ("ReduceSum", (1, 4, 5), np.float32, {}, 0),
        ("ReduceMax", (1, 4, 5), np.float32, {}, 4),
        ("ReduceMax", (1, 4, 5), np.int8, {}, 1),
        ("GlobalMaxPool", (1, 4, 5, 5), np.float32, {}, 4),
        ("GlobalAveragePool", (1, 4, 5, 5), np.float32, {}, 0),
        ("MaxPool", (1, 4, 5, 5), np.float32, {"kernel_shape": [5, 5]}, 4),
        ("MaxPool", (1, 4, 5, 5), np.float32, {"kernel_shape": [2, 2]}, 0),
        ("Relu", (1, 4), np.float32, {}, 0),
    ],
)
def test_partial_results_only_where_the_result_is_the_same(kind, shape, dtype, about, bytes_each):
    case = onnx_operator_cases.Case(kind, {"x": shape}, about=about, dtype=dtype)
    (operator,) = trace_onnx(case.model().SerializeToString(), "one", OnnxImport(isolated=False)).graph.operators
    assert operator.accumulator == bytes_each


@pytest.mark.parametrize(("rows", "bytes_each"), [(1, 4), (3, 0)])
def test_partial_products_of_one_row(rows, bytes_each):
    matrix = np.ones((8, 2), np.uint8)
    case = onnx_operator_cases.Case("MatMulInteger", {"a": (rows, 8)}, {"b": matrix}, dtype=np.uint8)
    (operator,) = trace_onnx(case.model().SerializeToString(), "one", OnnxImport(isolated=False)).graph.operators
    assert operator.accumulator == bytes_each


# --- TFLite ---------------------------------------------------------------------------------------------------


def test_operators_of_a_tflite_model(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(skipping())
    graph = import_tflite(path, inputs_in_arena=False)
    known = [each and each.name for each in graph.operators]
    assert known == ["CONV_2D", "CONV_2D", "CONV_2D", None, None, "ADD", "CONV_2D", "ADD", None]
    assert (sources(graph, 0), sources(graph, 4), sources(graph, 6)) == ([None], [3, "3.1"], [0, 5])
    assert graph.operators[1].reads[0].axes == (Reach(0), *(Reach(at, window=3, before=1) for at in (1, 2)), None)
    assert_kept(graph, tmp_path)


INT8, FLOAT = np.int8, np.float32
POOL = {"filterHeight": 4, "filterWidth": 4, "strideH": 1, "strideW": 1, "padding": 1}
PLACES = np.array([1, 2], np.int32)


@pytest.mark.parametrize(
    ("name", "dtype", "constants", "options", "about", "shape", "bytes_each"),
    [
        ("MEAN", INT8, [PLACES], "ReducerOptions", {"keepDims": True}, (1, 1, 1, 3), 4),
        ("MEAN", FLOAT, [PLACES], "ReducerOptions", {"keepDims": False}, (1, 3), 0),
        ("REDUCE_MAX", INT8, [PLACES], "ReducerOptions", {"keepDims": True}, (1, 1, 1, 3), 1),
        ("REDUCE_MAX", FLOAT, [PLACES], "ReducerOptions", {"keepDims": True}, (1, 1, 1, 3), 4),
        ("AVERAGE_POOL_2D", INT8, [], "Pool2DOptions", POOL, (1, 1, 1, 3), 4),
        ("AVERAGE_POOL_2D", INT8, [], "Pool2DOptions", {**POOL, "filterHeight": 2}, (1, 3, 1, 3), 0),
        ("MAX_POOL_2D", INT8, [], "Pool2DOptions", POOL, (1, 1, 1, 3), 1),
        ("FULLY_CONNECTED", INT8, [np.ones((5, 48), INT8)], "FullyConnectedOptions", {}, (1, 5), 4),
        ("FULLY_CONNECTED", INT8, [np.ones((5, 3), INT8)], "FullyConnectedOptions", {}, (16, 5), 0),
        ("RELU", INT8, [], "", {}, (1, 4, 4, 3), 0),
    ],
)
def test_partial_results_of_tflite(name, dtype, constants, options, about, shape, bytes_each, tmp_path):
    case = tflite_operator_cases.Case(name, [(1, 4, 4, 3)], constants, options, about, dtype=dtype)
    path = tmp_path / "one.tflite"
    path.write_bytes(case.model(shape))
    operator, _ = import_tflite(path, inputs_in_arena=False).operators
    assert operator.accumulator == bytes_each
    assert bytes_each == 0 or None in operator.reads[0].axes


def test_options_that_do_not_fit_leave_all_to_be_read(tmp_path):
    axes = np.array([7], np.int32)  # there is no such axis to permute
    case = tflite_operator_cases.Case("TRANSPOSE", [(2, 3)], [axes], "TransposeOptions")
    path = tmp_path / "one.tflite"
    path.write_bytes(case.model((3, 2)))
    assert import_tflite(path, inputs_in_arena=False).operators[0].reads[0].axes == (None, None)


# --- Reduced graphs -------------------------------------------------------------------------------------------


def test_merged_nodes_read_what_all_their_members_read(tmp_path):
    graph = load(write(tmp_path, *RESIDUAL))
    merged = reduce_graph(graph, fuse=True).graph
    assert merged.nodes == ("c",) and merged.operators[0].name == "Conv"
    assert [read.axes for read in merged.operators[0].reads] == [
        graph.operators[0].reads[0].axes, graph.operators[2].reads[1].axes,
    ]  # fmt: skip


def test_merged_nodes_of_more_than_elementwise_ones_are_not_known(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("Softmax", ["r"], ["s"]), node("Exp", ["s"], ["y"])]
    graph = load(write(tmp_path, nodes, {"x": (2, 8)}, ["y"]))
    merged = reduce_graph(graph, elementwise=["Softmax"]).graph
    assert merged.nodes == ("r",) and merged.operators is None
    lone = dataclasses.replace(graph, operators=(graph.operators[0], None, graph.operators[2]))
    assert reduce_graph(lone).graph.operators is not None


def test_a_partial_result_stays_one_without_other_inputs(tmp_path):
    total = node("ReduceMax", ["x"], ["m"], axes=[2, 3])
    path = write(tmp_path, [total, node("Relu", ["m"], ["y"])], {"x": (1, 4, 5, 5)}, ["y"])
    assert reduce_graph(load(path)).graph.operators[0].accumulator == 4
    inputs = {"x": (1, 4, 5, 5), "other": (1, 4, 1, 1)}
    path = write(tmp_path, [total, node("Add", ["m", "other"], ["y"])], inputs, ["y"])
    (operator,) = reduce_graph(load(path), fuse=True).graph.operators
    assert operator.accumulator == 0 and len(operator.reads) == 2
