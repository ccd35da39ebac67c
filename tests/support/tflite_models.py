"""Small TFLite models, made with the schema's own classes: convolutions with connections past them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from moccasin_mzn.graphs.importers.tflite import schema

OPERATORS = (
    "CONV_2D",
    "ADD",
    "SPLIT",
    "DEQUANTIZE",
    "CALL_ONCE",
    "VAR_HANDLE",
    "READ_VARIABLE",
    "ASSIGN_VARIABLE",
    "IF",
    "CONCATENATION",
)


class Builder:
    """Adds float layers to one subgraph; every tensor has height and width `side`."""

    def __init__(self, side: int = 8, channels: int = 4) -> None:
        self.s = schema()
        self.side, self.random = side, np.random.default_rng(1)
        self.model, self.graph = self.s.ModelT(), self.s.SubGraphT()
        self.model.version, self.model.subgraphs, self.model.buffers = 3, [self.graph], [self.s.BufferT()]
        self.model.operatorCodes = [self._code(name) for name in OPERATORS]
        self.graph.tensors, self.graph.operators, self.graph.name = [], [], "main"
        self.input = self._tensor("input", (1, side, side, channels))
        self.graph.inputs = [self.input]

    def convolution(self, name: str, x: int, channels: int, kernel: int = 3) -> int:
        before = self.graph.tensors[x].shape[-1]
        weights = self.random.normal(0, 1 / (kernel * before**0.5), (channels, kernel, kernel, before))
        read = [x, self._constant(f"{name}/w", weights), self._constant(f"{name}/b", self.random.normal(size=channels))]
        options = self.s.Conv2DOptionsT()
        options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
        options.fusedActivationFunction = self.s.ActivationFunctionType.RELU
        out = self._tensor(name, (*self.graph.tensors[x].shape[:3], channels))
        return self._operator(0, read, [out], self.s.BuiltinOptions.Conv2DOptions, options)[0]

    def halved(self) -> None:
        """Store the filters in half precision, and unpack them first."""
        unpacked = []
        for operator in self.graph.operators:
            if operator.opcodeIndex != 0:
                continue
            tensor = self.graph.tensors[operator.inputs[1]]
            values = np.frombuffer(self.model.buffers[tensor.buffer].data.tobytes(), np.float32).reshape(tensor.shape)
            half = self._constant(f"{tensor.name}/half", values, np.float16, self.s.TensorType.FLOAT16)
            tensor.buffer = 0
            unpacked.append(self._operator(3, [half], [operator.inputs[1]], self.s.BuiltinOptions.NONE, None))
        made = self.graph.operators[-len(unpacked) :]
        self.graph.operators = [*made, *self.graph.operators[: -len(unpacked)]]

    def add(self, name: str, x: int, y: int) -> int:
        out = self._tensor(name, self.graph.tensors[x].shape)
        return self._operator(1, [x, y], [out], self.s.BuiltinOptions.AddOptions, self.s.AddOptionsT())[0]

    def halves(self, name: str, x: int) -> list[int]:
        *shape, channels = self.graph.tensors[x].shape
        axis = self._constant(f"{name}/axis", np.array([3]), np.int32, self.s.TensorType.INT32, ())
        options = self.s.SplitOptionsT()
        options.numSplits = 2
        out = [self._tensor(f"{name}:{k}", (*shape, channels // 2)) for k in range(2)]
        return self._operator(2, [axis, x], out, self.s.BuiltinOptions.SplitOptions, options)

    def joined(self, name: str, parts: list[int], axis: int = 1, activation: int = 0) -> int:
        shape = [*self.graph.tensors[parts[0]].shape]
        shape[axis] = sum(self.graph.tensors[x].shape[axis] for x in parts)
        options = self.s.ConcatenationOptionsT()
        options.axis, options.fusedActivationFunction = axis, activation
        return self._operator(9, parts, [self._tensor(name, shape)], self.s.BuiltinOptions.ConcatenationOptions,
                              options)[0]  # fmt: skip

    def either(self, name: str, read: list[int], then: int, otherwise: int) -> int:
        """Run one of two subgraphs on all but the first of what is read."""
        options, out = self.s.IfOptionsT(), self._tensor(name, self.graph.tensors[read[1]].shape)
        options.thenSubgraphIndex, options.elseSubgraphIndex = then, otherwise
        return self._operator(8, read, [out], self.s.BuiltinOptions.IfOptions, options)[0]

    @contextmanager
    def subgraph(self, name: str) -> Iterator[None]:
        """Add to another subgraph, a new one."""
        main, self.graph = self.graph, self.s.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.name = [], [], name
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        yield
        self.graph = main

    def packed(self, *results: int) -> bytes:
        import flatbuffers

        self.graph.outputs = list(results)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _code(self, name: str):
        code = self.s.OperatorCodeT()
        code.builtinCode = getattr(self.s.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1
        return code

    def _tensor(self, name: str, shape, kind: int = 0, buffer: int = 0) -> int:
        tensor = self.s.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, [*shape], kind, buffer
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _constant(self, name: str, values, dtype=np.float32, kind: int = 0, shape=None) -> int:
        buffer = self.s.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values, dtype).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        return self._tensor(name, values.shape if shape is None else shape, kind, len(self.model.buffers) - 1)

    def _operator(self, code: int, read, out, kind: int, options):
        operator = self.s.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = code, read, out
        operator.builtinOptionsType, operator.builtinOptions = kind, options
        self.graph.operators.append(operator)
        return out


def skipping() -> bytes:
    """A cheap, large output that is read at once and at the end, past three layers of which one is larger still."""
    net = Builder()
    first = net.convolution("first", net.input, 24, kernel=1)
    small = net.convolution("small", first, 4)
    wide = net.convolution("wide", small, 40)
    left, right = net.halves("halves", wide)
    both = net.add("both", left, right)
    back = net.convolution("back", both, 24)
    return net.packed(net.add("sum", first, back), small)


def joining() -> bytes:
    """Rows of two layers joined, and again with those of a third one; the first is a result too. Of one more no output
    is at hand in memory, as channels alternate."""
    net = Builder()
    left, right = net.convolution("left", net.input, 16), net.convolution("right", net.input, 16)
    both = net.joined("both", [left, right])
    three = net.joined("three", [both, net.convolution("third", net.input, 16)])
    back = net.convolution("back", three, 4)
    mixed = net.joined("mixed", [back, back], axis=3)
    return net.packed(net.convolution("last", mixed, 2), both)


def joining_inputs() -> bytes:
    """Rows of a layer and of the network's input joined, in both orders: one of the two has to copy."""
    net = Builder()
    layer = net.convolution("layer", net.input, 4)
    after, before = net.joined("after", [net.input, layer]), net.joined("before", [layer, net.input])
    both = net.add("sum", net.convolution("one", after, 1), net.convolution("other", before, 1))
    return net.packed(net.convolution("last", both, 2), after)


