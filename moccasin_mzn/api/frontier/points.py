"""The frontier as found: points with their schedules and bounds, and the least budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.search.result import percent_over

PointStatus: TypeAlias = Literal["optimal", "feasible", "infeasible", "unknown"]
"""The status of a point; see `FrontierPoint.status`."""

Schedule: TypeAlias = tuple[Any, ...]
"""A schedule of a variant of the problem: positions in `graph.nodes`, or the actions of a plan."""


@dataclass(frozen=True)
class FrontierPoint:
    """A point of the frontier: what is known at one budget.

    Raises:
        InputError: a peak over the budget, a duration below the bound, or a status that contradicts them.
    """

    budget: int
    """M, in the graph's size unit."""
    duration: int | None
    """Duration of the shortest schedule known within the budget, in the graph's duration unit, or with another goal the
    least total of that; None without one."""
    bound: int
    """No schedule within the budget has less. Of no meaning if the point is infeasible."""
    peak: int | None
    """Peak memory of the schedule, in the graph's size unit."""
    sequence: Schedule | None = field(repr=False)
    """The schedule: positions in `graph.nodes` in the order of computing them; another variant's own kind of plan."""
    status: PointStatus
    """"optimal": the duration is the bound; "feasible": it is not; "infeasible": proven to be; "unknown"."""
    source: str = ""
    """Name of who found the schedule, with the budget at which that was if it was another one."""
    bound_source: str = ""
    """Name of who proved the bound, likewise."""
    seconds: float = 0.0
    """Time spent on this budget."""

    def __post_init__(self) -> None:
        if self.status not in get_args(PointStatus):
            raise InputError(f"point at budget {self.budget}: unknown status {self.status!r}")
        known = [value is not None for value in (self.duration, self.peak, self.sequence)]
        if any(known) != all(known) or self.found != (self.status in ("optimal", "feasible")):
            raise InputError(f"point at budget {self.budget}: {self.status}, but the schedule does not go with that")
        if self.peak is not None and self.peak > self.budget:
            raise InputError(f"point at budget {self.budget}: the schedule has a peak of {self.peak}")
        if self.duration is not None and self.duration < self.bound:
            raise InputError(f"point at budget {self.budget}: duration {self.duration} is below the bound {self.bound}")
        if self.found and self.proven != (self.duration == self.bound):
            raise InputError(f"point at budget {self.budget}: {self.status} with {self.duration}, bound {self.bound}")

    @property
    def found(self) -> bool:
        return self.duration is not None

    @property
    def proven(self) -> bool:
        """True if nothing is left to find out."""
        return self.status in ("optimal", "infeasible")

    @property
    def gap_percent(self) -> float | None:
        """100 * (duration - bound) / duration; None without a schedule."""
        if self.duration is None:
            return None
        return 100 * (self.duration - self.bound) / self.duration if self.duration else 0.0


@dataclass(frozen=True)
class Frontier:
    """Points by ascending budget, and what is known of the least one. ::

        duration
            |//////   o--+                 o  found, not proven: the bounds are below
            |//////   :  |                 *  proven
            |//////   :  *------+
            |//////      :      *---------*   every node once: the input order
            +------+---+-------------------+--> budget
             least bound  least found      peak of the input order

    Raises:
        InputError: budgets that do not ascend; with more budget, a longer schedule or a higher bound; a schedule below
            the least bound.
    """

    graph: ComputationGraph
    points: tuple[FrontierPoint, ...]
    peak: int
    """Peak of the input order with every node computed once, in the graph's size unit: 100 % of a budget."""
    baseline: int
    """Duration of every node once, in the graph's duration unit: percentages of durations refer to it. With another
    goal the total of that."""
    least_bound: int
    """Proven: no schedule fits less, in the graph's size unit."""
    least_found: int | None
    """The least peak of all schedules found; None without any."""
    scope: str = ""
    """Scope of the proofs, to be read after "no schedule"."""
    fixed: int = 0
    """Fixed memory that the budgets as given had to contain as well; budgets here are what it leaves."""
    seconds: float = 0.0
    interrupted: bool = False
    """True if the user stopped the sweep."""
    swept: str = ""
    """Text on several memories: whose budget was varied, and what the others have; empty with one memory."""
    input_increase: int | None = 0
    """Duration of the input order, every node computed once in the memory that is swept, beyond `baseline`; None: it
    cannot be computed there."""
    more_may_fit: bool = False
    """True if schedules with more computations per node than were allowed may need less than `least_found`."""
    objective: str = "duration"
    """What is least at each point: duration, energy or traffic."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(self.points))
        for left, right in zip(self.points, self.points[1:], strict=False):
            where = f"budgets {left.budget} and {right.budget}"
            if left.budget >= right.budget:
                raise InputError(f"{where}: not in ascending order")
            if left.duration is not None and (right.duration is None or left.duration < right.duration):
                raise InputError(f"{where}: with more memory the schedule is longer")
            if right.status == "infeasible" and left.status != "infeasible":
                raise InputError(f"{where}: with more memory nothing fits")
            if left.status != "infeasible" and left.bound < right.bound:
                raise InputError(f"{where}: with more memory the bound is higher")
        if self.least_found is not None and self.least_found < self.least_bound:
            raise InputError(f"a peak of {self.least_found} is below the least budget {self.least_bound}")

    @property
    def found(self) -> tuple[FrontierPoint, ...]:
        """The points with a schedule."""
        return tuple(point for point in self.points if point.found)

    @property
    def proven(self) -> int:
        """Number of proven points."""
        return sum(point.proven for point in self.points)

    def pareto(self) -> tuple[FrontierPoint, ...]:
        """The points with a schedule that none of less peak is as short as, and none as low is shorter; by peak."""
        chosen, shortest = list[FrontierPoint](), math.inf
        for point in sorted(self.found, key=attrgetter("peak", "duration")):
            if point.duration is not None and point.duration < shortest:
                chosen.append(point)
                shortest = point.duration
        return tuple(chosen)

    def budget_percent(self, budget: float) -> float:
        """A budget as a percentage of the input order's peak; 100 if that is 0."""
        return 100 * budget / self.peak if self.peak else 100.0

    def increase_percent(self, duration: float) -> float:
        """The duration increase (TDI): by how many percent a duration exceeds that of every node once."""
        return percent_over(duration, self.baseline)

    @property
    def in_percent(self) -> bool:
        """True if totals are shown as increases; traffic, which may be 0, as it is."""
        return self.objective == "duration" or self.baseline > 0

    def increase(self, total: float) -> float:
        """What is shown of a total: by how many percent it exceeds the baseline, or itself."""
        return self.increase_percent(total) if self.in_percent else float(total)

    @property
    def increase_title(self) -> str:
        """What `increase` is, for axes."""
        if self.objective == "duration":
            return "duration increase (TDI), %"
        return f"{self.objective} increase, %" if self.in_percent else self.objective
