"""An ONNX model as a program: an operation for each operator that depends on an input of the network. ::

    x --> Conv --> Relu --> Shape --> Gather --> Concat            numbers, once the shape of x is known
                    |                              |
                    +--------> Reshape <-----------+                an operation; its size follows from the numbers
                                  |
    W (initializer) -> Identity -> Gemm --> y                        Identity: a constant

Sizes are those of the operators' outputs in bytes, durations multiply-adds, see `costs`. Initializers and what is
computed from nothing else, and folded, are no operations but fixed memory, as are the network's inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.importers.onnx.costs import is_moving, multiply_adds, workspace
from moccasin_mzn.graphs.importers.onnx.inference import infer, inside_of
from moccasin_mzn.graphs.importers.onnx.model import (
    all_names,
    fresh,
    graph_inputs,
    initializer_names,
    is_standard,
    kind_of,
    operator_sets,
    packages,
    parse_model,
    reads,
    rename_reads,
    subgraphs,
    title,
)
from moccasin_mzn.graphs.importers.onnx.operators import operator_of
from moccasin_mzn.graphs.importers.onnx.preparation import Fold, declare, fix_dims, keep_operators, undeclared
from moccasin_mzn.graphs.importers.onnx.shapes import (
    OF_SHAPE,
    UNKNOWN,
    VIEWS,
    Shapes,
    Tensor,
    is_elementwise,
    may_repeat,
    passes_through,
)
from moccasin_mzn.graphs.importers.program import Operation, Program, known_total, unique_names

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class OnnxNetwork:
    """An ONNX file as a program."""

    program: Program
    positions: tuple[int | None, ...]
    """For each operation of `program` the position of its operator in the model's graph, local functions inlined; None
    for a further output."""
    attributes: Mapping[str, object]
    """Metadata of the file: "operator sets", "producer", "inputs"."""
    described: Mapping[str, int | list[int]]
    """Constants that may be read from other values: what Shape (a list) and Size give for a known shape, by output."""
    branches: tuple[Mapping[str, bool], ...]
    """Operators If in whose place a branch was put, see `take_branches`, in one round after the other."""
    folded: tuple[str, ...]
    """Values computed of constants alone that are none of the program's, see `preparation.Fold`."""
    declared: Mapping[str, list[int]]
    """Shapes of the values that the file declares with another shape or with none, such as outputs of any batch."""


def network_of(
    data: bytes, name: str, dims: Mapping[str, int], sizes: Mapping[str, int] | None = None, fold: Fold = Fold.SMALL
) -> OnnxNetwork:
    """The network in the bytes of a file.

    Args:
        data: of the file.
        name: of the network.
        dims: numbers of open dimensions.
        sizes: bytes of values whose size cannot be inferred.
        fold: what is computed of constants alone and counts as a constant.

    Raises:
        InputError: it is no consistent ONNX model, or a dimension is open; a size of a value that is not there, or
            whose size is known.
    """
    notes: list[str] = []
    model = parse_model(data, notes=notes)
    del data
    named = fix_dims(model, dims)
    branches = []
    while taken := known_branches(model.graph, shapes := infer(model, named, sizes)):
        take_branches(model.graph, taken)
        branches.append(taken)
    _check_sizes(shapes)
    described = _described(model.graph, shapes)
    folded = keep_operators(model.graph, shapes, fold)
    live = _live(model.graph, shapes)
    nodes = [model.graph.node[at] for at in live]
    wanted = {name for node in nodes for name in reads(node)} | {value.name for value in model.graph.output}
    rows = [_outputs(node, shapes, wanted) for node in nodes]
    firsts = [node.name or next(name for name in node.output if name) for node in nodes]
    names = unique_names([*firsts, *(name for row in rows for name in row[1:])])
    further = iter(names[len(nodes) :])
    names_of = [[own, *(next(further) for _ in row[1:])] for own, row in zip(names, rows, strict=False)]
    makers = {name: own for own, node in zip(names, nodes, strict=False) for name in node.output if name}
    makers |= {name: own for row, of in zip(rows, names_of, strict=True) for name, own in zip(row, of, strict=True)}
    operations, positions = list[Operation](), list[int | None]()
    for at, node, row, of in zip(live, nodes, rows, names_of, strict=True):
        first = _operation(of[0], node, row, shapes, makers, wanted)
        more = zip(of[1:], row[1:], strict=True)
        operations += [first, *(_further(own, name, first, shapes) for own, name in more)]
        positions += [at, *(None for _ in row[1:])]
    program = Program(
        operations=tuple(operations),
        results=tuple(dict.fromkeys(makers[value.name] for value in model.graph.output if value.name in makers)),
        name=name,
        duration_unit="MAC",
        fixed_memory={
            "parameters": _parameter_bytes(nodes, shapes),
            "inputs": sum(shapes.of(value.name).size or 0 for value in graph_inputs(model.graph)),
        },
    )
    attributes = {**_attributes(model, shapes), **({"assumed": notes} if notes else {})}
    declared = undeclared(model.graph, shapes)
    return OnnxNetwork(program, tuple(positions), attributes, described, tuple(branches), tuple(folded), declared)


