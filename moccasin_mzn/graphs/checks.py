"""What a computation graph checks of its parts at birth.

Every function raises an `InputError` that names the node and the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from moccasin_mzn.base.checks import plain, plain_values, sequence
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.base.formatting import count_text

if TYPE_CHECKING:
    from numpy import ndarray

NodeId = int | str

TOTAL_LIMIT = 2**53
"""Largest total of all sizes, and of all durations.

Every sum up to it is exact in a double, and it leaves a factor of 512 for recomputations and for a solver's
coefficients before CP-SAT's limit of 2**62 is reached.
"""

MANY = 1000
"""The number of edges from which arrays are worth it."""
_ID_LIMIT = 2**63
TAKEN_OUT = "zero_copy_concat"
"""Attribute of a graph without concatenations: the alignment that they were taken out for, and their inputs by id; see
`graphs.zero_copy`."""


def as_tuple(name: str, values: object, expected: str = "a sequence") -> tuple[Json, ...]:
    """`values`, anything with values one after the other but a text, as a tuple of Python's own; `name` and what is
    `expected` are for the message."""
    return plain_values(sequence(values, name, expected))


def pairs(values: object, nodes: tuple[NodeId, ...]) -> tuple[Json, ...]:
    """Edges, which may be lists, or rows of an array, and may name nodes by their ids, as tuples of positions."""
    edges = sequence(values, "edges", "a sequence")
    if not (set(map(type, edges)) <= {tuple} and set(map(type, chain.from_iterable(edges))) <= {int}):
        edges = tuple(as_tuple(f"edges[{at}]", edge) for at, edge in enumerate(edges))
    elif not any(type(node) is int and not 0 <= node < len(nodes) for node in nodes):
        return edges  # mostly no other integer is an id, and calls for a million edges cost
    return positions("edges", edges, nodes)


def missing(node: object, attributes: Mapping[str, object]) -> str:
    """Message that a graph with these attributes has no such node, and why not if it had one."""
    found = attributes.get(TAKEN_OUT)
    gone = found.get("taken_out") if isinstance(found, Mapping) else None
    why = ": --zero-copy-concat took it out" if isinstance(gone, Mapping) and str(node) in gone else ""
    return f"node {shown(node)} is not in the graph{why}"


def positions(
    what: str, given: tuple[Json, ...], nodes: tuple[NodeId, ...], attributes: Mapping[str, object] | None = None
) -> tuple[Json, ...]:  # fmt: skip
    """Positions of nodes, or pairs and rows of them, where text is an id, and an integer a position. An integer that is
    an id stands for its node only where no id is also a position: 10 and 20 do in a graph of those two nodes, 1 and 2
    do not. Anything else is returned as it is, for the check of positions.

    Args:
        attributes: those of the graph, for messages.

    Raises:
        InputError: a text that is no id, or an integer that is an id, but no position where ids may be positions.
    """
    n, flat = len(nodes), [end for one in given for end in (one if isinstance(one, tuple) else (one,))]
    kinds, numbered = set(map(type, flat)), any(type(node) is int for node in nodes)
    if str not in kinds and not (numbered and any(type(end) is int and not 0 <= end < n for end in flat)):
        return given
    named, both = {str(node): v for v, node in enumerate(nodes)}, any(type(u) is int and 0 <= u < n for u in nodes)

    def position(one: Json, where: str) -> Json:
        if type(one) is str:
            if one not in named:
                raise InputError(f"{where}: {missing(one, attributes or {})}")
            return named[one]
        if not numbered or type(one) is not int or 0 <= one < n or str(one) not in named:
            return one
        if both:
            raise InputError(
                f"{where}: {one} is an id, not a position 0..{n - 1}, which integers are where some ids are positions "
                f"too: give positions, or ids as text"
            )
        return named[str(one)]

    def resolved(one: Json, where: str) -> Json:
        return tuple(position(end, where) for end in one) if isinstance(one, tuple) else position(one, where)

    return tuple(resolved(one, f"{what}[{at}]") for at, one in enumerate(given))


def check_ids(nodes: tuple[NodeId, ...]) -> None:
    """There are some, each an int of 64 bits or a printable text, and no two have the same text."""
    if not nodes:
        raise InputError("the graph has no nodes")
    seen: dict[str, NodeId] = {}
    for at, node in enumerate(nodes):
        if type(node) not in (int, str):
            raise InputError(f"nodes[{at}]: id {shown(node)} is neither an integer nor a string")
        if type(node) is int and abs(node) >= _ID_LIMIT:
            raise InputError(f"nodes[{at}]: id {shown(node)} is not a 64-bit integer")
        # Ids stand alone on a line of an order file and inside one-line messages.
        if type(node) is str and (not node or node != node.strip() or not node.isprintable()):
            raise InputError(f"nodes[{at}]: id {shown(node)} is empty, has blanks around it or is not printable")
        text = str(node)
        if text in seen:
            same = type(seen[text]) is type(node)
            what = "is given twice" if same else f"is written like the id {shown(seen[text])}"
            raise InputError(f"nodes[{at}]: id {shown(node)} {what}")
        seen[text] = node


def whole(value: Json) -> Json:
    """A float that is an integer, such as 16.0, as an int; anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= TOTAL_LIMIT else value


