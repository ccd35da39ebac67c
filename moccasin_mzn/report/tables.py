"""Tables and lines of progress on a terminal.

Tables never cut or break a number or a name: what is too wide for a terminal folds where there is prose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import singledispatch
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.result import ADDRESSES, Progress, percent_over

_UNLIMITED = 1_000_000
"""Columns of what is no terminal: a file or another program takes a line as it is."""
_BETWEEN = 3
"""Blanks between two columns."""


def console(out: TextIO) -> Console:
    """Names from files are shown as they are: nothing in them is markup."""
    width = None if out.isatty() else _UNLIMITED
    return Console(file=out, width=width, markup=False, highlight=False, emoji=False)


def plain_table(
    title: str | None, headings: Collection[str], left: Collection[str] = (), prose: Collection[str] = ()
) -> Table:
    """A table without rows.

    Args:
        left: of the headings, those of columns of words, which begin at the left; others are of numbers.
        prose: of the headings, those whose cells may be folded between two words.
    """
    columns = [
        Column(heading, justify="left" if heading in left or heading in prose else "right",
               no_wrap=heading not in prose, overflow="fold")
        for heading in headings
    ]  # fmt: skip
    return Table(*columns, title=title, box=box.SIMPLE_HEAD, pad_edge=False)


def print_lines(to: Console, lines: Iterable[str]) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        to.print(line, soft_wrap=True)


def print_table(to: Console, table: Table) -> None:
    """Print a table; where the terminal is too narrow for what cannot be folded, its lines are longer than it is."""
    title, table.title = table.title, None
    if title is not None:
        to.print(title, style="table.title", soft_wrap=True)  # the table would break it at its own width
    width, least = to.width, 0
    for column in table.columns:
        column.min_width = _least_width(column)
        least += column.min_width + _BETWEEN
    to.width = max(width, least)
    to.print(table)
    to.width = width


def _least_width(column: Column) -> int:
    """Return the width of the widest line of a column, or of its longest word if it may be folded."""
    cells = [str(column.header), *map(str, column.cells)]
    pieces = (piece for cell in cells for piece in (cell.splitlines() if column.no_wrap else cell.split()))
    return max(map(cell_len, pieces), default=0)


# --- Progress: a line for each improvement, while the search runs ---------------------------------------------


_SECONDS_BETWEEN_LINES = 0.25


class Lines:
    """Prints lines, at most a few per second."""

    def __init__(self, out: TextIO) -> None:
        self._console = console(out)
        self._last_time = -1.0
        self._delayed: str | None = None

    def _print(self, seconds: float, text: str, at_once: bool) -> None:
        """Print a line, or delay it if one was printed just before, unless it is for `at_once`."""
        self._delayed = f"{seconds:8.1f} s  {text}"
        if at_once or seconds - self._last_time >= _SECONDS_BETWEEN_LINES:
            self._last_time = seconds
            self.flush()

    def flush(self) -> None:
        """Print the delayed line, if any."""
        if self._delayed is not None:
            self._console.print(self._delayed, soft_wrap=True)
            self._delayed = None


class ProgressLines(Lines):
    """Prints a line for each new incumbent or bound that changes what a person reads, at most a few per second."""

    def __init__(self, problem: Problem, out: TextIO, named: bool = False) -> None:
        """`named`: each line has the name of its source, as in a race; those of several memories always have it."""
        super().__init__(out)
        self._problem, self._named = problem, named
        self._last: tuple[object, ...] = ()

    def __call__(self, progress: Progress) -> None:
        """Print the line, or delay it if one was printed just before."""
        seeking = progress.phase == "peak"
        state = (progress.phase, progress.peak if seeking else progress.value, progress.bound)
        if state == self._last and progress.phase != ADDRESSES:
            return
        turning_point = self._last[:1] != state[:1] or (seeking and progress.peak <= self._problem.instance.budget)
        self._last = state
        self._print(progress.seconds, _line(self._problem, progress, self._named), turning_point)


@singledispatch
def _line(problem: Problem, progress: Progress, named: bool) -> str:
    """Return the text of an improvement. A schedule: by how much it exceeds the input order, as that is what a budget
    costs."""
    text = _increase(problem.instance, progress)
    return f"{text}  {progress.source}" if named else text


def _increase(instance: Instance, progress: Progress) -> str:
    unit, baseline = instance.graph.size_unit, instance.baseline.duration
    start = f"{len(instance.graph.nodes)} + {count_text(progress.figures['recomputations'], 'node')}  "
    bound, unplaced = f"bound +{percent_over(progress.bound, baseline):.3f} %", ""
    if progress.unplaced is not None:
        unplaced = f"+{percent_over(progress.unplaced, baseline):.3f} %, {_arenas(instance, progress)}"
        if progress.value is None:
            return f"{start}{unplaced}  {bound}"
        unplaced = f"  trying {unplaced}"
    elif progress.phase == "peak" or progress.value is None:
        over = progress.peak - instance.budget
        reached = f"{memory_text(over, unit)} over the budget" if over > 0 else "within the budget"
        reached += ", with more computations per node" if progress.phase == "more" else ""
        return f"{start}peak {memory_text(progress.peak, unit)}, {reached}"
    gap = 100 * (progress.value - progress.bound) / progress.value if progress.value else 0.0
    return f"{start}incumbent +{percent_over(progress.value, baseline):.3f} %  {bound}  gap {gap:.3f} %{unplaced}"


@_line.register(PlanProblem)
def _line_of_plan(problem: PlanProblem, progress: Progress, named: bool) -> str:
    """The total of the objective, and always who found it."""
    what, graph = problem.objective, problem.graph
    incumbent = "no schedule yet" if progress.value is None else f"{what} {total_text(graph, what, progress.value)}"
    text = f"{incumbent}  bound {total_text(graph, what, progress.bound)}"
    if progress.unplaced is not None:
        text += f"  trying {total_text(graph, what, progress.unplaced)}, {_arenas(problem, progress)}"
    return f"{text}  {progress.source}"


def _arenas(problem: Problem, progress: Progress) -> str:
    """The least arenas known of a schedule whose offsets are searched for."""
    memories, unit = problem.platform.memories, problem.graph.size_unit
    texts = []
    for memory in memories:
        size = (progress.arenas or {}).get(memory.name)
        if size is None:
            continue
        over = size - (size if memory.budget is None else memory.budget)
        where = f" in {memory.name}" if len(memories) > 1 else ""
        reached = f"{memory_text(over, unit)} over the budget" if over > 0 else "within the budget"
        texts.append(f"its arena{where} takes {memory_text(size, unit)}, {reached}")
    return "; ".join(texts) or "arena not placed yet"
