"""ONNX models of one random operator each, of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from access_judge import drawn
from hypothesis import strategies as st
from onnx import helper, numpy_helper


@dataclass
class Case:
    """One operator; `inputs` are shapes of what the network reads."""

    kind: str
    inputs: dict[str, tuple[int, ...]]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    """Attributes."""
    names: list[str] | None = None
    """Of all inputs; None: the network's, then the constants."""
    version: int = 17
    dtype: type = np.float32
    domain: str = ""
    needed: bool = False
    """Everything that is said to be read changes something."""

    def model(self) -> onnx.ModelProto:
        names = [*self.inputs, *self.constants] if self.names is None else self.names
        node = helper.make_node(self.kind, names, ["y"], domain=self.domain, **self.about)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            [node], "one", [helper.make_tensor_value_info(name, kind, shape) for name, shape in self.inputs.items()],
            [onnx.ValueInfoProto(name="y")],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )  # fmt: skip
        sets = [helper.make_opsetid("", self.version), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)

    def numbers(self, random: np.random.Generator) -> list[np.ndarray]:
        """Random inputs."""
        return [drawn(random, shape, self.dtype) for shape in self.inputs.values()]


class Draw:
    """Random choices."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def of(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def upto(self, most: int, least: int = 1) -> int:
        return self.draw(st.integers(least, most))

    def shape(self, most_rank: int = 4, most: int = 6, least_rank: int = 1) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(st.integers(1, most), min_size=least_rank, max_size=most_rank)))

    def ints(self, count: int, most: int, least: int = 1) -> list[int]:
        return [self.upto(most, least) for _ in range(count)]

    def weights(self, *shape: int) -> np.ndarray:
        return drawn(self.random, shape)


KINDS: dict[str, Callable[[Draw], Case]] = {}


def kind(function: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
    KINDS[function.__name__] = function
    return function


def cases(name: str) -> st.SearchStrategy[Case]:
    """Random operators of a kind."""
    return st.composite(lambda draw: KINDS[name](Draw(draw)))()


# --- Windows --------------------------------------------------------------------------------------------------


def windows(
    d: Draw, sides: int, *, dilated: bool = True, most_extent: int = 11
) -> tuple[dict[str, Any], list[int], list[int]]:
    """Attributes, kernel and extents, so that at least one window fits."""
    kernel, strides = d.ints(sides, 3), d.ints(sides, 3)
    about: dict[str, Any] = {"strides": strides}
    dilations = d.ints(sides, 2) if dilated else [1] * sides
    if dilated:
        about["dilations"] = dilations
    extents = [d.upto(most_extent, (size - 1) * by + 1) for size, by in zip(kernel, dilations, strict=True)]
    padding = d.of("pads", "VALID", "SAME_UPPER", "SAME_LOWER", "none")
    if padding == "pads":
        about["pads"] = [d.upto(size - 1, 0) for size in kernel * 2]
    elif padding != "none":
        about["auto_pad"] = padding
        if padding != "VALID" and dilated:  # the reference and ONNX Runtime know no other
            about["dilations"] = [1] * sides
    return about, kernel, extents


def skips(about: dict[str, Any], kernel: list[int]) -> bool:
    """May a runtime choose which places it leaves out, and more are said to be read?"""
    strides = zip(about["strides"], kernel, strict=True)
    return "SAME" in about.get("auto_pad", "") and any(stride > size + 1 for stride, size in strides)


@kind
def convolution(d: Draw) -> Case:
    about, kernel, extents = windows(d, d.upto(3))
    groups = d.of(1, 1, 2, 3)
    depth, filters = groups * d.upto(2), groups * d.upto(2)
    constants = {"w": d.weights(filters, depth // groups, *kernel)}
    if d.of(True, False):
        constants["b"] = d.weights(filters)
    return Case("Conv", {"x": (d.upto(2), depth, *extents)}, constants, {**about, "group": groups},
                needed=groups in (1, depth) and not skips(about, kernel))  # fmt: skip


@kind
def convolution_of_two(d: Draw) -> Case:
    """The filters are computed as well."""
    about, kernel, extents = windows(d, 2)
    return Case("Conv", {"x": (1, 2, *extents), "w": (3, 2, *kernel)}, about=about)


@kind
def integer_convolution(d: Draw) -> Case:
    about, kernel, extents = windows(d, 2)
    filters = d.random.integers(1, 9, (2, 2, *kernel)).astype(np.uint8)
    return Case(
        "ConvInteger", {"x": (1, 2, *extents)}, {"w": filters}, about, dtype=np.uint8, needed=not skips(about, kernel)
    )


@kind
def quantized_convolution(d: Draw) -> Case:
    about, kernel, extents = windows(d, 2)
    scale, zero = np.array(0.5, np.float32), np.array(0, np.uint8)
    filters = d.random.integers(1, 9, (2, 2, *kernel)).astype(np.uint8)
    constants = {
        "s": scale,
        "z": zero,
        "w": filters,
        "ws": scale,
        "wz": zero,
        "ys": np.array(40, np.float32),
        "yz": zero,
    }
    return Case("QLinearConv", {"x": (1, 2, *extents)}, constants, about, dtype=np.uint8)


@kind
def transposed_convolution(d: Draw) -> Case:
    sides = d.upto(2)
    kernel, strides, dilations = d.ints(sides, 4), d.ints(sides, 3), d.ints(sides, 2)
    about: dict[str, Any] = {"strides": strides, "dilations": dilations}
    padding = d.of("none", "pads", "SAME_UPPER", "SAME_LOWER", "shape")
    extents = d.ints(sides, 6)
    if padding == "pads":
        about["pads"] = [d.upto(min(1, size - 1), 0) for size in kernel * 2]
        about["output_padding"] = [d.upto(stride - 1, 0) for stride in strides]
    elif padding.startswith("SAME"):
        about["auto_pad"] = padding
    elif padding == "shape":
        full = zip(extents, strides, kernel, dilations, strict=True)
        about["output_shape"] = [
            max(1, (extent - 1) * stride + (size - 1) * by + 1 - d.upto(2, 0)) for extent, stride, size, by in full
        ]
    groups = d.of(1, 1, 2)
    depth = groups * d.upto(2)
    return Case("ConvTranspose", {"x": (1, depth, *extents)}, {"w": d.weights(depth, d.upto(2), *kernel)},
                {**about, "group": groups}, needed=padding == "none" and groups in (1, depth))  # fmt: skip


@kind
def pooling(d: Draw) -> Case:
    of = d.of("MaxPool", "AveragePool", "LpPool")
    about, kernel, extents = windows(d, d.of(1, 2, 3), dilated=of == "MaxPool")
    about["kernel_shape"] = kernel
    if of == "LpPool":
        about["auto_pad" if "auto_pad" in about else "p"] = about.get("auto_pad", 2)
    elif d.of(True, False) and "auto_pad" not in about:
        about["ceil_mode"] = 1
    if of == "AveragePool":
        about["count_include_pad"] = d.of(0, 1)
    return Case(
        of,
        {"x": (d.upto(2), d.upto(3), *extents)},
        about=about,
        needed=of == "AveragePool" and not skips(about, kernel),
    )


@kind
def pooling_of_all(d: Draw) -> Case:
    of = d.of("GlobalMaxPool", "GlobalAveragePool")
    return Case(of, {"x": (d.upto(2), d.upto(3), *d.ints(d.upto(3), 5))}, needed=of == "GlobalAveragePool")


@kind
def quantized_pooling(d: Draw) -> Case:
    scale, zero = np.array(0.5, np.float32), np.array(3, np.uint8)
    quantized = {"s": scale, "z": zero, "ys": scale, "yz": zero}
    if d.of(True, False):
        return Case("QLinearGlobalAveragePool", {"x": (1, 3, 4, 5)}, quantized, dtype=np.uint8, domain="com.microsoft")
    about, kernel, extents = windows(d, 2, dilated=False)
    return Case("QLinearAveragePool", {"x": (1, 2, *extents)}, quantized, {**about, "kernel_shape": kernel},
                dtype=np.uint8, domain="com.microsoft")  # fmt: skip


@kind
def local_response(d: Draw) -> Case:
    return Case("LRN", {"x": (1, d.upto(9), 2, 3)}, about={"size": d.of(1, 3, 5)})


# --- Products of matrices -------------------------------------------------------------------------------------


def factors(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of stacks of matrices, or vectors, that fit each other."""
    rows, inner, columns = d.ints(3, 4)
    stack = d.shape(2, 3, 0)
    first, second = (*d.of(stack, (), (1,) * len(stack)), rows, inner), (*d.of(stack, ()), inner, columns)
    return d.of((first, second), (first, (inner,)), ((inner,), second))


