"""Networks as C put out what LiteRT's reference kernels do, with sanitizers, whole, in parts, and recomputed."""

from __future__ import annotations

import re
import subprocess

import c_programs
import int8_networks
import numpy as np
import pytest
import tflite_models

from moccasin_mzn.deploy.c.deployment import folder_of
from moccasin_mzn.deploy.c.program import ARENA, program_of
from moccasin_mzn.deploy.c.writing import sources
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.graphs.tiling.cutting import cuts_of
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
LARGE = ("mobilenet_chain", "mobilenet", "person_detection")
NETWORKS = [pytest.param(name, marks=pytest.mark.full if name in LARGE else ()) for name in int8_networks.NETWORKS]
INPUTS = 10
"""Sets of inputs of each network."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Networks by name, read once."""
    found = {}

    def network(name):
        if name not in found:
            found[name] = c_programs.network(int8_networks.NETWORKS[name](), tmp_path_factory.mktemp(name))
        return found[name]

    return network


def is_equal(text: str, sets: int, arena: int) -> bool:
    return text == f"{sets} of {sets} outputs are equal, arena {max(1, arena)} bytes\n"


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_put_out_what_the_reference_kernels_do(name, made, tmp_path):
    program = c_programs.in_order(made(name))
    assert is_equal(c_programs.run(program, tmp_path, sets=INPUTS), INPUTS, program.arena)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_differ_with_inputs(name, made):
    """That they are equal is not for want of anything to tell apart."""
    from moccasin_mzn.deploy.c.deployment import random_inputs
    from moccasin_mzn.deploy.c.reference import run

    net = made(name)
    found = run(net.model, random_inputs(net, 3, 0))
    assert all(len(np.unique(each[0])) >= (2 if name == "person_detection" else 4) for each in found)
    assert not np.array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize(("rows", "columns"), [(1, None), (3, None), (2, 3)])
@pytest.mark.parametrize("name", NETWORKS)
def test_parts_put_out_the_same_in_less(name, rows, columns, made, tmp_path):
    net = made(name)
    whole = c_programs.in_order(net)
    program = c_programs.in_order(net, cuts_of(net.graph, rows=rows, columns=columns))
    assert is_equal(c_programs.run(program, tmp_path, sets=2), 2, program.arena)
    assert name == "autoencoder" or len(program.calls) > len(whole.calls)


def test_what_is_recomputed_runs_again(made, tmp_path):
    net = made("resnet8")
    graph = net.cut(net.graph, cuts_of(net.graph, rows=8))
    order = graph.input_order()
    first = [v for v in order if graph.parts[v] is not None and graph.parts[v].layer == "0"]
    late = order.index(next(v for v in order if graph.parts[v] is not None and graph.parts[v].layer == "3"))
    sequence = [*order[:late], *first, *order[late:]]  # the addition reads them after two convolutions
    plan = placed(RuntimePlan.of(graph, plan_of_sequence(sequence)), 1, Effort(0.5))
    program = program_of(net, graph, plan)
    assert len(program.calls) == len(order) - 1 + len(first) and program.work > 1
    assert is_equal(c_programs.run(program, tmp_path), 1, program.arena)


def test_wrong_offsets_are_noticed(made, tmp_path):
    """Programs follow the plan: with parts that overlap they put out something else."""
    from dataclasses import replace

    program = c_programs.in_order(made("keyword_spotting"))
    places = tuple(replace(each, offset=0) if each.base == ARENA else each for each in program.places)
    assert c_programs.run(replace(program, places=places), tmp_path).startswith("0 of 1 outputs are equal")


def test_several_inputs_and_outputs_and_floats(tmp_path):
    net = int8_networks.Builder(0, 1, 6, 6, 3)
    other = net.tensor((1, 6, 6, 3), kind="FLOAT32")
    net.graph.inputs.append(other)
    x = net.operator("QUANTIZE", (other,), net.tensor((1, 6, 6, 3), 0.01, 4))
    both = net.add(net.input, x)
    small = net.convolution(both, 2, 3)
    large = net.operator("DEQUANTIZE", (net.convolution(small, 4),), net.tensor((1, 6, 6, 4), kind="FLOAT32"))
    net = c_programs.network(net.packed(large, small), tmp_path)
    program = c_programs.in_order(net, cuts_of(net.graph, rows=2))
    text = sources(program)["model.h"]
    assert "model_invoke(const int8_t *input_0, const float *input_1, float *output_0, int8_t *output_1);" in text
    assert is_equal(c_programs.run(program, tmp_path, sets=3), 3, program.arena)


def test_an_input_in_another_shape_is_read_where_it_is(tmp_path):
    net = int8_networks.Builder(0, 1, 96)
    x = net.convolution(net.reshaped(net.reshaped(net.input, 96), 1, 8, 4, 3), 2, 3)
    net = c_programs.network(net.packed(net.softmax(net.dense(net.reshaped(x, 1, 64), 4))), tmp_path)
    program = c_programs.in_order(net)
    assert len(program.calls) == 4 and program.arena == 64 + 64
    assert is_equal(c_programs.run(program, tmp_path, sets=3), 3, program.arena)


# --- What C is like ---------------------------------------------------------------------------------------------


def compiled(program, folder, *flags: str) -> None:
    for name, text in sources(program).items():
        (folder / name).write_text(text)
    strict = c_programs.STRICT.split()
    subprocess.run([c_programs.compiler, *strict, *flags, "-c", "model.c", "kernels.c"], cwd=folder, check=True)


