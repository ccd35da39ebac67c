"""Durations of ONNX operators measured with ONNX Runtime: real runs of real networks."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.extras import install_command
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx
from moccasin_mzn.graphs.importers.onnx.profile import profile_onnx, refuse_pipe, versions
from moccasin_mzn.graphs.importers.program import profiled

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RAPIDOCR = find_spec("rapidocr")
node, value = helper.make_node, helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def write(folder, nodes, inputs, outputs, initializers=(), version=17):
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.full
def test_every_operator_of_a_network_gets_a_time(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = LIGHT / "light_squeezenet.onnx"
    graph = import_onnx(path)
    times = profile_onnx(path, graph, repeats=3, warmups=1)
    assert list(times) == list(graph.nodes)
    assert all(type(time) is int and time >= 1 for time in times.values())
    largest = max(range(len(graph.nodes)), key=graph.durations.__getitem__)  # a convolution of a tenth of all MACs
    assert times[graph.nodes[largest]] > sorted(times.values())[len(times) // 2]
    measured = profiled(graph, times)
    assert (measured.duration_unit, measured.durations) == ("ns", tuple(times.values()))
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(RAPIDOCR is None, reason="rapidocr is not installed")
def test_open_dimensions_and_merged_views():
    path = Path(RAPIDOCR.origin).parent / "models" / "ch_ppocr_mobile_v2.0_cls_mobile.onnx"
    dims = {"x[0]": 1, "x[2]": 48, "x[3]": 192}
    graph = import_onnx(path, OnnxImport(dims, merge_views=True))
    times = profile_onnx(path, graph, OnnxImport(dims), repeats=2, warmups=0, threads=2, seed=5)
    assert list(times) == list(graph.nodes)
    with pytest.raises(InputError, match=r"give a number for each open dimension \(--dim, dims\), by place or name: x"):
        profile_onnx(path, graph)


@pytest.mark.full
def test_names_results_branches_and_types_of_inputs(tmp_path):
    branches = {
        f"{word}_branch": helper.make_graph([node(kind, ["a"], ["r"], name="n")], word, [], [value("r", FLOAT, None)])
        for word, kind in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [
        node("Relu", ["x"], ["a"], name='n"\\'),
        node("Gather", ["a", "i"], ["b"], name="n", axis=0),
        node("If", ["c"], ["y"], name="n", **branches),
        node("Cast", ["h"], ["z"], to=FLOAT),
    ]
    inputs = [value("x", FLOAT, [2, 3]), value("i", TensorProto.INT64, [4]), value("c", TensorProto.BOOL, [])]
    inputs.append(value("h", TensorProto.FLOAT16, []))
    path = write(tmp_path, nodes, inputs, ["b", "y", "z"])
    graph = import_onnx(path)
    times = profile_onnx(path, graph, repeats=1, warmups=0)
    assert list(times) == ['n"\\', "n", "n_2", "z", "results"]
    assert times.pop("results") == 0 and min(times.values()) >= 1


@pytest.mark.full
def test_stopping_early():
    path = LIGHT / "light_squeezenet.onnx"
    graph = import_onnx(path)
    asked = iter([False, False, False, True])
    assert profile_onnx(path, graph, repeats=10**9, warmups=1, stop=lambda: next(asked)).keys() == set(graph.nodes)
    with pytest.raises(InputError, match=r"light_squeezenet.onnx: stopped before the first measured run$"):
        profile_onnx(path, graph, warmups=1, stop=lambda: True)


def test_an_operator_that_is_taken_apart_is_named(tmp_path):
    scale = helper.make_tensor("s", FLOAT, [4], [1.0] * 4)
    nodes = [node("GroupNormalization", ["x", "s", "s"], ["y"], name="norm", num_groups=2)]
    path = write(tmp_path, nodes, [value("x", FLOAT, [1, 4, 3])], ["y"], [scale], version=21)
    with pytest.raises(InputError, match=r"under its own name: norm \(GroupNormalization\)$"):
        profile_onnx(path, import_onnx(path))


@pytest.mark.full
def test_another_graph_is_refused(tmp_path):
    path = LIGHT / "light_squeezenet.onnx"
    with pytest.raises(InputError, match="light_squeezenet.onnx: no operator of the file is "):
        profile_onnx(path, import_onnx(LIGHT / "light_resnet50.onnx"))


@pytest.mark.full
def test_a_pipe_is_refused_before_it_is_read(tmp_path):
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    message = f"{pipe}: cannot be measured: it is no regular file, and is read twice"
    path = LIGHT / "light_squeezenet.onnx"
    for refused in (lambda: refuse_pipe(pipe), lambda: profile_onnx(pipe, import_onnx(path))):
        with pytest.raises(InputError) as caught:
            refused()
        assert str(caught.value) == message
    refuse_pipe(path)
    for kept in (tmp_path / "none.onnx", tmp_path):  # reading says better what is wrong
        refuse_pipe(kept)
        with pytest.raises(InputError, match=": cannot read: "):
            profile_onnx(kept, import_onnx(path))


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{"repeats": 0}, {"warmups": -1}, {"threads": 0}])
def test_counts_that_are_none(options):
    path = LIGHT / "light_squeezenet.onnx"
    with pytest.raises(InputError, match="expected at least 1, 0 and 1"):
        profile_onnx(path, import_onnx(path), **options)


def test_what_onnx_runtime_cannot_run_is_refused_in_one_line(tmp_path):
    path = write(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", FLOAT, [2])], ["y"])
    model = onnx.load(path)
    model.ir_version = 10_000
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"model.onnx: ONNX Runtime [0-9.]+: .*IR version: 10000") as caught:
        profile_onnx(path, import_onnx(path))
    assert str(caught.value).isprintable()


@pytest.mark.full
def test_inputs_without_random_values(tmp_path):
    path = write(tmp_path, [node("Shape", ["s"], ["n"]), node("Relu", ["x"], ["y"])],
                 [value("x", FLOAT, [2]), value("s", TensorProto.STRING, [2])], ["y"])  # fmt: skip
    with pytest.raises(InputError, match="model.onnx: input 's': no random values of its type$"):
        profile_onnx(path, import_onnx(path))
    path = write(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", FLOAT, [2**40])], ["y"])
    with pytest.raises(InputError, match="model.onnx: input 'x' of shape .* does not fit into memory$"):
        profile_onnx(path, import_onnx(path))


def test_weights_in_external_files_of_another_place_are_refused(tmp_path):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/dev/zero")
    path = write(tmp_path, [node("Add", ["x", "w"], ["y"])], [value("x", FLOAT, [2])], ["y"], [tensor])
    with pytest.raises(InputError, match=r"model.onnx: weights in external files \(w\): "):
        profile_onnx(path, import_onnx(path))


def test_without_the_package(monkeypatch):
    graph = import_onnx(LIGHT / "light_squeezenet.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError) as caught:
        profile_onnx(LIGHT / "light_squeezenet.onnx", graph)
    told = f"measuring ONNX needs the package onnxruntime: {install_command('onnx,profile')}"
    assert str(caught.value) == f"{told} (see Install: docs/user-guide.md#install)"


def test_versions_name_the_package():
    assert versions().keys() == {"onnxruntime"}
