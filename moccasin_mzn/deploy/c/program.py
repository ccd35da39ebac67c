"""A plan of a network as steps of kernels: where each part lies, and which parts each step reads. ::

    step  layer   computes        at         reads
      0   conv1   rows 0 to 1     arena 0    input
      1   conv1   rows 2 to 3     arena 576  input
      2   conv2   rows 0 to 1     arena 960  conv1[0:2], conv1[2:4]
      3   conv2   rows 2 to 3     output     conv1[2:4], conv1[4:6]

Inputs and constants in another shape are read where they are, and have no step. Neither has a concatenation that is
taken out of the graph: it is the place at which the first of its inputs begins.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.kernels import INPUTS
from moccasin_mzn.deploy.c.network import Layer, Network
from moccasin_mzn.deploy.c.tensors import SIZES, Tensor
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.tflite import RESULTS
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.graphs.tiling.cutting import Box
from moccasin_mzn.problem.runtime_plan import RuntimePlan

ARENA = 0
"""The base of the arena; those of outputs, inputs and constants come after it, in this order."""
WHOLE, FIRST, NEXT, LAST = range(4)
"""Stages of a sum over parts, MC_WHOLE and so on in kernels.h."""
_PLACES = 2**16 - 1
"""Most places and steps: they are numbered in 16 bits."""
_BASES = 2**8
"""Most bases: they are numbered in 8 bits."""
Span = tuple[int, int]
"""The first place along an axis, and the one after the last."""


@dataclass(frozen=True)
class Place:
    """Where a part of a tensor lies."""

    base: int
    offset: int
    """Bytes from its base."""
    rows: Span
    columns: Span
    pitch: int
    """Pixels from one row to the next."""
    stage: int = WHOLE


@dataclass(frozen=True)
class Call:
    """A step: the kernel of a layer computes one place from others."""

    layer: int
    """The node of the layer."""
    place: int
    reads: tuple[tuple[int, ...], ...]
    """By input the places that are read."""


@dataclass(frozen=True)
class Program:
    """All that runs."""

    network: Network
    arena: int
    """Bytes."""
    alignment: int
    """The alignment of all offsets, in bytes."""
    places: tuple[Place, ...]
    constants: tuple[Tensor, ...]
    """Constants that are read as activations, in the order of their bases."""
    calls: tuple[Call, ...]
    chained: frozenset[int]
    """Layers that compute in steps over what they read, and so read the sum so far too."""
    work: float
    """Multiply-adds of all steps over those of computing everything once."""


def program_of(
    network: Network, graph: ComputationGraph, plan: RuntimePlan,
    taken_out: Mapping[NodeId, Sequence[NodeId]] | None = None,
) -> Program:  # fmt: skip
    """The program of a plan.

    Args:
        graph: that of the network, or one of its parts.
        plan: of that graph, in one memory, with offsets.
        taken_out: the layers of concatenations without which the graph is, and of what they join.

    Raises:
        InputError: it has too many steps, inputs or constants.
    """
    if len(plan.memories) != 1 or not plan.placed:
        raise InputError("expected a plan of one memory with offsets")
    check_inputs(network, taken_out or {})
    made = _Making(network, graph, plan, taken_out or {})
    for at, step in enumerate(plan.steps):
        if step.node != RESULTS:
            made.add(at)
    if max(len(made.places), len(made.calls)) > _PLACES:
        raise InputError(f"more than {_PLACES:,} steps: take larger parts")
    if (bases := made.first_constant + len(made.constants)) > _BASES:
        raise InputError(f"{bases} inputs, outputs and constants that are read as activations: {_BASES - 1} at most")
    if plan.arenas[0] >= 2**31:
        raise InputError(f"arena {plan.arenas[0]:,}: offsets take more than 31 bits")
    return Program(
        network, plan.arenas[0], plan.alignment, tuple(made.places), tuple(made.constants), tuple(made.calls),
        frozenset(layer for layer, _ in made.last), _work(graph, plan),
    )  # fmt: skip


def check_inputs(network: Network, taken_out: Container[NodeId]) -> None:
    """Refuse layers that read too much at once, but for concatenations that are taken out.

    Raises:
        InputError: there is such a layer.
    """
    for node, layer in network.layers.items():
        if len(layer.reads) > INPUTS and node not in taken_out:
            raise InputError(f"{layer.name} has {len(layer.reads)} inputs, kernels have {INPUTS} at most")


def _work(graph: ComputationGraph, plan: RuntimePlan) -> float:
    """How much a plan computes, over computing everything once."""
    done = sum(graph.durations[graph.position_of(step.node)] for step in plan.steps)
    return done / max(1, graph.total_duration)


class _Making:
    """The program so far."""

    def __init__(
        self, network: Network, graph: ComputationGraph, plan: RuntimePlan,
        taken_out: Mapping[NodeId, Sequence[NodeId]],
    ) -> None:  # fmt: skip
        self.network, self.graph, self.plan, self.taken_out = network, graph, plan, taken_out
        self.joined: dict[tuple[int, ...], int] = {}
        """By concatenation and the places that it joins its own place."""
        self.places: list[Place] = []
        self.constants: list[Tensor] = []
        self.calls: list[Call] = []
        self.base_of = {tensor.number: 1 + at for at, tensor in enumerate((*network.outputs, *network.inputs))}
        self.first_constant = 1 + len(self.base_of)
        self.given: dict[int, int] = {}
        """By tensor that no step computes its place."""
        self.written: dict[int, int] = {}
        """By step of the plan the place that it writes."""
        self.maker = {layer.output.number: node for node, layer in network.layers.items()}
        self.last: dict[tuple[int, Box], int] = {}
        """By layer and box the last of the steps of a sum."""
        for part in graph.parts or ():
            if part is not None and part.step is not None:
                key = int(part.layer), part.box
                self.last[key] = max(self.last.get(key, 0), part.step)

    def add(self, at: int) -> None:
        """Add a step of the plan."""
        node, part = self._what(at)
        layer = self.network.layers[node]
        if layer.output.number in self.network.views:
            return
        place = self._place(at, layer, part)
        by_layer: dict[int, list[int]] = {}
        for read in (read for read in self.plan.steps[at].reads if read in self.written):
            by_layer.setdefault(self._what(read)[0], []).append(self.written[read])
        reads = [self._read(tensor, by_layer) for tensor in layer.reads]
        if (node, part.box if part is not None else ()) in self.last:
            reads.append(tuple(by_layer.get(node, ())))
        self.places.append(place)
        self.written[at] = len(self.places) - 1
        self.calls.append(Call(node, len(self.places) - 1, tuple(reads)))

    def _what(self, at: int) -> tuple[int, Part | None]:
        """The layer that a step of the plan computes, and which part of it."""
        v = self.graph.position_of(self.plan.steps[at].node)
        part = self.graph.parts[v] if self.graph.parts is not None else None
        return (int(part.layer) if part is not None else cast(int, self.graph.nodes[v])), part

    def _place(self, at: int, layer: Layer, part: Part | None) -> Place:
        output, stage = layer.output, WHOLE
        if part is not None and part.step is not None:
            end = self.last[layer.node, part.box]
            stage = LAST if part.step == end else NEXT if part.step else FIRST
            stage = WHOLE if end == 0 else stage
        rows, columns = _spans(output, part.box if part is not None else None)
        width, base = output.extents[2], self.base_of.get(output.number)
        if base is None or stage in (FIRST, NEXT):
            offset, base, pitch = self.plan.steps[at].offset or 0, ARENA, columns[1] - columns[0]
        else:
            pixel = output.extents[3] * SIZES[output.kind]
            offset, pitch = (rows[0] * width + columns[0]) * pixel, width
        return Place(base, offset, rows, columns, pitch, stage)

    def _read(self, tensor: Tensor, by_layer: dict[int, list[int]]) -> tuple[int, ...]:
        """The places where a step finds what it reads of a tensor."""
        node = self.maker.get(tensor.number)
        if node is not None and node in self.taken_out:
            return (self._joined(node, tensor, by_layer),)
        if tensor.number in self.maker and tensor.number not in self.network.views:
            return tuple(by_layer.get(self.maker[tensor.number], ()))
        if tensor.number not in self.given:
            of = self.network.views.get(tensor.number, tensor)
            base = self.base_of.get(of.number)
            if base is None:
                self.constants.append(of)
                base = self.first_constant + len(self.constants) - 1
            rows, columns = _spans(tensor, None)
            self.places.append(Place(base, 0, rows, columns, tensor.extents[2]))
            self.given[tensor.number] = len(self.places) - 1
        return (self.given[tensor.number],)

    def _joined(self, node: int, tensor: Tensor, by_layer: Mapping[int, Sequence[int]]) -> int:
        """The place of a concatenation; all that it joins lies side by side."""
        places = tuple(by_layer[cast(int, leaf)][0] for leaf in self.taken_out[node])
        if (node, *places) not in self.joined:
            rows, columns = _spans(tensor, None)
            offset = self.places[places[0]].offset
            self.places.append(Place(ARENA, offset, rows, columns, tensor.extents[2]))
            self.joined[node, *places] = len(self.places) - 1
        return self.joined[node, *places]


def _spans(tensor: Tensor, box: Box | None) -> tuple[Span, Span]:
    """The rows, of all images one after the other, and the columns of a part; None: of the whole."""
    images, height, width, _ = tensor.extents
    before = 4 - len(tensor.shape)
    if box is None or images > 1:
        return (0, images * height), (0, width)
    spans = dict(enumerate(box, start=before))
    return spans.get(1, (0, 1)), spans.get(2, (0, 1))


def most_reads(calls: Sequence[Call]) -> int:
    """Most parts that a step reads."""
    return max((sum(map(len, call.reads)) for call in calls), default=1) or 1
