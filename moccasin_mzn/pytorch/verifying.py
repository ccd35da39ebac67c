"""A planned step beside the same step without a plan: is all equal, and is the memory what was predicted?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.devices import CPU, kind_of_device
from moccasin_mzn.pytorch.function import Runtime
from moccasin_mzn.pytorch.liveness import Peaks
from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak
from moccasin_mzn.pytorch.slow_memory import slow_meter
from moccasin_mzn.pytorch.twins import twin_of

if TYPE_CHECKING:
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
    hint: str = ""
    """What may be the reason, where something is not equal."""


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
        with twin_of(traced, inputs, kwargs) as twin:
            with slow_meter() as listening:
                outputs = twin.step(call)
            slow.append(listening.peak)
            results.append({**outputs, **twin.left()})
        for meter in (partial(allocator_peak, device=traced.device), storage_peak):
            with twin_of(traced, inputs, kwargs) as twin:
                measured.append(meter(partial(twin.step, call)))
    unequal, largest = differences(*results)
    peak, storages, eager_peak, eager_storages = measured
    return Verification(
        not unequal, largest, tuple(unequal), predicted.whole, predicted.storages, peak, storages, eager_peak,
        eager_storages, predicted.slow, slow[0], hint_of(traced) if unequal else "",
    )  # fmt: skip


def hint_of(traced: Traced) -> str:
    """Why a step with a plan and one without may differ as PyTorch is set now, and what to do; "" if unknown."""
    import torch

    on_cpu = kind_of_device(traced.device) == CPU
    library, name = (torch.backends.mkldnn, "mkldnn") if on_cpu else (torch.backends.cudnn, "cudnn")
    if not traced.joint.recurrent or not library.enabled:
        return ""
    how = f"torch.backends.{name}.flags(enabled=False)" + (", or run torch --no-onednn," if on_cpu else "")
    title = "oneDNN" if on_cpu else "cuDNN"
    return f"a plan has recurrent layers as cells, without it they are those of {title}: {how} makes them equal"


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
