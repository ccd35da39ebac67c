"""ONNX files to graphs: costs, sizes, open dimensions, control flow, views, results, names."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import FLOAT, INT64, branch, by_id, edges, load, node, numbers, value, weights, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.extras import install_command
from moccasin_mzn.graphs.importers.onnx.file import versions
from moccasin_mzn.graphs.importers.onnx.network import network_of
from moccasin_mzn.graphs.importers.onnx.shapes import Tensor
from moccasin_mzn.graphs.importers.program import Missing

# --- costs -----------------------------------------------------------------------------------------------


def test_multiply_adds_by_hand(tmp_path):
    nodes = [
        node("Conv", ["x", "wc"], ["conv"], name="conv", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["x", "wg", "bg"], ["grouped"], name="grouped", group=2),
        node("ConvTranspose", ["x", "wt"], ["up"], name="up", strides=[2, 2], group=2),
        node("GlobalAveragePool", ["x"], ["mean"], name="mean"),
        node("Flatten", ["x"], ["flat"], name="flat"),
        node("Gemm", ["flat", "wf", "bf"], ["gemm"], name="gemm", transB=1),
        node("MatMul", ["x", "wm"], ["matmul"], name="matmul"),
        node("MatMul", ["x", "v"], ["by_vector"], name="by_vector"),
        node("MaxPool", ["x"], ["pool"], name="pool", kernel_shape=[3, 2]),
        node("Relu", ["x"], ["relu"], name="relu"),
    ]
    constants = [weights("wc", 8, 4, 3, 3), weights("wg", 6, 2, 3, 3), weights("bg", 6), weights("wt", 4, 5, 2, 2)]
    constants += [weights("wf", 7, 4 * 10 * 12), weights("bf", 7), weights("wm", 12, 9), weights("v", 12)]
    outputs = ["conv", "grouped", "up", "mean", "gemm", "matmul", "by_vector", "pool", "relu"]
    graph = load(write(tmp_path, nodes, {"x": [2, 4, 10, 12]}, outputs, constants))
    costs = by_id(graph, graph.durations)
    x = 2 * 4 * 10 * 12
    assert costs["conv"] == 2 * 8 * 5 * 6 * (4 * 9)
    assert costs["grouped"] == 2 * 6 * 8 * 10 * (2 * 9) + 2 * 6 * 8 * 10
    assert costs["up"] == x * (5 * 4)
    assert costs["gemm"] == 2 * 7 * 480 + 2 * 7
    assert costs["matmul"] == 2 * 4 * 10 * 12 * 9
    assert costs["by_vector"] == x
    assert costs["pool"] == 2 * 4 * 8 * 11 * 6
    assert (costs["flat"], costs["relu"], costs["results"]) == (4 * x, x, 0)  # bytes of what is copied
    assert costs["mean"] >= x


def test_an_operator_onnx_tool_does_not_count_costs_one_for_each_element(tmp_path):
    path = write(tmp_path, [node("Erf", ["x"], ["y"]), node("Det", ["y"], ["z"])], {"x": [5, 3, 3]}, ["z"])
    graph = load(path)
    assert graph.durations == (45, 5)
    taken = "duration unknown, one for each element of the output taken: 2 nodes (1 Erf, 1 Det): y, z"
    assert graph.attributes["assumed"] == [taken]
    assert load(path, missing=Missing(duration=7)).durations == (7, 7)
    with pytest.raises(InputError, match=r"model.onnx: the duration is unknown of 2 nodes \(1 Erf, 1 Det\): y, z; ch"):
        load(path, missing=Missing(duration="stop"))


# --- sizes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("FLOAT16", 30),
        ("BFLOAT16", 30),
        ("FLOAT", 60),
        ("DOUBLE", 120),
        ("INT64", 120),
        ("INT8", 15),
        ("BOOL", 15),
        ("FLOAT8E4M3FN", 15),
        ("INT4", 8),
        ("UINT4", 8),
        ("FLOAT4E2M1", 8),
    ],
)
def test_sizes_follow_the_type(tmp_path, dtype, size):
    path = write(
        tmp_path, [node("Cast", ["x"], ["y"], to=getattr(TensorProto, dtype))], {"x": [3, 5]}, ["y"], sets=[("", 23)]
    )
    assert load(path).sizes == (size,)


def test_every_element_type_of_onnx_but_strings_has_a_size():
    unknown = [name for name, number in TensorProto.DataType.items() if Tensor(number, (8,)).size is None]
    assert unknown == ["UNDEFINED", "STRING"]
    assert Tensor(10**9, (8,)).size is None


def test_strings_have_no_size(tmp_path):
    path = write(tmp_path, [node("Cast", ["x"], ["y"], to=TensorProto.STRING)], {"x": [3]}, ["y"])
    with pytest.raises(InputError, match=r"the size is unknown of 1 node \(1 Cast\): y; choose"):
        load(path)
    graph = load(path, missing=Missing(size=99))
    assert graph.sizes == (99,)
    assert graph.attributes["assumed"] == ["size unknown, 99 bytes taken: 1 node (1 Cast): y"]


def test_a_size_that_depends_on_values_is_unknown(tmp_path):
    path = write(tmp_path, [node("NonZero", ["x"], ["y"]), node("Neg", ["y"], ["z"])], {"x": [3]}, ["z"])
    with pytest.raises(InputError, match=r"the size is unknown of 2 nodes \(1 NonZero, 1 Neg\): y, z; choose"):
        load(path)


def test_of_several_outputs_those_that_are_read_count_and_the_others_while_it_computes(tmp_path):
    nodes = [
        node("Split", ["x", "parts"], ["a", "b", "c"], name="split", axis=0),
        node("Relu", ["a"], ["y"], name="relu"),
        node("Neg", ["b"], ["unread"], name="dead"),
        node("MaxPool", ["x4"], ["m", "indices"], name="pool", kernel_shape=[2, 2]),
    ]
    inputs = {"x": [6, 5], "x4": [1, 1, 3, 3]}
    graph = load(write(tmp_path, nodes, inputs, ["y", "c", "m"], [numbers("parts", 1, 2, 3)]))
    assert by_id(graph, graph.sizes) == {"split": 3 * 20, "a": 20, "relu": 20, "pool": 16, "results": 0}
    assert by_id(graph, graph.workspaces) == {"split": 2 * 20, "a": 0, "relu": 0, "pool": 4 * 8, "results": 0}
    assert by_id(graph, graph.workspace_of)["split"] == (1 + 2) * 20
    assert by_id(graph, [None if of is None else graph.nodes[of] for of in graph.output_of])["a"] == "split"
    read = {("a", "relu"), ("relu", "results"), ("split", "results"), ("pool", "results")}
    assert edges(graph) == read | {("split", "a")}


# --- dimensions ------------------------------------------------------------------------------------------


@pytest.fixture
def dynamic(tmp_path):
    nodes = [node("Add", ["x", "z"], ["y"])]
    inputs = [value("x", FLOAT, ["batch", 3, None]), value("z", FLOAT, ["batch", 3, -1]), value("idle", FLOAT, [None])]
    return write(tmp_path, nodes, inputs, ["y"])


@pytest.mark.parametrize(
    "dims",
    [
        {"batch": 2, "x[2]": 5, "z[2]": 5},
        {"x[0]": 2, "z[0]": 2, "x[2]": 5, "z[2]": 5},
        {"batch": 9, "x[0]": 2, "z[0]": 2, "x[1]": 3, "x[2]": 5, "z[2]": 5},
    ],
)
def test_dimensions_are_fixed_by_name_and_by_place(dynamic, dims):
    graph = load(dynamic, dims=dims)
    assert graph.sizes == (2 * 3 * 5 * 4,)
    assert graph.attributes["inputs"] == {"x": [2, 3, 5], "z": [2, 3, 5]}


OPEN = "give a number for each open dimension (--dim, dims), by place or name"


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, f"{OPEN}: x[0] (batch), x[2], z[0] (batch), z[2]"),
        ({"batch": 2, "x[2]": 1}, f"{OPEN}: z[2]"),
        ({"Batch": 2}, "no dimension 'Batch'; there are batch, x[0], x[2], z[0], z[2]"),
        ({"x[3]": 2}, "no dimension 'x[3]'; there are batch, x[0], x[2], z[0], z[2]"),
        ({"x[1]": 4}, "dimension 'x[1]' is 3 in the file, not 4"),
        ({"batch": -1}, "dimension 'batch': -1, expected an integer from 0 to 2**53"),
        ({"batch": 2**60}, f"dimension 'batch': {2**60}, expected an integer from 0 to 2**53"),
        ({"batch": True}, "dimension 'batch': True, expected an integer from 0 to 2**53"),
        ({"batch": 2**40, "x[2]": 2**40, "z[2]": 2**40}, "'x' has more than 2**53 elements"),
    ],
)
def test_import_onnx_rejects_dimensions_that_do_not_exist(dynamic, dims, message):
    with pytest.raises(InputError) as caught:
        load(dynamic, dims=dims)
    assert str(caught.value) == f"{dynamic}: {message}"


def test_a_file_without_open_dimensions(tmp_path):
    path = write(tmp_path, [node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    assert load(path, dims={"x[0]": 2}).sizes == (8,)
    with pytest.raises(InputError, match="no dimension 'batch'; the file leaves none open"):
        load(path, dims={"batch": 2})


def test_an_input_may_be_empty_on_request(tmp_path):
    path = write(tmp_path, [node("Concat", ["x", "past"], ["y"], axis=0)], {"x": [2], "past": ["past"]}, ["y"])
    assert load(path, dims={"past": 0}).sizes == (8,)


# --- operators with graphs, functions, domains -----------------------------------------------------------


def test_control_flow_reads_what_its_branches_take_from_around_it(tmp_path):
    inner = helper.make_graph(
        [node("If", ["c"], ["deep"], then_branch=branch("d", "Neg", "b"), else_branch=branch("e", "Abs", "b"))],
        "inner",
        [],
        [onnx.ValueInfoProto(name="deep")],
        [weights("inside", 5)],
    )
    nodes = [
        node("Relu", ["x"], ["a"], name="a"),
        node("Neg", ["x"], ["b"], name="b"),
        node("If", ["c"], ["y"], name="if", then_branch=branch("t", "Relu", "a"), else_branch=inner),
    ]
    inputs = [value("x", FLOAT, [4]), value("c", TensorProto.BOOL, [])]
    graph = load(write(tmp_path, nodes, inputs, ["y"]))
    assert edges(graph) == {("a", "if"), ("b", "if")}
    assert by_id(graph, graph.sizes) == {"a": 16, "b": 16, "if": 16}
    assert graph.fixed_memory == {"parameters": 20, "inputs": 17}


def test_local_functions_are_inlined(tmp_path):
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "Twice", ["i"], ["o"], [node("Add", ["i", "i"], ["o"])], sets)
    outer_nodes = [node("Twice", ["i"], ["h"], domain="local"), node("Relu", ["h"], ["o"])]
    outer = helper.make_function("local", "Outer", ["i"], ["o"], outer_nodes, sets)
    nodes = [node("Outer", ["x"], ["a"], domain="local"), node("Outer", ["a"], ["y"], domain="local")]
    path = write(tmp_path, nodes, {"x": [3]}, ["y"], sets=[("", 17), ("local", 1)], functions=[inner, outer])
    graph = load(path)
    assert graph.labels == ("Add", "Relu", "Add", "Relu")
    assert graph.sizes == (12,) * 4 and len(graph.edges) == 3


def functions_of(depth, calls, last):
    """Each calls the next one so often; the innermost calls `last`."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    made = []
    for at in range(depth):
        callee = f"F{at + 1}" if at + 1 < depth else last
        domain = "local" if callee != "Relu" else ""
        nodes = [node(callee, [f"v{k}"], [f"v{k + 1}"], domain=domain) for k in range(calls)]
        made.append(helper.make_function("local", f"F{at}", ["v0"], [f"v{calls}"], nodes, sets))
    return made


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (functions_of(1, 1, "F0"), "local functions call each other over 100 deep, or themselves"),
        (functions_of(3, 2, "F0"), "local functions call each other over 100 deep, or themselves"),
        (functions_of(200, 1, "Relu"), "local functions call each other over 100 deep, or themselves"),
        (functions_of(40, 2, "Relu"), "over 1000000 operators after inlining local functions"),
    ],
)
def test_functions_that_never_end(tmp_path, functions, message):
    nodes = [node("F0", ["x"], ["y"], domain="local")]
    path = write(tmp_path, nodes, {"x": [3]}, ["y"], sets=[("", 17), ("local", 1)], functions=functions)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_an_operator_of_another_domain(tmp_path):
    nodes = [node("Strange", ["x"], ["a"], domain="acme", name="strange"), node("Relu", ["a"], ["y"], name="relu")]
    sets = [("", 17), ("acme", 3)]
    path = write(tmp_path, nodes, {"x": [2, 3]}, ["y"], sets=sets)
    with pytest.raises(InputError, match=r"the size is unknown of 2 nodes \(1 acme.Strange, 1 Relu\): strange, relu;"):
        load(path)
    stated = [value("a", TensorProto.FLOAT16, ["rows", 7])]
    path = write(tmp_path, nodes, {"x": ["rows", 3]}, ["y"], sets=sets, value_info=stated)
    for dims in ({"rows": 2}, {"x[0]": 2}):
        graph = load(path, dims=dims)
        assert (graph.labels, graph.sizes, graph.durations) == (("acme.Strange", "Relu"), (28, 28), (14, 14))


