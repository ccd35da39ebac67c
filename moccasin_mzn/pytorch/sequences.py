"""Whether a sequence of computations and copies can be run as a plan, which asks more than a schedule: the order of
effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moccasin_mzn.extensions.devices.build import CopyCosts, with_slow_memory
from moccasin_mzn.extensions.paging.build import LOCAL
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.platform import Action, Memory, Platform
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.problem import Cut, Planned
from moccasin_mzn.pytorch.program import Copied, Meaning
from moccasin_mzn.pytorch.refusal import PlanError


def meant(problem: Planned, given: Sequence[int] | Sequence[Action]) -> list[Meaning]:
    """What the nodes of a schedule stand for, or the actions of a plan with slow memory.

    Raises:
        PlanError: it is no schedule; something is computed more often than it may be, or for the first time in another
            order than the traced one, in which random numbers are drawn and statistics updated.
    """
    graph = problem.graph
    plan = [each if isinstance(each, Action) else Action(each) for each in given]
    local = Platform(graph, (Memory("local", None, graph.durations),))
    broken = judge_plan(with_slow_memory(local, None, CopyCosts(), CopyCosts()), plan).violations
    if broken:
        raise PlanError(f"no schedule of this network: {broken[0].message}")
    sequence = [action.node for action in plan if action.source is None]
    first = list(dict.fromkeys(sequence))
    position = {node: at for at, node in enumerate(graph.input_order())}
    if any(position[one] > position[other] for one, other in zip(first, first[1:], strict=False)):
        raise PlanError("a plan computes all for the first time in the order of the trace: plan with order input")
    for node, count in Counter(sequence).items():
        if count > 1 and not problem.most[node]:
            raise PlanError(f"node {graph.nodes[node]} may be computed once only")
    found = [_meaning(problem, action) for action in plan]
    assert any(isinstance(each, Cut) for each in found)
    return found


def _meaning(problem: Planned, action: Action) -> Meaning:
    meaning = problem.meanings[action.node]
    if action.source is None:
        return meaning
    if not isinstance(meaning, Computation):
        raise PlanError(f"node {problem.graph.nodes[action.node]} is not computed, it cannot be copied")
    return Copied(meaning, back=action.memory == LOCAL)
