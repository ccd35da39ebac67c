"""`deploy onnx --check` finds what a plan leaves out; what files hold that many importers choke on."""

from __future__ import annotations

import json
import os
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_deploying import FLOAT, INT64, SHAPE, asking, branches, model_of, node, operators, value
from onnx_models import load, weights, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_comparing import compare
from moccasin_mzn.deploy.onnx_deployment import deploy, read_source
from moccasin_mzn.deploy.onnx_session import in_file_order
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.onnx.inference import infer
from moccasin_mzn.graphs.importers.onnx.preparation import Fold, Optimize

QUICK = ("--budget", "1.0", "--time-limit", 1, "--search", "only")


def written(folder, model):
    """Files of a model, and a name for the new one."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path, folder / "new.onnx"


def as_planned(path, **options):
    """What the simulator, and a run, say of a model in the order of its file."""
    of_import = {name: options.pop(name) for name in [*options] if name not in ("reduced", "in_place", "folder")}
    source = read_source(path, OnnxImport(**of_import), **options)
    deployed = deploy(source, source.graph.input_order())
    found = compare(deployed.model, deployed.original, folder=path.parent, in_place=source.runs_in_place)
    assert found.equal and found.late is None
    return deployed.planned_values, found.peak


def scanned(kind):
    """Loop or Scan with a state, two values inside, and something put out in each turn."""
    nodes = [node("Concat", ["s", "s", "s"], ["w"], axis=0), node("Exp", ["w"], ["e"]),
             node("ReduceMax", ["e"], ["m"], axes=[0], keepdims=1), node("Min", ["m", "s"], ["n"])]  # fmt: skip
    row, flag = value("s", FLOAT, [1, 3]), value("go", TensorProto.BOOL, [])
    if kind == "Loop":
        put_out = [node("Identity", ["go"], ["on"]), node("Neg", ["n"], ["part"])]
        results = [value("on", TensorProto.BOOL, []), value("n", FLOAT, [1, 3]), value("part", FLOAT, [1, 3])]
        return helper.make_graph([*nodes, *put_out], "b", [value("i", INT64, []), flag, row], results)
    results = [value("n", FLOAT, [1, 3]), value("part", FLOAT, [3])]
    ends = [node("Add", ["x0", "x0"], ["part"])]
    return helper.make_graph([*nodes, *ends], "b", [row, value("x0", FLOAT, [3])], results)


def inner(name, count):
    """A branch with a value of so many rows."""
    nodes = [node("Concat", ["a"] * count, [f"{name}c"], axis=0), node("Exp", [f"{name}c"], [f"{name}e"]),
             node("ReduceMax", [f"{name}e"], [name], axes=[0], keepdims=1)]  # fmt: skip
    return helper.make_graph(nodes, name, [], [value(name, FLOAT, [1, 3])])


RNN = [weights("W", 1, 16, 3), weights("R", 1, 16, 4)]
FOUR = helper.make_tensor("four", INT64, [], [4])
WIDE = 9 * 2 * 24
"""Of the larger branch: two values of 18 rows of three numbers."""
UNREAD = {
    "unread outputs": ([node("LSTM", ["x", "W", "R"], ["y", "h", "c"], hidden_size=4), node("Relu", ["h"], ["r"])],
                       {"x": [5, 1, 3]}, ["r"], RNN, 5 * 16 + 2 * 16),
    "unread indices": ([node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), node("Relu", ["y"], ["r"])],
                       {"x": [1, 1, 4, 4]}, ["r"], [], 9 * 12),
    "a branch": ([node("Relu", ["x"], ["a"]),
                  node("If", ["c"], ["y"], then_branch=inner("t", 18), else_branch=inner("e", 2))],
                 [value("x", FLOAT, [1, 3]), value("c", TensorProto.BOOL, [])], ["y"], [], 12 + 12 + WIDE),
    "a loop": ([node("Relu", ["x"], ["a"]), node("Loop", ["four", "", "a"], ["last", "all"], body=scanned("Loop"))],
               {"x": [1, 3]}, ["last", "all"], [FOUR], None),
    "a scan": ([node("Relu", ["x"], ["a"]), node("Scan", ["a", "z"], ["last", "all"], body=scanned("Scan"),
                                                 num_scan_inputs=1)],
               {"x": [1, 3], "z": [4, 3]}, ["last", "all"], [], None),
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("what", UNREAD)
def test_what_nobody_reads_or_is_inside_is_planned_as_it_is_measured(tmp_path, what):
    nodes, inputs, outputs, constants, peak = UNREAD[what]
    path = write(tmp_path, nodes, inputs, outputs, constants)
    if what == "a branch":
        given = tmp_path / "given.npz"
        numpy.savez(given, x=numpy.ones((1, 3), numpy.float32), c=numpy.asarray(True))
        source = read_source(path)
        deployed = deploy(source, source.graph.input_order())
        planned = deployed.planned_values
        measured = compare(deployed.model, deployed.original, folder=tmp_path, inputs=given).peak
    else:
        planned, measured = as_planned(path)
    assert planned == measured and peak in (None, planned)


@pytest.mark.full
def test_branches_cost_what_the_longer_one_does(tmp_path):
    nodes, inputs, outputs, _, _ = UNREAD["a branch"]
    nodes = [*nodes]
    for count in (18, 30):
        nodes[1] = node("If", ["c"], ["y"], then_branch=inner("t", 2), else_branch=inner("e", count))
        alone = load(write(tmp_path, [nodes[0], *inner("e", count).node], inputs, ["e"]))
        graph = load(write(tmp_path, nodes, inputs, outputs))
        assert graph.durations[1] == sum(alone.durations[1:]) > count * 12


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "status"), [(8, 1), (2 * 8 * 6, 0)])
def test_a_peak_above_the_planned_one_is_reported_and_fails(tmp_path, command, size, status):
    nodes = [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT), node("ReduceSum", ["f"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", FLOAT, SHAPE)], [value("y", FLOAT, [1, 1])])
    path, new = written(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))
    asked = ("deploy", "onnx", path, "-o", new, *QUICK, "--unknown-size", f"n={size}", "--unknown-size",
             f"f={size // 2}")  # fmt: skip
    code, out, _ = command(*asked)
    assert (code, new.exists()) == (status, status == 0)
    assert command(*asked, "--no-check")[0] == 0 and new.exists()
    assert ("the measured peak is above the planned one, 12 B of values: by " in out) == bool(status)
    assert json.loads(command(*asked, "--json")[1])["within_plan"] == (status == 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("how", [(), ("--tile", "1")])
def test_a_model_that_does_not_run_is_not_written(tmp_path, command, how):
    """Numbers of rows that are not in a table: nothing is overwritten, unless it is asked for."""
    nodes = [node("Gather", ["t", "x"], ["a"]), node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", INT64, [4])], [value("y", FLOAT, [4])],
                              [helper.make_tensor("t", FLOAT, [1], [1.0])])  # fmt: skip
    path, new = written(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))
    new.write_text("dear to somebody")
    status, out, err = command("deploy", "onnx", path, "-o", new, *QUICK, *how)
    assert (status, out, new.read_text()) == (2, "", "dear to somebody")
    (line,) = [each for each in err.splitlines() if not each.startswith("tiling: ")]
    assert line.startswith(f"error: {path}: the model itself does not run: ONNX Runtime ") and "indices" in line
    assert line.endswith("; give other inputs (--inputs), or write a model that did not run (--no-check)")
    numpy.savez(tmp_path / "given.npz", x=numpy.zeros(4, numpy.int64))
    assert command("deploy", "onnx", path, "-o", new, *QUICK, *how, "--inputs", tmp_path / "given.npz")[0] == 0
    new.write_text("dear to somebody")
    assert command("deploy", "onnx", path, "-o", new, *QUICK, *how, "--no-check")[0] == 0
    assert operators(onnx.load(new))[0] == "a = Gather(t, x)"


@pytest.mark.full
def test_without_onnxruntime_models_are_written_with_a_note(tmp_path, command, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    path, new = written(tmp_path, model_of([node("Relu", ["x"], ["y"])], ["y"]))
    status, out, err = command("deploy", "onnx", path, "-o", new, *QUICK)
    assert status == 0 and new.exists() and "outputs are" not in out
    assert err.startswith("note: the new model did not run: --check needs the package onnxruntime: pip install ")
    status, out, _ = command("deploy", "onnx", path, "-o", new, *QUICK, "--json")
    assert (status, "equal" in json.loads(out), len(json.loads(out)["notes"])) == (0, False, 1)
    assert command("deploy", "onnx", path, "-o", new, *QUICK, "--no-check")[::2] == (0, "")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        (["nothing=8"], "size of 'nothing': no operator puts out this value"),
        (["y=8"], "size of 'y': it is known, 24 bytes, not 8"),
        (["x=3", "x=3"], "--unknown-size 'x=3' is given twice"),
        (["5", "6"], "--unknown-size '6' is given twice"),
        (["y=many"], "--unknown-size 'many': expected stop, bytes, or NAME=BYTES"),
        (["4kb"], "--unknown-size '4kb': expected stop, bytes, or NAME=BYTES"),
    ],
)
def test_onnx_check_rejects_wrong_sizes(tmp_path, command, sizes, complaint):
    path, _ = written(tmp_path, model_of([node("Relu", ["x"], ["y"])], ["y"]))
    status, _, err = command("import", "onnx", path, *(word for size in sizes for word in ("--unknown-size", size)))
    assert (status, err.count("\n")) == (2, 1) and complaint in err


@pytest.mark.full
def test_sizes_by_name_go_before_the_one_for_all(tmp_path, command):
    nodes = [node("NonZero", ["x"], ["n"], name="non zero"), node("Cast", ["n"], ["f"], to=FLOAT)]
    model = model_of(nodes, ["f"])
    model.graph.output[0].ClearField("type")
    path, _ = written(tmp_path, model)
    status, out, _ = command("import", "onnx", path, "--unknown-size", "n=64KiB", "--unknown-size", "100")
    told = json.loads(out)["nodes"]
    assert status == 0 and [(each["size"], each["duration"]) for each in told] == [(65536, 65536), (100, 100)]


# --- inputs that are given -------------------------------------------------------------------------------


def npz(folder, **arrays):
    path = folder / "given.npz"
    numpy.savez(path, **arrays)
    return path


ONES = numpy.ones(SHAPE, numpy.float32)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x": ONES}, "there is no z; the inputs are x, z"),
        ({"x": ONES, "z": ONES, "w": ONES}, "w is no input; the inputs are x, z"),
        ({"x": ONES, "z": ONES.astype(float)}, "'z' has the type float64, expected float32"),
        ({"x": ONES, "z": ONES[:1]}, "'z' has the shape (1, 3), expected (2, 3)"),
        ({"x": ONES, "z": numpy.asarray([{}])}, "no .npz of arrays: "),
    ],
)
def test_onnx_check_rejects_wrong_inputs(tmp_path, command, arrays, complaint):
    path, new = written(tmp_path, model_of([node("Add", ["x", "z"], ["y"])], ["y"]))
    given = npz(tmp_path, **arrays)
    status, _, err = command("deploy", "onnx", path, "-o", new, *QUICK, "--check", "--inputs", given)
    assert (status, new.exists()) == (2, False) and err.splitlines()[-1].startswith("error: ") and complaint in err


@pytest.mark.full
def test_inputs_are_for_a_check(tmp_path, command):
    path, new = written(tmp_path, model_of([node("Add", ["x", "z"], ["y"])], ["y"]))
    asked = ("deploy", "onnx", path, "-o", new, *QUICK, "--inputs", npz(tmp_path, x=ONES, z=ONES))
    assert command(*asked, "--no-check")[2] == "error: --inputs is for --check\n"
    assert command(*asked)[0] == command(*asked, "--check")[0] == 0


# --- files as they are found -----------------------------------------------------------------------------


@pytest.mark.full
def test_operators_out_of_order_are_sorted_with_a_note(tmp_path, command):
    chain = [
        node("Sigmoid", ["x"], ["a"]),
        node("If", ["yes"], ["b"], **branches("a", "z")),
        node("Add", ["a", "b"], ["y"]),
    ]
    for graph in (attribute.g for attribute in chain[1].attribute):
        graph.node.insert(0, node("Neg", [graph.node[0].output[0]], ["late"]))
        graph.output[0].name = "late"
    path, new = written(tmp_path, asking(model_of(chain[::-1], ["y"])))
    status, _, err = command("deploy", "onnx", path, "-o", new, *QUICK, "--check")
    assert status == 0 and err == "note: operators are out of order in the file, and were sorted\n"
    assert [each.split(" = ")[0] for each in operators(onnx.load(new))] == ["a", "b", "y"]


@pytest.mark.full
def test_weights_in_external_files_are_read_by_a_check(tmp_path, command):
    model = model_of([node("Add", ["x", "w"], ["y"])], ["y"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=SHAPE, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights")
    model.graph.initializer.append(tensor)
    path, new = written(tmp_path, model)
    asked = ("deploy", "onnx", path, "-o", new, *QUICK, "--check")
    status, _, err = command(*asked)
    assert status == 2 and err.startswith(f"error: {path}: weights in external files (w): ") and err.count("\n") == 1
    (tmp_path / "weights").write_bytes(numpy.full(SHAPE, 2, numpy.float32).tobytes())
    status, out, _ = command(*asked)
    assert status == 0 and "outputs are equal" in out


# --- what depends on constants ---------------------------------------------------------------------------


def quantized(rows):
    """A product with dequantized weights, which two operators read."""
    stored = [numpy_helper.from_array(numpy.full((3, rows), 3, numpy.int8), "q"),
              helper.make_tensor("s", FLOAT, [], [0.5])]  # fmt: skip
    nodes = [node("DequantizeLinear", ["q", "s"], ["w"]), node("MatMul", ["x", "w"], ["a"]),
             node("MatMul", ["z", "w"], ["b"]), node("Add", ["a", "b"], ["y"])]  # fmt: skip
    model = model_of(nodes, [], stored)
    model.graph.output.append(value("y", FLOAT, [2, rows]))
    return model


@pytest.mark.few(1)
@pytest.mark.parametrize("fold", [*Fold])
@pytest.mark.parametrize("rows", [4, 30_000])
def test_dequantized_weights_are_folded_if_small_and_counted_if_not(tmp_path, fold, rows):
    path, _ = written(tmp_path, quantized(rows))
    graph = load(path, fold=fold)
    folded = fold is Fold.ALL or (fold is Fold.SMALL and rows == 4)
    assert ("w" not in graph.nodes) == folded
    assert graph.fixed_memory["parameters"] == (12 * rows if folded else 3 * rows + 4)
    assert len(set(as_planned(path, fold=fold))) == 1  # one DequantizeLinear, not one for each reader


def test_a_session_keeps_dequantize_linear_as_often_as_it_is_there():
    assert in_file_order(1).get_session_config_entry("session.disable_quant_qdq") == "1"


@pytest.mark.few(1)
@pytest.mark.parametrize("level", [*Optimize])
def test_what_onnx_runtime_makes_of_a_file_runs_as_planned(tmp_path, level):
    random = numpy.random.default_rng(0)
    stored = [numpy_helper.from_array(random.random(shape).astype(numpy.float32), name)
              for name, shape in (("w", (20, 3, 3, 3)), ("v", (3, 20, 3, 3)))]  # fmt: skip
    nodes = [node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node("Relu", ["a"], ["b"]),
             node("Conv", ["b", "v"], ["c"], pads=[1] * 4), node("Add", ["c", "x"], ["y"])]  # fmt: skip
    path = write(tmp_path, nodes, {"x": ["batch", 3, 8, 8]}, ["y"], stored)
    graph = load(path, dims={"batch": 2}, optimize=level)
    planned, measured = as_planned(path, dims={"batch": 2}, optimize=level)
    assert planned == measured
    assert ("Relu" in graph.labels) == (level in (Optimize.NONE, Optimize.BASIC))


def test_optimizing_what_onnx_runtime_does_not_know_is_refused_in_one_line(tmp_path):
    path = write(tmp_path, [node("Mine", ["x"], ["y"], domain="acme")], {"x": [3]}, ["y"], sets=[("", 17), ("acme", 1)])
    with pytest.raises(InputError, match=r"model.onnx: ONNX Runtime [\d.]+: ") as caught:
        load(path, optimize=Optimize.ALL)
    assert str(caught.value).isprintable()


def test_a_shape_that_a_scan_puts_out_is_known(tmp_path):
    nodes, inputs, outputs, constants, _ = UNREAD["a loop"]
    model = onnx.load(write(tmp_path, nodes, inputs, outputs, constants))
    shapes = infer(model, {})
    assert (shapes.of("last").shape, shapes.of("all").shape) == ((1, 3), (4, 1, 3))


# --- A crash in ONNX Runtime ----------------------------------------------------------------------------------

CRASHING = """
import os, pathlib, signal, sys
if "moccasin_mzn.deploy.onnx_running" in sys.orig_argv:
    count = pathlib.Path({count!r})
    count.write_text(count.read_text() + "|" if count.exists() else "|")
    if len(count.read_text()) == {run}:
        os.kill(os.getpid(), signal.{name})
