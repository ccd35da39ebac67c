"""Validation of any schedule or plan, wherever it was made: the judge's verdict, and its own claims against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import some_of
from moccasin_mzn.base.formatting import count_text, duration_text, exact_memory_text, memory_text, over_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.files.plans import ClaimedInterval, ClaimedPlan
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.judges.arenas import apart, flaws
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.judges.schedules import Interval, Simulation, Violation, in_order, judge, simulate
from moccasin_mzn.problem.platform import Plan, plan_of_sequence

Key = TypeVar("Key", bound=tuple[int, ...])
"""The key of an interval: its node, where it is, its start."""


def repeats(graph: ComputationGraph, sequence: Sequence[int]) -> tuple[str, ...]:
    """Return a note, if a schedule recomputes what the graph marks as computed once; that is no violation of the
    problem, but what executes the schedule may refuse it."""
    counts = Counter(sequence)
    again = [node_text(graph, v) for v in graph.computed_once if counts[v] > 1]
    note = f"recomputes what the graph marks as computed once: {some_of(again)}"
    return (Page.GRAPH_FILES.after(note),) if again else ()


def kept_by_outputs(graph: ComputationGraph, sequence: Sequence[int]) -> tuple[str, ...]:
    """Return a note, if operations would run in place but for further outputs that are retained: these read what the
    operation reads, which is still there at their positions."""
    if graph.overwritable is None or graph.output_of is None:
        return ()
    simulation, kept = simulate(graph, sequence), dict[int, None]()
    if simulation.violations:
        return ()
    last_read = {(one.node, one.end) for one in simulation.intervals}
    overwriting = {position for position, _ in simulation.overwrites}
    for t, v in enumerate(sequence, start=1):
        after = t
        while after < len(sequence) and graph.output_of[sequence[after]] == v:
            after += 1
            if t not in overwriting and any((u, after) in last_read for u in graph.overwritable[v]):
                kept[v] = None
    names = some_of(node_text(graph, v) for v in kept)
    note = f"further outputs that are retained keep these from running in place: {names}"
    return (Page.COMPUTED.after(note),) if kept else ()


def validate_schedule(
    graph: ComputationGraph, schedule: ClaimedSchedule | Sequence[int], budget: int | None
) -> tuple[Violation, ...]:
    """All that is wrong with a schedule, the most basic violation first; empty for a correct one.

    Args:
        schedule: the content of a file, or a bare sequence of positions in `graph.nodes`.
        budget: in the graph's size unit; None takes the one the schedule claims, and no budget if it claims none. It is
            for the arena too, if the schedule has offsets.

    Returns:
        The judge's violations, and "wrong-node", "wrong-interval", "wrong-peak" or "wrong-duration" for every claim
        that is not what the simulation finds. An interval must end exactly at the last read of its copy: ending earlier
        drops what is still read, ending later retains memory that the schedule does not account for.
    """
    if not isinstance(schedule, ClaimedSchedule):
        schedule = ClaimedSchedule(tuple(schedule))
    if budget is None:
        budget = schedule.budget
    sequence = schedule.sequence
    simulation = simulate(graph, sequence) if budget is None else judge(graph, sequence, budget)
    violations = list(simulation.violations)
    if schedule.intervals is not None:
        violations += _intervals_of_schedule(graph, schedule.intervals, simulation)
    for arena in arena_of_schedule(graph, schedule, budget):
        violations += arena.violations()
    for what, claimed, true, text in (
        ("peak", schedule.peak, simulation.peak, partial(exact_memory_text, unit=graph.size_unit)),
        ("duration", schedule.duration, simulation.duration, partial(duration_text, unit=graph.duration_unit)),
    ):
        if claimed is not None and claimed != true:
            message = f"{what} claimed is {text(claimed)}, but the sequence has {what} {text(true)}"
            violations.append(Violation(f"wrong-{what}", None, None, message))
    return basic_first(in_order(violations))


_BASIC = (
    {"wrong-node"}, {"unknown-node", "unknown-memory", "cannot-compute", "no-link", "never-computed"},
    {"missing-input", "missing-copy"},
)  # fmt: skip
"""The kinds of violations that others follow from, the most basic ones first: a file that contradicts itself, what
cannot be done or is left out, what is read before it is there."""
_RANKS = {kind: rank for rank, kinds in enumerate(_BASIC) for kind in kinds}


def basic_first(violations: Sequence[Violation]) -> tuple[Violation, ...]:
    """Return violations with those first that others follow from, otherwise in the given order."""
    return tuple(sorted(violations, key=lambda one: _RANKS.get(one.kind, len(_BASIC))))


def validate_plan(claimed: ClaimedPlan) -> PlanSimulation:
    """The judge's account, with further violations for claims that are not so.

    They are "wrong-..." for totals, peaks and arenas; and, for a plan with offsets, "wrong-interval" for a copy that
    is not retained as in the plan, and those of `ClaimedArena.violations`.
    """
    graph, simulation = claimed.platform.graph, judge_plan(claimed.platform, claimed.plan, claimed.goal)
    wrong = []
    for what, value in claimed.totals:
        if value != simulation.total(what):
            exact = exact_memory_text if what == "traffic" else duration_text
            unit = {"duration": graph.duration_unit, "traffic": graph.size_unit}.get(what, "unit")
            claim, true = exact(value, unit), exact(simulation.total(what), unit)
            message = f"{what} claimed is {claim}, but the plan has {what} {true}"
            wrong.append(Violation(f"wrong-{what}", None, None, message))
    for m, value in claimed.peaks:
        if value != simulation.peaks[m]:
            name = claimed.platform.memories[m].name
            claim, true = (exact_memory_text(amount, graph.size_unit) for amount in (value, simulation.peaks[m]))
            message = f"peak in {name} claimed is {claim}, but the plan has {true}"
            wrong.append(Violation("wrong-peak", None, None, message))
    if claimed.placed is not None:
        wrong += _intervals_of_plan(claimed, simulation)
    for arena in arenas_of_plan(claimed):
        wrong += arena.violations()
    return replace(simulation, violations=basic_first((*simulation.violations, *wrong)))


def _intervals_of_schedule(
    graph: ComputationGraph, claimed: Sequence[Interval], simulation: Simulation
) -> Iterator[Violation]:
    computed, named = ({of.start: of.node for of in some} for some in (simulation.intervals, claimed))
    other = {start for start, node in named.items() if computed.get(start, node) != node and (computed[start], start)
             not in {(of.node, of.start) for of in claimed}}  # fmt: skip
    for start in sorted(other):
        text = f"the sequence computes node {node_text(graph, computed[start])}, the intervals have"
        message = f"position {start}: {text} node {node_text(graph, named[start])}"
        yield Violation("wrong-node", start, computed[start], message)
    true = {(of.node, of.start): of.end for of in simulation.intervals if of.start not in other}
    given = [((of.node, of.start), of.end) for of in claimed if of.start not in other]
    reads = "ends at {claimed}, {side} its last read at {true}"
    for (node, start), text in _wrong(
        true, given, "starts where the node is not computed", reads, "(to {true}) is missing"
    ):
        message = f"position {start}: the interval of node {node_text(graph, node)} {text}"
        yield Violation("wrong-interval", start, node, message)


def _intervals_of_plan(claimed: ClaimedPlan, simulation: PlanSimulation) -> Iterator[Violation]:
    """Return copies that the plan retains otherwise than claimed, or that have no offset."""
    true = {(of.node, of.memory, of.start): of.end for of in simulation.intervals}
    given = [((of.node, of.memory, of.start), of.end) for of in claimed.placed or ()]
    reads = "ends at {claimed}, but its last read is at {true}"
    for (node, memory, start), text in _wrong(true, given, "begins where there is none", reads, "has no offset"):
        copied, place = node_text(claimed.platform.graph, node), claimed.platform.memories[memory].name
        message = f"position {start}: the copy of node {copied} in {place} {text}"
        yield Violation("wrong-interval", start, node, message)


def _wrong(
    true: Mapping[Key, int], given: Sequence[tuple[Key, int]], unknown: str, other: str, missing: str
) -> Iterator[tuple[Key, str]]:
    """Return faults of given intervals, by their keys: wrong ends, then, by their start, those missing.

    Args:
        true: the end of each interval that there is, in order of their start.
        unknown, other, missing: texts for an interval that there is not, for another end, for one that is not given.
    """
    seen = set()
    for key, end in given:
        if key not in true:
            yield key, unknown
        elif key in seen:
            yield key, "is given twice"
        elif end != true[key]:
            yield key, other.format(claimed=end, true=true[key], side="before" if end < true[key] else "after")
        seen.add(key)
    for key, end in true.items():
        if key not in seen:
            yield key, missing.format(true=end)


# --- Offsets that a file claims -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimedArena:
    """The intervals of one memory, and where they claim to lie."""

    graph: ComputationGraph
    placed: tuple[tuple[int, int, int, int], ...]
    """Node, start and end, closed, and offset of each."""
    alignment: int
    """All offsets claim to be multiples of this number."""
    size: int | None
    """The size of the arena as claimed; None: nothing is."""
    budget: int | None
    place: str = ""
    """Whose memory it is, to be read behind a noun: " in local"; empty where there is one only."""
    workspaces: tuple[tuple[int, int, int | None], ...] = ()
    """Node, position and claimed offset of each workspace."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Numbers of intervals that are read as one, each to lie directly after the one before."""
    unplaced: tuple[tuple[int, int], ...] = ()
    """Node and position of each output that a computation makes without a place for it."""

    @property
    def top(self) -> int:
        """The end of the topmost interval."""
        sizes, taken = self.graph.sizes, self.graph.workspaces or ()
        tops = [offset + sizes[v] for v, *_, offset in self.placed if sizes[v]]
        return max([*tops, *(taken[v] + (offset or 0) for v, _, offset in self.workspaces)], default=0)

    def violations(self) -> Iterator[Violation]:
        """All that is wrong, in the order found.

        The kinds are "negative-offset", "misaligned-offset", "overlap", "no-offset" for a workspace or an output
        without one, "apart" for what is read as one and does not lie side by side, "wrong-arena" for an arena that is
        not as large as claimed, and "arena-over-budget".
        """
        graph, step, unit = self.graph, max(1, self.alignment), self.graph.size_unit
        boxes = [
            (start, end + 1, graph.sizes[v], step) if start <= end else (0, 1, 0, step)
            for v, start, end, _ in self.placed
        ]
        for v, at, offset in self.workspaces:
            if offset is None:
                message = f"position {at}: the workspace of node {node_text(graph, v)} has no offset"
                yield Violation("no-offset", at, v, message)
        for v, at in self.unplaced:
            message = f"position {at}: node {node_text(graph, v)} is computed too, and has no offset"
            yield Violation("no-offset", at, v, message)
        boxes += [(at, at + 1, (graph.workspaces or ())[v], step) for v, at, _ in self.workspaces]
        of = [(v, start) for v, start, *_ in self.placed] + [(v, at) for v, at, _ in self.workspaces]
        for flaw in flaws(boxes, [*(offset for *_, offset in self.placed), *(at or 0 for *_, at in self.workspaces)]):
            v, start = of[flaw.buffer]
            at, node = flaw.time or start, node_text(graph, v)
            if flaw.other is not None:
                other = node_text(graph, of[flaw.other][0])
                noun = "memory" if max(flaw.buffer, flaw.other) >= len(self.placed) else "outputs"
                text = f"the {noun} of nodes {other} and {node} overlap{self.place} at addresses {flaw.detail}"
                yield Violation("overlap", at, v, f"position {at}: {text}")
            else:
                message = f"position {at}: the interval of node {node}{self.place}: {flaw.detail}"
                yield Violation(f"{flaw.kind}-offset", at, v, message)
        sizes, offsets = [graph.sizes[v] for v, *_ in self.placed], [offset for *_, offset in self.placed]
        for flaw in apart(self.groups, sizes, offsets):
            other, node = (node_text(graph, of[at][0]) for at in (flaw.other or 0, flaw.buffer))
            text = f"node {node} does not lie directly behind {other}, with which it is read as one: {flaw.detail}"
            yield Violation("apart", of[flaw.buffer][1], of[flaw.buffer][0], f"position {of[flaw.buffer][1]}: {text}")
        if self.size is not None and self.size != self.top:
            claimed, found = (exact_memory_text(amount, unit) for amount in (self.size, self.top))
            message = f"arena{self.place} claimed is {claimed}, but the intervals end at {found}"
            yield Violation("wrong-arena", None, None, message)
        if self.budget is not None and self.top > self.budget:
            message = f"arena {memory_text(self.top, unit)}{self.place} is {over_text(self.top, self.budget, unit)}"
            yield Violation("arena-over-budget", None, None, message)

    def verdict(self) -> str:
        """Return what was judged, and how, in one line: size, overlaps, alignment, and the size against the budget."""
        kinds, unit = Counter(violation.kind for violation in self.violations()), self.graph.size_unit
        odd, step = kinds["misaligned-offset"] + kinds["negative-offset"], memory_text(max(1, self.alignment), "unit")
        verdicts = [
            f"arena{self.place} {memory_text(self.top, unit)} for {count_text(len(self.placed), 'interval')}",
            f"{count_text(kinds['overlap'], 'overlap')} found" if kinds["overlap"] else "no overlap",
            f"{count_text(odd, 'offset')} not a multiple of {step}" if odd else f"offsets are multiples of {step}",
        ]
        if self.budget is None:
            return ", ".join([*verdicts, "no budget"])
        side = "over" if kinds["arena-over-budget"] else "within"
        return ", ".join([*verdicts, f"{side} the budget {memory_text(self.budget, unit)}"])