def _not_whole(where: str, value: Json) -> InputError:
    """What is wrong with an amount, and for a fraction what to do."""
    fraction = type(value) is float and math.isfinite(value) and value > 0
    hint = "; scale all of them to a smaller unit in which they are integers" if fraction else ""
    return InputError(f"{where} {shown(value)}, expected an integer >= 0{hint}")


def check_amounts(nodes: tuple[NodeId, ...], what: str, given: tuple[Json, ...]) -> tuple[int, ...]:
    """One integer >= 0 for each node, in all no more than `TOTAL_LIMIT`, as ints; 16.0 is one."""
    if len(given) != len(nodes):
        raise InputError(f"{count_text(len(nodes), 'node')}, but {count_text(len(given), what)}")
    values = given if float not in set(map(type, given)) else tuple(map(whole, given))
    for node, value in zip(nodes, values, strict=True):
        if type(value) is not int or value < 0:
            raise _not_whole(f"node {node}: {what} is", value)
        if value > TOTAL_LIMIT:
            raise InputError(f"node {node}: {what} is {shown(value)}, over the limit 2**53; use a larger unit")
    if sum(values) > TOTAL_LIMIT:
        raise InputError(f"the {what}s sum to {shown(sum(values))}, over the limit 2**53; use a larger unit")
    return values


def check_workspaces(
    nodes: tuple[NodeId, ...], sizes: tuple[int, ...], given: tuple[Json, ...] | None
) -> tuple[int, ...] | None:
    """What `given` stands for: None where all are 0. The largest, in addition to all sizes, is within `TOTAL_LIMIT`
    too."""
    if given is None:
        return None
    given = check_amounts(nodes, "workspace", given)
    if sum(sizes) + max(given) > TOTAL_LIMIT:
        raise InputError("all sizes and the largest workspace sum to more than 2**53; use a larger unit")
    return given if any(given) else None


def check_in_place(
    nodes: tuple[NodeId, ...],
    sizes: tuple[int, ...],
    edges: tuple[tuple[int, int], ...],
    given: tuple[object, ...] | None,
) -> tuple[tuple[int, ...], ...] | None:
    """For each node inputs that its output may overwrite, none of them smaller; None where there are none."""
    if given is None:
        return None
    if len(given) != len(nodes):
        raise InputError(f"{count_text(len(nodes), 'node')}, but in_place for {count_text(len(given), 'node')}")
    rows = tuple(as_tuple(f"node {node}: in_place", row) for node, row in zip(nodes, given, strict=True))
    if not any(rows):
        return None
    known = set(edges)
    for v, row in enumerate(rows):
        for at, u in enumerate(row):
            if type(u) is not int or (u, v) not in known:
                named = nodes[u] if type(u) is int and 0 <= u < len(nodes) else shown(u)
                raise InputError(f"node {nodes[v]}: in_place names {named}, which the node does not read")
            if u in row[:at]:
                raise InputError(f"node {nodes[v]}: in_place names {nodes[u]} twice")
            if sizes[v] > sizes[u]:
                raise InputError(
                    f"node {nodes[v]}: in_place names {nodes[u]}, whose output of {sizes[u]} is smaller than the "
                    f"node's own of {sizes[v]}"
                )
    return rows


