"""The contents of a picture of a schedule or a plan, as plain numbers, with its colours and names: nothing here draws.

Every position of the plan has a piece of the horizontal axis, from `edges[p - 1]` to `edges[p]`. By event all
pieces are equally wide. By stage all stages are, and share their width among their positions; stage k ends with the
k-th first computation (Bartan et al., ICML 2023, section 2.3)::

    position      1   2   3   4   5          sequence a b c b d; the second b is a recomputation
    by event    [ a | b | c | b | d ]        pieces 0.5..1.5, 1.5..2.5, ...
    stage         1   2   3 |   4
    by stage    [ a | b | c |b|d]            pieces 0.5..1.5, ..., 3.5..4.0, 4.0..4.5

The memory of the input order is drawn on the same axis, so that both profiles can be compared: its k-th computation has
the width of stage k, which is that of everything the schedule does for its k-th first computation.

A schedule is a plan for one memory. Each memory of a plan has a panel of its own, all on one axis; a copy begins a bar
in one panel, and is marked in the other where it is read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import BYTE_STEPS, count_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.judges.schedules import Simulation, Violation, simulate
from moccasin_mzn.problem.platform import Memory, Plan, Platform, plan_of_sequence
from moccasin_mzn.search.result import percent_over

KINDS = {
    "only": "computed once",
    "first": "recomputed later: first copy",
    "again": "recomputed copy",
    "copied": "copied from another memory",
}
"""The meanings of the colours of bars, by `Bar.kind`."""
COLOURS = {"only": "#9DB4C8", "first": "#0072B2", "again": "#D55E00", "copied": "#009E73"}
"""Distinct to the colour-blind (after Okabe and Ito) and in grey."""
LAYER_COLOURS = ("#4477AA", "#66AABB", "#228833", "#B8A636", "#8E4A9E", "#7A7A7A")
"""The colours of parts of one layer after the other, in a tiled graph."""
PART = "part, in a colour of its layer"
"""The meaning of these colours."""
BEFORE, AFTER, BUDGET, INK, PALE = "#9A9A9A", "#0072B2", "#000000", "#333333", "#D5E4F0"
GROUND, GRID, SHADE = "#FFFFFF", "#E6E6E6", "#F2F2F2"
MARKS = {"again": ("recomputation", "again"), "in": ("copied in", "copied"), "out": ("copied out", "copied")}
"""The texts of what is marked, by the key in `Panel.marks`, and the kind of bar whose colour it has."""


# --- Names of nodes and scales of memory, short and in characters that every file format allows ---------------


LONGEST = 32
"""The most characters of the name of a row."""
_PATH = re.compile(r"[./](?=\w)")
"""A separator in the path of a module or of an operator."""
_NUMBER = re.compile(r"(_\d{1,4}){1,2}$")
"""The numbers that end an id, which distinguish ids with the same beginning."""


@dataclass(frozen=True)
class MemoryScale:
    """A memory axis: amounts are divided by `step` and are then in `unit`."""

    step: int
    unit: str

    @classmethod
    def of(cls, largest: int, unit: str) -> MemoryScale:
        """Choose the scale for amounts up to `largest` in the graph's size unit."""
        if unit != "byte":
            return cls(1, "" if unit == "unit" else unit)
        return next((cls(step, name) for step, name in BYTE_STEPS if largest >= step), cls(1, "B"))

    @property
    def title(self) -> str:
        """The title of the axis."""
        return f"memory, {self.unit}" if self.unit else "memory"

    def text(self, amount: int) -> str:
        """Format an amount in the unit of the axis, so that all amounts of a figure can be compared."""
        if self.step == 1:
            return f"{amount:,} {self.unit}".rstrip()
        value = amount / self.step
        decimals = 2 if value >= 1 or not amount else 2 - math.floor(math.log10(value))
        return f"{value:,.{decimals}f} {self.unit}"


