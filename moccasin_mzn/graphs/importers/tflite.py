"""TFLite models to computation graphs: a node for each tensor in the arena, and one that reads all results last. ::

    input 0, input 1      the inputs of the network: there before anything is computed, by `computed_once`
    inputs                of size 0: reads all inputs, where operators read none of the tensors in the arena
    0, 1, 2, ...          operators, by their position in the file; the largest output of each
    2.1, 2.3              the other outputs of operator 2, by their place
    results

Sizes are bytes; durations are multiply-adds of convolutions and matrix products, one for each output byte of what
copies, and one for each element of others; `tflite_operators` has what operators of one output read. Weights are fixed
memory, and so are weights that are unpacked: TensorFlow Lite does that once, see `unpacking`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from operator import add
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, located, missing, shown
from moccasin_mzn.base.files import load_bytes
from moccasin_mzn.graphs.access_maps import read_of
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.tflite_operators import Case, Value, accesses, accumulator
from moccasin_mzn.graphs.importers.tflite_state import ACCESSES, ONCE, STATE, Access, Variable, state_edges
from moccasin_mzn.graphs.operators import Operator

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT, TensorT

SIZE_LIMIT = 2**31
"""Most bytes of a file: the limit of the format."""
ALIGNMENT = 16
"""Bytes that offsets of tensors in the arena of TensorFlow Lite Micro are multiples of."""
INPUTS = "inputs"
"""The node that reads all inputs of the network, and that is read by each operator which else would read no node, so
that none comes before the inputs: they are written before a network runs. Of size 0, it extends no life."""
RESULTS = "results"
"""The node that reads all outputs of the network, so that they are retained to the end."""
_INNER = ("thenSubgraphIndex", "elseSubgraphIndex", "condSubgraphIndex", "bodySubgraphIndex", "initSubgraphIndex")
"""Options of operators that run other subgraphs: IF, WHILE and CALL_ONCE."""
COPYING = frozenset(
    """
    BATCH_TO_SPACE_ND BROADCAST_TO CAST CONCATENATION DEPTH_TO_SPACE EXPAND_DIMS FILL GATHER GATHER_ND MIRROR_PAD PACK
    PAD PADV2 RESHAPE REVERSE_V2 SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE
    TRANSPOSE UNPACK
    """.split()  # noqa: SIM905
)
"""Operators that compute nothing."""
_BITS = {
    "FLOAT32": 32, "FLOAT16": 16, "INT32": 32, "UINT8": 8, "INT64": 64, "BOOL": 8, "INT16": 16, "COMPLEX64": 64,
    "INT8": 8, "FLOAT64": 64, "RESOURCE": 0, "COMPLEX128": 128, "UINT64": 64, "UINT32": 32, "UINT16": 16, "INT4": 4,
}  # fmt: skip
_NUMBERS_READ = 512
"""Bytes of the largest constant whose numbers are read, such as axes and paddings."""
_DAMAGE = (struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError, UnicodeDecodeError)
"""What the reader of flatbuffers raises where offsets lead nowhere."""


def schema() -> ModuleType:
    """The module with the classes of the format.

    Raises:
        InputError: its package is missing.
    """
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError:
        raise missing("ai-edge-litert", "tflite") from None
    return schema_py_generated


def versions() -> dict[str, str]:
    """Versions of the packages that an import depends on."""
    import importlib.metadata

    return {"ai-edge-litert": importlib.metadata.version("ai-edge-litert")}


def import_tflite(path: str | PathLike[str], *, inputs_in_arena: bool = True) -> ComputationGraph:
    """The graph of a TFLite model.

    Args:
        inputs_in_arena: see `graph_of`.

    Raises:
        InputError: see `read_model` and `graph_of`.
    """
    model = read_model(path)
    with located(path):
        return graph_of(model, Path(path).stem, inputs_in_arena=inputs_in_arena)


def read_model(path: str | PathLike[str]) -> ModelT:
    """A model as an object of the class `ModelT` of `schema`.

    Raises:
        InputError: the package, or the file, cannot be read; it is no TFLite model, or damaged; it has subgraphs that
            no operator of the first one runs, or tensors with state, which no order but its own is known to keep.
    """
    classes = schema()
    with located(path):
        data = load_bytes(path, SIZE_LIMIT)
        if data[4:8] != b"TFL3":
            raise InputError("is no TFLite model")
        try:
            model = classes.ModelT.InitFromPackedBuf(data, 0)
            count = len(model.subgraphs)
            run = {0, *(at for operator in model.subgraphs[0].operators for at in _inner(operator))}
            variable = any(tensor.isVariable for subgraph in model.subgraphs for tensor in subgraph.tensors or ())
        except _DAMAGE:
            raise InputError("is no TFLite model, or damaged") from None
        if variable:
            raise InputError("a model with state in tensors cannot be scheduled, one with state in variables can")
        if run != set(range(count)):
            raise InputError(f"a model of {count} subgraphs, of which the operators of the first run {len(run) - 1}")
    return model


@dataclass(frozen=True)
class Node:
    """What a node of the graph stands for."""

    id: NodeId
    operator: int | None
    """Position of the operator; None: an input of the network, or what reads all inputs or all results."""
    tensor: int | None
    """None: the operator outputs none, or the node is what reads all inputs or all results."""
    first: int | None = None
    """For a further output the position of the node of the first one; None: this is it."""


def nodes_of(model: ModelT, *, inputs_in_arena: bool = True) -> tuple[Node, ...]:
    """The nodes of a model's graph, in their order."""
    subgraph, once = model.subgraphs[0], unpacking(model)
    nodes: list[Node] = []

    def add(operator: int | None, tensors: Sequence[int], name: str, own: NodeId | None = None) -> None:
        """The largest first, as `own`: a further output has memory only where the first one has."""
        largest = max(range(len(tensors)), key=lambda k: size_of(model, tensors[k]))
        first = len(nodes)
        nodes.append(Node(f"{name}{largest}" if own is None else own, operator, tensors[largest]))
        nodes.extend(Node(f"{name}{k}", operator, x, first) for k, x in enumerate(tensors) if k != largest)

    given = [int(x) for x in subgraph.inputs] if inputs_in_arena else []
    if given:
        add(None, given, "input ")
        computed = {*given, *(x for at, made in enumerate(subgraph.operators) if at not in once for x in outputs(made))}
        if any(computed.isdisjoint(inputs(of)) for at, of in enumerate(subgraph.operators) if at not in once):
            nodes.append(Node(INPUTS, None, None))
    for at, operator in enumerate(subgraph.operators):
        made = outputs(operator)
        if at not in once and made:
            add(at, made, f"{at}.", at)
        elif at not in once:
            nodes.append(Node(at, at, None))
    return (*nodes, Node(RESULTS, None, None))


