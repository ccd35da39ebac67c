"""A strategy applied to an instance: all its candidates judged, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.base.formatting import count_text, memory_text, over_text
from moccasin_mzn.heuristics.compiled_searches import ORDERS, ready
from moccasin_mzn.heuristics.orders.least_peak import good_orders
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, judge
from moccasin_mzn.search.board import INSTANT
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.counted import DRAFTS, MOST_ORDERED, WINDOWS
from moccasin_mzn.search.result import (
    NOT_TRIED,
    Help,
    Progress,
    Result,
    Seconds,
    Status,
    TracePoint,
    shortfall,
)
from moccasin_mzn.strategies.strategy import Strategy


def apply(
    instance: Instance,
    strategy: Strategy,
    time_limit: float | None = None,
    call: Call | None = None,
    most: int | None = None,
) -> Result:
    """Find the best schedule that a strategy makes, as judged by the simulator.

    In any order the strategy is applied along the input order first, and then along a few orders of low peak.

    Args:
        time_limit: seconds; None: all candidates.
        call: its listener is called with every better candidate, its `stop` asked after each one, and within some
            strategies. None: one that begins now.
        most: candidates, at most; None: all there are.

    Returns:
        The shortest candidate within the budget: "feasible", or "optimal" if nothing is computed twice. If none fits,
        the one with the least peak, "over-budget", not valid. Without candidates "unknown". An interrupt from the
        keyboard ends the strategy, not this function.

    Raises:
        NotApplicableError: the strategy is for other graphs.
        InputError: a candidate is no schedule of the graph at all, or what the strategy needs is missing or failed.
    """
    call = (call or Call()).after(ready(*strategy.compiled))
    deadline, best = call.deadline(time_limit), _Best(instance, strategy, call.begin)
    limited = replace(call, stop=lambda: deadline.over() or call.stop())
    interrupted = False
    try:
        best.take_all(limited, most)
    except KeyboardInterrupt:
        interrupted = True
    return best.result(interrupted, deadline.over(), call.stop())


@dataclass
class _Best:
    instance: Instance
    strategy: Strategy
    begin: float
    sequence: tuple[int, ...] | None = None
    simulation: Simulation | None = None
    trace: tuple[TracePoint, ...] = ()
    count: int = 0

    def take_all(self, call: Call, most: int | None) -> None:
        """Judge all candidates along all orders until the call ends, or this many."""
        for along in self._orders(call.stop):
            for sequence in self.strategy.schedules(along, call.stop):
                if self.takes(sequence):
                    call.listener(self.progress())
                if call.stop() or self.count == most:
                    return

    def _orders(self, stop: Callable[[], bool]) -> Iterator[Instance]:
        """The instance along each order that is tried: its own, and if that may be chosen a few of low peak."""
        instance = self.instance
        yield instance.along(instance.order) if instance.free_order else instance
        if instance.free_order and len(instance.order) <= MOST_ORDERED and not stop():
            ready(ORDERS)
            for order in good_orders(
                instance.graph, seed=0, stop=stop, start=instance.order, windows=WINDOWS, tries=DRAFTS
            ):
                yield instance.along(instance.together(order))

    def takes(self, sequence: Sequence[int]) -> bool:
        """Judge a candidate; True if it is the best so far."""
        sequence = self.instance.together(sequence)
        simulation = judge(self.instance.graph, sequence, self.instance.budget)
        flaw = next((v for v in simulation.violations if v.kind != "over-budget"), None)
        if flaw is not None:
            raise JudgeError(f"{self.strategy.name} made no schedule: {flaw.message}")
        self.count += 1
        if self.simulation is not None and _rank(simulation) >= _rank(self.simulation):
            return False
        self.sequence, self.simulation = tuple(int(v) for v in sequence), simulation
        if simulation.feasible:
            seconds, least = time.monotonic() - self.begin, self.instance.baseline.duration
            point = TracePoint(seconds, simulation.duration, least, self.strategy.name, self.sequence)
            self.trace = (*self.trace, point)
        return True

    def progress(self) -> Progress:
        assert self.simulation is not None
        simulation, fits = self.simulation, self.simulation.feasible
        return Progress(
            seconds=time.monotonic() - self.begin,
            phase="duration" if fits else "peak",
            value=simulation.duration if fits else None,
            bound=self.instance.baseline.duration,
            figures=self.instance.summary(simulation) | ({} if fits else {"duration": None}),
            answer=self.sequence if fits else None,
            source=self.strategy.name,
        )

    def result(self, interrupted: bool, late: bool, stopped: bool = False) -> Result:
        when = ", stopped by the user" if interrupted else ", stopped at the time limit" if late else ""
        status, reason = self._conclusion(when or (", stopped before its end" if stopped else ""))
        lacking = None
        if self.simulation is None or not self.simulation.feasible:
            peak = self.simulation.peak if self.simulation else None
            helps = [Help("--formulation staged", NOT_TRIED, "a search instead of a strategy")]
            lacking = shortfall(self.instance, status, staged=False, least_peak=peak, helps=helps)
        return Result(
            self.instance, None, "", status, reason, self.sequence, self.simulation, self.instance.baseline.duration,
            Seconds(total=time.monotonic() - self.begin), interrupted, self.trace, strategy=self.strategy.name,
            found_by=self.strategy.name if self.sequence else "", proved_by=INSTANT if status == "optimal" else "",
            shortfall=lacking,
        )  # fmt: skip

    def _conclusion(self, when: str) -> tuple[Status, str]:
        name, budget, unit = self.strategy.name, self.instance.budget, self.instance.graph.size_unit
        if self.simulation is None:
            return "unknown", f"{name} makes no schedule within the budget {memory_text(budget, unit)}{when}"
        candidates = count_text(self.count, "schedule")
        if not self.simulation.feasible:
            over = over_text(self.simulation.peak, budget, unit)
            return "over-budget", f"the peak of {name}, least of {candidates}, is {over}{when}"
        if self.simulation.duration == self.instance.baseline.duration:
            return "optimal", "nothing is computed twice that takes time"
        return "feasible", f"the shortest of {candidates} by {name}; a strategy proves nothing{when}"


def _rank(simulation: Simulation) -> tuple[bool, int, int]:
    """Rank for comparison: within the budget the shorter schedule is better, over it the one with the lower peak."""
    if simulation.feasible:
        return False, simulation.duration, simulation.peak
    return True, simulation.peak, simulation.duration
