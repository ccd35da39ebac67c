"""Progress for a person: a line for each improvement, while the search runs."""

from __future__ import annotations

from typing import Any, TextIO

from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.report.tables import console
from moccasin_mzn.search.result import Progress, percent_over

_SECONDS_BETWEEN_LINES = 0.25


class Lines:
    """Prints lines, at most a few per second."""

    def __init__(self, out: TextIO) -> None:
        self._console = console(out)
        self._last_time = -1.0
        self._held_back: str | None = None

    def _tell(self, seconds: float, text: str, at_once: bool) -> None:
        """Print a line, or hold it back if one was printed just before, unless it is for `at_once`."""
        self._held_back = f"{seconds:8.1f} s  {text}"
        if at_once or seconds - self._last_time >= _SECONDS_BETWEEN_LINES:
            self._last_time = seconds
            self.flush()

    def flush(self) -> None:
        """Print the line held back, if any."""
        if self._held_back is not None:
            self._console.print(self._held_back, soft_wrap=True)
            self._held_back = None


class ProgressLines(Lines):
    """Prints a line for each new incumbent or bound that changes what a person reads, at most a few per second."""

    def __init__(self, problem: Problem, out: TextIO, named: bool = False) -> None:
        """`named`: each line says who made it, as in a race; those of several memories always do."""
        super().__init__(out)
        self._problem, self._named = problem, named or isinstance(problem, PlanProblem)
        self._last: tuple[Any, ...] = ()

    def __call__(self, progress: Progress) -> None:
        """Print the line, or hold it back if one was printed just before."""
        seeking = progress.phase == "peak"
        state = (progress.phase, progress.peak if seeking else progress.value, progress.bound)
        if state == self._last:
            return
        turning_point = self._last[:1] != state[:1] or (seeking and progress.peak <= self._problem.instance.budget)
        self._last = state
        text = self._of_plan(progress) if isinstance(self._problem, PlanProblem) else self._of_schedule(progress)
        self._tell(progress.seconds, text + (f"  {progress.source}" if self._named else ""), turning_point)

    def _of_schedule(self, progress: Progress) -> str:
        """By how much it exceeds the input order, as that is what a budget costs."""
        instance = self._problem.instance
        unit, baseline = instance.graph.size_unit, instance.baseline.duration
        start = f"{len(instance.graph.nodes)} + {count_text(progress.figures['recomputations'], 'node')}  "
        if progress.phase == "peak" or progress.value is None:
            over = progress.peak - instance.budget
            reached = f"{memory_text(over, unit)} over the budget" if over > 0 else "within the budget"
            reached += ", with more computations per node" if progress.phase == "more" else ""
            return f"{start}peak {memory_text(progress.peak, unit)}, {reached}"
        gap = 100 * (progress.value - progress.bound) / progress.value if progress.value else 0.0
        return (
            f"{start}incumbent +{percent_over(progress.value, baseline):.3f} %"
            f"  bound +{percent_over(progress.bound, baseline):.3f} %  gap {gap:.3f} %"
        )

    def _of_plan(self, progress: Progress) -> str:
        """What it takes of the objective."""
        what, graph = self._problem.objective, self._problem.graph
        incumbent = "no schedule yet" if progress.value is None else f"{what} {total_text(graph, what, progress.value)}"
        return f"{incumbent}  bound {total_text(graph, what, progress.bound)}"
