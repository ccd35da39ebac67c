"""Devices that a step may be estimated for: the CPU, CUDA here, or a card by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch.devices import CPU, CUDA

_MIB = 1 << 20
_CARDS = {
    "T4": 15_360, "T4G": 15_360, "P40": 24_576, "P100-16GB": 16_384, "V100-16GB": 16_384, "V100-32GB": 32_768,
    "A2": 15_356, "A10": 23_028, "A10G": 23_028, "A16": 15_356, "A30": 24_576, "A40": 46_068,
    "A100-40GB": 40_960, "A100-80GB": 81_920, "A800-80GB": 81_920, "L4": 23_034, "L40": 46_068, "L40S": 46_068,
    "H20": 97_871, "H100": 81_559, "H100-NVL": 95_830, "H800": 81_559, "GH200": 97_871, "H200": 143_771,
    "B200": 183_359, "RTX2060": 6_144, "RTX2070": 8_192, "RTX2080": 8_192, "RTX2080Ti": 11_264,
    "RTX3050": 8_192, "RTX3060-8GB": 8_192, "RTX3060-12GB": 12_288, "RTX3060Ti": 8_192, "RTX3070": 8_192,
    "RTX3070Ti": 8_192, "RTX3080-10GB": 10_240, "RTX3080-12GB": 12_288, "RTX3080Ti": 12_288, "RTX3090": 24_576,
    "RTX3090Ti": 24_564, "RTX4060": 8_188, "RTX4060Ti-8GB": 8_188, "RTX4060Ti-16GB": 16_380, "RTX4070": 12_282,
    "RTX4070Super": 12_282, "RTX4070Ti": 12_282, "RTX4070TiSuper": 16_376, "RTX4080": 16_376, "RTX4080Super": 16_376,
    "RTX4090": 24_564, "RTX5060": 8_151, "RTX5060Ti-8GB": 8_151, "RTX5060Ti-16GB": 16_311, "RTX5070": 12_227,
    "RTX5070Ti": 16_303, "RTX5080": 16_303, "RTX5090": 32_607,
    "A4000": 16_376, "A4500": 20_470, "A5000": 24_564, "A6000": 49_140, "RTX4000Ada": 20_475, "RTX5000Ada": 32_760,
    "RTX6000Ada": 49_140, "RTXPRO6000": 97_887,
    "MI100": 32_752, "MI210": 65_520, "MI250X": 65_520, "MI300X": 196_592, "MI325X": 262_128,
}  # fmt: skip
"""Memory of cards in MiB, as `nvidia-smi` shows it, or `rocm-smi`, where an MI250X is two devices; cards that are made
with several memories have one name for each."""
_IGNORED = re.compile(r"nvidia|geforce|tesla|amd|instinct|radeon|sxm\d?|pcie|hbm\d?e?|[\s_-]")
"""What names of a card differ by: in "NVIDIA A100-SXM4-80GB" all but A100 and 80GB."""
_NEAR = 0.1
"""Makers name a memory of 81,559 MiB 80 GB, and one of 23,034 MiB 24 GB."""
_AMOUNT = re.compile(r"[0-9.]+ *[kmgt]i?b?", re.IGNORECASE)
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
        device: "cpu", "cuda", a card such as "cuda:H100", or one by its memory, "cuda:80GiB"; None: that of the
            network.
        own: the device of the network.

    Raises:
        InputError: no such device; no such card is known, or it comes with several amounts of memory.
    """
    kind, _, card = (device or own).partition(":")
    if kind not in (CPU, CUDA, "meta") or (card and kind != CUDA):
        raise InputError(f"device {shown(device)}: expected cpu, cuda, or a card such as cuda:H100 or cuda:80GiB")
    if card and not card.isdigit():
        return _card(shown(device), card)
    if kind == CUDA:
        return Target(CUDA, "CUDA", _memory_here(int(card or 0)))
    return Target(CPU, "the CPU", None)


def _card(device: str, card: str) -> Target:
    """A card by its name or its memory."""
    if _AMOUNT.fullmatch(card):
        try:
            return Target(CUDA, f"a card of {card}", Budget.parse(card).amount)
        except InputError:
            raise InputError(f"device {device}: {shown(card)} is no amount of memory, such as 80GiB") from None
    known, plain = {_plain(name): name for name in _CARDS}, _plain(card)
    name = _named(known, plain)
    if name is None:
        several = [f"cuda:{each}" for own, each in known.items() if re.fullmatch(re.escape(plain) + r"\d+gb", own)]
        if several and plain:
            raise InputError(f"device {device}: there are such cards with several memories, {' and '.join(several)}")
        text = f"the memory of card {card} is not known: {one_of(card, _CARDS)}"
        raise InputError(f"device {device}: {text}; or give its memory, such as cuda:80GiB")
    return Target(CUDA, name, _CARDS[name] * _MIB)


def _named(known: Mapping[str, str], plain: str) -> str | None:
    """The name of a card in the table; its memory may be written behind it, as "h10080gb"; None: it is not known."""
    for each in (plain, f"rtx{plain}", plain.removeprefix("rtx")):
        if each in known:
            return known[each]
    for own, name in known.items():
        memory = re.fullmatch(rf"{own}(\d+)gb", plain)
        if memory and int(memory[1]) and abs(_CARDS[name] / 1024 / int(memory[1]) - 1) < _NEAR:
            return name
    return None


def _plain(card: str) -> str:
    """The name of a card without what it may be written with or not."""
    return _IGNORED.sub("", card.lower())


def _memory_here(number: int) -> int | None:
    import torch

    if number >= torch.cuda.device_count():
        return None
    return int(torch.cuda.get_device_properties(number).total_memory)
