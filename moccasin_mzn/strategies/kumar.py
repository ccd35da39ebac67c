"""Schedules from a tree decomposition: Kumar, Purohit, Svitkina, Vee, Wang (NeurIPS 2019), for any graph.

`decompositions` split the graph by balanced separators, level by level. To compute goals inside a component with the
separator X, while everything outside of the component that they need is in memory:

1. For each node v of X that the goals need, in the input order: compute those inputs of v that are in parts, part by
   part, recursively; compute v and hold it until the end; drop those inputs.
2. Compute the goals that are in parts, part by part, recursively. Drop X, but for the goals in it.

::

    a -> b -> c -> d        X = {c, C, B}, parts {a, b, A} and {d, D}, the goal is A
    |    |    |    |
    v    v    v    v        c needs b:        a b c
    A <- B <- C <- D        C needs D:              d D C
                            B needs b again:              a b B
                            the goal needs a again:             a A       peak 3 instead of 5

At the top the goals are the nodes that nothing reads, which need not be retained: all others are needed for them.

Let N be the bags of the decomposition, k = width + 1 the nodes of the largest one, d the most inputs of a node, all
outputs of size 1, and L = floor(log2 N) + 1. Then for what is implemented here:

- Peak at most k L + d (L - 1). Proof: a part has at most half of the bags, so at most L components are inside each
  other; each holds its X and, but for the innermost, some inputs of one node of X; goals in parts are among the inputs
  retained for a component further out. With sizes, k is the heaviest bag and d the heaviest set of inputs.
- At most k N (k + 1)^(L - 1) computations, which is at most k N^log2(2k + 2). Proof: a call computes at most k nodes
  itself, and calls each part at most k + 1 times; every bag is the center of at most one component.

So the peak is O(k log n) if nodes have few inputs, and the length is polynomial in n for every k, as the paper has it.
The paper leaves open in which order parts follow each other: they are tried by first node in the input order, and the
other way round.

Every computation is read before the next one of the node, so there are none to clean away. But the rule drops what it
could hold, and does not know the budget; `KUMAR_RETAINED` uses what it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.retention import retained
from moccasin_mzn.strategies.strategy import Stop, Strategy

if TYPE_CHECKING:
    import networkx as nx  # slow to import: whoever decomposes a graph does

# --- Tree decompositions of a graph, and the balanced separators they give, level by level

# A tree decomposition is a tree of bags, sets of nodes: both ends of every edge are in some bag, and the bags of any
# node are connected. So taking a bag's nodes out of the graph leaves no edge between the pieces into which the tree
# falls::
#
#     graph   a - b - c - d - e - f - g          component {a, ..., g}, separator {c, d}
#     bags      ab  bc  cd  de  ef  fg             part {a, b}, separator {a, b}
#                       ^                          part {e, f, g}, separator {e, f}
#                a most central bag                  part {g}, separator {g}


MIN_FILL_NODES = 500
"""Graphs of this many nodes or more are decomposed by least degree only: least fill-in takes too long for them."""

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
    import networkx as nx
    from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

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
    import networkx as nx

    forest = nx.convert_node_labels_to_integers(decomposition, label_attribute="bag")
    bags = {at: set(bag) for at, bag in forest.nodes(data="bag")}
    return _components(bags, forest, {v: at for at, v in enumerate(order)})


def _components(bags: Bags, forest: nx.Graph, place: Mapping[int, int]) -> tuple[Component, ...]:
    import networkx as nx

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
    import networkx as nx

    below = dict.fromkeys(tree, 1)  # bags of the subtree
    largest = dict.fromkeys(tree, 0)
    root = next(iter(tree))
    for at, parent in reversed(list(nx.bfs_predecessors(tree, root))):
        largest[at] = max(largest[at], len(bags) - below[at])
        below[parent] += below[at]
        largest[parent] = max(largest[parent], below[at])
    return min(tree, key=lambda at: (largest[at], len(bags[at]), at))


def most_computations(graph: ComputationGraph) -> int:
    """Longer schedules are given up: of no use, and polynomial in n only in theory."""
    return 50 * len(graph.nodes) + 10_000


def separator_schedule(
    graph: ComputationGraph,
    order: Sequence[int],
    components: Sequence[Component],
    stop: Stop,
    backwards: bool = False,
    levels: int | None = None,
) -> list[int] | None:
    """The schedule; None if it is longer than `most_computations`, or time is up.

    Args:
        order: a topological order, positions in `graph.nodes`.
        components: of the whole graph.
        backwards: whether the last part comes first.
        levels: below this many levels of components, what is needed there is computed in the given order, without
            recursion; None: recursion to the end, as published.
    """
    recursion = _Recursion(graph, order, -1 if backwards else 1)
    goals = frozenset(v for v, readers in enumerate(graph.successors) if not readers)
    sequence = []
    for v in recursion.computed(components, goals, levels):
        sequence.append(v)
        if len(sequence) > most_computations(graph) or stop():
            return None
    return sequence


class _Recursion:
    def __init__(self, graph: ComputationGraph, order: Sequence[int], step: int) -> None:
        self._inputs = [frozenset(inputs) for inputs in graph.predecessors]
        self._place = {v: at for at, v in enumerate(order)}
        self._step = step

    def computed(self, parts: Sequence[Component], goals: frozenset[int], levels: int | None) -> Iterator[int]:
        """What is computed for those of the goals that are in parts, part by part."""
        for part in parts[:: self._step]:
            if goals & part.nodes:
                yield from self._inside(part, goals & part.nodes, levels)

    def _inside(self, component: Component, goals: frozenset[int], levels: int | None) -> Iterator[int]:
        """For nodes of the component, everything outside of it that they need being in memory."""
        needed = self._needed(component, goals)
        if levels == 0:
            yield from needed
            return
        below = None if levels is None else levels - 1
        for v in needed:
            if v in component.separator:
                yield from self.computed(component.parts, self._inputs[v], below)
                yield v
        yield from self.computed(component.parts, goals, below)

    def _needed(self, component: Component, goals: frozenset[int]) -> list[int]:
        """The goals and their ancestors by way of the component, in the input order."""
        found, waiting = set(goals), list(goals)
        while waiting:
            new = (self._inputs[waiting.pop()] & component.nodes) - found
            found |= new
            waiting.extend(new)
        return sorted(found, key=self._place.__getitem__)


def _splits(instance: Instance) -> Iterator[tuple[tuple[Component, ...], bool]]:
    """Components of the graph, and whether the last part comes first."""

    for decomposition in decompositions(instance.graph):
        components = separated(decomposition, instance.order)
        yield from ((components, False), (components, True))


def _published(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    for components, backwards in _splits(instance):
        sequence = separator_schedule(instance.graph, instance.order, components, stop, backwards)
        if sequence is not None:
            yield sequence


def _retained(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    """Recursion through 1, 2, ... levels, until a schedule is too long: more levels make longer schedules."""
    graph, order = instance.graph, instance.order
    for components, backwards in _splits(instance):
        for levels in range(1, max(component.levels for component in components) + 1):
            sequence = separator_schedule(graph, order, components, stop, backwards, levels)
            if sequence is None:
                break
            yield retained(graph, sequence, instance.budget, stop)


_SOURCE = "Kumar et al., Efficient Rematerialization for Deep Networks, NeurIPS 2019"

KUMAR = Strategy(
    name="tree-decomposition",
    title="balanced separators of a tree decomposition, recursively",
    source=_SOURCE,
    guarantee="peak O(k log n) for unit sizes and few inputs, at most k n^log2(2k + 2) computations, bags of k nodes",
    schedules=_published,
)

KUMAR_RETAINED = Strategy(
    name="tree-decomposition-held",
    title="the same, but outputs stay in memory where the budget allows",
    source=f"{_SOURCE}; with an addition of this project, see `retention`",
    guarantee="never longer than the same schedule without that; its peak is no higher, or within the budget",
    schedules=_retained,
)

STRATEGIES = (KUMAR, KUMAR_RETAINED)
