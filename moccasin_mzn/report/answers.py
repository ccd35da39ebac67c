"""Results of the package's functions: figures by name, a table in a notebook, a picture, a data frame."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Protocol

from moccasin_mzn.api.frontier.points import Frontier
from moccasin_mzn.bench.compare import Row
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, require
from moccasin_mzn.extensions.addresses.allocate import Allocation
from moccasin_mzn.files import JsonObject
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.wording import graph_text, total_text
from moccasin_mzn.heuristics.orders.least_peak import Ordering
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.report.plots.files import page_of, write_picture
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.picture import Picture
from moccasin_mzn.search.result import Result as Found

if TYPE_CHECKING:
    from pandas import DataFrame

_PIXELS = 720


@dataclass(frozen=True)
class Drawing:
    """An interactive picture: a page of its own, which a notebook shows in a frame and which needs no network."""

    page: str
    """HTML."""

    def __repr__(self) -> str:
        return f"Drawing of {len(self.page):,} characters of HTML"

    def _repr_html_(self) -> str:
        frame = 'width="100%" style="border: 0"'
        return f'<iframe srcdoc="{html.escape(self.page)}" height="{_PIXELS}" {frame}></iframe>'


class Answer(ABC):
    """A result that shows its figures as lines, as a table in a notebook, and its parts as a data frame."""

    @abstractmethod
    def figures(self) -> dict[str, str]:
        """Return the figures for people, by name."""

    @abstractmethod
    def records(self) -> list[JsonObject]:
        """Return the rows of `to_frame`."""

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each part.

        Raises:
            InputError: pandas is not installed.
        """
        require("bench", "pandas")
        from pandas import DataFrame

        return DataFrame(self.records())

    def __repr__(self) -> str:
        return "\n".join(f"{what}: {value}" for what, value in self.figures().items())

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<tr><th style="text-align: left">{html.escape(what)}</th>'
            f'<td style="text-align: left">{html.escape(value)}</td></tr>'
            for what, value in self.figures().items()
        )
        return f"<table>{cells}</table>"


class _Proven(Protocol):
    """A result of a search with its proof."""

    @property
    def status(self) -> str: ...

    @property
    def bound(self) -> int: ...


class ProvenAnswer(Answer):
    """An answer with a status and a bound; `details` has all fields of the result."""

    details: _Proven

    @property
    def status(self) -> str:
        """The status: "optimal": proven to be the best, of a schedule for its formulation; "feasible": not proven;
        "infeasible": proven that there is none; "unknown": none found in time; "over-budget": a strategy's schedule,
        but over the budget."""
        return self.details.status

    @property
    def bound(self) -> int:
        """The lower bound on what is minimized: a duration or another objective, the peak of an order, the size of an
        arena."""
        return self.details.bound

    @property
    @abstractmethod
    def gap_percent(self) -> float | None:
        """The gap, 100 * (value - bound) / value of what is minimized; None without an answer."""