def graph_of(
    model: ModelT, name: str = "", *, inputs_in_arena: bool = True, with_operators: bool = True
) -> ComputationGraph:  # fmt: skip
    """The graph of a model; see the module.

    Args:
        with_operators: the graph knows what its nodes compute, so that it can be cut.
        inputs_in_arena: the inputs of the network are tensors in the arena until their last read, as in TensorFlow Lite
            and TensorFlow Lite Micro; otherwise they are fixed memory, of the caller's.

    Raises:
        InputError: a tensor without a size, or that two operators output; an operator that reads what a later one
            outputs, or a tensor that is not there, or has no data and comes from nowhere.
    """
    try:
        return _graph(model, name, inputs_in_arena=inputs_in_arena, with_operators=with_operators)
    except InputError:
        raise
    except _DAMAGE:
        raise InputError("the model is damaged") from None


def _graph(
    model: ModelT, name: str, *, inputs_in_arena: bool, reordered: bool = True, with_operators: bool = True
) -> ComputationGraph:  # fmt: skip
    """See `graph_of`; nothing keeps the order of variables in what is not `reordered`."""
    subgraph = model.subgraphs[0]
    _check_tensors(model)
    nodes = nodes_of(model, inputs_in_arena=inputs_in_arena)
    sources, operators = _sources(model, nodes), subgraph.operators
    by_node = [None if node.operator is None or node.first is not None else operators[node.operator] for node in nodes]
    reads = _reads(model, nodes, by_node, sources)
    names = [None if node.operator is None else operator_name(model, operators[node.operator]) for node in nodes]
    known = [(u, v) for v, found in enumerate(reads) for u in found]
    weights = {x for op in operators for x in inputs(op) if x not in sources}
    fixed = {"parameters": sum(size_of(model, x) for x in weights)}
    caller = {} if inputs_in_arena else {"inputs": sum(size_of(model, int(x)) for x in subgraph.inputs)}
    return ComputationGraph(
        nodes=tuple(node.id for node in nodes),
        durations=tuple(0 if operator is None else _multiply_adds(model, operator) for operator in by_node),
        workspaces=tuple(0 if operator is None else _inner_peak(model, operator) for operator in by_node),
        sizes=tuple(0 if node.tensor is None else size_of(model, node.tensor) for node in nodes),
        edges=tuple(dict.fromkeys((*known, *(_state_edges(model, nodes, by_node, known) if reordered else ())))),
        order=range(len(nodes)), name=name,
        labels=tuple(_label(node, kind) for node, kind in zip(nodes, names, strict=True)),
        duration_unit="MAC", size_unit="byte",
        computed_once=tuple(
            v for v, node in enumerate(nodes)
            if (node.id != RESULTS if node.operator is None else is_once(model, operators[node.operator]))
        ),
        operators=tuple(
            None if operator is None or any(nodes[u].id == INPUTS for u in found)
            else _operator(model, operator, sources)
            for operator, found in zip(by_node, reads, strict=True)
        ) if with_operators else None,
        fixed_memory={**caller, **fixed},
        output_of=tuple(node.first for node in nodes),
    )  # fmt: skip


