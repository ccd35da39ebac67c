"""TFLite models in parts put out what they did: random operators, a network, and the command, in LiteRT."""

from __future__ import annotations

import json
import re

import int8_networks
import numpy as np
import pytest
import tflite_models
from few import few
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tflite_operator_cases import KINDS, Case, cases

from moccasin_mzn.api.tile_trials import Maker
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.cli import deploy_tflite
from moccasin_mzn.deploy import tflite_micro
from moccasin_mzn.deploy.tflite_micro import Runs, measured, persistent_in, persistent_of
from moccasin_mzn.deploy.tflite_model import packed
from moccasin_mzn.deploy.tflite_tiling import TfliteCutter, possible_cuts, tiled_model
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
    cutter = TfliteCutter(model)
    parts = cutter.cut(graph, cuts_of(graph, rows=2))
    assert packed(model) == before  # is not changed
    numbers = [np.random.default_rng(0).standard_normal((1, 16, 16, 4)).astype(np.float32)]
    assert np.array_equal(run(packed(cutter.model_of(parts)), numbers)[0], run(before, numbers)[0])
    whole = simulate(graph, graph.input_order()).peak
    assert min(parts.working_sets) < max(parts.working_sets) < whole


QUICK = ("--time-limit", 10, "--search", "only", "--seed", 0)
TENSORS = ("--budget-for", "tensors")


def test_the_command_writes_a_model_in_parts(command, tmp_path):
    path, new = network(tmp_path), tmp_path / "new.tflite"
    whole = max(graph_of(read_model(path)).working_sets)
    budget = 9 * whole // 10
    status, out, err = command(
        "deploy", "tflite", path, "--tile", "auto", "--budget", budget, *TENSORS, "-o", new, *QUICK
    )
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
    assert command("deploy", "tflite", path, "--tile", "2", "--budget", budget, *TENSORS, "-o", new, *QUICK)[0] == 0
    numbers, found = np.random.default_rng(0).standard_normal((1, 16, 16, 4)).astype(np.float32), []
    for file in (path, new):
        made = runtime.Interpreter.from_file(str(file), arena_size=2**20)
        made.set_input(numbers, 0)
        made.invoke()
        capfd.readouterr()
        made.print_allocations()
        found.append((made.get_output(0).copy(), int(re.search(r"head (\d+) bytes", "".join(capfd.readouterr()))[1])))
    assert np.array_equal(found[0][0], found[1][0]) and found[1][1] < found[0][1]


# --- What runs, what is written, and what TensorFlow Lite Micro takes -----------------------------------------


def test_rows_between_the_windows_of_a_stride_are_not_computed(tmp_path):
    """Of 31 rows a window of one row reads every tenth: 4 rows of the layer before are computed."""
    net = tflite_models.Builder(side=31)
    strided = net.convolution("strided", net.convolution("first", net.input, 8), 4, kernel=1)
    net.graph.operators[1].builtinOptions.strideH = net.graph.operators[1].builtinOptions.strideW = 10
    net.graph.tensors[strided].shape = [1, 4, 4, 4]
    model = read_model(file_of(net.packed(strided), tmp_path))
    cutter, graph = TfliteCutter(model), graph_of(model)
    parts = cutter.cut(graph, cuts_of(graph, rows=1))
    first = [part.box[1][0] for part in parts.parts if part is not None and part.layer == "0"]
    assert first == [0, 10, 20, 30]
    numbers = [np.random.default_rng(0).standard_normal((1, 31, 31, 4)).astype(np.float32)]
    assert np.array_equal(run(packed(cutter.model_of(parts)), numbers)[0], run(packed(model), numbers)[0])
    used = {int(x) for each in cutter.model_of(parts).subgraphs[0].operators for x in each.inputs}
    made = {int(x) for each in cutter.model_of(parts).subgraphs[0].operators for x in each.outputs}
    assert made - used == {int(x) for x in cutter.model_of(parts).subgraphs[0].outputs}


