"""Nodes, graphs and totals in words: the same in tables and in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moccasin_mzn.formatting import count_text, duration_text, memory_text

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph


def total_text(graph: ComputationGraph, what: str, amount: int) -> str:
    """A total of a plan: a duration, a traffic of memory, or an energy, which has no unit."""
    if what == "traffic":
        return memory_text(amount, graph.size_unit)
    return duration_text(amount, graph.duration_unit if what == "duration" else "unit")


def node_text(graph: ComputationGraph, v: int) -> str:
    """The id of a node, with its human name if it has one, in one line."""
    if not graph.labels:
        return str(graph.nodes[v])
    label = graph.labels[v]
    return f"{graph.nodes[v]} ({label if label.isprintable() else repr(label)[1:-1]})"


def graph_text(graph: ComputationGraph) -> str:
    """The name of a graph and its counts."""
    nodes, edges = count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")
    return f"{graph.name or 'graph'}: {nodes}, {edges}"
