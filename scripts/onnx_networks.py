"""Random ONNX networks of all kinds of layers, each of which ONNX Runtime has computed: for `fuzz_onnx_parts.py`.

An operator is drawn with all of its attributes, whether they fit or not, and kept if ONNX Runtime computes it. Many
numbers are multiples of a half, so that sums are exact, and ties and zeros are common: where a value is `exact`, any
order of additions gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from random import Random
from typing import Any

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Array = Any
FLOAT = TensorProto.FLOAT
FIRST = 13
"""The oldest operator set."""
MOST = 3000
"""Elements of the largest value."""
EXACT_BELOW = 2.0**18
"""Multiples of 1/16 below it, and their sums, are exact in single precision."""


@cache
def versions() -> list[int]:
    """The operator sets, from `FIRST` on, that both `onnx` and ONNX Runtime know."""
    found = []
    for version in range(FIRST, onnx.defs.onnx_opset_version() + 1):
        try:
            computed(helper.make_node("Relu", ["x"], ["y"]), {"x": numpy.ones(1, "f")}, version)
        except Exception:  # its own types derive from nothing but Exception
            break
        found.append(version)
    return found


def computed(node: onnx.NodeProto, inputs: dict[str, Array], version: int) -> list[Array]:
    """What ONNX Runtime computes as the outputs of an operator."""
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in inputs.items()]  # fmt: skip
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([node], "one", infos, results), opset_imports=[helper.make_opsetid("", version)], ir_version=9
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


class Network:
    """A network in the making."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = Random(seed), numpy.random.default_rng(seed)
        self.version = self.random.choice(versions())
        self.whole_numbers = self.random.random() < 0.6
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.exact: set[str] = set()
        rank, batch = self.random.choice([3, 4, 4, 4, 5]), self.random.choice([1, 1, 2])
        extents = [self.random.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 11]) for _ in range(rank - 2)]
        self.values["x"] = self.drawn((batch, self.random.choice([1, 2, 3, 4, 6]), *extents))
        if self.whole_numbers:
            self.exact.add("x")

    def drawn(self, shape: Sequence[int]) -> Array:
        """Random numbers of both signs, multiples of a half or any."""
        if self.whole_numbers:
            return (self.numbers.integers(-4, 5, shape) / 2).astype("f")
        return self.numbers.normal(size=shape).astype("f")

    def constant(self, array: Array) -> str:
        """Name a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy.asarray(array)
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.drawn(shape))

    def add(self, kind: str, reads: Sequence[str], exact: bool = False, outputs: int = 1, **given: Any) -> str | None:
        """Add an operator, if ONNX Runtime computes it.

        Args:
            exact: of exact numbers it makes exact ones.
        """
        names = [f"v{len(self.nodes)}" + (f"_{at}" if at else "") for at in range(outputs)]
        node = helper.make_node(kind, reads, names, name=f"{kind}{len(self.nodes)}",
                                **{key: one for key, one in given.items() if one is not None})  # fmt: skip
        arrays = {name: self.values[name] if name in self.values else self.constants[name] for name in reads if name}
        try:
            found = computed(node, arrays, self.version)
        except Exception:  # its own types derive from nothing but Exception
            return None
        if any(array.size > MOST or not numpy.isfinite(array).all() for array in found):
            return None
        self.nodes.append(node)
        self.values |= dict(zip(names, found, strict=True))
        known = all(name in self.exact or name in self.constants for name in arrays) and self.whole_numbers
        for name, array in zip(names, found, strict=True):
            steps = array.astype("d") * 16
            if (
                exact
                and known
                and (steps == numpy.round(steps)).all()
                and numpy.abs(array).max(initial=0) < EXACT_BELOW
            ):
                self.exact.add(name)
        return names[0]

    def read(self, rank: int | None = None) -> str | None:
        """A value of single precision, the later ones more often."""
        found = [name for name, array in self.values.items()
                 if array.dtype == numpy.float32 and array.size and (rank is None or array.ndim >= rank)]  # fmt: skip
        return self.random.choice(found[-3:] if self.random.random() < 0.8 else found) if found else None

    def model(self) -> onnx.ModelProto:
        """The network; it returns what no operator reads, and sometimes more."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        results = [name for name in made if name not in read or self.random.random() < 0.1]
        infos = {name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in self.values.items()}  # fmt: skip
        used = [name for name in self.constants if name in read]
        graph = helper.make_graph(
            self.nodes, "network", [infos["x"]], [infos[name] for name in results],
            [numpy_helper.from_array(self.constants[name], name) for name in used],
        )  # fmt: skip
        sets = [helper.make_opsetid("", self.version)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)


