"""Plans in certificates, from the definition of copies in several memories.

A computation reads in memories of its device, a copy reads in the memory that it is made from. Both open an interval in
a memory, in place of an earlier one on its device; it ends when its copy is read for the last time.
"""

from __future__ import annotations

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import Json, require
from moccasin_mzn.problem.judges.certified_machines import Machine, machine_in
from moccasin_mzn.problem.judges.certified_memories import OneMemory, in_one_memory


def certified_plans(
    graph: ComputationGraph, document: Json, order: list[int] | None, blocks: bool
) -> tuple[OneMemory, int | None]:
    """Return what plans on the machine of a certificate need at least, and what its plan takes; None: it has none.

    Raises:
        CertificateError: it is no machine, or no plan within the budgets.
    """
    machine = machine_in(graph, document)
    return in_one_memory(graph, machine, blocks), plan_total(graph, machine, order)


def plan_total(graph: ComputationGraph, machine: Machine, order: list[int] | None) -> int | None:
    """Return what the plan of a certificate takes; None: it has none.

    Args:
        order: of first computations, positions in `graph.nodes`; None: any.

    Raises:
        CertificateError: it is no plan within the budgets.
    """
    if machine.plan is None:
        return None
    total, latest, ends = 0, dict[tuple[int, int], int](), list[int]()
    for t, (v, m, source) in enumerate(machine.plan):
        where = f"memories.plan[{t}]: {graph.nodes[v]}"
        if source is not None:
            require((source, m) in machine.links, f"{where} cannot be copied so")
            origin = latest.get((v, machine.devices[source]))
            there = origin is not None and machine.plan[origin][1] == source
            require(there, f"{where} is not where it is copied from")
            total += machine.links[source, m][v]
            reads = [origin]
        else:
            reads = [latest.get((u, machine.devices[m])) for u in graph.predecessors[v]]
            require(None not in reads, f"{where} reads what is not there")
            require(_is_together(graph, machine, t), f"{where} does not come directly after its first output")
            places = {u: machine.plan[k][1] for u, k in zip(graph.predecessors[v], reads, strict=True) if k is not None}
            groups = () if graph.adjacent is None else graph.adjacent[v]
            apart = any(len({places[u] for u in group}) > 1 for group in groups)
            require(not apart, f"{where} reads as one what is in two memories")
            total += _cost(graph, machine, where, v, m, places)
        for k in reads:
            if k is not None:
                ends[k] = t
        latest[v, machine.devices[m]] = len(ends)
        ends.append(t)
    computed = [v for v, _, source in machine.plan if source is None]
    for v, node in enumerate(graph.nodes):
        count = computed.count(v) if v in graph.computed_once else 1
        require(v in computed and count == 1, f"memories.plan: {node} is never computed, or too often")
    require(order in (None, [*dict.fromkeys(computed)]), "memories.plan: first computations are not in the given order")
    _check_budgets(graph, machine, ends)
    return total


def _is_together(graph: ComputationGraph, machine: Machine, t: int) -> bool:
    """Is a computation that of a first output, or directly after another output of it, there?"""
    assert machine.plan is not None
    (v, m, _), (u, k, source) = machine.plan[t], machine.plan[t - 1]
    first = graph.operation_of
    return first[v] == v or (t > 0 and first[u] == first[v] and (k, source) == (m, None))


def _cost(graph: ComputationGraph, machine: Machine, where: str, v: int, m: int, places: dict[int, int]) -> int:
    cost = machine.costs[m][v]
    require(cost is not None, f"{where} cannot be computed there")
    assert cost is not None
    if graph.operation_of[v] != v:
        return cost
    written = sum(machine.accesses[m][w] for w in (v, *graph.outputs_of[v]))
    return cost + written + sum(machine.accesses[k][u] for u, k in places.items())


def _check_budgets(graph: ComputationGraph, machine: Machine, ends: list[int]) -> None:
    assert machine.plan is not None
    for m, budget in enumerate(machine.budgets):
        dying = {(v, ends[t]) for t, (v, k, _) in enumerate(machine.plan) if k == m and ends[t] > t}
        change = [0] * (len(ends) + 1)
        for t, (v, k, _) in enumerate(machine.plan):
            change[t] += graph.sizes[v] * (k == m)
            change[ends[t] + 1] -= graph.sizes[v] * (k == m)
        retained = 0
        for t, (v, k, source) in enumerate(machine.plan):
            retained += change[t]
            own = 0
            if k == m and source is None:
                overwrites = any((u, t) in dying for u in (graph.overwritable or {v: ()})[v])
                own = graph.workspace_of[v] - graph.sizes[v] * overwrites
            memory = retained + own
            within = budget is None or memory <= budget
            require(within, f"memories.plan[{t}]: memory {memory} is over the budget {budget} of {machine.names[m]}")
