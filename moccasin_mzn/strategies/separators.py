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
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.graph import ComputationGraph

if TYPE_CHECKING:
    import networkx

MIN_FILL_NODES = 500
"""Graphs of so many nodes or more are decomposed by least degree only: least fill-in takes too long for them."""

Bags = dict[int, set[int]]
Links = dict[int, set[int]]


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


def decompositions(graph: ComputationGraph) -> Iterator[networkx.Graph]:
    """Tree decompositions from the heuristics of networkx, least degree and, for small graphs, least fill-in.

    The nodes of a decomposition are bags, frozensets of positions in `graph.nodes`.
    """
    import networkx as nx
    from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

    undirected = nx.Graph()
    undirected.add_nodes_from(range(len(graph.nodes)))
    undirected.add_edges_from(graph.edges)
    yield treewidth_min_degree(undirected)[1]
    if len(graph.nodes) < MIN_FILL_NODES:
        yield treewidth_min_fill_in(undirected)[1]


def separated(decomposition: networkx.Graph, order: Sequence[int]) -> tuple[Component, ...]:
    """Balanced separators at all levels; one component for each tree of the decomposition.

    Args:
        decomposition: see `decompositions`.
        order: the input order, positions in `graph.nodes`; components are sorted by it.
    """
    number = {bag: at for at, bag in enumerate(decomposition.nodes)}
    bags = {number[bag]: set(bag) for bag in decomposition.nodes}
    links: Links = {at: set() for at in bags}
    for one, other in decomposition.edges:
        links[number[one]].add(number[other])
        links[number[other]].add(number[one])
    return _components(bags, links, {v: at for at, v in enumerate(order)})


def _components(bags: Bags, links: Links, place: Mapping[int, int]) -> tuple[Component, ...]:
    found, left = [], set(bags)
    for first in bags:
        if first in left:
            tree = _tree(first, links)
            left.difference_update(tree)
            own_bags, own_links = {at: bags[at] for at in tree}, {at: set(links[at]) for at in tree}
            _contract(own_bags, own_links)
            if any(own_bags.values()):
                found.append(_component(own_bags, own_links, place))
    return tuple(sorted(found, key=lambda component: min(place[v] for v in component.nodes)))


def _component(bags: Bags, links: Links, place: Mapping[int, int]) -> Component:
    nodes = frozenset().union(*bags.values())
    center = _center(bags, links)
    separator = frozenset(bags[center])
    rest = {at: bag - separator for at, bag in bags.items() if at != center}
    rest_links = {at: links[at] - {center} for at in rest}
    return Component(nodes, separator, _components(rest, rest_links, place))


def _tree(first: int, links: Links) -> dict[int, int | None]:
    """The bags connected to the first one: from each one towards the first, those nearer to it first."""
    towards: dict[int, int | None] = {first: None}
    reached = [first]
    for at in reached:
        for other in sorted(links[at]):
            if other not in towards:
                towards[other] = at
                reached.append(other)
    return towards


def _contract(bags: Bags, links: Links) -> None:
    """Unite every bag with a neighbour that contains it, if there is one, in place. A tree stays a tree."""
    waiting = list(bags)
    while waiting:
        at = waiting.pop()
        into = next((other for other in sorted(links.get(at, ())) if bags[at] <= bags[other]), None)
        if into is not None:
            for other in links[at]:
                links[other].remove(at)
                if other != into:
                    links[other].add(into)
                    links[into].add(other)
                    waiting.append(other)  # it may be inside its new neighbour
            del bags[at], links[at]


def _center(bags: Bags, links: Links) -> int:
    """The bag whose removal leaves the smallest largest tree, at most half of the bags; of equals a smallest one."""
    towards = _tree(next(iter(bags)), links)
    below = dict.fromkeys(towards, 1)  # bags of the subtree
    largest = dict.fromkeys(towards, 0)
    for at in reversed(towards):
        largest[at] = max(largest[at], len(bags) - below[at])
        parent = towards[at]
        if parent is not None:
            below[parent] += below[at]
            largest[parent] = max(largest[parent], below[at])
    return min(towards, key=lambda at: (largest[at], len(bags[at]), at))