# --- Layers ---------------------------------------------------------------------------------------------------


def windows(net: Network, extents: Sequence[int], dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window, mostly such as fit."""
    pick, rank = net.random, len(extents)
    sizes = [pick.randint(1, min(4, extent + 1)) for extent in extents]
    given: dict[str, Any] = {"kernel_shape": sizes}
    if pick.random() < 0.8:
        given["strides"] = [pick.choice([1, 1, 2, 3]) for _ in sizes]
    if dilated and pick.random() < 0.4:
        given["dilations"] = [pick.choice([1, 2, 3]) for _ in sizes]
    mode = pick.choice(["pads", "pads", "none", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode == "pads":
        given["pads"] = [pick.randint(0, size - 1) for size in [*sizes, *sizes]]
    elif mode != "none":
        given["auto_pad"] = mode
    assert len(sizes) == rank
    return given


def pool(net: Network, read: str) -> None:
    kind = net.random.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    dilated = {"MaxPool": 1, "AveragePool": 19, "LpPool": 18}[kind] <= net.version
    given = windows(net, net.values[read].shape[2:], dilated)
    if net.random.random() < 0.5 and (kind != "LpPool" or net.version >= 18):
        given["ceil_mode"] = 1
    if kind == "AveragePool":
        given["count_include_pad"] = net.random.randint(0, 1)
    if kind == "LpPool":
        given["p"] = net.random.choice([1, 2, 3])
    outputs = 2 if kind == "MaxPool" and net.random.random() < 0.15 else 1
    net.add(kind, [read], exact=kind == "MaxPool", outputs=outputs, **given)


def pool_whole(net: Network, read: str) -> None:
    kind = net.random.choice(["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
    net.add(kind, [read], exact=kind == "GlobalMaxPool")


def convolution(net: Network, read: str) -> None:
    _, depth, *extents = net.values[read].shape
    given = windows(net, extents)
    groups = net.random.choice([each for each in (1, 1, 2, depth) if depth % each == 0])
    filters = groups * net.random.randint(1, 3)
    reads = [read, net.weights(filters, depth // groups, *given["kernel_shape"])]
    if net.random.random() < 0.5:
        reads.append(net.weights(filters))
    net.add("Conv", reads, exact=True, group=groups, **given)


def transposed_convolution(net: Network, read: str) -> None:
    _, depth, *extents = net.values[read].shape
    given, pick = windows(net, extents), net.random
    strides = given.get("strides", [1] * len(extents))
    if pick.random() < 0.3:
        given["output_padding"] = [pick.randint(0, max(0, stride - 1)) for stride in strides]
    elif pick.random() < 0.2:
        given["output_shape"] = [max(1, extent * by + pick.randint(-1, 1))
                                 for extent, by in zip(extents, strides, strict=True)]  # fmt: skip
    groups = pick.choice([each for each in (1, 1, depth) if depth % each == 0])
    reads = [read, net.weights(depth, pick.randint(1, 2), *given["kernel_shape"])]
    if pick.random() < 0.5:
        reads.append(net.weights(net.constants[reads[1]].shape[1] * groups))
    net.add("ConvTranspose", reads, exact=True, group=groups, **given)


def resized(net: Network, read: str) -> None:
    shape, pick = net.values[read].shape, net.random
    mode = pick.choice(["nearest", "nearest", "linear", "cubic"])
    given: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": pick.choice(
            ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
        ),
    }
    if mode == "nearest":
        given["nearest_mode"] = pick.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if net.version >= 18 and mode != "nearest" and pick.random() < 0.1:
        given["antialias"] = 1
    scales = [1.0, 1.0, *(pick.choice([1.0, 2.0, 2.0, 3.0, 0.5, 1.5, 4.0]) for _ in shape[2:])]
    if pick.random() < 0.5:
        reads = [read, "", net.constant(numpy.array(scales, "f"))]
    else:
        sizes = [max(1, int(side * by)) for side, by in zip(shape, scales, strict=True)]
        reads = [read, "", "", net.constant(numpy.array(sizes))]
    net.add("Resize", reads, exact=mode == "nearest", **given)


def joined(net: Network, read: str) -> None:
    shape = net.values[read].shape
    axis = net.random.randrange(len(shape))
    others = {name: array.shape for name, array in net.values.items() if array.dtype == numpy.float32}
    like = [name for name, other in others.items() if len(other) == len(shape)
            and (*other[:axis], *other[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])]  # fmt: skip
    reads = [read, *(net.random.choice(like) for _ in range(net.random.randint(0, 2)))]
    if net.random.random() < 0.3:
        reads.append(net.weights(*shape))
    net.add("Concat", reads, exact=True, axis=axis - len(shape) * net.random.randint(0, 1))


def sliced(net: Network, read: str) -> None:
    shape, pick = net.values[read].shape, net.random
    axes = pick.sample(range(len(shape)), pick.randint(1, len(shape)))
    starts, ends, steps = [], [], []
    for axis in axes:
        low = pick.randint(0, shape[axis] - 1)
        high = pick.randint(low + 1, shape[axis])
        step = pick.choice([1, 1, 1, 2, 3, -1])
        backwards = step < 0
        starts.append(high - 1 if backwards else low - shape[axis] * pick.randint(0, 1))
        ends.append((low - 1 if low else -shape[axis] - 1) if backwards else (high if pick.random() < 0.8 else 2**31))
        steps.append(step)
    lists = (starts, ends, [axis - len(shape) * pick.randint(0, 1) for axis in axes], steps)
    net.add("Slice", [read, *(net.constant(numpy.array(each)) for each in lists)], exact=True)


def padded(net: Network, read: str) -> None:
    rank, pick = net.values[read].ndim, net.random
    pads = [pick.choice([0, 0, 0, 1, 2]) for _ in range(2 * rank)]
    mode = pick.choice(["constant", "constant", "edge", "reflect"])
    if mode == "constant" and pick.random() < 0.15:
        pads[pick.randrange(2 * rank)] = -1
    reads = [read, net.constant(numpy.array(pads))]
    if mode == "constant" and pick.random() < 0.5:
        reads.append(net.constant(numpy.float32(pick.choice([-1.5, 0.0, 2.0]))))
    net.add("Pad", reads, exact=True, mode=mode)


def split(net: Network, read: str) -> None:
    shape, pick = net.values[read].shape, net.random
    axis = pick.randrange(len(shape))
    at = pick.randint(0, shape[axis])
    net.add("Split", [read, net.constant(numpy.array([at, shape[axis] - at]))], exact=True, outputs=2, axis=axis)


def shaped(net: Network, read: str) -> None:
    array, pick = net.values[read], net.random
    kind = pick.choice(["Transpose", "Transpose", "Reshape", "Flatten", "Unsqueeze", "Squeeze", "Expand", "Tile"])
    rank, numbers = array.ndim, numpy.array
    if kind == "Transpose":
        net.add(kind, [read], exact=True, perm=pick.choice([None, pick.sample(range(rank), rank)]))
    elif kind == "Reshape":
        at = pick.randrange(rank)
        merged = [*array.shape[:at], prod(array.shape[at : at + 2]), *array.shape[at + 2 :]]
        even = pick.randrange(rank)
        halved = [*array.shape]
        if halved[even] % 2 == 0:
            halved[even : even + 1] = pick.choice([[2, halved[even] // 2], [halved[even] // 2, 2]])
        net.add(kind, [read, net.constant(numbers(pick.choice([merged, halved, [0, -1]])))], exact=True)
    elif kind == "Flatten":
        net.add(kind, [read], exact=True, axis=pick.randint(0, rank))
    elif kind == "Unsqueeze" and rank < 6:
        net.add(kind, [read, net.constant(numbers([pick.randint(-rank, rank)]))], exact=True)
    elif kind == "Squeeze":
        ones = [axis for axis, extent in enumerate(array.shape) if extent == 1]
        net.add(kind, [read, net.constant(numbers(pick.sample(ones, 1)))] if ones else [read], exact=True)
    elif kind == "Expand":
        net.add(kind, [read, net.constant(numbers([pick.choice([1, 2]), *array.shape]))], exact=True)
    elif kind == "Tile":
        net.add(kind, [read, net.constant(numbers([pick.choice([1, 1, 2]) for _ in array.shape]))], exact=True)


def blocks(net: Network, read: str) -> None:
    kind = net.random.choice(["DepthToSpace", "SpaceToDepth"])
    mode = net.random.choice(["DCR", "CRD"]) if kind == "DepthToSpace" else None
    net.add(kind, [read], exact=True, blocksize=2, mode=mode)


def gathered(net: Network, read: str) -> None:
    shape = net.values[read].shape
    axis = net.random.randrange(len(shape))
    rows = net.numbers.integers(-shape[axis], shape[axis], net.random.choice([(), (1,), (3,), (2, 2)]))
    net.add("Gather", [read, net.constant(rows)], exact=True, axis=axis)


def reduced(net: Network, read: str) -> None:
    rank, pick = net.values[read].ndim, net.random
    kinds = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
    kind, keep = pick.choice(kinds), pick.randint(0, 1)
    axes = (
        pick.sample(range(-rank, rank), 1) if pick.random() < 0.6 else pick.sample(range(rank), pick.randint(1, rank))
    )
    attribute = net.version < (13 if kind == "ReduceSum" else 18)
    reads = [read] if attribute else [read, net.constant(numpy.array(axes))]
    exact = kind not in ("ReduceMean", "ReduceL2")
    net.add(kind, reads, exact=exact, keepdims=keep, axes=axes if attribute else None)


def best(net: Network, read: str) -> None:
    """Arguments of exact numbers alone: by rounding another place may be the best one."""
    rank = net.values[read].ndim
    if read in net.exact:
        net.add(net.random.choice(["ArgMax", "ArgMin"]), [read], axis=net.random.randrange(rank),
                keepdims=net.random.randint(0, 1), select_last_index=net.random.randint(0, 1))  # fmt: skip


def product(net: Network, read: str) -> None:
    shape, pick = net.values[read].shape, net.random
    columns = pick.randint(1, 4)
    if len(shape) == 2 and pick.random() < 0.7:
        a, b = pick.randint(0, 1), pick.randint(0, 1)
        rows, inner = shape[::-1] if a else shape
        reads = [read, net.weights(*((columns, inner) if b else (inner, columns)))]
        if pick.random() < 0.6:
            reads.append(net.weights(*pick.choice([(), (columns,), (rows, 1), (rows, columns)])))
        net.add("Gemm", reads, exact=True, transA=a, transB=b)
    elif pick.random() < 0.3:
        order = [*range(len(shape))]
        turned = net.add("Transpose", [read], exact=True, perm=[*order[:-2], order[-1], order[-2]])
        if turned is not None:
            net.add("MatMul", [read, turned], exact=True)
    elif pick.random() < 0.2:
        net.add("MatMul", [net.weights(columns, shape[-2]), read], exact=True)
    else:
        stack = shape[:-2] if pick.random() < 0.3 else ()
        net.add("MatMul", [read, net.weights(*stack, shape[-1], columns)], exact=True)


def normalized(net: Network, read: str) -> None:
    shape, pick = net.values[read].shape, net.random
    kinds = ["BatchNormalization", "Softmax", "LogSoftmax", "InstanceNormalization", "LRN", "LpNormalization", "CumSum"]
    kinds += ["MeanVarianceNormalization", "LayerNormalization", "LayerNormalization"] if net.version >= 17 else []
    kinds += ["GroupNormalization"] if net.version >= 21 else []
    kinds += ["RMSNormalization"] if net.version >= 23 else []
    kind, axis = pick.choice(kinds), pick.randrange(-len(shape), len(shape))
    if kind == "BatchNormalization":
        positive = [net.constant(numpy.abs(net.drawn(shape[1:2])) + numpy.float32(0.5)) for _ in range(4)]
        net.add(kind, [read, *positive])
    elif kind in ("Softmax", "LogSoftmax"):
        net.add(kind, [read], axis=axis)
    elif kind == "LpNormalization":
        net.add(kind, [read], axis=axis, p=pick.choice([1, 2]))
    elif kind == "LRN":
        net.add(kind, [read], size=pick.choice([1, 3]))
    elif kind == "CumSum":
        at = net.constant(numpy.array(axis))
        net.add(kind, [read, at], exact=True, exclusive=pick.randint(0, 1), reverse=pick.randint(0, 1))
    elif kind == "MeanVarianceNormalization":
        net.add(kind, [read], axes=pick.choice([None, [0, 2], [1]]))
    elif kind in ("GroupNormalization", "InstanceNormalization") and len(shape) < 2:
        return
    elif kind == "GroupNormalization":
        net.add(kind, [read, net.weights(shape[1]), net.weights(shape[1])], num_groups=1)
    elif kind == "InstanceNormalization":
        net.add(kind, [read, net.weights(shape[1]), net.weights(shape[1])], epsilon=0.1)
    else:
        net.add(kind, [read, net.weights(*shape[axis:])], axis=axis, epsilon=0.1)


def unary(net: Network, read: str) -> None:
    exact = ["Relu", "Neg", "Abs", "Identity", "Clip", "Sign"]
    inexact = ["Sigmoid", "Tanh", "LeakyRelu", "Elu", "Softplus", "Exp", "HardSigmoid", "Erf"]
    inexact += ["HardSwish"] if net.version >= 14 else []
    kind = net.random.choice(exact + inexact)
    if kind == "Sign" and read not in net.exact:
        return
    bounds = [net.constant(numpy.float32(each)) for each in (-1.5, 2.0)] if kind == "Clip" else []
    net.add(kind, [read, *bounds], exact=kind in exact)


def binary(net: Network, read: str) -> None:
    """With a constant, itself, or another value: of a shape that is broadcast to one of both."""
    shape, pick = net.values[read].shape, net.random
    kind = pick.choice(["Add", "Add", "Mul", "Sub", "Max", "Min", "PRelu", "Where", "Div"])
    some = [extent if pick.random() < 0.5 else 1 for extent in shape]
    from_end = shape[pick.randint(0, len(shape)) :]
    constant = net.weights(*pick.choice([shape, tuple(some), from_end, (), (1,), (2, *shape)]))
    like = [name for name, array in net.values.items() if array.dtype == numpy.float32 and fits(array.shape, shape)]
    other = pick.choice([constant, constant, pick.choice(like)])
    if kind == "Div":
        other = net.constant(numpy.abs(net.constants[constant]) + numpy.float32(1))
    if kind == "Where":
        sign = net.add("Greater", [read, net.weights(*some)]) if read in net.exact else None
        if sign is not None:
            net.add(kind, [sign, read, other], exact=True)
        return
    reads = [read, other] if pick.random() < 0.8 or kind in ("PRelu", "Div") else [other, read]
    net.add(kind, reads, exact=kind not in ("Div", "PRelu"))


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        numpy.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def quantized(net: Network, read: str) -> None:
    """To eight bits and back; of exact numbers, as by rounding another number may be the nearest."""
    if read not in net.exact:
        return
    one = [net.constant(numpy.float32(0.5)), net.constant(numpy.uint8(net.random.choice([0, 128])))]
    made = net.add("QuantizeLinear", [read, *one])
    if made is not None:
        if net.values[made].ndim > 2 and net.random.random() < 0.4:
            made = net.add("MaxPool", [made], **windows(net, net.values[made].shape[2:])) or made
        net.add("DequantizeLinear", [made, *one])


IMAGES: list[Callable[[Network, str], None]] = [
    pool, pool, pool, convolution, convolution, transposed_convolution, resized, resized, pool_whole, blocks,
]  # fmt: skip
ANY: list[Callable[[Network, str], None]] = [
    joined, sliced, padded, split, shaped, shaped, gathered, reduced, best, product, normalized, normalized, unary,
    unary, binary, binary, quantized,
]  # fmt: skip


def network(seed: int) -> Network:
    """A network of three to nine operators."""
    net = Network(seed)
    wanted = net.random.randint(3, 9)
    for _ in range(60):
        image = net.random.random() < 0.5
        read = net.read(3 if image else 1)
        if read is not None:
            net.random.choice(IMAGES if image and net.values[read].ndim <= 5 else ANY)(net, read)
        if len(net.nodes) >= wanted:
            break
    return net
