"""Layers joined to a network; its forward pass as a computation graph, and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.formatting import closest
from moccasin_mzn.graphs.access_maps import read_of
from moccasin_mzn.graphs.generators.layers import Layer, Output, Shape
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, own

BYTES_PER_ELEMENT = 4
"""Single precision."""

INPUT = -1
"""Stands for the network's input, which is no layer: it is in memory for good and is not accounted for."""


class Network:
    """A network under construction.

    Layers are numbered from 0 in the order of adding them; `add` returns the number, which later layers name as
    their input. Shapes are inferred, and checked, as layers are added.
    """

    def __init__(self, name: str, input_shape: Shape) -> None:
        """Start a network with no layers; `input_shape` is (height, width, channels), or (units,)."""
        if not input_shape or any(type(extent) is not int or extent < 1 for extent in input_shape):
            raise InputError(f"input shape is {shown(input_shape)}, expected integers of 1 or more")
        self.name = name
        self.input_shape = input_shape
        self.layers: list[Layer] = []
        self.names: list[str] = []
        self.inputs: list[tuple[int, ...]] = []
        self.outputs: list[Output] = []

    def add(self, name: str, layer: Layer, *inputs: int) -> int:
        """Add a layer that reads the outputs of `inputs` (numbers of layers, or `INPUT`); returns its number.

        Raises:
            InputError: an input that does not exist, the wrong number of inputs, or shapes that do not fit.
        """
        for number in inputs:
            if not INPUT <= number < len(self.layers):
                raise InputError(f"layer {name}: there is no layer {number}")
        if not inputs or layer.inputs_wanted not in (None, len(inputs)):
            raise InputError(f"layer {name}: {type(layer).__name__} cannot have {len(inputs)} inputs")
        with located(f"layer {name}"):
            output = layer.output(*map(self.shape, inputs))
        self.layers.append(layer)
        self.names.append(name)
        self.inputs.append(inputs)
        self.outputs.append(output)
        return len(self.layers) - 1

    def shape(self, number: int) -> Shape:
        """Shape of the output of a layer, or of the input, for one sample."""
        return self.input_shape if number == INPUT else self.outputs[number].shape

    def forward_graph(self, batch: int) -> ComputationGraph:
        """The forward pass on `batch` samples: one node per layer, sizes in bytes, durations in FLOP.

        Node ids are 0..n-1 in Checkmate's order of layers: by decreasing longest distance to an output, ties in
        order of creation. This is also the input order. Parameters and the input batch are no nodes: their bytes are
        the graph's fixed memory, "parameters" and "inputs".

        Raises:
            InputError: a batch below 1, or sizes or durations beyond what a graph may have.
        """
        if type(batch) is not int or batch < 1:
            raise InputError(f"batch is {shown(batch)}, expected an integer of 1 or more")
        distances = self._distances()
        layer_order = sorted(range(len(self.layers)), key=lambda number: -distances[number])
        place = {number: at for at, number in enumerate(layer_order)}
        edges = {
            (place[u], place[v]): None  # a dict, because a layer may read the same output twice
            for v in layer_order
            for u in self.inputs[v]
            if u != INPUT
        }
        return ComputationGraph(
            nodes=tuple(range(len(layer_order))),
            durations=tuple(batch * self.outputs[number].flops for number in layer_order),
            sizes=tuple(batch * BYTES_PER_ELEMENT * prod(self.shape(number)) for number in layer_order),
            edges=tuple(sorted(edges)),
            order=tuple(range(len(layer_order))),
            name=f"{self.name} inference, batch {batch}, input {'x'.join(map(str, self.input_shape))}",
            labels=tuple(self.names[number] for number in layer_order),
            duration_unit="FLOP",
            size_unit="byte",
            operators=tuple(self._operator(number, batch, place) for number in layer_order),
            fixed_memory={
                "parameters": BYTES_PER_ELEMENT * self.parameters(),
                "inputs": BYTES_PER_ELEMENT * batch * prod(self.input_shape),
            },
        )

    def _operator(self, number: int, batch: int, place: Mapping[int, int]) -> Operator:
        """What a layer computes for the whole batch, whose axis is the first one.

        Args:
            place: by number of a layer its position in the graph.
        """
        shape, inputs = (batch, *self.shape(number)), self.inputs[number]
        reads = []
        for source, axes in zip(inputs, self.layers[number].reads(*map(self.shape, inputs)), strict=True):
            moved = own(0), *(each and replace(each, axis=each.axis + 1) for each in axes)
            reads.append(read_of(place.get(source), (batch, *self.shape(source)), moved, shape))
        return Operator(type(self.layers[number]).__name__, shape, tuple(reads))

    def flops(self) -> int:
        """Cost of the forward pass of one sample, in FLOP."""
        return sum(output.flops for output in self.outputs)

    def parameters(self) -> int:
        """Number of parameters, trained or not."""
        return sum(output.parameters for output in self.outputs)

    def trained_parameters(self) -> int:
        """Number of parameters that training changes: all but batch normalization's running means and variances."""
        return self.parameters() - sum(output.untrained for output in self.outputs)

    def _distances(self) -> list[int]:
        """For each layer the number of edges of a longest path to an output."""
        distances = [0] * len(self.layers)
        for v in reversed(range(len(self.layers))):  # inputs have smaller numbers
            for u in self.inputs[v]:
                if u != INPUT:
                    distances[u] = max(distances[u], distances[v] + 1)
        return distances