@dataclass(frozen=True, repr=False)
class Result(ProvenAnswer):
    """The best schedule found, or the best plan with several memories, as judged by the simulator, and what is proven.

    `details` has all fields, and `details.as_dict()` is what `solve --json` prints.
    """

    details: Found

    @property
    def gap_percent(self) -> float | None:
        return self.details.gap_percent

    @property
    def _several(self) -> bool:
        return isinstance(self.details.problem, PlanProblem)

    @property
    def graph(self) -> ComputationGraph:
        """The graph that is scheduled."""
        return self.details.problem.graph

    @property
    def reason(self) -> str:
        """The reason for the status, in one line."""
        return self.details.reason

    @property
    def valid(self) -> bool:
        """True if there is an answer within all budgets, arenas included, and the judge accepts it."""
        return self.details.valid

    @property
    def sequence(self) -> list[NodeId] | None:
        """Ids of the nodes in the order of computing them, in any memory; None without an answer."""
        if self.plan is not None:
            return [self.graph.nodes[action.node] for action in self.plan if action.source is None]
        return None if self.positions is None else [self.graph.nodes[v] for v in self.positions]

    @property
    def positions(self) -> tuple[int, ...] | None:
        """The schedule as positions in `graph.nodes`; None without one, and for plans of several memories."""
        return None if self._several else self.details.sequence

    @property
    def plan(self) -> Plan | None:
        """The computations and copies in their order, with several memories; None without a plan."""
        return self.details.plan if self._several else None

    @property
    def duration(self) -> int | None:
        """The total duration of all computations and copies, in the graph's unit; None without an answer."""
        return None if self.details.simulation is None else self.details.simulation.duration

    @property
    def peaks(self) -> dict[str, int]:
        """The peak in each memory, by its name, in the graph's size unit; empty without an answer."""
        if self._several:
            peaks = self.details.simulation.peaks if self.details.simulation else ()
            names = [memory.name for memory in self.details.problem.platform.memories]
            return dict(zip(names, peaks, strict=False))
        return {} if self.details.peak is None else {"memory": self.details.peak}

    @property
    def peak(self) -> int | None:
        """The peak, in the graph's size unit: of several memories that in the first; None without an answer."""
        return next(iter(self.peaks.values()), None)

    @property
    def objective(self) -> str:
        """The objective: "duration"; with several memories also "energy" or "traffic"."""
        return self.details.problem.objective

    @property
    def tdi_percent(self) -> float | None:
        """Total duration increase: 100 * (duration / duration with every node computed once - 1)."""
        return self.details.tdi_percent

    @property
    def found_by(self) -> str:
        """The search, strategy or warm start that found the answer; empty without one."""
        return self.details.found_by

    @property
    def proved_by(self) -> str:
        """The search, solver or bound that proved the bound."""
        return self.details.proved_by

    @property
    def seconds(self) -> float:
        """The wall-clock time in total, in seconds."""
        return self.details.seconds.total

    def figures(self) -> dict[str, str]:
        graph, unit = self.graph, self.graph.size_unit
        figures = {"graph": graph_text(graph), "status": f"{self.status}: {self.reason}"}
        for name, (peak, budget) in self._memories().items():
            of = "no budget" if budget is None else memory_text(budget, unit)
            figures[name] = f"{'-' if peak is None else memory_text(peak, unit)} of {of}"
        if self.duration is not None:
            total = total_text(graph, "duration", self.duration)
            figures["duration"] = f"{total}, {self.tdi_percent:.3f} % more than every node once"
        figures[f"bound on the {self.objective}"] = total_text(graph, self.objective, self.bound)
        figures |= {} if self.gap_percent is None else {"gap": f"{self.gap_percent:.3f} %"}
        figures |= {what: by for what, by in (("found by", self.found_by), ("proved by", self.proved_by)) if by}
        return {**figures, "seconds": f"{self.seconds:.2f}"}

    def _memories(self) -> dict[str, tuple[int | None, int | None]]:
        if self._several:
            memories = self.details.problem.platform.memories
            return {f"peak, {memory.name}": (self.peaks.get(memory.name), memory.budget) for memory in memories}
        amounts, arena = {"peak": self.peak}, self.details.arenas
        amounts |= {} if arena is None else {"arena": arena.size}
        return {what: (amount, self.details.instance.budget) for what, amount in amounts.items()}

    def records(self) -> list[JsonObject]:
        """Return retention intervals: node, memory if there are several, first and last step, offset if there are
        addresses, and size."""
        sizes = dict(zip(self.graph.nodes, self.graph.sizes, strict=True))
        intervals = self.details.as_dict()["intervals"] or []
        return [{**interval, "size": sizes[interval["node"]]} for interval in intervals]

    def plot(self, path: str | PathLike[str] | None = None, by: str = "event") -> Drawing | None:
        """Draw the schedule as an interactive picture, or into a file.

        Args:
            path: the file, .png, .svg, .pdf or .html; None: the picture is returned.
            by: the unit of the horizontal axis, "event" or "stage".

        Raises:
            InputError: there is no schedule, the drawing library is not installed, or the file cannot be written.
        """
        problem, answer = self.details.problem, self.details.answer
        if answer is None:
            raise InputError(Page.INFEASIBLE.after(f"plot: there is no schedule: {self.reason}"))
        return _drawn(Picture(problem.platform, problem.as_plan(answer), problem.instance.order, by), path)


