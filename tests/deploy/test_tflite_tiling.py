"""TFLite models in parts put out what they did: random operators, a network, and the command, in LiteRT."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert")

import tflite_models
from tflite_operator_cases import KINDS, Case, cases

from moccasin_mzn.deploy.tflite_model import packed
from moccasin_mzn.deploy.tflite_tiling import Cutter, possible_cuts, tiled_model
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
from moccasin_mzn.graphs.tiling.cutting import cuts_of
from moccasin_mzn.problem.judges.schedules import simulate

FEW, MANY = 3, 40
"""Random operators of each kind, by default and in all."""


def interpreter(data):
    """LiteRT's reference kernels, without delegates."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    return made


def run(data, numbers):
    made = interpreter(data)
    for about, value in zip(made.get_input_details(), numbers, strict=True):
        made.set_tensor(about["index"], value)
    made.invoke()
    return [made.get_tensor(about["index"]) for about in made.get_output_details()]


def file_of(data, folder):
    path = folder / "one.tflite"
    path.write_bytes(data)
    return path


def judge(case: Case, seed: int, folder) -> int:
    """Cut an operator anywhere it can be, and compare; the number of its parts."""
    random = np.random.default_rng(seed)
    numbers = case.numbers(random)
    try:
        (whole,) = run(case.model(), numbers)
    except (RuntimeError, ValueError):  # LiteRT has no such operator
        reject()
    model = read_model(file_of(case.model(whole.shape), folder))
    graph = graph_of(model, inputs_in_arena=False)
    points = {}
    for axis, extent in enumerate(whole.shape):
        inner = random.integers(1, extent, random.integers(0, 3)) if extent > 1 else []
        points[axis] = tuple(sorted({0, *map(int, inner), extent}))
    cuts = possible_cuts(model, graph, {0: points})
    tiled, parts = tiled_model(model, graph, cuts)
    (found,) = run(packed(tiled), numbers)
    assert found.shape == whole.shape and np.array_equal(found, whole, equal_nan=found.dtype.kind == "f")
    assert sum(part is not None for part in parts.parts or ()) == np.prod(
        [len(each) - 1 for each in cuts.get(0, {}).values()], dtype=int
    ) * bool(cuts)
    return len(parts.nodes)


@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=FEW)
@given(data=st.data())
def test_operators_in_parts_put_out_the_same(kind, data, tmp_path_factory):
    judge(data.draw(cases(kind)), data.draw(st.integers(0, 2**32)), tmp_path_factory.mktemp("model"))


@pytest.mark.full
@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=MANY)
@given(data=st.data())
def test_many_operators_in_parts_put_out_the_same(kind, data, tmp_path_factory):
    judge(data.draw(cases(kind)), data.draw(st.integers(0, 2**32)), tmp_path_factory.mktemp("model"))


def windowed(name: str, dtype, size: int) -> Case:
    """A window with padding that is not the same on both sides."""
    random = np.random.default_rng(0)
    constants, options, about = [], "Pool2DOptions", {"filterHeight": size, "filterWidth": size}
    if name != "MAX_POOL_2D":
        deep = name == "DEPTHWISE_CONV_2D"
        filters = (1, size, size, 4) if deep else (4, size, size, 4)
        weights = 40 * random.standard_normal(filters) if dtype is np.int8 else random.standard_normal(filters)
        constants = [weights.astype(dtype), np.arange(4).astype(np.int32 if dtype is np.int8 else np.float32)]
        options = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
        about = {"dilationHFactor": 1, "dilationWFactor": 1, **({"depthMultiplier": 1} if deep else {})}
    about |= {"strideH": 2, "strideW": 1, "padding": 0}
    return Case(name, [(1, 9, 7, 4)], constants, options, about, dtype=dtype, version=3 if dtype is np.int8 else 1)