# --- What a network of the catalogue is: a builder of layers, and what can be chosen about it -----------------


IMAGE = (224, 224, 3)
"""The usual input: height, width and channels."""
_LARGEST = 2**20


@dataclass(frozen=True)
class Parameter:
    """An integer that can be chosen about a network."""

    name: str
    default: int
    meaning: str
    least: int = 1
    most: int = _LARGEST


@dataclass(frozen=True)
class Architecture:
    """A network of the catalogue."""

    name: str
    """Lower case, as on a command line."""
    title: str
    source: str
    """The publication."""
    input: tuple[int, int, int] | None
    """Default (height, width, channels); None: the input is no image, and a parameter gives its size."""
    parameters: tuple[Parameter, ...]
    builder: Callable[..., Network]
    """Called with height, width and channels, unless `input` is None, and with all parameters by name."""

    def build(self, input: tuple[int, int, int] | None = None, /, **parameters: int) -> Network:
        """The network for one shape of input and these parameters; what is not given is the default.

        Raises:
            InputError: an input or a parameter that is unknown, out of range, or does not fit the network.
        """
        chosen = self.chosen(**parameters)
        shape = self.input_shape(input)
        return self.builder(**chosen) if shape is None else self.builder(*shape, **chosen)

    def chosen(self, /, **parameters: int) -> dict[str, int]:
        """All parameters: the given ones, checked, and the defaults of the others.

        Raises:
            InputError: a parameter that is unknown, no integer or out of range.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"{self.name}: {unknown('parameter', name, known)}")
            least, most = known[name].least, known[name].most
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{self.name}: {name} is {shown(value)}, expected an integer from {least} to {most}")
        return {name: parameters.get(name, parameter.default) for name, parameter in known.items()}

    def input_shape(self, input: tuple[int, int, int] | None = None) -> tuple[int, int, int] | None:
        """The given input shape, checked, or the default; None if the network takes none.

        Raises:
            InputError: not three integers in range, or given to a network that takes no image.
        """
        if input is None:
            return self.input
        if self.input is None:
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise InputError(f"{self.name}: takes no image; its input is given by parameters: {names}")
        if len(input) != 3:
            raise InputError(f"{self.name}: the input is {shown(input)}, expected height, width and channels")
        for what, value in zip(("height", "width", "channels"), input, strict=True):
            if type(value) is not int or not 1 <= value <= _LARGEST:
                raise InputError(f"{self.name}: {what} is {shown(value)}, expected an integer from 1 to {_LARGEST}")
        return input[0], input[1], input[2]


def unknown(what: str, name: str, known: Mapping[str, object]) -> str:
    """The message for an unknown name."""
    near = closest(str(name), known)
    hint = f" (did you mean {near}?)" if near else ""
    return f"there is no {what} {shown(name)}{hint}; there are {', '.join(known)}"


def classes(default: int) -> Parameter:
    """The parameter of networks that distinguishes classes."""
    return Parameter("classes", default, "classes distinguished")


LABELS = (classes(1000),)
"""The parameters of most networks for ImageNet."""
_FUSED = Parameter("fused", 1, "1: ReLU, convolution and batch norm are one node; 0: three", least=0, most=1)
SEARCHED = (*LABELS, _FUSED)
"""The parameters of networks of separable convolutions."""


# --- The backward pass, by Checkmate's construction (Jain et al., MLSys 2020) ---------------------------------

# What one forward edge u -> v becomes::
#
#       u -----> v          ...  last -----> loss
#       |      / |                  |          |
#       |    /   |                  |          |
#       v  v     v                  v          |
#     grad u <- grad v  <- ...  grad last <----'
#
# A gradient reads the output of its layer and of its layer's readers, but not the inputs of its layer. The
# construction reproduces the FCN8, VGG16 and ResNet50 training graphs published with the code of MOCCASIN (Bartan et
# al., ICML 2023).


BACKWARD_FACTOR = 2
"""Duration of a gradient over that of its layer, in FLOP mode."""


def training_graph(forward: ComputationGraph, batch: int) -> ComputationGraph:
    """Forward pass, loss and backward pass: 2 F + 1 nodes for F forward nodes.

    Args:
        forward: in topological order of positions, with one output, which is the last node.
        batch: samples; the loss is one number each.

    Returns:
        Nodes with ids 0..2F: the forward nodes in their order, the loss F, and 2F - u the gradient of u. A gradient
        has its layer's size and twice its duration; the loss has duration 0. The ids are the input order. The loss
        counts as backward, as in the published graphs. Gradients of parameters are no nodes; fixed memory is that of
        the forward graph.

    Raises:
        InputError: several outputs, positions out of topological order, or a batch below 1.
    """
    count = len(forward.nodes)
    if type(batch) is not int or batch < 1:
        raise InputError(f"batch is {shown(batch)}, expected an integer of 1 or more")
    for v, readers in enumerate(forward.successors):
        if not readers and v != count - 1:
            raise InputError(f"node {forward.nodes[v]}: nothing reads it, but only the last node may be an output")
    forward.check_order(range(count))

    loss = count
    edges = set(forward.edges)
    edges |= {(v, 2 * count - u) for u, v in forward.edges}
    edges |= {(2 * count - v, 2 * count - u) for u, v in forward.edges}
    edges |= {(u, 2 * count - u) for u in range(count)}
    edges |= {(count - 1, loss), (loss, loss + 1)}
    labels = forward.labels or tuple(map(str, forward.nodes))
    return ComputationGraph(
        nodes=tuple(range(2 * count + 1)),
        durations=(*forward.durations, 0, *(BACKWARD_FACTOR * w for w in reversed(forward.durations))),
        sizes=(*forward.sizes, BYTES_PER_ELEMENT * batch, *reversed(forward.sizes)),
        edges=tuple(sorted(edges)),
        order=tuple(range(2 * count + 1)),
        name=forward.name.replace("inference", "training"),
        labels=(*labels, "loss", *(f"{label}_backward" for label in reversed(labels))),
        duration_unit=forward.duration_unit,
        size_unit=forward.size_unit,
        attributes=forward.attributes,
        fixed_memory=forward.fixed_memory,
        backward=tuple(v >= loss for v in range(2 * count + 1)),
    )


# --- What optimizers keep for every trained parameter, in addition to the parameter: fixed memory of a training graph


NONE = "none"
"""No optimizer."""
OPTIMIZERS: Mapping[str, int] = {NONE: 0, "sgd": 0, "momentum": 1, "adam": 2}
"""Numbers kept for each trained parameter, by the optimizer's name on a command line."""
