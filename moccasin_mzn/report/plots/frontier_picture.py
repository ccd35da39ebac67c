"""The contents of a picture of a frontier, as plain numbers: nothing here draws.

Both axes are in percent of the input order, in which every node is computed once: budgets of its peak, durations as the
increase over its own. Known durations and bounds are steps, each of which begins at a budget::

    increase |////|  o-----+               durations: from the peak of each schedule on
             |////|  :.....|...*-----+     bounds: up to the budget of each proof
             |////|            :     *---- the input order
             +----+-------------------+--> budget
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.report.plots.picture import MemoryScale

_MARGIN = 0.03
"""The margin around what is drawn, as a share of the width and of the height."""


@dataclass(frozen=True)
class Steps:
    """A step function: `values[i]` from `edges[i]` to `edges[i + 1]`."""

    edges: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, x: float) -> float | None:
        """Return the value just right of `x`; None outside."""
        inside = self.edges[0] <= x < self.edges[-1]
        return self.values[bisect_right(self.edges, x) - 1] if inside else None


@dataclass(frozen=True)
class Mark:
    """A point of the frontier with its place in the picture."""

    x: float
    """The budget, in percent of the peak."""
    y: float
    """The duration increase, in percent."""
    point: FrontierPoint


@dataclass(frozen=True)
class FrontierPicture:
    """A frontier to be drawn."""

    frontier: Frontier

    @cached_property
    def right(self) -> float:
        """The right end of the horizontal axis, in percent of the peak."""
        largest = max((point.budget for point in self.frontier.points), default=self.frontier.peak)
        most = max(100.0, self.frontier.budget_percent(largest))
        return most + _MARGIN * (most - min(self.leftmost, most - 1))

    @cached_property
    def leftmost(self) -> float:
        """The least budget that has anything to show, in percent of the peak."""
        amounts = [self.frontier.least_bound, *(point.budget for point in self.frontier.points)]
        amounts += [point.peak for point in self.frontier.found if point.peak is not None]
        return self.frontier.budget_percent(min(amounts))

    @cached_property
    def left(self) -> float:
        """The left end of the horizontal axis: some of the region without schedules is shown."""
        return max(0.0, self.leftmost - 2 * _MARGIN * max(self.right - self.leftmost, 1.0))

    @cached_property
    def top(self) -> float:
        """The upper end of the vertical axis, in percent; the lower one is 0 less a little."""
        increases = [mark.y for mark in self.marks]
        increases += [self.frontier.increase(point.bound) for point in self.bounded]
        increases += [self.input_order[1]] if self.input_order else []
        return 1.08 * max(increases, default=0.0) or 1.0

    @property
    def bottom(self) -> float:
        """The lower end of the vertical axis, so that points at 0 are whole."""
        return -_MARGIN * self.top

    @cached_property
    def bounded(self) -> tuple[FrontierPoint, ...]:
        """The points with a bound."""
        return tuple(point for point in self.frontier.points if point.status != "infeasible")

    @property
    def infeasible(self) -> float:
        """Budgets below this one, in percent of the peak, are proven to be too small."""
        return self.frontier.budget_percent(self.frontier.least_bound)

    @cached_property
    def durations(self) -> Steps | None:
        """The shortest schedules known, from the least peak on; None without any."""
        chosen = self.frontier.pareto()
        if not chosen:
            return None
        edges = [self.frontier.budget_percent(point.peak) for point in chosen if point.peak is not None]
        values = [self.frontier.increase(point.duration) for point in chosen if point.duration is not None]
        return Steps((*edges, max(self.right, edges[-1])), tuple(values))

    @cached_property
    def bounds(self) -> Steps | None:
        """The best bounds, from the least budget that may be feasible on: each is valid up to its point's budget."""
        edges, values = [self.infeasible], []
        for point in self.bounded:
            budget = self.frontier.budget_percent(point.budget)
            if budget > edges[-1]:
                edges.append(budget)
                values.append(self.frontier.increase(point.bound))
        if edges[-1] < self.right:
            edges.append(self.right)
            values.append(0.0)
        return Steps(tuple(edges), tuple(values)) if values else None

    @cached_property
    def gap(self) -> tuple[tuple[float, float, float, float], ...]:
        """The region where the frontier may be: boxes (left, right, low, high) between bounds and durations, without
        those of no height. Where no schedule is known they extend to the top."""
        if self.bounds is None:
            return ()
        edges = {*self.bounds.edges, *(self.durations.edges if self.durations else ())}
        cuts = sorted(max(self.infeasible, edge) for edge in edges)
        boxes = []
        for left, right in zip(cuts, cuts[1:], strict=False):
            low, high = self.bounds.at(left), self.durations.at(left) if self.durations else None
            high = self.top if high is None else high
            if right > left and low is not None and high > low:
                boxes.append((left, right, low, high))
        return tuple(boxes)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """All points with a schedule."""
        f = self.frontier
        return tuple(
            Mark(f.budget_percent(point.budget), f.increase(point.duration), point)
            for point in f.points
            if point.duration is not None
        )

    @property
    def input_order(self) -> tuple[float, float] | None:
        """The place of the input order with every node computed once; None if one memory cannot compute it."""
        f = self.frontier
        if f.input_increase is None:
            return None
        return f.budget_percent(f.peak), f.increase(f.baseline + f.input_increase)

    @property
    def title(self) -> str:
        """The graph, in one line."""
        f, nodes = self.frontier, count_text(len(self.frontier.graph.nodes), "node")
        return f"{f.graph.name or 'graph'}: {f.objective} against {f.swept or 'memory'}, {nodes}"

    @property
    def subtitle(self) -> str:
        """The proofs in one line, and in another one what they are about."""
        f = self.frontier
        text = (
            f"{f.proven} of {count_text(len(f.points), 'point')} proven; no schedule below {self.amount(f.least_bound)}"
        )
        found = "" if f.least_found is None else f", least found {self.amount(f.least_found)}"
        about = f"\nproofs are about schedules {f.scope.rstrip(',')}" if f.scope else ""
        return f"{text}{found}{about}"

    @property
    def peak_text(self) -> str:
        """The peak of the input order, as text."""
        return self.scale.text(self.frontier.peak)

    @cached_property
    def scale(self) -> MemoryScale:
        """The scale of all amounts of memory."""
        return MemoryScale.of(self.frontier.peak, self.frontier.graph.size_unit)

    def amount(self, budget: int) -> str:
        """Format an amount of memory with its share of the peak."""
        return f"{self.scale.text(budget)} ({self.frontier.budget_percent(budget):.1f} %)"

    def describe(self, point: FrontierPoint) -> list[str]:
        """Return lines of text about a point."""
        f, graph = self.frontier, self.frontier.graph
        lines = [f"budget {self.amount(point.budget)}, {point.status}"]
        if point.duration is not None and point.peak is not None:
            total = total_text(graph, f.objective, point.duration)
            more = f", +{f.increase(point.duration):.3f} %" if f.in_percent else ""
            lines.append(f"{f.objective} {total}{more}, by {point.source}")
            lines.append(f"peak {self.amount(point.peak)}")
        by = f", by {point.bound_source}" if point.bound_source else ""
        more = f"+{f.increase(point.bound):.3f} %" if f.in_percent else total_text(graph, f.objective, point.bound)
        lines.append(f"bound {more}{by}")
        return lines
