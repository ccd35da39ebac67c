"""Schedules and plans that were made elsewhere or before, judged: `validate` and `read_result`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.files import JsonObject, load_json, replace_file
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.base.vocabulary import Axis
from moccasin_mzn.graphs.formats import graph_given
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.wording import graph_text, total_text
from moccasin_mzn.graphs.zero_copy import alignment_for, changed_for
from moccasin_mzn.machine.memories import Amount
from moccasin_mzn.problem.files.plan_format import versioned
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.judges.schedules import Violation
from moccasin_mzn.problem.platform import Memory, Plan, Platform, computed_nodes
from moccasin_mzn.problem.problem import answer_document
from moccasin_mzn.problem.verdict import Verdict, verdict
from moccasin_mzn.report.plots.picture import Picture
from moccasin_mzn.report.rows import Interval, named_intervals
from moccasin_mzn.report.shown import Drawing, Shown, drawn


@dataclass(frozen=True, repr=False)
class JudgedSchedule(Shown):
    """A schedule, or a plan with several memories, as judged by the simulator.

    Memory is in the graph's size unit, durations in its duration unit.
    """

    details: Verdict
    """For the package itself: it may change."""
    document: JsonObject
    """The content of its file, as `solve --output` writes it; with the keys that were given."""

    @property
    def graph(self) -> ComputationGraph:
        """The graph that is scheduled."""
        return self.details.graph

    @property
    def valid(self) -> bool:
        """True if it is a schedule of the graph within the budget, and all that is claimed about it is so."""
        return not self.details.violations

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All that is wrong, the most basic one first; empty if it is valid."""
        return self.details.violations

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks, one line each, such as that a node is recomputed that the graph marks as computed once."""
        return tuple(note.removeprefix("note: ") for note in self.details.notes)

    @property
    def budgets(self) -> dict[str, int | None]:
        """The budget of each memory, by its name; None if absent."""
        return {memory.name: memory.budget for memory in self._platform.memories}

    @property
    def budget(self) -> int | None:
        """The budget of a schedule; None if absent, or there are several memories, see `budgets`."""
        return self.details.budget

    @property
    def sequence(self) -> list[NodeId]:
        """Ids of the nodes in the order of computing them, in any memory."""
        return list(computed_nodes(self.graph, self.details.plan))

    @property
    def positions(self) -> tuple[int, ...] | None:
        """The schedule as positions in `graph.nodes`; None for plans of several memories."""
        return None if self.details.platform else tuple(action.node for action in self.details.plan)

    @property
    def plan(self) -> Plan | None:
        """The computations and copies in their order, with several memories; None without a plan."""
        return self.details.plan if self.details.platform else None

    @property
    def intervals(self) -> tuple[Interval, ...] | None:
        """The retention intervals, one for each step; None if a step reads what is not there."""
        account, offsets = self.details.account, self.details.offsets
        if len(account.intervals) < len(self.details.plan):
            return None
        places = [(of.node, getattr(of, "memory", 0), of.start) for of in account.intervals]
        try:
            return named_intervals(
                self.graph, [*self.budgets], account.intervals, [offsets.get(at) for at in places], self.details.plan,
                self._platform.devices,
            )  # fmt: skip
        except InputError:
            return None

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The offset of each of `intervals` in the arena of its memory; None if not all have one."""
        found = tuple(one.offset for one in self.intervals or () if one.offset is not None)
        return found if found and len(found) == len(self.details.plan) else None

    @property
    def arenas(self) -> dict[str, int]:
        """The size of the arena in each memory, by its name; empty without offsets."""
        return {name: arena.top for name, arena in zip(self.budgets, self.details.arenas, strict=False)}

    @property
    def peaks(self) -> dict[str, int]:
        """The peak in each memory, by its name."""
        account = self.details.account
        peaks = account.peaks if isinstance(account, PlanSimulation) else (account.peak,)
        return dict(zip(self.budgets, peaks, strict=True))

    @property
    def peak(self) -> int:
        """The peak: of several memories that in the first."""
        return next(iter(self.peaks.values()))

    @property
    def duration(self) -> int:
        """The total duration of all computations and copies."""
        return self.details.account.duration

    @property
    def _platform(self) -> Platform:
        graph, budget = self.graph, self.details.budget
        one = Memory("memory", None if budget is None else max(0, budget), graph.durations)
        return self.details.platform or Platform(graph, (one,))

    @checked()
    def save(self, path: str | PathLike[str]) -> None:
        """Write the file that it was read from once more, or that of a schedule that was given otherwise, as
        `Result.save` does.

        Raises:
            InputError: it is not valid, or the file cannot be written.
        """
        if not self.valid:
            raise InputError(f"save: it is not valid: {self.violations[0].message}")
        document, positions = self.document, self.positions
        if positions is not None and "intervals" not in document:
            instance = Instance.build(self.graph, max(1, self.peak if self.budget is None else self.budget))
            answer = answer_document(instance, positions, instance.judge(positions), None)
            document = versioned(self.graph, positions, {"graph": self.graph.name, **answer})
        replace_file(path, json.dumps(document) + "\n")

    @checked()
    def plot(self, path: str | PathLike[str] | None = None, by: Axis = "event") -> Drawing | None:
        """Draw it as an interactive picture, or into a file.

        Args:
            path: the file, .png, .svg, .pdf or .html; None: the picture is returned.
            by: the unit of the horizontal axis, "event" or "stage".

        Raises:
            InputError: it reads what is not there or leaves a node out, the drawing library is not installed, or the
                file cannot be written.
        """
        return drawn(Picture(self._platform, self.details.plan, self._platform.graph.input_order(), by), path)

    def figures(self) -> dict[str, str]:
        unit, found = self.graph.size_unit, self.violations
        status = f"invalid: {found[0].message}" if found else "valid"
        more = f", and {count_text(len(found) - 1, 'more violation')}" if len(found) > 1 else ""
        figures = {"graph": graph_text(self.graph), "verdict": status + more}
        for name, peak in self.peaks.items():
            budget = self.budgets[name]
            of = "no budget" if budget is None else f"budget {memory_text(budget, unit)}"
            figures[f"peak, {name}" if self.plan else "peak"] = f"{memory_text(peak, unit)}, {of}"
        return {**figures, "duration": total_text(self.graph, "duration", self.duration)}

    def records(self) -> list[JsonObject]:
        """Return retention intervals as those of a `Result`."""
        return [one.as_row(self.plan is not None) for one in self.intervals or ()]


