"""Which operation of a traced PyTorch program writes which memory.

    conv ---> native_batch_norm ---> relu_ ---> view ---> addmm        traced, `relu_` overwrites its input
    conv ---> native_batch_norm + relu_ ------> view ---> addmm        operations: the two are one

Views are known by the operator's schema, where an output carries the alias of an input; tuple plumbing is a view too.
An operation that overwrites memory becomes one with the operation that wrote it before, if nothing has read it in
between: the size is counted once, as in a real run, and recomputing the two cannot spoil anything. If something has
read it, or if it is an input of the network or a constant, then a schedule that recomputes could spoil it: the
operation gets memory of its own, as if it copied: of the whole storage, even if it writes a slice of it only. Writes to
buffers and parameters stay there and have size 0. An operator that both overwrites an input and allocates an output
(the noise of a random relu, running statistics that are computed) does the same, and its output is added; but where
such inputs are buffers or parameters, the write is no more than a part of the operation.

An operator with several outputs is one operation, but for two exceptions; see `torch_nodes.output_groups`. Each of its
outputs is a memory of its own, which may be overwritten without the others. Sizes are those of storages, which may have
more room than the tensor; see `torch_storages`.

What depends on no input of the network (transposes of weights, masks, positions) is no operation here: it is computed
once beforehand. The memory of what is read of it is given as `constants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.program import Operation, known_total, unique_names
from moccasin_mzn.graphs.importers.torch.nodes import (
    allocated_tensors,
    elements_of,
    group_bytes,
    group_duration,
    group_tensors,
    is_masked,
    is_pointwise,
    kind_of,
    needed_nodes,
    output_groups,
    storage_bytes,
    viewed_argument,
    written_arguments,
)

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree


INPUT, STATE, CONSTANT = "input", "state", "constant"
"""What a placeholder is: an input of the network; a parameter or buffer; another tensor."""

_ALL = -1


@dataclass(frozen=True)
class Traced:
    """What the tracer of a mode hands over."""

    graph_module: fx.GraphModule
    """From one flat list of tensors to one flat list of results, as operators run; `meta["val"]` has values."""
    kinds: Mapping[str, str] = field(hash=False)
    """For each placeholder, by name, `INPUT`, `STATE` or `CONSTANT`."""
    backward: frozenset[str] = frozenset()
    """Names of the traced nodes of the backward pass, the loss included."""


@dataclass(frozen=True)
class Member:
    """A traced node that an operation is made of."""

    node: str
    """The operation's name."""
    outputs: tuple[int, ...]
    """The outputs that the operation makes; empty: all."""


@dataclass(frozen=True)
class Accounted:
    """Operations of a traced program."""

    operations: tuple[Operation, ...]
    results: tuple[str, ...]
    members: Mapping[str, tuple[Member, ...]] = field(hash=False)
    """For each operation that is no view the traced nodes it is made of, the first one giving its name."""
    constants: int
    """Bytes of all that depends on no input of the network and is neither parameter nor buffer, but is read, copied
    before it is overwritten, or a result."""


@dataclass(eq=False)
class _Memory:
    kind: str
    """`INPUT`, `STATE`, `CONSTANT`, or "computed"."""
    size: int = 0
    """Bytes of what is not computed."""
    write: _Write | None = None
    """The latest; None: what depends on no input, or the input itself."""

    @property
    def live(self) -> bool:
        """True if what it holds depends on an input of the network."""
        return self.write is not None or self.kind == INPUT


@dataclass(eq=False)
class _Write:
    """What an operation wrote: one memory or several, one for each output and each input that it overwrites."""

    writer: Operation
    memories: list[_Memory] = field(default_factory=list)
    """Some may have been overwritten since."""
    read: bool = False
    """One of them has been, by something other than views."""
    views: list[str] = field(default_factory=list)
    """Names of views of them."""

    def bind(self, memories: Iterable[_Memory]) -> None:
        for memory in memories:
            memory.write = self
            self.memories.append(memory)


@dataclass(frozen=True, eq=False)
class _Value:
    memory: _Memory
    name: str | None = None
    """The operation or view that it is, as long as the memory has not been written again."""
    write: _Write | None = None
    """The latest of the memory when the value was made."""

    @property
    def source(self) -> str | None:
        """The operation to name as an input for reading this now; None if absent."""
        latest = self.memory.write
        if latest is None:
            return None
        return self.name if self.write is latest else latest.writer.name


def account(traced: Traced) -> Accounted:
    """Follow the memory through a traced graph; what the graph fetches is a constant."""
    return _Accountant(traced).run()