def clean(text: str) -> str:
    """Return `text` in one line, without characters that XML does not allow."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def row_name(graph: ComputationGraph, v: int, longest: int = LONGEST) -> str:
    """Return the id of a node with its label, in at most `longest` characters.

    Where they are longer, the path of a module comes first: "…layers.1.self_attn (mul_8)". Of paths, of modules or of
    operators, the end remains, and of ids their number. What follows the path of a module in a label is its operator,
    which the id names as well; it is left out first.
    """
    name = clean(node_text(graph, v))
    if len(name) <= longest or not graph.labels:
        return shortened(name, longest)
    node, label = clean(str(graph.nodes[v])), clean(graph.labels[v])
    path = label.partition(" ")[0]
    if _PATH.search(path):
        room = longest - min(len(node), longest * 3 // 8) - len(" ()")
        path = shortened(path, room)
        return f"{path} ({shortened(node, longest - len(path) - len(' ()'))})"
    room = longest - len(f" ({label})")
    if _PATH.search(node) and room >= longest // 2:
        return f"{shortened(node, room)} ({label})"
    node = shortened(node, longest * 5 // 8)
    room = longest - len(node) - len(" (…)")
    return f"{node} ({label[: room // 2]}…{label[len(label) - (room - room // 2) :]})"


def shortened(text: str, room: int) -> str:
    """Return `text` in at most `room` characters: the end of a path, else the beginning, with the number it ends in."""
    if len(text) <= room:
        return text
    ends = [text[separator.end() :] for separator in _PATH.finditer(text)]
    if ends:
        return f"…{next((end for end in ends if len(end) < room), text[len(text) - room + 1 :])}"
    number = _NUMBER.search(text)
    tail = number[0] if number else ""
    return f"{text[: max(0, room - 1 - len(tail))]}…{tail}"[-room:]


def spread(rows: Sequence[int], distance: float, last: int) -> dict[int, float]:
    """Choose places for the names of ascending `rows`: in 0..`last`, at least `distance` apart, close to their rows.

    Returns:
        The place of each row; where there is no room for all, of evenly chosen ones.
    """
    most = max(1, int(last / distance) + 1)
    if len(rows) > most:
        rows = [rows[k * len(rows) // most] for k in range(most)]
    places: list[float] = []
    for k, row in enumerate(rows):  # down, but leaving room for those below
        lowest = last - (len(rows) - 1 - k) * distance
        places.append(min(max(row, places[-1] + distance if places else 0.0), lowest))
    return dict(zip(rows, places, strict=True))


# --- The picture ----------------------------------------------------------------------------------------------


AXES = ("event", "stage")


@dataclass(frozen=True)
class Bar:
    """One copy of a node's output: a retention interval, closed, in positions of the plan from 1."""

    node: int
    """Position in `graph.nodes`."""
    memory: int
    """Position in `Platform.memories`, as is `source`."""
    copy: int
    """The number of the copy among all of the node's output, from 1."""
    copies: int
    """The number of copies of the node's output."""
    start: int
    end: int
    kind: str
    """The kind: "only": the node is computed once; "first" or "again": it is computed more often; "copied"."""
    source: int | None = None


