"""ONNX Runtime in the order of the file, and what a model takes in it.

By default ONNX Runtime orders operators by itself, depth first from the outputs, and merges operators that compute the
same, which undoes recomputation. With the options of `in_file_order` it computes in the order of the file: the priority
of an operator is its position in the file, but for Shape and Size, which come as early as they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.importers.onnx.inference import SizesIn, memory_inside
from moccasin_mzn.graphs.importers.onnx.model import graph_inputs, is_standard, reads, subgraphs, title
from moccasin_mzn.graphs.importers.onnx.runtime import (
    Runs,
    inner_name,
    inner_operators,
    number_operators,
    operator_name,
    plain_options,
    profiled_runs,
    runtime,
)
from moccasin_mzn.graphs.importers.onnx.shapes import OF_SHAPE, VIEWS, is_elementwise, varies

if TYPE_CHECKING:
    import numpy
    import numpy as np
    import onnx
    import onnxruntime


_BYTES = {
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{"float": 4, "double": 8, "float16": 2, "bfloat16": 2, "bool": 1, "complex64": 8, "complex128": 16},
}
"""Bytes of one element, by the name that the profiler has for the type."""


def in_file_order(threads: int = 0) -> onnxruntime.SessionOptions:
    """Options of a session that computes operators in the order of the file, each as often as it is there, and frees a
    value after its last read.

    Args:
        threads: that one operator may use; 0: as many as there are cores.

    Raises:
        InputError: ONNX Runtime is not installed.
    """
    options = plain_options(threads)
    options.execution_order = runtime().ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False  # one block for all values, which are laid out in it as well as they may be
    options.enable_cpu_mem_arena = False  # grows in powers of two, and gives nothing back
    options.enable_mem_reuse = False  # a value that has the memory of a former one holds it from the first to the last
    return options


def options_of(in_order: bool) -> onnxruntime.SessionOptions:
    """Options of a session in one thread, in the order of the file or in that which ONNX Runtime chooses."""
    return in_file_order(1) if in_order else plain_options(1)


def session(path: str | PathLike[str], threads: int = 0) -> onnxruntime.InferenceSession:
    """A session for a model that `deploy` made, with the options of `in_file_order`, on the CPU.

    Raises:
        InputError: ONNX Runtime is not installed. What it raises itself for a file goes through.
    """
    return runtime().InferenceSession(fspath(path), in_file_order(threads), providers=["CPUExecutionProvider"])


@dataclass(frozen=True)
class Measured:
    """A run of a model."""

    outputs: tuple[np.ndarray, ...]
    """In the model's order."""
    order: tuple[int, ...]
    """Positions of the operators of the file in the order in which they were computed."""
    peak: int
    """Most bytes of values at a time, see `onnx_memory`: of this order, with the sizes of this run."""
    late: str | None
    """The first operator that was not computed in the order of the file, or was taken apart; None if absent."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of the values that operators of the file output, by name."""


def measured(
    model: onnx.ModelProto,
    inputs: Mapping[str, numpy.ndarray],
    options: onnxruntime.SessionOptions,
    *,
    shared_views: bool = False,
    in_place: bool = False,
    constants: bool = False,
) -> Measured:
    """Run a model, with its weights inside, and see in which order and with which sizes it was computed.

    Args:
        model: what to run.
        inputs: values by name.
        options: of the session.
        shared_views, in_place, constants: as for `peak_of`.

    Raises:
        InputError: ONNX Runtime cannot run it.
    """
    numbered = type(model)()
    numbered.CopyFrom(model)
    number_operators(numbered)
    runs = profiled_runs(numbered, dict(inputs), 1, options)
    names = {operator_name(at): at for at in range(len(model.graph.node))}
    sizes: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    order = []
    for event in runs.events:
        at = names.get(event["name"])
        if at is not None:
            order.append(at)
            sizes |= _sizes(model.graph.node[at], event["args"])
            shapes |= _shapes(model.graph.node[at], event["args"])
    inside = _inside(model.graph, runs, sizes)
    peak = peak_of(model.graph, order, sizes, inside, shared_views=shared_views, in_place=in_place, constants=constants)
    return Measured(runs.outputs, tuple(order), peak, _late(model.graph, order), shapes)


def _inside(graph: onnx.GraphProto, runs: Runs, sizes: Mapping[str, int]) -> dict[int, int]:
    """Bytes of values inside operators with subgraphs, by their positions, of what was computed there."""
    found = {}
    for at, node in enumerate(graph.node):
        inner = list(inner_operators(node))
        if not inner or node.op_type not in ("If", "Loop", "Scan"):
            continue
        names = {inner_name(at, number): each for number, each in enumerate(inner)}
        seen: dict[str, int] = {}
        for event in runs.events:
            if event["name"] in names:
                for name, size in _sizes(names[event["name"]], event["args"]).items():
                    seen[name] = max(size, seen.get(name, 0))
        found[at] = _memory_inside(node, seen, sizes)
    return found


def _memory_inside(node: onnx.NodeProto, seen: Mapping[str, int], around: Mapping[str, int]) -> int:
    if node.op_type not in ("If", "Loop", "Scan"):
        return 0
    within = SizesIn(lambda name: seen.get(name, 0), lambda inner: _memory_inside(inner, seen, seen))
    return memory_inside(node, [(graph, within) for graph in subgraphs(node)], lambda name: around.get(name, 0)) or 0


