"""Small networks as ONNX models, with weights made by a seed: for `bench_tiled_onnx.py` and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """A model in the making; images are (1, channels, height, width)."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = numpy.random.default_rng(seed)
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    def add(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        """An operator; the name of its output."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weights(self, *shape: int, spread: float = 1.0) -> str:
        """Random numbers."""
        return self.constant(spread * self.random.standard_normal(shape).astype(numpy.float32))

    def constant(self, value: numpy.ndarray) -> str:
        """A constant."""
        self.constants.append(numpy_helper.from_array(value, f"w{len(self.constants)}"))
        return self.constants[-1].name

    def convolution(self, x: str, depth: int, filters: int, size: int = 3, stride: int = 1, **options: int) -> str:
        """A convolution with bias, rows padded so that none is lost."""
        groups = options.get("group", 1)
        weights = self.weights(filters, depth // groups, size, size, spread=sqrt(2 * groups / (depth * size * size)))
        pads = [(size - 1) // 2] * 4
        bias = self.weights(filters, spread=0.1)
        return self.add("Conv", [x, weights, bias], kernel_shape=[size] * 2, strides=[stride] * 2, pads=pads, **options)

    def relu6(self, x: str) -> str:
        """Between 0 and 6."""
        low, high = (self.constant(numpy.float32(value)) for value in (0.0, 6.0))
        return self.add("Clip", [x, low, high])

    def linear(self, x: str, depth: int, columns: int) -> str:
        """A matrix product with a bias."""
        product = self.add("MatMul", [x, self.weights(depth, columns, spread=sqrt(1 / depth))])
        return self.add("Add", [product, self.weights(columns, spread=0.1)])

    def classifier(self, x: str, depth: int, classes: int) -> str:
        """The mean over places, and a matrix product."""
        flat = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        weights = self.weights(depth, classes, spread=sqrt(1 / depth))
        return self.add("Gemm", [flat, weights, self.weights(classes)])

    def model(self, output: str) -> onnx.ModelProto:
        """The model itself."""
        info = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [self.input], [info], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def mobilenet(side: int = 144, width: float = 0.35) -> onnx.ModelProto:
    """MobileNetV2 with its additions."""
    net = Builder(1, 3, side, side)

    def channels(of: int) -> int:
        return max(8, int(of * width + 4) // 8 * 8)

    x, depth = net.relu6(net.convolution("x", 3, channels(32), stride=2)), channels(32)
    for expansion, filters, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for at in range(count):
            y, inner = x, depth * expansion
            if expansion > 1:
                y = net.relu6(net.convolution(y, depth, inner, 1))
            y = net.relu6(net.convolution(y, inner, inner, stride=1 if at else first, group=inner))
            y = net.convolution(y, inner, channels(filters), 1)
            x, depth = net.add("Add", [x, y]) if at else y, channels(filters)
    x = net.relu6(net.convolution(x, depth, 1280, 1))
    return net.model(net.classifier(x, 1280, 1000))


def resnet8() -> onnx.ModelProto:
    """ResNet8 of MLPerf Tiny."""
    net = Builder(1, 3, 32, 32)
    x, depth = net.add("Relu", [net.convolution("x", 3, 16)]), 16
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.add("Relu", [net.convolution(x, depth, filters, stride=stride)])
        y = net.convolution(y, filters, filters)
        x = x if stride == 1 else net.convolution(x, depth, filters, 1, stride)
        x, depth = net.add("Relu", [net.add("Add", [x, y])]), filters
    return net.model(net.classifier(x, 64, 10))


def ds_cnn() -> onnx.ModelProto:
    """DS-CNN of MLPerf Tiny, for keywords."""
    net = Builder(1, 1, 49, 10)
    weights, bias = net.weights(64, 1, 10, 4, spread=0.2), net.weights(64, spread=0.1)
    x = net.add("Conv", ["x", weights, bias], strides=[2, 2], auto_pad="SAME_UPPER")
    x = net.add("Relu", [x])
    for _ in range(4):
        x = net.add("Relu", [net.convolution(x, 64, 64, group=64)])
        x = net.add("Relu", [net.convolution(x, 64, 64, 1)])
    return net.model(net.classifier(x, 64, 12))


def unet(side: int = 128, first: int = 16, levels: int = 3) -> onnx.ModelProto:
    """A U-Net with transposed convolutions, two classes."""
    net, x, depth, kept = Builder(1, 3, side, side), "x", 3, []
    for level in range(levels + 1):
        filters = first << level
        for _ in range(2):
            x, depth = net.add("Relu", [net.convolution(x, depth, filters)]), filters
        if level < levels:
            kept.append((x, filters))
            x = net.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    for other, filters in reversed(kept):
        weights = [net.weights(depth, filters, 2, 2, spread=sqrt(1 / depth)), net.weights(filters, spread=0.1)]
        up = net.add("ConvTranspose", [x, *weights], strides=[2, 2], kernel_shape=[2, 2])
        x, depth = net.add("Concat", [up, other], axis=1), 2 * filters
        for _ in range(2):
            x, depth = net.add("Relu", [net.convolution(x, depth, filters)]), filters
    return net.model(net.convolution(x, depth, 2, 1))


def vision_transformer(side: int = 128, patch: int = 8, width: int = 64, heads: int = 4) -> onnx.ModelProto:
    """Patches, positions, four layers of attention and of two matrix products, the mean over patches."""
    net = Builder(1, 3, side, side)
    count, each = (side // patch) ** 2, width // heads
    weights = net.weights(width, 3, patch, patch, spread=0.1)
    x = net.add("Conv", ["x", weights], kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = net.add("Reshape", [x, net.constant(numpy.array([1, width, count]))])
    x = net.add("Add", [net.add("Transpose", [x], perm=[0, 2, 1]), net.weights(1, count, width, spread=0.1)])
    in_heads, joined = (net.constant(numpy.array(shape)) for shape in ([1, count, heads, each], [1, count, width]))

    def norm(x: str) -> str:
        return net.add("LayerNormalization", [x, net.constant(numpy.ones(width, numpy.float32))], axis=-1)

    def head(x: str, order: list[int]) -> str:
        return net.add("Transpose", [net.add("Reshape", [net.linear(x, width, width), in_heads])], perm=order)

    for _ in range(4):
        y = norm(x)
        scores = net.add("MatMul", [head(y, [0, 2, 1, 3]), head(y, [0, 2, 3, 1])])
        scores = net.add("Mul", [scores, net.constant(numpy.float32(each**-0.5))])
        mixed = net.add("MatMul", [net.add("Softmax", [scores], axis=-1), head(y, [0, 2, 1, 3])])
        mixed = net.add("Reshape", [net.add("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
        x = net.add("Add", [x, net.linear(mixed, width, width)])
        y = net.linear(norm(x), width, 4 * width)
        half = net.add("Mul", [y, net.add("Sigmoid", [y])])
        x = net.add("Add", [x, net.linear(half, 4 * width, width)])
    mean = net.add("ReduceMean", [norm(x)], axes=[1], keepdims=0)
    return net.model(net.linear(mean, width, 10))


def autoencoder(width: int = 640, hidden: int = 128, code: int = 8) -> onnx.ModelProto:
    """The network of MLPerf Tiny: ten layers of one row."""
    net = Builder(1, width)
    x, widths = "x", [width, *[hidden] * 4, code, *[hidden] * 4, width]
    for depth, columns in zip(widths[:-2], widths[1:-1], strict=True):
        x = net.add("Relu", [net.linear(x, depth, columns)])
    return net.model(net.linear(x, widths[-2], widths[-1]))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "MobileNetV2 0.35": mobilenet, "ResNet8": resnet8, "DS-CNN": ds_cnn, "U-Net": unet,
    "vision transformer": vision_transformer, "autoencoder": autoencoder,
}  # fmt: skip