def arena_of_schedule(
    graph: ComputationGraph, schedule: ClaimedSchedule, budget: int | None
) -> tuple[ClaimedArena, ...]:
    """Return the claims of a schedule about its arena; nothing if it has no offsets."""
    if schedule.offsets is None or schedule.intervals is None:
        return ()
    plan, memory = plan_of_sequence(schedule.sequence), ClaimedArena(graph, (), 1, schedule.arena, budget)
    places = schedule.workspace_offsets or (None,) * len(schedule.offsets)
    rows = zip(schedule.intervals, schedule.offsets, places, strict=True)
    placed = [ClaimedInterval(of.node, 0, of.start, of.end, offset, place) for of, offset, place in rows]
    over = simulate(graph, schedule.sequence).overwrites
    return _claimed(plan, placed, over, [replace(memory, alignment=schedule.alignment or 1)])


def arenas_of_plan(claimed: ClaimedPlan) -> tuple[ClaimedArena, ...]:
    """Return the claims of a plan about its arenas, one for each memory; nothing if it has no offsets."""
    if claimed.placed is None:
        return ()
    platform, sizes = claimed.platform, dict(claimed.arenas)
    memories = [
        ClaimedArena(platform.graph, (), claimed.alignment, sizes.get(m), place.budget, f" in {place.name}")
        for m, place in enumerate(platform.memories)
    ]
    over = judge_plan(platform, claimed.plan).overwrites
    return _claimed(claimed.plan, claimed.placed, over, memories, platform.devices)


