"""`deploy onnx`: an ONNX file and a schedule in, a file that follows it out; and what is refused in one line."""

from __future__ import annotations

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_deploying import FLOAT, INT64, SHAPE, asking, branches, checked, model_of, node, operators, value
from onnx_models import LIGHT

from moccasin_mzn.deploy.onnx_session import session
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx
from moccasin_mzn.graphs.importers.onnx.preparation import Fold
from moccasin_mzn.problem.judges.schedules import simulate

NODES = [node("Sigmoid", ["x"], ["a"]), node("Sin", ["a"], ["b"]), node("Neg", ["b"], ["c"]),
         node("Add", ["a", "c"], ["d"])]  # fmt: skip


def written(folder, model, document):
    """Files of a model and of a schedule, and a name for the new model."""
    files = [folder / name for name in ("model.onnx", "schedule.json", "new.onnx")]
    files[0].write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    files[1].write_text(document if isinstance(document, str) else json.dumps(document))
    return files


@pytest.mark.full
def test_a_schedule_as_solve_writes_it(tmp_path, command):
    model, schedule, new = written(tmp_path, model_of(NODES, ["d"]), "")
    graph = tmp_path / "graph.json"
    assert command("import", "onnx", model, "-o", graph)[0] == 0
    assert (
        command("solve", graph, "--budget", "1.0", "--search", "only", "--time-limit", "1", "--output", schedule)[0]
        == 0
    )
    status, out, err = command("deploy", "onnx", model, schedule, "-o", new, "--check")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"{new}: 4 operators, 0 recomputations: 4 in the file, planned peak 72 B instead of 72 B",
        "outputs are equal, bit for bit",
        "order: that of the schedule",
        "measured peak of the new model: 72 B",
        "measured peak of the model in the order of its file: 72 B",
        "measured peak of the model in the order of ONNX Runtime: 72 B",
    ]


def test_recomputation_is_reported_as_json_and_recorded_in_the_file(tmp_path, command):
    sequence = list("abcad")
    model, schedule, new = written(tmp_path, model_of(NODES, ["d"]), sequence)
    status, out, err = command("deploy", "onnx", model, schedule, "-o", new, "--check", "--json")
    assert (status, err) == (0, "")
    peaks = dict.fromkeys(("planned_peak", "planned_values", "former_peak", "measured_peak", "measured_former_peak",
                           "measured_usual_peak"), 72)  # fmt: skip
    assert json.loads(out) == {
        "operators": 4,
        "computations": 5,
        "notes": [],
        "equal": True,
        "in_order": True,
        "within_plan": True,
        **peaks,
    }
    made = checked(onnx.load(new))
    assert operators(made)[3] == "a__2 = Sigmoid(x)"
    (record,) = (json.loads(each.value) for each in made.metadata_props)
    assert record["command"] == "moccasin-mzn deploy onnx model.onnx schedule.json --check --json"
    assert record["peak"] == 72 and len(record["source"]["sha256"]) == 64
    assert [each.name for each in session(new).get_outputs()] == ["d"]


@pytest.mark.full
def test_open_dimensions_and_shared_views_as_in_the_import(tmp_path, command):
    nodes = [*NODES, node("Shape", ["d"], ["s"]), node("Sigmoid", ["d"], ["e"]), node("Reshape", ["e", "s"], ["f"])]
    graph = helper.make_graph(nodes, "g", *([value(name, FLOAT, ["batch", 3])] for name in "xf"))
    model, schedule, new = written(tmp_path, helper.make_model(graph, ir_version=10), list("abcade"))
    arguments = ("deploy", "onnx", model, schedule, "-o", new, "--views", "shared", "--check", "--json")
    assert command(*arguments)[0] == 2 and not new.exists()
    status, out, _ = command(*arguments, "--dim", "batch=2")
    told = json.loads(out)
    assert (status, told["equal"], told["measured_peak"], told["planned_peak"]) == (0, True, 72, 72)
    assert [each.dim_value for each in onnx.load(new).graph.input[0].type.tensor_type.shape.dim] == [2, 3]


