"""Networks at the limits of what C and LiteRT's reference kernels can: refused in one line, or right all the same."""

from __future__ import annotations

import subprocess
from importlib.resources import files

import c_programs
import int8_networks
import numpy as np
import pytest
from few import few

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.program import check_inputs
from moccasin_mzn.deploy.c.reference import run
from moccasin_mzn.graphs.importers.tflite import read_model
from moccasin_mzn.graphs.zero_copy import zero_copy_concat

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")


def classes(count: int) -> bytes:
    """Probabilities of many classes, all about the same."""
    net = int8_networks.Builder(0, 1, 1, 1, 4)
    x = net.tensor([1, count], 0.002, 0)
    net.graph.inputs, net.graph.tensors = [0], [net.graph.tensors[x]]
    return net.packed(net.operator("SOFTMAX", (0,), net.tensor([1, count], 1 / 256, -128), "SoftmaxOptions", beta=1.0))


def pads(count: int) -> bytes:
    """As many shapes as layers."""
    net = int8_networks.Builder(0, 1, 4, 4, 1)
    x = net.input
    for _ in range(count):
        shape = net.shape(x)
        made = net.tensor([1, 4, shape[2] + 1, 1], net.scale(x), -1)
        x = net.operator("PAD", (x, net.integers([[0, 0], [0, 0], [0, 1], [0, 0]])), made)
    return net.packed(x)


def joined(count: int, name: str = "") -> bytes:
    """A layer that reads a concatenation of many."""
    net = int8_networks.Builder(1, 1, 4, 6, 3)
    parts = [net.convolution(net.input, 2) for _ in range(count)]
    for x in parts:
        about = net.graph.tensors[x].quantization
        about.scale, about.zeroPoint = [0.05], [3]
    both = net.tensor([1, 4 * count, 6, 2], 0.05, 3)
    both = net.operator("CONCATENATION", parts, both, "ConcatenationOptions", axis=1)
    made = net.convolution(both, 2)
    if name:
        net.graph.tensors[made].name = name.encode()
    return net.packed(made)