@dataclass(frozen=True, repr=False)
class OrderResult(ProvenAnswer):
    """An order of all nodes, each computed once, and what is known of the least peak of any such order."""

    graph: ComputationGraph
    input_peak: int
    """The peak of the order that the search began with, in the graph's size unit."""
    details: Ordering

    @property
    def sequence(self) -> list[NodeId]:
        """Ids of the nodes in the order."""
        return [self.graph.nodes[v] for v in self.details.order]

    @property
    def positions(self) -> tuple[int, ...]:
        """The order as positions in `graph.nodes`, as `solve` takes it."""
        return self.details.order

    @property
    def peak(self) -> int:
        """The peak of the order, in the graph's size unit."""
        return self.details.peak

    @property
    def gap_percent(self) -> float:
        return self.details.gap_percent

    def figures(self) -> dict[str, str]:
        unit, details = self.graph.size_unit, self.details
        return {
            "graph": graph_text(self.graph),
            "status": self.status,
            "peak": f"{memory_text(self.peak, unit)}, before {memory_text(self.input_peak, unit)}",
            "bound": memory_text(self.bound, unit),
            "gap": f"{self.gap_percent:.3f} %",
            "found by": "the input order" if details.source == "start" else details.source,
            "proved by": details.bound_source,
            "seconds": f"{details.seconds:.2f}",
        }

    def records(self) -> list[JsonObject]:
        """Return each node with the memory in use while it is computed."""
        memory = simulate(self.graph, self.positions).memory
        return [{"node": node, "memory": now} for node, now in zip(self.sequence, memory, strict=True)]


@dataclass(frozen=True, repr=False)
class FrontierResult(Answer):
    """The frontier: least durations by budget, each with its schedule and its bound; `details` has all fields."""

    details: Frontier

    def figures(self) -> dict[str, str]:
        frontier, unit = self.details, self.details.graph.size_unit
        least = "-" if frontier.least_found is None else memory_text(frontier.least_found, unit)
        return {
            "graph": graph_text(frontier.graph),
            "points": f"{count_text(len(frontier.points), 'point')}, {frontier.proven} proven",
            "least peak found": f"{least}, proven that none is below {memory_text(frontier.least_bound, unit)}",
            "seconds": f"{frontier.seconds:.2f}",
        }

    def records(self) -> list[JsonObject]:
        """Return the points by ascending budget."""
        from moccasin_mzn.report.frontiers import CSV_COLUMNS, as_dict

        points = as_dict(self.details, lambda schedule, budget: {})["points"]
        return [{column: point[column] for column in CSV_COLUMNS if column != "sequence"} for point in points]

    def plot(self, path: str | PathLike[str] | None = None) -> Drawing | None:
        """Draw the frontier as an interactive picture, or into a file: .png, .svg, .pdf or .html.

        Raises:
            InputError: the drawing library is not installed, or the file cannot be written.
        """
        return _drawn(FrontierPicture(self.details), path)


@dataclass(frozen=True, repr=False)
class AllocationResult(ProvenAnswer):
    """Buffers with their offsets in an arena, and what is proven about its size."""

    details: Allocation

    @property
    def size(self) -> int:
        """The size of the arena."""
        return self.details.arena.size

    @property
    def gap_percent(self) -> float:
        return 100 * (self.size - self.bound) / self.size if self.size else 0.0

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of each buffer, by its name."""
        arena = self.details.arena
        return {buffer.name: offset for buffer, offset in zip(arena.buffers, arena.offsets, strict=True)}

    def figures(self) -> dict[str, str]:
        arena = self.details.arena
        return {
            "buffers": f"{len(arena.buffers):,}",
            "status": self.status,
            "arena": f"{self.size:,}, {arena.fragmentation_percent:.3f} % over the peak {arena.peak:,}",
            "bound": f"{self.bound:,}",
        }

    def records(self) -> list[JsonObject]:
        """Return the buffers with their lifespans, half-open, and offsets."""
        arena = self.details.arena
        return [{**vars(b), "offset": offset} for b, offset in zip(arena.buffers, arena.offsets, strict=True)]


@dataclass(frozen=True, repr=False)
class ComparisonResult(Answer):
    """Formulations and strategies side by side."""

    rows: tuple[Row, ...]

    def figures(self) -> dict[str, str]:
        figures = {}
        for row in self.rows:
            tdi = row.result.tdi_percent if row.result is not None and row.result.valid else None
            increase = "" if tdi is None else f"+{tdi:.3f} %, "
            figures[f"{row.contender.label}, {row.budget}"] = increase + row.note
        return figures

    def records(self) -> list[JsonObject]:
        """Return a row for each contender at each budget."""
        return [row.as_dict() for row in self.rows]


def _drawn(picture: Picture | FrontierPicture, path: str | PathLike[str] | None) -> Drawing | None:
    return Drawing(page_of(picture)) if path is None else write_picture(path, picture)
