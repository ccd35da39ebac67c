"""ONNX files that are broken, foreign or made to harm: one line each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from time import process_time

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_models import FLOAT, LIGHT, load, node, numbers, refusal, relu, weights, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.onnx import file as onnx_file
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx, network_apart
from moccasin_mzn.graphs.importers.onnx.model import model_bytes
from moccasin_mzn.graphs.importers.onnx.network import network_of
from moccasin_mzn.graphs.importers.program import Missing

# --- broken files ----------------------------------------------------------------------------------------

NEGATIVE = onnx.GraphProto(
    node=[node("Constant", [], ["k"], value=TensorProto(data_type=FLOAT, dims=[-4]))],
    output=[onnx.ValueInfoProto(name="k")],
)


@pytest.mark.parametrize(
    ("nodes", "about", "message"),
    [
        (relu(("q", "a"), ("a", "y"))[::-1], {}, "Relu 'a' reads 'q', which nothing before it puts out"),
        (relu(("b", "a"), ("a", "b"), ("b", "y")), {}, "Relu 'a' reads 'b', which nothing before it puts out"),
        (relu(("nowhere", "y")), {}, "Relu 'y' reads 'nowhere', which nothing before it puts out"),
        (relu(("x", "y"), ("x", "y")), {}, "Relu 'y' puts out 'y', a name that is taken"),
        (relu(("x", "x")), {}, "Relu 'x' puts out 'x', a name that is taken"),
        (relu(("x", "a")), {}, "output 'y' is never computed"),
        (relu(("x", "y")), {"initializers": [weights("w", 1)] * 2}, "initializer 'w' is given twice"),
        (relu(("x", "y")), {"inputs": {"x": [2, -3]}}, "input 'x': dimension 1 is -3"),
        (relu(("x", "y")), {"inputs": {"x": None}}, "input 'x' has no shape in the file"),
        (relu(("x", "y")), {"inputs": {"x": [2**30, 2**30]}}, "'x' has more than 2**53 elements"),
        (
            [node("Expand", ["x", "s"], ["y"])],
            {"initializers": [numbers("s", 2**40, 2**20, 3)]},
            "'y' has more than 2**53 elements",
        ),
        (
            relu(("x", "y")),
            {"initializers": [TensorProto(name="w", data_type=FLOAT, dims=[4, -1])]},
            "initializer 'w': a negative dimension, -1",
        ),
        ([node("Einsum", ["x"], ["y"], equation="\x1e>")], {}, r"Einsum 'y': b'\x1e>' is no equation"),
        ([node("Einsum", ["x"], ["y"], equation="a" * 10_001)], {}, "Einsum 'y': an equation of over 10000 characters"),
        (
            [node("If", ["x"], ["y"], then_branch=NEGATIVE, else_branch=NEGATIVE)],
            {},
            "If 'y': a constant inside has a negative dimension, -4",
        ),
        (relu(("x", "y")), {"sets": [("", 999)]}, None),
    ],
)
def test_inconsistent_models(tmp_path, nodes, about, message):
    path = write(tmp_path, nodes, about.pop("inputs", {"x": [3]}), ["y"], about.pop("initializers", ()), **about)
    with pytest.raises(InputError) as caught:
        load(path)
    if message is None:
        version = f"onnx {onnx.__version__}, which is installed, knows 1 to {onnx.defs.onnx_opset_version()}"
        message = f"operator set 999; {version}"
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("start", ["", "...", "a...", "->", "a,b->"])
def test_equations_are_checked_in_linear_time(tmp_path, start):
    path = write(tmp_path, [node("Einsum", ["x"], ["y"], equation=start + "a" * 9_000 + "!")], {"x": [3]}, ["y"])
    began = process_time()
    assert refusal(path).endswith("is no equation")
    assert process_time() - began < 0.5  # quadratic: 2 s


@pytest.mark.parametrize("equation", ["a", "a->", "...", "... a ->...a", "a...->a...", " a , a -> a"])
def test_equations_that_are_none_too_strange(tmp_path, equation):
    reads = ["x"] * (equation.count(",") + 1)
    path = write(tmp_path, [node("Einsum", reads, ["y"], equation=equation)], {"x": [3]}, ["y"])
    assert load(path, missing=Missing(size=1, duration=1)).labels == ("Einsum",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"hello, world\n", "not an ONNX model (is the file cut short?)"),
        (b'{"nodes": []}', "not an ONNX model (is the file cut short?)"),
        (b"\x08\x07", "not an ONNX model: it has no operators, or no operator set"),
        (b"\x80\x04\x95", "not an ONNX model (is the file cut short?)"),
    ],
)
def test_onnx_import_rejects_foreign_bytes(tmp_path, data, message):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="none.onnx: cannot read: No such file or directory$"):
        load(tmp_path / "none.onnx")
    with pytest.raises(InputError, match=": cannot read: Is a directory$"):
        load(tmp_path)


def test_text_that_is_not_utf8(tmp_path):
    path = write(tmp_path, relu(("x", "abc"), ("abc", "y")), {"x": [3]}, ["y"])
    path.write_bytes(path.read_bytes().replace(b"abc", b"a\xffc"))
    with pytest.raises(InputError, match="model.onnx: output of a NodeProto is not UTF-8$"):
        load(path)


WHOLE = (LIGHT / "light_zfnet512.onnx").read_bytes()


@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_short_is_refused_in_one_line(tmp_path_factory, at):
    path = tmp_path_factory.mktemp("broken") / "model.onnx"
    path.write_bytes(WHOLE[:at])
    refused = refusal(path)
    assert refused.startswith(f"{path}: ") and refused.isprintable()


@pytest.mark.full
@settings(max_examples=12)
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=2), st.integers(0, 2))
def test_a_changed_file_is_read_or_refused_in_one_line(tmp_path_factory, at, put, left_out):
    path = tmp_path_factory.mktemp("broken") / "model.onnx"
    path.write_bytes(WHOLE[:at] + put + WHOLE[at + left_out :])
    refused = refusal(path, isolated=True)  # what is native code may make anything of it
    assert refused is None or (refused.startswith(f"{path}: ") and refused.isprintable())


# --- in a process of its own -----------------------------------------------------------------------------


def test_a_process_of_its_own_finds_the_same(tmp_path, capfd):
    nodes = [
        node("Relu", ["x"], ["ä"], name='a\t"b'),
        node("Strange", ["ä"], ["b"], domain="acme"),
        node("Identity", ["b"], ["y"]),
    ]
    path = write(tmp_path, nodes, {"x": ["batch", 2]}, ["y", "ä"], sets=[("", 17), ("acme", 1)])
    data = model_bytes(path)
    apart = network_apart(data, "model", {"batch": 3})
    assert apart == network_of(data, "model", {"batch": 3})
    assert apart.program.fixed_memory == {"parameters": 0, "inputs": 24}
    missing = Missing(size=1, duration=1)
    assert import_onnx(path, OnnxImport({"batch": 3}, missing)) == load(path, dims={"batch": 3}, missing=missing)
    assert capfd.readouterr() == ("", "")


def test_messages_from_the_other_process(tmp_path):
    dynamic = write(tmp_path, relu(("x", "y")), {"x": ["batch", 2]}, ["y"])
    with pytest.raises(InputError, match=r"model.onnx: no dimension 'Batch'; there are batch, x\[0\]$"):
        import_onnx(dynamic, OnnxImport({"Batch": 2}))
    with pytest.raises(InputError, match=r"model.onnx: dimension 'batch': 2.5, expected an integer"):
        import_onnx(dynamic, OnnxImport({"batch": 2.5}))
    with pytest.raises(InputError, match=r"^its shapes are not inferred in 0.01 s$"):
        network_apart(model_bytes(dynamic), "model", {}, seconds=0.01)


@pytest.mark.full
def test_the_other_process_ends_by_itself_if_nobody_ends_it(tmp_path):
    pytest.importorskip("resource")
    many = 30_000  # several seconds
    path = write(tmp_path, relu(*((f"v{at}", f"v{at + 1}") for at in range(many))), {"v0": [3]}, [f"v{many}"])
    asked = {"name": "model", "dims": {}, "sizes": {}, "fold": "small", "memory": 2**32, "seconds": 1}
    request = json.dumps(asked).encode()
    command = [sys.executable, "-m", onnx_file.__name__]
    done = subprocess.run(command, input=request + b"\n" + model_bytes(path), capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGXCPU
    assert onnx_file._failure(done) == "its analysis takes too much time"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "harmful",
    [
        node("LayerNormalization", ["x", "w"], ["y", "mean"], axis=2**63 - 1),
        node("Split", ["x"], ["y", "z"], axis=0, num_outputs=2**31),
        node("Unsqueeze", ["x", "far"], ["y"]),
    ],
)
def test_what_may_crash_shape_inference_does_not_crash_this_process(tmp_path, harmful):
    constants = [weights("w", 4), numbers("far", 2**62, -(2**62))]
    path = write(tmp_path, [harmful], {"x": [3, 4]}, ["y"], constants, sets=[("", 18)])
    with pytest.raises(InputError) as caught:
        import_onnx(path)
    assert str(caught.value).startswith(f"{path}: ") and str(caught.value).isprintable()
