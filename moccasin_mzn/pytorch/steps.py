"""Runs of a training step on a scratch copy of its state: what it takes, and whether a plan changes anything."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.formatting import bytes_text
from moccasin_mzn.base.log import underway
from moccasin_mzn.graphs.importers.torch.trace import other_state, scratch
from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.checkpoints import plain_checkpoints
from moccasin_mzn.pytorch.devices import CPU, forked_random_state, generator_of, likewise_kept, no_autocast
from moccasin_mzn.pytorch.emission import emitted
from moccasin_mzn.pytorch.gradients import ACCUMULATED, gradient_dependencies
from moccasin_mzn.pytorch.guards import autocast_now
from moccasin_mzn.pytorch.instructions import Linear, Peaks
from moccasin_mzn.pytorch.joint import BUFFER, TANGENT, Joint, Placeholder
from moccasin_mzn.pytorch.loops import installed
from moccasin_mzn.pytorch.measuring import allocator_peak, backward, lacks_memory, nanoseconds_of, storage_peak
from moccasin_mzn.pytorch.offloading import slow_meter
from moccasin_mzn.pytorch.reasons import (
    OTHER_REASONS,
    chance_reason,
    checkpoint_reason,
    has_checkpoints,
    names_text,
    notes_on,
)
from moccasin_mzn.pytorch.runtime import Runtime
from moccasin_mzn.pytorch.tracing import Traced, without_memory

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.tracing import Traced


@dataclass(frozen=True, eq=False)
class ScratchCopy:
    """A network with leaves of its own in the memory of the true ones: whatever is done to gradients is lost."""

    given: Sequence[Placeholder]
    """Parameters, buffers and inputs."""
    differentiable: Sequence[bool]
    """For each output: does it get a gradient?"""
    leaves: Mapping[str, torch.Tensor]
    """Parameters, buffers and inputs by name."""
    arguments: tuple[PyTree, PyTree]
    model: torch.nn.Module

    def step(
        self, call: Callable[..., PyTree], between: Callable[[Sequence[torch.Tensor]], object] | None = None
    ) -> dict[str, torch.Tensor | None]:
        """Forward and backward pass: the outputs by name; between both a function of those that are differentiated."""
        import torch

        args, kwargs = self.arguments
        with torch.enable_grad():
            outputs = Structure.of(call(*args, **kwargs))[1]
        chosen = [each for each, has in zip(outputs, self.differentiable, strict=True) if has]
        if between is not None:
            between(chosen)
        generators = iter([torch.Generator(each.device).manual_seed(at) for at, each in enumerate(chosen)])
        with no_autocast():  # as loops do
            backward(chosen, lambda output: torch.empty_like(output).normal_(generator=next(generators)))
        return {f"output {at}": output.detach() for at, output in enumerate(outputs)}

    def left(self) -> dict[str, torch.Tensor | None]:
        """What a step leaves behind, by name."""
        own, buffers = self.given, dict(self.model.named_buffers())  # as they stand there: a step may replace them
        places = {CPU, *(each.form.device for each in own)}
        return {
            **{f"gradient of {each.name}": self.leaves[each.name].grad for each in own if each.form.requires_grad},
            **{f"buffer {each.name}": buffers.get(each.name) for each in own if each.kind == BUFFER},
            **{f"random state of {place}": generator_of(place).get_state() for place in places},
        }


Copies = Callable[[], AbstractContextManager[ScratchCopy]]
"""What makes a scratch copy of one step, as often as it is called."""


def scratch_copy(
    traced: Traced, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> AbstractContextManager[ScratchCopy]:
    """The step's network and inputs, with copies of its buffers, and `.grad` of 0 where gradients are added to that;
    the random state is put back."""
    given = [each for each in traced.joint.given.values() if each.kind != TANGENT]
    return scratch_of(traced.step.model, given, traced.joint.differentiable, traced.gradients, inputs, kwargs)


@contextmanager
def scratch_of(
    model: torch.nn.Module, given: Sequence[Placeholder], differentiable: Sequence[bool], gradients: str,
    inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree],
) -> Iterator[ScratchCopy]:  # fmt: skip
    """A scratch copy of a step that need not be traced; see `scratch_copy`."""
    import torch

    with other_state(model, scratch), forked_random_state():
        arguments, tensors = Structure.of_call(inputs, kwargs)
        fresh = [likewise_kept(tensor, tensor.detach()) for tensor in tensors]
        state = [*dict(model.named_parameters()).values(), *dict(model.named_buffers()).values()]
        leaves = dict(zip([each.name for each in given], [*state, *fresh], strict=True))
        for parameter in model.parameters():
            if gradients == ACCUMULATED and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        yield ScratchCopy(given, differentiable, leaves, arguments.filled(fresh), model)


# --- What a training step takes when it is run, with a plan or without ----------------------------------------


_STEPS, _ENOUGH = 5, 500_000_000
"""A step is timed this often, or until that has taken this many nanoseconds."""
_LEAST_TURNS, _TURNS, _ENOUGH_TURNS = 2, 25, 4_000_000_000
"""The same for several steps run in turns."""
SAFELY = 4
"""A step that was not asked for is run if this many times its memory is free."""
_UNTIMED = 3
"""Turns in which libraries prepare something that they keep, and memory is got that is kept."""


@dataclass(frozen=True)
class StepTimes:
    """What steps take of each other's time."""

    share: float = 1.0
    """What the operators take of the eager step's time, as a fraction."""
    overhead: float = 0.0
    """What the same operators take in the same order as a plan's code, as a fraction of the eager step's time: below 0
    if that is less, as nothing is recorded then. 0 if it was not measured."""
    increase: float | None = None
    """What the planned step takes more than the eager step, as a fraction of that; None: it was not measured."""