def whole_model(data: bytes, network: OnnxNetwork, dims: Mapping[str, int]) -> onnx.ModelProto:
    """The model in the bytes of a file, with weights, in which the positions of its network are those of operators.

    Raises:
        InputError: see `network_of`.
    """
    model = parse_model(data, weights=True)
    fix_dims(model, dims)
    for taken in network.branches:
        take_branches(model.graph, taken)
    declare(model.graph, network.declared)
    return model


def _check_sizes(shapes: Shapes) -> None:
    for name, size in shapes.sizes.items():
        if name not in shapes.seen:
            raise InputError(f"size of {shown(name)}: no operator puts out this value")
        known = shapes.of(name).size
        if known not in (None, size):
            raise InputError(f"size of {shown(name)}: it is known, {known:,} bytes, not {size:,}")


def _described(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, int | list[int]]:
    return {
        node.output[0]: shapes.values[node.output[0]].tolist()
        for node in graph.node
        if is_standard(node) and node.op_type in OF_SHAPE and node.output and node.output[0] in shapes.values
        and node.output[0] in shapes.constants
    }  # fmt: skip


def _live(graph: onnx.GraphProto, shapes: Shapes) -> list[int]:
    """Positions of the operators that some result needs and that are no constants."""
    needed = {value.name for value in graph.output} - shapes.constants.keys()
    live = []
    for at in reversed(range(len(graph.node))):
        node = graph.node[at]
        if any(name in needed for name in node.output if name):
            live.append(at)
            needed.update(name for name in reads(node) if name not in shapes.constants)
    return live[::-1]


def _outputs(node: onnx.NodeProto, shapes: Shapes, wanted: set[str]) -> list[str]:
    """The outputs of an operator that somebody wants, or its first one; the largest first, unknown ones before it."""
    found = [name for name in node.output if name in wanted] or [next(name for name in node.output if name)]
    sizes = [inf if (size := shapes.size_of(name)) is None else size for name in found]
    largest = sizes.index(max(sizes))
    return [found[largest], *(name for k, name in enumerate(found) if k != largest)]


def _further(own: str, name: str, first: Operation, shapes: Shapes) -> Operation:
    """A further output of an operation."""
    return Operation(
        own, first.kind, (first.name,), shapes.size_of(name), shapes.of(name).elements, 0, output_of=first.name
    )


def _operation(
    own: str, node: onnx.NodeProto, outputs: list[str], shapes: Shapes, makers: Mapping[str, str], wanted: set[str]
) -> Operation:
    """An operator with the first of its outputs, as `_outputs` has them."""
    unread = [name for name in node.output if name and name not in wanted]
    within = inside_of(node, shapes)
    count = multiply_adds(node, [*map(shapes.of, node.input)], [*map(shapes.of, node.output)])
    inputs = tuple(dict.fromkeys(makers[name] for name in reads(node) if name in makers))
    sources = {name: inputs.index(makers[name]) if name in makers else None
               for name in reads(node) if name not in shapes.constants}  # fmt: skip
    return Operation(
        name=own,
        kind=kind_of(node),
        inputs=inputs,
        size=shapes.size_of(outputs[0]),
        elements=shapes.of(outputs[0]).elements,
        duration=within.duration if any(subgraphs(node)) else count,
        view=_is_view(node, shapes, makers, wanted),
        workspace=workspace(node, [*map(shapes.of, node.input)], [*map(shapes.of, node.output)]),
        scratch=known_total([within.memory, *map(shapes.size_of, unread)]),
        copies=is_moving(node),
        once=not may_repeat(node, shapes),
        in_place=_overwritable(node, makers, wanted),
        operator=operator_of(node, shapes, sources) if outputs == [node.output[0]] else None,
    )


def _overwritable(node: onnx.NodeProto, makers: Mapping[str, str], wanted: set[str]) -> tuple[str, ...]:
    """The operations whose outputs an elementwise operator reads, if it has one output."""
    if sum(name in wanted for name in node.output) != 1 or not is_elementwise(node):
        return ()
    return tuple(dict.fromkeys(makers[name] for name in node.input if name in makers))


def _is_view(node: onnx.NodeProto, shapes: Shapes, makers: Mapping[str, str], wanted: set[str]) -> bool:
    """Can its one output be the memory of its first input?"""
    if not is_standard(node) or sum(map(bool, node.output)) != 1:  # of several, all are put out
        return False
    if node.op_type not in VIEWS and not (node.op_type == "Dropout" and passes_through(node, shapes)):
        return False
    if not node.input or not node.input[0]:
        return False
    return not any(name in makers for name in reads(node)[1:])  # as a view it would lose what computes its shape