def test_the_arena_is_one_static_array_and_the_stack_is_bounded(made, tmp_path):
    program = c_programs.in_order(made("keyword_spotting"))
    compiled(program, tmp_path, "-O2", "-fstack-usage", "-fno-builtin")
    symbols = subprocess.run(["nm", "-S", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert int(re.search(r" ([0-9a-f]+) b arena$", symbols, re.M)[1], 16) == program.arena
    assert re.findall(r" [bBdDC] (\w+)$", symbols, re.M) == ["arena"] or " d " in symbols
    usage = "".join((tmp_path / name).read_text() for name in ("model.su", "kernels.su"))
    rows = [line.split("\t") for line in usage.splitlines()]
    assert len(rows) > 20 and {row[2] for row in rows} == {"static"} and max(int(row[1]) for row in rows) < 2000


def test_nothing_but_string_and_math_is_called(made, tmp_path):
    compiled(c_programs.in_order(made("keyword_spotting")), tmp_path, "-O2", "-fno-pic", "-fno-stack-protector")
    names = set()
    for file in ("model.o", "kernels.o"):
        found = subprocess.run(["nm", "-u", file], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        names |= set(re.findall(r"U (\w+)", found))
    assert {name for name in names if not name.startswith("mc_")} <= {"memcpy", "memset", "roundf"}


def test_the_folder_builds_itself(made, tmp_path):
    program = c_programs.in_order(made("keyword_spotting"))
    for name, text in folder_of(program, 2).items():
        (tmp_path / name).write_text(text)
    for target, expected in (("check", "2 of 2"), ("size", "kernels.o"), ("stack", "static")):
        found = subprocess.run(["make", "-s", target], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert expected in found.stdout
    (tmp_path / "test.c").write_text(
        re.sub(r"(expected_output\[24\] = \{\n    )-?\d+", r"\g<1>9", folder_of(program, 2)["test.c"])
    )
    found = subprocess.run(["make", "-s"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode and "1 of 2 outputs are equal" in found.stdout


# --- The command ------------------------------------------------------------------------------------------------

QUICK = ("--time-limit", 10, "--seed", 0)


def test_the_command_writes_a_network_in_less_than_its_largest_layer(command, tmp_path):
    path, folder = tmp_path / "resnet8.tflite", tmp_path / "c"
    path.write_bytes(int8_networks.resnet8())
    status, out, _ = command("deploy", "c", path, "-o", folder)
    assert status == 0 and "arena 49,152 bytes, 16 steps of 16 layers, 1.000 times" in out
    status, out, err = command("deploy", "c", path, "--tile", "auto", "--budget", "16KiB", "-o", folder, *QUICK)
    assert status == 0 and "tiling: " in err
    assert int(re.search(r"arena ([\d,]+) bytes", out)[1].replace(",", "")) <= 16 * 1024
    found = subprocess.run(["make", "-s"], cwd=folder, capture_output=True, text=True, check=True)
    assert "1 of 1 outputs are equal" in found.stdout


def test_without_parts_a_small_budget_has_no_schedule(command, tmp_path):
    path = tmp_path / "resnet8.tflite"
    path.write_bytes(int8_networks.resnet8())
    status, out, err = command("deploy", "c", path, "--budget", "16KiB", "-o", tmp_path / "c", *QUICK)
    assert (status, out) == (1, "") and "no schedule" in err and not (tmp_path / "c").exists()


def test_what_has_no_kernel_is_named(command, tmp_path):
    path, folder = tmp_path / "float.tflite", tmp_path / "c"
    path.write_bytes(tflite_models.skipping())
    status, out, err = command("deploy", "c", path, "-o", folder)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert f"{path}: no kernel of C for operator 0, CONV_2D (first): FLOAT32, and kernels are of INT8" in err
    assert "SPLIT (halves:0): 2 outputs" in err and not folder.exists()


def test_shapes_that_do_not_fit_are_refused(command, tmp_path):
    net = int8_networks.Builder(0, 1, 4, 4, 3)
    x = net.convolution(net.input, 4)
    net.graph.tensors[x].shape = [1, 4, 4, 5]  # more than there are filters
    path = tmp_path / "net.tflite"
    path.write_bytes(net.packed(x))
    status, _, err = command("deploy", "c", path, "-o", tmp_path / "c")
    assert status == 2 and "CONV_2D" in err and "its shapes do not fit" in err and not (tmp_path / "c").exists()


@pytest.mark.parametrize("words", ["--tile 2", "--max-computations 2"])
def test_options_of_a_search_want_a_budget(command, tmp_path, words):
    path = tmp_path / "net.tflite"
    path.write_bytes(int8_networks.autoencoder())
    status, _, err = command("deploy", "c", path, "-o", tmp_path / "c", *words.split())
    assert status == 2 and "is for a search: give --budget as well" in err and not (tmp_path / "c").exists()


def test_a_file_is_no_folder_to_write(command, tmp_path):
    path, there = tmp_path / "net.tflite", tmp_path / "there"
    path.write_bytes(int8_networks.autoencoder())
    there.write_text("mine")
    status, _, err = command("deploy", "c", path, "-o", there)
    assert status == 2 and f"{there}: is no folder" in err and there.read_text() == "mine"


def test_a_model_in_the_folder_is_not_overwritten(command, tmp_path):
    path = tmp_path / "model.c"
    path.write_bytes(int8_networks.autoencoder())
    before = path.read_bytes()
    status, _, err = command("deploy", "c", path, "-o", tmp_path)
    assert status == 2 and "would be lost" in err and path.read_bytes() == before
