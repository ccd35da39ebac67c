"""What differs between devices: their random numbers, and how their allocators round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import fx

CPU, CUDA = "cpu", "cuda"
_BLOCK = 512
"""Bytes: the allocator of CUDA gives out multiples of it."""


def kind_of_device(device: str) -> str:
    """Without its number."""
    return device.partition(":")[0]


def device_of(node: fx.Node) -> str:
    """Where a traced node computes: the device of the first tensor that it gives or reads, else the CPU."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [node.meta.get("val"), *(read.meta.get("val") for read in node.all_input_nodes)]
    return next((str(leaf.device) for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)), CPU)


def given_out(size: int, device: str) -> int:
    """Bytes that the allocator of a device gives out for so many."""
    return -(-size // _BLOCK) * _BLOCK if kind_of_device(device) == CUDA else size


def generator_of(device: str) -> torch.Generator:
    """Where operators draw from by default on a device."""
    import torch

    if kind_of_device(device) != CUDA:
        return torch.default_generator
    number = torch.device(device).index
    generators: Any = torch.cuda.default_generators
    return generators[torch.cuda.current_device() if number is None else number]


@contextlib.contextmanager
def forked_random_state() -> Iterator[None]:
    """Puts the random state of every device back."""
    import torch

    used = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=used):
        yield
