"""Schedules in certificates, from the definition of retention intervals."""

from __future__ import annotations

from itertools import accumulate

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import Json, read, require


def schedule_duration(
    graph: ComputationGraph, document: dict[str, Json], order: list[int] | None, budget: int
) -> int:  # fmt: skip
    """Return the duration of the schedule of a certificate.

    Args:
        order: of first computations, positions in `graph.nodes`; None: any.

    Raises:
        CertificateError: it is no schedule within the budget, or takes another time than the certificate states.
    """
    sequence, nodes = read("schedule", document["schedule"], [graph]), graph.nodes
    latest, last_read = dict[int, int](), list(range(len(sequence)))  # where each was computed last, and where read
    for t, v in enumerate(sequence):
        require(v not in latest or v not in graph.computed_once, f"schedule[{t}]: {nodes[v]} is computed once only")
        for u in graph.predecessors[v]:
            require(u in latest, f"schedule[{t}]: {nodes[v]} reads {nodes[u]}, not computed before")
            last_read[latest[u]] = t
        latest[v] = t
    for t in graph.outputs_apart(sequence):
        require(False, f"schedule[{t}]: {nodes[sequence[t]]} does not come directly after its first output")
    for v, node in enumerate(nodes):
        require(v in latest, f"schedule: {node} is never computed")
    require(order in (None, [*dict.fromkeys(sequence)]), "schedule: first computations are not in the given order")
    change = [graph.sizes[v] for v in sequence] + [0]
    for t, v in enumerate(sequence):
        change[last_read[t] + 1] -= graph.sizes[v]
    ends = {(v, last_read[t]) for t, v in enumerate(sequence) if last_read[t] > t}
    for t, (retained, v) in enumerate(zip(accumulate(change), sequence, strict=False)):
        spared = graph.sizes[v] if any((u, t) in ends for u in (graph.overwritable or {v: ()})[v]) else 0
        memory = retained + graph.workspace_of[v] - spared
        require(memory <= budget, f"schedule[{t}]: memory {memory} is over the budget {budget}")
    duration, claimed = sum(graph.durations[v] for v in sequence), read("duration", document["duration"], 0)
    require(claimed == duration, f"duration is {claimed}, but that of the schedule is {duration}")
    return duration
