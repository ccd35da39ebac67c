"""ONNX networks: what is a constant, and how much memory the constants take."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper
from onnx_models import FLOAT, branch, edges, load, node, numbers, value, weights, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.program import Missing


def test_computed_shapes_are_constants(tmp_path):
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Gather", ["s", "zero"], ["batch"]),
        node("Mul", ["batch", "two"], ["twice"]),
        node("Concat", ["twice", "rest"], ["shape"], axis=0),
        node("Reshape", ["a", "shape"], ["b"]),
        node("Shape", ["b"], ["t"], start=-1),
        node("ConstantOfShape", ["t"], ["bias"]),
        node("Add", ["b", "bias"], ["y"]),
    ]
    constants = [numbers("zero", 0), numbers("two", 2), numbers("rest", -1)]
    graph = load(write(tmp_path, nodes, {"x": [4, 6, 5]}, ["y"], constants))
    assert graph.labels == ("Relu", "Reshape", "Add")
    assert edges(graph) == {("a", "b"), ("b", "y")}
    assert graph.sizes == (480, 480, 480)
    assert graph.fixed_memory == {"parameters": 2 * 8 + 15 * 4, "inputs": 480}


def test_a_scale_computed_in_floating_point(tmp_path):
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Div", ["f", "f"], ["ones"]),
        node("Mul", ["ones", "scale"], ["scales"]),
        node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
    ]
    scale = helper.make_tensor("scale", FLOAT, [4], [1.0, 1.0, 2.0, 0.5])
    graph = load(write(tmp_path, nodes, {"x": [1, 2, 6, 8]}, ["y"], [scale]))
    assert (graph.nodes, graph.sizes) == (("y",), (4 * 2 * 12 * 4,))


def test_each_parameter_counts_once_and_unread_ones_do_not(tmp_path):
    nodes = [
        node("Identity", ["w"], ["w1"]),
        node("Reshape", ["w1", "flat"], ["w2"]),
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "w1"], ["b"]),
        node("Add", ["w2", "c"], ["w3"]),
        node("MatMul", ["b", "w2"], ["d"]),
        node("Add", ["d", "w3"], ["y"]),
    ]
    constants = [weights("w", 3, 3), numbers("flat", 3, 3), weights("c", 3), weights("unread", 1000)]
    graph = load(write(tmp_path, nodes, {"x": [3, 3]}, ["y"], constants))
    assert graph.nodes == ("a", "b", "d", "y")
    assert graph.fixed_memory == {"parameters": 36 + 36, "inputs": 36}  # w, and the constant w3


def test_random_numbers_are_no_constant(tmp_path):
    nodes = [node("RandomNormal", [], ["r"], shape=[2, 3]), node("Add", ["x", "r"], ["y"])]
    assert edges(load(write(tmp_path, nodes, {"x": [2, 3]}, ["y"]))) == {("r", "y")}


def test_what_draws_random_numbers_in_its_branches_is_no_constant(tmp_path):
    def sampling(name, *nested):
        nodes = nested or [node("RandomNormal", [], [name], shape=[3])]
        return helper.make_graph(list(nodes), name, [], [value(name, FLOAT, [3])])

    deep = node("If", ["c"], ["t"], then_branch=sampling("d"), else_branch=sampling("e"))
    nodes = [
        node("If", ["c"], ["r"], then_branch=sampling("t", deep), else_branch=branch("w1", "Neg", "w")),
        node("If", ["c"], ["k"], then_branch=branch("w2", "Abs", "w"), else_branch=branch("w3", "Neg", "w")),
        node("Sum", ["x", "r", "k"], ["y"]),
    ]
    constants = [weights("w", 3), helper.make_tensor("c", TensorProto.BOOL, [0], [])]  # no condition that is known
    graph = load(write(tmp_path, nodes, {"x": [3]}, ["y"], constants), missing=Missing(duration=1))
    assert edges(graph) == {("r", "y")}
    assert graph.fixed_memory == {"parameters": 12 + 0 + 12, "inputs": 12}  # w and c, which r reads, and k


def test_custom_operators_on_constants(tmp_path):
    nodes = [
        node("Load", [], ["a"], domain="acme"),
        node("Reshape", ["w", "w"], ["b"], domain="acme"),
        node("Sum", ["x", "a", "b"], ["y"]),
    ]
    stated = [value("a", FLOAT, [1000]), value("b", FLOAT, [1000])]
    sets = [("", 17), ("acme", 1)]
    path = write(tmp_path, nodes, {"x": [1000]}, ["y"], [weights("w", 1)], sets=sets, value_info=stated)
    graph = load(path, missing=Missing(duration=1))
    assert edges(graph) == {("a", "y")}  # nothing is known of where it loads from
    assert graph.fixed_memory == {"parameters": 4000, "inputs": 4000}  # b, and no view of w


def test_nothing_but_constants_is_no_graph(tmp_path):
    path = write(tmp_path, [node("Relu", ["w"], ["y"])], {}, ["y"], [weights("w", 3)])
    with pytest.raises(InputError, match=r"model.onnx: nothing is computed from the network's inputs$"):
        load(path)


def test_an_old_file_lists_its_constants_among_the_inputs(tmp_path):
    path = write(tmp_path, [node("Add", ["x", "w"], ["y"])], {"x": [3], "w": [3]}, ["y"], [weights("w", 3)])
    assert load(path).fixed_memory == {"parameters": 12, "inputs": 12}


def test_external_files_are_not_opened(tmp_path):
    large, small = (TensorProto(name=name, data_type=FLOAT, dims=[count]) for name, count in (("w", 6000), ("v", 1)))
    for tensor in (large, small):
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/dev/zero")  # endless, if it were read
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])]
    graph = load(write(tmp_path, nodes, {"x": [6000]}, ["y"], [large, small]))
    assert graph.fixed_memory == {"parameters": 24_004, "inputs": 24_000}


@pytest.mark.parametrize(
    ("stored", "size"),
    [
        ({"value": weights("", 3, 3)}, 36),
        ({"value_float": 1.0}, 4),
        ({"value_floats": [1.0, 2.0]}, 8),
        ({"value_int": 1}, 8),
        ({"value_ints": [1, 2, 3]}, 24),
        ({"value_string": "a"}, 0),
        ({"sparse_value": helper.make_sparse_tensor(weights("", 1), numbers("", 2), [5])}, 20),
    ],
)
def test_constants_inside_branches_are_parameters(tmp_path, stored, size):
    nodes = [node("Constant", [], ["k"], **stored), node("Neg", ["x"], ["n"])]
    inner = helper.make_graph(nodes, "inner", [], [value("n", FLOAT, [4])])
    nodes = [node("If", ["c"], ["y"], then_branch=inner, else_branch=branch("a", "Abs", "x"))]
    inputs = [value("x", FLOAT, [4]), value("c", TensorProto.BOOL, [])]
    assert load(write(tmp_path, nodes, inputs, ["y"])).fixed_memory == {"parameters": size, "inputs": 17}