def test_parts_of_other_rows_are_others_though_their_operators_have_the_same_numbers(tmp_path):
    """Nodes are numbers of operators: 16 and 16 rows are as many as 20 and 12."""
    model = read_model(file_of(int8_networks.resnet8(), tmp_path))
    graph, cutter = graph_of(model), TfliteCutter(model)
    tilings = [cuts_of(graph, rows=rows) for rows in (16, 20, 24, 16)]
    made = list(Maker(lambda cuts: cutter.cut(graph, cuts), len, Deadline(None)).made(tilings, lambda: False))
    assert len(made) == 3 and made[0].nodes == made[1].nodes == made[2].nodes
    for parts, rows in zip(made, (16, 20, 24), strict=True):
        first = next(part.box for part in parts.parts if part is not None)
        shapes = [tuple(each.shape) for each in cutter.model_of(parts).subgraphs[0].tensors]
        assert first[1] == (0, rows) and (1, rows, 32, 16) in shapes


def test_what_is_never_cut_is_known_without_cutting(tmp_path):
    """A mirrored padding has no parts: whole, with what it reads, it is over the budget, whatever the parts."""
    model = read_model(network(tmp_path))
    graph, cutter = graph_of(model), TfliteCutter(model)
    assert cutter.whole(graph) == {0, len(graph.nodes) - 1} and not cutter.made
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 100
    assert cutter.whole(graph) == set(range(len(graph.nodes)))


@pytest.mark.parametrize("rows", [None, 8, 2])
def test_the_persistent_part_is_estimated_as_micro_measures_it(rows, tmp_path):
    pytest.importorskip("tflite_micro")
    model = read_model(network(tmp_path))
    graph = graph_of(model)
    cutter = TfliteCutter(model)
    parts = graph if rows is None else cutter.cut(graph, cuts_of(graph, rows=rows))
    made = model if rows is None else cutter.model_of(parts)
    found = measured(packed(model), packed(made), [[np.zeros((1, 16, 16, 4), np.float32)]], 1, 2**20)
    assert isinstance(found, Runs) and found.equal
    assert found.new.persistent == pytest.approx(persistent_of(made, parts, parts.input_order()), rel=0.12)
    assert rows is None or found.new.persistent > 1.2 * found.former.persistent


def test_the_total_is_printed_as_micro_reports_it(command, tmp_path):
    pytest.importorskip("tflite_micro")
    path, new = network(tmp_path), tmp_path / "new.tflite"
    asked = ("--tile", 2, "--budget", 0.8, *TENSORS)
    status, out, _ = command("deploy", "tflite", path, *asked, "-o", new, "--json", *QUICK)
    told = json.loads(out)
    micro = measured(path.read_bytes(), new.read_bytes(), [[np.zeros((1, 16, 16, 4), np.float32)]], 1, 2**20)
    assert status == 0 and told["written"] and told["equal"] and told["micro"]["measured"]
    assert told["arena"] == told["micro"]["tensors"] == micro.new.tensors < told["former"]["tensors"]
    assert told["micro"]["total"] == sum(told["micro"][part] for part in ("tensors", "persistent"))
    assert told["micro"]["total"] == micro.new.total


@pytest.mark.parametrize("name", ["resnet8", *few(["keyword_spotting", "autoencoder", "person_detection"], keep=0)])
@pytest.mark.parametrize("rows", [None, 16, *few([8, 7, 5, 2], keep=0)])
def test_the_persistent_part_of_int8_networks_is_known(name, rows, tmp_path):
    pytest.importorskip("tflite_micro")
    model = read_model(file_of(getattr(int8_networks, name)(), tmp_path))
    graph, cutter = graph_of(model), TfliteCutter(model)
    numbers = np.zeros(tuple(model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shape), np.int8)
    parts = graph if rows is None else cutter.cut(graph, cuts_of(graph, rows=rows))
    made = packed(model if rows is None else cutter.model_of(parts))
    found = measured(packed(model), made, [[numbers]], 1, 2**23)
    assert isinstance(found, Runs) and persistent_in(made) - found.new.persistent in (0, 16)
    assert found.former.persistent == persistent_in(packed(model))


