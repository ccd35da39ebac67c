"""Nodes, graphs and totals in words: the same in tables and in messages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from moccasin_mzn.base.formatting import count_text, duration_text, memory_text

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph


def total_text(graph: ComputationGraph, what: str, amount: int) -> str:
    """A total of a plan: a duration, a traffic of memory, or an energy, which has no unit."""
    if what == "traffic":
        return memory_text(amount, graph.size_unit)
    return duration_text(amount, graph.duration_unit if what == "duration" else "unit")


def node_text(graph: ComputationGraph, v: int) -> str:
    """The id of a node, with its human name if it has one, in one line."""
    return f"{graph.nodes[v]} ({label_text(graph, v)})" if graph.labels else str(graph.nodes[v])


def label_text(graph: ComputationGraph, v: int) -> str:
    """The human name of a node of a graph that has such names, in one line."""
    assert graph.labels is not None
    label = graph.labels[v]
    return label if label.isprintable() else repr(label)[1:-1]


def names_of(graph: ComputationGraph) -> tuple[str, ...]:
    """The names of all nodes, no two of them equal: labels, with the id where a label repeats; ids without labels."""
    ids = tuple(map(str, graph.nodes))
    if not graph.labels:
        return ids
    labels = [label_text(graph, v) for v in range(len(ids))]
    counts = Counter(labels)
    names = tuple(
        label if counts[label] == 1 and label else f"{label} ({node})" for label, node in zip(labels, ids, strict=True)
    )
    return names if len(set(names)) == len(names) else ids


def graph_text(graph: ComputationGraph) -> str:
    """The name of a graph, if it has one, and its counts."""
    nodes, edges = count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")
    return f"{graph.name}: {nodes}, {edges}" if graph.name else f"{nodes}, {edges}"