def _claimed(
    plan: Plan, intervals: Sequence[ClaimedInterval], overwrites: Sequence[tuple[int, int]],
    memories: Sequence[ClaimedArena], devices: Sequence[int] = (0,),
) -> tuple[ClaimedArena, ...]:  # fmt: skip
    """The claims about each of the memories, which have no intervals yet.

    A further output is in memory from the computation of its first one there on. What overwrites an input, at its
    offset, takes memory of its own only after that.
    """
    graph, over = memories[0].graph, dict(overwrites)
    copied = {t for t, action in enumerate(plan, start=1) if action.source is not None}
    where: dict[tuple[int, int], tuple[int, int]] = {}  # by node and memory: start and offset of its latest copy
    latest: dict[tuple[int, int], tuple[int, int]] = {}  # by node and device: memory and number of its latest copy
    placed, workspaces, groups = ([list[tuple[Any, ...]]() for _ in memories] for _ in range(3))
    for of in sorted(intervals, key=lambda one: one.start):
        v, m, device = of.node, of.memory, devices[of.memory]
        computed = of.start not in copied
        first = graph.output_of[v] if graph.output_of is not None and computed else None
        start = of.start if first is None else where.get((first, m), (of.start, 0))[0]
        if of.start in over and where.get((over[of.start], m), (0, -1))[1] == of.offset:
            start = of.start + 1
        for group in graph.adjacent[v] if graph.adjacent is not None and computed else ():
            copies = [latest[u, device] for u in group if (u, device) in latest]
            if len(copies) == len(group) and len({place for place, _ in copies}) == 1:
                groups[copies[0][0]].append(tuple(number for _, number in copies))
        latest[v, device] = m, len(placed[m])
        placed[m].append((v, start, of.end, of.offset))
        if graph.workspaces is not None and graph.workspaces[v] and computed:
            workspaces[m].append((v, of.start, of.workspace_offset))
        where[v, m] = of.start, of.offset
    unplaced = [*_unplaced(graph, plan)]
    return tuple(
        replace(
            memory, placed=tuple(placed[m]), workspaces=tuple(workspaces[m]), groups=tuple(groups[m]),
            unplaced=tuple((v, t) for v, t, place in unplaced if place == m),
        )
        for m, memory in enumerate(memories)
    )  # fmt: skip


def _unplaced(graph: ComputationGraph, plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Further outputs with memory, and positions and memories that compute them without listing them."""
    further = {v: {u for u in row if graph.sizes[u]} for v, row in enumerate(graph.outputs_of) if row}
    waiting: dict[int, tuple[int, int]] = {}  # further outputs that are not listed yet, and where they are computed
    for t, action in enumerate(plan, start=1):
        if action.source is not None:
            continue
        waiting.pop(action.node, None)
        if action.node in further:
            yield from ((v, *place) for v, place in waiting.items())
            waiting = dict.fromkeys(sorted(further[action.node]), (t, action.memory))
    yield from ((v, *place) for v, place in waiting.items())


def judged_arenas(noun: str, arenas: tuple[ClaimedArena, ...]) -> list[str]:
    """Return what was judged of each arena of a schedule or a plan, in one line each."""
    return [arena.verdict() for arena in arenas] or [f"no arena to judge: the {noun} has no offsets"]
