"""What `solve_plan` answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.files.plans import goal_document, intervals_document, plan_document, platform_document
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_arenas import PlanArenas
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.search.plan_record import PlanPoint
from moccasin_mzn.search.result import Seconds, percent_over


@dataclass(frozen=True)
class PlanResult:
    """The best plan found, as accounted for by the judge, and what is proven about it."""

    problem: PlanProblem
    formulation: PlanFormulation
    solver: str
    status: str
    """"optimal": proven for this formulation; "feasible": not proven; "infeasible": proven that there is no plan;
    "unknown": none found in time."""
    reason: str
    """One line: why the status is what it is."""
    plan: Plan | None
    simulation: PlanSimulation | None
    """The judge's account of `plan`."""
    bound: int
    """No plan has less of the objective, in the problem's unit."""
    seconds: Seconds
    interrupted: bool = False
    """True if the user stopped the search."""
    trace: tuple[PlanPoint, ...] = ()
    """Every improvement of the plan or of the bound, in order of time."""
    source: str = ""
    """Who found the plan."""
    solution: Mapping[str, Any] | None = None
    """Data and arrays of the model's latest solution, for its checker."""
    checks: tuple[str, ...] = ()
    """Verdicts of solution checkers."""
    driver: str | None = None
    """The MiniZinc that was there to run the model; None if none was asked for."""
    solver_version: str | None = None
    arenas: PlanArenas | None = None
    """Offsets of all copies, if they were asked for: budgets are then for arenas, and these are within them."""

    @property
    def found(self) -> bool:
        """True if there is a plan; the judge accepts it."""
        return self.plan is not None

    @property
    def value(self) -> int | None:
        """Of the plan: its total of the objective."""
        return self.problem.value(self.simulation) if self.found else None

    @property
    def gap_percent(self) -> float | None:
        """100 * (value - bound) / value; None without a plan."""
        if not self.found:
            return None
        return 100 * (self.value - self.bound) / self.value if self.value else 0.0

    @property
    def tdi_percent(self) -> float | None:
        """Total duration increase over the input order with every node computed once: 100 * (duration / that - 1)."""
        return percent_over(self.simulation.duration, self.problem.instance.baseline.duration) if self.found else None

    @property
    def recomputations(self) -> int | None:
        """Computations of the plan beyond one per node."""
        if not self.found:
            return None
        return sum(action.source is None for action in self.plan) - len(self.problem.platform.graph.nodes)

    def copies(self, source: int, target: int) -> int:
        """How often the plan copies from one memory to another; 0 without a plan."""
        return sum((action.source, action.memory) == (source, target) for action in self.plan or ())

    @property
    def copies_by_link(self) -> dict[str, int]:
        """Number of copies over each link that the plan uses, by "source -> target"."""
        memories = self.problem.platform.memories
        named = {}
        for source, target in self.problem.platform.link_between:
            count = self.copies(source, target)
            if count:
                named[f"{memories[source].name} -> {memories[target].name}"] = count
        return named

    def as_dict(self) -> dict[str, Any]:
        """The object that `solve --json` prints; nodes by id, memories by name, positions in the plan from 1."""
        problem, simulation = self.problem, self.simulation
        graph, instance = problem.platform.graph, problem.instance
        counts = sorted(set(instance.max_computations))
        return {
            "graph": graph.name,
            "nodes": len(graph.nodes),
            "edges": len(graph.edges),
            "formulation": self.formulation.name,
            "form": "staged" if self.formulation.staged else "general",
            "solver": self.solver,
            "solver_version": self.solver_version,
            "driver": self.driver,
            "order": "free" if instance.free_order else "given",
            "max_computations": counts[0] if len(counts) == 1 else list(instance.max_computations),
            "baseline_peak": instance.baseline.peak,
            "baseline_duration": instance.baseline.duration,
            "status": self.status,
            "reason": self.reason,
            "interrupted": self.interrupted,
            "peaks": {memory.name: simulation.peaks[m] for m, memory in enumerate(problem.platform.memories)}
            if self.found
            else None,
            **{what: simulation.total(what) if self.found else None for what in OBJECTIVES},
            "tdi_percent": self.tdi_percent,
            "recomputations": self.recomputations,
            "copies": self.copies_by_link if self.found else None,
            "bound": self.bound,
            "gap_percent": self.gap_percent,
            "valid": self.found,
            "checks": list(self.checks),
            "seconds": {name: round(value, 3) for name, value in vars(self.seconds).items()},
            "trace": [[round(point.seconds, 3), point.value, point.bound] for point in self.trace],
            "plan": plan_document(problem.platform, self.plan) if self.found else None,
            "intervals": self._intervals() if self.found else None,
            **({} if self.arenas is None else self.arenas.as_dict(problem.platform)),
            "goal": goal_document(problem.goal),
            "platform": platform_document(problem.platform),
        }

    def _intervals(self) -> list[dict[str, Any]]:
        intervals = self.simulation.intervals
        offsets = None if self.arenas is None else self.arenas.offsets(intervals)
        return intervals_document(self.problem.platform, intervals, offsets)
