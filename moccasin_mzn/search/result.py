"""Reports of a search: its progress, and its result at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.bounds.least_budget import least_budget_within, retained_bound
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.problem.files.plan_format import versioned
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.problem import Judged, Problem, Step, answer_document

Status: TypeAlias = Literal["optimal", "feasible", "infeasible", "unknown", "over-budget"]
"""The status of a result; see `Result.status`."""
RacerStatus: TypeAlias = Literal["optimal", "feasible", "infeasible", "unknown", "failed", "not-started"]
"""The status of a racer; see `RacerResult.status`."""


ADDRESSES: Final = "addresses"
"""The phase of progress about a schedule without offsets, or whose arenas are over the budgets."""


@dataclass(frozen=True)
class Progress(Generic[Step]):
    """A new incumbent or a new bound, while the search goes on. Values are totals of the problem's objective."""

    seconds: float
    """Seconds since the search began."""
    phase: str
    """"peak": an answer within the budget is sought; the objective: there may be one, and it is made better; "more":
    there is none yet, but one that computes nodes more often than the problem allows, whose value is left out;
    "addresses": offsets of an answer are still to be found, see `unplaced`."""
    value: int | None
    """Value of the incumbent; None while absent."""
    bound: int
    """Lower bound on the value of all answers."""
    figures: JsonObject
    """Figures of the incumbent, or of a sequence that comes near one, see `Problem.figures`."""
    answer: tuple[Step, ...] | None = None
    """The incumbent, where it is new: positions in `graph.nodes`, or actions."""
    source: str = ""
    """Name of who improved the incumbent or the bound."""
    unplaced: int | None = None
    """In the phase "addresses", value of an answer within the memory budgets whose offsets are searched for. It is not
    the incumbent: that has arenas within the budgets."""
    arenas: Mapping[str, int] | None = None
    """With addresses, sizes of the least arenas of the answer, by memory: of the unplaced one, or of a new incumbent;
    None: not searched for yet."""

    @property
    def peak(self) -> int:
        """Peak of a schedule of one memory, in the graph's size unit."""
        return self.figures["peak"]


Listener = Callable[[Progress], None]


def ignore(progress: object) -> None:
    """Do nothing with an improvement."""


@dataclass(frozen=True)
class TracePoint:
    """The best answer and the best bound from this moment on."""

    seconds: float
    """Seconds since the search began."""
    value: int | None
    """Value of the best answer; None while absent."""
    bound: int
    source: str = ""
    """Name of who improved one of them: "local search", "bounds", a solver, "cp-sat on a window", a strategy."""
    answer: Sequence[Any] | None = None
    """The best answer, where it is new: positions in `graph.nodes`, or actions; None: the bound is, or the answer was
    not kept, see `Board.trace`. `solve --json` leaves it out."""


# --- What is known where no schedule was found ----------------------------------------------------------------


FOUND: Final = "found"
NONE_FOUND: Final = "none found"
NONE_THERE: Final = "none there"
NOT_TRIED: Final = "not tried"


@dataclass(frozen=True)
class Help:
    """Another problem that may have a schedule."""

    option: str
    """Option of the command line that poses it."""
    outcome: Literal["found", "none found", "none there", "not tried"]
    """"found": a schedule, which follows; "none found" in the time there was; "none there", proven; "not tried"."""
    detail: str
    """A short explanation."""
    seconds: float = 0.0
    """Seconds for which it was tried."""
    peak: int | None = None
    """Peak of the schedule, in the graph's size unit."""
    duration: int | None = None
    """Duration of the schedule, in the graph's duration unit."""
    tdi_percent: float | None = None
    sequence: tuple[int, ...] | None = None
    """Positions in `graph.nodes`."""

    def as_dict(self, nodes: Sequence[int | str]) -> JsonObject:
        """Return its entry in the object that `solve --json` prints; `nodes` are the ids."""
        sequence = None if self.sequence is None else [nodes[v] for v in self.sequence]
        return {**vars(self), "seconds": round(self.seconds, 3), "sequence": sequence}


