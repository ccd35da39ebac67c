"""ONNX models whose outputs are computed in parts: random ones in ONNX Runtime, before and after."""

from __future__ import annotations

import json
from collections import Counter

import numpy
import onnx
import pytest
from few import few
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_layers import KINDS, Model, cuts_of, models, quantized_models
from script_loading import load_script

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.gathering import useful_cuts, with_reductions
from moccasin_mzn.deploy.onnx_comparing import compare, equal, rounding
from moccasin_mzn.deploy.onnx_deployment import deploy, read_source
from moccasin_mzn.deploy.onnx_deployment import in_parts as in_parts_of
from moccasin_mzn.deploy.onnx_tiling import possible_cuts, tiled_model
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, trace_onnx
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, random_inputs, runtime
from moccasin_mzn.graphs.tiling.choosing import tilings
from moccasin_mzn.graphs.tiling.cutting import cuts_of as parts_of

NETWORKS = load_script("tiled_networks").NETWORKS


def traced(model):
    return trace_onnx(model.SerializeToString(), "model", OnnxImport(isolated=False))


def results(model, inputs):
    data, options = model.SerializeToString(), plain_options(1)
    return runtime().InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, inputs)


def in_parts(model, draw):
    """A model with random cuts, and how many outputs are cut."""
    trace = traced(model)
    cuts = possible_cuts(model, trace.graph, trace.operators, draw(cuts_of(trace.graph)))
    return tiled_model(model, {trace.operators[v]: own for v, own in cuts.items()})[0], len(cuts)


@settings(max_examples=100, deadline=None)
@given(models(), st.data())
def test_random_models_compute_the_same_in_parts(model, data):
    tiled, _ = in_parts(model, data.draw)
    onnx.checker.check_model(tiled, full_check=True)
    inputs = random_inputs(model, 0)
    for one, other in zip(results(model, inputs), results(tiled, inputs), strict=True):
        scale = numpy.abs(one).max(initial=1e-30)
        assert one.shape == other.shape
        assert numpy.abs(one - other).max(initial=0) <= 8 * numpy.spacing(numpy.float32(scale))


@pytest.mark.parametrize("version", [3, 8])
def test_constants_of_which_parts_are_stored_are_no_inputs(version):
    """Though a file may have all constants among its inputs."""
    make = onnx.helper.make_tensor_value_info
    shape, value = [1, 2, 6, 3], numpy.arange(36, dtype=numpy.float32).reshape(1, 2, 6, 3)
    nodes = [onnx.helper.make_node("Add", ["x", "c"], ["y"]), onnx.helper.make_node("Relu", ["y"], ["z"])]
    x, c, z = (make(name, onnx.TensorProto.FLOAT, shape) for name in "xcz")
    graph = onnx.helper.make_graph(nodes, "g", [x, c], [z], [onnx.numpy_helper.from_array(value, "c")])
    sets = [onnx.helper.make_opsetid("", 8 if version == 3 else 13)]
    model = onnx.helper.make_model(graph, ir_version=version, opset_imports=sets)
    trace = traced(model)
    cuts = possible_cuts(model, trace.graph, trace.operators, {0: {2: (0, 2, 6)}, 1: {2: (0, 2, 6)}})
    tiled, _ = tiled_model(model, {trace.operators[v]: own for v, own in cuts.items()})
    onnx.checker.check_model(tiled, full_check=True)
    assert len(tiled.graph.node) > 2 and [value.name for value in tiled.graph.input] == ["x"]
    assert equal(results(model, {"x": value}), results(tiled, {"x": value}))


def test_dilated_pools_with_automatic_padding_stay_whole():
    """ONNX Runtime pads them as if they were not dilated."""
    make = onnx.helper.make_tensor_value_info
    x = make("x", onnx.TensorProto.FLOAT, [1, 4, 9, 7])
    node = onnx.helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[4, 4], strides=[2, 1], dilations=[1, 2], auto_pad="SAME_LOWER"
    )
    graph = onnx.helper.make_graph([node], "g", [x], [make("y", onnx.TensorProto.FLOAT, None)])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 19)])
    trace = traced(model)
    assert possible_cuts(model, trace.graph, trace.operators, {0: {2: (0, 2, 5)}}) == {}


