"""The peak of a plan's memory, to the byte: what is live at each instruction, as Python frees it.

Parameters, buffers and inputs do not count. Outputs count from the cut to the end, and so do the tangents, as whoever
calls the backward pass holds them; gradients stay once they are made. What gradients are added to, `.grad`, is there
before and does not count; if it is not, the gradients become it, and stay.
"""

from __future__ import annotations

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


def peaks(plan: Linear, *, first: bool = False) -> Peaks:
    """The most memory that a plan's storages take together, in each of its halves.

    Args:
        first: no parameter has a `.grad` yet.
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
    makes = [instruction.makes for instruction in instructions]
    if first:
        _keep_grads(instructions, makes, last)
    ending: dict[int, int] = {}
    for storage, at in last.items():
        if storage.given is None:
            ending[at] = ending.get(at, 0) + storage.bytes
    tangents = sum(v.storage.bytes for v in plan.given.values() if v.storage and v.storage.given == TANGENT)
    cut, live, most, kept = len(plan.forward), 0, [0, 0], 0
    for at, made in enumerate(makes):
        if at == cut:
            kept, live = live, live + tangents
        live += sum(storage.bytes for storage in made)
        most[at >= cut] = max(most[at >= cut], live)
        live -= ending.get(at, 0)
    return Peaks(most[0], max(most[1], live), kept, tangents)


def _keep_grads(instructions: list[Instruction], makes: list[tuple[Storage, ...]], last: dict[Storage, int]) -> None:
    """What becomes a parameter's `.grad` stays to the end; it is made when it is not what a gradient is in."""
    for at, instruction in enumerate(instructions):
        if instruction.grad is not None:
            if instruction.grad not in last:
                makes[at] = (*makes[at], instruction.grad)
            last[instruction.grad] = len(instructions)
