"""Budgets with which there is nothing to search for: the input order fits, or nothing ever does."""

from __future__ import annotations

from moccasin_mzn.instance import Instance


def known_at_once(instance: Instance) -> tuple[str, str, tuple[int, ...] | None] | None:
    """Status, reason and sequence where no search is needed."""
    graph, budget = instance.graph, instance.budget
    if instance.baseline.peak <= budget:
        return "optimal", "the input order fits the budget with every node computed once", instance.order
    within = f"the budget {budget}" + (f", which fixed memory of {instance.fixed} leaves" if instance.fixed else "")
    need = graph.largest_working_set()
    if need.memory > budget:
        reason = (
            f"node {graph.nodes[need.node]} alone needs {need.memory} for its inputs and its output, "
            f"{need.memory - budget} over {within}"
        )
        return "infeasible", reason, None
    from moccasin_mzn.bounds.least_budget import least_budget_bound

    least = least_budget_bound(graph)
    if least.memory > budget:
        reason = (
            f"to compute node {graph.nodes[least.node]} takes {least.memory}, however its inputs are recomputed, "
            f"{least.memory - budget} over {within}"
        )
        return "infeasible", reason, None
    return None
