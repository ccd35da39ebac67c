"""Whether a sequence of computations can be run as a plan, which asks more than a schedule: the order of effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.problem import Cut, Planned
from moccasin_mzn.pytorch.program import Meaning
from moccasin_mzn.pytorch.refusal import PlanError


def meant(problem: Planned, sequence: Sequence[int]) -> list[Meaning]:
    """What the nodes of a schedule stand for.

    Raises:
        PlanError: it is no schedule; something is computed more often than it may be, or for the first time in another
            order than the traced one, in which random numbers are drawn and statistics updated.
    """
    broken = simulate(problem.graph, sequence).violations
    if broken:
        raise PlanError(f"no schedule of this network: {broken[0].message}")
    first = list(dict.fromkeys(sequence))
    position = {node: at for at, node in enumerate(problem.graph.input_order())}
    if any(position[one] > position[other] for one, other in zip(first, first[1:], strict=False)):
        raise PlanError("a plan computes all for the first time in the order of the trace: plan with order input")
    for node, count in Counter(sequence).items():
        if count > 1 and not problem.most[node]:
            raise PlanError(f"node {problem.graph.nodes[node]} may be computed once only")
    found = [problem.meanings[node] for node in sequence]
    assert any(isinstance(each, Cut) for each in found)
    return found