# --- views, results, names -------------------------------------------------------------------------------


def test_views_share_memory_on_request(tmp_path):
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Reshape", ["a", "flat"], ["b"]),
        node("Identity", ["b"], ["c"]),
        node("Dropout", ["c"], ["d"]),
        node("Unsqueeze", ["d", "axis"], ["e"]),
        node("Dropout", ["e", "ratio", "training"], ["f"]),
        node("Neg", ["f"], ["y"]),
    ]
    training = helper.make_tensor("training", TensorProto.BOOL, [], [True])
    constants = [numbers("flat", -1), numbers("axis", 0), helper.make_tensor("ratio", FLOAT, [], [0.5]), training]
    path = write(tmp_path, nodes, {"x": [2, 3]}, ["y"], constants)
    assert load(path).nodes == tuple("abcdefy")
    merged = load(path, merge_views=True)
    assert merged.nodes == ("a", "f", "y")
    assert edges(merged) == {("a", "f"), ("f", "y")}
    operations = network_of(path.read_bytes(), "model", {}).program.operations
    views = {operation.name for operation in operations if operation.view}
    assert views == set("bcde")


def test_a_view_of_an_input_is_no_memory_of_what_computes_its_shape(tmp_path):
    nodes = [
        node("Reshape", ["x", "flat"], ["a"]),
        node("Abs", ["a"], ["b"]),
        node("Cast", ["k"], ["k2"], to=INT64),
        node("Reshape", ["x", "k2"], ["c"]),
    ]
    inputs = [value("x", FLOAT, [2, 3]), value("k", TensorProto.INT32, [1])]
    graph = load(
        write(tmp_path, nodes, inputs, ["b", "c"], [numbers("flat", -1)]), merge_views=True, missing=Missing(size=5)
    )
    assert edges(graph) == {("k2", "c"), ("b", "results"), ("c", "results")}


