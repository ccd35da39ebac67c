"""Refusing graphs with workspaces where memory is counted without them."""

from __future__ import annotations

from moccasin_mzn.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.pages import Page
from moccasin_mzn.words import count_text, memory_text


def refuse_workspaces(graph: ComputationGraph, what: str) -> None:
    """Check that no node has a workspace; `what`, in the plural, cannot count any.

    Raises:
        InputError: some have; the message tells how many, and the largest one.
    """
    if graph.workspaces is None:
        return
    largest = graph.largest_workspace()
    having = count_text(sum(map(bool, graph.workspaces)), "node")
    amount = memory_text(graph.workspaces[largest], graph.size_unit)
    told = (
        f"{what} know no workspaces, and {having} of the graph {'has' if having.startswith('1 ') else 'have'} one, "
        f"the largest {amount} of node {node_text(graph, largest)}"
    )
    raise InputError(Page.GRAPH_FILES.after(told))
