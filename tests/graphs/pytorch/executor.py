"""Executes schedules of imported graphs with real tensors: what a node reads must be in memory, and be an edge.

A plain run with real tensors tells which storage every traced value is in, and which traced node has written it last
when another reads it; the importer is not asked. When a schedule is executed, a node keeps the storages that it wrote,
and it writes into copies of what other nodes keep.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.torch.memory import STATE
from moccasin_mzn.graphs.importers.torch.trace import Trace
from moccasin_mzn.problem.judges.schedules import simulate


def call(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """One operator, with random numbers that depend on nothing but the node."""
    torch.manual_seed(zlib.crc32(node.name.encode()))
    return node.target(*args, **kwargs)


def tensors_for(trace: Trace) -> list[torch.Tensor]:
    """Random tensors for what a traced program takes; integers are 0, parameters and buffers small and positive."""
    generator = torch.Generator().manual_seed(1)
    tensors = []
    for node in trace.graph_module.graph.nodes:
        if node.op == "placeholder":
            value = node.meta["val"]
            made = torch.zeros(value.shape, dtype=value.dtype)
            if value.dtype.is_floating_point and trace.kinds[node.name] == STATE:
                made.uniform_(0.1, 0.2, generator=generator)
            elif value.dtype.is_floating_point:
                made.normal_(generator=generator)
            tensors.append(made)
    return tensors


class Plain(fx.Interpreter):
    """The traced program from beginning to end."""

    def run_node(self, node: fx.Node) -> Any:
        if node.op != "call_function":
            return super().run_node(node)
        return call(node, *self.fetch_args_kwargs_from_env(node))


@dataclass(frozen=True)
class Place:
    """Where a tensor is."""

    storage: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    conjugate: bool


class Recorder(Plain):
    """A plain run that notes what stands where, and who wrote it."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        self.storages: dict[int, Any] = {}
        """All of them, so that none is freed and its address used again."""
        self.writers: dict[int, tuple[str, int | None] | None] = {}
        """For each storage the node that wrote it last and the number of its output; None for what is given."""
        self.values: dict[fx.Node, Any] = {}
        """Each value, its tensors as places."""
        self.reads: dict[fx.Node, dict[int, tuple[str, int | None] | None]] = {}
        """For each node the storages that it reads, with their writers at that time."""
        self.writes: dict[fx.Node, set[int]] = {}
        """Storages that a node overwrites."""

    def run_node(self, node: fx.Node) -> Any:
        arguments = {} if node.op == "placeholder" else self._storages(self.fetch_args_kwargs_from_env(node))
        self.reads[node] = {key: self.writers[key] for key in arguments}
        before = {key: storage.clone() for key, storage in arguments.items()}
        declared = self._storages(self._declared_writes(node))
        result = super().run_node(node)
        if node.op == "call_function":
            changed = {key for key, storage in arguments.items() if not torch.equal(raw(storage), raw(before[key]))}
            self.writes[node] = changed | set(declared)
            self.writers.update(dict.fromkeys(self.writes[node], (node.name, None)))
        several = isinstance(result, (tuple, list)) and node.op == "call_function"
        for number, value in enumerate(result) if several else [(None, result)]:
            for key, storage in self._storages(value).items():
                if key not in self.storages:
                    self.storages[key] = storage
                    self.writers[key] = (node.name, number) if node.op == "call_function" else None
        self.values[node] = tree_map(place_of, result)
        return result

    def _declared_writes(self, node: fx.Node) -> list[Any]:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            return []
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        return [
            args[at] if at < len(args) else kwargs.get(argument.name)
            for at, argument in enumerate(node.target._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    @staticmethod
    def _storages(values: Any) -> dict[int, Any]:
        found = (leaf.untyped_storage() for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))
        return {storage._cdata: storage for storage in found}


def place_of(value: Any) -> Any:
    """The place of a tensor; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    key = value.untyped_storage()._cdata
    return Place(key, value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.is_conj())


def raw(storage: Any) -> torch.Tensor:
    """The bytes of a storage."""
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def tensor_at(place: Place, storage: Any) -> torch.Tensor:
    """The tensor that is at a place, in some other storage."""
    tensor = torch.empty(0, dtype=place.dtype).set_(storage, place.offset, place.size, place.stride)
    return tensor.conj() if place.conjugate else tensor


class Executor:
    """Runs sequences of computations of the nodes of a graph, freeing what the simulator frees."""

    def __init__(self, trace: Trace, graph: ComputationGraph, tensors: Sequence[torch.Tensor]) -> None:
        self.trace, self.graph = trace, graph
        self.recorded = Recorder(trace.graph_module)
        self.recorded.run(*[tensor.clone() for tensor in tensors])
        self.nodes = {node.name: node for node in trace.graph_module.graph.nodes}
        self.owners: dict[tuple[str, int | None], str] = {}
        first: dict[str, tuple[int, ...]] = {}
        for name, members in trace.members.items():
            for member in members:
                self.owners.update({(member.node, output): name for output in member.outputs or (None,)})
                if member.outputs <= first.get(member.node, member.outputs):  # what it overwrites belongs to these
                    first[member.node] = member.outputs
                    self.owners[member.node, None] = name
        self.store: dict[str, dict[int, Any]] = {}
        """For each node in memory the storages that it keeps."""
        self.given: dict[int, Any] = {}
        """Storages of inputs and parameters, and of what depends on no input."""
        self._give(tensors)

    def _give(self, tensors: Sequence[torch.Tensor]) -> None:
        placeholders = [node for node in self.nodes.values() if node.op == "placeholder"]
        state: set[int] = set()
        for node, tensor in zip(placeholders, tensors, strict=True):
            place = self.recorded.values[node]
            self.given[place.storage] = tensor.clone().untyped_storage()
            if self.trace.kinds[node.name] == STATE:
                state.add(place.storage)
        self.updates = {
            (node.name, key)
            for node, keys in self.recorded.writes.items()
            for key in keys & state
            if any(place.storage not in keys for place in self._places(node))
        }
        """Operators that compute something and change a buffer besides, which stays where it is, and the buffer."""
        for node in self.nodes.values():
            if node.op == "get_attr":
                for place in self._places(node):
                    self.given[place.storage] = self.recorded.storages[place.storage].clone()
            elif node.op == "call_function" and (node.name, None) not in self.owners and not self._is_view(node):
                self._call(node, self.given)

    def _places(self, node: fx.Node) -> list[Place]:
        return [leaf for leaf in tree_leaves(self.recorded.values[node]) if isinstance(leaf, Place)]

    def _is_view(self, node: fx.Node) -> bool:
        return not self.recorded.writes[node] and all(
            place.storage in self.recorded.reads[node] for place in self._places(node)
        )

    def run(self, sequence: Sequence[int]) -> list[torch.Tensor]:
        """The results of the network after this sequence of positions in the graph."""
        intervals = simulate(self.graph, sequence).intervals
        ends = {interval.start: (interval.node, interval.end) for interval in intervals}
        frees: dict[int, list[tuple[int, int]]] = {}
        for start, (position, end) in ends.items():
            frees.setdefault(end, []).append((start, position))
        latest: dict[int, int] = {}
        for at, position in enumerate(sequence, 1):
            name = self.graph.nodes[position]
            latest[position] = at
            self.allowed = {self.graph.nodes[read] for read in self.graph.predecessors[position]}
            if name in self.trace.members:
                self.store[name] = self._execute(name)
            if at < len(sequence):
                for start, freed in frees.get(at, []):
                    if latest[freed] == start:
                        del self.store[self.graph.nodes[freed]]
        output = next(node for node in self.nodes.values() if node.op == "output")
        self.allowed.add(name)
        reads = self.recorded.reads[output]
        kept = {key: self._storage(key, writer, {}) for key, writer in reads.items()}
        return [tensor_at(place, kept[place.storage]) for place in self.recorded.values[output]]

    def _execute(self, name: str) -> dict[int, Any]:
        made: dict[int, Any] = {}
        for member in self.trace.members[name]:
            self._call(self.nodes[member.node], made, member.outputs)
        return made

    def _call(self, node: fx.Node, made: dict[int, Any], outputs: tuple[int, ...] = ()) -> None:
        """Run one traced node; to `made` are added the storages that it allocates for these outputs, or overwrites."""
        reads = self.recorded.reads[node]
        storages = {key: self._storage(key, writer, made) for key, writer in reads.items()}
        for key in self.recorded.writes[node]:
            if key not in made and (node.name, key) not in self.updates:
                storages[key] = made[key] = storages[key].clone()

        def real(read: fx.Node) -> Any:
            return tree_map(
                lambda leaf: tensor_at(leaf, storages[leaf.storage]) if isinstance(leaf, Place) else leaf,
                self.recorded.values[read],
            )

        result = call(node, *fx.node.map_arg((node.args, node.kwargs), real))
        places = self.recorded.values[node]
        several = isinstance(places, (tuple, list))
        for number, value in enumerate(result) if several else [(None, result)]:
            if not outputs or number in outputs or (node.name, number) not in self.owners:
                where = places[number] if several else places
                for place, tensor in zip(tree_leaves(where), tree_leaves(value), strict=True):
                    if isinstance(place, Place) and place.storage not in reads:
                        made[place.storage] = tensor.untyped_storage()

    def _storage(self, key: int, writer: tuple[str, int | None] | None, made: dict[int, Any]) -> Any:
        if key in made:
            return made[key]
        owner = None
        if writer is not None and (writer[0], key) not in self.updates:
            owner = self.owners.get(writer) or self.owners.get((writer[0], None))
        if owner is None:
            return self.given[key]
        assert owner in self.allowed, f"{owner} is read without an edge"
        return self.store[owner][key]
