"""Random ONNX models, random sequences of their operators, and what they come to in ONNX Runtime."""

from __future__ import annotations

import random

import onnx
from onnx import TensorProto, helper

from moccasin_mzn.deploy.onnx_session import in_file_order, measured
from moccasin_mzn.graphs.importers.onnx.runtime import random_inputs

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info
SHAPE = [2, 3]


def model_of(nodes, outputs, initializers=(), inputs=("x", "z"), **about):
    """A model whose inputs and outputs are matrices of `SHAPE`."""
    infos = [[value(name, FLOAT, SHAPE) for name in names] for names in (inputs, outputs)]
    graph = helper.make_graph(list(nodes), "g", *infos, list(initializers), **about)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def branches(read, other):
    """The branches of an If that read values from around it."""
    return {
        "then_branch": helper.make_graph([node("Add", [read, other], ["t"])], "then", [], [value("t", FLOAT, SHAPE)]),
        "else_branch": helper.make_graph([node("Sub", [read, other], ["e"])], "else", [], [value("e", FLOAT, SHAPE)]),
    }


def random_model(seed):
    """Elementwise operators, views whose shape is a constant or computed, constants that are computed, and If."""
    pick = random.Random(seed)
    values, nodes = ["x", "z"], [node("Neg", ["w"], ["k"]), node("Abs", ["k"], ["constant"])]
    for at in range(pick.randint(2, 9)):
        name = f"v{at}"
        a, b = pick.choice(values), pick.choice([*values, "constant"])
        kind = pick.choice(["Sigmoid", "Sin", "Add", "Mul", "Identity", "Reshape", "shape", "If"])
        if kind in ("Add", "Mul"):
            nodes.append(node(kind, [a, b], [name], name=name))
        elif kind == "Reshape":
            nodes.append(node(kind, [a, "same"], [name], name=name))
        elif kind == "shape":
            nodes += [node("Shape", [a], [f"{name}s"]), node("Reshape", [a, f"{name}s"], [name], name=name)]
        elif kind == "If":
            nodes.append(node(kind, ["yes"], [name], name=name, **branches(a, b)))
        else:
            nodes.append(node(kind, [a], [name], name=name))
        values.append(name)
    nodes.append(node("Sub", [pick.choice(values), "z"], ["last"]))
    results = sorted({"last", pick.choice(values[2:])})
    constants = [
        helper.make_tensor("w", FLOAT, SHAPE, [0.5, -1.0, 2.0, 0.25, 3.0, -4.0]),
        helper.make_tensor("same", INT64, [2], SHAPE),
    ]
    return asking(model_of(nodes, results, constants), pick.choice([None, True, False]))


def asking(model, known=None):
    """A model with a condition "yes", an input if it is not known."""
    if known is None:
        model.graph.input.append(value("yes", TensorProto.BOOL, []))
    else:
        model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [known]))
    return model


def random_sequence(graph, seed):
    """A sequence that computes every node of a graph, some again."""
    pick = random.Random(seed)
    ready = [v for v in range(len(graph.nodes)) if not graph.predecessors[v]]
    done, sequence = set(), []
    while len(done) < len(graph.nodes):
        new = [v for v in ready if v not in done]
        v = pick.choice(new if pick.random() < 0.6 else ready)
        sequence.append(v)
        done.add(v)
        ready += [s for s in graph.successors[v] if s not in ready and set(graph.predecessors[s]) <= done]
    return sequence


def run(model, seed=0, shared_views=False):
    """A model in the order of its file."""
    return measured(model, random_inputs(model, seed), in_file_order(1), shared_views=shared_views)


def operators(model):
    """Each operator as text: kind, inputs, outputs."""
    return [f"{', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in model.graph.node]


def checked(model):
    """The model, once the checker of `onnx` has nothing to say."""
    onnx.checker.check_model(model, full_check=True)
    return model
