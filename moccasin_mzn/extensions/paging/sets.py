"""Sets of second intervals (see `kernel`) from and to plans and problems."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.extensions.paging.arrays import plan_with_writes
from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.extensions.paging.data import can_page, costs_of, local_instance
from moccasin_mzn.extensions.paging.kernel import NONE, Problem, Workspace
from moccasin_mzn.heuristics.slots import size_unit
from moccasin_mzn.heuristics.staged.state import problem_of as staged_problem
from moccasin_mzn.heuristics.staged.state import stages_of_slots
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES

NO_LIMIT = 2**62


def problem_of(problem: PlanProblem) -> Problem:
    """A problem for compiled code; sizes are rounded up, and budgets down, if sums of them might pass 2**62."""
    instance = local_instance(problem)
    staged, order = staged_problem(instance), list(instance.order)
    total = instance.graph.total_size + max(instance.graph.workspace_of)
    capacity = problem.platform.memories[SLOW].budget
    capacity = total if capacity is None else min(capacity, total)
    goal = problem.goal
    named = [goal.objective, *(what for what in OBJECTIVES if what != goal.objective)]
    rows = [costs_of(problem, what) for what in named]
    compute, write, read = (np.array([[row[kind][v] for v in order] for row in rows], np.int64) for kind in range(3))
    limits = [goal.limit(what) for what in named]
    return Problem(
        size=staged.size,
        workspace=staged.workspace,
        pred_ptr=staged.pred_ptr,
        pred=staged.pred.astype(np.int64),
        slot_ptr=staged.slot_ptr,
        slot_node=staged.slot_node,
        compute=compute,
        write=write,
        read=read,
        limit=np.array([NO_LIMIT if limit is None else min(limit, NO_LIMIT) for limit in limits], np.int64),
        budget=staged.budget,
        slow_capacity=capacity // size_unit(total, len(order) + len(staged.slot_node)),
        paging=can_page(problem),
    )


def workspace_for(problem: Problem) -> Workspace:
    n, slots = len(problem.size), len(problem.slot_node)

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    events = n + slots + 2
    return Workspace(
        start=zeros(events), end=zeros(events), node=zeros(events), own=zeros(events), latest=zeros(n),
        before_back=zeros(n), last_back=zeros(n), change=zeros(events), slow_change=zeros(events), totals=zeros(3),
        head=zeros(n), after=zeros(slots),
    )  # fmt: skip


def plan_of(instance: Instance, problem: Problem, stage: np.ndarray, back: np.ndarray) -> Plan:
    """The plan a set stands for: every write follows the last read of its source at once."""
    n, order = len(instance.order), instance.order
    slots = np.flatnonzero(stage != NONE)
    keys = [(int(stage[slot]), int(problem.slot_node[slot]), bool(back[slot])) for slot in slots]
    local = sorted([*keys, *((k, k, False) for k in range(n))])
    latest, end = dict[int, int](), list(range(len(local)))
    for t, (_, k, read) in enumerate(local):
        for u in () if read else instance.graph.predecessors[order[k]]:
            end[latest[u]] = t
        latest[order[k]] = t
    return plan_with_writes((t, end[t], order[k], read) for t, (_, k, read) in enumerate(local))


def set_of(instance: Instance, problem: Problem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The set of a plan in stages of the input order.

    What has no slot is left out, as are second intervals of a node in a stage and what comes after the last stage.

    Raises:
        ValueError: the nodes are not all computed, or not in the input order for the first time.
    """
    actions = [action for action in plan if action.memory == LOCAL]
    stage, place = stages_of_slots(instance.order, problem.slot_ptr, [action.node for action in actions])
    back = [int(t != NONE and actions[t].source is not None) for t in place.tolist()]
    return stage, np.array(back, np.int64)