Schedule = Iterable[int | str] | Mapping[str, object] | str | PathLike[str]


@checked()
def validate(
    graph: ComputationGraph | str | PathLike[str],
    schedule: Schedule,
    budget: Amount | None = None,
    *,
    order: str | PathLike[str] | Iterable[int | str] = "input",
    count_fixed: bool = False,
    in_place: bool = False,
    zero_copy_concat: bool = False,
) -> JudgedSchedule:
    """Judge a schedule or a plan, wherever it comes from, with the simulator. ::

        judged = mz.validate("graph.json", ["x", "a", "b", "x", "z"], "1.5GiB")
        print(judged.valid, judged.peak, [violation.message for violation in judged.violations])

    Args:
        graph: the computation graph, or its file.
        schedule: positions or ids as for the edges of a graph; or a file such as `solve --output` writes, which may be
            a list of ids; or the object in such a file.
        budget: as for `solve`. None: that in the file, if there is one; a plan is judged by those in its file.
        order: the input order, to whose peak a fraction refers; see `solve`.
        count_fixed: the budget is for the graph's fixed memory too.
        in_place: outputs overwrite inputs where the graph allows it, and those are not read later.
        zero_copy_concat: concatenations are taken out as for `solve`, for the alignment in the file, if any.

    Returns:
        Its peak, duration and retention intervals, and all that is wrong with it, whether it is valid or not.

    Raises:
        InputError: nonsense in an argument, a file that cannot be read, or a node that is not in the graph.
    """
    loaded = load_json(schedule, Page.PLAN_FORMAT) if isinstance(schedule, str | PathLike) else None
    document = schedule if isinstance(schedule, Mapping) else loaded
    computation_graph = graph_given(graph, in_place, alignment_for(document) if zero_copy_concat else None)
    amount = None
    if budget is not None:
        amount = Instance.build(computation_graph, budget, order=order, count_fixed=count_fixed).budget
    if isinstance(schedule, str | PathLike):
        with located(schedule), explained(Page.PLAN_FORMAT):
            return _judged(computation_graph, loaded, amount)
    if isinstance(schedule, Mapping):
        return _judged(computation_graph, dict(schedule), amount)
    nodes = computation_graph.nodes
    positions = computation_graph.positions_of(schedule, "schedule")
    for at, v in enumerate(positions):
        if type(v) is not int or not 0 <= v < len(nodes):
            raise InputError(f"schedule[{at}]: {shown(v)} is neither an id nor a position 0..{len(nodes) - 1}")
    return _judged(computation_graph, [nodes[v] for v in positions], amount)


def _judged(graph: ComputationGraph, document: object, budget: int | None) -> JudgedSchedule:
    found = verdict(graph, document, budget)
    return JudgedSchedule(found, document if isinstance(document, dict) else {"sequence": document})


@checked()
def read_result(graph: ComputationGraph | str | PathLike[str], path: str | PathLike[str]) -> JudgedSchedule:
    """Read what `Result.save` or `solve --output` wrote, and judge it. ::

        mz.solve("graph.json", 0.8).save("schedule.json")
        schedule = mz.read_result("graph.json", "schedule.json")
        print(schedule.peak, schedule.duration, schedule.sequence)

    Args:
        graph: the computation graph that it is a schedule of, or its file.
        path: the file.

    Raises:
        InputError: it cannot be read, or is no valid schedule of this graph within the budget in it.
    """
    document = load_json(path, Page.PLAN_FORMAT)
    with located(path), explained(Page.PLAN_FORMAT):
        found = _judged(changed_for(graph_given(graph), document), document, None)
        if not found.valid:
            raise InputError("; ".join([found.violations[0].message, *found.notes]))
    return found