@dataclass(frozen=True)
class Profile:
    """Memory as a step function: `memory[i]`, in the graph's size unit, from `edges[i]` to `edges[i + 1]`."""

    edges: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most memory in use."""
        return max(self.memory)

    @property
    def peak_at(self) -> float:
        """The middle of the first piece with the most memory."""
        i = self.memory.index(self.peak)
        return (self.edges[i] + self.edges[i + 1]) / 2


@dataclass(frozen=True)
class Gap:
    """A period in which a memory lacks an output that it has before and after."""

    row: int
    left: float
    right: float
    kind: str
    """The kind of the bar on the right: "again" or "copied"."""


@dataclass(frozen=True)
class LayerRows:
    """The rows of the parts of one layer, which are neighbours."""

    name: str
    first: int
    last: int

    @property
    def middle(self) -> int:
        """The row at which the layer is named."""
        return (self.first + self.last) // 2


@dataclass(frozen=True)
class Panel:
    """The part of a picture that shows one memory."""

    name: str
    """The name of the memory; empty if there is only one."""
    budget: int | None
    """The budget in the graph's size unit; None: no line is drawn."""
    order: tuple[int, ...]
    """The nodes that are ever in the memory, in the input order: the rows."""
    bars: tuple[Bar, ...]
    """The bars in the order of their start."""
    after: Profile
    """The memory of the plan."""
    before: Profile | None
    """The memory of the input order, stage by stage, in the first panel."""
    marks: dict[str, tuple[tuple[float, int], ...]]
    """Place and row of each mark: "again" for a recomputation, "in" for a copy to this memory, "out" for a copy from
    it."""
    gaps: tuple[Gap, ...]
    layers: tuple[LayerRows, ...] = ()
    """The layers of a tiled graph, from the top; empty for other graphs."""

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each node, from the top."""
        return {v: row for row, v in enumerate(self.order)}

    @cached_property
    def layer_of_row(self) -> tuple[int, ...]:
        """The number of the layer of each row, in a tiled graph."""
        return tuple(number for number, each in enumerate(self.layers) for _ in range(each.first, each.last + 1))

    @cached_property
    def marked(self) -> tuple[int, ...]:
        """The nodes computed more than once or copied to this memory, in the input order."""
        found = {bar.node for bar in self.bars if bar.kind != "only"}
        return tuple(v for v in self.order if v in found)

    @property
    def most(self) -> int:
        """The largest amount on the memory axis."""
        return max(self.after.peak, self.budget or 0, self.before.peak if self.before else 0)

    def title(self, text: str) -> str:
        """Return `text` with the name of the memory, where there are several."""
        return f"{self.name}: {text}" if self.name else text

    @property
    def nodes_title(self) -> str:
        """The title of the rows; short where a panel may be low."""
        what = "parts of layers" if self.layers else "nodes"
        return f"{self.name}: {what}" if self.name else f"{what} in input order"


@dataclass(frozen=True)
class Picture:
    """A plan to be drawn; it may exceed budgets, but must be a plan.

    Raises:
        InputError: an axis that is neither "event" nor "stage", an order that is not topological, or a plan that reads
            what is not there or leaves a node out.
    """

    platform: Platform
    plan: Plan
    order: tuple[int, ...]
    """The input order, positions in `graph.nodes`; the rows of the picture."""
    by: str = "event"

    @classmethod
    def of_schedule(
        cls, graph: ComputationGraph, sequence: Sequence[int], order: tuple[int, ...], budget: int | None = None,
        by: str = "event",
    ) -> Picture:  # fmt: skip
        """Make the picture of a schedule, positions in `graph.nodes` in the order of computing them.

        Args:
            budget: in the graph's size unit; None: no line is drawn.

        Raises:
            InputError: as above, or a negative budget.
        """
        if budget is not None and budget < 0:
            raise InputError(f"budget {budget} is negative")
        _check("schedule", simulate(graph, sequence).violations)
        platform = Platform(graph, (Memory("memory", budget, graph.durations),))
        return cls(platform, plan_of_sequence([int(v) for v in sequence]), order, by)

    def __post_init__(self) -> None:
        check_axis(self.by)
        self.graph.check_order(self.order)
        _check("plan", (found for found in self.after.violations if found.kind != "over-budget"))

    @property
    def graph(self) -> ComputationGraph:
        """The graph that is computed."""
        return self.platform.graph

    @cached_property
    def after(self) -> PlanSimulation:
        """The judge's simulation of the plan."""
        return judge_plan(self.platform, self.plan)

    @cached_property
    def before(self) -> Simulation:
        """The judge's simulation of the input order."""
        return simulate(self.graph, self.order)

    @cached_property
    def bars(self) -> tuple[Bar, ...]:
        """All retention intervals in order of their start."""
        copies = Counter(action.node for action in self.plan)
        computed = Counter(action.node for action in self.plan if action.source is None)
        seen: Counter[int] = Counter()
        done: set[int] = set()
        bars = []
        for interval in self.after.intervals:
            v = interval.node
            seen[v] += 1
            kind = "only" if computed[v] == 1 else "again" if v in done else "first"
            done.add(v)
            kind = kind if interval.source is None else "copied"
            place, start, end = interval.memory, interval.start, interval.end
            bars.append(Bar(v, place, seen[v], copies[v], start, end, kind, interval.source))
        return tuple(bars)

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The panels, one for each memory."""
        return tuple(self._panel(m) for m in range(len(self.platform.memories)))

    def _panel(self, m: int) -> Panel:
        place, edges = self.platform.memories[m], self.edges
        bars = tuple(bar for bar in self.bars if bar.memory == m)
        there = {bar.node for bar in bars}
        order = tuple(v for v in self.order if v in there)
        rows = {v: row for row, v in enumerate(order)}
        named = {"again": [b for b in bars if b.kind == "again"], "in": [b for b in bars if b.kind == "copied"],
                 "out": [b for b in self.bars if b.source == m]}  # fmt: skip
        last, gaps = dict[int, int](), []
        for bar in bars:
            if bar.node in last and bar.kind in ("again", "copied"):
                gaps.append(Gap(rows[bar.node], edges[last[bar.node]], edges[bar.start - 1], bar.kind))
            last[bar.node] = bar.end
        return Panel(
            name=place.name if len(self.platform.memories) > 1 else "",
            budget=place.budget,
            order=order,
            bars=bars,
            after=Profile(edges, self.after.memory[m]),
            before=None if m else self.profile_before,
            marks={what: tuple((edges[b.start - 1], rows[b.node]) for b in some) for what, some in named.items()},
            gaps=tuple(gaps),
            layers=self._layers(order),
        )

    def _layers(self, order: Sequence[int]) -> tuple[LayerRows, ...]:
        """The layers of a tiled graph as rows; none where the parts of one are no neighbours."""
        parts = self.graph.parts
        if parts is None:
            return ()
        found: dict[str, LayerRows] = {}
        for row, v in enumerate(order):
            part = parts[v]
            layer = part.layer if part is not None else str(self.graph.nodes[v])
            first = found[layer].first if layer in found else row
            found[layer] = LayerRows(self._layer_name(v, part), first, row)
        rows = list(found.values())
        apart = any(one.last + 1 != other.first for one, other in pairwise(rows))
        return () if apart else tuple(rows)

    def _layer_name(self, v: int, part: Part | None) -> str:
        """The label of the layer that a node is a part of, or its id; of what is whole, its own."""
        node, label = str(self.graph.nodes[v]), self.graph.labels[v] if self.graph.labels else ""
        layer = node if part is None else part.layer
        place = node[len(layer) :] if node.startswith(layer) else ""
        return label.removesuffix(place) if label else layer

    def colour(self, panel: Panel, bar: Bar) -> str:
        """The colour of a bar: that of its kind, or of its layer."""
        if not panel.layers or bar.kind not in ("only", "first"):
            return COLOURS[bar.kind]
        return LAYER_COLOURS[panel.layer_of_row[panel.rows[bar.node]] % len(LAYER_COLOURS)]

    def meaning(self, panel: Panel, kind: str) -> str:
        """The meaning of the colours of a kind of bars."""
        return PART if panel.layers and kind in ("only", "first") else KINDS[kind]

    @property
    def copies(self) -> int:
        """The number of copies from one memory to another."""
        return sum(action.source is not None for action in self.plan)

    @cached_property
    def recomputed(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The nodes that are computed more than once or copied, in the input order, and the positions where."""
        places: dict[int, list[int]] = {}
        for position, action in enumerate(self.plan, 1):
            places.setdefault(action.node, []).append(position)
        return tuple((v, tuple(places[v])) for v in self.order if len(places[v]) > 1)

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The stage of each position of the plan."""
        return stages([action.node for action in self.plan])

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The ends of the pieces of the horizontal axis, 1 more than there are positions, from 0.5 on."""
        if self.by == "event":
            return tuple(p + 0.5 for p in range(len(self.plan) + 1))
        width, edges, inside = Counter(self.stages), [0.5], Counter[int]()
        for k in self.stages:
            inside[k] += 1
            edges.append(k - 0.5 + inside[k] / width[k])
        return tuple(edges)

    @property
    def what(self) -> str:
        """The kind of what is drawn: "schedule", or "plan" with several memories."""
        return "plan" if len(self.platform.memories) > 1 else "schedule"

    @property
    def axis_title(self) -> str:
        """The title of the horizontal axis."""
        several = self.what == "plan"
        if self.by == "event":
            return f"event: position in the {'plan' if several else 'sequence of computations'}"
        return f"stage: recomputations{' and copies' if several else ''}, then the next first computation"

    @cached_property
    def profile_before(self) -> Profile:
        """The memory of the input order, stage by stage on the plan's axis."""
        last = [p for p, k in enumerate(self.stages, 1) if p == len(self.stages) or self.stages[p] > k]
        return Profile((self.edges[0], *(self.edges[p] for p in last)), self.before.memory)

    @property
    def title(self) -> str:
        """The graph and the size of the plan, in one line."""
        again = len(self.plan) - self.copies - len(self.order)
        layers = self.panels[0].layers
        what = f" of {count_text(len(layers), 'layer')}" if layers else ""
        counts = [f"{count_text(len(self.order), 'part' if layers else 'node')}{what}"]
        counts.append(count_text(again, "recomputation"))
        if self.what == "plan":
            counts.append(count_text(self.copies, "copy", "copies"))
        return f"{self.graph.name or 'graph'}: {', '.join(counts)}"

    @property
    def subtitle(self) -> str:
        """The plan's duration increase and its peaks, in one line."""
        tdi = percent_over(self.after.duration, self.before.duration)
        return ", ".join([f"duration increase (TDI) {tdi:.3f} %", *map(self._need, self.panels)])

    def _need(self, panel: Panel) -> str:
        text = panel.title(f"peak {self.amount(panel.after.peak)}")
        if panel.budget is not None:
            text += f" / budget {self.amount(panel.budget)}"
            text += " - OVER THE BUDGET" if panel.after.peak > panel.budget else ""
        return text

    @cached_property
    def scale(self) -> MemoryScale:
        """The scale of all memory axes and amounts."""
        return MemoryScale.of(max(panel.most for panel in self.panels), self.graph.size_unit)

    def amount(self, memory: int) -> str:
        """Format an amount of memory in the unit of the axes."""
        return self.scale.text(memory)


def check_axis(by: str) -> None:
    """Refuse an axis that is neither "event" nor "stage"."""
    if by not in AXES:
        raise InputError(f"axis {shown(by)}: expected {' or '.join(AXES)}")


def stages(sequence: Sequence[int]) -> tuple[int, ...]:
    """Return the stage of each position, from 1: stage k ends with the k-th first computation, the last at the end."""
    most, done, found = len(set(sequence)), set[int](), []
    for v in sequence:
        found.append(min(len(done) + 1, most))
        done.add(v)
    return tuple(found)


def _check(what: str, violations: Iterable[Violation]) -> None:
    for violation in violations:
        raise InputError(f"not a {what}: {violation.message}")
