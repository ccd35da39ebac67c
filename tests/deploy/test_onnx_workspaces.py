"""Workspaces of convolutions beside what ONNX Runtime takes, by a malloc that counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_tool")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402
from onnx_models import FLOAT, load, node, value, weights, write  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_deploy_onnx.py"
SLACK = 4096
"""Bytes that a run takes besides tensors, at most."""


def network(folder, kind, read, weight, **attributes):
    """One convolution."""
    return write(folder, [node(kind, ["x", "w"], ["y"], **attributes)], {"x": read}, ["y"], [weights("w", *weight)])


def test_workspaces_are_asked_for(tmp_path):
    path = network(tmp_path, "ConvTranspose", [1, 8, 16, 16], [8, 4, 2, 2], strides=[2, 2])
    assert load(path).workspaces is None
    assert load(path, workspaces=True).workspaces == (4 * 4 * 2 * 2 * 16 * 16,)


@pytest.mark.parametrize(("kind", "workspaces"), [(TensorProto.DOUBLE, (0,)), (FLOAT, (65536,))])
def test_other_types_have_none(tmp_path, kind, workspaces):
    weight = helper.make_tensor("w", kind, [2, 2, 3, 3], [0.0] * 36)
    path = write(tmp_path, [node("Conv", ["x", "w"], ["y"])], [value("x", kind, [1, 2, 8, 8])], ["y"], [weight])
    assert load(path, workspaces=True).workspace_of == workspaces


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler and glibc")
@pytest.mark.parametrize(
    ("kind", "read", "weight", "attributes"),
    [
        ("Conv", [1, 4, 32, 32], [8, 4, 3, 3], {"pads": [1, 1, 1, 1]}),
        ("Conv", [1, 64, 8, 8], [128, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
        ("Conv", [1, 64, 16, 16], [32, 64, 1, 1], {}),
        ("Conv", [1, 64, 16, 16], [256, 64, 1, 1], {"strides": [2, 2]}),
        ("ConvTranspose", [1, 32, 16, 16], [32, 16, 2, 2], {"strides": [2, 2]}),
        ("ConvTranspose", [2, 32, 16, 16], [32, 8, 4, 4], {"strides": [2, 2], "group": 2}),
    ],
)
def test_workspaces_are_what_is_taken(tmp_path, kind, read, weight, attributes):
    path = network(tmp_path, kind, read, weight, **attributes)
    library = tmp_path / "counting.so"
    source = SCRIPT.with_name("counting_malloc.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "MALLOC_MMAP_THRESHOLD_": str(2**32)}
    words = [sys.executable, SCRIPT, "--turns", "1", "--alone", path]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    graph = load(path, workspaces=True)
    expected = graph.sizes[0] + graph.workspace_of[0]
    assert expected <= json.loads(done.stdout)["file"]["malloc"] <= expected + SLACK