"""


@pytest.mark.parametrize(
    ("run", "name", "expected"),
    [(1, "SIGSEGV", "the model itself does not run: ONNX Runtime ends its process: Segmentation fault"),
     (2, "SIGSEGV", "the new model does not run: ONNX Runtime ends its process: Segmentation fault"),
     (2, "SIGABRT", "the new model does not run: ONNX Runtime ends its process: Aborted"),
     (2, "SIGKILL", "the new model does not run: ONNX Runtime ends its process: Killed")],
)  # fmt: skip
@pytest.mark.few(1)
def test_a_crash_is_an_error_of_one_line_and_nothing_is_written(run, name, expected, command, tmp_path, monkeypatch):
    path, new = written(tmp_path, model_of([node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["y"])], ["y"]))
    before = new.write_bytes(b"before")
    (tmp_path / "python").mkdir()
    crash = CRASHING.format(count=str(tmp_path / "count"), run=run, name=name)
    (tmp_path / "python" / "sitecustomize.py").write_text(crash)
    rest = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "python"), *([rest] if rest else [])]))
    status, out, err = command("deploy", "onnx", path, *QUICK, "-o", new)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (status, out, len(lines)) == (2, "", 1) and expected in lines[0] and str(path) in lines[0]
    assert "Traceback" not in err and new.read_bytes() == b"before" and before == 6