def check_computed_once(nodes: tuple[NodeId, ...], given: tuple[object, ...]) -> tuple[int, ...]:
    """Positions of nodes, none of them twice, ascending."""
    seen = set()
    for v in given:
        if type(v) is not int or not 0 <= v < len(nodes):
            raise InputError(f"computed_once: {shown(v)} is not a position 0..{len(nodes) - 1}")
        if v in seen:
            raise InputError(f"computed_once names {nodes[v]} twice")
        seen.add(v)
    return tuple(sorted(seen))


def check_output_of(
    nodes: tuple[NodeId, ...], given: tuple[Json, ...] | None, sizes: Sequence[int], own: Mapping[str, Sequence[object]]
) -> tuple[int | None, ...] | None:
    """For each node that is a further output the position of its first one; None where there are none.

    Args:
        own: by its name in messages, what a further output may not have, of each node.
    """
    if given is None:
        return None
    if len(given) != len(nodes):
        raise InputError(f"{count_text(len(nodes), 'node')}, but output_of for {count_text(len(given), 'node')}")
    found = tuple(plain(first) for first in given)
    for v, first in enumerate(found):
        if first is None:
            continue
        what = f"node {nodes[v]}: output_of"
        if type(first) is not int or not 0 <= first < len(nodes):
            raise InputError(f"{what} is {shown(first)}, not the position of a node 0..{len(nodes) - 1}")
        if first == v or found[first] is not None:
            raise InputError(f"{what} names {nodes[first]}, which is not the first output of an operation")
        for name, values in own.items():
            if values[v]:
                raise InputError(f"{what} names {nodes[first]}, and it has {name} of its own")
        if sizes[v] and not sizes[first]:
            raise InputError(f"{what} names {nodes[first]}, which has no memory, and it has some")
    return found if any(first is not None for first in found) else None


def missing_reads(
    nodes: tuple[NodeId, ...], edges: tuple[tuple[int, int], ...], output_of: Sequence[int | None]
) -> tuple[tuple[int, int], ...]:
    """The edges that follow from several outputs: a further one reads the first and what that reads; no other is given.

    Raises:
        InputError: a further output reads something else.
    """
    inputs: dict[int, list[int]] = {first: [first] for first in output_of if first is not None}
    for tail, head in edges:
        if head in inputs:
            inputs[head].append(tail)
    known, first_of = set(edges), dict(enumerate(output_of))
    for tail, head in edges:
        first = first_of.get(head)
        if first is not None and tail not in inputs[first]:
            raise InputError(
                f"node {nodes[head]}: output_of names {nodes[first]}, which does not read {nodes[tail]} as it does"
            )
    further = [(v, first) for v, first in enumerate(output_of) if first is not None]
    return tuple((u, v) for v, first in further for u in inputs[first] if (u, v) not in known)


def output_of_in(index: Mapping[NodeId, int], nodes: Sequence[Mapping[str, Json]]) -> tuple[int | None, ...] | None:
    """`ComputationGraph.output_of`, from what nodes have under the key of that name, ids; None: none has it.

    Raises:
        InputError: an id that is not in the graph.
    """
    if not any("output_of" in node for node in nodes):
        return None
    found = []
    for node, values in zip(index, nodes, strict=True):
        first = values.get("output_of")
        known = type(first) in (int, str) and first in index
        if first is not None and not known:
            raise InputError(f"node {node}: output_of is {shown(first)}, which is not in the graph")
        found.append(None if first is None else index[first])
    return tuple(found)


def check_optional(
    nodes: tuple[NodeId, ...], what: str, values: tuple[object, ...] | None, kinds: tuple[type, ...], expected: str
) -> None:
    """Check what is given to all nodes, or to none (None)."""
    if values is None:
        return
    if len(values) != len(nodes):
        raise InputError(f"{count_text(len(nodes), 'node')}, but {count_text(len(values), what)}")
    for node, value in zip(nodes, values, strict=True):
        if type(value) not in kinds:
            raise InputError(f"node {node}: {what} is {shown(value)}, expected {expected}")


