"""Which operation of a traced PyTorch program writes which memory.

    conv ---> native_batch_norm ---> relu_ ---> view ---> addmm        traced, `relu_` overwrites its input
    conv ---> native_batch_norm + relu_ ------> view ---> addmm        operations: the two are one

Views are told by the operator's schema, where an output carries the alias of an input; tuple plumbing is a view too. An
operation that overwrites memory becomes one with the operation that wrote it before, if nothing has read it in between:
the size is counted once, as in a real run, and computing the two again cannot spoil anything. If something has read it,
or if it is an input of the network or a constant, then a schedule that recomputes could spoil it: the operation gets
memory of its own, as if it copied. Writes to buffers and parameters stay there and have size 0.

An operator with several outputs is one operation, but for two exceptions; see `torch_nodes.output_groups`.

What depends on no input of the network (transposes of weights, masks, positions) is no operation here: it is computed
once beforehand. The memory of what is read of it is given as `constants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moccasin_mzn.importers.program import Operation, known_total, unique_names
from moccasin_mzn.importers.torch_nodes import (
    allocated_tensors,
    elements_of,
    group_duration,
    group_tensors,
    kind_of,
    needed_nodes,
    output_groups,
    storage_bytes,
    tensor_bytes,
    viewed_argument,
    written_arguments,
)

if TYPE_CHECKING:
    from torch import fx

INPUT, STATE, CONSTANT = "input", "state", "constant"
"""What a placeholder is: an input of the network; a parameter or buffer; another tensor."""

_ALL = -1


@dataclass(frozen=True)
class Member:
    """A traced node that an operation is made of."""

    node: str
    """Its name."""
    outputs: tuple[int, ...]
    """Those of its outputs that the operation makes; empty: all."""


@dataclass(frozen=True)
class Accounted:
    """Operations of a traced program."""

    operations: tuple[Operation, ...]
    results: tuple[str, ...]
    members: Mapping[str, tuple[Member, ...]] = field(hash=False)
    """For each operation that is no view the traced nodes it is made of, the first one giving its name."""
    constants: int
    """Bytes of all that depends on no input of the network and is neither parameter nor buffer, but is read."""


@dataclass(eq=False)
class _Memory:
    kind: str
    """`INPUT`, `STATE`, `CONSTANT`, or "computed"."""
    size: int = 0
    writer: _Writer | None = None
    """The latest operation that wrote it; None: what depends on no input, or the input itself."""
    version: int = 0
    read: bool = False
    """By something other than views, since it was last written."""
    views: list[str] = field(default_factory=list)
    """Names of views of the latest version."""

    @property
    def live(self) -> bool:
        """True if what it holds depends on an input of the network."""
        return self.writer is not None or self.kind == INPUT


@dataclass(frozen=True, eq=False)
class _Writer:
    name: str
    kind: str
    inputs: tuple[str, ...]
    size: int | None
    elements: int | None
    duration: int | None
    backward: bool
    members: tuple[Member, ...]
    view: bool = False

    def operation(self) -> Operation:
        return Operation(
            self.name, self.kind, self.inputs, self.size, self.elements, self.duration, self.view, self.backward
        )


@dataclass(frozen=True, eq=False)
class _Value:
    memory: _Memory
    name: str | None
    version: int

    @property
    def source(self) -> str | None:
        """The operation to name as an input for reading this now; None if there is none."""
        if self.memory.writer is None:
            return None
        return self.name if self.version == self.memory.version else self.memory.writer.name


def account(graph: fx.Graph, kinds: Mapping[str, str], backward: frozenset[str]) -> Accounted:
    """Follow the memory through a traced graph.

    Args:
        graph: of operators as they are executed; every node with its value in `meta["val"]`.
        kinds: for each placeholder by name `INPUT`, `STATE` or `CONSTANT`; what the graph fetches is a constant.
        backward: names of nodes in the backward pass.
    """
    return _Accountant(graph, kinds, backward).run()


class _Accountant:
    def __init__(self, graph: fx.Graph, kinds: Mapping[str, str], backward: frozenset[str]) -> None:
        self.nodes = list(graph.nodes)
        self.needed = needed_nodes(self.nodes)
        self.kinds = kinds
        self.backward = backward
        self.names = dict(zip(self.nodes, unique_names(node.name for node in self.nodes), strict=True))
        self.taken = set(self.names.values())
        self.values: dict[fx.Node, dict[int, _Value]] = {}
        """By number of output, where an operator has several groups of them; else all are `ALL`."""
        self.writers: dict[str, _Writer] = {}
        self.shared: set[str] = set()
        """Names of operations that wrote several memories."""
        self.constants: dict[int, _Memory] = {}
        self.results: list[str] = []

    def run(self) -> Accounted:
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                kind = self.kinds.get(node.name, CONSTANT)
                self._set(node, _Value(_Memory(kind, storage_bytes(node.meta.get("val"))), None, 0))
            elif node.op == "output":
                sources = (value.source for read in node.all_input_nodes for value in self._of(read))
                self.results = [source for source in dict.fromkeys(sources) if source is not None]
            else:
                self._call(node)
        return Accounted(
            tuple(writer.operation() for writer in self.writers.values()),
            tuple(self.results),
            {name: writer.members for name, writer in self.writers.items() if not writer.view},
            sum(memory.size for memory in self.constants.values()),
        )

    def _set(self, node: fx.Node, value: _Value) -> None:
        self.values[node] = {_ALL: value}

    def _of(self, node: fx.Node) -> list[_Value]:
        return list(self.values.get(node, {}).values())

    def _call(self, node: fx.Node) -> None:
        reads = [value for read in node.all_input_nodes for value in self._of(read)]
        written = [value for argument in written_arguments(node) for value in self._of(argument)]
        allocated = allocated_tensors(node)
        viewed = viewed_argument(node)
        if not written and not allocated and viewed in self.values:
            outputs = self.values[viewed]
            number = node.args[1] if len(outputs) > 1 else _ALL  # of groups, only a getitem is a view
            self._view(node, outputs.get(number, next(iter(outputs.values()))))
        elif not written or allocated:
            self._compute(node, reads)
        elif any(read.memory.live for read in reads):
            self._overwrite(node, reads, written)
        else:  # a counter of batches, a mask being filled: as fixed as it was
            self._set(node, _Value(written[0].memory, None, 0))

    def _view(self, node: fx.Node, base: _Value) -> None:
        memory, source = base.memory, base.source
        if source is not None:
            name, backward = self.names[node], node.name in self.backward
            self.writers[name] = _Writer(name, kind_of(node), (source,), 0, 0, 0, backward, (), True)
            memory.views.append(name)
            source = name
        self._set(node, _Value(memory, source, memory.version))

    def _compute(self, node: fx.Node, reads: list[_Value]) -> None:
        if not any(read.memory.live for read in reads):
            tensors = allocated_tensors(node) or []
            self._set(node, _Value(_Memory(CONSTANT, known_total(map(tensor_bytes, tensors)) or 0), None, 0))
            return
        self._read(read.memory for read in reads)
        outputs = self.values[node] = {}
        for at, group in enumerate(output_groups(node, self.needed)):
            writer = self._writer(node, group, reads, group_tensors(node, group), side=at > 0)
            memory = _Memory("computed", writer.size or 0)
            self._written(memory, writer)
            value = _Value(memory, writer.name, memory.version)
            outputs.update(dict.fromkeys(group or (_ALL,), value))
        if len({value.memory for value in outputs.values()}) == 1:
            self._set(node, value)

    def _overwrite(self, node: fx.Node, reads: list[_Value], written: list[_Value]) -> None:
        memories = list(dict.fromkeys(value.memory for value in written))
        self._read(read.memory for read in reads if read.memory not in memories)
        memory, previous = memories[0], memories[0].writer
        backward = node.name in self.backward
        alone = len(memories) == 1 and previous is not None and previous.name not in self.shared
        if alone and not memory.read and previous.backward == backward:
            for name in (previous.name, *memory.views):
                del self.writers[name]
            second = self._writer(node, (), reads, [])
            del self.writers[second.name]
            writer = _fused(previous, second, {previous.name, *memory.views})
        else:
            values = [argument.meta.get("val") for argument in written_arguments(node)]
            size = sum(storage_bytes(value) for value, target in zip(values, written, strict=True)
                       if target.memory.kind != STATE)  # fmt: skip
            writer = replace(self._writer(node, (), reads, []), size=size, elements=elements_of(values))
        self.writers[writer.name] = writer
        if len(memories) > 1:
            self.shared.add(writer.name)
        for each in memories:
            self._written(each, writer)
        self._set(node, _Value(memory, writer.name, memory.version))

    def _writer(
        self, node: fx.Node, group: Sequence[int], reads: list[_Value], tensors: list | None, side: bool = False
    ) -> _Writer:
        """The operation of a traced node that makes these tensors, a group of its outputs."""
        numbers = ", ".join(map(str, group))
        writer = _Writer(
            name=self._side_name(node, group) if side else self.names[node],
            kind=f"{kind_of(node)} [output{'s' * (len(group) > 1)} {numbers}]" if side else kind_of(node),
            inputs=tuple(dict.fromkeys(read.source for read in reads if read.source is not None)),
            size=None if tensors is None else known_total(map(tensor_bytes, tensors)),
            elements=elements_of(tensors),
            duration=group_duration(node, group),
            backward=node.name in self.backward,
            members=(Member(node.name, tuple(group)),),
        )
        self.writers[writer.name] = writer
        return writer

    def _side_name(self, node: fx.Node, group: Sequence[int]) -> str:
        name = f"{self.names[node]}_output_{'_'.join(map(str, group))}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _read(self, memories: Iterable[_Memory]) -> None:
        for memory in memories:
            memory.read = True
            if memory.kind == CONSTANT and memory.writer is None:
                self.constants[id(memory)] = memory

    @staticmethod
    def _written(memory: _Memory, writer: _Writer) -> None:
        memory.writer = writer
        memory.version += 1
        memory.read = False
        memory.views = []


def _fused(first: _Writer, second: _Writer, own: set[str]) -> _Writer:
    """Two operations as one, where the second overwrites what the first wrote, known by the names `own`."""
    durations = (first.duration, second.duration)
    return replace(
        first,
        kind=f"{first.kind} + {second.kind}",
        inputs=tuple(dict.fromkeys(name for name in (*first.inputs, *second.inputs) if name not in own)),
        duration=known_total(durations),
        members=first.members + second.members,
    )
