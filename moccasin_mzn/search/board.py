"""The board of a search: what all its threads have found and proven so far.

Nothing is believed that the simulator does not confirm: every answer is judged on arrival, and a bound above the value
of an accepted answer is an error of the search that claims it.
"""

from __future__ import annotations

import queue
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from moccasin_mzn.base.errors import JudgeError, RefutedError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.problem import Judged, Problem, Step
from moccasin_mzn.search.result import Progress, TracePoint

WARM_START, INSTANT = "the warm start", "the instant bound"
"""Names of who found an answer, and of who proved something, where that takes no search."""
MOST_STEPS = 2**26
"""The most steps of all answers in a trace together, in 4 bytes each for schedules: 256 MiB."""


@dataclass
class Board(Generic[Step, Judged]):
    """Best answer and best bound, with the time of each improvement. Safe to use from any thread.

    Raises:
        JudgeError: from `offer`, `improve_bound` and `refute`, for what the simulator contradicts.
    """

    problem: Problem[Step, Judged]
    begin: float
    """Beginning of the search, by `time.monotonic()`; all seconds count from here."""
    until_gap: float = 0.0
    """The search may end at this gap, as a fraction of the value."""
    formulation: Searched | None = None
    """Answers are solutions of it; None: all that the judge accepts."""
    answer: tuple[Step, ...] | None = None
    simulation: Judged | None = None
    """The judge's account of `answer`."""
    found_by: str = ""
    """Name of who found the answer."""
    found_at: float = 0.0
    """Time at which the answer was found, in seconds."""
    bound: int = 0
    """Lower bound on the problem's objective, in its unit."""
    bound_source: str = ""
    """Name of who proved the bound; empty: it is that of every node computed once."""
    infeasible_source: str = ""
    """Name of who proved that there is no answer; empty if not proven."""
    claim: str = ""
    """Claim of a solver in floating point that is not proven; empty if absent."""
    least_peak: int | None = None
    """Least peak of sequences over the budget before any schedule, in the graph's size unit; None without any."""
    floor: int = 0
    """Lower bound on the peak of schedules of the kind that is sought, in the graph's size unit."""
    trace: list[TracePoint] = field(default_factory=list)
    """Every improvement; the earliest without their answers once those of all have `MOST_STEPS`."""
    news: queue.SimpleQueue[Progress] = field(default_factory=queue.SimpleQueue)
    """Improvements, for the thread that waits for the search."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set as soon as there is nothing left to search for."""
    _steps: int = 0
    """Number of steps of all answers in the trace."""
    _exact_bound: tuple[int, str] = (0, "")
    """The best bound that is not in floating point, and who proved it."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.bound = self.problem.least_value()
        instant = self.formulation.instant_bound(self.problem) if self.formulation else 0
        if instant > self.bound:
            self.bound, self.bound_source = instant, INSTANT
        self._exact_bound = self.bound, self.bound_source

    @property
    def instance(self) -> Instance:
        """The instance of the problem: graph, input order and C_v."""
        return self.problem.instance

    @property
    def seconds(self) -> float:
        """Seconds since `begin`."""
        return time.monotonic() - self.begin

    @property
    def value(self) -> int | None:
        """The total of the best answer; None without one."""
        return None if self.simulation is None else self.problem.value(self.simulation)

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; None without an answer."""
        value = self.value
        if value is None:
            return None
        return (value - self.bound) / value if value else 0.0

    def offer(self, answer: Sequence[Step], source: str, phase: str = "") -> Judged:
        """Take an answer for judgement, and keep it if it is the best, without the steps at its end that are of no use.

        Args:
            source: who found it.
            phase: in "peak" a schedule may be over the budget: it is reported, not kept. Else it is the objective.

        Returns:
            The judge's account of all of it.

        Raises:
            JudgeError: it is no answer, or is over the budget in another phase, or has less than the bound.
        """
        problem, given = self.problem, answer
        answer = problem.together(given)
        simulation = problem.judge(answer)
        if answer != tuple(given):
            phase = phase if simulation.feasible else "peak"  # outputs are retained longer than whoever found it knows
        flaws = [v.message for v in simulation.violations if v.kind != "over-budget" or phase != "peak"]
        if not flaws and self.formulation is not None:
            flaws = [flaw for flaw in [self.formulation.out_of_scope(problem, tuple(answer))] if flaw is not None]
        if flaws:
            raise JudgeError(f"{source} returned a schedule that the simulator rejects: {flaws[0]}")
        kept, account = problem.useful(answer), simulation
        if len(kept) < len(answer):
            account = problem.judge(kept)
        with self._lock:
            if account.feasible and (self.value is None or problem.value(account) < self.value):
                self.answer, self.simulation, self.found_by = kept, account, source
                self.found_at = self.seconds
                self.claim = ""  # refuted
                self._check()
                self._note(phase, source, new=True)
            elif phase == "peak":
                self.note_peak(problem.summary(simulation), source)
        return simulation

    def note_peak(self, figures: JsonObject, source: str) -> None:
        """Note the peak of a sequence over the budget: it is reported if it is the least and there is no schedule yet.

        Args:
            figures: see `Instance.summary`; its duration is of no interest. Without "peak", as they are where there are
                several memories, nothing is noted.
        """
        peak = figures.get("peak")
        with self._lock:
            if peak is not None and self.simulation is None and (self.least_peak is None or peak < self.least_peak):
                self.least_peak = peak
                figures = {**figures, "duration": None}
                self.news.put(Progress(self.seconds, "peak", None, self.bound, figures, source=source))

    def raise_floor(self, floor: int) -> None:
        """Note that no schedule fits less than `floor`."""
        with self._lock:
            self.floor = max(self.floor, floor)

    def improve_bound(self, bound: int, source: str, *, in_floating_point: bool = False) -> None:
        """Note that no answer has less than `bound`.

        Args:
            in_floating_point: the claim is of a solver in floating point: an answer that refutes it is kept, not the
                bound.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            if in_floating_point and self.value is not None and bound > self.value:
                return
            if not in_floating_point:
                self._exact_bound = max(self._exact_bound, (bound, source))
            if bound > self.bound:
                self.bound, self.bound_source = bound, source
                self._check()
                self._note("", source)

    def refute(self, source: str, *, in_floating_point: bool = False) -> None:
        """Note that there is no answer at all. A claim of a solver in floating point is ignored if there is one.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            if in_floating_point and self.simulation is not None:
                return
            self.infeasible_source = source
            self._check()
            self.ended.set()

    def note_claim(self, who: str, claim: str, ranges: str = "") -> None:
        """Note a claim of a solver that it cannot prove: "infeasible", or, of the best answer, "optimal".

        Args:
            ranges: the schedules that it is about, to be read after "no schedule"; see `conclusion.scope`.
        """
        none = f"no schedule {ranges}".strip()
        what = {"infeasible": f"there is {none.rstrip(',')}", "optimal": f"{none} {self.problem.better}"}[claim]
        with self._lock:
            if claim == "optimal" or self.simulation is None:
                self.claim = f"{who} claims that {what}, not provable in floating point"

    def proved_by(self, status: str) -> str:
        """Return who settled a search that ended with this status; empty if unsettled."""
        if status not in ("optimal", "infeasible"):
            return ""
        return self.infeasible_source or self.bound_source or INSTANT

    def _check(self) -> None:
        value = self.value
        if value is None:
            return
        if value < self.bound:
            self.bound, self.bound_source = self._exact_bound  # what floating point claimed is refuted
        claim = None
        if self.infeasible_source:
            claim = f"{self.infeasible_source} claims that there is no schedule"
        elif value < self.bound:
            claim = f"{self.bound_source} claims that no schedule {self.problem.better} than {self.bound}"
        if claim is not None:
            raise RefutedError(claim, f"{value} of {self.found_by}")

    def _kept(self) -> Sequence[Any]:
        """The best answer in little memory; earlier ones are dropped from the trace where all take too much."""
        answer: tuple[Any, ...] = self.answer or ()
        self._steps += len(answer)
        for at, point in enumerate(self.trace if self._steps > MOST_STEPS else ()):
            if point.answer is not None and self._steps > MOST_STEPS:
                self._steps -= len(point.answer)
                self.trace[at] = replace(point, answer=None)
        return array("i", answer) if answer and isinstance(answer[0], int) else answer

    def _note(self, phase: str, source: str, new: bool = False) -> None:
        self.trace.append(TracePoint(self.seconds, self.value, self.bound, source, self._kept() if new else None))
        figures = self.problem.figures(self.simulation)
        if figures is not None:
            phase, answer = phase or self.problem.objective, self.answer if new else None
            self.news.put(Progress(self.seconds, phase, self.value, self.bound, figures, answer, source))
        if self.gap is not None and self.gap <= self.until_gap:
            self.ended.set()
