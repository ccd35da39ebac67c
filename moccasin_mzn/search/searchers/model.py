"""The model: MiniZinc has the whole problem, from the best answer there is; or windows of it where it is too large."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.formulations import Formulation, Intervals
from moccasin_mzn.formulations.complexity import why_too_large
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.formulations.windows import WINDOWS, Incumbent, Window
from moccasin_mzn.problem.features import OF_PROBLEMS, Features
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import doubtful, scope, source, verdict
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, Solution, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.run import OutputListener as RunListener
from moccasin_mzn.solvers.minizinc.solvers import Backend

ModelData: TypeAlias = Any
"""The reduced data of a problem, of a class that each formulation has for itself."""
ELASTIC = "elastic"
FIRST_STAGES = 60
"""Stages of the first window; later ones are wider or narrower, by what the solver can do."""
FEWEST_STAGES = 5
SECONDS_PER_WINDOW = 8.0
"""Time limit of a window, in seconds; one that is not solved by then is left, and the next one is narrower."""
QUICK = 0.4
"""A window solved in this part of the time is followed by a wider one."""
WIDER = 1.5


class Model(Searcher):
    """The whole problem, after a head start for the others; windows of the best schedule where it is too large."""

    name: ClassVar[str] = "model"
    handles: ClassVar[Features] = OF_PROBLEMS  # what a formulation does not handle is refused before
    is_model: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return runner.backend is not None and not runner.chooses_order

    def search(self, runner: Runner) -> None:
        options = runner.options
        alone, threads = options.search == "off", options.threads
        while runner.board.seconds < runner.model_after and not runner.over():
            runner.pause()
        if not alone:
            runner.wait_for_answer()
        if runner.over():
            return
        if not alone:
            threads = max(1, (threads or os.cpu_count() or 1) - 1)
            runner.give_way()  # local search and bounds are what gets a large graph on
        limits = Limits(options.time_limit, threads, options.seed)
        if alone or runner.several_memories or not _leave_out_whole(runner):
            _whole(runner, limits)
        elif _has_windows(runner):
            _windows(runner, limits)


def _whole(runner: Runner, limits: Limits) -> None:
    assert runner.backend is not None
    search = ModelSearch(runner.board, runner.form, runner.backend, limits, runner.over, runner.outcomes)
    try:
        search.run(runner.options.two_phase if isinstance(runner.options, Options) else None)
    finally:
        runner.solution = search.latest_solution


def _windows(runner: Runner, limits: Limits) -> None:
    assert runner.backend is not None
    runner.wait_for_answer(forever=True)
    assert isinstance(runner.form, Formulation)
    if runner.board.answer is not None and not runner.over():
        WindowSearch(runner.board, runner.form, runner.backend, limits, runner.over, runner.outcomes).run()


def _leave_out_whole(runner: Runner) -> bool:
    """Return whether the model of the whole instance is too large for memory, or for the time, and then add a note."""
    why = why_too_large(runner.instance, runner.deadline.remaining())
    if why is None:
        return False
    instead = "windows of it are improved instead" if _has_windows(runner) else "nothing of it is solved"
    runner.notes.append(f"{why}: {instead}")
    return True


def _has_windows(runner: Runner) -> bool:
    return runner.form.staged and runner.handled(WINDOWS)


@dataclass
class ModelSearch:
    """One or two runs of the model, from the best answer on record."""

    record: Board
    formulation: Searched
    backend: Backend
    limits: Limits
    """`seconds` from the beginning of the record."""
    stop: Callable[[], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    doubted: bool = False
    """True if the results of the solver on the model are only claims."""
    confirmed_by: str = ""
    """Name of who confirmed the claim of the solver."""
    latest_value: int = 0
    """Value of the latest solution of phase 2, as the solver left it."""
    latest_solution: JsonObject = field(default_factory=dict)
    """The model's data and arrays, for a solution checker; empty if absent."""

    def run(self, two_phase: bool | None = False) -> None:
        """Presolve, then phase 1 if it is wanted and no answer is on record, then phase 2 unless all is known.

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

    def _run_phase(self, phase: str, data: ModelData, incumbent: Sequence[object] | None) -> None:
        """Run the model once.

        The phase is "duration" if the model's objective is the problem's, "peak" in phase 1, and ELASTIC if
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
        """Return whether it is time to end. Phase 1 ends when there is a schedule, wherever it comes from."""
        found = phase == "peak" and self.record.answer is not None
        return found or self.stop() or self.record.ended.is_set()

    def _note_solution(self, phase: str, data: ModelData, items: JsonObject, values: Solution) -> None:
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

    def _note_bound(self, phase: str, data: ModelData, bound: int) -> None:
        if self.doubted:
            return
        if phase == ELASTIC and bound > data.longest:
            return  # no schedule is within the budget: that is for the end of the run
        if phase != "peak":
            in_floating_point = self.backend.in_floating_point
            who = source(self.backend, self.confirmed_by)
            self.record.improve_bound(self.formulation.objective(data, bound), who, in_floating_point=in_floating_point)
        elif bound > data.budget:
            self.record.raise_floor(bound * data.size_scale)

    def _note_proof(self, phase: str, outcome: Outcome) -> None:
        """Take what the end of a run proves, and what the solver only claims."""
        ending, in_floating_point = verdict(self.backend, outcome, self.doubted), self.backend.in_floating_point
        if ending.claim and (phase == "duration" or self.record.answer is None):
            claim = "infeasible" if phase == "peak" else ending.claim
            self.record.note_claim(self.backend.title, claim, scope(self.record.problem, self.formulation))
        proven_over_budget = phase != "duration" and ending.status == "optimal" and self.record.answer is None
        if proven_over_budget and self.record.least_peak is not None:
            self.record.raise_floor(self.record.least_peak)
        if ending.status == "infeasible" or proven_over_budget:
            self.record.refute(ending.source, in_floating_point=in_floating_point)
        elif phase != "peak" and ending.status == "optimal":
            self.record.improve_bound(self.latest_value, ending.source, in_floating_point=in_floating_point)

    def _prune(self) -> None:
        """Leave out what nothing needs from the best answer of any search; solvers recompute what is of no use."""
        record = self.record
        if record.answer is not None:
            record.offer(record.problem.pruned(record.answer), record.found_by)


