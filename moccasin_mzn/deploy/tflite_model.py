"""A TFLite model whose operators stand in a plan's order, with the plan's offsets for TensorFlow Lite Micro.

What is recomputed is an operator more, which outputs a tensor of its own, and is read by those that come after it.
Offsets are metadata that TensorFlow Lite Micro follows: a buffer of int32 with the version 1, the subgraph, the number
of tensors, and an offset for each, inputs of the network included; -1 for weights, which are elsewhere, and for tensors
of the subgraphs that operators run, which it places itself.
A concatenation that is taken out of the graph, see `graphs.zero_copy`, stays in the model, right before what reads it
first: at the offset of its first input it is where its inputs are, so that TensorFlow Lite Micro copies each of them
to where it is.
TensorFlow Lite and LiteRT run the same model, and place all tensors themselves.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import NodeId
from moccasin_mzn.graphs.importers.tflite import (
    ALIGNMENT,
    RESULTS,
    Node,
    is_once,
    nodes_of,
    outputs,
    producers,
    schema,
    unpacking,
)
from moccasin_mzn.problem.runtime_plan import RuntimePlan

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT, SubGraphT

METADATA = "OfflineMemoryAllocation"
_VERSION, _SUBGRAPH, _ONLINE = 1, 0, -1


def planned_model(model: ModelT, plan: RuntimePlan, taken_out: Container[NodeId] = ()) -> bytes:
    """The file of a model that is computed by a plan of its graph.

    Args:
        model: of `read_model`; it is changed.
        plan: of `graph_of(model)`, in one memory, with offsets that are multiples of `ALIGNMENT`.
        taken_out: the nodes of concatenations without which the plan's graph is.

    Raises:
        InputError: it is invalid, or repeats operators that depend on chance; the inputs are not the first steps, the
            results not the last one, or an offset takes more than 31 bits.
    """
    nodes = nodes_of(model)
    node_of = {node.id: node for node in nodes if node.id not in taken_out}
    _check(model, plan, node_of)
    subgraph, once = model.subgraphs[0], unpacking(model)
    maker = {x: at for x, at in producers(model).items() if at not in once}
    operators, offsets = [subgraph.operators[at] for at in sorted(once)], [_ONLINE] * len(subgraph.tensors)
    joining = {node.tensor: node.operator for node in nodes if node.id in taken_out}
    joined = _Joined(subgraph, {x: at for x, at in joining.items() if x is not None and at is not None}, offsets)
    written: list[dict[int, int]] = []  # by step: the tensor in place of the one of its node
    latest: dict[int | None, dict[int, int]] = {None: {}}  # by operator: the tensor in place of each output
    for step in plan.steps:
        in_place = {x: written[r][x] for r in step.reads for x in written[r]}
        if step.node == RESULTS:
            in_place |= {x: joined.tensor_of(x, in_place, operators) for x in map(int, subgraph.outputs)}
            break
        node = node_of[step.node]
        own = () if node.tensor is None else (node.tensor,)
        if node.operator is None or node.first is not None:
            written.append({x: latest[node.operator].get(x, x) for x in own})
            for x in written[-1].values():
                offsets[x] = step.offset or 0
            continue
        of = subgraph.operators[node.operator]
        again = node.operator in latest
        made = {x: _another(subgraph, x, len(written), offsets) if again else x for x in outputs(of)}
        latest[node.operator] = made
        for x in own:
            offsets[made[x]] = step.offset or 0
        operator = copy(of)
        operator.inputs = [
            joined.tensor_of(int(x), in_place, operators) if int(x) in maker else int(x) for x in of.inputs
        ]  # fmt: skip
        operator.outputs = [made.get(int(x), int(x)) for x in of.outputs]
        operators.append(operator)
        written.append({x: made[x] for x in own})
    subgraph.operators = operators
    subgraph.outputs = [in_place.get(int(x), int(x)) for x in subgraph.outputs]
    for signature in model.signatureDefs or ():
        for of in (signature.outputs or ()) if signature.subgraphIndex == _SUBGRAPH else ():
            of.tensorIndex = in_place.get(of.tensorIndex, of.tensorIndex)
    _put_offsets(model, offsets)
    return packed(model)


@dataclass
class _Joined:
    """Concatenations that are where their inputs are: written when they are read, once for each copy of the inputs."""

    subgraph: SubGraphT
    makers: Mapping[int, int]
    """The operator of each such tensor."""
    offsets: list[int]
    written: dict[tuple[int, ...], int] = field(default_factory=dict)
    """By operator and tensors that it joins: the tensor that it outputs."""

    def tensor_of(self, x: int, in_place: Mapping[int, int], operators: list[OperatorT]) -> int:
        """The tensor in place of x for what reads it now; a concatenation is added to the operators, if there is none.

        Args:
            in_place: the tensors in place of those that steps wrote.
        """
        if x not in self.makers:
            return in_place.get(x, x)
        of = self.subgraph.operators[self.makers[x]]
        parts = [self.tensor_of(int(part), in_place, operators) for part in of.inputs]
        key = (self.makers[x], *parts)
        if key not in self.written:
            again = any(other == self.makers[x] for other, *_ in self.written)
            made = _another(self.subgraph, x, len(operators), self.offsets) if again else x
            self.offsets[made] = self.offsets[parts[0]]
            operator = copy(of)
            operator.inputs, operator.outputs = parts, [made]
            operators.append(operator)
            self.written[key] = made
        return self.written[key]


def _check(model: ModelT, plan: RuntimePlan, node_of: Mapping[NodeId, Node]) -> None:
    if len(plan.memories) != 1 or not plan.placed or plan.alignment % ALIGNMENT:
        raise InputError(f"expected a plan of one memory with offsets that are multiples of {ALIGNMENT}")
    ends = [at for at, step in enumerate(plan.steps) if step.node == RESULTS]
    if ends != [len(plan.steps) - 1]:
        raise InputError(f"the results are not the last of {len(plan.steps)} steps, and once only")
    seen, computed = set[NodeId](), None
    for step in plan.steps[:-1]:
        if step.node not in node_of:
            raise InputError(f"node {step.node} is not of the model: import it anew")
        at = node_of[step.node].operator
        if step.node in seen and at is None:
            raise InputError(f"{step.node} is given once, and the plan recomputes it")
        if at is None and computed is not None:
            raise InputError(f"{step.node} comes after operator {computed}: inputs are written before a network runs")
        computed = computed if at is None else step.node
        if step.node in seen and at is not None and is_once(model, model.subgraphs[0].operators[at]):
            raise InputError(f"operator {step.node} depends on chance or on state, and is recomputed")
        seen.add(step.node)
    missing = [node.id for node in node_of.values() if node.tensor is not None and node.id not in seen]
    if missing:
        raise InputError(f"the plan has no place for output {missing[0]}")
    if max(plan.arenas) >= 2**31:
        raise InputError(f"arena {max(plan.arenas):,}: offsets take more than 31 bits")


def _another(subgraph: SubGraphT, x: int, step: int, offsets: list[int]) -> int:
    """A tensor like x, for what a step recomputes."""
    tensor = copy(subgraph.tensors[x])
    name = tensor.name.decode() if isinstance(tensor.name, bytes) else tensor.name or ""
    tensor.name = f"{name}#{step + 1}"
    subgraph.tensors.append(tensor)
    offsets.append(_ONLINE)
    return len(offsets) - 1


def _put_offsets(model: ModelT, offsets: list[int]) -> None:
    classes = schema()
    offsets += [_ONLINE] * sum(len(subgraph.tensors or ()) for subgraph in model.subgraphs[1:])
    buffer, metadata = classes.BufferT(), classes.MetadataT()
    numbers = np.array([_VERSION, _SUBGRAPH, len(offsets), *offsets], "<i4")
    buffer.data = np.frombuffer(numbers.tobytes(), np.uint8)
    model.buffers.append(buffer)
    metadata.name, metadata.buffer = METADATA, len(model.buffers) - 1
    others = [one for one in model.metadata or () if one.name not in (METADATA, METADATA.encode())]
    model.metadata = [*others, metadata]


def packed(model: ModelT) -> bytes:
    """The bytes of a model's file."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