def pooled(kind, opset, shape, **attributes):
    """A pool between convolutions, such as PyTorch exports it."""
    random = numpy.random.default_rng(0)
    depth, ones = shape[1], [1] * (len(shape) - 2)
    constants = [onnx.numpy_helper.from_array(random.normal(size=(4, rows, *ones)).astype("f"), name)
                 for name, rows in (("w", depth), ("v", 4))]  # fmt: skip
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["a"]), onnx.helper.make_node(kind, ["a"], ["p"], **attributes),
             onnx.helper.make_node("Conv", ["p", "v"], ["y"])]  # fmt: skip
    infos = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape), onnx.ValueInfoProto(name="y")]
    graph = onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    sets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, ir_version=9, opset_imports=sets)


POOLS = [
    (kind, opset, shape, {"kernel_shape": [size] * (len(shape) - 2), "strides": [stride] * (len(shape) - 2), **more})
    for kind in ("MaxPool", "AveragePool", "LpPool")
    for opset in (13, 17, 21, 22)
    for shape in ((2, 1, 4), (1, 3, 5, 6), (1, 1, 1, 7), (2, 2, 4, 3, 5))
    for size, stride in ((1, 2), (2, 2), (3, 2), (2, 3))
    for more in ({"ceil_mode": 1}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER", "dilations": [2]},
                 {"ceil_mode": 1, "dilations": [2]})
    if (kind != "LpPool" or opset >= 18) and ("dilations" not in more or kind == "MaxPool" or opset >= 19)
]  # fmt: skip


@pytest.mark.parametrize(("kind", "opset", "shape", "given"), few(POOLS, keep=12))
def test_pools_of_all_kinds_compute_the_same_in_rows(kind, opset, shape, given):
    """Single rows: of pools whose windows begin behind the image, and of dilated ones, too; else they are whole."""
    given = {**given, **({"dilations": [2] * (len(shape) - 2)} if "dilations" in given else {})}
    model = pooled(kind, opset, shape, **given)
    inputs = {"x": numpy.random.default_rng(1).normal(size=shape).astype("f")}
    try:
        before = results(model, inputs)
    except Exception:  # windows that are larger than the image, in ONNX Runtime's own types of exceptions
        return
    trace = traced(model)
    assert trace.graph.sizes[2] == before[0].nbytes
    cuts = {v: {2: tuple(range(each.shape[2] + 1))} for v, each in enumerate(trace.graph.operators)}
    cuts = possible_cuts(model, trace.graph, trace.operators, cuts)
    tiled, _ = tiled_model(model, {trace.operators[v]: own for v, own in cuts.items()})
    assert rounding(before, results(tiled, inputs)) <= 16


def test_what_onnx_runtime_misreads_as_it_loads_a_model_stays_whole():
    """An output shape below that of the input, of which it infers fewer axes, and refuses slices of the last one."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("ConvTranspose", ["x", "w"], ["a"], kernel_shape=[1, 1], output_shape=[6, 2]),
             make("Relu", ["a"], ["b"]), make("MatMul", ["b", "v"], ["y"])]  # fmt: skip
    constants = [onnx.numpy_helper.from_array(numpy.ones(shape, "f"), name)
                 for name, shape in (("w", (1, 2, 1, 1)), ("v", (2, 3)))]  # fmt: skip
    infos = [info("x", onnx.TensorProto.FLOAT, [1, 1, 6, 5]), onnx.ValueInfoProto(name="y")]
    graph = onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    trace = traced(model)
    assert trace.graph.sizes == (96, 96, 144)
    cuts = {0: {1: (0, 1, 2)}, 1: {3: (0, 1, 2)}, 2: {2: (0, 3, 6)}}
    assert possible_cuts(model, trace.graph, trace.operators, cuts) == {}


def declared(count, opset=17):
    """The numbers of what is not 0, declared to be so many, and numbers made of them and of their shape."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("NonZero", ["x"], ["n"]), make("Cast", ["n"], ["f"], to=onnx.TensorProto.FLOAT),
             make("Relu", ["f"], ["r"]), make("Shape", ["r"], ["s"]), make("Cast", ["s"], ["t"], to=1),
             make("ReduceSum", ["r"], ["m"]), make("Mul", ["t", "m"], ["y"])]  # fmt: skip
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", onnx.TensorProto.INT64, [3, 4])], [info("y", onnx.TensorProto.FLOAT, [2])],
        value_info=[info("n", onnx.TensorProto.INT64, [2, count])],
    )  # fmt: skip
    return onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", opset)])


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [6, 12])
def test_shapes_that_depend_on_values_are_in_doubt_whatever_is_declared(tmp_path, command, count):
    """What has one is whole, and its shape no constant: the new model is right for other inputs too."""
    path, new = tmp_path / "model.onnx", tmp_path / "new.onnx"
    onnx.save(declared(count), path)
    trace = traced(onnx.load(path))
    columns = {v: {1: (0, 3, count)} for v in range(3)}
    assert possible_cuts(onnx.load(path), trace.graph, trace.operators, columns) == {}
    asked = ("deploy", "onnx", path, "-o", new, "--budget", "1.0", "--time-limit", 1, "--search", "only")
    for more in ((), ("--no-check",)):
        assert command(*asked, *more)[0] == 0
        for some in (0, 1, 5, 6, 12):
            inputs = {"x": (numpy.arange(12).reshape(3, 4) < some).astype(numpy.int64)}
            assert equal(results(onnx.load(path), inputs), results(onnx.load(new), inputs))


