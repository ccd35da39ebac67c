"""The peak of a plan's memory, to the byte: what is live at each instruction, as Python frees it.

Parameters, buffers and inputs do not count. Outputs count from the cut to the end, and so do the tangents, as whoever
calls the backward pass holds them; gradients stay once they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moccasin_mzn.pytorch.joint import TANGENT
from moccasin_mzn.pytorch.program import Instruction, Linear, Storage


@dataclass(frozen=True)
class Peaks:
    """Bytes."""

    forward: int
    backward: int
    kept: int
    """Live at the cut: outputs, and what the backward pass reads."""
    tangents: int

    @property
    def whole(self) -> int:
        return max(self.forward, self.backward)


def peaks(plan: Linear, workspace: Callable[[Instruction], int] = lambda _: 0) -> Peaks:
    """The most memory that a plan's storages take together, in each of its halves.

    Args:
        workspace: bytes that an instruction takes while it runs, beside what it makes.
    """
    instructions = [*plan.forward, *plan.backward]
    end = len(instructions)
    last: dict[Storage, int] = {}
    for at, instruction in enumerate(instructions):
        touched = (value.storage for value in (*instruction.reads, instruction.value))
        last.update((storage, at) for storage in (*touched, *instruction.makes) if storage is not None)
    for value in (*plan.outputs, *plan.gradients):
        if value is not None and value.storage is not None:
            last[value.storage] = end
    ending: dict[int, int] = {}
    for storage, at in last.items():
        if storage.given is None:
            ending[at] = ending.get(at, 0) + storage.bytes
    tangents = sum(v.storage.bytes for v in plan.given.values() if v.storage and v.storage.given == TANGENT)
    cut, live, most, kept = len(plan.forward), 0, [0, 0], 0
    for at, instruction in enumerate(instructions):
        if at == cut:
            kept, live = live, live + tangents
        live += sum(storage.bytes for storage in instruction.makes)
        most[at >= cut] = max(most[at >= cut], live + workspace(instruction))
        live -= ending.get(at, 0)
    return Peaks(most[0], max(most[1], live), kept, tangents)
