"""An ONNX model that computes its operators in the order of a sequence, each as often as it is there. ::

    model      a = Sigmoid(x)    b = Sin(a)    c = Neg(b)    d = Add(a, c)
    sequence   a b c a d

    rewritten  a = Sigmoid(x)    b = Sin(a)    c = Neg(b)    a__2 = Sigmoid(x)    d = Add(a__2, c)

A reader reads the latest computation before it. Operators that the sequence does not know (what depends on constants
alone, and views that share memory) stand before the first that reads them, views after each computation of what they
are views of; those of no use are left out. Values that are known become constants: numbers of Shape and Size, so that
they hold no tensor, and what was folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from moccasin_mzn.graphs.importers.onnx.model import all_names, fresh, initializer_names, packages, reads, rename_reads

if TYPE_CHECKING:
    import onnx

    Record = TypeVar("Record", onnx.ValueInfoProto, onnx.TensorAnnotation)


@dataclass(frozen=True)
class Computation:
    """One computation of an operator."""

    operator: int
    """The operator's position in the model's graph."""
    number: int
    """The how-manieth of this operator it is, from 1."""
    reads: Mapping[str, int]
    """For each value read that some computation outputs the position of that one among all computations."""


@dataclass(frozen=True)
class Execution:
    """All computations of a model in their order, and which of them output what the model returns."""

    computations: tuple[Computation, ...]
    returned: Mapping[str, int]
    """For each output of the model that is computed the position of the computation it comes from."""


def execution_of(graph: onnx.GraphProto, sequence: Sequence[int], described: Iterable[str]) -> Execution:
    """What is computed when the operators of a graph are computed in a sequence.

    Args:
        sequence: positions of operators; each after those it reads.
        described: values that are known, which nothing outputs.
    """
    recording = _Recording(graph, frozenset(sequence), frozenset(described))
    for operator in sequence:
        recording.compute(operator)
    returned = {value.name: recording.maker_of(value.name) for value in graph.output}
    return Execution(
        tuple(recording.computations), {name: maker for name, maker in returned.items() if maker is not None}
    )


class _Recording:
    """Computations so far."""

    def __init__(self, graph: onnx.GraphProto, scheduled: frozenset[int], described: frozenset[str]) -> None:
        self.computations: list[Computation] = []
        self.reads = [reads(node) for node in graph.node]
        self.scheduled = scheduled
        self.operator_of = {
            name: at for at, node in enumerate(graph.node) for name in node.output if name and name not in described
        }
        self.latest: dict[int, int] = {}
        self.counts: Counter[int] = Counter()

    def compute(self, operator: int) -> None:
        """Record a computation of an operator that the sequence has."""
        self._record(operator, {name: self.maker_of(name) for name in self.reads[operator]})

    def maker_of(self, name: str) -> int | None:
        """The latest computation that outputs a value, made now if the sequence has none; None: none does."""
        operator = self.operator_of.get(name)
        if operator is None:
            return None
        if operator not in self.scheduled:
            for each in sorted(self._unscheduled_before(operator)):  # in the order of the file: what is read first
                makers = {read: self._known(read) for read in self.reads[each]}
                former = self.latest.get(each)
                if former is None or self.computations[former].reads != _without_none(makers):
                    self._record(each, makers)
        return self.latest[operator]

    def _known(self, name: str) -> int | None:
        operator = self.operator_of.get(name)
        return None if operator is None else self.latest[operator]

    def _record(self, operator: int, makers: Mapping[str, int | None]) -> None:
        self.counts[operator] += 1
        self.latest[operator] = len(self.computations)
        self.computations.append(Computation(operator, self.counts[operator], _without_none(makers)))

    def _unscheduled_before(self, operator: int) -> set[int]:
        """The operator and all those outside of the sequence that it needs."""
        found, waiting = {operator}, [operator]
        while waiting:
            for name in self.reads[waiting.pop()]:
                needed = self.operator_of.get(name)
                if needed is not None and needed not in self.scheduled and needed not in found:
                    found.add(needed)
                    waiting.append(needed)
        return found


def _without_none(makers: Mapping[str, int | None]) -> dict[str, int]:
    return {name: maker for name, maker in makers.items() if maker is not None}


def rewritten(
    model: onnx.ModelProto, sequence: Sequence[int], known: Mapping[str, onnx.TensorProto]
) -> onnx.ModelProto:
    """The model that computes its operators in the order of a sequence.

    The k-th computation of an operator outputs `name__k` for k > 1, and so do operators' names end; but what the model
    returns comes from the last computation, under its own name. All else stays: weights, inputs, outputs, operator
    sets, metadata, and what the file declares about values.

    Args:
        sequence: see `execution_of`.
        known: values that no operator is to compute, and that are in the new model.
    """
    graph = model.graph
    execution = execution_of(graph, sequence, known)
    names = _names(graph, execution)
    new = type(model)()
    new.CopyFrom(model)
    for field in ("node", "value_info", "quantization_annotation"):
        new.graph.ClearField(field)
    computed = [_computed(graph.node[each.operator], each, at, names) for at, each in enumerate(execution.computations)]
    wanted = {name for node in computed for name in reads(node)} | {value.name for value in graph.output}
    new.graph.node.extend(_constant(name, value) for name, value in known.items() if name in wanted)
    new.graph.node.extend(computed)
    copies: dict[str, list[str]] = {}
    for of_computation in names:
        for name, given in of_computation.items():
            copies.setdefault(name, []).append(given)
    _drop_unread(new.graph, graph)
    kept = {value.name for value in graph.input} | set(initializer_names(new.graph))
    new.graph.value_info.extend(_records_of(graph.value_info, "name", copies, kept))
    new.graph.quantization_annotation.extend(_records_of(graph.quantization_annotation, "tensor_name", copies, kept))
    return new


def _drop_unread(new: onnx.GraphProto, former: onnx.GraphProto) -> None:
    """Drop constants that were read in the former graph, and are no longer."""
    read = {name for node in new.node for name in reads(node)} | {value.name for value in (*new.input, *new.output)}
    dropped = {name for node in former.node for name in reads(node)} - read
    for field in ("initializer", "sparse_initializer"):
        kept = [one for one in getattr(new, field) if (one.name if field[0] == "i" else one.values.name) not in dropped]
        if len(kept) < len(getattr(new, field)):
            new.ClearField(field)
            getattr(new, field).extend(kept)


def _names(graph: onnx.GraphProto, execution: Execution) -> list[dict[str, str]]:
    """For each computation the names of the values that it outputs, by their names in the graph."""
    taken = set(all_names(graph))
    names = []
    for at, each in enumerate(execution.computations):
        given = {}
        for name in graph.node[each.operator].output:
            own = execution.returned[name] == at if name in execution.returned else each.number == 1
            if name:
                given[name] = name if own else fresh(f"{name}__{each.number}", taken)
        names.append(given)
    return names


def _computed(
    node: onnx.NodeProto, computation: Computation, at: int, names: Sequence[Mapping[str, str]]
) -> onnx.NodeProto:
    """The operator as its computation at this position stands in the file; names as of `_names`."""
    new = type(node)()
    new.CopyFrom(node)
    if node.name and computation.number > 1:
        new.name = f"{node.name}__{computation.number}"
    new.output[:] = [names[at].get(name, name) for name in node.output]
    rename_reads(new, {name: names[by][name] for name, by in computation.reads.items() if name != names[by][name]})
    return new


def _records_of(
    records: Iterable[Record], key: str, copies: Mapping[str, Sequence[str]], kept: set[str]
) -> Iterator[Record]:
    """What a file declares about values, for each that there is now."""
    for record in records:
        name = getattr(record, key)
        for given in [name] if name in kept else copies.get(name, ()):
            new = type(record)()
            new.CopyFrom(record)
            setattr(new, key, given)
            yield new


def _constant(name: str, value: onnx.TensorProto) -> onnx.NodeProto:
    return packages().helper.make_node("Constant", [], [name], value=value)
