"""Layers joined to a network, and its forward pass as a computation graph."""

from __future__ import annotations

from math import prod

from moccasin_mzn.errors import InputError, located, shown
from moccasin_mzn.graphs.generators.layer import Layer, Output, Shape
from moccasin_mzn.graphs.graph import ComputationGraph

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
            fixed_memory={
                "parameters": BYTES_PER_ELEMENT * self.parameters(),
                "inputs": BYTES_PER_ELEMENT * batch * prod(self.input_shape),
            },
        )

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
