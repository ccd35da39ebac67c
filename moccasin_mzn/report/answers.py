"""Results of the package's functions."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from moccasin_mzn.api.compare import Row
from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject, replace_file
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.base.vocabulary import Axis
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.wording import graph_text, total_text
from moccasin_mzn.heuristics.orders.least_peak import Ordering
from moccasin_mzn.machine.addresses.allocate import Allocation
from moccasin_mzn.problem.buffer import Buffer
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Plan, computed_nodes
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.picture import Picture
from moccasin_mzn.report.rows import Incumbent, Interval, incumbents_of, intervals_of
from moccasin_mzn.report.shown import Answer, Drawing, ProvenAnswer, drawn
from moccasin_mzn.search.result import Result as Found


@dataclass(frozen=True, repr=False)
class Result(ProvenAnswer):
    """The best schedule found, or the best plan with several memories, as judged by the simulator, and what is proven.

    Memory is in the graph's size unit, durations in its duration unit.
    """

    details: Found
    """For the package itself: it may change."""

    @property
    def gap_percent(self) -> float | None:
        return self.details.gap_percent

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
    def budget(self) -> int | None:
        """The memory budget for outputs, without fixed memory; None with several memories, see `budgets`."""
        return self.details.problem.budget

    @property
    def budgets(self) -> dict[str, int | None]:
        """The budget of each memory, by its name; None: as much as there may be."""
        return self.details.problem.budgets

    @property
    def sequence(self) -> list[NodeId] | None:
        """Ids of the nodes in the order of computing them, in any memory; None without an answer."""
        answer = self.details.answer
        return None if answer is None else list(computed_nodes(self.graph, answer))

    @property
    def positions(self) -> tuple[int, ...] | None:
        """The schedule as positions in `graph.nodes`; None without one, and for plans of several memories."""
        answer = self.details.answer
        return None if answer is None else self.details.problem.positions(answer)

    @property
    def plan(self) -> Plan | None:
        """The computations and copies in their order, with several memories; None without a plan."""
        answer = self.details.answer
        return None if answer is None else self.details.problem.actions(answer)

    @property
    def intervals(self) -> tuple[Interval, ...] | None:
        """The retention intervals, one for each step of the schedule or plan; None without an answer."""
        return intervals_of(self.details)

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The offset of each of `intervals` in the arena of its memory; None without addresses or an answer."""
        details = self.details
        if details.arenas is None or details.simulation is None:
            return None
        return tuple(details.problem.offsets(details.arenas, details.simulation))

    @property
    def arenas(self) -> dict[str, int]:
        """The size of the arena in each memory, by its name; empty without addresses or an answer."""
        details = self.details
        if details.arenas is None or details.simulation is None:
            return {}
        placed = details.problem.arenas_with_limits(details.arenas)
        return {name: arena.size for name, (arena, _, _) in zip(self.budgets, placed, strict=True)}

    @property
    def arena(self) -> int | None:
        """The size of the arena: of several memories that in the first; None without addresses or an answer."""
        return next(iter(self.arenas.values()), None)

    @property
    def trace(self) -> tuple[Incumbent, ...]:
        """Every incumbent of the search in order of time, the answer last; empty without one. With addresses only those
        whose arenas are within the budgets. What only improved the bound is in `as_dict()["trace"]`."""
        return incumbents_of(self.details)

    @property
    def value(self) -> int | None:
        """The total of what is minimized, see `objective`; None without an answer."""
        return self.details.value

    @property
    def recomputations(self) -> int | None:
        """The number of computations beyond one per node; None without an answer."""
        account = self.details.simulation
        return None if account is None else self.details.problem.recomputations(account)

    @property
    def duration(self) -> int | None:
        """The total duration of all computations and copies, in the graph's unit; None without an answer."""
        return None if self.details.simulation is None else self.details.simulation.duration

    @property
    def peaks(self) -> dict[str, int]:
        """The peak in each memory, by its name, in the graph's size unit; empty without an answer."""
        account = self.details.simulation
        return {} if account is None else self.details.problem.peaks(account)

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

    @property
    def interrupted(self) -> bool:
        """True if an interrupt from the keyboard ended the search."""
        return self.details.interrupted

    @property
    def ended_by(self) -> str:
        """What ended the search without a proof: a criterion, "TimeLimit(60)", "NoImprovement(10)", "Gap(0.02)",
        "Iterations(1000)" or the name of one of your own, "an event of the caller's", "on_progress" or "an interrupt";
        empty: it ended by itself."""
        return self.details.ended_by

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks, one line each: what was left undone and why, a solver that failed, what a solver claims in floating
        point and that is unproven."""
        details = self.details
        return *details.notes, *(note for note in (details.failure, details.claim) if note)

    def as_dict(self) -> JsonObject:
        """Return the object that `solve --json` prints; the page on the command line describes its keys."""
        return self.details.as_dict()

    @checked()
    def save(self, path: str | PathLike[str]) -> None:
        """Write the schedule or plan to a file, as `solve --output` does: `validate`, `plot`, `deploy` and `warm_start`
        read it.

        Raises:
            InputError: there is no schedule within the budget, or the file cannot be written.
        """
        if not self.valid:
            raise InputError(Page.INFEASIBLE.after(f"save: there is no schedule within the budget: {self.reason}"))
        replace_file(path, self.details.as_json())

    def figures(self) -> dict[str, str]:
        graph, unit = self.graph, self.graph.size_unit
        figures = {"graph": graph_text(graph), "status": f"{self.status}: {self.reason}"}
        for name, (peak, budget) in self._memories().items():
            amount, side = "-", "budget"
            if peak is not None:
                amount, side = memory_text(peak, unit), "within the budget of" if self.valid else "with the budget of"
            figures[name] = f"{amount}, {'no budget' if budget is None else f'{side} {memory_text(budget, unit)}'}"
        if self.duration is not None:
            total = total_text(graph, "duration", self.duration)
            figures["duration"] = f"{total}, {self.tdi_percent:.3f} % more than every node once"
        figures[f"bound on the {self.objective}"] = total_text(graph, self.objective, self.bound)
        figures |= {} if self.gap_percent is None else {"gap": f"{self.gap_percent:.3f} %"}
        figures |= {what: by for what, by in (("found by", self.found_by), ("proved by", self.proved_by)) if by}
        return {**figures, "seconds": f"{self.seconds:.2f}"}

    def _memories(self) -> dict[str, tuple[int | None, int | None]]:
        if self.budget is None:  # each has its own
            return {f"peak, {name}": (self.peaks.get(name), budget) for name, budget in self.budgets.items()}
        amounts = {"peak": self.peak} | ({"arena": self.arena} if self.details.arenas is not None else {})
        return {what: (amount, self.budget) for what, amount in amounts.items()}

    def records(self) -> list[JsonObject]:
        """Return retention intervals: node, memory if there are several, first and last step, offset if there are
        addresses, and size."""
        return [one.as_row(self.plan is not None) for one in self.intervals or ()]

    @checked()
    def plot(self, path: str | PathLike[str] | None = None, by: Axis = "event") -> Drawing | None:
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
        return drawn(Picture(problem.platform, problem.as_plan(answer), problem.instance.order, by), path)


@dataclass(frozen=True, repr=False)
class OrderResult(ProvenAnswer):
    """An order of all nodes, each computed once, and what is known of the least peak of any such order."""

    graph: ComputationGraph
    input_peak: int
    """The peak of the order that the search began with, in the graph's size unit."""
    details: Ordering
    """For the package itself: it may change."""

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

    @property
    def found_by(self) -> str:
        """The search that found the order."""
        return "the input order" if self.details.source == "start" else self.details.source

    @property
    def proved_by(self) -> str:
        """The search that proved the bound."""
        return self.details.bound_source

    @property
    def seconds(self) -> float:
        """The wall-clock time, in seconds."""
        return self.details.seconds

    def figures(self) -> dict[str, str]:
        unit = self.graph.size_unit
        return {
            "graph": graph_text(self.graph),
            "status": self.status,
            "peak": f"{memory_text(self.peak, unit)}, before {memory_text(self.input_peak, unit)}",
            "bound": memory_text(self.bound, unit),
            "gap": f"{self.gap_percent:.3f} %",
            "found by": self.found_by,
            "proved by": self.proved_by,
            "seconds": f"{self.seconds:.2f}",
        }

    def records(self) -> list[JsonObject]:
        """Return each node with the memory in use while it is computed."""
        memory = simulate(self.graph, self.positions).memory
        return [{"node": node, "memory": now} for node, now in zip(self.sequence, memory, strict=True)]