def runtime_of(traced: Traced, linear: Linear, original: Callable[..., PyTree] | None = None) -> Runtime:
    """What runs a plan; `original` is called instead where no gradient is asked for."""
    code, program = emitted(traced.joint, linear), traced.program
    written = {root.node for root in (*program.written_back, *program.in_place)}
    return Runtime(
        traced.joint, traced.guards, code, gradient_dependencies(program), original or traced.step,
        tuple(at for at, node in enumerate(traced.joint.given) if node in written),
    )  # fmt: skip


def eager_peak_or_none(traced: Traced, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> int | None:
    """Bytes that the step as it is takes at the allocator; None: there are no numbers to run it on, or not the memory.

    Raises:
        Exception: whatever the step raises.
    """
    if without_memory(traced.step.model, traced.forms):
        return None
    try:
        with (
            underway("running the step as it is, for the memory that it takes"),
            scratch_copy(traced, inputs, kwargs) as scratch,
        ):
            return allocator_peak(partial(scratch.step, traced.step), traced.device)
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        return None


class NoTurnsError(Exception):
    """There was no time to run steps in turns."""


def eager_and_ratio(
    copies: Copies, eager: Callable[..., PyTree], other: Callable[..., PyTree], device: str, deadline: Deadline
) -> tuple[int, float]:
    """Nanoseconds of the step as it is, and how much more another one takes, as a fraction; both are run in turns.

    Raises:
        NoTurnsError: there is no time for some turns.
    """
    times = _in_turns(copies, {"eager": eager, "other": other}, device, deadline)
    ratio = median(own / base for own, base in zip(times["other"], times["eager"], strict=True))
    return round(median(times["eager"])), ratio - 1


def step_times(
    traced: Traced, planned: Runtime, again: float, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], *,
    eager: bool, deadline: Deadline,
) -> StepTimes:  # fmt: skip
    """Run the step as it is, with the plan, and by a plan's code without recomputation, in turns.

    Where the step as it is cannot be run, its time is the planned step's less what is recomputed; without numbers to
    run it on, or examples, it is the operators'.

    Args:
        again: what the plan recomputes, as a fraction of the operators' time.
        eager: is there the memory to run the step as it is?
        deadline: of the turns; where there is no time for some, no step is measured.
    """
    operators, order = traced.problem.graph.total_duration, traced.problem.graph.input_order()
    if without_memory(traced.step.model, traced.forms) or deadline.short_of(_LEAST_TURNS * 1e-9 * operators):
        return StepTimes()
    try:
        with underway("timing a step"):
            if not eager:
                whole = _alone(traced, planned, inputs, kwargs, deadline) - round(again * operators)
                return StepTimes(operators / max(operators, whole))
            calls: dict[str, Callable[..., PyTree]] = {"eager": traced.step, "plan": planned}
            if again:
                calls["code"] = runtime_of(traced, traced.linear(order))
            copies, turn = partial(scratch_copy, traced, inputs, kwargs), len(calls) * 1e-9 * operators
            times = _in_turns(copies, calls, traced.device, deadline, turn)
    except Exception:  # such as indices out of range, where it is enough to know how many there are
        return StepTimes()
    whole = round(median(times["eager"]))
    increase, overhead = (
        median(own / other for own, other in zip(times[name], times["eager"], strict=True)) - 1
        for name in ("plan", "code" if again else "plan")
    )
    return StepTimes(operators / max(operators, whole), overhead, increase)


