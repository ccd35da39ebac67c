"""What is known of a budget beyond the plan that was found, or was not."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.clock import Deadline
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.pytorch.blame import infeasible
from moccasin_mzn.pytorch.least import Least, least_schedules, prepare
from moccasin_mzn.pytorch.liveness import Peaks, peaks
from moccasin_mzn.pytorch.memories import Memories, OneMemory
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.search.options import STOP
from moccasin_mzn.search.result import Result

SEEK_SHARE, SEEK_LONGEST = 0.1, 10.0
"""Of the time limit, and seconds at most, to seek the least peak where no plan is within a budget."""


def unlimited(traced: Traced, most: int) -> Instance:
    """The question without a budget."""
    return Instance.build(traced.problem.graph, "100%", max_computations=traced.problem.counts(most))


@dataclass(frozen=True, eq=False)
class LeastFound:
    """Of the schedules of least peak the one that takes least, constants and copies included."""

    least: Least
    sequence: tuple[int, ...]
    peaks: Peaks

    @classmethod
    def of(cls, traced: Traced, least: Least) -> LeastFound:
        """The schedules are told from least peak on."""
        taken = {sequence: peaks(traced.linear(sequence)) for sequence in least.sequences}
        best = min(taken, key=lambda sequence: taken[sequence].whole)
        return cls(least, best, taken[best])


def least_in_seconds(traced: Traced, most: int, memory: OneMemory, interrupted: bool) -> LeastFound:
    """What is found in a part of the time, where no plan is found within a budget.

    Args:
        most: computations of anything.
        interrupted: there is no more time.
    """
    instance = unlimited(traced, most)
    prepare(instance)
    seconds = 0.0 if interrupted else Deadline(memory.options.time_limit).share(SEEK_SHARE, SEEK_LONGEST)
    return LeastFound.of(traced, least_schedules(instance, memory.options, Deadline(seconds)))


def why_none(traced: Traced, found: LeastFound, amount: int, result: Result | None) -> str:
    """That there is no plan, what is proven, the least that was found, and what is to blame.

    Args:
        amount: the budget, in bytes.
        result: of the latest search; None: none was begun.
    """
    lacking, seen = result.shortfall if result is not None else None, found.peaks.whole
    proven = max(found.least.proven, lacking.floor if lacking else 0)
    return infeasible(traced.problem, found.least.instance, amount, min(proven, seen), seen)


def bound_within(result: Result, amount: int, memory: Memories, begin: float) -> int:
    """What is proven of durations within all of a budget, where constants and copies have left less to the search.

    Args:
        begin: of the search, by `time.monotonic()`; it takes as long again, and a second.
    """
    if result.instance.budget >= amount:
        return result.bound
    if result.interrupted or not isinstance(memory, OneMemory):
        return result.instance.baseline.duration
    spent = time.monotonic() - begin
    seconds = min(2 * spent + 1, memory.options.time_limit or math.inf)
    instance = replace(result.instance, budget=amount)
    options = replace(memory.options, time_limit=seconds, if_none=STOP)
    return solve_instance(instance, options, None, begin, warm_start=result.sequence).bound
