"""What `solve` answers, and what it tells on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.formulations import Formulation
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.search.shortfall import Shortfall


@dataclass(frozen=True)
class Progress:
    """A new incumbent or a new bound, while the search goes on."""

    seconds: float
    """Since `solve` was called."""
    phase: str
    """"peak": phase 1, a schedule within the budget is sought; "duration": phase 2, it is made shorter;
    "more": there is none yet, but one that computes nodes more often than was asked for, whose duration is not told."""
    peak: int
    """Of the incumbent, in the graph's size unit."""
    duration: int | None
    """Of the incumbent, in the graph's duration unit; None while no incumbent is within the budget."""
    bound: int
    """No schedule within the budget is shorter, in the graph's duration unit."""
    recomputations: int
    """Computations of the incumbent beyond one per node."""
    sequence: tuple[int, ...] | None = None
    """The incumbent, positions in `graph.nodes`, where it is within the budget and new."""
    source: str = ""
    """Who improved the incumbent or the bound."""


Listener = Callable[[Progress], None]


@dataclass(frozen=True)
class TracePoint:
    """The best schedule and the best bound from this moment on."""

    seconds: float
    """Since `solve` was called."""
    duration: int | None
    """In the graph's duration unit; None while there is no schedule."""
    bound: int
    """In the graph's duration unit."""


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of each step."""

    read: float = 0.0
    flatten: float = 0.0
    """MiniZinc's compilation."""
    solve: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class RacerResult:
    """What one of several solvers in a race did; over all its runs, if it had more than one."""

    solver: str
    """Its name; "search": local search and bounds."""
    status: str
    """Of its own latest answer, as in `Result`; "unknown" also if it was stopped before it gave one; "failed";
    "not-started"."""
    duration: int | None
    """Of its shortest schedule within the budget, one it started from aside; in the graph's duration unit."""
    bound: int
    """Its own bound, in the graph's duration unit."""
    seconds: float
    """Wall-clock time of its processes, their start included."""
    cpu_seconds: float
    """Of all it started."""
    ending: str
    """"proof"; "time"; "stopped": the race was over; "gave up"; "not started"; or how it failed, in one line."""

    def as_dict(self) -> dict[str, Any]:
        """Its entry in the object that `solve --json` prints."""
        return {**vars(self), "seconds": round(self.seconds, 3), "cpu_seconds": round(self.cpu_seconds, 3)}


