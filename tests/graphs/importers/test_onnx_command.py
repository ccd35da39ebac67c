"""The command `import onnx`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest

from moccasin_mzn.graphs.formats import read_graph

SQUEEZENET = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"


def test_import_onnx_writes_graph_and_record(command, tmp_path):
    path = tmp_path / "g.json"
    status, out, err = command("import", "onnx", SQUEEZENET, "--fold", "all", "-o", path)
    assert (status, err) == (0, "")
    graph = read_graph(path)
    assert (len(graph.nodes), len(graph.edges), graph.total_size) == (66, 73, 28_191_616)
    record = graph.attributes["made_by"]
    assert record["command"] == "moccasin-mzn import onnx light_squeezenet.onnx --fold all"
    assert record["source"]["sha256"] == hashlib.sha256(SQUEEZENET.read_bytes()).hexdigest()
    assert record["versions"].keys() == {"moccasin_mzn", "onnx", "onnx-tool"}


def test_views_may_share_memory(command, tmp_path):
    path = tmp_path / "g.json"
    command(
        "import",
        "onnx",
        SQUEEZENET.with_name("light_shufflenet.onnx"),
        "--views",
        "shared",
        "--fold",
        "all",
        "-o",
        path,
    )
    assert len(read_graph(path).nodes) == 170  # without Reshape


@pytest.mark.full
def test_import_onnx_measures_durations(command, tmp_path):
    path = tmp_path / "g.json"
    assert command("import", "onnx", SQUEEZENET, "--fold", "all", "--profile", "1", "-o", path)[0] == 0
    graph = read_graph(path)
    assert graph.duration_unit == "ns"
    assert all(duration > 0 for duration in graph.durations)
    assert "onnxruntime" in graph.attributes["made_by"]["versions"]


def test_open_dimensions_are_fixed_and_what_is_unknown_is_named(command, tmp_path):
    node = onnx.helper.make_node("Odd", ["x"], ["y"], domain="mine", name="odd")
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 3])] for name in ("x", "y")
    )
    graph = onnx.helper.make_graph([node], "g", inputs, outputs)
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("mine", 1)]
    model, path = tmp_path / "m.onnx", tmp_path / "g.json"
    model.write_bytes(onnx.helper.make_model(graph, opset_imports=sets).SerializeToString())

    status, out, err = command("import", "onnx", model, "-o", path)
    assert (status, out) == (2, "")
    assert "give a number for each open dimension" in err and "batch" in err
    assert not path.exists()

    status, _, err = command("import", "onnx", model, "--dim", "batch=8", "-o", path)
    assert status == 0
    assert err == "note: duration unknown, one for each element of the output taken: 1 node (1 mine.Odd): odd\n"
    assert (read_graph(path).sizes, read_graph(path).durations) == ((96,), (24,))
    assert read_graph(path).attributes["assumed"] == [err.removeprefix("note: ").strip()]

    status, _, err = command("import", "onnx", model, "--dim", "batch=8", "--unknown-duration", "stop")
    told = "the duration is unknown of 1 node (1 mine.Odd): odd; choose what to take (--unknown-duration)"
    assert (status, err) == (2, f"error: {model}: {told} (see ONNX: docs/graphs.md#onnx)\n")


@pytest.mark.parametrize("dim", ["batch", "=3", "batch=-1", "batch=x", "a\nb"])
def test_import_onnx_rejects_wrong_dimensions(command, dim):
    status, out, err = command("import", "onnx", SQUEEZENET, "--dim", dim)
    assert (status, out) == (2, "")
    assert err.startswith("error: --dim ") and err.count("\n") == 1 and "expected NAME=N" in err
