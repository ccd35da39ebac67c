"""Outputs that a node reads as one: they lie one directly after the other in memory, in a given order. ::

    r reads a, b, c as one          r      reads  |  a  |  b |   c   |      places   a 0, b 4, c 6
    s reads b, c, d as one          s      reads        |  b |   c   | d |           d 14: one block of four

So each of these outputs has a place relative to the others, wherever their block lies, which is the same for all who
read them as one. Two outputs of a block never share memory, even if they are not in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.checks import NodeId, as_tuple

Groups = tuple[tuple[int, ...], ...]


@dataclass
class Blocks:
    """Blocks of outputs that lie at fixed places relative to each other, joined group by group."""

    sizes: Sequence[int]
    _block: dict[int, int] = field(default_factory=dict)
    _places: dict[int, dict[int, int]] = field(default_factory=dict)
    """By block the place of each of its nodes; only differences mean anything."""

    def misfit(self, group: Sequence[int]) -> tuple[int, int] | None:
        """Two nodes that cannot both lie where this group and the groups before have them; None: the group fits."""
        return self._joined(group)[1]

    def join(self, group: Sequence[int]) -> None:
        """Let these nodes lie one directly after the other; the group fits."""
        places, _ = self._joined(group)
        for block in {self._block[v] for v in group if v in self._block}:
            del self._places[block]
        self._places[group[0]] = places
        self._block |= dict.fromkeys(places, group[0])

    def place_of(self, node: int) -> tuple[int, int] | None:
        """The block of a node, named by its first one in order of addresses, and its place in it; None: in no block."""
        if node not in self._block:
            return None
        places = self._places[self._block[node]]
        first = min(places, key=lambda v: places[v])
        return first, places[node] - places[first]

    def _joined(self, group: Sequence[int]) -> tuple[dict[int, int], tuple[int, int] | None]:
        """The places of all blocks that the group has nodes of, and of the group; and two nodes that contradict."""
        places: dict[int, int] = {}
        own = dict(zip(group, accumulate((self.sizes[v] for v in group), initial=0), strict=False))
        for v, place in own.items():
            if v in places and places[v] != place:
                return places, (v, group[0])
            block = self._places.get(self._block.get(v, -1), {v: 0})
            places |= {u: at - block[v] + place for u, at in block.items()}
        boxes = sorted((place, place + self.sizes[v], v) for v, place in places.items())
        for (_, end, u), (start, _, v) in pairwise(boxes):
            if start < end:
                return places, (u, v)
        return places, None


def check_adjacent(
    nodes: tuple[NodeId, ...], sizes: Sequence[int], edges: Sequence[tuple[int, int]], given: tuple[object, ...] | None,
    in_place: Sequence[Sequence[int]] | None,
) -> tuple[Groups, ...] | None:  # fmt: skip
    """For each node the groups of its inputs that it reads as one; None where there are none.

    Raises:
        InputError: a group of fewer than two, or with what the node does not read, twice the same, or what has no
            memory; groups that no memory can have; a node of a group that overwrites another, or is overwritten.
    """
    if given is None:
        return None
    if len(given) != len(nodes):
        raise InputError(f"{count_text(len(nodes), 'node')}, but adjacent for {count_text(len(given), 'node')}")
    rows = [as_tuple(f"node {node}: adjacent", row) for node, row in zip(nodes, given, strict=True)]
    found, known, blocks = [], {*edges}, Blocks(sizes)
    for v, row in enumerate(rows):
        groups = tuple(_group(nodes, sizes, known, v, as_tuple(f"node {nodes[v]}: adjacent", group)) for group in row)
        for group in groups:
            if (pair := blocks.misfit(group)) is not None:
                names = " and ".join(str(nodes[u]) for u in pair)
                raise InputError(f"node {nodes[v]}: adjacent: {names} cannot lie where all who read them want them")
            blocks.join(group)
        found.append(groups)
    if not any(found):
        return None
    for v, overwritten in enumerate(in_place or ()):
        for u in overwritten:
            if (of := next((x for x in (u, v) if blocks.place_of(x) is not None), None)) is not None:
                raise InputError(f"node {nodes[v]}: in_place names {nodes[u]}, but adjacent has {nodes[of]}")
    return tuple(found)


def _group(
    nodes: Sequence[NodeId], sizes: Sequence[int], edges: set[tuple[int, int]], v: int, given: Sequence[object]
) -> tuple[int, ...]:
    where, group = f"node {nodes[v]}: adjacent", tuple(map(plain, given))
    for at, u in enumerate(group):
        if type(u) is not int or (u, v) not in edges:
            named = nodes[u] if type(u) is int and 0 <= u < len(nodes) else shown(u)
            raise InputError(f"{where} names {named}, which the node does not read")
        if u in group[:at]:
            raise InputError(f"{where} names {nodes[u]} twice in one group")
        if not sizes[u]:
            raise InputError(f"{where} names {nodes[u]}, whose output has no memory")
    if len(group) < 2:
        raise InputError(f"{where} has a group of {count_text(len(group), 'node')}, expected two or more")
    return group


def adjacent_in(index: Mapping[NodeId, int], nodes: Sequence[Mapping[str, object]]) -> tuple[Groups, ...] | None:
    """`ComputationGraph.adjacent`, from what nodes have under the key of that name, lists of ids; None: none has it.

    Raises:
        InputError: no list of lists, or an id that is not in the graph.
    """
    if not any("adjacent" in node for node in nodes):
        return None
    found = []
    for node, values in zip(index, nodes, strict=True):
        where, groups = f"node {node}: adjacent", values.get("adjacent", [])
        if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
            raise InputError(f"{where} is {shown(groups)}, expected a list of lists of ids")
        found.append(tuple(tuple(_position(where, index, u) for u in group) for group in groups))
    return tuple(found)


def _position(where: str, index: Mapping[NodeId, int], u: object) -> int:
    if not isinstance(u, int | str) or type(u) is bool or u not in index:
        raise InputError(f"{where} names {shown(u)}, which is not in the graph")
    return index[u]


def blocks_of(sizes: Sequence[int], groups: Iterable[Sequence[int]]) -> Blocks:
    """The blocks of groups that fit."""
    blocks = Blocks(sizes)
    for group in groups:
        blocks.join(group)
    return blocks