def check_fixed_memory(amounts: object) -> dict[str, int]:
    """Ints >= 0 by printable names, in all no more than `TOTAL_LIMIT`; as a dict."""
    if not isinstance(amounts, Mapping):
        raise InputError(f"fixed_memory is {shown(amounts)}, expected amounts by what they hold")
    amounts = {what: whole(plain(amount)) for what, amount in amounts.items()}
    for what, amount in amounts.items():
        if type(what) is not str or not what.isprintable():
            raise InputError(f"fixed_memory: {shown(what)} is not a printable name")
        if type(amount) is not int or amount < 0:
            raise _not_whole(f"fixed_memory of {what}:", amount)
    if sum(amounts.values()) > TOTAL_LIMIT:
        raise InputError("the amounts of fixed_memory sum to more than 2**53; use a larger unit")
    return amounts


def check_device_durations(nodes: tuple[NodeId, ...], given: object) -> dict[str, tuple[int | None, ...]]:
    """By printable names, for each node an int >= 0 or None, in all no more than `TOTAL_LIMIT`; as tuples."""
    if not isinstance(given, Mapping):
        raise InputError(f"device_durations is {shown(given)}, expected durations by device")
    checked = {}
    for device, values in given.items():
        if type(device) is not str or not device or not device.isprintable():
            raise InputError(f"device_durations: {shown(device)} is not a printable name of a device")
        checked[device] = tuple(map(whole, as_tuple(f"device_durations of {device}", values)))
        check_amounts(nodes, f"{device} duration", tuple(0 if value is None else value for value in checked[device]))
    return checked


def by_device(nodes: Sequence[NodeId], given: Sequence[Json]) -> dict[str, tuple[Json, ...]]:
    """Durations by device, from those of each node, which all name the same devices; none are given: of no device."""
    for node, durations in zip(nodes if given else (), given, strict=True):
        if not isinstance(durations, Mapping):
            raise InputError(f"node {shown(node)}: device_durations is {shown(durations)}, expected an object")
        if set(durations) != set(given[0]):
            names = ", ".join(map(str, given[0]))
            raise InputError(f"node {shown(node)}: device_durations has not the devices of the first node: {names}")
    return {device: tuple(durations[device] for durations in given) for device in (given[0] if given else ())}


def check_texts(**texts: object) -> None:
    """Texts by the name of their field."""
    for what, text in texts.items():
        if type(text) is not str:
            raise InputError(f"{what} is {shown(text)}, expected a string")


def check_edges(nodes: tuple[NodeId, ...], edges: tuple[tuple[int, int], ...]) -> None:
    """Pairs of different positions, none twice."""
    if len(edges) >= MANY and _fine(len(nodes), edges):
        return  # else the loop finds what is wrong
    seen: set[tuple[int, int]] = set()
    for at, edge in enumerate(edges):
        if len(edge) != 2:
            raise InputError(f"edges[{at}]: {shown(edge)} is not a pair")
        for end in edge:
            if type(end) is not int or not 0 <= end < len(nodes):
                raise InputError(f"edges[{at}]: {shown(end)} is not the position of a node 0..{len(nodes) - 1}")
        if edge[0] == edge[1]:
            raise InputError(f"edges[{at}]: node {nodes[edge[0]]} reads itself")
        if edge in seen:
            raise InputError(f"edges[{at}]: edge {nodes[edge[0]]} -> {nodes[edge[1]]} is given twice")
        seen.add(edge)


def ends_of(edges: Sequence[tuple[int, int]]) -> ndarray:
    """int32[m, 2]: tails and heads, of pairs of positions."""
    import numpy as np

    return np.fromiter(chain.from_iterable(edges), np.int32, 2 * len(edges)).reshape(-1, 2)


def _fine(n: int, edges: tuple[tuple[int, int], ...]) -> bool:
    import numpy as np

    if set(map(len, edges)) != {2} or set(map(type, chain.from_iterable(edges))) != {int}:
        return False
    try:
        ends = ends_of(edges)
    except OverflowError:
        return False
    keys = ends[:, 0].astype(np.int64) * n + ends[:, 1]
    within = ends.min() >= 0 and ends.max() < n and not np.any(ends[:, 0] == ends[:, 1])
    if within and np.any(np.diff(keys) <= 0):
        keys.sort()
    return bool(within) and not np.any(np.diff(keys) == 0)
