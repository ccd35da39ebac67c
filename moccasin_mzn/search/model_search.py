"""The MiniZinc model of a whole problem, handed to a solver: it proves or improves what is on record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.errors import JudgeError
from moccasin_mzn.search.best_known import BestKnown
from moccasin_mzn.search.doubles import doubtful, said, source
from moccasin_mzn.solvers.minizinc.compile import dzn_text
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, run_model
from moccasin_mzn.solvers.minizinc.run import Listener as RunListener
from moccasin_mzn.solvers.minizinc.solvers import Backend

ELASTIC = "elastic"


@dataclass
class ModelSearch:
    """One or two runs of the model, from the best answer on record."""

    record: BestKnown
    formulation: Any
    backend: Backend
    limits: Limits
    """`seconds` from the beginning of the record."""
    stop: Callable[[], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    doubted: bool = False
    """Is what the solver says of the model only a claim?"""
    confirmed_by: str = ""
    """Who has confirmed what the solver claims."""
    latest_value: int = 0
    """Of the latest solution of phase 2, as the solver left it."""
    latest_solution: dict[str, Any] = field(default_factory=dict)
    """Its data and its arrays, for a solution checker; empty if there is none."""

    def run(self, two_phase: bool | None = False) -> None:
        """Presolve, then phase 1 if asked for and no answer is on record, then phase 2 unless all is known.

        Args:
            two_phase: None: as the solver does it best; CP-SAT both phases in one run, if the model has that.

        Raises:
            SolverError: MiniZinc or the solver failed.
            JudgeError: the simulator contradicts the solver.
        """
        if not self.formulation.staged:  # then what it starts from is of another search
            self._prune()
        data = self.formulation.data(self.record.problem)
        if two_phase is None:
            two_phase = self.backend.is_cp_sat
            if two_phase and self.record.answer is None and self.formulation.elastic(data):
                self._run_phase(ELASTIC, data, self.record.instance.order)
                return
        first = two_phase and self.formulation.two_phase and self.record.answer is None
        if first:  # ends with the first schedule: to shorten it is for phase 2
            self._run_phase("peak", data, self.record.instance.order)
        if self.record.answer is not None or not first:
            self._run_phase("duration", data, self.record.answer)

    def _run_phase(self, phase: str, data: Any, incumbent: Sequence[Any] | None) -> None:
        """One run; its phase is "duration" if the model's objective is the problem's, "peak" in phase 1, and ELASTIC if
        it is the one as soon as the other is the budget."""
        remaining = None if self.limits.seconds is None else self.limits.seconds - self.record.seconds
        if self._over(phase) or (remaining is not None and remaining <= 0):
            return
        limit = None
        if incumbent is not None and phase == "duration":  # at most as much as the warm start, which stays a solution
            limit = self.record.value
        items = self.formulation.items(self.record.problem, data, incumbent, limit, phase)
        listener = RunListener(
            solution=lambda values: self._note_solution(phase, data, items, values),
            bound=lambda bound: self._note_bound(phase, data, bound),
            confirmed=lambda by: setattr(self, "confirmed_by", by),
        )
        self.doubted = doubtful(self.backend, lambda: self.formulation.sums(data))
        limits = replace(self.limits, seconds=remaining, parameters=self.formulation.parameters())
        outcome = run_model(
            self.backend, self.formulation.program, dzn_text(items), limits, listener, lambda: self._over(phase),
            incumbent is not None,
        )  # fmt: skip
        self.outcomes.append(outcome)
        self._note_proof(phase, outcome)
        self._prune()

    def _over(self, phase: str) -> bool:
        """Is it time to end? Phase 1 ends when there is a schedule, whoever found it."""
        found = phase == "peak" and self.record.answer is not None
        return found or self.stop() or self.record.ended.is_set()

    def _note_solution(self, phase: str, data: Any, items: dict[str, Any], values: Any) -> None:
        """Have an improving solution of the model judged; only the judge's figures count."""
        problem, who = self.record.problem, self.backend.name
        answer = self.formulation.answer(data, values)
        seeking = phase == "peak" or (phase == ELASTIC and values.capacity > data.budget)
        simulation = self.record.offer(answer, who, "peak" if seeking else "")
        if seeking:
            return
        self.latest_value = problem.value(simulation)
        self.latest_solution = {**items, **self.formulation.solution_items(data, values)}
        claimed = self.formulation.objective(data, values.objective)
        if claimed != self.latest_value:
            found = f"a {problem.objective} of {self.latest_value}"
            raise JudgeError(f"{who} reports {claimed}, but the simulator finds {found}")

    def _note_bound(self, phase: str, data: Any, bound: int) -> None:
        if self.doubted:
            return
        if phase == ELASTIC and bound > data.longest:
            return  # no schedule is within the budget: that is for the end of the run
        if phase != "peak":
            in_doubles = self.backend.in_doubles
            who = source(self.backend, self.confirmed_by)
            self.record.improve_bound(self.formulation.objective(data, bound), who, in_doubles=in_doubles)
        elif bound > data.budget:
            self.record.raise_floor(bound * data.size_scale)

    def _note_proof(self, phase: str, outcome: Outcome) -> None:
        """Take what the end of a run proves, and what the solver only claims."""
        told, in_doubles = said(self.backend, outcome, self.doubted), self.backend.in_doubles
        if told.claim and (phase == "duration" or self.record.answer is None):
            self.record.note_claim(self.backend.title, "infeasible" if phase == "peak" else told.claim)
        proven_over_budget = phase != "duration" and told.status == "optimal" and self.record.answer is None
        if proven_over_budget and self.record.least_peak is not None:
            self.record.raise_floor(self.record.least_peak)
        if told.status == "infeasible" or proven_over_budget:
            self.record.refute(told.source, in_doubles=in_doubles)
        elif phase != "peak" and told.status == "optimal":
            self.record.improve_bound(self.latest_value, told.source, in_doubles=in_doubles)

    def _prune(self) -> None:
        """Leave out what nothing needs, whoever found the best answer; solvers compute again what is of no use."""
        record = self.record
        if record.answer is not None:
            record.offer(record.problem.pruned(record.answer), record.found_by)
