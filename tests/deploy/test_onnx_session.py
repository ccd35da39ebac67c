"""What ONNX Runtime makes of a file that computes operators again: by default, and as it is told here."""

from __future__ import annotations

import numpy
import onnxruntime
from onnx_deploying import SHAPE, model_of, node

from moccasin_mzn.deploy.onnx_comparing import equal
from moccasin_mzn.deploy.onnx_session import in_file_order, measured, peak_of
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options

AGAIN = model_of(
    [node("Sigmoid", ["x"], ["a"]), node("Sin", ["a"], ["b"]), node("Cos", ["b"], ["c"]), node("Cos", ["c"], ["d"]),
     node("Sigmoid", ["x"], ["a__2"]), node("Sin", ["a__2"], ["e"]), node("Add", ["e", "d"], ["f"]),
     node("Add", ["a__2", "f"], ["g"])], ["g"],
)  # fmt: skip
INPUTS = {name: numpy.linspace(0, 1, 6, dtype=numpy.float32).reshape(SHAPE) for name in "xz"}


def test_onnx_session_keeps_to_the_order_of_the_file_with_its_options_alone():
    told, usual = (measured(AGAIN, INPUTS, options) for options in (in_file_order(1), plain_options(1)))
    assert (told.order, told.late) == (tuple(range(8)), None)
    assert sorted(usual.order) == list(range(8)) and usual.late == "Sigmoid 'a'"
    assert equal(told.outputs, usual.outputs)


def test_graph_optimizations_undo_recomputation():
    options = in_file_order(1)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert len(measured(AGAIN, INPUTS, options).order) == 6


def test_peaks_by_hand():
    sizes = dict.fromkeys(["a", "b", "c", "d", "a__2", "e", "f", "g"], 10) | {"a": 25}
    assert peak_of(AGAIN.graph, range(8), sizes) == 40  # d, a__2, e and f
    assert peak_of(AGAIN.graph, [0, 4, 1, 2, 3, 5, 6, 7], sizes) == 45  # a, a__2 and b


def test_equality_is_of_bits():
    nan, zero = numpy.array([numpy.nan, 1.0]), numpy.zeros(2)
    assert equal([nan, ["a"], numpy.array(["b"], object)], [nan.copy(), ["a"], numpy.array(["b"], object)])
    assert not equal([zero], [-zero]) and not equal([zero], [zero.astype(numpy.float32)]) and not equal([zero], [])
