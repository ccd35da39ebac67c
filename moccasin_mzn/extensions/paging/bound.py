"""The instant bound of recomputation (see `bounds.cover`), for plans that may read back instead.

What the input order holds too much at a stage must be dropped there and come again, whatever brings it: an output that
comes again is computed at least once more, or written and read back at least once. So the cheaper of the two takes the
place of its duration. That a computation reads its inputs, which recomputation's other bounds build on, plays no part.
"""

from __future__ import annotations

from dataclasses import replace

from moccasin_mzn.bounds.cover import cover_bound
from moccasin_mzn.extensions.paging.data import can_page, costs_of, local_instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.stages import Stages


def instant_bound(problem: PlanProblem) -> int:
    """No plan in stages of the input order has less of the objective, in the problem's unit; 0 if there is no plan."""
    instance = local_instance(problem)
    compute, write, read = costs_of(problem, problem.goal.objective)
    again = compute
    if can_page(problem):
        again = [min(c, w + r) for c, w, r in zip(compute, write, read, strict=True)]
    stages = replace(Stages.of(instance), duration=tuple(again[v] for v in instance.order), duration_scale=1)
    extra = cover_bound(stages)
    return 0 if extra is None else sum(compute) + extra
