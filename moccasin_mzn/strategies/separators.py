"""Tree decompositions of a graph, and the balanced separators they give, level by level.

A tree decomposition is a tree of bags, sets of nodes: both ends of every edge are in some bag, and the bags of any node
are connected. So taking a bag's nodes out of the graph leaves no edge between the pieces into which the tree falls::

    graph   a - b - c - d - e - f - g          component {a, ..., g}, separator {c, d}
    bags      ab  bc  cd  de  ef  fg             part {a, b}, separator {a, b}
                      ^                          part {e, f, g}, separator {e, f}
               a most central bag                  part {g}, separator {g}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

from moccasin_mzn.graphs.graph import ComputationGraph

MIN_FILL_NODES = 500
"""Graphs of so many nodes or more are decomposed by least degree only: least fill-in takes too long for them."""

Bags = dict[int, set[int]]


@dataclass(frozen=True)
class Component:
    """Nodes with a separator among them: without it they fall into the parts, between which there are no edges."""

    nodes: frozenset[int]
    """Positions in `ComputationGraph.nodes`."""
    separator: frozenset[int]
    """One bag; at most the width and one nodes."""
    parts: tuple[Component, ...]
    """The rest, by first node in the input order; each comes from at most half of the component's bags."""

    @cached_property
    def levels(self) -> int:
        """Components inside each other, this one included."""
        return 1 + max((part.levels for part in self.parts), default=0)


def decompositions(graph: ComputationGraph) -> Iterator[nx.Graph]:
    """Tree decompositions from the heuristics of networkx, least degree and, for small graphs, least fill-in.

    The nodes of a decomposition are bags, frozensets of positions in `graph.nodes`.
    """
    undirected = nx.Graph()
    undirected.add_nodes_from(range(len(graph.nodes)))
    undirected.add_edges_from(graph.edges)
    yield treewidth_min_degree(undirected)[1]
    if len(graph.nodes) < MIN_FILL_NODES:
        yield treewidth_min_fill_in(undirected)[1]


def separated(decomposition: nx.Graph, order: Sequence[int]) -> tuple[Component, ...]:
    """Balanced separators at all levels; one component for each tree of the decomposition.

    Args:
        decomposition: see `decompositions`.
        order: the input order, positions in `graph.nodes`; components are sorted by it.
    """
    forest = nx.convert_node_labels_to_integers(decomposition, label_attribute="bag")
    bags = {at: set(bag) for at, bag in forest.nodes(data="bag")}
    return _components(bags, forest, {v: at for at, v in enumerate(order)})


def _components(bags: Bags, forest: nx.Graph, place: Mapping[int, int]) -> tuple[Component, ...]:
    found, left = [], set(bags)
    for first in bags:
        if first in left:
            nodes = [first, *(at for _, at in nx.bfs_edges(forest, first, sort_neighbors=sorted))]
            left.difference_update(nodes)
            own_bags, tree = {at: bags[at] for at in nodes}, forest.subgraph(nodes).copy()
            _contract(own_bags, tree)
            if any(own_bags.values()):
                found.append(_component(own_bags, tree, place))
    return tuple(sorted(found, key=lambda component: min(place[v] for v in component.nodes)))


def _component(bags: Bags, tree: nx.Graph, place: Mapping[int, int]) -> Component:
    nodes = frozenset().union(*bags.values())
    center = _center(bags, tree)
    separator = frozenset(bags[center])
    tree.remove_node(center)
    rest = {at: bag - separator for at, bag in bags.items() if at != center}
    return Component(nodes, separator, _components(rest, tree, place))


def _contract(bags: Bags, tree: nx.Graph) -> None:
    """Unite every bag with a neighbour that contains it, if there is one, in place. A tree stays a tree."""
    waiting = list(bags)
    while waiting:
        at = waiting.pop()
        into = next((other for other in sorted(tree[at]) if bags[at] <= bags[other]), None) if at in bags else None
        if into is not None:
            others = set(tree[at]) - {into}
            tree.remove_node(at)
            tree.add_edges_from((into, other) for other in others)
            waiting += others  # one may be inside its new neighbour
            del bags[at]


def _center(bags: Bags, tree: nx.Graph) -> int:
    """The bag whose removal leaves the smallest largest tree, at most half of the bags; of equals a smallest one."""
    below = dict.fromkeys(tree, 1)  # bags of the subtree
    largest = dict.fromkeys(tree, 0)
    root = next(iter(tree))
    for at, parent in reversed(list(nx.bfs_predecessors(tree, root))):
        largest[at] = max(largest[at], len(bags) - below[at])
        below[parent] += below[at]
        largest[parent] = max(largest[parent], below[at])
    return min(tree, key=lambda at: (largest[at], len(bags[at]), at))
