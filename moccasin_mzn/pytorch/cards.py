"""Devices that a step may be estimated for: the CPU, CUDA here, or a card by name."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formatting import one_of
from moccasin_mzn.pytorch.devices import CPU, CUDA

_MIB = 1 << 20
_CARDS = {
    "T4": 15_360, "L4": 23_034, "L40S": 46_068, "A10": 23_028, "A10G": 23_028, "V100-16GB": 16_384, "V100-32GB": 32_768,
    "A100-40GB": 40_960, "A100-80GB": 81_920, "H100": 81_559, "H200": 143_771, "B200": 183_359, "A6000": 49_140,
    "RTX3090": 24_576, "RTX4090": 24_564, "RTX5090": 32_607,
}  # fmt: skip
"""Memory of cards in MiB, as `nvidia-smi` shows it."""
RESERVE = 512 * _MIB
"""Bytes that the context of CUDA and its libraries take besides tensors, about."""


@dataclass(frozen=True)
class Target:
    """A device that a step is estimated for."""

    kind: str
    """"cpu" or "cuda": by whose allocator bytes are counted."""
    name: str
    """For people."""
    capacity: int | None
    """Bytes; None: not known, or not asked for."""


def target_of(device: str | None, own: str) -> Target:
    """The device that is meant.

    Args:
        device: "cpu", "cuda", or a card such as "cuda:H100"; None: that of the network.
        own: the device of the network.

    Raises:
        InputError: no such device, or no such card is known.
    """
    kind, _, card = (device or own).partition(":")
    if kind not in (CPU, CUDA, "meta") or (card and kind != CUDA):
        raise InputError(f"device {shown(device)}: expected cpu, cuda, or a card such as cuda:H100")
    if card and not card.isdigit():
        known = {name.lower(): name for name in _CARDS}
        if card.lower() not in known:
            raise InputError(f"device {shown(device)}: the memory of card {card} is not known: {one_of(card, _CARDS)}")
        name = known[card.lower()]
        return Target(CUDA, name, _CARDS[name] * _MIB)
    if kind == CUDA:
        return Target(CUDA, "CUDA", _memory_here(int(card or 0)))
    return Target(CPU, "the CPU", None)


def _memory_here(number: int) -> int | None:
    import torch

    if number >= torch.cuda.device_count():
        return None
    return int(torch.cuda.get_device_properties(number).total_memory)