@pytest.mark.parametrize("count", few([511, 512, 1000, 4095, 4096, 20_000], keep=(512, 4096)))
def test_probabilities_of_many_classes_are_rounded(count, tmp_path):
    """LiteRT's kernel crashes from 512 on where all have about the same: they are less than half of a 256th."""
    source = files("moccasin_mzn.deploy.c").joinpath("kernels.c")
    (tmp_path / "test.c").write_text(f"""#include "{source}"
#include <stdio.h>
static int8_t x[{count}], made[{count}];
int main(void)
{{
    static const int32_t exponentials[1] = {{INT32_MAX}};
    mc_softmax_layer layer = {{exponentials, 0}};
    int32_t at, sum = 0;
    softmax_of(&layer, x, made, {count});
    for (at = 0; at < {count}; at++) {{
        sum += made[at] + 128;
    }}
    printf("%d", (int)sum);
    return 0;
}}
""")
    command = [c_programs.compiler, "-std=c99", *c_programs.SANITIZED.split(), "-o", "test", "test.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = subprocess.run(["./test"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout == str(511 if count == 511 else 0)


def test_a_kernel_that_crashes_is_an_error_of_one_line(command, tmp_path):
    model = tmp_path / "model.tflite"
    model.write_bytes(classes(1000))
    status, out, err = command("deploy", "c", model, "-o", tmp_path / "c", "--time-limit", 1)
    crash = f"error: {model}: LiteRT's reference kernels do not run it: they crash (SIGABRT)"
    assert (status, out, err.splitlines()[-1]) == (2, "", crash) and not (tmp_path / "c").exists()
    (tmp_path / "good.tflite").write_bytes(classes(9))
    given = [[np.zeros((1, 9), np.int8)]]
    (((expected,),)) = run(read_model(tmp_path / "good.tflite"), given)  # in another process
    assert set(expected.ravel().tolist()) == {-100}


def test_a_model_that_the_runtime_refuses_is_an_error_of_one_line(command, tmp_path):
    net = int8_networks.Builder(0, 1, 4, 4, 2)
    made = net.convolution(net.input, 3)
    net.graph.operators[-1].inputs = net.graph.operators[-1].inputs[:2]  # there must be a bias
    model = tmp_path / "model.tflite"
    model.write_bytes(net.packed(made))
    status, _, err = command("deploy", "c", model, "-o", tmp_path / "c", "--time-limit", 1)
    refused = f"error: {model}: LiteRT's reference kernels do not run it: "
    assert status == 2 and err.splitlines()[-1].startswith(refused)
    assert "Traceback" not in err and not (tmp_path / "c").exists()


def test_there_may_be_many_shapes(tmp_path):
    program = c_programs.stacked(net := c_programs.network(pads(300), tmp_path), net.graph)
    assert c_programs.run(program, tmp_path).startswith("1 of 1 outputs are equal")


@pytest.mark.parametrize("name", ["conv*\\bn", "*/ int", "/\\* x", "??\\", "a\\"])
def test_names_do_not_end_comments(name, tmp_path):
    program = c_programs.stacked(net := c_programs.network(joined(2, name), tmp_path), net.graph)
    assert c_programs.run(program, tmp_path).startswith("1 of 1 outputs are equal")


def test_more_inputs_than_kernels_have_are_refused_unless_they_are_read_where_they_lie(command, tmp_path):
    model, folder = tmp_path / "model.tflite", tmp_path / "c"
    model.write_bytes(joined(9))
    status, _, err = command("deploy", "c", model, "-o", folder, "--time-limit", 1)
    assert status == 2 and "has 9 inputs, kernels have 8 at most" in err and not folder.exists()
    net = c_programs.network(model.read_bytes(), tmp_path)
    found = zero_copy_concat(net.graph)
    check_inputs(net, {found.original.nodes[v] for v in found.taken_out})
    with pytest.raises(InputError):
        check_inputs(net, ())
    status, _, err = command("deploy", "c", model, "-o", folder, "--time-limit", 1, "--zero-copy-concat")
    assert status == 0, err
    ran = subprocess.run(["make", "-s"], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("1 of 1 outputs are equal"), ran.stderr


@pytest.mark.parametrize(("alignment", "power"), [(1, 1), (3, 1), (12, 4), (64, 64)])
def test_the_arena_is_where_its_alignment_says(alignment, power, command, tmp_path):
    model, folder = tmp_path / "model.tflite", tmp_path / "c"
    model.write_bytes(joined(2))
    assert command("deploy", "c", model, "-o", folder, "--time-limit", 1, "--alignment", alignment)[0] == 0
    text = (folder / "model.c").read_text()
    assert (f"__attribute__((aligned({power})))\n#endif\nstatic uint8_t arena" in text) == (power > 1)
    assert ("__attribute__" in text) == (power > 1)
    ran = subprocess.run(["make", "-s"], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("1 of 1 outputs are equal"), ran.stderr


def test_scales_that_pass_32_bits_are_refused(tmp_path):
    net = int8_networks.Builder(0, 1, 4, 4, 2)
    made = net.operator("MUL", (net.input, net.input), net.tensor([1, 4, 4, 2], 1e-15, 0), "MulOptions")
    with pytest.raises(InputError, match="MUL .*the scale of its output is too small"):
        c_programs.network(net.packed(made), tmp_path)


@pytest.mark.parametrize(("depth", "message"), [(66_000, ""), (67_000, "its sums may not fit into 32 bits")])
def test_sums_that_may_not_fit_are_refused(depth, message, tmp_path):
    net = int8_networks.Builder(0, 1, depth, zero=-128)
    w = net.tensor((1, depth), 0.01, values=np.full((1, depth), 127, np.int8))
    y = net.tensor((1, 1), 2000.0)
    data = net.packed(net.operator("FULLY_CONNECTED", (net.input, w), y, "FullyConnectedOptions"))
    if message:
        with pytest.raises(InputError, match=message):
            c_programs.network(data, tmp_path)
    else:
        found = c_programs.run(c_programs.in_order(c_programs.network(data, tmp_path)), tmp_path)
        assert found.startswith("1 of 1 outputs are equal")


@pytest.mark.parametrize("scale", [0.0, -0.01, float("nan"), float("inf")])
def test_scales_of_weights_that_are_none_are_refused(scale, tmp_path):
    net = int8_networks.Builder(0, 1, 4)
    w = net.tensor((1, 4), 0.01, values=np.ones((1, 4), np.int8))
    net.graph.tensors[w].quantization.scale = [scale]
    data = net.packed(net.operator("FULLY_CONNECTED", (net.input, w), net.tensor((1, 1), 0.1), "FullyConnectedOptions"))
    with pytest.raises(InputError, match="no kernel of C for operator 0, FULLY_CONNECTED"):
        c_programs.network(data, tmp_path)