def test_what_computes_the_shape_of_a_view_is_not_lost(tmp_path):
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Mul", ["shape", "one"], ["s"]),
        node("Reshape", ["r", "s"], ["y"]),
        node("Abs", ["y"], ["z"]),
    ]
    inputs = [value("x", FLOAT, [4, 6]), value("shape", INT64, [2])]
    stated = [value("y", FLOAT, [6, 4])]
    path = write(tmp_path, nodes, inputs, ["z"], [numbers("one", 1, 1)], value_info=stated)
    assert edges(load(path, merge_views=True)) == {("r", "y"), ("s", "y"), ("y", "z")}


def test_several_results_are_kept_or_not(tmp_path):
    nodes = [node("Relu", ["x"], ["results"]), node("Neg", ["results"], ["y"])]
    path = write(tmp_path, nodes, {"x": [2]}, ["results", "y", "x"])
    kept = load(path)
    assert kept.nodes == ("results", "y", "results_2") and kept.sizes[-1] == kept.durations[-1] == 0
    assert edges(kept) == {("results", "y"), ("results", "results_2"), ("y", "results_2")}
    assert load(path, keep_results=False).nodes == ("results", "y")


def test_ids_are_names_made_unique(tmp_path):
    nodes = [
        node("Relu", ["x"], ["a"], name="n"),
        node("Relu", ["a"], ["b"], name="n"),
        node("Relu", ["b"], ["c\n"]),
        node("Relu", ["c\n"], ["n_2"]),
    ]
    assert load(write(tmp_path, nodes, {"x": [2]}, ["n_2"])).nodes == ("n", "n_2", "c_", "n_2_2")