@settings(max_examples=40, deadline=None)
@given(quantized_models(), st.data())
def test_quantized_models_are_the_same_bit_for_bit(model, data):
    tiled, _ = in_parts(model, data.draw)
    inputs = random_inputs(model, 0)
    assert equal(results(model, inputs), results(tiled, inputs))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.few(10)
def test_every_kind_of_operator_is_split(kind):
    """None is whole whatever is asked for: along some axis each is cut in halves, and computes the same."""
    found = []

    @settings(max_examples=50 if kind == "SpaceToDepth" else 12, deadline=None, database=None, derandomize=True)
    @given(models([kind]), st.data())
    def split(model, data):
        tiled, _ = in_parts(model, data.draw)
        found.append(sum(each.op_type == kind for each in tiled.graph.node) > len(model.graph.node))

    split()
    assert any(found) or kind in ("Slice", "Concat")  # of these a part is a part of what is read


def test_what_is_read_whole_is_cut_along_another_axis_or_stays_whole():
    net = Model((1, 8, 16, 16), 0)
    image = net.add("Relu", ["x"])
    mean = net.add("GlobalAveragePool", [image], (1, 8, 1, 1))
    model = net.made([mean])
    trace = traced(model)
    rows = {0: {2: (0, 8, 16)}}
    assert useful_cuts(trace.graph, rows) == {}
    more = with_reductions(trace.graph, rows)
    assert more == rows | {1: {1: tuple(range(9))}} and useful_cuts(trace.graph, more) == more
    tiled, parts = tiled_model(model, {trace.operators[v]: own for v, own in more.items()})
    made = [each.op_type for each in tiled.graph.node]
    assert made.count("Relu") == 2 and made.count("GlobalAveragePool") == 8 and len(parts) == 10
    assert max(trace_of.sizes[v] for trace_of in [traced(tiled).graph] for v in range(len(made))) == 8 * 8 * 16 * 4
    inputs = random_inputs(model, 0)
    assert equal(results(model, inputs), results(tiled, inputs))


def test_models_of_old_operator_sets_are_refused():
    net = Model((1, 2, 4, 4), 0)
    model = net.made([net.add("Relu", ["x"])], opset=6)
    trace = traced(model)
    with pytest.raises(InputError, match="operator set 6; models are cut into parts from 7 on"):
        possible_cuts(model, trace.graph, trace.operators, {0: {2: (0, 2, 4)}})


