"""A plan: what is computed and copied, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One step of a plan: a copy of a node's output comes to be in a memory, computed there or copied there."""

    node: int
    """Position in `ComputationGraph.nodes`."""
    memory: int = 0
    """Where the copy comes to be: position in `Platform.memories`."""
    source: int | None = None
    """The memory it is copied from; None: it is computed."""


Plan = tuple[Action, ...]


def plan_of_sequence(sequence: Sequence[int], memory: int = 0) -> Plan:
    """The plan that computes a schedule of one memory there."""
    return tuple(Action(v, memory) for v in sequence)
