"""Workspaces of convolutions beside what ONNX Runtime takes, by a malloc that counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from onnx_models import FLOAT, INT64, load, node, value, weights, write

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_deploy_onnx.py"
SLACK = 4096
"""Bytes that a run takes besides tensors, at most."""


def network(folder, kind, read, weight, **attributes):
    """One convolution, or recurrent layer of 64 values."""
    constants, reads = [weights("w", *weight)], ["x", "w"]
    if "direction" in attributes:
        attributes, reads = {**attributes, "hidden_size": 64}, [*reads, "r"]
        constants.append(weights("r", *weight[:2], 64))
    return write(folder, [node(kind, reads, ["y"], **attributes)], {"x": read}, ["y"], constants)


def test_workspaces_are_counted_on_request(tmp_path):
    path = network(tmp_path, "ConvTranspose", [1, 8, 16, 16], [8, 4, 2, 2], strides=[2, 2])
    assert load(path).workspaces is None
    assert load(path, workspaces=True).workspaces == (4 * 4 * 2 * 2 * 16 * 16,)


@pytest.mark.parametrize(("kind", "workspaces"), [(TensorProto.DOUBLE, (0,)), (FLOAT, (65536,))])
def test_other_types_have_none(tmp_path, kind, workspaces):
    weight = helper.make_tensor("w", kind, [2, 2, 3, 3], [0.0] * 36)
    path = write(tmp_path, [node("Conv", ["x", "w"], ["y"])], [value("x", kind, [1, 2, 8, 8])], ["y"], [weight])
    assert load(path, workspaces=True).workspace_of == workspaces


needs_cc = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler and glibc"
)


@pytest.mark.full
@needs_cc
@pytest.mark.parametrize(
    ("kind", "read", "weight", "attributes"),
    [
        ("Conv", [1, 4, 32, 32], [8, 4, 3, 3], {"pads": [1, 1, 1, 1]}),
        ("Conv", [1, 64, 8, 8], [128, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
        ("Conv", [1, 64, 16, 16], [32, 64, 1, 1], {}),
        ("Conv", [1, 64, 16, 16], [256, 64, 1, 1], {"strides": [2, 2]}),
        ("ConvTranspose", [1, 32, 16, 16], [32, 16, 2, 2], {"strides": [2, 2]}),
        ("ConvTranspose", [2, 32, 16, 16], [32, 8, 4, 4], {"strides": [2, 2], "group": 2}),
        *(
            (kind, [32, 4, 16], [2 if way == "bidirectional" else 1, gates * 64, 16], {"direction": way})
            for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
            for way in ("forward", "reverse", "bidirectional")
        ),
    ],
)
def test_workspaces_are_what_is_taken(tmp_path, kind, read, weight, attributes):
    path = network(tmp_path, kind, read, weight, **attributes)
    graph = load(path, workspaces=True)
    expected = graph.sizes[0] + graph.workspace_of[0]
    assert expected <= taken(tmp_path, path) <= expected + SLACK


def taken(folder, path):
    """Bytes that a run holds at a time, at most, counted in malloc."""
    library = folder / "counting.so"
    source = SCRIPT.with_name("counting_malloc.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "MALLOC_MMAP_THRESHOLD_": str(2**32)}
    words = [sys.executable, SCRIPT, "--turns", "1", "--alone", path]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)["file"]["malloc"]


WIDE = 64 * 1024
"""Bytes of the values inside subgraphs below."""


def exploding(name, read, result):
    """A graph without inputs: what it reads, 16 times, and something of all of it."""
    nodes = [node("Concat", [read] * 16, [f"{name}w"], axis=0), node("Exp", [f"{name}w"], [f"{name}e"]),
             node("ReduceMax", [f"{name}e"], [result], axes=[0], keepdims=1)]  # fmt: skip
    return helper.make_graph(nodes, name, [], [value(result, FLOAT, [1, 1024])])


def body(kind, scans=True):
    """Of Loop or Scan over rows of 1024: a state, and what is put out in each iteration."""
    nodes = [node("Concat", ["state"] * 16, ["w"], axis=0), node("Exp", ["w"], ["e"]),
             node("ReduceMax", ["e"], ["next"], axes=[0], keepdims=1), node("Neg", ["next"], ["part"]),
             node("Identity", ["go"], ["on"])]  # fmt: skip
    row = [value("state", FLOAT, [1, 1024])]
    if kind == "Loop":
        inputs = [value("turn", INT64, []), value("go", TensorProto.BOOL, []), *row]
        outputs = [value("on", TensorProto.BOOL, []), value("next", FLOAT, [1, 1024]), value("part", FLOAT, [1, 1024])]
        return helper.make_graph(nodes, "body", inputs, outputs)
    nodes[-1] = node("Add", ["part", "scanned"], ["both"])
    outputs = [value("next", FLOAT, [1, 1024]), value("both", FLOAT, [1, 1024])]
    return helper.make_graph(nodes, "body", [*row, value("scanned", FLOAT, [1, 1024])], outputs)


RNN = [weights("W", 1, 64, 16), weights("R", 1, 64, 64)]
ROW = {"x": [1, 1024]}
TURNS = helper.make_tensor("turns", INT64, [], [6])
GO = helper.make_tensor("go0", TensorProto.BOOL, [], [True])
INSIDE = {
    "unread outputs of a recurrent layer": (
        [node("RNN", ["x", "W", "R"], ["Y", "h"], hidden_size=64)], {"x": [128, 1, 16]}, ["h"], RNN,
        2 * 128 * 64 * 4 + 64 * 4),
    "unread indices of a pooling": (
        [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3], pads=[1] * 4)], {"x": [1, 4, 32, 32]}, ["y"], [],
        4096 * (4 + 8)),
    "an unread mask": ([node("Dropout", ["x"], ["y", "mask"])], {"x": [1, 4096]}, ["y"], [], 4096 * (4 + 1)),
    "branches": (
        [node("If", ["c"], ["y"], then_branch=exploding("t", "x", "o1"), else_branch=exploding("f", "x", "o2"))],
        [value("x", FLOAT, [1, 1024]), value("c", TensorProto.BOOL, [])], ["y"], [], 2 * WIDE + 4096),
    "a loop": ([node("Loop", ["turns", "go0", "x"], ["last", "all"], body=body("Loop"))], ROW, ["last", "all"],
               [TURNS, GO], 2 * WIDE + 4096 + 5 * 4096),
    "a scan": ([node("Scan", ["x", "rows"], ["last", "all"], body=body("Scan"), num_scan_inputs=1)],
               {"x": [1, 1024], "rows": [6, 1, 1024]}, ["last", "all"], [], 2 * WIDE + 4096 * 7 + 2 * 4096),
}  # fmt: skip


@pytest.mark.full
@needs_cc
@pytest.mark.parametrize("what", INSIDE)
def test_what_is_inside_or_unread_is_what_is_taken(tmp_path, what):
    nodes, inputs, outputs, constants, expected = INSIDE[what]
    path = write(tmp_path, nodes, inputs, outputs, constants)
    graph = load(path, workspaces=True)
    assert graph.sizes[0] + graph.workspace_of[0] == expected
    assert expected <= taken(tmp_path, path) <= expected + 2 * SLACK
