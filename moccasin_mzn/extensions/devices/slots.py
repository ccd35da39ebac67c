"""A staged plan as a table: what is done in which slot, so that actions can be added and taken away in any order. ::

    (stage, node, slot)      (1, 1, gpu)   (1, 1, to cpu)   (2, 2, gpu)   (3, 1, to gpu)   (3, 3, gpu)
    source                   None          gpu              None          cpu              None

Nodes and stages are numbered from 1 along the input order, memories from 0. Slots of computations are the memories,
those of copies the memories plus their number: see `stages`.
"""

from __future__ import annotations

from moccasin_mzn.extensions.devices.data import stages_of_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Plan

Slot = tuple[int, int, int]
Slots = dict[Slot, int | None]
"""Source of the action in each slot that is used; None: computed."""


def slots_of(problem: PlanProblem, plan: Plan) -> Slots:
    number = {v: k for k, v in enumerate(problem.instance.order, 1)}
    memories = len(problem.platform.memories)
    stages = stages_of_plan(problem.instance.order, memories, plan)
    return {
        (stage, number[action.node], action.memory + memories * (action.source is not None)): action.source
        for stage, action in zip(stages, plan, strict=True)
    }


def plan_of(problem: PlanProblem, slots: Slots) -> Plan:
    order, memories = problem.instance.order, len(problem.platform.memories)
    return tuple(Action(order[v - 1], slot % memories, slots[stage, v, slot]) for stage, v, slot in sorted(slots))