def _check_tensors(model: ModelT) -> None:
    """Refuse tensors that are read, but are neither outputs, nor inputs, nor constants."""
    subgraph = model.subgraphs[0]
    there = {int(x) for x in subgraph.inputs} | producers(model).keys()
    read = [(f"operator {at}, {operator_name(model, of)}", inputs(of)) for at, of in enumerate(subgraph.operators)]
    for who, tensors in (*read, ("the network as its output", map(int, subgraph.outputs))):
        for x in tensors:
            if x not in there and not _has_data(model, x):
                raise InputError(f"{_tensor_text(model, x)}, read by {who}, has no data, and no operator puts it out")


def _has_data(model: ModelT, x: int) -> bool:
    tensor = model.subgraphs[0].tensors[x]
    buffer = model.buffers[tensor.buffer]
    elsewhere = buffer.offset or getattr(tensor, "externalBuffer", 0)  # behind the model, or in another file
    return (buffer.data is not None and len(buffer.data) > 0) or bool(elsewhere) or not size_of(model, x)


def _reads(
    model: ModelT, nodes: Sequence[Node], by_node: Sequence[OperatorT | None], sources: Mapping[int, int | None]
) -> list[list[int]]:
    """The nodes that each node reads."""
    read = [[] if operator is None else inputs(operator) for operator in by_node]
    read[-1] = [int(x) for x in model.subgraphs[0].outputs]
    reads = [sorted({u for x in found if (u := sources.get(x)) is not None}) for found in read]
    for given in (v for v, node in enumerate(nodes) if node.id == INPUTS):  # none, or one
        for v, operator in enumerate(by_node):
            if operator is not None and not reads[v]:
                reads[v] = [given]
        reads[given] = [*range(given)]
    return reads


