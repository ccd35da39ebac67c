"""An ONNX model that computes outputs in parts. ::

    y = Conv(x), 3 x 3        y[0:4] = Conv(x[0:5])       x[0:5] = Concat(x[0:4], Slice(x[4:8], row 4))
    z = Relu(y)               y[4:8] = Conv(x[3:8])       x[3:8] = Concat(Slice(x[0:4], row 3), x[4:8])
                              z[0:4] = Relu(y[0:4])
                              z[4:8] = Relu(y[4:8])       z = Concat(z[0:4], z[4:8]), for those who read all of it

A part that is read as it is needs no copy. Slices and concatenations are operators as all others: an import counts
them, a schedule determines when they are computed, and how often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.gathering import Gathering, numbered_boxes, splittable, suffix_of
from moccasin_mzn.deploy.onnx_parts import OnnxRecipe, recipe_of
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.inference import infer
from moccasin_mzn.graphs.importers.onnx.model import all_names, fresh, is_standard, operator_sets, packages, reads
from moccasin_mzn.graphs.importers.onnx.shapes import Shapes, stored_value
from moccasin_mzn.graphs.tiling.cutting import Box, Cuts

if TYPE_CHECKING:
    import onnx

OLDEST = 7
"""The first operator set whose models are cut: before, attributes determine how inputs are broadcast."""


def possible_cuts(
    model: onnx.ModelProto, graph: ComputationGraph, operators: Sequence[int | None], cuts: Mapping[int, Cuts],
    doubtful: Collection[str] = (),
) -> dict[int, Cuts]:  # fmt: skip
    """What of some cuts can be done.

    Args:
        model: with all shapes fixed.
        graph: of the model, whose operators are known.
        operators: for each node of the graph the position of its operator in the model.
        cuts: by node.
        doubtful: values whose shape is another one at run time: operators that read or compute one stay whole, as do
            those of `Shapes.in_doubt`.

    Raises:
        InputError: the model is of an operator set before `OLDEST`.
    """
    version = operator_sets(model).get("", 1)
    if version < OLDEST:
        raise InputError(f"operator set {version}; models are cut into parts from {OLDEST} on")
    shapes = infer(model, {})
    found: dict[int, Cuts] = {}
    left_whole = shapes.in_doubt | {*doubtful}
    for v, wanted in cuts.items():
        at, operator = operators[v], graph.operators[v] if graph.operators is not None else None
        if at is None or operator is None:
            continue
        node = model.graph.node[at]
        if left_whole.isdisjoint([*reads(node), *node.output]):
            found[v] = splittable(operator.shape, wanted, partial(recipe_of, node, shapes))
    return {v: own for v, own in found.items() if own}


def tiled_model(model: onnx.ModelProto, cuts: Mapping[int, Cuts]) -> tuple[onnx.ModelProto, dict[str, tuple[int, Box]]]:
    """The model that computes some outputs in parts, whatever is computed first.

    Args:
        model: with all shapes fixed, and weights.
        cuts: by position of an operator, as `possible_cuts` leaves them.

    Returns:
        The model, and by the name of a part the position of the operator whose output it is a part of, and its places.
        Inputs, outputs and results are those of the model; of floating point numbers but for rounding, where a runtime
        computes what has another shape another way.
    """
    tiling = _OnnxTiling(model, infer(model, {}))
    for at, node in enumerate(model.graph.node):
        tiling.add(node, cuts.get(at, {}))
    at_of = {node.output[0]: at for at, node in enumerate(model.graph.node)}
    boxes = {
        name: (at_of[value], parts.boxes[index])
        for value, parts in tiling.parts.items()
        for index, name in parts.values.items()
    }
    return tiling.finished(), boxes


@dataclass
class _OnnxTiling(Gathering[str]):
    """The operators of a tiled model so far."""

    model: onnx.ModelProto
    shapes: Shapes
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.taken = set(all_names(graph))
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        self.fixed = set[str]()
        """Constants stored in parts: if they were inputs, whose values may be replaced, they are not any more."""
        for node in graph.node:
            if is_standard(node) and node.op_type == "Constant" and node.attribute[0].HasField("t"):
                self.stored[node.output[0]] = node.attribute[0].t
        self.version = operator_sets(self.model).get("", 1)

    def add(self, node: onnx.NodeProto, cuts: Cuts) -> None:
        """Add an operator, or its parts."""
        if not cuts:
            for name in reads(node):
                self.whole(name)
            self.nodes.append(node)
            return
        name = node.output[0]
        boxes = numbered_boxes(self.shape_of(name), cuts)
        self.keep_parts(name, cuts, {index: self._part(node, box, cuts) for index, box in boxes.items()})

    def finished(self) -> onnx.ModelProto:
        """The model."""
        for value in self.model.graph.output:
            self.whole(value.name)
        new = type(self.model)()
        new.CopyFrom(self.model)
        new.ir_version = max(new.ir_version, 4)  # before, all constants are inputs
        read = self._leave_out_unread()
        computed = {name for node in self.nodes for name in node.output}
        lost = {name for node in self.model.graph.node for name in reads(node)} - read
        new.graph.ClearField("node")
        new.graph.node.extend(self.nodes)
        fields = {"initializer": lost, "input": self.fixed, "value_info": set(self.parts) - computed}
        for field_name, gone in fields.items():
            kept = [one for one in getattr(new.graph, field_name) if one.name not in gone]
            new.graph.ClearField(field_name)
            getattr(new.graph, field_name).extend(kept)
        new.graph.initializer.extend(each for each in self.constants if each.name in read)
        return new

    def _leave_out_unread(self) -> set[str]:
        """Leave out new operators whose output is not read, such as rows between the windows of a stride.

        Returns:
            What the others read, and the outputs.
        """
        before = {name for node in self.model.graph.node for name in node.output}
        unread = before - {name for node in self.model.graph.node for name in reads(node)}
        kept_parts = {part for name in unread & self.parts.keys() for part in self.parts[name].values.values()}
        read = {value.name for value in self.model.graph.output}
        kept: list[onnx.NodeProto] = []
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.output) or not (before | kept_parts).isdisjoint(node.output):
                kept.append(node)
                read.update(reads(node))
        self.nodes = kept[::-1]
        return read

    def _part(self, node: onnx.NodeProto, box: Box, cuts: Cuts) -> str:
        """Add the operator of a part; the name of what it outputs."""
        recipe = recipe_of(node, self.shapes, box)
        inputs = self._inputs(node, recipe)
        if recipe.kind == "":
            return inputs[0]
        suffix = suffix_of(box, list(cuts))
        new = type(node)()
        new.CopyFrom(node)
        new.input[:] = inputs
        new.output[:] = [fresh(f"{node.output[0]}{suffix}", self.taken)]
        new.name = f"{node.name}{suffix}" if node.name else ""
        if recipe.kind is not None:
            new.op_type, new.domain = recipe.kind, ""
        changed = [one for one in new.attribute if recipe.kind is None and one.name not in recipe.attributes]
        new.ClearField("attribute")
        new.attribute.extend(changed)
        make = packages().helper.make_attribute
        new.attribute.extend(make(name, value) for name, value in recipe.attributes.items() if value is not None)
        self.nodes.append(new)
        return new.output[0] if recipe.crop is None else self.sliced(new.output[0], recipe.crop, recipe.made)

    def _inputs(self, node: onnx.NodeProto, recipe: OnnxRecipe) -> list[str]:
        """Names of what the operator of a part reads."""
        found = []
        for at in range(max(len(node.input), *(each + 1 for each in (*recipe.numbers, 0)))):
            name = node.input[at] if at < len(node.input) else ""
            if at in recipe.dropped:
                continue
            if at in recipe.numbers:
                name = self._numbers(recipe.numbers[at])
            elif name and at in recipe.boxes:
                name = self.read(name, recipe.boxes[at])
            elif name:
                self.whole(name)
            found.append(name)
        return found

    def shape_of(self, value: str) -> tuple[int, ...]:
        return tuple(self.shapes.of(value).shape or ())

    def add_concatenation(self, pieces: Sequence[str], axis: int, whole: str | None) -> str:
        made = fresh(f"{pieces[0]}+", self.taken) if whole is None else whole
        self.nodes.append(packages().helper.make_node("Concat", list(pieces), [made], axis=axis))
        return made

    def add_slice(self, value: str, own: Box, inner: Mapping[int, tuple[int, int]]) -> str:
        made = fresh(f"{value}[{','.join('{}:{}'.format(*each) for each in inner.values())}]", self.taken)
        if value not in self.stored or not self._store_slice(value, inner, made):
            self._add_slice(value, inner, made)
        return made

    def _store_slice(self, name: str, inner: Mapping[int, tuple[int, int]], made: str) -> bool:
        """Store a part of a constant; False, if its value is elsewhere."""
        value = stored_value(self.stored[name])
        if value is None:
            return False
        places = tuple(slice(*inner.get(axis, (None, None))) for axis in range(value.ndim))
        self.fixed.add(name)
        self.constants.append(packages().numpy_helper.from_array(value[places].copy(), made))
        return True

    def _add_slice(self, name: str, inner: Mapping[int, tuple[int, int]], made: str) -> None:
        axes = list(inner)
        starts, ends = ([each[side] for each in inner.values()] for side in (0, 1))
        make = packages().helper.make_node
        if self.version < 10:
            self.nodes.append(make("Slice", [name], [made], starts=starts, ends=ends, axes=axes))
        else:
            self.nodes.append(make("Slice", [name, *map(self._numbers, (starts, ends, axes))], [made]))

    def _numbers(self, numbers: Sequence[float]) -> str:
        """Have a list of numbers as a constant."""
        import numpy

        key = ("numbers", *map(type, numbers), *numbers)
        if key not in self.made:
            kind = numpy.float32 if any(type(each) is float for each in numbers) else numpy.int64
            self.made[key] = fresh(f"numbers {','.join(map(str, numbers))}", self.taken)
            self.constants.append(
                packages().numpy_helper.from_array(numpy.asarray(list(numbers), kind), self.made[key])
            )
        return self.made[key]