class _Accountant:
    def __init__(self, traced: Traced) -> None:
        self.nodes = list(traced.graph_module.graph.nodes)
        self.needed = needed_nodes(self.nodes)
        self.kinds, self.backward = traced.kinds, traced.backward
        self.names = dict(zip(self.nodes, unique_names(node.name for node in self.nodes), strict=True))
        self.taken = set(self.names.values())
        self.values: dict[fx.Node, dict[int, _Value]] = {}
        """By number of output, where an operator has several; else all are `_ALL`."""
        self.writers: dict[str, Operation] = {}
        self.members: dict[str, tuple[Member, ...]] = {}
        self.constants: dict[int, _Memory] = {}
        self.results: list[str] = []

    def run(self) -> Accounted:
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                kind = self.kinds.get(node.name, CONSTANT)
                self._set(node, _Value(_Memory(kind, storage_bytes(node.meta.get("val")))))
            elif node.op == "output":
                values = [value for read in node.all_input_nodes for value in self._of(read)]
                self._read(value.memory for value in values)
                self.results = [source for source in dict.fromkeys(v.source for v in values) if source is not None]
            else:
                self._call(node)
        constants = sum(memory.size for memory in self.constants.values())
        return Accounted(tuple(self.writers.values()), tuple(self.results), self.members, constants)

    def _set(self, node: fx.Node, value: _Value) -> None:
        self.values[node] = {_ALL: value}

    def _of(self, node: fx.Node) -> list[_Value]:
        return list(self.values.get(node, {}).values())

    def _call(self, node: fx.Node) -> None:
        reads = [value for read in node.all_input_nodes for value in self._of(read)]
        written = [value for argument in written_arguments(node) for value in self._of(argument)]
        allocated = allocated_tensors(node)
        if allocated:  # updates of running statistics are part of the operation
            written = [value for value in written if value.memory.kind != STATE]
        viewed = viewed_argument(node)
        if not written and not allocated and viewed in self.values:
            outputs = self.values[viewed]
            number: PyTree = node.args[1] if len(outputs) > 1 else _ALL  # of several outputs, only a getitem is a view
            self._view(node, outputs.get(number, next(iter(outputs.values()))))
        elif any(read.memory.live for read in reads):
            if written:
                self._overwrite(node, reads, written)
            else:
                self._compute(node, reads)
        elif written and not allocated:  # a counter of batches, a mask being filled: as fixed as it was
            self._set(node, _Value(written[0].memory))
        else:
            self._set(node, _Value(_Memory(CONSTANT, (group_bytes(node, ()) if allocated else 0) or 0)))

    def _view(self, node: fx.Node, base: _Value) -> None:
        memory, source = base.memory, base.source
        if memory.write is not None and source is not None:
            name, backward = self.names[node], node.name in self.backward
            self.writers[name] = Operation(name, kind_of(node), (source,), 0, 0, 0, view=True, backward=backward)
            memory.write.views.append(name)
            source = name
        self._set(node, _Value(memory, source, memory.write))

    def _compute(self, node: fx.Node, reads: list[_Value]) -> None:
        self._read(read.memory for read in reads)
        for at, group in enumerate(output_groups(node, self.needed)):
            writer = self._writer(node, group, reads, group_tensors(node, group), side=at > 0)
            self._allocate(node, group, _Write(writer))

    def _allocate(self, node: fx.Node, group: Sequence[int], write: _Write) -> None:
        """A memory for each output of a group: one may be overwritten without the others."""
        made: PyTree = node.meta.get("val")
        several = isinstance(made, (tuple, list)) and len(made) > 0
        values = self.values.setdefault(node, {})
        for number in group or (range(len(made)) if several else (_ALL,)):
            memory = _Memory("computed")
            write.bind([memory])
            values[number] = _Value(memory, write.writer.name, write)

    def _overwrite(self, node: fx.Node, reads: list[_Value], written: list[_Value]) -> None:
        """An operator that writes memory that is there, and may allocate outputs besides."""
        memories = list(dict.fromkeys(value.memory for value in written))
        allocated = bool(allocated_tensors(node))
        groups = output_groups(node, self.needed) if allocated else [()]
        latest = memories[0].write
        alone = latest if latest is not None and len(memories) == len(groups) == 1 and not latest.read else None
        self._read(read.memory for read in reads if read.memory not in memories)
        if alone is not None and alone.writer.backward == (node.name in self.backward):
            writes = [self._fuse(node, groups[0], reads, alone)]
        else:
            writes = self._copy(node, groups, reads, memories)
        if allocated:
            for group, write in zip(groups, writes, strict=True):
                self._allocate(node, group, write)
        elif isinstance(node.meta.get("val"), (tuple, list)) and len(node.meta["val"]) == len(written):
            self.values[node] = {
                number: _Value(value.memory, writes[0].writer.name, writes[0]) for number, value in enumerate(written)
            }
        else:
            self._set(node, _Value(memories[0], writes[0].writer.name, writes[0]))

    def _fuse(self, node: fx.Node, group: Sequence[int], reads: list[_Value], previous: _Write) -> _Write:
        """The node becomes one with the operation that wrote before, if nothing of it has been read."""
        own = {previous.writer.name, *previous.views}
        second = self._writer(node, group, reads, group_tensors(node, group) or [])
        for name in (*own, second.name):
            del self.writers[name]
        writer = _fused(previous.writer, second, own)
        self.writers[writer.name] = writer
        self.members[writer.name] += self.members.pop(second.name)
        write = _Write(writer)
        write.bind(memory for memory in previous.memories if memory.write is previous)
        return write

    def _copy(
        self, node: fx.Node, groups: Sequence[Sequence[int]], reads: list[_Value], memories: list[_Memory]
    ) -> list[_Write]:
        """The node becomes an operation of its own that has a copy of the memories that it writes."""
        values = [argument.meta.get("val") for argument in written_arguments(node)]
        owned = {
            value.memory: storage_bytes(argument.meta.get("val"))
            for argument in written_arguments(node)
            for value in self._of(argument)
            if value.memory.kind != STATE
        }
        first, *side = (
            self._writer(node, group, reads, group_tensors(node, group) or [], side=at > 0)
            for at, group in enumerate(groups)
        )
        first = replace(
            first,
            size=known_total((first.size, sum(owned.values()))),
            elements=known_total((first.elements, elements_of(values))),
        )
        self.writers[first.name] = first
        self._read(memories)
        writes = [_Write(writer) for writer in (first, *side)]
        writes[0].bind(memories)
        return writes

    def _writer(
        self,
        node: fx.Node,
        group: Sequence[int],
        reads: list[_Value],
        tensors: Sequence[torch.Tensor] | None,
        side: bool = False,
    ) -> Operation:  # fmt: skip
        """The operation of a traced node that makes these tensors, a group of its outputs."""
        numbers = ", ".join(map(str, group))
        writer = Operation(
            name=self._side_name(node, group) if side else self.names[node],
            kind=f"{kind_of(node)} [output{'s' * (len(group) > 1)} {numbers}]" if side else kind_of(node),
            inputs=tuple(dict.fromkeys(read.source for read in reads if read.source is not None)),
            size=0 if tensors == [] else group_bytes(node, group),
            elements=elements_of(tensors),
            duration=group_duration(node, group),
            backward=node.name in self.backward,
            in_place=() if side else _overwritable(node, reads),
            once=side and not is_masked(node),
        )
        self.writers[writer.name] = writer
        self.members[writer.name] = (Member(node.name, tuple(group)),)
        return writer

    def _side_name(self, node: fx.Node, group: Sequence[int]) -> str:
        name = f"{self.names[node]}_output_{'_'.join(map(str, group))}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _read(self, memories: Iterable[_Memory]) -> None:
        for memory in memories:
            if memory.write is not None:
                memory.write.read = True
            elif memory.kind == CONSTANT:
                self.constants[id(memory)] = memory


def _overwritable(node: fx.Node, reads: Sequence[_Value]) -> tuple[str, ...]:
    """The operations that a pointwise operator reads, each as one tensor: as two, elements may stand elsewhere."""
    if not is_pointwise(node):
        return ()
    times = Counter(id(read.memory) for read in reads)
    once = [read for read in reads if times[id(read.memory)] == 1 and read.memory.kind == "computed"]
    return tuple(dict.fromkeys(read.source for read in once if read.source is not None))


def _fused(first: Operation, second: Operation, own: set[str]) -> Operation:
    """Two operations as one, where the second overwrites what the first wrote, known by the names `own`."""
    return replace(
        first,
        kind=f"{first.kind} + {second.kind}",
        inputs=tuple(dict.fromkeys(name for name in (*first.inputs, *second.inputs) if name not in own)),
        size=known_total((first.size, second.size)),
        elements=known_total((first.elements, second.elements)),
        duration=known_total((first.duration, second.duration)),
        in_place=tuple(name for name in first.in_place if name not in second.inputs),
        once=first.once or second.once,
    )
