"""A planned step beside the same step without a plan: is all equal, and is the memory what was predicted?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch_trace import other_state
from moccasin_mzn.pytorch.accumulating import ACCUMULATED
from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.devices import CPU, forked_random_state, generator_of
from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.joint import BUFFER, TANGENT
from moccasin_mzn.pytorch.liveness import Peaks
from moccasin_mzn.pytorch.measuring import allocator_peak, nanoseconds_of, storage_peak
from moccasin_mzn.pytorch.slow_memory import slow_meter

if TYPE_CHECKING:
    from moccasin_mzn.pytorch.tracing import Traced

_STEPS, _ENOUGH = 5, 500_000_000
"""An eager step is timed so often, or until that has taken so many nanoseconds."""


@dataclass(frozen=True)
class Verification:
    """What a step with a plan and one without have in common; memory in bytes."""

    equal: bool
    """Outputs, gradients, buffers and the random state, bit for bit."""
    largest_difference: float
    """Of any two numbers in them."""
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
    """Measured of slow memory, with the plan."""


def verified(
    traced: Traced, planned: Runtime, predicted: Peaks, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Verification:
    """Run one step each way from the same state, which is left as it was.

    The gradients of the outputs are random numbers, the same both times. Without a plan the step runs as it is: what it
    differs by may also be what PyTorch does differently when it traces.

    Raises:
        PlanError: the plan is not for these inputs.
    """
    installed = traced.step.model.__dict__.get("forward")
    eager = installed.original if isinstance(installed, Runtime) else traced.step
    results: list[dict[str, Any]] = []
    measured: list[int] = []
    slow: list[int] = []
    for call in (planned, eager):
        with _twin(traced, inputs, kwargs) as twin:
            with slow_meter() as listening:
                outputs = twin.step(call)
            slow.append(listening.peak)
            results.append({**outputs, **twin.left()})
        for meter in (partial(allocator_peak, device=traced.device), storage_peak):
            with _twin(traced, inputs, kwargs) as twin:
                measured.append(meter(partial(twin.step, call)))
    unequal, largest = differences(*results)
    figures = predicted.whole, predicted.storages, *measured, predicted.slow, slow[0]
    return Verification(not unequal, largest, tuple(unequal), *figures)


@dataclass(frozen=True)
class EagerStep:
    """What a training step takes without a plan."""

    peak: int
    """Bytes at the allocator."""
    nanoseconds: int
    """CPU time of the calling thread, or of another device; the median of some steps."""


def eager_step(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> EagerStep:
    """Run the step as it is, always from the same state, which is left as it was."""

    def run(measure: Callable[[Callable[[], object]], int]) -> int:
        with _twin(traced, inputs, kwargs) as twin:
            return measure(partial(twin.step, traced.step))

    def clock(step: Callable[[], object]) -> int:
        began = nanoseconds_of(traced.device)
        step()
        return nanoseconds_of(traced.device) - began

    run(clock)  # libraries prepare something that they keep
    times = [run(clock)]
    while len(times) < _STEPS and sum(times) < _ENOUGH:
        times.append(run(clock))
    return EagerStep(run(partial(allocator_peak, device=traced.device)), round(median(times)))


@dataclass(frozen=True, eq=False)
class _Twin:
    """A network with leaves of its own in the memory of the true ones: whatever is done to gradients is lost."""

    traced: Traced
    leaves: Mapping[str, Any]
    """Parameters, buffers and inputs by name."""
    arguments: tuple[Any, Any]

    def step(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Forward and backward pass: the outputs by name."""
        import torch

        args, kwargs = self.arguments
        outputs = Structure.of(call(*args, **kwargs))[1]
        chosen = [each for each, has in zip(outputs, self.traced.joint.differentiable, strict=True) if has]
        generators = [torch.Generator(each.device).manual_seed(at) for at, each in enumerate(chosen)]
        pairs = zip(chosen, generators, strict=True)
        torch.autograd.backward(chosen, [torch.empty_like(each).normal_(generator=own) for each, own in pairs])
        return {f"output {at}": output.detach() for at, output in enumerate(outputs)}

    def left(self) -> dict[str, Any]:
        """What a step leaves behind, by name."""
        own = [each for each in self.traced.joint.given.values() if each.kind != TANGENT]
        places = {CPU, *(each.form.device for each in own)}
        return {
            **{f"gradient of {each.name}": self.leaves[each.name].grad for each in own if each.form.requires_grad},
            **{f"buffer {each.name}": self.leaves[each.name] for each in own if each.kind == BUFFER},
            **{f"random state of {place}": generator_of(place).get_state() for place in places},
        }


@contextmanager
def _twin(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[_Twin]:
    """The step's network and inputs, with copies of its buffers, and `.grad` of 0 where gradients are added to that;
    the random state is put back."""
    import torch

    model = traced.step.model

    def own(tensor: Any) -> Any:
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    with other_state(model, own), forked_random_state():
        arguments, tensors = Structure.of((tuple(inputs), dict(kwargs)))
        fresh = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        state = [*dict(model.named_parameters()).values(), *dict(model.named_buffers()).values()]
        names = [each.name for each in traced.joint.given.values() if each.kind != TANGENT]
        leaves = dict(zip(names, [*state, *fresh], strict=True))
        for parameter in model.parameters():
            if traced.gradients == ACCUMULATED and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        yield _Twin(traced, leaves, arguments.filled(fresh))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[list[str], float]:
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
