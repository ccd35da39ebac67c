"""ONNX models rewritten to follow sequences: names, order, what stays; and what they compute, in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx_deploying import (
    FLOAT,
    SHAPE,
    asking,
    branches,
    checked,
    model_of,
    node,
    operators,
    random_model,
    random_sequence,
    run,
    value,
)

from moccasin_mzn.deploy.onnx_comparing import equal
from moccasin_mzn.deploy.onnx_deployment import known_values
from moccasin_mzn.deploy.onnx_rewriting import rewritten
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, trace_onnx
from moccasin_mzn.graphs.importers.onnx.network import whole_model
from moccasin_mzn.graphs.importers.onnx.preparation import Fold
from moccasin_mzn.graphs.importers.program import Missing
from moccasin_mzn.problem.judges.schedules import simulate


def follow(model, ids, **options):
    """The model that computes the nodes of its graph in this order, by their ids or positions."""
    data = model.SerializeToString()
    trace = trace_onnx(data, "m", OnnxImport(isolated=False, **options))
    sequence = [trace.graph.position_of(each) if isinstance(each, str) else each for each in ids]
    assert simulate(trace.graph, sequence).feasible
    of_model = [trace.operators[v] for v in sequence if trace.operators[v] is not None]
    whole = whole_model(data, trace.network, options.get("dims", {}))
    new = rewritten(whole, of_model, known_values(whole, trace.network, Path())[0])
    return checked(new), trace.graph, sequence


CHAIN = [node("Sigmoid", ["x"], ["a"], name="A"), node("Sin", ["a"], ["b"]), node("Neg", ["b"], ["c"]),
         node("Add", ["a", "c"], ["d"])]  # fmt: skip


def test_readers_read_the_latest_copy():
    new, _, _ = follow(model_of(CHAIN, ["d"]), "AbcAd")
    assert operators(new) == ["a = Sigmoid(x)", "b = Sin(a)", "c = Neg(b)", "a__2 = Sigmoid(x)", "d = Add(a__2, c)"]
    assert [n.name for n in new.graph.node] == ["A", "", "", "A__2", ""]


def test_the_last_copy_of_a_result_has_its_name():
    new, _, _ = follow(model_of(CHAIN, ["d", "a"]), ["A", "b", "A", "c", "A", "d", "results"])
    assert operators(new) == ["a__1 = Sigmoid(x)", "b = Sin(a__1)", "a__2 = Sigmoid(x)", "c = Neg(b)",
                              "a = Sigmoid(x)", "d = Add(a, c)"]  # fmt: skip


def test_names_that_are_taken_are_left_alone():
    inner = {key: helper.make_graph([node("Neg", ["b"], [name])], key, [], [value(name, FLOAT, SHAPE)])
             for key, name in (("then_branch", "a__2"), ("else_branch", "a__2_"))}  # fmt: skip
    nodes = [*CHAIN, node("If", ["yes"], ["e"], **inner), node("Add", ["d", "e"], ["f"])]
    new, _, _ = follow(asking(model_of(nodes, ["f"])), "AbcAdef")
    assert operators(new)[3] == "a__2__ = Sigmoid(x)"


def test_subgraphs_read_the_latest_copy_and_their_own_names():
    hiding = {
        "then_branch": helper.make_graph([node("Neg", ["a"], ["p"]), node("Add", ["p", "a"], ["t"])], "then", [],
                                         [value("t", FLOAT, SHAPE)]),
        "else_branch": helper.make_graph([node("If", ["yes"], ["e"], **branches("a", "z"))], "else", [],
                                         [value("e", FLOAT, SHAPE)]),
    }  # fmt: skip
    nodes = [*CHAIN[:3], node("If", ["yes"], ["i"], **hiding), node("Add", ["i", "c"], ["d"])]
    model = asking(model_of(nodes, ["d"]))
    new, _, _ = follow(model, "AbcAid")
    other, then = (attribute.g for attribute in new.graph.node[4].attribute)
    assert [list(n.input) for n in then.node] == [["a__2"], ["p", "a__2"]]
    assert [list(n.input) for inner in other.node[0].attribute for n in inner.g.node] == [["a__2", "z"]] * 2
    assert equal(run(new).outputs, run(model).outputs)


def test_a_body_has_names_of_its_own():
    body = helper.make_graph([node("Add", ["a", "b"], ["s"]), node("Identity", ["go"], ["on"])], "body",
                             [value("i", onnx.TensorProto.INT64, []), value("go", onnx.TensorProto.BOOL, []),
                              value("a", FLOAT, SHAPE)],
                             [value("on", onnx.TensorProto.BOOL, []), value("s", FLOAT, SHAPE)])  # fmt: skip
    nodes = [*CHAIN[:3], node("Loop", ["twice", "", "c"], ["l"], body=body), node("Add", ["l", "a"], ["d"])]
    model = model_of(nodes, ["d"], [helper.make_tensor("twice", onnx.TensorProto.INT64, [], [2])])
    new, _, _ = follow(model, "AbcAbld", missing=Missing(24, 0))
    (inner,) = (attribute.g for attribute in new.graph.node[5].attribute)
    assert list(inner.node[0].input) == ["a", "b__2"] and [each.name for each in inner.input] == ["i", "go", "a"]
    assert equal(run(new).outputs, run(model).outputs)


def test_what_depends_on_constants_alone_becomes_one_and_theirs_are_dropped():
    nodes = [node("Neg", ["w"], ["k"]), node("Neg", ["w"], ["useless"]), *CHAIN[:3], node("Add", ["c", "k"], ["d"])]
    w = helper.make_tensor("w", FLOAT, [], [2.0])
    model = model_of(nodes, ["d"], [w])
    new, _, _ = follow(model, "AbAbcd")
    assert operators(new)[0] == "k = Constant()" and len(new.graph.node) == 7 and not new.graph.initializer
    assert onnx.numpy_helper.to_array(new.graph.node[0].attribute[0].t) == -2
    assert equal(run(new).outputs, run(model).outputs)
    computed, _, _ = follow(model, "kAbAbcd", fold=Fold.NONE)
    assert operators(computed)[0] == "k = Neg(w)" and [each.name for each in computed.graph.initializer] == ["w"]


@pytest.mark.parametrize("nested", [False, True])
def test_a_known_branch_is_taken_with_names_of_its_own(nested):
    inner = branches("a", "z")
    inner["then_branch"].node.append(node("Neg", ["t"], ["b"]))  # a name that is taken around it
    inner["then_branch"].initializer.append(helper.make_tensor("w", FLOAT, SHAPE, [3.0] * 6))
    inner["then_branch"].node.append(node("Mul", ["b", "w"], ["u"]))
    inner["then_branch"].output[0].name = "u"
    if nested:
        outer = helper.make_graph([node("If", ["yes"], ["o"], **inner)], "outer", [], [value("o", FLOAT, SHAPE)])
        inner = {"then_branch": outer, "else_branch": branches("a", "z")["else_branch"]}
    nodes = [*CHAIN[:3], node("If", ["yes"], ["i"], **inner), node("Add", ["i", "c"], ["d"])]
    model = asking(model_of(nodes, ["d"]), True)
    graph = trace_onnx(model.SerializeToString(), "m", OnnxImport(isolated=False)).graph
    new, _, _ = follow(model, range(len(graph.nodes)))
    assert sorted(graph.labels) == sorted(["Sigmoid", "Sin", "Neg", "Add", "Neg", "Mul", "Add"])
    assert equal(run(new).outputs, run(model).outputs)


def test_numbers_of_shape_hold_no_tensor():
    nodes = [
        *CHAIN[:2],
        node("Shape", ["b"], ["s"]),
        node("Size", ["b"], ["n"]),
        node("Neg", ["b"], ["c"]),
        node("Reshape", ["c", "s"], ["r"]),
        node("Cast", ["n"], ["m"], to=FLOAT),
        node("Add", ["r", "m"], ["d"]),
    ]
    model = model_of(nodes, ["d"])
    new, _, _ = follow(model, "Abcrd")
    assert operators(new)[5:] == ["r = Reshape(c, s)", "d = Add(r, m)"]
    known = {n.output[0]: onnx.numpy_helper.to_array(n.attribute[0].t).tolist() for n in new.graph.node[:2]}
    assert known == {"s": SHAPE, "m": 6.0}
    assert equal(run(new).outputs, run(model).outputs)


def test_views_follow_each_copy_of_what_they_are_views_of():
    nodes = [CHAIN[0], node("Identity", ["a"], ["v"]), node("Identity", ["v"], ["u"]), node("Sin", ["u"], ["b"]),
             node("Neg", ["b"], ["c"]), node("Add", ["u", "c"], ["d"]), node("Add", ["v", "d"], ["e"])]  # fmt: skip
    model = model_of(nodes, ["e", "v"])
    new, graph, sequence = follow(model, ["A", "b", "c", "A", "d", "e", "results"], merge_views=True)
    assert operators(new) == [
        "a = Sigmoid(x)", "v__1 = Identity(a)", "u = Identity(v__1)", "b = Sin(u)", "c = Neg(b)",
        "a__2 = Sigmoid(x)", "v = Identity(a__2)", "u__2 = Identity(v)", "d = Add(u__2, c)", "e = Add(v, d)",
    ]  # fmt: skip
    found = run(new, shared_views=True)
    assert equal(found.outputs, run(model).outputs) and found.late is None
    assert found.peak == simulate(graph, sequence).peak == 3 * 24


def test_onnx_rewriting_keeps_all_else():
    model = model_of(
        CHAIN, ["d"], [helper.make_tensor("unused", FLOAT, [1], [1.0])],
        value_info=[value("a", FLOAT, SHAPE), value("x", FLOAT, SHAPE)], doc_string="of the graph",
    )  # fmt: skip
    model.producer_name, model.doc_string = "somebody", "about it"
    model.metadata_props.add(key="author", value="me")
    annotation = model.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="unused")
    new, _, _ = follow(model, "AbAcd")
    assert [each.name for each in new.graph.value_info] == ["a", "a__2", "x"]
    assert [each.tensor_name for each in new.graph.quantization_annotation] == ["a", "a__2"]
    for each in (new, model):
        for field in ("node", "value_info", "quantization_annotation"):
            each.graph.ClearField(field)
    assert new == model


@given(seed=st.integers(0, 10**6))
def test_random_recomputation_puts_out_the_same_and_takes_what_the_simulator_says(seed):
    model, shared = checked(random_model(seed)), seed % 2 == 1
    graph = trace_onnx(model.SerializeToString(), "m", OnnxImport(isolated=False, merge_views=shared)).graph
    new, graph, sequence = follow(model, random_sequence(graph, seed), merge_views=shared)
    found = run(new, shared_views=shared)
    assert equal(found.outputs, run(model).outputs)
    assert found.late is None
    assert found.peak == simulate(graph, sequence).peak
