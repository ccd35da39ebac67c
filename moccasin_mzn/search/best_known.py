"""What a search has found and proven so far, whoever found it. All threads of a search meet here.

Nothing is believed that the simulator does not confirm: every schedule is judged on arrival, and a bound above the
duration of an accepted schedule is an error of whoever claims it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from moccasin_mzn.errors import JudgeError, RefutedError
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, judge
from moccasin_mzn.problem.pruning import without_tail
from moccasin_mzn.search.result import Progress, TracePoint


@dataclass
class Record:
    """Best schedule and best bound, with the time of each improvement. Safe to use from any thread.

    Raises:
        JudgeError: from `offer`, `improve_bound` and `refute`, for what the simulator contradicts.
    """

    instance: Instance
    begin: float
    """By `time.monotonic()`; all seconds count from here."""
    until_gap: float = 0.0
    """The search may end at this gap, as a fraction of the duration."""
    sequence: tuple[int, ...] | None = None
    simulation: Simulation | None = None
    """The judge's account of `sequence`."""
    sequence_source: str = ""
    """Who found it."""
    bound: int = 0
    """On the duration, in the graph's duration unit."""
    bound_source: str = ""
    infeasible_source: str = ""
    """Who proved that there is no schedule; empty if nobody has."""
    claim: str = ""
    """What a solver in doubles claims and nobody has proven; empty if none does."""
    least_peak: int | None = None
    """Of the sequences over the budget that came before any schedule, in the graph's size unit; None without any."""
    floor: int = 0
    """No schedule of the kind that is sought fits less; in the graph's size unit."""
    trace: list[TracePoint] = field(default_factory=list)
    news: queue.SimpleQueue[Progress] = field(default_factory=queue.SimpleQueue)
    """What to tell whoever waits for the search, in their thread."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set as soon as there is nothing left to search for."""
    _exact_bound: tuple[int, str] = (0, "")
    """The best bound that is not in doubles, and who proved it."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.bound = self.instance.baseline.duration
        self._exact_bound = self.bound, ""

    @property
    def seconds(self) -> float:
        """Since `begin`."""
        return time.monotonic() - self.begin

    @property
    def duration(self) -> int | None:
        """Of the best schedule."""
        return self.simulation.duration if self.simulation else None

    @property
    def gap(self) -> float | None:
        """(duration - bound) / duration; None without a schedule."""
        if self.simulation is None:
            return None
        return (self.duration - self.bound) / self.duration if self.duration else 0.0

    def offer(self, sequence: Sequence[int], source: str, phase: str = "duration") -> Simulation:
        """Take a schedule for judgement, and keep it if it is the best, without computations of no use at its end.

        Args:
            source: who found it.
            phase: in "peak" a schedule may be over the budget: it is reported, not kept.

        Returns:
            The judge's account of all of it.

        Raises:
            JudgeError: it is no schedule, or is over the budget in another phase, or is shorter than the bound.
        """
        simulation = judge(self.instance.graph, sequence, self.instance.budget)
        flaw = next((v for v in simulation.violations if v.kind != "over-budget" or phase != "peak"), None)
        if flaw is not None:
            raise JudgeError(f"{source} returned a schedule that the simulator rejects: {flaw.message}")
        kept, account = without_tail(sequence), simulation
        if len(kept) < len(sequence):
            account = judge(self.instance.graph, kept, self.instance.budget)
        with self._lock:
            if account.feasible and (self.simulation is None or account.duration < self.simulation.duration):
                self.sequence, self.simulation, self.sequence_source = kept, account, source
                self.claim = ""  # refuted
                self._check()
                self._note(phase, source, new=True)
            elif phase == "peak":
                self.note_peak(simulation.peak, len(simulation.memory) - len(self.instance.graph.nodes), source)
        return simulation

    def note_peak(self, peak: int, recomputations: int, source: str) -> None:
        """A sequence over the budget has this peak: told if it is the least, and as long as there is no schedule."""
        with self._lock:
            if self.simulation is None and (self.least_peak is None or peak < self.least_peak):
                self.least_peak = peak
                self.news.put(
                    Progress(self.seconds, "peak", peak, None, self.bound, recomputations, source=source)
                )  # fmt: skip

    def raise_floor(self, floor: int) -> None:
        """No schedule fits less than `floor`."""
        with self._lock:
            self.floor = max(self.floor, floor)

    def improve_bound(self, bound: int, source: str, *, in_doubles: bool = False) -> None:
        """No schedule is shorter than `bound`.

        Args:
            in_doubles: a solver says so whose arithmetic is in doubles: a schedule that refutes it is kept, not the
                bound.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            if in_doubles and self.simulation is not None and bound > self.duration:
                return
            if not in_doubles:
                self._exact_bound = max(self._exact_bound, (bound, source))
            if bound > self.bound:
                self.bound, self.bound_source = bound, source
                self._check()
                self._note("duration", source)

    def refute(self, source: str, *, in_doubles: bool = False) -> None:
        """There is no schedule at all. Of a solver in doubles this is worth nothing if there is one.

        Raises:
            JudgeError: there is one.
        """
        with self._lock:
            if in_doubles and self.simulation is not None:
                return
            self.infeasible_source = source
            self._check()
            self.ended.set()

    def note_claim(self, who: str, claim: str) -> None:
        """A solver claims what it cannot prove: "infeasible", or, of the best schedule, "optimal"."""
        what = {"infeasible": "there is no schedule", "optimal": "no schedule is shorter"}[claim]
        with self._lock:
            if claim == "optimal" or self.simulation is None:
                self.claim = f"{who} claims that {what}, not provable in doubles"

    def _check(self) -> None:
        if self.simulation is not None and self.duration < self.bound:
            self.bound, self.bound_source = self._exact_bound  # what doubles said is refuted
        claim = None
        if self.simulation is not None and self.infeasible_source:
            claim = f"{self.infeasible_source} claims that there is no schedule"
        elif self.simulation is not None and self.duration < self.bound:
            claim = f"{self.bound_source} claims that no schedule is shorter than {self.bound}"
        if claim is not None:
            raise RefutedError(claim, f"{self.duration} of {self.sequence_source}")

    def _note(self, phase: str, source: str, new: bool = False) -> None:
        self.trace.append(TracePoint(self.seconds, self.duration, self.bound))
        if self.simulation is not None:
            self._report(phase, self.simulation, source, self.sequence if new else None)
        if self.gap is not None and self.gap <= self.until_gap:
            self.ended.set()

    def _report(self, phase: str, simulation: Simulation, source: str, sequence: tuple[int, ...] | None = None) -> None:
        self.news.put(
            Progress(
                seconds=self.seconds,
                phase=phase,
                peak=simulation.peak,
                duration=self.duration,
                bound=self.bound,
                recomputations=len(simulation.memory) - len(self.instance.graph.nodes),
                sequence=sequence,
                source=source,
            )
        )