@pytest.mark.parametrize(
    ("budget", "tile"),
    [("1.0", ()), ("0.9", ("--tile", "auto")), *few([("55,000", ("--tile", "auto")), ("0.97", ("--tile", "20")),
     ("0.85", ("--tile", "auto")), ("1.0", ("--tile", "auto")), ("0.98", ("--tile", 16))], keep=0)],
)  # fmt: skip
def test_the_budget_is_for_all_that_micro_takes(budget, tile, command, tmp_path):
    """ResNet8 takes 55,984 bytes whole: tensors in finer parts take ever less, and operators ever more."""
    pytest.importorskip("tflite_micro")
    path, new = file_of(int8_networks.resnet8(), tmp_path), tmp_path / "new.tflite"
    limit = float(budget) * 55_984 if "." in budget else float(budget.replace(",", ""))
    asked = ("--budget", budget.replace(",", ""), *tile, "--json", *QUICK)
    status, out, err = command("deploy", "tflite", path, *asked, "-o", new)
    told = json.loads(out)
    assert status == 0 and "bytes in total, 6,832 that stay of whole layers" in err
    assert told["former"]["total"] == 55_984 and told["equal"] and told["micro"]["measured"]
    assert told["planned"]["tensors"] == told["micro"]["tensors"]
    assert told["planned"]["total"] - told["micro"]["total"] in (0, 16)
    assert told["micro"]["total"] <= limit + 1
    assert (told["micro"]["total"] == 55_984) == (budget == "1.0")


def test_what_stays_alone_may_be_over_the_budget(command, tmp_path):
    path, new = network(tmp_path), tmp_path / "new.tflite"
    for budget in (1, 100, 1000):
        for tile in ((), ("--tile", "auto"), ("--tile", 2)):
            status, out, err = command("deploy", "tflite", path, "--budget", budget, *tile, "-o", new, *QUICK)
            assert (status, out) == (1, "") and err.splitlines()[-1].startswith("no schedule: ") and not new.exists()


def test_what_kernels_take_beyond_the_plan_is_left_free_by_the_next_plan(command, tmp_path, monkeypatch):
    """A formula that is too low by 400 bytes: the model as it is takes more than the budget, and parts fit."""
    pytest.importorskip("tflite_micro")
    path, new = file_of(int8_networks.resnet8(), tmp_path), tmp_path / "new.tflite"
    monkeypatch.setattr(tflite_micro, "_BASE", tflite_micro._BASE - 400)
    asked = ("deploy", "tflite", path, "--budget", 55_600, "--json", *QUICK, "-o", new)
    status, _, err = command(*asked)
    assert status == 1 and "no schedule: " in err and not new.exists()
    status, out, err = command(*asked, "--tile", "auto")
    assert "55,984 bytes in total are over the budget of 55,600: once more with fewer for tensors" in err
    assert status == 0 and json.loads(out)["micro"]["total"] <= 55_600 and new.exists()


def test_a_model_that_differs_or_does_not_run_is_not_written(command, tmp_path, monkeypatch):
    path, new = network(tmp_path), tmp_path / "new.tflite"
    asked = ("deploy", "tflite", path, "--budget", "1.0", "-o", new, *QUICK)
    assert command(*asked)[0] == 0
    good = new.read_bytes()
    spoiled = read_model(path)
    spoiled.subgraphs[0].operators[1].builtinOptions.fusedActivationFunction = 0
    monkeypatch.setattr(deploy_tflite, "_data_of", lambda *given: packed(spoiled))
    status, out, err = command(*asked)
    assert status == 1 and "not written: outputs are not equal in" in out and new.read_bytes() == good
    status, out, _ = command(*asked, "--json")
    assert status == 1 and json.loads(out)["written"] is False and new.read_bytes() == good
    spoiled.subgraphs[0].operators[1].opcodeIndex = 1  # an addition of three tensors
    status, _, err = command(*asked)
    assert status == 2 and "the new model: LiteRT's reference kernels do not run it" in err and new.read_bytes() == good
    status, _, err = command(*asked, "--no-check")
    assert status == 0 and "the new model has not been run" in err and new.read_bytes() != good


@pytest.mark.parametrize(("sizes", "arena"), [((2, 2), 32), ((6, 4), 48), ((1, 3), 32), ((4, 4), 32)])
def test_all_of_the_peak_is_enough_whatever_the_sizes(sizes, arena, command, tmp_path):
    """A fraction is one of sizes that are rounded up, as offsets are."""
    net = tflite_models.Builder(side=1, channels=sizes[0])
    path = file_of(
        net.packed(net.convolution("last", net.convolution("first", net.input, sizes[1]), sizes[0])), tmp_path
    )
    graph = graph_of(read_model(path))
    for tile in ((), ("--tile", "auto")):
        status, out, _ = command(
            "deploy", "tflite", path, "--budget", "100%", *tile, "-o", tmp_path / "new.tflite", *QUICK
        )
        assert status == 0 and f"arena {arena} bytes" in out and max(graph.working_sets) <= arena
