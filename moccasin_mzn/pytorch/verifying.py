"""A planned step beside the same step without a plan: is all equal, and is the memory what was predicted?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.liveness import Peaks
from moccasin_mzn.pytorch.measuring import storage_peak
from moccasin_mzn.pytorch.slow_memory import slow_peak

if TYPE_CHECKING:
    import torch

    from moccasin_mzn.pytorch.tracing import Traced


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
    storage_peak: int
    """Measured, with the plan."""
    eager_storage_peak: int
    """Measured, without."""
    predicted_slow_peak: int = 0
    slow_peak: int = 0
    """Of slow memory, measured."""


def verified(
    traced: Traced, planned: Runtime, predicted: Peaks, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Verification:
    """Run one step each way from the same state, which is left as it was.

    The gradients of the outputs are random numbers, the same both times. Without a plan the step runs as it is: what it
    differs by may also be what PyTorch does differently when it traces.

    Raises:
        PlanError: the plan is not for these inputs.
    """
    model = traced.step.model
    installed = model.__dict__.get("forward")
    eager = installed.original if isinstance(installed, Runtime) else traced.step
    results: list[dict[str, Any]] = []
    peaks, slow = [], []
    for call in (planned, eager):
        with _unchanged(model):
            slow.append(slow_peak(lambda call=call: results.append(_step(traced, call, inputs, kwargs))))
        with _unchanged(model):
            peaks.append(storage_peak(partial(_step, traced, call, inputs, kwargs)))
    unequal, largest = _differences(*results)
    figures = predicted.whole, *peaks, predicted.slow, slow[0]
    return Verification(not unequal, largest, tuple(unequal), *figures)


def _step(traced: Traced, call: Callable[..., Any], inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Forward and backward pass: all that they leave behind, by name."""
    import torch

    model, joint = traced.step.model, traced.joint
    outputs = Structure.of(call(*inputs, **kwargs))[1]
    chosen = [each for each, has in zip(outputs, joint.differentiable, strict=True) if has]
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.empty_like(each).normal_(generator=generator) for each in chosen]
    given = [*model.parameters(), *model.buffers(), *Structure.of((inputs, kwargs))[1]]
    wanted = [tensor for tensor in given if tensor.requires_grad]
    gradients = torch.autograd.grad(chosen, wanted, tangents, allow_unused=True)
    names = [each.name for each in joint.given.values() if each.form.requires_grad]
    return {
        **{f"output {at}": output.detach() for at, output in enumerate(outputs)},
        **{f"gradient of {name}": each for name, each in zip(names, gradients, strict=True)},
        **{f"buffer {name}": buffer.clone() for name, buffer in model.named_buffers()},
        "random state": torch.get_rng_state(),
    }


@contextmanager
def _unchanged(model: torch.nn.Module) -> Iterator[None]:
    """Puts buffers and the random state back."""
    import torch

    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    with torch.random.fork_rng(devices=[]):
        yield
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> tuple[list[str], float]:
    import torch

    unequal, largest = [], 0.0
    for name, mine in one.items():
        its = other[name]
        if mine is None and its is None:
            continue
        if mine is None or its is None or mine.shape != its.shape or mine.dtype != its.dtype:
            unequal.append(name)
            largest = float("inf")
        elif not torch.equal(mine, its):
            unequal.append(name)
            wide = torch.complex128 if mine.is_complex() else torch.float64
            largest = max(largest, (mine.to(wide) - its.to(wide)).abs().max().item())
    return unequal, largest
