"""Operators of TFLite that depend on more than what they read: on chance, or on variables, whose order is kept. ::

CALL_ONCE ──> READ_VARIABLE ──> ADD ──> ASSIGN_VARIABLE ──> results
         └──────────────────────────────────^                             edges that hold no memory
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import NodeId

CHANCE = frozenset(("MULTINOMIAL", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"))
"""Operators that output something else when they are recomputed."""
ACCESSES = frozenset(("READ_VARIABLE", "ASSIGN_VARIABLE"))
STATE = frozenset(("CALL_ONCE", "VAR_HANDLE", *ACCESSES))
"""Operators of variables, which hold state from one run to the next: each is computed once, in an order that keeps
what is read, see `state_edges`."""
ONCE = CHANCE | STATE
Variable = tuple[bytes, bytes]
"""Container and name: several handles may be of one variable."""


@dataclass(frozen=True)
class Access:
    """An operator that reads or assigns a variable, or runs a subgraph that has such operators."""

    node: int
    """Position of its node."""
    id: NodeId
    name: str
    """Such as "READ_VARIABLE"; "IF" and "WHILE" run subgraphs."""
    variable: Variable | None
    """None: no handle is read that is known."""


def state_edges(
    begin: Iterable[int], accesses: Sequence[Access], edges: Sequence[tuple[int, int]], results: int
) -> list[tuple[int, int]]:
    """Edges that keep the order of what reads and assigns variables; they hold no memory, as their tails output none.

    Args:
        begin: the nodes that run a subgraph in the first run only, which gives variables their first values.
        accesses: in the order of the nodes.
        edges: all others of the graph.
        results: the last node.

    Raises:
        InputError: a variable is read and then assigned, and what is assigned does not depend on what was read: nothing
            but a longer life of that would keep the order; a variable is read or assigned that no handle is of; a
            subgraph that an operator runs reads or assigns variables, and others do so too.
    """
    found = [(u, one.node) for u in begin for one in accesses if one.node > u]
    if not accesses or _alone(accesses):
        return found
    before = _ancestors(results + 1, edges)
    reads, assigned = dict[Variable, list[Access]](), dict[Variable, list[int]]()
    for one in accesses:
        if one.variable is None:
            raise InputError(f"operator {one.id}, {one.name}: no VAR_HANDLE puts out what it reads as its variable")
        found += [(u, one.node) for u in assigned.get(one.variable, ())]
        if one.name == "READ_VARIABLE":
            reads.setdefault(one.variable, []).append(one)
            continue
        late = [other.id for other in reads.get(one.variable, ()) if other.node not in before[one.node]]
        if late:
            raise InputError(
                f"operator {one.id} assigns a variable that operator {late[0]} reads before, and "
                "what it assigns does not depend on that: no order is sure to keep this"
            )
        assigned.setdefault(one.variable, []).append(one.node)
        found.append((one.node, results))
    return found


def _alone(accesses: Sequence[Access]) -> bool:
    """Whether one operator runs subgraphs with variables, which no other reads or assigns.

    Raises:
        InputError: others do: where such an operator outputs something, an edge to the next one would hold its memory.
    """
    inner = [one for one in accesses if one.name not in ACCESSES]
    if inner and len(accesses) > 1:
        one, other = inner[0], next(each for each in accesses if each != inner[0])
        raise InputError(
            f"operator {one.id}, {one.name}, has variables in its subgraphs, and operator {other.id}, {other.name}, "
            "has some too: no order is sure to keep this"
        )
    return inner != []


def _ancestors(count: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """The nodes that each node depends on."""
    found: list[set[int]] = [set() for _ in range(count)]
    for u, v in sorted(edges, key=itemgetter(1)):
        found[v].update((u,), found[u])
    return found
