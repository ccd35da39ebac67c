"""The search for a plan as lines of JSON, for a program that reads along; see `json_stream`."""

from __future__ import annotations

from typing import Any, TextIO

from moccasin_mzn.problem.files.plans import plan_document
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.report.json_lines import JsonLines
from moccasin_mzn.search.plan_record import PlanProgress


class PlanStream(JsonLines):
    """`progress` for every improvement, at the end `result`."""

    def __init__(self, problem: PlanProblem, out: TextIO) -> None:
        super().__init__(out)
        self._platform = problem.platform
        self._objective = problem.goal.objective

    def progress(self, progress: PlanProgress, needed: bool = False) -> None:
        """Write an improvement; with the plan, by names, if it is a new one. See `write`."""
        simulation = progress.simulation
        line: dict[str, Any] = {
            "type": "progress",
            "seconds": round(progress.seconds, 3),
            "phase": self._objective,
            "peaks": None,
            **dict.fromkeys(OBJECTIVES),
            "bound": progress.bound,
            "source": progress.source,
        }
        if simulation is not None:
            names = [memory.name for memory in self._platform.memories]
            line["peaks"] = dict(zip(names, simulation.peaks, strict=True))
            line |= {what: simulation.total(what) for what in OBJECTIVES}
        if progress.plan is not None:
            line["plan"] = plan_document(self._platform, progress.plan)
        self.write(line, needed)
