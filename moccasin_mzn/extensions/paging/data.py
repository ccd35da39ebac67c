"""What the models of paging take: the problem without slow memory, and costs by node along the input order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce

from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES


@dataclass(frozen=True)
class Total:
    """One of the totals of a plan that matter, in a unit of its own; costs by node along the input order."""

    what: str
    scale: int
    """Costs times this are in the problem's unit."""
    compute: tuple[int, ...]
    write: tuple[int, ...]
    read: tuple[int, ...]
    limit: int = 0

    def most(self, model: ModelData) -> tuple[int, ...]:
        """By node, with as many intervals as it may have."""
        rows = zip(self.compute, self.write, self.read, model.max_computations, strict=True)
        return tuple(max(compute, read) * most + write for compute, write, read, most in rows)


@dataclass(frozen=True)
class PagingData:
    """What `models/lib/instance.mzn` and `models/lib/paging_header.mzn` declare."""

    problem: PlanProblem
    model: ModelData
    totals: tuple[Total, ...]
    """The objective first."""
    slow_capacity: int
    """In units of `model.size_scale`."""
    pageable: bool


def local_instance(problem: PlanProblem) -> Instance:
    """The problem without slow memory.

    Raises:
        InputError: the platform is not one memory that computes all nodes and one that computes none, in this order.
    """
    memories = problem.platform.memories
    if len(memories) != 2 or memories[SLOW].durations is not None:
        names = ", ".join(memory.name for memory in memories)
        raise InputError(f"memories {names}: paging is for one that computes and, second, one that does not")
    graph = problem.platform.graph
    budget, everything = memories[LOCAL].budget, graph.total_size + max(graph.workspace_of)
    return replace(problem.instance, budget=everything if budget is None else min(budget, everything))


def can_page(problem: PlanProblem) -> bool:
    return {(LOCAL, SLOW), (SLOW, LOCAL)} <= set(problem.platform.link_between)


def totals_of(problem: PlanProblem, model: ModelData) -> tuple[Total, ...]:
    """The objective, and what else has a limit."""
    goal = problem.goal
    limited = [what for what in OBJECTIVES if goal.limit(what) is not None and what != goal.objective]
    return tuple(_total(problem, model, what) for what in (goal.objective, *limited))


def costs_of(problem: PlanProblem, what: str) -> tuple[list[int], list[int], list[int]]:
    """One total's costs of computing, writing and reading back each node, by position in `graph.nodes`."""
    platform, n = problem.platform, len(problem.platform.graph.nodes)
    links = [platform.link_between.get(ends) for ends in ((LOCAL, SLOW), (SLOW, LOCAL))]
    if what == "traffic":
        return [0] * n, [*platform.graph.sizes], [*platform.graph.sizes]
    key = "durations" if what == "duration" else "energies"
    compute = getattr(platform.memories[LOCAL], key)
    out, back = ([0] * n if link is None else [*getattr(link, key)] for link in links)
    return [*compute], out, back


def _total(problem: PlanProblem, model: ModelData, what: str) -> Total:
    rows = [[row[v] for v in model.order] for row in costs_of(problem, what)]
    scale = reduce(math.gcd, (cost for row in rows for cost in row), 0) or 1
    compute, out, back = (tuple(cost // scale for cost in row) for row in rows)
    total = Total(what, scale, compute, out, back)
    limit, given = sum(total.most(model)), problem.goal.limit(what)
    return replace(total, limit=limit if given is None else min(limit, given // scale))
