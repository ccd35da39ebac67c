"""ONNX files of whole networks to graphs: counts, sizes of real runs, shapes of ONNX's own examples."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx_models import LIGHT, by_id, load

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.onnx.inference import infer
from moccasin_mzn.graphs.importers.onnx.model import parse_model
from moccasin_mzn.graphs.importers.onnx.preparation import Fold, fix_dims

RAPIDOCR = find_spec("rapidocr")
needs_rapidocr = pytest.mark.skipif(RAPIDOCR is None, reason="rapidocr is not installed")


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("name", "nodes", "edge_count", "merged"),
    [
        ("bvlc_alexnet", 24, 23, 23),
        ("densenet121", 668, 725, 668),
        ("inception_v1", 143, 169, 142),
        ("inception_v2", 371, 398, 370),
        ("resnet50", 176, 191, 175),
        ("shufflenet", 203, 218, 170),
        ("squeezenet", 66, 73, 66),
        ("vgg19", 46, 45, 45),
        ("zfnet512", 22, 21, 21),
    ],
)
def test_light_models_are_imported(name, nodes, edge_count, merged, capfd):
    path = LIGHT / f"light_{name}.onnx"
    graph = load(path, fold=Fold.ALL)
    assert (len(graph.nodes), len(graph.edges)) == (nodes, edge_count)
    assert len(load(path, merge_views=True, fold=Fold.ALL).nodes) == merged
    assert (graph.name, graph.size_unit, graph.duration_unit) == (f"light_{name}", "byte", "MAC")
    assert graph.fixed_memory["inputs"] == 4 * 3 * 224 * 224
    assert "assumed" not in graph.attributes
    assert graph.attributes["operator sets"] == {"ai.onnx": 9}
    assert capfd.readouterr() == ("", "")


def test_resnet50_has_the_figures_it_is_known_for():
    graph = load(LIGHT / "light_resnet50.onnx", fold=Fold.ALL)
    assert graph.fixed_memory["parameters"] == 4 * (25_557_032 + 53_120) + 16
    # 53,120 running means and variances, which frameworks do not count; 16 bytes say the shape of a Reshape
    convolutions = sum(cost for cost, kind in zip(graph.durations, graph.labels, strict=True) if kind == "Conv")
    assert convolutions == 4_087_136_256  # with strides in the 3x3 convolutions


@needs_rapidocr
@pytest.mark.parametrize(
    ("name", "dims", "nodes", "edge_count", "merged"),
    [
        ("PP-OCRv6_det_small", {"x[0]": 1, "x[2]": 640, "x[3]": 640}, 464, 514, 317),
        ("PP-OCRv6_rec_small", {"DynamicDimension.0": 1, "DynamicDimension.1": 320}, 466, 520, 323),
        ("ch_ppocr_mobile_v2.0_cls_mobile", {"x[0]": 1, "x[2]": 48, "?": 192}, 234, 267, 232),
    ],
)
def test_rapidocr_models_are_imported(name, dims, nodes, edge_count, merged):
    path = Path(RAPIDOCR.origin).parent / "models" / f"{name}.onnx"
    graph = load(path, dims=dims)
    assert (len(graph.nodes), len(graph.edges)) == (nodes, edge_count)
    assert len(load(path, dims=dims, merge_views=True).nodes) == merged


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v2", "resnet50", "densenet121"])
def test_onnx_sizes_are_those_of_a_real_run(name):
    import onnxruntime as runtime

    model = onnx.load(LIGHT / f"light_{name}.onnx")
    computed = {one.name for one in model.graph.input} - {one.name for one in model.graph.initializer}
    for one in model.graph.node:
        if computed & set(one.input):
            computed.update(one.output)
    read = {name for one in model.graph.node for name in one.input} | {one.name for one in model.graph.output}
    wanted = sorted({name for one in model.graph.node for name in one.output} & computed & read)
    assert sum(load(LIGHT / f"light_{name}.onnx", fold=Fold.ALL).sizes) == sum(run(runtime, model, wanted).values())


@needs_rapidocr
def test_sizes_of_each_node_are_those_of_a_real_run_where_shapes_are_computed():
    import onnxruntime as runtime

    path = Path(RAPIDOCR.origin).parent / "models" / "PP-OCRv6_rec_small.onnx"
    dims = {"x[0]": 2, "x[3]": 200}
    graph, model = load(path, dims=dims), onnx.load(path)
    fix_dims(model, dims)
    outputs = {one.name: one.output[0] for one in model.graph.node if one.name in graph.index}
    found = run(runtime, model, sorted(outputs.values()))
    assert by_id(graph, graph.sizes) == {name: found[output] for name, output in outputs.items()}


def run(runtime, model, wanted):
    """Bytes of these values, by name, in a run on zeros."""
    import numpy

    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {one.name: numpy.zeros(one.shape, numpy.float32) for one in session.get_inputs()}
    return {name: found.nbytes for name, found in zip(wanted, session.run(wanted, inputs), strict=True)}


@pytest.mark.slow
def test_shapes_are_those_of_onnx_own_examples():
    from onnx.backend.test.case.node import collect_testcases

    compared = 0
    for case in collect_testcases(None):
        model = parse_model(case.model.SerializeToString())
        try:
            shapes = infer(model, fix_dims(model, {}))
        except InputError:  # of an empty input, which counts as open
            continue
        for one, expected in zip(model.graph.output, case.data_sets[0][1], strict=False):
            found = shapes.of(one.name)
            if found.size is not None:
                array = numpy_helper.to_array(expected) if isinstance(expected, TensorProto) else expected
                assert (case.name, found.shape) == (case.name, array.shape)
                packed = array.dtype.kind not in "iufbc"
                assert packed or found.size == array.nbytes
                compared += 1
    assert compared > 2000
