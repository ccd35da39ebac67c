"""What a tracer of PyTorch networks hands over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import fx


@dataclass(frozen=True)
class Traced:
    """What the tracer of a mode hands over."""

    graph_module: fx.GraphModule
    """Of one flat list of tensors to one flat list of results."""
    kinds: Mapping[str, str] = field(hash=False)
    """For each placeholder, by name, `INPUT`, `STATE` or `CONSTANT` of `torch_memory`."""
    backward: frozenset[str] = frozenset()
    """Names of the traced nodes of the backward pass, the loss included."""