@dataclass
class WindowSearch:
    """Search that improves the best answer, window by window, until it has to stop."""

    record: Board
    formulation: Formulation
    backend: Backend
    limits: Limits
    """`seconds` from the beginning of the record."""
    stop: Callable[[], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    solved: set[tuple[int, int]] = field(default_factory=set)
    """Windows of the present incumbent that cannot be improved."""

    def run(self) -> None:
        """Choose windows around recomputations, at random, and solve them.

        Raises:
            SolverError: MiniZinc or the solver failed.
            JudgeError: the simulator contradicts the solver.
        """
        draw = random.Random(self.limits.seed or 0)
        n, width = len(self.record.instance.order), float(FIRST_STAGES)
        incumbent = None
        while not self.over():
            if incumbent is None or incumbent.sequence != self.record.answer:
                incumbent, self.solved = Incumbent(self.record.instance, self.record.answer or ()), set()
                places = _recomputed_stages(incumbent)
            first = max(1, min(draw.choice(places) - draw.randrange(int(width)), n - int(width) + 1))
            last = min(n, first + int(width) - 1)
            if any(a <= first and last <= b for a, b in self.solved):
                if last - first + 1 == n:
                    return
                width = min(n, width * 1.1)
                continue
            width *= self._improve(incumbent, first, last)
            width = max(FEWEST_STAGES, min(n, width))

    def over(self) -> bool:
        """Return whether it is time to end."""
        return self.stop() or self.record.ended.is_set()

    def _improve(self, incumbent: Incumbent, first: int, last: int) -> float:
        """Solve one window; return the factor by which the next one should be wider."""
        window = incumbent.window(first, last)
        if window is None:
            self.solved.add((first, last))
            return 1.0
        items = self.formulation.data_items(
            self.record.instance.graph, window.data, window.incumbent, window.objective
        )  # fmt: skip
        seconds = SECONDS_PER_WINDOW
        if self.limits.seconds is not None:
            seconds = min(seconds, max(0.1, self.limits.seconds - self.record.seconds))
        listener = RunListener(solution=lambda values: self._note_solution(window, values), bound=lambda bound: None)
        limits = Limits(seconds, self.limits.threads, self.limits.seed)
        model = self.formulation.program
        outcome = run_model(self.backend, model, dzn_text(items), limits, listener, self.over)
        self.outcomes.append(outcome)
        if outcome.status == "infeasible" and not self.backend.in_floating_point:
            raise JudgeError(f"{self.backend.name} claims that a window has no schedule, but the simulator accepts one")
        if outcome.status != "optimal":
            return 1 / WIDER
        self.solved.add((first, last))
        return WIDER if outcome.seconds < QUICK * SECONDS_PER_WINDOW else 1.0

    def _note_solution(self, window: Window, values: Solution) -> None:
        """Have the whole schedule judged; only the judge's figures count."""
        sequence = window.decode(Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))
        simulation = self.record.offer(sequence, f"{self.backend.name} on a window")
        claimed = window.duration(values.objective)
        if claimed != simulation.duration:
            raise JudgeError(
                f"{self.backend.name} reports {claimed} for a window, "
                f"but the simulator finds a duration of {simulation.duration}"
            )


def _recomputed_stages(incumbent: Incumbent) -> list[int]:
    """The stage of each recomputation, from 1."""
    place = {v: k for k, v in enumerate(incumbent.instance.order, 1)}
    stages, stage = [], 1
    for v in incumbent.sequence:
        if place[v] == stage:
            stage += 1
        else:
            stages.append(stage)
    return stages


SEARCHERS = (Model(),)
