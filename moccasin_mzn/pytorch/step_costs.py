"""What a training step takes when it is run, with a plan or without."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from moccasin_mzn.pytorch.emission import emitted
from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.instructions import Linear
from moccasin_mzn.pytorch.measuring import allocator_peak, free_memory, lacks_memory, nanoseconds_of
from moccasin_mzn.pytorch.reach import reached
from moccasin_mzn.pytorch.tracing import Traced, without_memory
from moccasin_mzn.pytorch.twins import twin_of

_STEPS, _ENOUGH = 5, 500_000_000
"""A step is timed so often, or until that has taken so many nanoseconds."""
_TURNS, _ENOUGH_TURNS = 25, 4_000_000_000
"""The same for two steps beside each other."""
_SAFELY = 4
"""A step that was not asked for is run if so many times its memory is free."""
_UNTIMED = 3
"""Turns in which libraries prepare something that they keep, and memory is got that is kept."""


@dataclass(frozen=True)
class EagerStep:
    """What a training step takes without a plan."""

    peak: int
    """Bytes at the allocator."""
    nanoseconds: int
    """CPU time of the calling thread, or time of another device."""
    overhead: float
    """What the same operators take in the same order as a plan's code, as a fraction of that: below 0 if that
    is less, as nothing is recorded then."""


def runtime_of(traced: Traced, linear: Linear, original: Callable[..., Any] | None = None) -> Runtime:
    """What runs a plan; `original` is called instead where no gradient is asked for."""
    code = emitted(traced.joint, linear)
    return Runtime(traced.joint, traced.guards, code, reached(traced.program), original or traced.step)


def eager_step_or_none(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> EagerStep | None:
    """What the step as it is takes; None: there are no numbers to run it on, or not the memory.

    Raises:
        Exception: whatever the step raises.
    """
    if without_memory(traced.step.model, traced.forms):
        return None
    try:
        nanoseconds, overhead = _beside(traced, inputs, kwargs)
        with twin_of(traced, inputs, kwargs) as twin:
            peak = allocator_peak(partial(twin.step, traced.step), traced.device)
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        return None
    return EagerStep(peak, nanoseconds, overhead)


def _beside(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, float]:
    """Nanoseconds of the step as it is, and the overhead of a plan's code."""
    order = traced.problem.graph.input_order()
    calls: dict[str, Callable[..., Any]] = {"eager": traced.step, "code": runtime_of(traced, traced.linear(order))}
    times: dict[str, list[int]] = {name: [] for name in calls}
    chance = random.Random(0)
    while len(times["eager"]) < _UNTIMED + _TURNS and sum(map(sum, times.values())) < _ENOUGH_TURNS:
        for name in chance.sample([*calls], len(calls)):
            times[name].append(_timed(traced, inputs, kwargs, calls[name]))
    eager, code = (each[min(_UNTIMED, len(each) - 1) :] for each in times.values())
    ratio = median(own / other for own, other in zip(code, eager, strict=True))
    return round(median(eager)), ratio - 1


def share_and_overhead(
    traced: Traced, peak: int, again: float, runtime: Callable[[], Runtime], inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[float, float]:  # fmt: skip
    """What the operators take of the eager step's time, as a fraction, and the overhead of a plan's code, see
    `EagerStep`.

    The step is run if several times the memory is free that it takes. Otherwise its time is the planned step's less
    what is computed again, and no overhead is known; without numbers to run it on, or examples, it is the operators'.

    Args:
        peak: bytes, predicted of the step as it is.
        again: what the plan computes again, as a fraction of the operators' time.
        runtime: of the plan.
    """
    operators, free = traced.problem.graph.total_duration, free_memory(traced.device)
    if without_memory(traced.step.model, traced.forms):
        return 1.0, 0.0
    try:
        if free is not None and _SAFELY * peak <= free:
            whole, overhead = _beside(traced, inputs, kwargs)
        else:
            whole, overhead = _alone(traced, runtime(), inputs, kwargs) - round(again * operators), 0.0
    except Exception:  # such as indices out of range, where it is enough to know how many there are
        return 1.0, 0.0
    return operators / max(operators, whole), overhead


def _alone(traced: Traced, call: Runtime, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Nanoseconds of a planned step: the median of some."""
    timed = partial(_timed, traced, inputs, kwargs, call)
    timed()  # libraries prepare something that they keep
    times = [timed()]
    while len(times) < _STEPS and sum(times) < _ENOUGH:
        times.append(timed())
    return round(median(times))


def _timed(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any], call: Callable[..., Any]) -> int:
    """Nanoseconds of a step from the network's own state, which is left as it was."""
    with twin_of(traced, inputs, kwargs) as twin, _no_garbage_collected():
        began = nanoseconds_of(traced.device)
        twin.step(call)
        return nanoseconds_of(traced.device) - began


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """What planning has made would be looked through then; as `timeit` does."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
