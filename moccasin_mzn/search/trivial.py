"""Budgets with which there is nothing to search for: the input order fits, or nothing ever does."""

from __future__ import annotations

from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import INSTANT, Board
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.words import memory_text, over_text

INPUT_ORDER = "the input order"
"""Who found a schedule where that fits."""
FAR = 20
"""So many times a budget is more than anyone misjudges it by."""


def known_at_once(instance: Instance) -> tuple[str, str, tuple[int, ...] | None] | None:
    """Status, reason and sequence where no search is needed."""
    graph, budget = instance.graph, instance.budget
    if instance.baseline.peak <= budget:
        return "optimal", "the input order fits the budget with every node computed once", instance.order
    unit = graph.size_unit
    left = f", which fixed memory of {memory_text(instance.fixed, unit)} leaves" if instance.fixed else ""
    need = graph.largest_working_set()
    if need.memory > budget:
        what = (
            "its inputs, its output and its workspace" if graph.workspace_of[need.node] else "its inputs and its output"
        )
        what += ", in place" if graph.spared[need.node] else ""
        reason = (
            f"node {node_text(graph, need.node)} alone needs {memory_text(need.memory, unit)} for {what}, "
            f"{over_text(need.memory, budget, unit)}{left}{_share_meant(budget, need.memory)}"
        )
        return "infeasible", reason, None
    from moccasin_mzn.bounds.least_budget import least_budget_bound

    least = least_budget_bound(graph, budget)
    if least.memory > budget:
        reason = (
            f"to compute node {node_text(graph, least.node)} takes {memory_text(least.memory, unit)}, however its "
            f"inputs are recomputed, {over_text(least.memory, budget, unit)}{left}"
        )
        return "infeasible", reason, None
    return None


def _share_meant(budget: int, needed: int) -> str:
    """A word on budgets that look like a number of percent: far too small, and at most 100."""
    if not 1 < budget <= 100 or needed < FAR * budget:
        return ""
    return f"; {budget} percent of the input order's peak is the budget {budget}%"


def no_plan(record: Board, formulation: PlanFormulation, options: SearchOptions, why: str) -> Result:
    """The answer where it is known without a search that there is no plan."""
    return Result(
        record.problem, formulation, options.solver, "infeasible", why, None, None, record.bound,
        Seconds(total=record.seconds), proved_by=INSTANT,
    )  # fmt: skip
