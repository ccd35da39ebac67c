"""What is known of a budget beyond the plan that was found, or was not."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from moccasin_mzn.clock import Deadline
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.pytorch.blame import infeasible, infeasible_with_copies
from moccasin_mzn.pytorch.least import least_schedules, prepare
from moccasin_mzn.pytorch.liveness import peaks
from moccasin_mzn.pytorch.memories import Memories, OneMemory
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.search.options import STOP
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.solve import solve_instance

SEEK_SHARE, SEEK_LONGEST = 0.1, 10.0
"""Of the time limit, and seconds at most, to seek the least peak where no plan is within a budget."""


def unlimited(traced: Traced, most: int) -> Instance:
    """The question without a budget."""
    return Instance.build(traced.problem.graph, "100%", max_computations=traced.problem.counts(most))


def why_none(traced: Traced, most: int, amount: int, memory: Memories, result: Result | None = None) -> str:
    """That there is no plan, what is proven, the least that can be found in a few seconds, and what is to blame.

    Args:
        most: computations of anything.
        amount: the budget, in bytes.
        result: of the latest search; None: none was begun.
    """
    instance = unlimited(traced, most)
    if not isinstance(memory, OneMemory):
        return infeasible_with_copies(traced.problem, instance, amount)
    prepare(instance)
    interrupted = result is not None and result.interrupted
    seconds = 0.0 if interrupted else Deadline(memory.options.time_limit).share(SEEK_SHARE, SEEK_LONGEST)
    least = least_schedules(instance, memory.options, Deadline(seconds))
    seen = min(peaks(traced.linear(sequence)).whole for sequence in least.sequences)
    lacking = result.shortfall if result is not None else None
    proven = max(least.proven, lacking.floor if lacking else 0)
    return infeasible(traced.problem, least.instance, amount, min(proven, seen), seen)


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
