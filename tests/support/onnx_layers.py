"""Random ONNX models of layers that can be computed in parts, and random cuts of them."""

from __future__ import annotations

from itertools import pairwise

import numpy
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

node, value = helper.make_node, helper.make_tensor_value_info


class Model:
    """A model in the making, and the shapes of its values."""

    def __init__(self, shape, seed, dtype=TensorProto.FLOAT):
        self.nodes, self.constants, self.random = [], [], numpy.random.default_rng(seed)
        self.shapes, self.dtype = {"x": tuple(shape)}, dtype

    def weights(self, *shape):
        """A constant of random numbers."""
        return self.constant(self.random.normal(size=shape).astype(numpy.float32))

    def constant(self, numbers):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(numbers), name))
        return name

    def add(self, kind, inputs, shape=None, **attributes):
        """An operator; of `shape` None it is that of the first input. Returns the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(kind, list(inputs), [name], name=f"{kind}{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(shape or self.shapes[inputs[0]])
        return name

    def made(self, outputs, opset=17):
        """The model itself."""
        infos = [value(name, self.dtype, self.shapes[name]) for name in ("x", *outputs)]
        graph = helper.make_graph(self.nodes, "layers", infos[:1], infos[1:], self.constants)
        sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=sets, ir_version=8))


def windows(extents, sizes, strides, dilations, pads):
    """Places that windows have along each axis."""
    half = len(sizes)
    return [
        (extent + pads[at] + pads[half + at] - (sizes[at] - 1) * dilations[at] - 1) // strides[at] + 1
        for at, extent in enumerate(extents)
    ]


def _window(draw, model, read, kind):
    """A convolution or a pool, with all of its options."""
    _, depth, *extents = model.shapes[read]
    sizes = [draw(st.integers(1, min(3, extent))) for extent in extents]
    strides = [draw(st.integers(1, 2)) for _ in sizes]
    dilations = [draw(st.integers(1, 2)) if kind != "AveragePool" else 1 for _ in sizes]
    pads = [draw(st.integers(0, size - 1)) for size in [*sizes, *sizes]]
    made = windows(extents, sizes, strides, dilations, pads)
    if min(made) < 1:
        return model.add("Relu", [read])
    options = {"strides": strides, "pads": pads, "kernel_shape": sizes}
    if draw(st.booleans()) and max(dilations) == 1 and all(map(int.__ge__, sizes, strides)):
        made = [-(-extent // stride) for extent, stride in zip(extents, strides, strict=True)]
        del options["pads"]
        options["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))
    if kind != "AveragePool":
        options["dilations"] = dilations
    if kind != "Conv":
        more = {"count_include_pad": draw(st.integers(0, 1))} if kind == "AveragePool" else {}
        return model.add(kind, [read], (1, depth, *made), **options, **more)
    groups = draw(st.sampled_from([each for each in (1, 2, depth) if depth % each == 0]))
    filters = groups * draw(st.integers(1, 2))
    weights = [model.weights(filters, depth // groups, *sizes), model.weights(filters)]
    return model.add("Conv", [read, *weights], (1, filters, *made), group=groups, **options)


def _moved(draw, model, read, kind):
    """Pad, Slice, Resize, Transpose, ConvTranspose, DepthToSpace and their like."""
    shape = model.shapes[read]
    _, depth, height, width = shape
    if kind == "Pad":
        pads = [draw(st.integers(0, 2)) if at % 4 > 1 else 0 for at in range(8)]
        mode = draw(st.sampled_from(["constant", "edge"]))
        made = [extent + pads[at] + pads[4 + at] for at, extent in enumerate(shape)]
        return model.add(kind, [read, model.constant(numpy.array(pads))], made, mode=mode)
    if kind == "Slice":
        start, step = draw(st.integers(0, height - 1)), draw(st.integers(1, 2))
        numbers = [model.constant(numpy.array([each])) for each in (start, height, 2, step)]
        return model.add(kind, [read, *numbers], (1, depth, -(-(height - start) // step), width))
    if kind == "Resize":
        factors = [1, 1, draw(st.integers(1, 3)), draw(st.integers(1, 2))]
        mode, factors = draw(st.sampled_from([("nearest", factors), ("linear", [1, 1, 2, 2]), ("cubic", [1, 1, 2, 2])]))
        where = draw(st.sampled_from(["half_pixel", "asymmetric", "align_corners"]))
        made = [extent * factor for extent, factor in zip(shape, factors, strict=True)]
        scales = model.constant(numpy.array(factors, numpy.float32))
        return model.add(kind, [read, "", scales], made, mode=mode, coordinate_transformation_mode=where)
    if kind == "Transpose":
        return model.add(kind, [read], (1, depth, width, height), perm=[0, 1, 3, 2])
    if kind == "ConvTranspose":
        size, stride, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        pad = draw(st.integers(0, (size - 1) // 2))
        more = draw(st.integers(0, stride - 1))
        made = [(extent - 1) * stride + size - 2 * pad + more for extent in (height, width)]
        if min(made) < 1:
            return model.add("Relu", [read])
        options = {"strides": [stride] * 2, "pads": [pad] * 4, "output_padding": [more] * 2}
        weights = [model.weights(depth, filters, size, size), model.weights(filters)]
        return model.add(kind, [read, *weights], (1, filters, *made), **options)
    if height % 2 or width % 2:
        return model.add("Neg", [read])
    return model.add("SpaceToDepth", [read], (1, 4 * depth, height // 2, width // 2), blocksize=2)


def _by_itself(draw, model, read, kind):
    """Elementwise operators, alone or with another value, and norms along one axis."""
    shape = model.shapes[read]
    if kind == "BatchNormalization":
        return model.add(kind, [read, *(model.constant(numpy.abs(model.random.normal(size=shape[1])).astype("f") + 0.5)
                                        for _ in range(4))])  # fmt: skip
    if kind in ("Softmax", "LayerNormalization", "ReduceMean"):
        if kind == "LayerNormalization":
            return model.add(kind, [read, model.weights(shape[-1])], axis=-1)
        if kind == "ReduceMean":
            return model.add(kind, [read], (1, 1, *shape[2:]), axes=[1])
        return model.add(kind, [read], axis=draw(st.integers(1, 3)))
    if kind in ("Add", "Mul"):
        like = [name for name, other in model.shapes.items() if other == shape]
        constant = model.weights(*draw(st.sampled_from([shape, shape[1:], (shape[1], 1, 1), shape[3:], ()])))
        return model.add(kind, [read, draw(st.sampled_from([*like, constant]))])
    if kind == "Concat":
        axis = draw(st.integers(1, 3))
        like = [name for name, other in model.shapes.items() if len(other) == 4
                and other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :]]  # fmt: skip
        read_too = draw(st.sampled_from(like))
        made = list(shape)
        made[axis] += model.shapes[read_too][axis]
        return model.add(kind, [read, read_too], made, axis=axis)
    if kind == "MatMul":
        columns = draw(st.integers(1, 4))
        return model.add(kind, [read, model.weights(shape[-1], columns)], (*shape[:-1], columns))
    if kind == "Reshape":
        merged = model.constant(numpy.array([1, shape[1], -1]))
        flat = model.add(kind, [read, merged], (1, shape[1], shape[2] * shape[3]))
        return model.add(kind, [flat, model.constant(numpy.array(shape))], shape)
    return model.add(kind, [read])


_WINDOWS = ("Conv", "MaxPool", "AveragePool")
_MOVED = ("Pad", "Slice", "Resize", "Transpose", "ConvTranspose", "SpaceToDepth")
_OTHERS = ("BatchNormalization", "Softmax", "LayerNormalization", "ReduceMean", "Add", "Mul", "Concat", "MatMul",
           "Relu", "HardSwish", "Reshape", "Sigmoid")  # fmt: skip
KINDS = (*_WINDOWS, *_MOVED, *_OTHERS)


@st.composite
def models(draw, kinds=KINDS):
    """A chain with branches of up to six operators on an image."""
    extents = [draw(st.integers(1, 9)) for _ in range(2)]
    model = Model((1, draw(st.integers(1, 4)), *extents), draw(st.integers(0, 999)))
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(kinds))
        images = [name for name, shape in model.shapes.items() if len(shape) == 4 and max(shape) < 60]
        read = draw(st.sampled_from(images[-2:]))
        maker = _window if kind in _WINDOWS else _moved if kind in _MOVED else _by_itself
        maker(draw, model, read, kind)
    return model.made([[*model.shapes][-1]])


@st.composite
def quantized_models(draw):
    """A chain on an image of uint8: convolutions, additions, pools, products, and numbers that are not quantized."""
    extents = [draw(st.integers(2, 9)) for _ in range(2)]
    model = Model((1, draw(st.integers(1, 4)), *extents), draw(st.integers(0, 999)))
    zero = model.constant(numpy.uint8(draw(st.integers(0, 255))))

    def scale(value):
        return model.constant(numpy.float32(value))

    read = model.add("QuantizeLinear", ["x", scale(0.004), zero])
    kinds = st.sampled_from(["QLinearConv", "QLinearAdd", "MaxPool", "QLinearMatMul", "both"])
    for kind in draw(st.lists(kinds, min_size=1, max_size=4)):
        shape = model.shapes[read]
        one = [scale(0.02), zero]
        if kind == "QLinearConv":
            filters, size, pad = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
            groups = shape[1] if draw(st.booleans()) else 1
            filters *= groups
            weights = model.constant(model.random.integers(-127, 128, (filters, shape[1] // groups, size, size), "i1"))
            scales = model.constant((model.random.random(filters) / 100 + 0.001).astype("f"))
            zeros = model.constant(numpy.zeros(filters, "i1"))
            bias = model.constant(model.random.integers(-1000, 1000, filters, "i4"))
            made = windows(shape[2:], [size] * 2, [1, 1], [1, 1], [min(pad, size - 1)] * 4)
            inputs = [read, *one, weights, scales, zeros, *one, bias]
            pads = [min(pad, size - 1)] * 4
            read = model.add(kind, inputs, (1, filters, *made), pads=pads, group=groups) if min(made) > 1 else read
        elif kind == "QLinearAdd":
            read = model.add(kind, [read, *one, read, *one, *one], domain="com.microsoft")
        elif kind == "MaxPool":
            read = model.add(kind, [read], kernel_shape=[2, 2], pads=[1, 0, 0, 1])
        elif kind == "QLinearMatMul":
            weights = model.constant(model.random.integers(-127, 128, (shape[-1], 3), "i1"))
            scales = model.constant((model.random.random(3) / 100 + 0.001).astype("f"))
            inputs = [read, *one, weights, scales, model.constant(numpy.zeros(3, "i1")), *one]
            read = model.add(kind, inputs, (*shape[:-1], 3))
        else:
            read = model.add(
                "QuantizeLinear", [model.add("Sigmoid", [model.add("DequantizeLinear", [read, *one])]), *one]
            )
    return model.made([model.add("DequantizeLinear", [read, *[scale(0.02), zero]])])


@st.composite
def cuts_of(draw, graph):
    """Random cuts of the outputs of a graph along up to two axes each."""
    cuts = {}
    for v, operator in enumerate(graph.operators or ()):
        axes = [axis for axis, extent in enumerate(operator.shape) if extent > 1] if operator is not None else []
        for axis in draw(st.lists(st.sampled_from(axes), max_size=2, unique=True)) if axes else ():
            extent = operator.shape[axis]
            inner = draw(st.sets(st.integers(1, extent - 1), min_size=1, max_size=3))
            cuts.setdefault(v, {})[axis] = (0, *sorted(inner), extent)
    assert all(low < high for own in cuts.values() for points in own.values() for low, high in pairwise(points))
    return cuts