@dataclass(frozen=True, repr=False)
class FrontierResult(Answer):
    """The frontier: least durations by budget, each with its schedule and its bound."""

    details: Frontier
    """For the package itself: it may change."""

    @property
    def graph(self) -> ComputationGraph:
        """The graph that is scheduled."""
        return self.details.graph

    @property
    def points(self) -> tuple[FrontierPoint, ...]:
        """The points by ascending budget."""
        return self.details.points

    @property
    def peak(self) -> int:
        """The peak of the input order with every node computed once: 100 % of a budget."""
        return self.details.peak

    @property
    def least_peak(self) -> int | None:
        """The least peak of all schedules found; None without any."""
        return self.details.least_found

    @property
    def least_bound(self) -> int:
        """The lower bound on the peak of any schedule."""
        return self.details.least_bound

    @property
    def seconds(self) -> float:
        """The wall-clock time, in seconds."""
        return self.details.seconds

    @property
    def interrupted(self) -> bool:
        """True if the user ended the sweep."""
        return self.details.interrupted

    def figures(self) -> dict[str, str]:
        frontier, unit = self.details, self.details.graph.size_unit
        least = "-" if frontier.least_found is None else memory_text(frontier.least_found, unit)
        proven = f"no schedule {frontier.scope} is below {memory_text(frontier.least_bound, unit)}"
        return {
            "graph": graph_text(frontier.graph),
            "points": f"{count_text(len(frontier.points), 'point')}, {frontier.proven} proven",
            "least peak found": f"{least}, proven that {proven}",
            "seconds": f"{frontier.seconds:.2f}",
        }

    def records(self) -> list[JsonObject]:
        """Return the points by ascending budget."""
        from moccasin_mzn.report.frontiers import CSV_COLUMNS, as_dict

        points = as_dict(self.details, lambda schedule, budget: {})["points"]
        return [{column: point[column] for column in CSV_COLUMNS if column != "sequence"} for point in points]

    @checked()
    def plot(self, path: str | PathLike[str] | None = None) -> Drawing | None:
        """Draw the frontier as an interactive picture, or into a file: .png, .svg, .pdf or .html.

        Raises:
            InputError: the drawing library is not installed, or the file cannot be written.
        """
        return drawn(FrontierPicture(self.details), path)


@dataclass(frozen=True, repr=False)
class AllocationResult(ProvenAnswer):
    """Buffers with their offsets in an arena, and what is proven about its size."""

    details: Allocation
    """For the package itself: it may change."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers."""
        return self.details.arena.buffers

    @property
    def size(self) -> int:
        """The size of the arena."""
        return self.details.arena.size

    @property
    def peak(self) -> int:
        """The most memory of buffers that live at the same time; no arena is smaller."""
        return self.details.arena.peak

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
        rows = ({**vars(b), "offset": offset} for b, offset in zip(arena.buffers, arena.offsets, strict=True))
        blocks = any(buffer.block is not None for buffer in arena.buffers)
        return [{key: row[key] for key in row if blocks or key not in ("block", "place")} for row in rows]


@dataclass(frozen=True, repr=False)
class ComparisonResult(Answer):
    """Formulations and strategies side by side."""

    rows: tuple[Row, ...]
    """For the package itself: it may change; `to_frame` and `records` have its figures."""

    @property
    def interrupted(self) -> bool:
        return any(row.result is not None and row.result.interrupted for row in self.rows)

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
