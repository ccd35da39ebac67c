"""Shapes and types of ONNX Runtime's own operators, and of some that `onnx` does not know, beside what they put out."""

from __future__ import annotations

from itertools import product

import numpy
import onnx
import onnxruntime
import pytest
from few import few
from onnx import helper, numpy_helper

from moccasin_mzn.graphs.importers.onnx.costs import product_count
from moccasin_mzn.graphs.importers.onnx.inference import infer
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options

MICROSOFT = "com.microsoft"
RANDOM = numpy.random.default_rng(0)


def real(*shape):
    """Numbers in single precision."""
    return RANDOM.random(shape).astype(numpy.float32)


def bytes_(*shape):
    """Of eight bits without sign."""
    return RANDOM.integers(0, 9, shape).astype(numpy.uint8)


SCALE, ZERO = numpy.float32(0.5), numpy.uint8(3)
QUANTIZED = (SCALE, ZERO)
IDS = RANDOM.integers(0, 9, (2, 5)).astype(numpy.int32)
FLAT = {"kernel_shape": [2, 2], "strides": [2, 2]}
LSTM_SCALES = (real(1), numpy.zeros(1, numpy.uint8)) * 2

CASES = {
    "BiasGelu": ([real(2, 3, 8), real(8)], 1, {}),
    "FastGelu": ([real(2, 3, 8)], 1, {}),
    "Gelu": ([real(2, 3, 8)], 1, {}),
    "QuickGelu": ([real(2, 3, 8)], 1, {}),
    "SkipLayerNormalization": ([real(2, 3, 8), real(2, 3, 8), real(8), real(8)], (1, 0, 0, 1), {}),
    "SkipSimplifiedLayerNormalization": ([real(2, 3, 8), real(2, 3, 8), real(8)], (1, 0, 0, 1), {}),
    "FusedConv": ([real(1, 3, 8, 7), real(4, 3, 3, 3)], 1, {"activation": "Relu", "strides": [2, 1]}),
    "FusedGemm": ([real(5, 4), real(6, 5)], 1, {"transA": 1, "transB": 1, "activation": "Relu"}),
    "FusedMatMul": ([real(2, 4, 3), real(2, 4, 6)], 1, {"transA": 1}),
    "FusedMatMul, batch": ([real(3, 2, 4), real(2, 4, 6)], 1, {"transBatchA": 1}),
    "TransposeMatMul": ([real(2, 3, 4), real(2, 6, 4)], 1, {"transB": 1}),
    "DynamicQuantizeMatMul": ([real(2, 3, 4), bytes_(4, 6), SCALE, ZERO], 1, {}),
    "MatMulIntegerToFloat": ([bytes_(3, 4), bytes_(4, 6), SCALE, SCALE, ZERO, ZERO], 1, {}),
    "QGemm": ([bytes_(3, 4), SCALE, ZERO, bytes_(6, 4), *QUANTIZED, None, *QUANTIZED], 1, {"transB": 1}),
    "QGemm, to single precision": ([bytes_(3, 4), SCALE, ZERO, bytes_(4, 6), *QUANTIZED], 1, {}),
    "MatMulNBits": ([real(2, 3, 32), bytes_(6, 1, 16), real(6)], 1,
                    {"K": 32, "N": 6, "bits": 4, "block_size": 32}),
    "QLinearAdd": ([bytes_(2, 1, 4), *QUANTIZED, bytes_(3, 4), *QUANTIZED, *QUANTIZED], 1, {}),
    "QLinearMul": ([bytes_(2, 1, 4), *QUANTIZED, bytes_(3, 4), *QUANTIZED, *QUANTIZED], 1, {}),
    "QLinearSigmoid": ([bytes_(2, 4), *QUANTIZED, *QUANTIZED], 1, {}),
    "QLinearLeakyRelu": ([bytes_(2, 4), *QUANTIZED, *QUANTIZED], 1, {"alpha": 0.1}),
    "QLinearSoftmax": ([bytes_(2, 4), *QUANTIZED, *QUANTIZED], 1, {"opset": 13}),
    "QLinearGlobalAveragePool": ([bytes_(1, 3, 4, 5), *QUANTIZED, *QUANTIZED], 1, {}),
    "QLinearGlobalAveragePool, channels last": ([bytes_(1, 4, 5, 3), *QUANTIZED, *QUANTIZED], 1, {"channels_last": 1}),
    "QLinearAveragePool": ([bytes_(1, 3, 4, 6), *QUANTIZED, *QUANTIZED], 1, FLAT),
    "QLinearConcat": ([*QUANTIZED, bytes_(2, 3), *QUANTIZED, bytes_(2, 5), *QUANTIZED], 1, {"axis": 1}),
    "QLinearConv": ([bytes_(1, 6, 7, 3), *QUANTIZED, bytes_(4, 3, 3, 3), *QUANTIZED, *QUANTIZED], 1,
                    {"channels_last": 1, "pads": [1, 0, 1, 0]}),
    "NhwcMaxPool": ([bytes_(1, 4, 6, 3)], 1, FLAT),
    "DynamicQuantizeLSTM": ([real(5, 2, 3), bytes_(1, 3, 16), bytes_(1, 4, 16), None, None, None, None, None,
                             *LSTM_SCALES], 3, {"hidden_size": 4}),
    "Attention": ([real(2, 5, 8), real(8, 24), real(24)], 1, {"num_heads": 2}),
    "Attention, with sizes": ([real(2, 5, 8), real(8, 28), real(28)], 1,
                              {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]}),
    "MultiHeadAttention": ([real(2, 5, 8), real(2, 7, 8), real(2, 7, 12)], 1, {"num_heads": 2}),
    "EmbedLayerNormalization": ([IDS, IDS % 2, real(9, 8), real(6, 8), real(2, 8), real(8), real(8)], 2, {}),
    "QuantizeLinear": ([real(2, 3), SCALE, ZERO], 1, {}),
    "DequantizeLinear": ([bytes_(2, 3), SCALE, ZERO], 1, {}),
    "CDist": ([real(4, 3), real(5, 3)], 1, {"metric": "euclidean"}),
}  # fmt: skip