@kind
def product(d: Draw) -> Case:
    first, second = factors(d)
    if d.of(True, False):
        return Case("MatMul", {"a": first, "b": second}, needed=True)
    return Case("MatMul", {"a": first}, {"b": d.weights(*second)}, needed=True)


@kind
def integer_product(d: Draw) -> Case:
    rows, inner, columns = d.ints(3, 4)
    scale, zero = np.array(0.5, np.float32), np.array(0, np.uint8)
    matrix = d.random.integers(1, 9, (inner, columns)).astype(np.uint8)
    if d.of(True, False):
        return Case("MatMulInteger", {"a": (rows, inner)}, {"b": matrix}, dtype=np.uint8, needed=True)
    constants = {"s": scale, "z": zero, "b": matrix, "bs": scale, "bz": zero, "ys": np.array(9, np.float32), "yz": zero}
    return Case("QLinearMatMul", {"a": (2, rows, inner)}, constants, dtype=np.uint8)


@kind
def gemm(d: Draw) -> Case:
    rows, inner, columns = d.ints(3, 5)
    turned = d.of(0, 1), d.of(0, 1)
    first, second = (rows, inner)[:: 1 - 2 * turned[0]], (inner, columns)[:: 1 - 2 * turned[1]]
    inputs = {"a": first, "b": second}
    if d.of(True, False):
        inputs["c"] = d.of((columns,), (rows, columns), (rows, 1), (1,), ())
    return Case("Gemm", inputs, about={"transA": turned[0], "transB": turned[1]}, needed=True)