def classifier(dims, declared):
    """Rows of a table by number, in a shape that is computed of the numbers' own, their mean, and a product of it."""
    tables = [("table", numpy.ones((9, 4), "f")), ("k", numpy.ones((4, 3), "f")), ("zero", numpy.array([0])),
              ("rest", numpy.array([-1, 4]))]  # fmt: skip
    nodes = [node("Gather", ["table", "ids"], ["e"]), node("Shape", ["ids"], ["s"]),
             node("Gather", ["s", "zero"], ["b"]), node("Concat", ["b", "rest"], ["to"], axis=0),
             node("Reshape", ["e", "to"], ["r"]), node("ReduceMean", ["r"], ["m"], axes=[1], keepdims=0),
             node("MatMul", ["m", "k"], ["y"])]  # fmt: skip
    outputs = [value("r", FLOAT, [declared, declared, 4]), value("y", FLOAT, [declared, 3])]
    constants = [numpy_helper.from_array(array, name) for name, array in tables]
    between = [value("m", FLOAT, [declared, 4])]
    graph = helper.make_graph(nodes, "g", [value("ids", INT64, dims)], outputs, constants, value_info=between)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.few(3)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("dims", "declared"),
    [([-1, 5], -1), ([0, 5], 0), (["n", 5], "n"), (["n", 5], "other"), ([-1, 5], None), ([-1, 5], 7)],
)
def test_what_a_file_declares_is_set_together_with_its_inputs(tmp_path, command, dims, declared, batch):
    """Whatever it is declared as, the new file has the shapes that ONNX Runtime puts out, and onnx accepts it."""
    files = written(tmp_path, classifier(dims, declared), "")
    asked = (
        "deploy",
        "onnx",
        files[0],
        "-o",
        files[2],
        "--budget",
        "1.0",
        "--time-limit",
        1,
        "--dim",
        f"ids[0]={batch}",
    )
    status, _, err = command(*asked)
    assert (status, err) == (0, "")
    made = checked(onnx.load(files[2]))
    found = session(files[2]).run(None, {"ids": numpy.zeros((batch, 5), "i8")})
    declared = [[dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in made.graph.output]
    assert declared == [[*each.shape] for each in found] == [[batch, 5, 4], [batch, 3]]


@pytest.mark.full
def test_what_is_open_in_branches_is_closed_or_forgotten(tmp_path, command):
    graphs = branches("x", "x")
    for graph in graphs.values():
        graph.output[0].type.tensor_type.shape.dim[0].dim_value = -1
        graph.output[0].type.tensor_type.shape.dim[1].dim_param = "n"
    model = asking(model_of([node("If", ["yes"], ["y"], **graphs)], ["y"], inputs=["x"]))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = -1
    files = written(tmp_path, model, "")
    asked = ("deploy", "onnx", files[0], "-o", files[2], "--budget", "1.0", "--time-limit", 1, "--dim", "n=3")
    assert command(*asked)[::2] == (0, "")
    made = checked(onnx.load(files[2]))
    inner = [attribute.g.output[0] for attribute in made.graph.node[0].attribute]
    shapes = [each.type.tensor_type.shape.dim for each in (*made.graph.output, *inner)]
    assert [[dim.dim_value for dim in shape] for shape in shapes] == [[2, 3], [0, 3], [0, 3]]
    assert not any(shape[0].HasField("dim_value") for shape in shapes[1:])


@pytest.mark.full
def test_schedules_of_reduced_graphs(tmp_path, command):
    model, schedule, new = written(tmp_path, model_of(NODES, ["d"]), {"sequence": list("abad"), "nodes": 3, "peak": 72})
    assert command("deploy", "onnx", model, schedule, "-o", new)[0] == 2
    status, out, _ = command("deploy", "onnx", model, schedule, "-o", new, "--reduced", "--check", "--json")
    assert (status, json.loads(out)["computations"]) == (0, 5)
    assert [each.split()[0] for each in operators(onnx.load(new))] == ["a", "b", "c", "a__2", "d"]


@pytest.mark.full
def test_random_numbers_that_are_drawn_once_are_no_hindrance(tmp_path, command):
    nodes = [*NODES, node("RandomUniformLike", ["d"], ["e"]), node("Add", ["d", "e"], ["f"])]
    model, schedule, new = written(tmp_path, model_of(nodes, ["f"]), list("abcadef"))
    status, out, _ = command("deploy", "onnx", model, schedule, "-o", new, "--check", "--json")
    assert (status, json.loads(out)["equal"]) == (0, None)


@pytest.mark.full
def test_what_the_checker_refuses_anyhow_is_noted(tmp_path, command):
    model = model_of(NODES, ["d"])
    model.graph.output[0].ClearField("type")
    model, schedule, new = written(tmp_path, model, list("abcad"))
    status, _, err = command("deploy", "onnx", model, schedule, "-o", new)
    assert status == 0 and new.exists()
    assert err.startswith("note: onnx accepts neither the model nor the new one: ") and err.count("\n") == 1


@pytest.mark.full
def test_a_network_from_a_package(tmp_path, command):
    path = LIGHT / "light_shufflenet.onnx"
    graph = import_onnx(path, OnnxImport(fold=Fold.ALL, isolated=False))
    order = [graph.nodes[v] for v in graph.input_order()]
    sequence = [*order[:14], *order[:4], *order[14:]]
    peak = simulate(graph, [graph.position_of(v) for v in sequence]).peak
    _, schedule, new = written(tmp_path, b"", {"sequence": sequence, "peak": peak, "nodes": 203})
    status, out, err = command("deploy", "onnx", path, schedule, "-o", new, "--fold", "all", "--check", "--json")
    told = json.loads(out)
    assert (status, err, told["equal"], told["in_order"]) == (0, "", True, True)
    assert told["measured_peak"] == told["planned_peak"] == peak < told["former_peak"] == told["measured_former_peak"]


# --- refused ---------------------------------------------------------------------------------------------

OTHER = "is it for another model, or made with other options of import onnx?"


def with_second(kind, *reads, domain="", **attributes):
    """A model whose second operator, "b", is another one."""
    more = [helper.make_tensor("ratio", FLOAT, [], [0.5]), helper.make_tensor("yes", TensorProto.BOOL, [], [True])]
    model = model_of([NODES[0], node(kind, reads, ["b"], domain=domain, **attributes), *NODES[2:]], ["d"], more)
    if domain:
        model.opset_import.add(domain=domain, version=1)
    return model


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("", "schedule.json: the file is empty"),
        ('{"sequence": [', "schedule.json: line 1 column 15: Expecting value (is the file cut short?)"),
        ({"order": []}, 'schedule.json: expected a key "sequence" with a list of node ids'),
        (3, "schedule.json: expected a list of node ids or an object, got 3"),
        (["a", "q"], f"schedule.json: sequence[1]: node 'q' is not in the graph; {OTHER}"),
        ({"sequence": ["a"], "nodes": 5}, f"schedule.json: for a graph of 5 nodes, the model has 4; {OTHER}"),
        ({"sequence": ["a"], "edges": 5}, f"schedule.json: for a graph of 5 edges, the model has 4; {OTHER}"),
        (["a", "c"], "schedule.json: no schedule of this model: position 2: node c (Neg) reads node b (Sin), "
                     "which is not computed before"),
        (list("abc"), "schedule.json: no schedule of this model: node d (Add) is never computed"),
        ({"sequence": list("abcad"), "peak": 73}, f"schedule.json: peak 73, but with this model it is 72; {OTHER}"),
        ({"sequence": list("abcd"), "intervals": [{"node": "a", "start": 1, "end": 2}]},
         f"schedule.json: its intervals are not those of its sequence with this model; {OTHER}"),
        ({"sequence": [], "memories": [], "steps": []}, "schedule.json: "),
    ],
)  # fmt: skip
def test_schedules_that_are_refused(tmp_path, command, document, complaint):
    refused(command, written(tmp_path, model_of(NODES, ["d"]), document), complaint)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (b"", "model.onnx: the file is empty"),
        (b"nothing", "model.onnx: not an ONNX model (is the file cut short?)"),
        (model_of(NODES[1:], ["d"], inputs=["a"]),
         f"schedule.json: sequence[0]: node 'a' is not in the graph; {OTHER}"),
        (with_second("RandomUniformLike", "a"), "schedule.json: RandomUniformLike 'b' is computed 3 times, "),
        (with_second("RandomNormalLike", "a", seed=1.0), "schedule.json: RandomNormalLike 'b' is computed 3 times, "),
        (with_second("RandomNormal", shape=SHAPE), "schedule.json: RandomNormal 'b' is computed 3 times, "),
        (with_second("Bernoulli", "a"), "schedule.json: Bernoulli 'b' is computed 3 times, "),
        (with_second("Dropout", "a", "ratio", "yes", seed=1), "schedule.json: Dropout 'b' is computed 3 times, "),
        (with_second("Mine", "a", domain="my.own"), "schedule.json: my.own.Mine 'b' is computed 3 times, "),
        (with_second("BiasDropout", "a", domain="com.microsoft"),
         "schedule.json: com.microsoft.BiasDropout 'b' is computed 3 times, "),
        (with_second("If", "yes", **{
            f"{word}_branch": helper.make_graph([node("RandomUniformLike", ["a"], [word])], word, [],
                                                [value(word, FLOAT, SHAPE)]) for word in ("then", "else")}),
         "schedule.json: RandomUniformLike 'b' is computed 3 times, "),
    ],
)  # fmt: skip
def test_models_that_are_refused(tmp_path, command, model, complaint):
    files = written(tmp_path, model, list("abcbabcd"))
    refused(command, files, complaint, "--unknown-size", "24")


