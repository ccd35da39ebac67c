"""Operators of an ONNX graph in an order of execution, as some exporters write them in another."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_names import reads, subgraphs

if TYPE_CHECKING:
    import onnx


def sort_operators(graph: onnx.GraphProto) -> bool:
    """Put operators that read what a later one puts out behind that, and leave all others where they are.

    Subgraphs are sorted as well; operators in a circle stay as they are.

    Returns:
        Whether something was moved.
    """
    moved = [sort_operators(inner) for node in graph.node for inner in subgraphs(node)]
    makers = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in reads(node) if name in makers} for node in graph.node]
    if all(max(need, default=-1) < at for at, need in enumerate(needs)):
        return any(moved)
    readers: list[list[int]] = [[] for _ in needs]
    for at, need in enumerate(needs):
        for maker in need:
            readers[maker].append(at)
    open_reads = [len(need) for need in needs]
    ready = [at for at, count in enumerate(open_reads) if not count]
    heapify(ready)
    order = []
    while ready:
        at = heappop(ready)
        order.append(at)
        for reader in readers[at]:
            open_reads[reader] -= 1
            if not open_reads[reader]:
                heappush(ready, reader)
    if len(order) < len(needs):
        return any(moved)
    nodes = [graph.node[at] for at in order]
    copies = []
    for node in nodes:
        copy = type(node)()
        copy.CopyFrom(node)
        copies.append(copy)
    del graph.node[:]
    graph.node.extend(copies)
    return True