@kind
def fused_product(d: Draw) -> Case:
    rows, inner, columns = d.ints(3, 4)
    turned = d.of(0, 1), d.of(0, 1)
    first, second = (rows, inner)[:: 1 - 2 * turned[0]], (inner, columns)[:: 1 - 2 * turned[1]]
    return Case("FusedMatMul", {"a": (2, *first), "b": (2, *second)}, about={"transA": turned[0], "transB": turned[1]},
                domain="com.microsoft")  # fmt: skip


# --- Each place by itself, or along some axes -----------------------------------------------------------------


@kind
def unary(d: Draw) -> Case:
    return Case(d.of("Relu", "Sigmoid", "Abs", "Exp", "HardSwish", "Tanh", "Identity", "Softplus", "Erf", "Sin"),
                {"x": d.shape()})  # fmt: skip


@kind
def binary(d: Draw) -> Case:
    shape = d.shape()
    other = tuple(d.of(extent, 1) for extent in shape[d.upto(len(shape), 0) :])
    kind, first = d.of("Add", "Sub", "Mul", "Div", "Less", "PRelu"), d.of(True, False)
    return Case(kind, {"a": shape, "b": other} if first or kind == "PRelu" else {"a": other, "b": shape})


@kind
def many(d: Draw) -> Case:
    shape = d.shape()
    return Case(d.of("Sum", "Max", "Min", "Mean"), {name: tuple(d.of(n, 1) for n in shape) for name in "abc"})


@kind
def logical(d: Draw) -> Case:
    shape = d.shape()
    return Case(d.of("And", "Or", "Xor"), {"a": shape, "b": tuple(d.of(n, 1) for n in shape)}, dtype=bool)


@kind
def chosen(d: Draw) -> Case:
    shape = d.shape()
    condition = d.random.random(shape) < 0.5
    return Case("Where", {"a": tuple(d.of(n, 1) for n in shape), "b": shape}, {"c": condition}, names=["c", "a", "b"])


@kind
def quantization(d: Draw) -> Case:
    shape = d.shape(least_rank=2)
    return Case("QuantizeLinear", {"x": shape}, {"s": np.array(0.1, np.float32), "z": np.array(100, np.uint8)})