def test_versions_name_the_packages():
    assert versions().keys() == {"onnx", "onnx-tool"}


def test_without_the_packages(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx_tool", None)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "model.onnx")
    told = f"importing ONNX needs the packages onnx and onnx-tool: {install_command('onnx')}"
    assert str(caught.value) == f"{told} (see Install: docs/user-guide.md#install)"


# --- in place ---------------------------------------------------------------------------------------------------------


def overwritten(graph):
    """Ids of the inputs that each node may overwrite, by its id; those of none are left out."""
    rows = zip(graph.nodes, graph.in_place or (), strict=False)
    return {node: {graph.nodes[u] for u in row} for node, row in rows if row}


def test_elementwise_operators_and_views_may_overwrite_what_is_as_large(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w"], ["d"]),
        node("Add", ["r", "d"], ["s"]),  # both
        node("ReduceMean", ["s"], ["m"], keepdims=1),  # one element for each
        node("Mul", ["s", "m"], ["p"]),  # m is smaller
        node("Cast", ["p"], ["i"], to=TensorProto.INT8),  # fewer bytes
        node("Reshape", ["i", "flat"], ["f"]),
        node("Abs", ["f"], ["y"]),
    ]
    path = write(tmp_path, nodes, {"x": [1, 1, 4, 4]}, ["y"], [weights("w", 1, 1, 1, 1), numbers("flat", -1)])
    expected = {"r": {"c"}, "s": {"r", "d"}, "p": {"s"}, "f": {"i"}, "y": {"f"}}
    assert overwritten(load(path)) == expected
    del expected["f"]
    assert overwritten(load(path, merge_views=True)) == {**expected, "y": {"i"}}


def test_results_and_inputs_are_never_overwritten(tmp_path):
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["c"])]
    path = write(tmp_path, nodes, {"x": [2]}, ["a", "c"])
    for keep_results in (True, False):
        assert overwritten(load(path, keep_results=keep_results)) == {"c": {"b"}}


def test_batch_norm_overwrites_its_input_in_inference_only(tmp_path):
    norm = ["a", "s", "b", "m", "v"]
    scale = [weights(name, 3) for name in "sbmv"]
    nodes = [node("Relu", ["x"], ["a"]), node("BatchNormalization", norm, ["y"])]
    assert overwritten(load(write(tmp_path, nodes, {"x": [1, 3, 2, 2]}, ["y"], scale))) == {"y": {"a"}}
    nodes[1] = node("BatchNormalization", norm, ["y", "mean", "var"], training_mode=1)
    assert overwritten(load(write(tmp_path, nodes, {"x": [1, 3, 2, 2]}, ["y"], scale))) == {}