def _in_turns(
    copies: Copies, calls: Mapping[str, Callable[..., PyTree]], device: str, deadline: Deadline, longest: float = 0.0
) -> dict[str, list[int]]:
    """Nanoseconds of steps, in turns of random order; without the first turns, where there are more.

    Args:
        longest: seconds that a turn takes, as far as that is known.

    Raises:
        NoTurnsError: there is no time for some turns.
    """
    times: dict[str, list[int]] = {name: [] for name in calls}
    chance, turns = random.Random(0), 0
    while turns < _UNTIMED + _TURNS and sum(map(sum, times.values())) < _ENOUGH_TURNS:
        needed = longest * max(1, _LEAST_TURNS - turns)
        if deadline.over() or deadline.short_of(needed):
            break
        began = deadline.elapsed()
        turns += 1
        for name in chance.sample([*calls], len(calls)):
            times[name].append(_timed(copies, device, calls[name]))
        longest = max(longest, deadline.elapsed() - began)
    if turns < _LEAST_TURNS:
        raise NoTurnsError
    return {name: each[min(_UNTIMED, turns // 2) :] for name, each in times.items()}


def _alone(
    traced: Traced, call: Runtime, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], deadline: Deadline
) -> int:
    """Nanoseconds of a planned step: the median of some."""
    timed = partial(_timed, partial(scratch_copy, traced, inputs, kwargs), traced.device, call)
    times = [timed()]
    while len(times) < 1 + _STEPS and sum(times) < _ENOUGH and not deadline.over():
        times.append(timed())
    times = times[1:] or times  # in the first one libraries prepare something that they keep
    return round(median(times))


def _timed(copies: Copies, device: str, call: Callable[..., PyTree]) -> int:
    """Nanoseconds of a step from the network's own state, which is left as it was."""
    with copies() as scratch, _no_garbage_collected():
        began = nanoseconds_of(device)
        scratch.step(call)
        return nanoseconds_of(device) - began


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


# --- A planned step compared to the same step without a plan: is all equal, and is the memory what was predicted?


@dataclass(frozen=True)
class Verification:
    """What a step with a plan and one without have in common; memory in bytes."""

    equal: bool
    """Outputs, gradients, buffers and the random state, bit for bit."""
    largest_difference: float
    """Largest difference of two of their numbers."""
    unequal: tuple[str, ...]
    """What is not equal, by name."""
    predicted_peak: int
    """At the allocator, operators' workspaces included."""
    predicted_storage_peak: int
    peak: int
    """Measured at the allocator, with the plan."""
    storage_peak: int
    """Measured of what operators return, with the plan."""
    eager_peak: int
    """Measured at the allocator, without."""
    eager_storage_peak: int
    predicted_slow_peak: int
    slow_peak: int
    """Measured of host memory, with the plan."""
    reasons: tuple[str, ...] = ()
    """Why something is not equal, as sentences."""
    notes: tuple[str, ...] = ()
    """What loops of other kinds may differ by, though this step is equal, as sentences."""

    def report(self) -> str:
        """Return a few lines for people."""
        lines = ["equal     bit for bit: outputs, gradients, buffers, the random state"]
        if not self.equal:
            lines = [f"unequal   {names_text(self.unequal)}; the largest difference is {self.largest_difference:.3g}"]
        lines += [f"reason    {each}" for each in self.reasons]
        lines += [f"but       {each}" for each in self.notes]
        peaks = [bytes_text(each) for each in (self.peak, self.predicted_peak, self.eager_peak)]
        return "\n".join([*lines, "peak      {}, predicted {}; {} without the plan".format(*peaks)])

    def __str__(self) -> str:
        return self.report()


def verified(
    traced: Traced, planned: Runtime, predicted: Peaks, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> Verification:
    """Run one step each way from the same state, which is left as it was.

    The gradients of the outputs are random numbers, the same both times. Without a plan the step runs as it is: what it
    differs by may also be what PyTorch does differently when it traces.

    Raises:
        PlanError: the plan is not for these inputs.
    """
    own = installed(traced.step.model)
    eager = traced.step if own is None else own.original
    copies = partial(scratch_copy, traced, inputs, kwargs)
    return compared(copies, planned, eager, traced.device, predicted, [traced.joint])


def compared(
    copies: Copies, planned: Callable[..., PyTree], eager: Callable[..., PyTree], device: str, predicted: Peaks,
    joints: Sequence[Joint],
) -> Verification:  # fmt: skip
    """What two ways to run a step have in common.

    Args:
        joints: what is planned of the step.
    """
    import torch

    results: list[dict[str, torch.Tensor | None]] = []
    measured: list[int] = []
    slow: list[int] = []
    for call in (planned, eager):
        with copies() as scratch:
            with slow_meter() as listening:
                outputs = scratch.step(call)
            slow.append(listening.peak)
            results.append({**outputs, **scratch.left()})
        for meter in (partial(allocator_peak, device=device), storage_peak):
            with copies() as scratch:
                measured.append(meter(partial(scratch.step, call)))
    unequal, largest = differences(*results)
    reasons = _reasons(copies, eager, results, unequal, joints) if unequal else ()
    autocast = bool(autocast_now()) and torch.is_autocast_cache_enabled()
    peak, storages, eager_peak, eager_storages = measured
    return Verification(
        not unequal, largest, tuple(unequal), predicted.whole, predicted.storages, peak, storages, eager_peak,
        eager_storages, predicted.slow, slow[0], reasons, notes_on(joints, autocast),
    )  # fmt: skip


def _reasons(
    copies: Copies, eager: Callable[..., PyTree], results: Sequence[Mapping[str, torch.Tensor | None]],
    unequal: Sequence[str], joints: Sequence[Joint],
) -> tuple[str, ...]:  # fmt: skip
    """Why something is not equal, found by running the step once more without a plan, and without its checkpoints."""
    found, rest = [], [*unequal]
    planned, former = results

    def run() -> dict[str, torch.Tensor | None]:
        with copies() as scratch:
            return {**scratch.step(eager), **scratch.left()}

    if has_checkpoints(joints):
        with plain_checkpoints():
            other = differences(planned, run())[0]
        explained, rest = [name for name in rest if name not in other], [name for name in rest if name in other]
        if explained:
            found.append(checkpoint_reason(explained, bool(rest)))
    if rest:
        by_chance = [name for name in differences(former, run())[0] if name in rest]
        found.append(chance_reason(by_chance) if by_chance else OTHER_REASONS)
    return tuple(found)


def differences(
    one: Mapping[str, torch.Tensor | None], other: Mapping[str, torch.Tensor | None]
) -> tuple[list[str], float]:
    """Names of tensors that are not equal bit for bit, and the largest difference; what is no number equals itself."""
    import torch

    unequal, largest = [], 0.0
    for name, mine in one.items():
        its = other[name]
        if mine is None and its is None:
            continue
        if mine is None or its is None or mine.shape != its.shape or mine.dtype != its.dtype:
            unequal.append(name)
            largest = float("inf")
        elif not torch.equal(mine, its) and not torch.allclose(mine, its, rtol=0.0, atol=0.0, equal_nan=True):
            unequal.append(name)
            wide = torch.complex128 if mine.is_complex() else torch.float64
            largest = max(largest, (mine.to(wide) - its.to(wide)).abs().max().item())
    return unequal, largest