def joining_twice() -> bytes:
    """A large output in two halves of rows, which is read early and late: past layers that leave it no room."""
    net = Builder()
    halves = [net.convolution(name, net.input, 24, kernel=1) for name in ("upper", "lower")]
    whole = net.joined("whole", halves)
    wide = net.convolution("wide", net.convolution("small", whole, 2), 40)
    back = net.convolution("back", wide, 2)
    return net.packed(net.add("sum", net.convolution("late", whole, 2), back))


def two_results() -> bytes:
    """A result that is computed early, and one that is computed late."""
    net = Builder()
    early = net.convolution("early", net.input, 6)
    x = net.input
    for at in range(4):
        x = net.convolution(f"layer{at}", x, 8 + at)
    return net.packed(x, early)


def dequantizing() -> bytes:
    """A large constant of 8 bits is unpacked in the arena, which needs nothing of the input; that is read after it."""
    net = Builder()
    stored = net._constant("stored", np.ones((1, 8, 8, 32)), np.int8, net.s.TensorType.INT8)
    net.graph.tensors[stored].quantization = of = net.s.QuantizationParametersT()
    of.scale, of.zeroPoint = [0.5], [0]
    large = net._operator(3, [stored], [net._tensor("large", (1, 8, 8, 32))], net.s.BuiltinOptions.DequantizeOptions,
                          net.s.DequantizeOptionsT())  # fmt: skip
    small = net.convolution("small", *large, 4)
    return net.packed(net.add("sum", net.convolution("first", net.input, 4), small))


class Stateful(Builder):
    """Adds operators of variables, which another subgraph makes zero once."""

    shape = (1, 8, 8, 4)

    def __init__(self) -> None:
        super().__init__()
        once = self.s.CallOnceOptionsT()
        once.initSubgraphIndex = 1
        self._operator(4, [], [], self.s.BuiltinOptions.CallOnceOptions, once)

    def handle(self, name: str = "sum") -> int:
        options = self.s.VarHandleOptionsT()
        options.container, options.sharedName = "", name
        made = self._tensor("handle", (), self.s.TensorType.RESOURCE)
        return self._operator(5, [], [made], self.s.BuiltinOptions.VarHandleOptions, options)[0]

    def read(self, handle: int) -> int:
        made, kind = self._tensor("before", self.shape), self.s.BuiltinOptions.ReadVariableOptions
        return self._operator(6, [handle], [made], kind, self.s.ReadVariableOptionsT())[0]

    def assign(self, handle: int, x: int) -> None:
        kind = self.s.BuiltinOptions.AssignVariableOptions
        self._operator(7, [handle, x], [], kind, self.s.AssignVariableOptionsT())

    def packed(self, *results: int) -> bytes:
        with self.subgraph("begin"):
            self.assign(self.handle(), self._constant("zeros", np.zeros(self.shape)))
        return super().packed(*results)


def streaming(dependent: bool = True) -> bytes:
    """State from run to run: the sum of all inputs so far, in a variable that another subgraph makes zero once.

    Args:
        dependent: what is assigned depends on what was read; if not, it is the input.
    """
    net = Stateful()
    sum_so_far = net.handle()
    total = net.add("total", net.read(sum_so_far), net.input)
    net.assign(sum_so_far, total if dependent else net.input)
    wide = net.convolution("wide", net.convolution("first", total, 24), 24)
    return net.packed(net.convolution("last", wide, 4))


def choosing() -> bytes:
    """One of two subgraphs runs, as an input says; one of them needs much more memory than the other."""
    net = Builder()
    yes = net._tensor("yes", (1,), net.s.TensorType.BOOL)
    net.graph.inputs = [net.input, yes]
    chosen = net.either("chosen", [yes, net.convolution("first", net.input, 4)], 1, 2)
    result = net.convolution("last", chosen, 4)
    for name in ("then", "else"):
        with net.subgraph(name):
            given = net._tensor(f"{name}/input", (1, 8, 8, 4))
            net.graph.inputs = [given]
            out = net.convolution("wide", given, 40) if name == "then" else given
            net.graph.outputs = [net.convolution(f"{name}/output", out, 4)]
    return net.packed(result)
