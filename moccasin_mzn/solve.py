"""The whole chain as one function: graph, instance, presolve, MiniZinc, decoding, simulation."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import Any

from moccasin_mzn.budget import Budget
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations import Formulation, Intervals, decode
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.instance import Instance
from moccasin_mzn.minizinc.dzn import dzn_text
from moccasin_mzn.minizinc.run import Limits, Outcome, SolverError, run_model
from moccasin_mzn.minizinc.run import Listener as RunListener
from moccasin_mzn.minizinc.solvers import Backend, find_backend
from moccasin_mzn.presolve import ModelData, presolve
from moccasin_mzn.prune import pruned
from moccasin_mzn.result import Listener, Progress, Result, Seconds
from moccasin_mzn.simulate import Simulation, judge


def solve(
    graph: ComputationGraph,
    budget: Budget | int | float | Fraction | str,
    *,
    solver: str = "cp-sat",
    formulation: str = "staged",
    precedence: str = "served-by",
    max_computations: int | Sequence[int] = 2,
    order: str | PathLike[str] | Sequence[int] = "input",
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int | None = None,
    two_phase: bool | None = None,
    on_progress: Listener | None = None,
) -> Result:
    """Find the shortest schedule of `graph` whose peak memory is within `budget`.

    Args:
        graph: the computation graph.
        budget: an int in the graph's size unit, a float as a fraction of the input order's peak, or text like "80%".
        solver: "cp-sat", or any solver MiniZinc knows.
        formulation: "staged" (paper, 2.3) or "general" (2.1).
        precedence: "served-by" or "reservoir" (2.2).
        max_computations: C_v, how often a node may be computed; one for all or one for each node.
        order: "input", "topological", a file of node ids, or positions in `graph.nodes`.
        time_limit: seconds, compilation included; None: until proven.
        threads: of the solver; None: as many as the solver likes.
        seed: of the solver; None: the solver's own.
        two_phase: first seek any schedule within the budget (paper, 2.4), then shorten it; None: with cp-sat, which
            makes use of it.
        on_progress: called with every new incumbent and bound.

    Returns:
        The best schedule found. An interrupt from the keyboard ends the search, not this function; so does a solver
        that fails after it has found a schedule.

    Raises:
        InputError: nonsense in an argument, MiniZinc missing, an unknown solver, a solver that failed
            before it found a schedule, or one that the simulator contradicts (`JudgeError`).
    """
    begin = time.monotonic()
    options = Options(solver, formulation, precedence, time_limit, threads, seed, two_phase)
    instance = Instance.build(graph, budget, order=order, max_computations=max_computations)
    return solve_instance(instance, options, on_progress, begin)


@dataclass(frozen=True)
class Options:
    """How to solve an instance; the meanings are those of the arguments of `solve`.

    Raises:
        InputError: an unknown formulation or precedence, or nonsense as a limit.
    """

    solver: str = "cp-sat"
    formulation: str = "staged"
    precedence: str = "served-by"
    time_limit: float | None = None
    threads: int | None = None
    seed: int | None = None
    two_phase: bool | None = None

    def __post_init__(self) -> None:
        Formulation(self.formulation, self.precedence)
        seconds = self.time_limit
        if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds < math.inf):  # NaN fails too
            raise InputError(f"time limit {shown(seconds)} is not a positive number of seconds")
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            raise InputError(f"threads {shown(self.threads)} is not a positive integer")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 2**31):
            raise InputError(f"seed {shown(self.seed)} is not an integer in 0..2147483647")


def solve_instance(
    instance: Instance, options: Options, on_progress: Listener | None = None, begin: float | None = None
) -> Result:
    """`solve` for an instance at hand. The time limit counts from `begin`, by `time.monotonic()`; default: from now."""
    begin = time.monotonic() if begin is None else begin
    form = Formulation(options.formulation, options.precedence)
    known = _known_at_once(instance)
    if known is not None:
        status, reason, sequence = known
        simulation = judge(instance.graph, sequence, instance.budget) if sequence else None
        seconds = Seconds(total=time.monotonic() - begin)
        bound = instance.baseline.duration
        return Result(instance, form, options.solver, status, reason, sequence, simulation, bound, seconds)
    backend = find_backend(options.solver)
    limits = Limits(options.time_limit, options.threads, options.seed)
    search = _Search(instance, form, backend, limits, on_progress, begin)
    search.run(backend.is_cp_sat if options.two_phase is None else options.two_phase)
    return search.result()


def _known_at_once(instance: Instance) -> tuple[str, str, tuple[int, ...] | None] | None:
    """Status, reason and sequence where no search is needed."""
    graph, budget = instance.graph, instance.budget
    if instance.baseline.peak <= budget:
        return "optimal", "the input order fits the budget with every node computed once", instance.order
    need = graph.largest_working_set()
    if need.memory > budget:
        reason = (
            f"node {graph.nodes[need.node]} alone needs {need.memory} for its inputs and its output, "
            f"{need.memory - budget} over the budget {budget}"
        )
        return "infeasible", reason, None
    return None


class JudgeError(InputError):
    """The simulator contradicts the solver: an error of a model or of the solver, never an answer."""


@dataclass
class _Search:
    """The state of one call of `solve`: what is found, what is proven, what time is left."""

    instance: Instance
    formulation: Formulation
    backend: Backend
    limits: Limits
    on_progress: Listener | None
    begin: float
    best: Simulation | None = None
    """Of the best schedule within the budget."""
    best_sequence: tuple[int, ...] | None = None
    status: str = "unknown"
    reason: str = ""
    interrupted: bool = False
    failure: str | None = None
    """Why the solver failed after it had found a schedule."""
    bound: int = 0
    latest_duration: int = 0
    """Of the latest solution of phase 2, as the solver left it."""
    model_seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, two_phase: bool) -> None:
        """Presolve, then phase 1 if asked for, then phase 2 unless the answer is known.

        An interrupt from the keyboard, at whatever moment, ends the search with what is found.
        """
        self.bound = self.instance.baseline.duration
        try:
            start = time.monotonic()
            data = presolve(self.instance, self.formulation.staged)
            self.model_seconds += time.monotonic() - start
            if two_phase:
                self._run_phase("peak", data, self.instance.order)
            within_budget = self.best is not None and self.best.duration > self.bound
            if (within_budget or not two_phase) and not self.stopped:
                self._run_phase("duration", data, self.best_sequence)
        except KeyboardInterrupt:
            self.interrupted = True
        self._conclude()

    def _run_phase(self, phase: str, data: ModelData, incumbent: tuple[int, ...] | None) -> None:
        remaining = self._remaining()
        if remaining is not None and remaining <= 0:
            return
        start = time.monotonic()
        text = dzn_text(self.formulation.data_items(self.instance.graph, data, incumbent))
        self.model_seconds += time.monotonic() - start
        listener = RunListener(
            solution=lambda values: self._note_solution(phase, data, values),
            bound=lambda bound: self._note_bound(phase, data, bound),
        )
        limits = Limits(remaining, self.limits.threads, self.limits.seed)
        try:
            outcome = run_model(self.backend, self.formulation.model(phase), text, limits, listener)
        except SolverError as error:
            if self.best is None:
                raise
            self.failure = str(error)
            return
        self.outcomes.append(outcome)
        self.interrupted |= outcome.interrupted
        self._note_proof(phase, outcome)
        if self.best is not None:
            sequence = pruned(self.instance.graph, self.best_sequence, self.instance.budget)
            self.best, self.best_sequence = judge(self.instance.graph, sequence, self.instance.budget), sequence

    @property
    def stopped(self) -> bool:
        """True if no further phase may begin."""
        return self.interrupted or self.failure is not None

    def _note_solution(self, phase: str, data: ModelData, values: Any) -> None:
        """Judge an improving solution of the model; only the judge's figures count."""
        intervals = Intervals(tuple(values.active), tuple(values.start), tuple(values.end))
        sequence = decode(data, intervals)
        simulation = judge(self.instance.graph, sequence, self.instance.budget)
        flaw = next((v for v in simulation.violations if v.kind != "over-budget" or phase == "duration"), None)
        if flaw is not None:
            raise JudgeError(f"{self.backend.name} returned a schedule that the simulator rejects: {flaw.message}")
        if phase == "duration":
            self.latest_duration = simulation.duration
            if values.objective * data.duration_scale != simulation.duration:
                raise JudgeError(
                    f"{self.backend.name} reports {values.objective * data.duration_scale}, "
                    f"but the simulator finds a duration of {simulation.duration}"
                )
        if simulation.feasible and (self.best is None or simulation.duration < self.best.duration):
            self.best, self.best_sequence = simulation, sequence
        self._report(phase, simulation)

    def _note_bound(self, phase: str, data: ModelData, bound: int) -> None:
        if phase == "duration" and bound * data.duration_scale > self.bound:
            self.bound = bound * data.duration_scale
            if self.best is not None:
                self._report(phase, self.best)

    def _note_proof(self, phase: str, outcome: Outcome) -> None:
        """Take what the end of a run proves."""
        proven_over_budget = phase == "peak" and outcome.status == "optimal" and self.best is None
        if outcome.status == "infeasible" or proven_over_budget:
            self._refuse_contradiction("there is no schedule", self.best is not None)
            self.status = "infeasible"
        elif phase == "duration" and outcome.status == "optimal":
            self.bound = max(self.bound, self.latest_duration)

    def _conclude(self) -> None:
        """Status and reason, from what is found and proven."""
        if self.status == "infeasible":
            self.reason = f"proven: no schedule {self._scope()} fits the budget {self.instance.budget}"
        elif self.best is None:
            self.reason = f"no schedule was found {self._ending()}"
        else:
            contradicted = self.best.duration < self.bound
            self._refuse_contradiction(f"no schedule is shorter than {self.bound}", contradicted)
            if self.best.duration == self.bound:
                self.status, self.reason = "optimal", f"proven: no schedule {self._scope()} is shorter"
            else:
                self.status, self.reason = "feasible", f"no proof was found {self._ending()}"

    def _ending(self) -> str:
        if self.interrupted:
            return "before the user stopped the search"
        if self.failure is not None:
            return f"before the solver failed: {self.failure}"
        remaining = self._remaining()
        return "within the time limit" if remaining is not None and remaining < 1 else "before the solver gave up"

    def _refuse_contradiction(self, claim: str, contradicted: bool) -> None:
        """A proof that a schedule at hand refutes is an error of the model or of the solver, never an answer."""
        if contradicted:
            raise JudgeError(f"{self.backend.name} claims that {claim}, but the simulator accepts {self.best.duration}")

    def _scope(self) -> str:
        """What a proof ranges over."""
        counts = sorted(set(self.instance.max_computations))
        most = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        kind = "in stages of the input order " if self.formulation.staged else ""
        return f"{kind}with at most {most} computations per node"

    def _remaining(self) -> float | None:
        return None if self.limits.seconds is None else self.limits.seconds - (time.monotonic() - self.begin)

    def _report(self, phase: str, simulation: Simulation) -> None:
        if self.on_progress is not None:
            self.on_progress(
                Progress(
                    seconds=time.monotonic() - self.begin,
                    phase=phase,
                    peak=simulation.peak,
                    duration=self.best.duration if self.best else None,
                    bound=self.bound,
                    recomputations=len(simulation.memory) - len(self.instance.graph.nodes),
                )
            )

    def result(self) -> Result:
        flatten = sum(outcome.flatten_seconds for outcome in self.outcomes)
        seconds = Seconds(
            model=self.model_seconds,
            flatten=flatten,
            solve=sum(outcome.seconds for outcome in self.outcomes) - flatten,
            total=time.monotonic() - self.begin,
        )
        return Result(
            self.instance,
            self.formulation,
            self.backend.name,
            self.status,
            self.reason,
            self.best_sequence,
            self.best,
            self.bound,
            seconds,
            self.interrupted,
        )
