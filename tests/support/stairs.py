"""A variant whose front is known beforehand, so that sweeps are tested without any search."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from moccasin_mzn.api.frontier.questions import BudgetAnswer, BudgetQuestion, Measured
from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph

GRAPH = ComputationGraph(range(2), [1, 1], [1, 1], [(0, 1)], name="stairs")


@dataclass
class Stairs:
    """Each stair is a schedule: (peak, duration), peaks ascending and durations descending."""

    stairs: list[tuple[int, int]]
    least: int = 0
    vague: bool = False
    """Answers give no proof; the first one at a budget gives a schedule that is 1 too long, if there can be one."""
    ends_after: int | None = None
    """The user stops the sweep at this question."""
    scope: str = "of stairs"
    fixed: int = 0
    swept: str = ""
    input_increase: int = 0
    limited: bool = False
    objective: str = "duration"
    counted: bool = False
    graph: ComputationGraph = GRAPH
    asked: list[BudgetQuestion] = field(default_factory=list)

    @property
    def peak(self) -> int:
        return self.stairs[-1][0]

    @property
    def baseline(self) -> int:
        return self.stairs[-1][1]

    def best(self, budget: int) -> tuple[int, int] | None:
        """The truth."""
        return next((stair for stair in reversed(self.stairs) if stair[0] <= budget), None)

    def known(self):
        return ((self.stairs[-1], "the input order"),)

    def judge(self, schedule, budget: int) -> Measured:
        peak, duration = schedule
        best = self.best(peak)
        if peak > budget or best is None or duration < best[1]:
            raise JudgeError(f"no schedule: {schedule}")
        return Measured(peak, duration)

    def ask(self, question: BudgetQuestion) -> BudgetAnswer:
        self.asked.append(question)
        interrupted = len(self.asked) == self.ends_after
        best = self.best(question.budget)
        if self.vague:
            if best is None:
                return BudgetAnswer(interrupted=interrupted)
            longer = (best[0], best[1] + (question.attempt == 0))
            return BudgetAnswer(((longer, "fake"),), interrupted=interrupted)
        if best is None:
            return BudgetAnswer(infeasible=True, bound_source="fake", interrupted=interrupted)
        return BudgetAnswer(((best, "fake"),), best[1], "fake", interrupted=interrupted)


@st.composite
def stairs(draw: st.DrawFn, most: int = 8) -> list[tuple[int, int]]:
    """1 to `most` of them, up to a peak of 60."""
    count = draw(st.integers(1, most))
    peaks = sorted(draw(st.lists(st.integers(1, 60), min_size=count, max_size=count, unique=True)))
    durations = sorted(draw(st.lists(st.integers(0, 90), min_size=count, max_size=count, unique=True)), reverse=True)
    return list(zip(peaks, durations, strict=True))