@kind
def batch_normalization(d: Draw) -> Case:
    shape = (d.upto(2), d.upto(4), *d.ints(d.upto(2), 4))
    return Case("BatchNormalization", {"x": shape, "s": (shape[1],)},
                {name: np.abs(d.weights(shape[1])) for name in ("b", "m", "v")})  # fmt: skip


@kind
def normalization(d: Draw) -> Case:
    shape = (d.upto(2), d.upto(4), *d.ints(2, 4))
    of = d.of("InstanceNormalization", "LayerNormalization", "LpNormalization", "MeanVarianceNormalization")
    if of == "InstanceNormalization":
        return Case(of, {"x": shape}, {"s": d.weights(shape[1]), "b": d.weights(shape[1])})
    if of == "LayerNormalization":
        axis = d.upto(3, -4)
        return Case(of, {"x": shape}, {"s": d.weights(*shape[axis:])}, {"axis": axis})
    return Case(of, {"x": shape}, about={"axis": d.upto(3, -1)} if of == "LpNormalization" else {})


@kind
def softmax(d: Draw) -> Case:
    shape = d.shape(least_rank=2)
    return Case(d.of("Softmax", "LogSoftmax", "Hardmax"), {"x": shape}, about={"axis": d.upto(len(shape) - 1, -1)},
                version=d.of(11, 17))  # fmt: skip


@kind
def reduction(d: Draw) -> Case:
    shape = d.shape()
    of = d.of("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp")
    axes = d.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=len(shape)))
    axes = [axis - d.of(0, len(shape)) for axis in axes]
    about: dict[str, Any] = {"keepdims": d.of(0, 1)}
    if d.of(True, False):
        return Case(of, {"x": shape}, {"axes": np.array(axes, np.int64)},
                    {**about, "noop_with_empty_axes": d.of(0, 1)}, version=18)  # fmt: skip
    return Case(of, {"x": shape}, about={**about, **({"axes": axes} if axes else {})}, version=11)


@kind
def cumulative(d: Draw) -> Case:
    shape = d.shape()
    return Case("CumSum", {"x": shape}, {"axis": np.array(d.upto(len(shape) - 1, -1), np.int64)})


@kind
def best(d: Draw) -> Case:
    shape = d.shape()
    return Case(
        d.of("ArgMax", "ArgMin"), {"x": shape}, about={"axis": d.upto(len(shape) - 1, -1), "keepdims": d.of(0, 1)}
    )


# --- Places that are moved ------------------------------------------------------------------------------------


@kind
def concatenation(d: Draw) -> Case:
    shape = d.shape(least_rank=2)
    axis = d.upto(len(shape) - 1, 0)
    inputs = {f"x{at}": (*shape[:axis], d.upto(4), *shape[axis + 1 :]) for at in range(d.upto(3))}
    return Case("Concat", inputs, about={"axis": axis - d.of(0, len(shape))}, needed=True)


@kind
def padding(d: Draw) -> Case:
    shape, mode = d.shape(3, 6), d.of("constant", "reflect", "edge", "wrap")
    most = {"constant": 3, "edge": 3, "wrap": 1, "reflect": 5}[mode]
    pads = [min(d.upto(most, 0), side - 1 if mode in ("reflect", "wrap") else most) for side in shape * 2]
    if mode == "constant" and d.of(True, False):
        pads[0] = -min(1, shape[0] - 1)
    return Case(
        "Pad", {"x": shape}, {"pads": np.array(pads, np.int64)}, {"mode": mode}, version=19, needed=mode == "constant"
    )


@kind
def slicing(d: Draw) -> Case:
    shape = d.shape(3, 8)
    axes = d.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1, max_size=len(shape)))
    starts = [d.upto(shape[axis] - 1, -shape[axis]) for axis in axes]
    steps = [d.of(1, 1, 2, 3, -1) for _ in axes]
    ends = [2**40 if step > 0 else -(2**40) for step in steps]
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return Case(
        "Slice", {"x": shape}, {name: np.array(value, np.int64) for name, value in given.items()}, needed=min(steps) > 0
    )


@kind
def transposition(d: Draw) -> Case:
    shape = d.shape()
    if d.of(True, False):
        return Case("Transpose", {"x": shape}, needed=True)
    return Case("Transpose", {"x": shape}, about={"perm": d.draw(st.permutations(range(len(shape))))}, needed=True)