def quantized(data: bytes, folder) -> bytes:
    """With zero points, and the scale of a bias, which is the product of those of what it is added to."""
    model = read_model(file_of(data, folder))
    tensors = model.subgraphs[0].tensors
    for at, x in enumerate((0, len(tensors) - 1)):
        tensors[x].quantization.zeroPoint = [3 - 8 * at]
        tensors[x].quantization.scale = [0.05] if len(tensors) == 2 else [0.05, 0.5][at : at + 1]
    if len(tensors) > 2:
        tensors[2].quantization = type(tensors[0].quantization)()
        tensors[2].quantization.scale, tensors[2].quantization.zeroPoint = [0.05 * 0.05], [0]
    else:
        tensors[1].quantization.zeroPoint = [3]
    return packed(model)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"])
def test_what_is_padded_is_cut(name, dtype, size, tmp_path):
    case = windowed(name, dtype, size)
    numbers = case.numbers(np.random.default_rng(1))
    data = case.model((1, 5, 7, 4))
    data = quantized(data, tmp_path) if dtype is np.int8 else data
    (whole,) = run(data, numbers)
    assert len(np.unique(whole)) > 10
    model = read_model(file_of(data, tmp_path))
    graph, wanted = graph_of(model, inputs_in_arena=False), {0: {1: (0, 2, 3, 5), 2: (0, 4, 7)}}
    cuts = possible_cuts(model, graph, wanted)
    assert cuts == wanted
    tiled, _ = tiled_model(model, graph, cuts)
    assert np.array_equal(run(packed(tiled), numbers)[0], whole)


def network(folder):
    """Layers of which the second takes most."""
    net = tflite_models.Builder(side=16)
    x = net.convolution("first", net.input, 4)
    for at, channels in enumerate((24, 32, 4)):
        x = net.convolution(f"layer{at}", x, channels)
    return file_of(net.packed(x), folder)


def test_a_network_takes_less_in_parts(tmp_path):
    model = read_model(network(tmp_path))
    graph = graph_of(model)
    before = packed(model)
    cutter = Cutter(model)
    parts = cutter.cut(graph, cuts_of(graph, rows=2))
    assert packed(model) == before  # is not changed
    numbers = [np.random.default_rng(0).standard_normal((1, 16, 16, 4)).astype(np.float32)]
    assert np.array_equal(run(packed(cutter.model_of(parts)), numbers)[0], run(before, numbers)[0])
    whole = simulate(graph, graph.input_order()).peak
    assert min(parts.working_sets) < max(parts.working_sets) < whole


QUICK = ("--time-limit", 10, "--search", "only", "--seed", 0)


def test_the_command_writes_a_model_in_parts(command, tmp_path):
    path, new = network(tmp_path), tmp_path / "new.tflite"
    whole = max(graph_of(read_model(path)).working_sets)
    budget = 9 * whole // 10
    status, out, err = command("deploy", "tflite", path, "--tile", "auto", "--budget", budget, "-o", new, *QUICK)
    assert status == 0 and "tiling: " in err
    assert int(out.split("arena ")[1].split(" bytes")[0].replace(",", "")) <= budget < whole
    numbers = [np.random.default_rng(0).standard_normal((1, 16, 16, 4)).astype(np.float32)]
    assert np.array_equal(run(new.read_bytes(), numbers)[0], run(path.read_bytes(), numbers)[0])
    status, _, err = command("deploy", "tflite", path, "plan.json", "--tile", "2", "-o", new)
    assert status == 2 and "--tile is for a search" in err


def test_micro_runs_parts_in_the_arena_of_the_plan(command, tmp_path, capfd):
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    path, new = network(tmp_path), tmp_path / "new.tflite"
    budget = 7 * max(graph_of(read_model(path)).working_sets) // 10
    assert command("deploy", "tflite", path, "--tile", "2", "--budget", budget, "-o", new, *QUICK)[0] == 0
    numbers, found = np.random.default_rng(0).standard_normal((1, 16, 16, 4)).astype(np.float32), []
    for file in (path, new):
        made = runtime.Interpreter.from_file(str(file), arena_size=2**20)
        made.set_input(numbers, 0)
        made.invoke()
        capfd.readouterr()
        made.print_allocations()
        found.append((made.get_output(0).copy(), int(re.search(r"head (\d+) bytes", "".join(capfd.readouterr()))[1])))
    assert np.array_equal(found[0][0], found[1][0]) and found[1][1] < found[0][1]
