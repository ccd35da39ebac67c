"""Machines of several memories as one memory, for the judge of certificates: what no plan has less of.

Near are the memories in which something is computed. What a computation reads and writes is there, so that at the first
computation of a node the outputs near, each counted once, fit into all near memories together. What is near, is not any
more, and is near again later was recomputed, or copied from a memory that is not near, where it was copied to
before. This costs at least the least of these: a duration, an energy, or, of copies alone, a size. What is copied back
reads no inputs: rules about what is recomputed do not hold then.

In memories of one device each computation reads and writes in addition, for which the least access is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import CertificateError, Json, read, require, shown

MACHINE: Json = {
    "goal": str, "nodes": [None], "memories": [{"name": str, "budget": None, "costs": None, "accesses": None}],
    "links": [{"source": 0, "target": 0, "costs": [0]}],
}  # fmt: skip
"""Amounts by node are in the order of "nodes", all ids; null: no budget, not computed there, no accesses."""


@dataclass(frozen=True)
class OneMemory:
    """What plans on a machine need at least, as schedules of one memory do."""

    graph: ComputationGraph
    """Durations are what it costs at least to have an output near again."""
    once: int
    """What every node once costs at least."""
    budget: int
    """All near memories together have it."""
    is_computed: bool
    """Is what is near again computed, in any case?"""
    goal: str
    """The total that is bounded: "duration", "energy" or "traffic"."""
    text: str


def in_one_memory(graph: ComputationGraph, document: Json, blocks: bool) -> OneMemory:
    """Return what plans need at least.

    Args:
        document: the machine, of the form `MACHINE`.
        blocks: is "again" counted in each block, so that what is copied back may have been copied away before?

    Raises:
        CertificateError: it is no machine for the graph.
    """
    machine = read("memories", document, MACHINE)
    goal = machine["goal"]
    require(goal in ("duration", "energy", "traffic"), f"memories.goal is {shown(goal)}")
    order = read("memories.nodes", machine["nodes"], [graph])
    require(sorted(order) == [*range(len(order))] == [*range(len(graph.nodes))], "memories.nodes: not every node once")
    place = {v: k for k, v in enumerate(order)}
    rows = {(what, k): _amounts(f"memories.memories[{k}].{what}", one[what], len(order), what == "costs")
            for k, one in enumerate(machine["memories"]) for what in ("costs", "accesses")}  # fmt: skip
    near = [k for k in range(len(machine["memories"])) if any(one is not None for one in rows["costs", k] or ())]
    budgets = [None if (given := one["budget"]) is None else read(f"memories.memories[{k}].budget", given, 0)
               for k, one in enumerate(machine["memories"])]  # fmt: skip
    all_of = graph.total_size + max(graph.workspace_of)
    own, access, back, away = list[int](), list[int](), list[int](), list[int]()
    links = [_link(k, one, len(order), len(budgets)) for k, one in enumerate(machine["links"])]
    for v in range(len(order)):
        at = place[v]
        some = [row[at] for k in near if (row := rows["costs", k]) is not None and row[at] is not None]
        require(bool(some), f"memories: {graph.nodes[v]} is not computed in any")
        own.append(min(some))
        access.append(min(0 if (row := rows["accesses", k]) is None else row[at] for k in range(len(budgets))))
        back += [min(ends)] if (ends := [row[at] for a, b, row in links if a not in near and b in near]) else []
        away += [min(ends)] if (ends := [row[at] for a, b, row in links if a in near and b not in near]) else []
    once = [_computed(graph, v, own, access) for v in range(len(order))]
    is_computed = not (back and away)
    if not is_computed:
        trips = zip(once, back, away, strict=True)
        again = [min(computed, there + (0 if blocks else then)) for computed, there, then in trips]
    try:
        least = replace(graph, durations=tuple(once if is_computed else again), computed_once=(), device_durations={})
    except InputError as error:
        raise CertificateError(f"memories: {error}") from None
    if goal == "traffic":
        copies = all(row == [graph.sizes[v] for v in order] for *_, row in links)
        require(copies and not any(once), "memories: costs are not the traffic of copies")
    require(goal == "duration" or not any(access), "memories: accesses take time, and nothing else")
    names = (
        f"{one['name']}: {'no limit' if of is None else of}"
        for one, of in zip(machine["memories"], budgets, strict=True)
    )
    budget = sum(all_of if (of := budgets[k]) is None else of for k in near)
    return OneMemory(least, sum(once), budget, is_computed, goal, f"in plans on {', '.join(names)}")


def _computed(graph: ComputationGraph, v: int, own: Sequence[int], access: Sequence[int]) -> int:
    """What a computation takes at least; further outputs come with the first one."""
    if graph.operation_of[v] != v:
        return 0
    return own[v] + sum(access[u] for u in (*graph.predecessors[v], v, *graph.outputs_of[v]))


def _link(k: int, one: Json, nodes: int, memories: int) -> tuple[int, int, list[int]]:
    ends, where = (one["source"], one["target"]), f"memories.links[{k}]"
    require(max(ends) < memories and ends[0] != ends[1], f"{where}: there are no two such memories")
    require(len(one["costs"]) == nodes, f"{where}.costs: expected one for each node")
    return *ends, one["costs"]


def _amounts(where: str, given: Json, nodes: int, some: bool) -> Json:
    """Amounts by node, of some or of all; null: of none."""
    if given is None:
        return None
    rows = read(where, given, [None])
    require(len(rows) == nodes, f"{where}: expected one for each node")
    return [None if some and one is None else read(f"{where}[{k}]", one, 0) for k, one in enumerate(rows)]
