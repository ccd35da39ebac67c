"""Machines of several memories in certificates."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import Json, read, require, shown

MACHINE: Json = {
    "goal": str, "nodes": [None], "plan": None, "near": [0],
    "memories": [{"name": str, "device": 0, "budget": None, "costs": None, "accesses": None}],
    "links": [{"source": 0, "target": 0, "costs": [0]}],
}  # fmt: skip
"""Costs and accesses by node are in the order of "nodes", which has all ids; null: no budget, not computed there, no
accesses, no plan. The device of a memory is the first memory that it shares one with. A plan has actions: node, memory,
and the memory that it is copied from, or null. Near are the memories that count as one, see `certified_memories`."""
GOALS = "duration", "energy", "traffic"


@dataclass(frozen=True)
class Machine:
    """A machine; lists by memory, and in these by position in `graph.nodes`."""

    goal: str
    names: list[str]
    devices: list[int]
    budgets: list[int | None]
    costs: list[list[int | None]]
    """What computing takes; None: not possible."""
    accesses: list[list[int]]
    links: dict[tuple[int, int], list[int]]
    """By the memories that they lead from and to, what copies cost."""
    plan: list[tuple[int, int, int | None]] | None
    """Node, memory, and the memory that it is copied from; None: it is computed."""
    near: list[int]


def machine_in(graph: ComputationGraph, document: Json) -> Machine:
    """Return the machine of a certificate.

    Raises:
        CertificateError: it is no machine for the graph.
    """
    form = read("memories", document, MACHINE)
    goal, memories, n = form["goal"], form["memories"], len(graph.nodes)
    require(goal in GOALS, f"memories.goal is {shown(goal)}, expected one of {', '.join(GOALS)}")
    order = read("memories.nodes", form["nodes"], [graph])
    require(sorted(order) == [*range(n)], "memories.nodes: it does not have every node once")
    devices, links = [one["device"] for one in memories], dict[tuple[int, int], list[int]]()
    for k, first in enumerate(devices):
        fits = first <= k and devices[first] == first and memories[first]["costs"] == memories[k]["costs"]
        require(fits, f"memories.memories[{k}].device: it is no memory before it that computes the same")
    for k, one in enumerate(form["links"]):
        where, ends = f"memories.links[{k}]", (one["source"], one["target"])
        require(max(ends) < len(memories) and ends not in links, f"{where}: there are no two such memories")
        require(devices[ends[0]] != devices[ends[1]], f"{where}: it is within a device")
        links[ends] = _by_node(where, order, one["costs"], None)
    costs, accesses, budgets = [], [], []
    for k, one in enumerate(memories):
        where = f"memories.memories[{k}]"
        costs.append(_by_node(f"{where}.costs", order, one["costs"], None, nulls=True))
        accesses.append(_by_node(f"{where}.accesses", order, one["accesses"], 0))
        budgets.append(None if one["budget"] is None else read(f"{where}.budget", one["budget"], 0))
    require(goal == "duration" or not any(map(any, accesses)), "memories: accesses take time, and nothing else")
    if goal == "traffic":
        sizes = list(graph.sizes)
        counted = all(row == sizes for row in links.values()) and not any(map(any, costs))
        require(counted, "memories: costs are not the traffic of copies")
    plan = None if form["plan"] is None else _plan(graph, form["plan"], len(memories))
    return Machine(
        goal, [one["name"] for one in memories], devices, budgets, costs, accesses, links, plan, form["near"]
    )


def _by_node(where: str, order: list[int], given: Json, missing: int | None, nulls: bool = False) -> Json:
    """Amounts by position; of null `missing` for all."""
    if given is None:
        return [missing] * len(order)
    row = read(where, given, [None])
    require(len(row) == len(order), f"{where}: expected one for each node")
    return [None if nulls and row[k] is None else read(f"{where}[{k}]", row[k], 0)
            for k in sorted(range(len(order)), key=order.__getitem__)]  # fmt: skip


def _plan(graph: ComputationGraph, given: Json, memories: int) -> list[tuple[int, int, int | None]]:
    plan = []
    for t, action in enumerate(read("memories.plan", given, [[None]])):
        where = f"memories.plan[{t}]"
        require(len(action) == 3, f"{where}: expected a node, its memory, and the one that it is copied from, or null")
        v, places = read(where, action[0], graph), [one for one in action[1:] if one is not None]
        known = action[1] is not None and all(read(where, one, 0) < memories for one in places)
        require(known, f"{where}: there is no such memory")
        plan.append((v, action[1], action[2]))
    return plan