@dataclass(frozen=True)
class Shortfall:
    """Knowledge about a problem without a schedule, or with none found. Memory is in the graph's size unit."""

    instance: Instance
    status: Status
    """"infeasible", "unknown", or, for a strategy, "over-budget"."""
    least_peak: int
    """Least peak of all sequences seen, the input order among them."""
    floor: int
    """Proven bound: no schedule in any order, with any number of computations, fits less."""
    scope_floor: int
    """Proven bound: no schedule of the kind that was sought fits less."""
    helps: tuple[Help, ...] = ()
    """Problems that may have a schedule, the most promising one first."""

    def of_budget(self, amount: int) -> float | None:
        """Return an amount of memory as a fraction of the budget; None if fixed memory leaves nothing."""
        return amount / self.instance.budget if self.instance.budget > 0 else None

    def as_dict(self) -> JsonObject:
        """Return its part of the object that `solve --json` prints."""
        amounts = {name: getattr(self, name) for name in ("least_peak", "floor", "scope_floor")}
        return {
            "status": self.status,
            "max_computations": self.instance.counts,
            **amounts,
            **{f"{name}_of_budget": self.of_budget(amount) for name, amount in amounts.items()},
            "helps": [one.as_dict(self.instance.graph.nodes) for one in self.helps],
        }


def shortfall(
    instance: Instance, status: Status, staged: bool, least_peak: int | None, floor: int = 0,
    helps: Sequence[Help] = (), time_limit: float | None = None,
) -> Shortfall:  # fmt: skip
    """Return what is known of an instance, with what a search has seen and proven.

    Args:
        staged: are first computations in the input order?
        least_peak: seen; None: nothing.
        floor: proven by the search.
        time_limit: of the search, in seconds; with a short one the bounds take less time.
    """
    least = least_budget_within(instance.graph, time_limit).memory
    floors = [least, floor, instance.budget + 1 if status == "infeasible" else 0]
    if staged and not instance.free_order:
        floors.append(retained_bound(instance))
    peaks = [instance.baseline.peak] if least_peak is None else [instance.baseline.peak, least_peak]
    return Shortfall(instance, status, min(peaks), least, max(floors), tuple(helps))


# --- What `solve` answers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of each step."""

    read: float = 0.0
    flatten: float | None = 0.0
    """MiniZinc's compilation of the model; None where a run ended before MiniZinc reported it: it is in `solve`."""
    solve: float = 0.0
    total: float = 0.0

    def __str__(self) -> str:
        included = " with flattening" if self.flatten is None else ""
        parts = ((name, seconds, included if name == "solve" else "") for name, seconds in vars(self).items())
        return ", ".join(f"{name}{how} {seconds:.2f}" for name, seconds, how in parts if seconds is not None)


@dataclass(frozen=True)
class RacerResult:
    """The part of one solver in a race; over all its runs, if it had more than one."""

    solver: str
    """The racer's name; "search": local search and bounds."""
    status: RacerStatus
    """Status of its own latest answer, as in `Result`; "unknown" also if it was stopped before it gave one; "failed";
    "not-started"."""
    value: int | None
    """Value of its best answer, except one that it started from."""
    bound: int
    """The racer's own bound."""
    seconds: float
    """Wall-clock time of its processes, their start included."""
    cpu_seconds: float
    """CPU time of all processes that it started."""
    ending: str
    """"proof"; "time"; "stopped": the race was over; "gave up"; "not started"; or how it failed, in one line."""

    def as_dict(self, objective: str) -> JsonObject:
        """Return its entry in the object that `solve --json` prints, the value under the name of the objective."""
        named = {objective if name == "value" else name: of for name, of in vars(self).items()}
        return {**named, "seconds": round(self.seconds, 3), "cpu_seconds": round(self.cpu_seconds, 3)}


