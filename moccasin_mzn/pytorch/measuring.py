"""How much memory a call of PyTorch takes, by two meters that know nothing of each other, and how long.

- *Storages* (`storage_peak`): the live storages that operators have returned. Exact, on any device, in pure Python.
- *Allocator* (`allocator_peak`): what the allocator has given out, so also what operators take while they work, their
  workspaces. This is what a budget is about.

Both count from the beginning of the call: parameters, buffers, inputs and whatever else was there before are left out,
and count for nothing when they are freed. Gradients that a call makes are counted.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from moccasin_mzn.graphs.importers.torch.trace import quiet

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_Returned = TypeVar("_Returned")
_LOG_LEVEL, _SILENT = "KINETO_LOG_LEVEL", "10"
"""The profiler's library reads this once, when it is used first; otherwise it writes lines to stderr."""
_SEPARATOR = 1_000_003
"""Bytes of what is allocated between two calls, as a mark; nothing else has this many."""


@dataclass(frozen=True)
class StepPeaks:
    """What a step takes."""

    storage: int
    """Bytes, see `storage_peak`."""
    allocator: int
    """Bytes, see `allocator_peak`."""
    seconds: float
    """CPU time of the process, of a step without a meter; on another device the time on the clock."""


def backward(outputs: Sequence[torch.Tensor], gradient_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Run the backward pass of outputs, with gradients that nothing else refers to, as those that a loss outside makes.

    Single numbers, such as losses, get their gradients from here, as from `loss.backward()`.

    Args:
        gradient_of: makes the gradient of an output, of what has its form.
    """
    import torch

    numbers = [output for output in outputs if output.numel() == 1]
    others = [output for output in outputs if output.numel() != 1]
    with torch.enable_grad():
        seeds = [_seed().apply(gradient_of, *others)] if others else []
    torch.autograd.backward([*seeds, *numbers], [*(None for _ in seeds), *map(gradient_of, numbers)])


@cache
def _seed() -> Any:
    import torch

    class Seed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, gradient_of: Any, *outputs: torch.Tensor) -> torch.Tensor:
            ctx.gradient_of, ctx.outputs = gradient_of, [output.detach() for output in outputs]
            return torch.empty((), device="meta")  # takes no memory, nor does its gradient

        @staticmethod
        def backward(ctx: Any, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            return None, *map(ctx.gradient_of, ctx.outputs)

    return Seed


def storage_peak(call: Callable[[], object]) -> int:
    """The most bytes of storages that operators returned during a call and that lived at once.

    Compiled code does not pass by here: of `torch.compile`d networks only `allocator_peak` is known.

    Raises:
        Exception: whatever the call raises.
    """
    with _meter() as meter:
        call()
    return meter.peak


def allocator_peak(call: Callable[[], object], device: str = "cpu") -> int:
    """The most bytes that the allocator had given out during a call, beyond what it had before.

    Args:
        device: "cpu", or one of CUDA.

    Raises:
        Exception: whatever the call raises.
    """
    return peak_and_end(call, device)[0]


def eager_peaks(step: Callable[[], object], device: str = "cpu") -> StepPeaks:
    """What a training step takes: it is run four times, the first time to warm up.

    Args:
        step: leaves no gradients behind (`set_to_none` at its end), so that all runs do the same.
    """
    step()
    began = time_of(device)
    step()
    seconds = time_of(device) - began
    return StepPeaks(storage_peak(step), allocator_peak(step, device), seconds)


def allocations(call: Callable[[], _Returned]) -> tuple[_Returned, list[int]]:
    """What a call returns, and bytes in the order of the CPU allocator's work: given out above 0, taken back below.

    Blocks that were given out before the call are no part of it.
    """
    returned, events = _memory_events(call)
    return returned, [amount for name, amount in events if name == _MEMORY]


_MEMORY = "[memory]"


def _memory_events(call: Callable[[], _Returned]) -> tuple[_Returned, list[tuple[str, int]]]:
    """What a call returns, and all that was noted meanwhile, in its order: the name, and bytes of the allocator."""
    from torch.profiler import ProfilerActivity, profile

    with (
        quiet(), _no_lines(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False) as profiler,
    ):  # fmt: skip
        returned = call()
    seen = [
        event for event in profiler.profiler.kineto_results.events() if event.name().startswith((_MEMORY, _SECTION))
    ]
    seen.sort(key=lambda event: event.start_ns())
    return returned, [(event.name(), event.nbytes()) for event in seen]


def peak_and_end(call: Callable[[], object], device: str = "cpu") -> tuple[int, int]:
    """The most bytes that the allocator gave out during a call, and what is still given out for what it returns."""
    if _is_cpu(device):
        returned, events = allocations(call)
        return highest(events), sum(events)
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    returned = call()
    torch.cuda.synchronize(device)
    peak, end = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del returned
    return peak - before, end - before


@dataclass
class Sections:
    """Peaks of the sections of a call, each from one `begin` to the next."""

    device: str = "cpu"
    current: int = 0
    """The section that is being run; the first is number 0."""
    _peaks: list[int] = field(default_factory=list)

    def begin(self) -> int:
        """Begin a section, from within the call; its number."""
        import torch

        if _is_cpu(self.device):
            with torch.profiler.record_function(f"{_SECTION}{self.current + 1}"):
                pass
        else:
            self._peaks.append(torch.cuda.max_memory_allocated(self.device))
            torch.cuda.reset_peak_memory_stats(self.device)
        self.current += 1
        return self.current

    def peaks(self, call: Callable[[], object]) -> list[int]:
        """The most bytes that the allocator had given out in each section of a call, beyond what it had before."""
        import torch

        if _is_cpu(self.device):
            _, events = _memory_events(call)
            return _peaks_of_sections(events)
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        call()
        return [peak - before for peak in (*self._peaks, torch.cuda.max_memory_allocated(self.device))]


_SECTION = "moccasin_mzn section "


def _peaks_of_sections(events: Iterable[tuple[str, int]]) -> list[int]:
    peaks, allocated = [0], 0
    for name, amount in events:
        if name.startswith(_SECTION):
            peaks.append(allocated)
        elif name == _MEMORY:
            allocated += amount
            peaks[-1] = max(peaks[-1], allocated)
    return peaks


def peaks_and_ends(calls: Iterable[Callable[[], object]]) -> list[tuple[int, int] | None]:
    """The same for calls on the CPU one after the other, which are taken from an iterator; None: a call has failed.

    To begin to watch the allocator takes longer than most calls, so it is done once for all of them.
    """
    import torch

    failed: list[bool] = []

    def separate() -> None:
        torch.empty(_SEPARATOR, dtype=torch.uint8)

    def run() -> None:
        for call in calls:
            separate()
            try:
                returned = call()
                failed.append(False)
            except Exception:
                returned = None
                failed.append(True)
            separate()
            del returned

    parts: list[list[int]] = [[]]
    for amount in allocations(run)[1]:
        if amount == _SEPARATOR:
            parts.append([])
        elif amount != -_SEPARATOR:
            parts[-1].append(amount)
    own = parts[1::2]
    return [None if has else (highest(part), sum(part)) for has, part in zip(failed, own, strict=True)]


def lacks_memory(error: RuntimeError) -> bool:
    """Was there not enough memory for a tensor?"""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)  # the CPU's allocator


def free_memory(device: str = "cpu") -> int | None:
    """Unused bytes; None: it is unknown here."""
    if not _is_cpu(device):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
    limit, used = (_number_in(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))  # a container's
    return free if limit is None or used is None else min(free, limit - used)


def _number_in(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def time_of(device: str = "cpu") -> float:
    """Seconds to take the difference of: CPU time of this process, or the clock's when the device has done all."""
    if _is_cpu(device):
        return time.process_time()
    import torch

    torch.cuda.synchronize(device)
    return time.perf_counter()


def nanoseconds_of(device: str = "cpu") -> int:
    """Like `time_of`, but of this thread alone: what operators take in it, however many more help."""
    return time.thread_time_ns() if _is_cpu(device) else round(1e9 * time_of(device))


def _is_cpu(device: str) -> bool:
    return device.partition(":")[0] == "cpu"


def highest(events: Iterable[int]) -> int:
    """The most bytes given out at once, as `allocations` lists them."""
    allocated = peak = 0
    for amount in events:
        allocated += amount
        peak = max(peak, allocated)
    return peak


@contextlib.contextmanager
def _no_lines() -> Iterator[None]:
    """The profiler writes nothing to stderr, unless the environment configures it."""
    given = _LOG_LEVEL in os.environ
    os.environ.setdefault(_LOG_LEVEL, _SILENT)
    try:
        yield
    finally:
        if not given:
            del os.environ[_LOG_LEVEL]


@dataclass
class _StorageMeter:
    """The storages that operators have returned, followed until they are freed."""

    total: int = 0
    """Bytes of those that live."""
    peak: int = 0
    """The most of these bytes at once."""
    live: dict[int, int] = field(default_factory=dict)
    """Bytes of each storage, by its id."""

    def follow(self, storage: torch.UntypedStorage) -> None:
        """Count a storage, again if its size has changed."""
        key, size = id(storage), storage.nbytes()
        if key not in self.live:
            weakref.finalize(storage, self._free, key).atexit = False
        self.total += size - self.live.get(key, 0)
        self.live[key] = size

    def _free(self, key: int) -> None:
        self.total -= self.live.pop(key)


@contextlib.contextmanager
def _meter() -> Iterator[_StorageMeter]:
    """Let a meter see every operator that is called meanwhile."""
    from torch.utils._python_dispatch import TorchDispatchMode

    meter = _StorageMeter()

    class Allocations(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Callable[..., PyTree], types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            given = {id(storage): storage for storage in storages_of((args, kwargs))}
            returned = func(*args, **(kwargs or {}))
            for storage in storages_of(returned):
                if storage.device.type == "meta":
                    continue
                if id(storage) in meter.live or id(storage) not in given:
                    meter.follow(storage)
            meter.peak = max(meter.peak, meter.total)
            return returned

    with Allocations():
        yield meter


def storages_of(values: PyTree) -> Iterator[torch.UntypedStorage]:
    """The storages of the tensors in a value."""
    import torch
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            yield leaf.untyped_storage()