def _sizes(node: onnx.NodeProto, record: JsonObject) -> dict[str, int]:
    """Bytes of the output of an operator, by the profiler; all of it as the first, if it does not distinguish them."""
    names = [name for name in node.output if name]
    total = int(record["output_size"])
    sizes = [_tensor_bytes(one) for one in record.get("output_type_shape", ())]
    if len(sizes) != len(names) or sum(sizes) != total:
        sizes = [total] + [0] * (len(names) - 1)
    return dict(zip(names, sizes, strict=True))


def _shapes(node: onnx.NodeProto, record: JsonObject) -> dict[str, tuple[int, ...]]:
    """Shapes of the outputs of an operator, if the profiler has all of them."""
    names, seen = [name for name in node.output if name], record.get("output_type_shape", ())
    return (
        {name: tuple(*one.values()) for name, one in zip(names, seen, strict=True)} if len(names) == len(seen) else {}
    )


def _tensor_bytes(record: Mapping[str, Sequence[int]]) -> int:
    ((kind, shape),) = record.items()
    size = _BYTES.get(kind, 0)
    for dim in shape:
        size *= dim
    return size


def _late(graph: onnx.GraphProto, order: Sequence[int]) -> str | None:
    """The first operator out of order; those that ONNX Runtime moves to no harm, or turns into constants, aside."""
    free = [is_standard(node) and node.op_type in (*OF_SHAPE, "Constant") for node in graph.node]
    expected = [at for at in range(len(graph.node)) if not free[at]]
    found = [at for at in order if not free[at]]
    if expected == found:
        return None
    for at, other in zip(expected, [*found, None], strict=False):
        if at != other:
            return title(graph.node[at])
    return title(graph.node[expected[-1]])


# --- Most memory that the values of an ONNX model take, computed in an order that was seen, with sizes that were
# seen

# A value is there from its computation to its last read, what the model returns to the end. What depends on constants
# alone may count as parameters, not here. Values inside If, Loop and Scan are there while these compute. Not seen is
# what else an operator takes for itself, such as a convolution, and what alignment or an arena waste.


def peak_of(
    graph: onnx.GraphProto, order: Sequence[int], sizes: Mapping[str, int], inside: Mapping[int, int] | None = None,
    *, shared_views: bool = False, in_place: bool = False, constants: bool = False,
) -> int:  # fmt: skip
    """The peak in bytes.

    Args:
        graph: of the model.
        order: positions of the operators in the order in which they were computed.
        sizes: bytes of the values they output.
        inside: bytes that operators take for values in their subgraphs, by position.
        shared_views: Reshape and its like take no memory of their own.
        in_place: so do elementwise operators, and views, whose output is as large as an input that is read no more.
        constants: what depends on constants alone takes memory too, but for what Constant outputs.
    """
    counted = _computed(graph) if constants else _varying(graph)
    last = {name: time for time, at in enumerate(order) for name in (*graph.node[at].output, *reads(graph.node[at]))}
    last |= {value.name: len(order) for value in graph.output}
    root: dict[str, str] = {}
    if shared_views:
        for at in order:
            node = graph.node[at]
            if _is_view(node):
                (name,) = filter(None, node.output)
                root[name] = root.get(node.input[0], node.input[0])
                last[root[name]] = max(last.get(root[name], 0), last[name])
    there: dict[str, int] = {}
    memory = peak = 0
    for time, at in enumerate(order):
        node = graph.node[at]
        born = {name: sizes.get(name, 0) for name in node.output if name in counted and name not in root}
        overwritten = _overwritten(node, born, there, last, root, time) if in_place else None
        memory += 0 if overwritten else sum(born.values())
        there |= born
        if overwritten:
            del there[overwritten]
        peak = max(peak, memory + (inside or {}).get(at, 0))
        for name in {root.get(name, name) for name in (*born, *reads(node), *filter(None, node.output))}:
            if name in there and last[name] == time:
                memory -= there.pop(name)
    return peak


def _overwritten(
    node: onnx.NodeProto, born: Mapping[str, int], there: Mapping[str, int], last: Mapping[str, int],
    root: Mapping[str, str], time: int,
) -> str | None:  # fmt: skip
    """The input in whose memory an operator computes, if there is one."""
    if len(born) != 1 or not (_is_view(node) or is_elementwise(node)):
        return None
    (size,) = born.values()
    for read in node.input[: 1 if _is_view(node) else None]:
        name = root.get(read, read)
        if there.get(name) == size and last[name] == time:
            return name
    return None


def _is_view(node: onnx.NodeProto) -> bool:
    """Can its output be the memory of its first input?"""
    passing = node.op_type == "Dropout" and len(node.input) < 3 and sum(map(bool, node.output)) == 1
    return is_standard(node) and (node.op_type in VIEWS or passing) and bool(node.input and node.input[0])


def _computed(graph: onnx.GraphProto) -> set[str]:
    return {name for node in graph.node if node.op_type != "Constant" for name in node.output if name}


def _varying(graph: onnx.GraphProto) -> set[str]:
    """Values that depend on an input, or on chance."""
    found = {value.name for value in graph_inputs(graph)}
    inputs = frozenset(found)
    for node in graph.node:
        if varies(node) or any(name in found for name in reads(node)):
            found.update(name for name in node.output if name)
    return found - inputs