@kind
def reshaping(d: Draw) -> Case:
    """Axes merged, taken apart, inserted and dropped, or anything."""
    parts = d.draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=5))
    cuts = [sorted(d.draw(st.lists(st.integers(0, len(parts)), max_size=4))) for _ in range(2)]
    read, made = (
        [int(np.prod(parts[a:b])) for a, b in zip([0, *cut], [*cut, len(parts)], strict=True)] for cut in cuts
    )
    if d.of(True, False):
        return Case("Flatten", {"x": tuple(read)}, about={"axis": d.upto(len(read), 0)})
    if d.of(True, False):
        made = d.draw(st.permutations(made))
    return Case("Reshape", {"x": tuple(read)}, {"shape": np.array(made, np.int64)})


@kind
def axes_inserted(d: Draw) -> Case:
    shape = d.shape(3)
    if d.of(True, False):
        axes = sorted(d.draw(st.lists(st.integers(0, len(shape)), unique=True, min_size=1, max_size=2)))
        return Case("Unsqueeze", {"x": shape}, {"axes": np.array(axes, np.int64)})
    return Case("Squeeze", {"x": (1, *shape, 1)}, {"axes": np.array([0, -1], np.int64)})


@kind
def resizing(d: Draw) -> Case:
    mode = d.of("nearest", "linear", "cubic")
    about: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": d.of(
            "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
        ),
    }
    if mode == "nearest":
        about["nearest_mode"] = d.of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        about["exclude_outside"] = d.of(0, 1)
    shape = (1, d.upto(2), *d.ints(2, 9, 2))
    if d.of(True, False):
        scales = [1.0, 1.0, *(d.of(0.4, 0.5, 0.75, 1, 1.3, 2, 3, 4) for _ in range(2))]
        constants = {"scales": np.array(scales, np.float32)}
        return Case("Resize", {"x": shape}, constants, about, names=["x", "", "scales"], version=19)
    constants = {"sizes": np.array([*shape[:2], *d.ints(2, 20)], np.int64)}
    return Case("Resize", {"x": shape}, constants, about, names=["x", "", "", "sizes"], version=19)


@kind
def old_resizing(d: Draw) -> Case:
    scales = np.array([1, 1, *(d.of(1, 2, 3, 1.5) for _ in range(2))], np.float32)
    of, version = d.of(("Upsample", 9), ("Resize", 10))
    return Case(
        of, {"x": (1, 2, *d.ints(2, 7))}, {"scales": scales}, {"mode": d.of("nearest", "linear")}, version=version
    )


@kind
def depth_to_space(d: Draw) -> Case:
    block, depth = d.upto(3), d.upto(3)
    sides = d.ints(2, 4)
    if d.of(True, False):
        return Case("SpaceToDepth", {"x": (1, depth, *(block * side for side in sides))}, about={"blocksize": block})
    return Case("DepthToSpace", {"x": (1, depth * block**2, *sides)},
                about={"blocksize": block, "mode": d.of("DCR", "CRD")})  # fmt: skip


@kind
def expansion(d: Draw) -> Case:
    shape = d.shape()
    made = [extent if extent > 1 else d.upto(4) for extent in shape]
    if d.of(True, False):
        return Case("Expand", {"x": shape}, {"shape": np.array([*d.shape(1, 3, 0), *made], np.int64)}, needed=True)
    return Case("Tile", {"x": shape}, {"repeats": np.array(d.ints(len(shape), 2), np.int64)})


@kind
def gathering(d: Draw) -> Case:
    shape = d.shape()
    axis = d.upto(len(shape) - 1, 0)
    indices = d.random.integers(shape[axis], size=d.shape(2, 3, 0))
    return Case("Gather", {"x": shape}, {"indices": np.array(indices, np.int64)}, {"axis": axis - d.of(0, len(shape))})


@kind
def unlisted(d: Draw) -> Case:
    """Operators of which nothing is known: all is read."""
    if d.of(True, False):
        return Case("Einsum", {"a": (3, 4), "b": (4, 2)}, about={"equation": "ij,jk->ik"})
    return Case("Det", {"x": (3, 2, 2)})