@dataclass(frozen=True)
class Result:
    """The best schedule found, as judged by the simulator, and what is proven about it."""

    instance: Instance
    formulation: Formulation | None
    """None for a strategy."""
    solver: str
    """Empty for a strategy."""
    status: str
    """"optimal": proven for this formulation; "feasible": not proven; "infeasible": proven that there is no schedule;
    "unknown": none found in time; "over-budget": none within the budget, `sequence` is the strategy's own."""
    reason: str
    """One line: why the status is what it is."""
    sequence: tuple[int, ...] | None
    """Positions in `graph.nodes` in the order of computing them; None without a schedule."""
    simulation: Simulation | None
    """The judge's account of `sequence`."""
    duration_bound: int
    """No schedule within the budget is shorter, in the graph's duration unit."""
    seconds: Seconds
    interrupted: bool = False
    """True if the user stopped the search."""
    trace: tuple[TracePoint, ...] = ()
    """Every improvement of the schedule or of the bound, in order of time."""
    notes: tuple[str, ...] = ()
    """What was left undone and why, in one line each."""
    strategy: str = ""
    """The name of the strategy, if that made the schedule."""
    solution: Mapping[str, Any] | None = None
    """Data and arrays of the model's own latest solution, for its checker."""
    checks: tuple[str, ...] = ()
    """Verdicts of solution checkers."""
    racers: tuple[RacerResult, ...] = ()
    """If several solvers raced: each of them."""
    driver: str | None = None
    """The MiniZinc that was there to run the model, such as "MiniZinc 2.6.4"; None if none was asked for."""
    solver_version: str | None = None
    """What solves behind the solver's name, such as "Gecode 6.2.0"; None for a strategy, or if none was asked for."""

    claim: str = ""
    """What a solver in doubles claims and nobody has proven, in one line; else empty."""
    shortfall: Shortfall | None = None
    """Of the question as it was asked, if that has no schedule within the budget, or none was found."""
    arena: Arena | None = None
    """Offsets of the retention intervals, in their order, if they were asked for: the budget is then for the arena."""

    @property
    def found(self) -> bool:
        """True if there is a sequence; a strategy's may be over the budget."""
        return self.sequence is not None

    @property
    def valid(self) -> bool:
        """True if the judge accepts the schedule, and its arena, if it has one, is within the budget."""
        fits = self.arena is None or self.arena.size <= self.instance.budget
        return self.simulation is not None and self.simulation.feasible and fits

    @property
    def duration(self) -> int | None:
        """In the graph's duration unit."""
        return self.simulation.duration if self.simulation else None

    @property
    def peak(self) -> int | None:
        """In the graph's size unit."""
        return self.simulation.peak if self.simulation else None

    @property
    def tdi_percent(self) -> float | None:
        """Total duration increase: 100 * (duration / duration with every node computed once - 1)."""
        return percent_over(self.duration, self.instance.baseline.duration) if self.found else None

    @property
    def gap_percent(self) -> float | None:
        """100 * (duration - duration_bound) / duration; None without a schedule within the budget."""
        if not self.valid:
            return None
        return 100 * (self.duration - self.duration_bound) / self.duration if self.duration else 0.0

    @property
    def recomputed(self) -> dict[int, list[int]]:
        """For each node computed more than once: where in the sequence (from 1) it is computed again."""
        again: dict[int, list[int]] = {}
        if self.sequence:
            seen = set()
            for position, v in enumerate(self.sequence, 1):
                if v in seen:
                    again.setdefault(v, []).append(position)
                seen.add(v)
        return again

    def as_dict(self) -> dict[str, Any]:
        """The object that `solve --json` prints; node ids as in the file, positions in the sequence from 1."""
        graph, baseline = self.instance.graph, self.instance.baseline
        return {
            "graph": graph.name,
            "nodes": len(graph.nodes),
            "edges": len(graph.edges),
            "strategy": self.strategy or None,
            "formulation": getattr(self.formulation, "name", None),
            "precedence": getattr(self.formulation, "precedence", None),
            "index": getattr(self.formulation, "index", None),
            "solver": self.solver or None,
            "solver_version": self.solver_version,
            "driver": self.driver,
            "order": "free" if self.instance.free_order else "given",
            "max_computations": self.instance.counts,
            "budget": self.instance.budget,
            "fixed_memory": self.instance.fixed,
            "baseline_peak": baseline.peak,
            "baseline_duration": baseline.duration,
            "status": self.status,
            "reason": self.reason,
            "claim": self.claim or None,
            "notes": list(self.notes),
            "interrupted": self.interrupted,
            "peak": self.peak,
            "duration": self.duration,
            "tdi_percent": self.tdi_percent,
            "duration_bound": self.duration_bound,
            "gap_percent": self.gap_percent,
            "valid": self.valid,
            "checks": list(self.checks),
            "shortfall": None if self.shortfall is None else self.shortfall.as_dict(),
            "racers": [racer.as_dict() for racer in self.racers],
            "seconds": {name: round(value, 3) for name, value in vars(self.seconds).items()},
            "trace": [[round(point.seconds, 3), point.duration, point.bound] for point in self.trace],
            "sequence": [graph.nodes[v] for v in self.sequence] if self.found else None,
            "intervals": [
                {"node": graph.nodes[interval.node], "start": interval.start, "end": interval.end, **offset}
                for interval, offset in zip(self.simulation.intervals, self._offsets(), strict=True)
            ]
            if self.found
            else None,
            **({} if self.arena is None else self.arena.as_dict()),
        }

    def _offsets(self) -> list[dict[str, int]]:
        """What addresses add to each retention interval."""
        if self.arena is None:
            return [{} for _ in self.simulation.intervals]
        return [{"offset": offset} for offset in self.arena.offsets]


def percent_over(value: float, base: float) -> float:
    """By how many percent `value` exceeds `base`; 0 if both are 0."""
    return 100 * (value / base - 1) if base else 0.0