def _state_edges(
    model: ModelT, nodes: Sequence[Node], by_node: Sequence[OperatorT | None], edges: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """See `tflite_state`."""
    begin, touching, variables = [], [], _variables(model)
    for v, (node, operator) in enumerate(zip(nodes, by_node, strict=True)):
        if operator is None:
            continue
        name = operator_name(model, operator)
        if name == "CALL_ONCE":
            begin.append(v)
        elif not ACCESSES.isdisjoint(_kinds(model, operator)):
            touching.append(Access(v, node.id, name, variables.get(next(iter(inputs(operator)), -1))))
    return state_edges(begin, touching, edges, len(nodes) - 1)


def _variables(model: ModelT) -> dict[int, Variable]:
    """By tensor that is a handle, the variable that it is of."""
    found = {}
    for operator in model.subgraphs[0].operators:
        if operator_name(model, operator) == "VAR_HANDLE":
            of = operator.builtinOptions
            texts = (of.container or b"", of.sharedName or b"")
            container, name = (text.encode() if isinstance(text, str) else text for text in texts)
            found.update(dict.fromkeys(outputs(operator), (container, name)))
    return found


def _label(node: Node, kind: str | None) -> str:
    return str(node.id) if kind is None else f"{kind} {node.id}"


def _inner(operator: OperatorT) -> list[int]:
    """The subgraphs that an operator runs."""
    return [int(at) for name in _INNER if (at := getattr(operator.builtinOptions, name, None)) is not None]


def _kinds(model: ModelT, operator: OperatorT) -> set[str]:
    """The names of an operator and of those in the subgraphs that it runs."""
    inner = (each for at in _inner(operator) for each in model.subgraphs[at].operators or ())
    return {operator_name(model, each) for each in (operator, *inner)}


def is_once(model: ModelT, operator: OperatorT) -> bool:
    """Whether an operator, or one in a subgraph that it runs, depends on chance or on state."""
    return not ONCE.isdisjoint(_kinds(model, operator))


def _inner_graphs(model: ModelT, operator: OperatorT) -> list[ComputationGraph]:
    """The graphs of these subgraphs."""
    found = []
    for at in _inner(operator):
        alone = copy(model)
        alone.subgraphs = [model.subgraphs[at]]
        if any(_inner(inner) for inner in model.subgraphs[at].operators or ()):
            raise InputError(f"subgraph {at} runs another one")
        with located(f"subgraph {at}"):
            found.append(_graph(alone, "", inputs_in_arena=True, reordered=False))
    return found


def _inner_peak(model: ModelT, operator: OperatorT) -> int:
    """Bytes that the subgraphs which an operator runs take, one at a time, in the order of the file."""
    return max((_peak(graph) for graph in _inner_graphs(model, operator)), default=0)


def _peak(graph: ComputationGraph) -> int:
    last = [max(readers, default=v) for v, readers in enumerate(graph.successors)]
    resident = (sum(graph.sizes[u] for u in range(v + 1) if last[u] >= v) for v in range(len(graph.nodes)))
    return max(map(add, resident, graph.workspace_of))


def producers(model: ModelT) -> dict[int, int]:
    """By tensor that an operator outputs: which one.

    Raises:
        InputError: two output the same.
    """
    found: dict[int, int] = {}
    for at, operator in enumerate(model.subgraphs[0].operators):
        for x in outputs(operator):
            if found.setdefault(x, at) != at:
                raise InputError(f"operators {found[x]} and {at} put out the same tensor {x}")
    return found


def unpacking(model: ModelT) -> set[int]:
    """Positions of the operators that unpack stored weights: from half precision, or sparse ones.

    TensorFlow Lite and LiteRT compute them once and keep their outputs outside the arena; TensorFlow Lite Micro has
    neither kind. Weights of 8 bits it dequantizes in each run, in the arena: these are operators as others are.
    """
    subgraph, found = model.subgraphs[0], set()
    half, stored = schema().TensorType.FLOAT16, set(range(len(subgraph.tensors)))
    stored -= {int(x) for x in subgraph.inputs} | producers(model).keys()
    for at, operator in enumerate(subgraph.operators):
        name, read = operator_name(model, operator), inputs(operator)
        unpacks = name == "DENSIFY" or (name == "DEQUANTIZE" and subgraph.tensors[read[0]].type == half)
        if unpacks and stored.issuperset(read):
            found.add(at)
            stored.update(outputs(operator))
    return found


def inputs(operator: OperatorT) -> list[int]:
    """The tensors that an operator reads, without those that it may have and has not."""
    return [] if operator.inputs is None else [int(x) for x in operator.inputs if x >= 0]


def outputs(operator: OperatorT) -> list[int]:
    """The tensors that an operator outputs."""
    return [] if operator.outputs is None else [int(x) for x in operator.outputs if x >= 0]


def size_of(model: ModelT, x: int) -> int:
    """Bytes of a tensor.

    Raises:
        InputError: it has no known size.
    """
    kind, shape = type_name(model, x), _shape(model, x)
    bits = _BITS.get(kind)
    if bits is None or any(side < 0 for side in shape):
        raise InputError(f"{_tensor_text(model, x)}: no size is known of {kind or None} {shape}")
    return -(-math.prod(shape) * bits // 8)


def _tensor_text(model: ModelT, x: int) -> str:
    name = model.subgraphs[0].tensors[x].name
    return f"tensor {x} ({shown(name.decode(errors='replace') if isinstance(name, bytes) else name)})"


def operator_name(model: ModelT, operator: OperatorT) -> str:
    """Such as "CONV_2D"."""
    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return _operator_names().get(number, str(number))


@cache
def _operator_names() -> dict[int, str]:
    pairs = [(value, name) for name, value in vars(schema().BuiltinOperator).items() if isinstance(value, int)]
    return dict(reversed(pairs))  # of two names of a number the first


@cache
def _type_names() -> dict[int, str]:
    return {value: name for name, value in vars(schema().TensorType).items() if name.isupper()}


def _shape(model: ModelT, x: int) -> list[int]:
    shape = model.subgraphs[0].tensors[x].shape
    return [] if shape is None else [int(side) for side in shape]


def type_name(model: ModelT, x: int) -> str:
    """The type of a tensor, such as "INT8"; empty if it is not known."""
    return _type_names().get(model.subgraphs[0].tensors[x].type, "")


def sources_of(model: ModelT, *, inputs_in_arena: bool = True) -> dict[int, int | None]:
    """By tensor the position of its node, None: an input of the network of the caller's; the others are parameters."""
    return _sources(model, nodes_of(model, inputs_in_arena=inputs_in_arena))


def _sources(model: ModelT, nodes: Sequence[Node]) -> dict[int, int | None]:
    found: dict[int, int | None] = {int(x): None for x in model.subgraphs[0].inputs}
    return found | {node.tensor: v for v, node in enumerate(nodes) if node.tensor is not None}


def case_of(model: ModelT, operator: OperatorT, sources: Mapping[int, int | None]) -> Case:
    """An operator of one output with the shapes of what it reads.

    Args:
        sources: of `sources_of`.
    """
    read, (made,) = inputs(operator), outputs(operator)
    values = tuple(_value(model, x, constant=x not in sources) for x in read)
    return Case(operator_name(model, operator), operator.builtinOptions, values, _value(model, made))


def _operator(model: ModelT, operator: OperatorT, sources: Mapping[int, int | None]) -> Operator | None:
    """What the operator computes; None if it has not one output, or has to do with variables."""
    if len(outputs(operator)) != 1 or not STATE.isdisjoint(_kinds(model, operator)):
        return None
    read, case = inputs(operator), case_of(model, operator, sources)
    found, shape = accesses(case), case.put_out.shape
    known = (
        read_of(sources[x], case.read[at].shape, found.get(at), shape) for at, x in enumerate(read) if x in sources
    )
    reads = tuple(known)
    steps = accumulator(case) if found and len(reads) == 1 else 0
    return Operator(case.name, shape, reads, steps, _only_joins(model, operator))


def _only_joins(model: ModelT, operator: OperatorT) -> bool:
    """True for a concatenation without an activation, of tensors that are quantized as its output is."""
    if operator_name(model, operator) != "CONCATENATION" or operator.builtinOptions.fusedActivationFunction:
        return False
    tensors = [model.subgraphs[0].tensors[x] for x in (*inputs(operator), *outputs(operator))]
    return len({(tensor.type, *_quantization(tensor)) for tensor in tensors}) == 1


def _quantization(tensor: TensorT) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and zero points of a tensor; none if it is not quantized."""
    given = tensor.quantization
    scales, zeros = (None, None) if given is None else (given.scale, given.zeroPoint)
    return tuple(() if scales is None else map(float, scales)), tuple(() if zeros is None else map(int, zeros))


def _value(model: ModelT, x: int, *, constant: bool = False) -> Value:
    import numpy as np

    kind, numbers = type_name(model, x), None
    data = model.buffers[model.subgraphs[0].tensors[x].buffer].data if constant else None
    if data is not None and kind in ("INT32", "INT64") and len(data) <= _NUMBERS_READ:
        numbers = tuple(np.asarray(data, np.uint8).view(f"<i{_BITS[kind] // 8}").tolist())
    return Value(tuple(_shape(model, x)), kind, numbers)


def _multiply_adds(model: ModelT, operator: OperatorT) -> int:
    name, read = operator_name(model, operator), inputs(operator)
    if _inner(operator):
        return max(graph.total_duration for graph in _inner_graphs(model, operator))
    elements = sum(math.prod(_shape(model, x)) for x in outputs(operator))
    shapes = [_shape(model, x) for x in read]
    if name == "CONV_2D":
        return elements * math.prod(shapes[1][1:])
    if name == "DEPTHWISE_CONV_2D":
        return elements * math.prod(shapes[1][1:3])
    if name == "TRANSPOSE_CONV":
        return math.prod(shapes[2]) * math.prod(shapes[1][:3])
    if name in ("FULLY_CONNECTED", "BATCH_MATMUL"):
        return elements * (shapes[1][-1] if name == "FULLY_CONNECTED" else shapes[0][-1])
    if name in COPYING:
        return sum(size_of(model, x) for x in outputs(operator))
    if name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        return elements * operator.builtinOptions.filterHeight * operator.builtinOptions.filterWidth
    return elements
