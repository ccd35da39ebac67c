"""Tensors written to host memory and read back: to the host's pinned memory on CUDA, out of the allocator on the CPU.

A copy is of the whole storage, bytes and all, so that what is read back is laid out as it was. On CUDA it goes on in a
stream of its own, and the host waits for nothing:

    computing    conv -> y    relu    add     waits for the event: y is freed    ...    waits: y is there    backward
    copying                   y is written, event                                       y is read back, event
"""

from __future__ import annotations

import contextlib
import statistics
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.machine.platforms import CopyCosts

if TYPE_CHECKING:
    import torch


class Slow:
    """A tensor in host memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        whole = _whole(tensor)
        self.form = tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
        self.device = tensor.device
        self.bytes = whole.numel() * whole.element_size()
        self.host_copy = _room(whole)
        self.written = _asynchronously(self.device, lambda: self.host_copy.copy_(whole, non_blocking=True))
        """The event that the copy is done; None: it is done."""
        for meter in _METERS:
            meter.follow(self)

    def read(self) -> tuple[torch.Tensor, torch.cuda.Event | None]:
        """The tensor back in fast memory, and the event that it is there; None: it is."""
        import torch

        whole = torch.empty(self.host_copy.shape, dtype=self.host_copy.dtype, device=self.device)
        done = _asynchronously(self.device, lambda: whole.copy_(self.host_copy, non_blocking=True))
        return whole.as_strided(*self.form), done


def write_out(tensor: torch.Tensor) -> Slow:
    """Begin to write a tensor to host memory."""
    return Slow(tensor)


def settled(slow: Slow, tensor: torch.Tensor) -> None:
    """All is written: the tensor may be freed from here on, which until now is kept alive by the argument."""
    _wait(slow.device, slow.written)
    slow.written = None


def read_back(slow: Slow) -> torch.Tensor:
    """The tensor in fast memory again."""
    tensor, done = slow.read()
    _wait(slow.device, done)
    return tensor


@dataclass
class SlowMeter:
    """What is written to host memory while it listens."""

    current: int = 0
    """Bytes of what is there now."""
    peak: int = 0
    """The most of them at once."""

    def follow(self, slow: Slow) -> None:
        self.current += slow.bytes
        self.peak = max(self.peak, self.current)
        weakref.finalize(slow, self._free, slow.bytes).atexit = False

    def _free(self, amount: int) -> None:
        self.current -= amount


_METERS: list[SlowMeter] = []


@contextlib.contextmanager
def slow_meter() -> Iterator[SlowMeter]:
    """A meter that listens meanwhile."""
    meter = SlowMeter()
    _METERS.append(meter)
    try:
        yield meter
    finally:
        _METERS.remove(meter)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory that a tensor is in, as a row of its own type."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)


def _room(like: torch.Tensor) -> torch.Tensor:
    """Host memory for a row."""
    import torch

    if like.is_cuda:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # meters of fast memory do not see it
            return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
    memory = np.empty((like.numel() or 1) * like.element_size(), np.uint8)
    return torch.from_numpy(memory).view(like.dtype)[: like.numel()]


def _asynchronously(device: torch.device, copy: Callable[[], object]) -> torch.cuda.Event | None:
    """Copy after all that was asked of a device before; the event that it is done; None: it is done."""
    import torch

    if device.type != "cuda":
        copy()
        return None
    side = _stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        copy()
        return side.record_event()


def _wait(device: torch.device, done: torch.cuda.Event | None) -> None:
    """All that is asked of a device from here on waits; the host does not."""
    import torch

    if done is not None:
        torch.cuda.current_stream(device).wait_event(done)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    import torch

    return torch.cuda.Stream(device)


# --- How long it takes to write to host memory and to read back, measured -------------------------------------


_LARGE, _SMALL = 4 << 20, 64
"""Bytes: the time of a large copy is that of its bytes, the time of a small one that of the call."""
_REPEATS = 7
_SIDE = 384
"""Side of the matrices whose product is timed, for FLOP per nanosecond."""


def measured_costs(device_name: str, unit: str) -> tuple[CopyCosts, CopyCosts]:
    """Costs of writing and of reading back on this machine.

    Args:
        device_name: "meta" stands for the CPU.
        unit: of durations: "FLOP", converted by the timed product of two matrices; else
            nanoseconds are meant.
    """
    import torch

    device = torch.device("cpu" if device_name == "meta" else device_name)
    large, small = (torch.empty(amount, dtype=torch.uint8, device=device) for amount in (_LARGE, _SMALL))
    worth = _flop_per_nanosecond(device) if unit == "FLOP" else Fraction(1)
    out = [_nanoseconds(device, partial(Slow, each)) for each in (large, small)]
    back = [_nanoseconds(device, Slow(each).read) for each in (large, small)]
    return _costs(worth, *out), _costs(worth, *back)


def _costs(worth: Fraction, large: int, small: int) -> CopyCosts:
    return CopyCosts(worth * max(0, large - small) / (_LARGE - _SMALL), round(worth * small))


def _flop_per_nanosecond(device: torch.device) -> Fraction:
    import torch

    square = torch.ones(_SIDE, _SIDE, device=device)
    return Fraction(2 * _SIDE**3, max(1, _nanoseconds(device, lambda: square @ square)))


def _nanoseconds(device: torch.device, call: Callable[[], object]) -> int:
    """CPU time of this thread, or the clock's when the device has done all; the median of several calls."""
    import torch

    cuda = device.type == "cuda"
    clock = time.perf_counter_ns if cuda else time.thread_time_ns
    took = []
    for _ in range(_REPEATS + 1):
        if cuda:
            torch.cuda.synchronize(device)
        began = clock()
        call()
        if cuda:
            torch.cuda.synchronize(device)
        took.append(clock() - began)
    return round(statistics.median(took[1:]))
