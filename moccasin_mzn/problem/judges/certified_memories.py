"""Machines of several memories as one memory, for the judge of certificates: what no plan has less of.

Near are the memories in which something is computed. What a computation reads and writes is there, so that at the first
computation of a node the outputs near, each counted once, fit into all near memories together. What is near, is not any
more, and is near again later was recomputed, or copied from a memory that is not near, where it was copied to
before. This costs at least the least of these: a duration, an energy, or, of copies alone, a size. What is copied back
reads no inputs: rules about what is recomputed do not hold then.

In memories of one device each computation reads and writes in addition, for which the least access is counted. There
some of them may be near. An output that lies elsewhere at the first computation of a node was written there, and is
read there by all that read it, as nothing is copied, unless it is recomputed; so what that computation itself reads and
writes is near, or costs that or a recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import CertificateError, require
from moccasin_mzn.problem.judges.certified_machines import Machine


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
    at_hand: bool
    """Is what a computation reads and writes near?"""
    goal: str
    """The total that is bounded: "duration", "energy" or "traffic"."""
    text: str


def in_one_memory(graph: ComputationGraph, machine: Machine, blocks: bool) -> OneMemory:
    """Return what plans need at least.

    Args:
        blocks: is "again" counted in each block, so that what is copied back may have been copied away before?

    Raises:
        CertificateError: a node is not computed anywhere, or costs are too large.
    """
    count, n = range(len(machine.budgets)), range(len(graph.nodes))
    computing = [k for k in count if any(cost is not None for cost in machine.costs[k])]
    near, at_hand = machine.near, machine.near == computing
    some = near == sorted(set(near) & set(computing)) != [] and not any(machine.devices) and not blocks
    require(at_hand or some, "memories.near: these do not count as one")
    for v in n:
        require(any(machine.costs[k][v] is not None for k in near), f"memories: {graph.nodes[v]} is computed in none")
    own = [min(cost for k in near if (cost := machine.costs[k][v]) is not None) for v in n]
    access = [min(machine.accesses[k][v] for k in count) for v in n]
    once = [own[v] + sum(access[u] for u in (*graph.predecessors[v], v, *graph.outputs_of[v]))
            if graph.operation_of[v] == v else 0 for v in n]  # fmt: skip
    back = [row for (a, b), row in machine.links.items() if a not in near and b in near]
    away = [row for (a, b), row in machine.links.items() if a in near and b not in near]
    is_computed, again = not (back and away), once
    if not is_computed:
        trips = [min(row[v] for row in back) + (0 if blocks else min(row[v] for row in away)) for v in n]
        again = list(map(min, once, trips))
    if not at_hand:
        far = [min(machine.accesses[k][v] for k in count if k not in near) - access[v] for v in n]
        reads = [sum(graph.operation_of[w] == w for w in graph.successors[v]) for v in n]  # others take no time
        again = [min(once[v], far[v] * (1 + reads[v])) for v in n]
        is_computed = False
    try:
        least = replace(graph, durations=tuple(again), computed_once=(), device_durations={})
    except InputError as error:
        raise CertificateError(f"memories: {error}") from None
    everything = graph.total_size + max(graph.workspace_of)
    budget = sum(everything if (of := machine.budgets[k]) is None else of for k in near)
    limits = ("no limit" if of is None else of for of in machine.budgets)
    names = ", ".join(f"{name}: {limit}" for name, limit in zip(machine.names, limits, strict=True))
    return OneMemory(least, sum(once), budget, is_computed, at_hand, machine.goal, f"in plans on {names}")
