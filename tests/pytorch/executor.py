"""Executes schedules of imported graphs with real tensors: what a node reads must be in memory, and be an edge."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.importers.torch_memory import STATE
from moccasin_mzn.importers.torch_trace import Trace
from moccasin_mzn.simulate import simulate


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


class Executor:
    """Runs sequences of computations of the nodes of a graph, freeing what the simulator frees."""

    def __init__(self, trace: Trace, graph: ComputationGraph, tensors: Sequence[torch.Tensor]) -> None:
        self.trace, self.graph = trace, graph
        self.nodes = {node.name: node for node in trace.graph_module.graph.nodes}
        placeholders = [node for node in self.nodes.values() if node.op == "placeholder"]
        self.given = {node: tensor.clone() for node, tensor in zip(placeholders, tensors, strict=True)}
        self.owners: dict[tuple[str, int | None], str] = {}
        for name, members in trace.members.items():
            for member in members:
                self.owners.update({(member.node, output): name for output in member.outputs or (None,)})
                self.owners.setdefault((member.node, None), name)
        self.store: dict[str, dict[fx.Node, Any]] = {}

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
            self.allowed = {name, *(self.graph.nodes[read] for read in self.graph.predecessors[position])}
            if name in self.trace.members:
                self.store[name] = self._execute(name)
            if at < len(sequence):
                for start, freed in frees.get(at, []):
                    if latest[freed] == start:
                        del self.store[self.graph.nodes[freed]]
        outputs = next(node for node in self.nodes.values() if node.op == "output").args[0]
        return [self._value(node, {}) for node in outputs]

    def _execute(self, name: str) -> dict[fx.Node, Any]:
        made: dict[fx.Node, Any] = {}
        for member in self.trace.members[name]:
            node = self.nodes[member.node]
            made[node] = self._call(node, made)
            if member.outputs:
                made[node] = {number: made[node][number] for number in member.outputs}
        return made

    def _call(self, node: fx.Node, made: dict[fx.Node, Any]) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda read: self._value(read, made))
        return call(node, args, kwargs)

    def _value(self, node: fx.Node, made: dict[fx.Node, Any]) -> Any:
        if node in made:
            return made[node]
        if node in self.given:
            return self.given[node]
        if node.target is operator.getitem:
            source, number = node.args
            owner = self.owners.get((source.name, number)) or self.owners.get((source.name, None))
            if owner is not None:
                return self._stored(owner, source, made)[number]
        owner = self.owners.get((node.name, None))
        if owner is not None:
            return self._stored(owner, node, made)
        return self._call(node, made)  # a view, or what depends on no input

    def _stored(self, owner: str, node: fx.Node, made: dict[fx.Node, Any]) -> Any:
        if node in made:
            return made[node]
        assert owner in self.allowed, f"{owner} is read without an edge"
        return self.store[owner][node]
