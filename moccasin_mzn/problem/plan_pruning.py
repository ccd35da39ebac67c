"""Plans without the actions that nothing needs."""

from __future__ import annotations

from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.platform import Platform


def pruned_plan(platform: Platform, plan: Plan) -> Plan:
    """The plan without copies and repeated computations that nothing reads; it must be one the judge accepts.

    To leave out what is not read holds nothing longer, so that the plan stays within budgets and limits.
    """
    while True:
        computed: set[int] = set()
        kept = []
        for action, interval in zip(plan, judge_plan(platform, plan).intervals, strict=True):
            needed = interval.end > interval.start or (action.source is None and action.node not in computed)
            if needed:
                kept.append(action)
                if action.source is None:
                    computed.add(action.node)
        if len(kept) == len(plan):
            return tuple(plan)
        plan = tuple(kept)