def refused(command, files, complaint, *options):
    """Is this refused in one line, and what is there left alone?"""
    model, schedule, new = files
    new.write_text("dear to somebody")
    status, out, err = command("deploy", "onnx", model, schedule, "-o", new, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {schedule.parent}/{complaint}") and err.count("\n") == 1
    assert new.read_text() == "dear to somebody"


def test_a_file_that_is_read_is_not_written(tmp_path, command):
    model, schedule, _ = written(tmp_path, model_of(NODES, ["d"]), list("abcad"))
    for output, what in ((model, "the model"), (schedule, "the schedule")):
        status, _, err = command("deploy", "onnx", model, schedule, "-o", output)
        assert (status, err) == (2, f"error: {output}: is {what}, and would be lost\n")


@pytest.mark.full
def test_weights_in_external_files_stay_beside_the_model(tmp_path, command):
    model = model_of([*NODES, node("Add", ["d", "w"], ["e"])], ["e"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=SHAPE, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights")
    (tmp_path / "weights").write_bytes(bytes(24))
    model.graph.initializer.append(tensor)
    model, schedule, new = written(tmp_path, model, list("abcade"))
    other = tmp_path / "elsewhere"
    other.mkdir()
    status, _, err = command("deploy", "onnx", model, schedule, "-o", other / "new.onnx")
    reason = "weights in external files (w): write the new model next to this one"
    assert (status, err) == (2, f"error: {model}: {reason}\n")
    assert command("deploy", "onnx", model, schedule, "-o", new)[0] == 0
    zeros = numpy.zeros(SHAPE, numpy.float32)
    assert session(new).run(["e"], {"x": zeros, "z": zeros})[0].tolist() != [[0.0] * 3] * 2


@pytest.mark.full
def test_another_order_than_that_of_the_file_is_reported(tmp_path, command):
    norm = node("GroupNormalization", ["p", "one", "one"], ["n"], num_groups=1)  # which ONNX Runtime takes apart
    nodes = [*NODES, node("Unsqueeze", ["d", "axis"], ["p"]), norm, node("Squeeze", ["n", "axis"], ["e"])]
    constants = [
        helper.make_tensor("one", FLOAT, [2], [1.0] * 2),
        helper.make_tensor("axis", TensorProto.INT64, [1], [0]),
    ]
    model = model_of(nodes, ["e"], constants)
    model.opset_import[0].version = 21
    model, schedule, new = written(tmp_path, model, list("abcadpne"))
    _, out, _ = command("deploy", "onnx", model, schedule, "-o", new, "--check")
    assert "order: not that of the schedule: ONNX Runtime moves GroupNormalization 'n', or takes it apart" in out