@pytest.mark.parametrize("how", few(["2", "auto", "2x8"], keep=("auto",)))
@pytest.mark.full
def test_the_command_writes_a_model_in_parts(tmp_path, command, how):
    net = Model((1, 3, 16, 16), 1)
    x = "x"
    for depth in (3, 8, 8):
        weights = [net.weights(8, depth, 3, 3), net.weights(8)]
        x = net.add("Relu", [net.add("Conv", [x, *weights], (1, 8, 16, 16), pads=[1] * 4, kernel_shape=[3, 3])])
    mean = net.add("GlobalAveragePool", [x], (1, 8, 1, 1))
    path, new = tmp_path / "model.onnx", tmp_path / "new.onnx"
    onnx.save(net.made([mean]), path)
    options = ("--tile", how, "--budget", "14000", "--time-limit", "10", "-o", new, "--check", "--json")
    status, out, err = command("deploy", "onnx", path, *options)
    assert status == 0 and "tiling: " in err
    told = json.loads(out)
    assert told["in_order"] and told["within_plan"] and told["rounding"] <= 16
    assert told["measured_peak"] <= 14000 < told["measured_former_peak"] == told["former_peak"] == 16384
    assert any("[0:" in each.output[0] for each in onnx.load(new).graph.node)
    before, after = (results(onnx.load(each), random_inputs(onnx.load(path), 1)) for each in (path, new))
    assert rounding(before, after) <= 16


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 4, 10])
def test_parts_that_nothing_reads_are_left_out(batch, stride):
    """Of 31 rows a window of one row reads each tenth: 4 rows of the layer before are computed."""
    make, random, rows = onnx.helper, numpy.random.default_rng(0), -(-31 // stride)
    nodes = [
        make.make_node("Conv", ["x", "w"], ["a"]), make.make_node("Relu", ["a"], ["b"]),
        make.make_node("Conv", ["b", "w"], ["y"], strides=[stride, stride]), make.make_node("Abs", ["a"], ["unread"]),
    ]  # fmt: skip
    weights = onnx.numpy_helper.from_array(random.standard_normal((2, 2, 1, 1)).astype(numpy.float32), "w")
    ends = [[make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, 2, side, side])]
            for name, side in (("x", 31), ("y", rows))]  # fmt: skip
    model = make.make_model(
        make.make_graph(nodes, "g", *ends, [weights]), ir_version=10, opset_imports=[make.make_opsetid("", 17)]
    )
    trace = traced(model)
    cuts = possible_cuts(model, trace.graph, trace.operators, parts_of(trace.graph, rows=1))
    new, _ = tiled_model(model, {trace.operators[v]: own for v, own in cuts.items()})
    onnx.checker.check_model(new, full_check=True)
    numbers = {"x": random.standard_normal((batch, 2, 31, 31)).astype(numpy.float32)}
    assert equal(results(model, numbers), results(new, numbers))
    read = {name for each in new.graph.node for name in each.input} | {"y"}
    unread = {name for each in new.graph.node for name in each.output} - read
    counts = Counter(each.op_type for each in new.graph.node)
    assert counts["Relu"] == (rows if batch == 1 else 2)  # a batch is cut into its images
    assert {each.name for each in new.graph.initializer} <= read
    assert (counts["Abs"], unread) == (1, {"unread"})


def test_tiles_are_for_searches(tmp_path, command):
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "plan.json").write_text("[]")
    status, _, err = command(
        "deploy", "onnx", tmp_path / "model.onnx", tmp_path / "plan.json", "--tile", "4", "-o", tmp_path / "new.onnx"
    )
    assert status == 2 and "--tile is for a search: give --budget as well" in err


@pytest.mark.parametrize(
    ("other", "apart"), [([1.0, 4.0], 0), ([1.0, 4.0000005], 1), ([numpy.nan, 4.0], numpy.inf), ([1.0], numpy.inf)]
)
def test_differences_are_counted_in_the_last_place_of_the_largest_number(other, apart):
    one = numpy.array([1.0, 4.0], numpy.float32)
    assert rounding([one], [numpy.array(other, numpy.float32)]) == apart
    assert rounding([numpy.array([1])], [numpy.array([2])]) == numpy.inf


@pytest.mark.full
@pytest.mark.parametrize("name", list(NETWORKS))
def test_networks_in_parts_take_what_is_planned(tmp_path, name):
    path = tmp_path / "model.onnx"
    onnx.save(NETWORKS[name](), path)
    whole = read_source(path)
    parts = in_parts_of(whole, list(tilings(whole.trace.graph, max(whole.graph.working_sets)))[1])
    order = mz.order(parts.graph, time_limit=5)
    deployed = deploy(parts, order.positions)
    found = compare(deployed.model, deployed.original, folder=tmp_path)
    assert found.is_rounded and found.late is None and found.peak == deployed.planned_values == order.peak
    most = max(whole.graph.working_sets)
    assert found.peak == most if name == "autoencoder" else found.peak < 0.8 * most  # which has one row
