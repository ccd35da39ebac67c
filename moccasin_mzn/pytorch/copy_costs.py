"""How long it takes to write to slow memory and to read back, measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from moccasin_mzn.extensions.devices.build import CopyCosts
from moccasin_mzn.pytorch.slow_memory import Slow

if TYPE_CHECKING:
    import torch

_LARGE, _SMALL = 4 << 20, 64
"""Bytes: the time of a large copy is that of its bytes, the time of a small one that of the call."""
_REPEATS = 7
_SIDE = 384
"""Of the matrices whose product tells how many FLOP go on in a nanosecond."""


def measured_costs(device_name: str, unit: str) -> tuple[CopyCosts, CopyCosts]:
    """Costs of writing and of reading back on this machine.

    Args:
        device_name: "meta" stands for the CPU.
        unit: of durations: "FLOP", of which a product of matrices tells how many a nanosecond is worth; else
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
