"""ONNX models whose outputs are computed in parts: random ones in ONNX Runtime, before and after."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_tool")
pytest.importorskip("onnxruntime")

from onnx_layers import cuts_of, models  # noqa: E402

from moccasin_mzn.deploy.onnx_tiling import possible_cuts, tiled_model  # noqa: E402
from moccasin_mzn.graphs.importers.onnx.file import trace_onnx  # noqa: E402
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, random_inputs, runtime  # noqa: E402


def traced(model):
    return trace_onnx(model.SerializeToString(), "model", isolated=False)


def results(model, inputs):
    data, options = model.SerializeToString(), plain_options(1)
    return runtime().InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, inputs)


def in_parts(model, draw):
    """A model with random cuts, and how many outputs are cut."""
    trace = traced(model)
    cuts = possible_cuts(model, trace.graph, trace.operators, draw(cuts_of(trace.graph)))
    return tiled_model(model, {trace.operators[v]: own for v, own in cuts.items()})[0], len(cuts)


@settings(max_examples=400, deadline=None)
@given(models(), st.data())
def test_random_models_compute_the_same_in_parts(model, data):
    tiled, _ = in_parts(model, data.draw)
    onnx.checker.check_model(tiled, full_check=True)
    inputs = random_inputs(model, 0)
    for one, other in zip(results(model, inputs), results(tiled, inputs), strict=True):
        scale = numpy.abs(one).max(initial=1e-30)
        assert one.shape == other.shape
        assert numpy.abs(one - other).max(initial=0) <= 4 * numpy.spacing(numpy.float32(scale))