@dataclass(frozen=True)
class SearchResult(Generic[Step, Judged]):
    """The best schedule found, for one memory or several, as judged by the simulator, and what is proven about it."""

    problem: Problem[Step, Judged]
    formulation: Searched | None
    """A `Formulation` or `PlanFormulation`; None for a strategy."""
    solver: str
    """Name of the solver; empty for a strategy."""
    status: Status
    """"optimal": proven for this formulation; "feasible": not proven; "infeasible": proven that there is no answer;
    "unknown": none found in time; "over-budget": none within the budget, `sequence` is the strategy's own."""
    reason: str
    """Why the status is what it is, in one line."""
    answer: tuple[Step, ...] | None
    """The schedule: positions in `graph.nodes` in the order of computing them, or actions; None if none was found."""
    simulation: Any
    """The judge's account of `answer`, a `Judged`; None without one, as are all figures of it."""
    bound: int
    """No answer has less of the objective."""
    seconds: Seconds
    interrupted: bool = False
    """True if the user stopped the search."""
    trace: tuple[TracePoint, ...] = ()
    """Every improvement of the answer or of the bound, in order of time."""
    notes: tuple[str, ...] = ()
    """Notes on what was left undone and why, in one line each."""
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parts that were left out, each with the features of the problem that it does not handle."""
    strategy: str = ""
    """The name of the strategy, if that made the schedule."""
    solution: JsonObject | None = None
    """Data and arrays of the model's own latest solution, for its checker."""
    checks: tuple[str, ...] = ()
    """Verdicts of solution checkers."""
    racers: tuple[RacerResult, ...] = ()
    """The racers, if several solvers raced."""
    driver: str | None = None
    """The MiniZinc that was there to run the model, such as "MiniZinc 2.6.4"; None if none was needed."""
    solver_version: str | None = None
    """Name and version of the solver itself, such as "Gecode 6.2.0"; None for a strategy, or if none was needed."""
    claim: str = ""
    """Claim of a solver in floating point that is not proven, in one line; else empty."""
    failure: str = ""
    """Failure of the solver, in one line, if the others went on without it; else empty."""
    found_by: str = ""
    """Name of who found the answer: a search, a solver of the model, a strategy; empty without an answer."""
    proved_by: str = ""
    """Name of who proved that nothing is better, or that there is no answer; empty if not proven."""
    shortfall: Shortfall | None = None
    """Shortfall of the problem as it was posed, if it has no schedule within the budget, or none was found."""
    arenas: Any = None
    """Offsets of all copies, `Arena` or `PlanArenas`, if addresses are assigned: the budgets are then for arenas."""
    placed: tuple[TracePoint, ...] | None = None
    """Every improvement of an answer whose arenas are within the budgets, if addresses are assigned: those of `trace`
    are within the budgets before they have addresses. None: without addresses."""
    ended_by: str = ""
    """What ended the search before a proof, see `Drive.ended_by`; empty: it ended by itself."""

    @property
    def bound_source(self) -> str:
        """Name of who proved the bound; empty: the search began with it."""
        first = next((point for point in self.trace if point.bound == self.bound), None)
        if self.proved_by or first is None:
            return self.proved_by
        began = first is self.trace[0] and first.value is not None  # with an answer, which came as the bound was there
        return "" if began else first.source

    @property
    def instance(self) -> Instance:
        """Graph, input order and C_v of the problem."""
        return self.problem.instance

    @property
    def sequence(self) -> Any:
        """The schedule of a problem of one memory."""
        return self.answer

    @property
    def plan(self) -> Any:
        """The schedule of a problem of several memories."""
        return self.answer

    @property
    def found(self) -> bool:
        """True if there is an answer; a strategy's may be over the budget."""
        return self.answer is not None

    @property
    def valid(self) -> bool:
        """True if the judge accepts the answer, and its arenas, if it has any, are within the budgets."""
        fits = self.arenas is None or self.problem.fits(self.arenas)
        return self.simulation is not None and self.simulation.feasible and fits

    @property
    def value(self) -> Any:
        """The answer's total of the objective."""
        return self.problem.value(self.simulation) if self.simulation else None

    @property
    def duration(self) -> Any:
        """The answer's duration, in the graph's duration unit."""
        return self.simulation.duration if self.simulation else None

    @property
    def peak(self) -> Any:
        """The peak of a schedule of one memory, in the graph's size unit."""
        return getattr(self.simulation, "peak", None)

    @property
    def tdi_percent(self) -> float | None:
        """Total duration increase: 100 * (duration / duration with every node computed once - 1); see
        `Problem.baseline_duration`."""
        duration = self.duration
        return None if duration is None else percent_over(duration, self.problem.baseline_duration)

    @property
    def gap_percent(self) -> float | None:
        """100 * (value - bound) / value; None without an answer within the budgets."""
        value = self.value
        if value is None or not self.valid:
            return None
        return 100 * (value - self.bound) / value if value else 0.0

    @property
    def model_ran(self) -> bool:
        """True if MiniZinc ran the model, for any of the racers."""
        solvers = (racer for racer in self.racers if racer.solver in self.solver.split(","))
        return (self.seconds.flatten or 0.0) + self.seconds.solve > 0 or any(racer.seconds > 0 for racer in solvers)

    @property
    def recomputed(self) -> dict[int, list[int]]:
        """Positions of recomputations in the sequence, from 1, for each node that is recomputed; for one memory."""
        again: dict[int, list[int]] = {}
        seen = set()
        for position, v in enumerate(self.sequence or (), 1):
            if v in seen:
                again.setdefault(v, []).append(position)
            seen.add(v)
        return again

    def as_dict(self) -> JsonObject:
        """Return the object that `solve --json` prints; node ids as in the file, positions in the answer from 1."""
        instance, form = self.instance, self.formulation
        graph = instance.graph
        known: JsonObject = {
            "graph": graph.name,
            "nodes": len(graph.nodes),
            "edges": len(graph.edges),
            "strategy": self.strategy or None,
            "formulation": getattr(form, "called", getattr(form, "name", None)),
            "form": None if form is None else "staged" if form.staged else "general",
            "precedence": getattr(form, "precedence", None),
            "index": getattr(form, "index", None),
            "solver": self.solver or None,
            "solver_version": self.solver_version,
            "driver": self.driver,
            "order": "free" if instance.free_order else "given",
            "max_computations": instance.counts,
            "baseline_peak": instance.baseline.peak,
            "baseline_duration": self.problem.baseline_duration,
            "status": self.status,
            "reason": self.reason,
            "claim": self.claim or None,
            "failure": self.failure or None,
            "notes": list(self.notes),
            "skipped": {name: list(features) for name, features in self.skipped.items()},
            "interrupted": self.interrupted,
            "found_by": self.found_by or None,
            "proved_by": self.proved_by or None,
            "tdi_percent": self.tdi_percent,
            "bound": self.bound,
            "gap_percent": self.gap_percent,
            "valid": self.valid,
            "checks": list(self.checks),
            "shortfall": None if self.shortfall is None else self.shortfall.as_dict(),
            "racers": [racer.as_dict(self.problem.objective) for racer in self.racers],
            "seconds": {name: None if value is None else round(value, 3) for name, value in vars(self.seconds).items()},
            "trace": [[round(point.seconds, 3), point.value, point.bound, point.source] for point in self.trace],
        }
        if self.problem.objective == "duration":
            known["duration_bound"] = self.bound
        answer = answer_document(self.problem, self.answer, self.simulation, self.arenas)
        return versioned(instance.graph, self.answer, {**known, **answer})

    def as_json(self) -> str:
        """Return that object as text, as `solve --json` prints it and `--output` writes it."""
        return json.dumps(self.as_dict()) + "\n"

    def __repr__(self) -> str:
        method = self.strategy or getattr(self.formulation, "name", "")
        return f"SearchResult({self.status}, value={self.value}, bound={self.bound}, by {method})"


Result = SearchResult
"""The name within the package; users see the `Result` of `report.answers`, which has this one as its `details`."""


def percent_over(value: float, base: float) -> float:
    """Return by how many percent `value` exceeds `base`; 0 if both are 0."""
    return 100 * (value / base - 1) if base else 0.0
