"""What a training step takes when it is run, with a plan or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.measuring import allocator_peak, lacks_memory, nanoseconds_of
from moccasin_mzn.pytorch.tracing import Traced, without_memory
from moccasin_mzn.pytorch.twins import twin_of

_STEPS, _ENOUGH = 5, 500_000_000
"""A step is timed so often, or until that has taken so many nanoseconds."""


@dataclass(frozen=True)
class EagerStep:
    """What a training step takes without a plan."""

    peak: int
    """Bytes at the allocator."""
    nanoseconds: int
    """As `step_nanoseconds` tells."""


def eager_step_or_none(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> EagerStep | None:
    """What the step as it is takes; None: there are no numbers to run it on, or not the memory.

    Raises:
        Exception: whatever the step raises.
    """
    if without_memory(traced.step.model, traced.forms):
        return None
    try:
        nanoseconds = step_nanoseconds(traced, traced.step, inputs, kwargs)
        with twin_of(traced, inputs, kwargs) as twin:
            peak = allocator_peak(partial(twin.step, traced.step), traced.device)
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        return None
    return EagerStep(peak, nanoseconds)


def step_nanoseconds_or_none(
    traced: Traced, call: Runtime, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | None:
    """What a planned step takes; None: there are no numbers to run it on, or they are no examples."""
    if without_memory(traced.step.model, traced.forms):
        return None
    try:
        return step_nanoseconds(traced, call, inputs, kwargs)
    except Exception:  # such as indices out of range, where it is enough to know how many there are
        return None


def step_nanoseconds(traced: Traced, call: Callable[..., Any], inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """CPU time of the calling thread, or of another device, for a step that calls this: the median of some steps.

    Each begins from the same state, which is left as it was.
    """

    def timed() -> int:
        with twin_of(traced, inputs, kwargs) as twin:
            began = nanoseconds_of(traced.device)
            twin.step(call)
            return nanoseconds_of(traced.device) - began

    timed()  # libraries prepare something that they keep
    times = [timed()]
    while len(times) < _STEPS and sum(times) < _ENOUGH:
        times.append(timed())
    return round(median(times))
