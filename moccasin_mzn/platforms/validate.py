"""Validation of a plan from a file: the judge's verdict, and the plan's own claims against it."""

from __future__ import annotations

from dataclasses import replace

from moccasin_mzn.platforms.documents import ClaimedPlan
from moccasin_mzn.platforms.judge import PlanSimulation, judge_plan
from moccasin_mzn.simulate import Violation


def validate_plan(claimed: ClaimedPlan) -> PlanSimulation:
    """The judge's account, with a violation "wrong-..." for every total and peak claimed that is not so."""
    simulation = judge_plan(claimed.platform, claimed.plan, claimed.goal)
    wrong = []
    for what, value in claimed.totals:
        if value != simulation.total(what):
            message = f"{what} claimed is {value}, but the plan has {what} {simulation.total(what)}"
            wrong.append(Violation(f"wrong-{what}", None, None, message))
    for m, value in claimed.peaks:
        if value != simulation.peaks[m]:
            name = claimed.platform.memories[m].name
            message = f"peak in {name} claimed is {value}, but the plan has {simulation.peaks[m]}"
            wrong.append(Violation("wrong-peak", None, None, message))
    return replace(simulation, violations=(*simulation.violations, *wrong))