def model_of(kind, given, outputs, attributes, domain=MICROSOFT, version=17, constants=()):
    """A model of one operator; outputs are their number, or which of them are there."""
    there = (1,) * outputs if isinstance(outputs, int) else outputs
    names = [f"y{at}" if told else "" for at, told in enumerate(there)]
    arrays = {f"x{at}": numpy.asarray(array) for at, array in enumerate(given) if array is not None}
    reads = [f"x{at}" if array is not None else "" for at, array in enumerate(given)]
    node = helper.make_node(kind, reads, names, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items() if name not in constants
    ]  # fmt: skip
    results = [onnx.ValueInfoProto(name=name) for name in names if name]
    stored = [numpy_helper.from_array(arrays[name], name) for name in constants]
    graph = helper.make_graph([node], "g", inputs, results, stored)
    sets = [helper.make_opsetid("", version), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10), arrays


class OnnxRuntimeError(Exception):
    """It does not run a model."""


def compare(model, arrays):
    """Is what is inferred what ONNX Runtime puts out?"""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), plain_options(1))
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, {name: arrays[name] for name in names})
    except Exception as error:  # its own types derive from nothing but Exception
        raise OnnxRuntimeError from error
    shapes = infer(model, {})
    for value, array in zip(model.graph.output, found, strict=True):
        expected = (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        assert (shapes.of(value.name).dtype, shapes.of(value.name).shape) == expected


@pytest.mark.parametrize("what", CASES)
def test_what_onnx_runtime_puts_out(what):
    given, outputs, attributes = CASES[what]
    compare(*model_of(what.split(",")[0], given, outputs, attributes))


@pytest.mark.parametrize("version", [12, 15, 16])
@pytest.mark.parametrize("kind", ["GreaterOrEqual", "LessOrEqual"])
def test_comparisons_of_all_operator_sets(kind, version):
    compare(*model_of(kind, [real(2, 1, 4), real(3, 1)], 1, {}, domain="", version=version))


@pytest.mark.parametrize("onesided", [None, 0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_shapes_of_spectra_are_inferred(onesided, windowed):
    attributes = {} if onesided is None else {"onesided": onesided}
    window, length = (real(16), None) if windowed else (None, numpy.int64(16))
    given = [real(2, 100, 1), numpy.int64(5), window, *([] if windowed else [length])]
    constants = ["x1"] if windowed else ["x1", "x3"]
    compare(*model_of("STFT", given, 1, attributes, domain="", version=17, constants=constants))


@pytest.mark.parametrize("version", [7, 12])
def test_a_mask_has_a_size_in_all_operator_sets(version):
    compare(*model_of("Dropout", [real(2, 3)], 2, {}, domain="", version=version))


PADDED = [{"auto_pad": word} for word in ("VALID", "SAME_UPPER", "SAME_LOWER")] + [
    {"pads": [*pads]} for pads in product((0, 1, 2), repeat=2)
]
KINDS_OF_POOLS = [("MaxPool", 12), ("MaxPool", 21), ("MaxPool", 22), ("AveragePool", 13), ("AveragePool", 19),
                  ("AveragePool", 22), ("LpPool", 13), ("LpPool", 18), ("LpPool", 22)]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "padding"), few([(*kind, padding) for kind in KINDS_OF_POOLS
                                                              for padding in PADDED], keep=6))  # fmt: skip
def test_pools_have_the_places_that_onnx_runtime_has(kind, version, padding):
    """In all operator sets, of windows that begin behind the image, dilated ones and those with SAME too."""
    dilated = version >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[kind]
    rounded = [0] if kind == "LpPool" and version < 18 else [0, 1]
    run = 0
    for ceil, extent, size, stride, dilation in product(rounded, (1, 2, 5, 8), (1, 2, 3), (1, 2, 3), (1, 2, 3)):
        given = {"kernel_shape": [size], "strides": [stride], **padding}
        given |= ({"dilations": [dilation]} if dilated else {}) | ({"ceil_mode": ceil} if ceil else {})
        outputs = 2 if kind == "MaxPool" else 1
        model, arrays = model_of(kind, [real(2, 1, extent)], outputs, given, domain="", version=version)
        try:
            compare(model, arrays)
            run += 1
        except OnnxRuntimeError:  # windows larger than the image, or padding as large as the window
            continue
    assert run >= 10


@pytest.mark.parametrize("version", [11, 22])
@pytest.mark.parametrize("padding", few([{}, *PADDED], keep=1))
def test_transposed_convolutions_have_the_places_that_onnx_runtime_has(padding, version):
    """With padding of the output, with SAME too, and with an output shape."""
    run = 0
    for extent, size, stride, dilation, more in product((1, 5), (1, 2, 3), (1, 2, 3), (1, 2), (None, 1, 2)):
        given = {"strides": [stride], "dilations": [dilation], **padding}
        given |= {} if more is None else {"output_padding": [more]} if more != 2 else {"output_shape": [extent + 1]}
        reads, groups = [real(2, 2, extent), real(2, 3, size)], 1 + run % 2
        attributes = {**given, "kernel_shape": [size], "group": groups}
        model, arrays = model_of("ConvTranspose", reads, 1, attributes, domain="", version=version)
        try:
            compare(model, arrays)
            run += 1
        except OnnxRuntimeError:  # padding of the output as large as the stride, or of more than the output
            continue
    assert run >= 20


@pytest.mark.parametrize("version", [7, 9, 16])
@pytest.mark.parametrize(
    ("first", "second"), [((2, 1, 4), (3, 1)), ((4,), (2, 3, 4)), ((2, 3), (1,)), ((1, 1), (2, 5))]
)
def test_prelu_is_broadcast_both_ways(first, second, version):
    compare(*model_of("PRelu", [real(*first), real(*second)], 1, {}, domain="", version=version))


@pytest.mark.parametrize("size", [0, 3])
def test_what_a_rule_does_not_fit_stays_unknown(size):
    model, _ = model_of("FusedMatMul", [real(2, 4), real(size, 6)], 1, {})
    assert infer(model, {}).of("y0").shape is None


# --- multiply-adds ---------------------------------------------------------------------------------------


def count(kind, inputs, outputs, domain=MICROSOFT, **attributes):
    """Of an operator with these shapes."""
    node = helper.make_node(kind, ["x"], ["y"], domain=domain, **attributes)
    return product_count(node)(node, inputs, outputs)


@pytest.mark.parametrize(("kind", "gates", "directions"), [("LSTM", 4, 1), ("GRU", 3, 2), ("RNN", 1, 1)])
def test_recurrent_layers_multiply_in_each_step(kind, gates, directions):
    steps, batch, width, hidden = 64, 2, 16, 64
    rows = gates * hidden
    found = count(kind, [(steps, batch, width), (directions, rows, width)], [(steps, directions, batch, hidden)], "")
    assert found == steps * batch * directions * (rows * (width + hidden) + 2 * rows)


def test_products_by_hand():
    assert count("FusedConv", [(1, 3, 8, 8), (4, 3, 3, 3)], [(1, 4, 6, 6)]) == 4 * 36 * 27
    assert count("QGemm", [(4, 3), (), (), (4, 6)], [(3, 6)], transA=1) == 3 * 6 * 4
    assert count("MatMulNBits", [(2, 3, 32)], [(2, 3, 6)]) == 2 * 3 * 6 * 32
    assert count("Attention", [(2, 5, 8), (8, 24)], [(2, 5, 8)]) == 2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * 8
    assert count("MultiHeadAttention", [(2, 5, 8), (2, 7, 8)], [(2, 5, 12)]) == 2 * 2 * 5 * 7 * 12
    assert count("DynamicQuantizeLSTM", [(5, 2, 3), (1, 3, 16)], [], hidden_size=4) == 5 * 2 * (16 * 7 + 2 * 16)
    assert count("NhwcMaxPool", [(1, 4, 6, 3)], [(1, 2, 3, 3)], kernel_shape=[2, 2]) == 18 * 4
