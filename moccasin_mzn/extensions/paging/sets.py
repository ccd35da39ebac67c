"""Sets of second intervals (see `kernel`) from and to plans and problems."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.extensions.paging.data import can_page, costs_of, local_instance
from moccasin_mzn.extensions.paging.kernel import NONE, Problem, Workspace
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan import Action, Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES

NO_LIMIT = 2**62


def problem_of(problem: PlanProblem) -> Problem:
    """A problem for compiled code; sizes are rounded up, and budgets down, if sums of them might pass 2**62."""
    instance = local_instance(problem)
    arrays = graph_arrays(instance.graph, instance.order)
    n, order = arrays.node_count, list(instance.order)
    most = np.array([instance.max_computations[v] for v in order], np.int64)
    useful = (arrays.size > 0) & (np.diff(arrays.succ_ptr) > 0)
    slots = np.where(useful, np.minimum(most - 1, np.arange(n - 1, -1, -1)), 0)
    slot_ptr = np.zeros(n + 1, np.int64)
    np.cumsum(slots, out=slot_ptr[1:])
    capacity = problem.platform.memories[SLOW].budget
    total_size = int(arrays.size.sum())
    capacity = total_size if capacity is None else min(capacity, total_size)
    unit = max(1, -(-total_size * (n + int(slot_ptr[-1])) // 2**62))
    goal = problem.goal
    named = [goal.objective, *(what for what in OBJECTIVES if what != goal.objective)]
    rows = [costs_of(problem, what) for what in named]
    compute, write, read = (np.array([[row[kind][v] for v in order] for row in rows], np.int64) for kind in range(3))
    limits = [goal.limit(what) for what in named]
    return Problem(
        size=-(-arrays.size // unit),
        pred_ptr=arrays.pred_ptr,
        pred=arrays.pred.astype(np.int64),
        slot_ptr=slot_ptr,
        slot_node=np.repeat(np.arange(n, dtype=np.int64), slots),
        compute=compute,
        write=write,
        read=read,
        limit=np.array([NO_LIMIT if limit is None else min(limit, NO_LIMIT) for limit in limits], np.int64),
        budget=instance.budget // unit,
        slow_capacity=capacity // unit,
        paging=can_page(problem),
    )


def workspace_for(problem: Problem) -> Workspace:
    """Scratch for runs."""
    n, slots = len(problem.size), len(problem.slot_node)

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    events = n + slots + 2
    return Workspace(
        start=zeros(events), end=zeros(events), node=zeros(events), latest=zeros(n), before_back=zeros(n),
        last_back=zeros(n), change=zeros(events), slow_change=zeros(events), totals=zeros(3), head=zeros(n),
        after=zeros(slots),
    )  # fmt: skip


def useful_edges(problem: Problem, instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Edges (u, x), by tail, such that u has slots and some stage between the read before x and x, or x itself, is over
    the budget in the input order."""
    memory = simulate(instance.graph, instance.order).memory
    over = np.cumsum([0, *(amount > instance.budget for amount in memory)])
    number = {v: k for k, v in enumerate(instance.order)}
    found = []
    for u, v in enumerate(instance.order):
        previous = u
        for x in sorted(number[reader] for reader in instance.graph.successors[v]):
            if problem.slot_ptr[u] < problem.slot_ptr[u + 1] and over[x] > over[previous + 1]:
                found.append((u, x))
            previous = x
    edges = np.array(found, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])


def plan_of(instance: Instance, problem: Problem, stage: np.ndarray, back: np.ndarray) -> Plan:
    """The plan a set stands for: every write follows the last read of its source at once."""
    n, order = len(instance.order), instance.order
    slots = np.flatnonzero(stage != NONE)
    keys = [(int(stage[slot]), int(problem.slot_node[slot]), bool(back[slot])) for slot in slots]
    local = sorted([*keys, *((k, k, False) for k in range(n))])
    latest: dict[int, int] = {}
    end, source = list(range(len(local))), dict[int, int]()
    for t, (_, k, read) in enumerate(local):
        v = order[k]
        if read:
            source.setdefault(v, latest[v])
        else:
            for u in instance.graph.predecessors[v]:
                end[latest[u]] = t
        latest[v] = t
    writes: dict[int, list[int]] = {}
    for v, t in source.items():
        writes.setdefault(end[t], []).append(v)
    plan = []
    for t, (_, k, read) in enumerate(local):
        plan.append(Action(order[k], LOCAL, SLOW if read else None))
        plan += [Action(v, SLOW, LOCAL) for v in writes.get(t, [])]
    return tuple(plan)


def set_of(instance: Instance, problem: Problem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The set of a plan in stages of the input order.

    What has no slot is left out, as are second intervals of a node in a stage and what comes after the last stage.

    Raises:
        ValueError: the nodes are not all computed, or not in the input order for the first time.
    """
    number = {v: k for k, v in enumerate(instance.order)}
    stage, back = np.full(len(problem.slot_node), NONE, np.int64), np.zeros(len(problem.slot_node), np.int64)
    free, current, n = problem.slot_ptr[:-1].tolist(), 0, len(number)
    for action in plan:
        if action.memory != LOCAL:
            continue
        k = number[action.node]
        if current == n or k > current:
            break
        if k == current:
            current += 1
        elif free[k] < problem.slot_ptr[k + 1] and (free[k] == problem.slot_ptr[k] or stage[free[k] - 1] != current):
            stage[free[k]], back[free[k]] = current, action.source is not None
            free[k] += 1
    if current < n:
        raise ValueError(f"stage {current} of the input order does not end with the first computation of its node")
    return stage, back