def _parameter_bytes(nodes: list[onnx.NodeProto], shapes: Shapes) -> int:
    """Count the bytes of the constants that operators read, each memory once, and of those inside their subgraphs."""
    bases = {shapes.constants[name] for node in nodes for name in reads(node) if name in shapes.constants}
    tensors = [*map(shapes.of, bases)]
    for node in nodes:
        for tensor in _inner_constants(node):
            if tensor.shape and min(tensor.shape) < 0:
                raise InputError(f"{title(node)}: a constant inside has a negative dimension, {min(tensor.shape)}")
            tensors.append(tensor)
    return sum(tensor.size or 0 for tensor in tensors)


def _inner_constants(node: onnx.NodeProto) -> Iterator[Tensor]:
    for graph in subgraphs(node):
        yield from (Tensor(one.data_type, tuple(one.dims)) for one in graph.initializer)
        yield from (Tensor(one.values.data_type, tuple(one.dims)) for one in graph.sparse_initializer)
        for inner in graph.node:
            if is_standard(inner) and inner.op_type == "Constant":
                yield from map(_attribute_tensor, inner.attribute)
            yield from _inner_constants(inner)


def _attribute_tensor(attribute: onnx.AttributeProto) -> Tensor:
    """What the operator Constant outputs, by the attribute in which it stands; strings have no size."""
    kinds = packages().TensorProto
    if attribute.HasField("t"):
        return Tensor(attribute.t.data_type, tuple(attribute.t.dims))
    if attribute.HasField("sparse_tensor"):
        return Tensor(attribute.sparse_tensor.values.data_type, tuple(attribute.sparse_tensor.dims))
    known = {
        "value_float": (kinds.FLOAT, ()),
        "value_floats": (kinds.FLOAT, (len(attribute.floats),)),
        "value_int": (kinds.INT64, ()),
        "value_ints": (kinds.INT64, (len(attribute.ints),)),
    }
    return Tensor(*known[attribute.name]) if attribute.name in known else UNKNOWN


def _attributes(model: onnx.ModelProto, shapes: Shapes) -> dict[str, object]:
    about: dict[str, object] = {
        "operator sets": {domain or "ai.onnx": version for domain, version in operator_sets(model).items()},
        "inputs": {
            value.name: list(shape)
            for value in graph_inputs(model.graph)
            if (shape := shapes.of(value.name).shape) is not None
        },
    }
    producer = f"{model.producer_name} {model.producer_version}".strip()
    return {**about, "producer": producer} if producer else about


# --- The branch of an If whose condition is known, in place of the operator.  ---------------------------------

# y = If(yes) {then: t = Exp(x); u = Neg(t)}        t = Exp(x)    y = Neg(t)


def known_branches(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, bool]:
    """By first output of each If of the graph whose condition is known: is it true?"""
    return {
        node.output[0]: bool(shapes.values[node.input[0]].all())
        for node in graph.node
        if is_standard(node) and node.op_type == "If" and node.input and node.input[0] in shapes.values
        and node.input[0] not in shapes.in_doubt and shapes.values[node.input[0]].size == 1
        and node.output and node.output[0]
    }  # fmt: skip


def take_branches(graph: onnx.GraphProto, taken: Mapping[str, bool]) -> None:
    """Put the branch that is taken in place of each If that `known_branches` found."""
    nodes = list(graph.node)
    used = set(all_names(graph))
    new: list[onnx.NodeProto] = []
    for node in nodes:
        if node.op_type == "If" and node.output and node.output[0] in taken:
            wanted = "then_branch" if taken[node.output[0]] else "else_branch"
            branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
            new.extend(_unwrapped(node, branch, graph, used))
        else:
            copy = type(node)()
            copy.CopyFrom(node)
            new.append(copy)
    del graph.node[:]
    graph.node.extend(new)


def _unwrapped(
    node: onnx.NodeProto, branch: onnx.GraphProto, graph: onnx.GraphProto, used: set[str]
) -> list[onnx.NodeProto]:
    """The operators of a branch, with names that are free in the graph, to which its constants are added."""
    made = [name for inner in branch.node for name in inner.output if name]
    names: dict[str, str] = {}
    copied = []
    for name, value in zip(node.output, branch.output, strict=False):
        if name and value.name in made and value.name not in names:
            names[value.name] = name
        elif name:
            copied.append((value.name, name))
    for name in (*initializer_names(branch), *made):
        names.setdefault(name, fresh(f"{node.output[0]}/{name}", used))
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    for sparse in branch.sparse_initializer:
        graph.sparse_initializer.add().CopyFrom(sparse)
        graph.sparse_initializer[-1].values.name = names[sparse.values.name]
    for value in branch.value_info:
        if value.name in names:
            graph.value_info.add().CopyFrom(value)
            graph.value_info[-1].name = names[value.name]
    found = []
    for inner in branch.node:
        new = type(inner)()
        new.CopyFrom(inner)
        if node.name and inner.name:
            new.name = f"{node.name}/{inner.name}"
        new.output[:] = [names.get(name, name) for name in inner.output]
        rename_reads(new, names)
        found.append(new)
    make = packages().helper.make_node
    return found + [make("Identity", [names.get(name, name)], [given]) for name, given in copied]
