"""Large neighbourhood search: windows of the best schedule, each handed to the solver as a model of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moccasin_mzn.errors import JudgeError
from moccasin_mzn.formulations import Formulation, Intervals
from moccasin_mzn.formulations.windows import Incumbent, Window
from moccasin_mzn.search.best_known import BestKnown
from moccasin_mzn.solvers.minizinc.compile import dzn_text
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, run_model
from moccasin_mzn.solvers.minizinc.run import Listener as RunListener
from moccasin_mzn.solvers.minizinc.solvers import Backend

FIRST_STAGES = 60
"""Stages of the first window; later ones are wider or narrower, by what the solver can do."""
FEWEST_STAGES = 5
SECONDS_PER_WINDOW = 8.0
"""A window that is not solved by then is left; the next one is narrower."""
QUICK = 0.4
"""A window solved in this part of the time is followed by a wider one."""
WIDER = 1.5


@dataclass
class WindowSearch:
    """Improves what is on record, window by window, until told to stop."""

    record: BestKnown
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
        """Is it time to end?"""
        return self.stop() or self.record.ended.is_set()

    def _improve(self, incumbent: Incumbent, first: int, last: int) -> float:
        """Solve one window; by what factor the next one should be wider."""
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
        if outcome.status == "infeasible" and not self.backend.in_doubles:
            raise JudgeError(f"{self.backend.name} claims that a window has no schedule, but the simulator accepts one")
        if outcome.status != "optimal":
            return 1 / WIDER
        self.solved.add((first, last))
        return WIDER if outcome.seconds < QUICK * SECONDS_PER_WINDOW else 1.0

    def _note_solution(self, window: Window, values: Any) -> None:
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
