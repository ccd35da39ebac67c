"""The peak of a plan's memory, to the byte: what is live at each instruction, as Python frees it, and its workspace.

Parameters, buffers and inputs do not count. Outputs count from the cut to the end, and so do the tangents, as whoever
calls the backward pass holds them; gradients stay once they are made. What gradients are added to, `.grad`, is there
before and does not count; if it is not, the gradients become it, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from moccasin_mzn.pytorch.instructions import Instruction, Linear, Storage
from moccasin_mzn.pytorch.joint import TANGENT


@dataclass(frozen=True)
class Peaks:
    """Bytes."""

    forward: int
    """With workspaces, as the allocator has it."""
    backward: int
    kept: int
    """Live at the cut: outputs, and what the backward pass reads."""
    tangents: int
    storages: int
    """The most of both passes without workspaces: what operators have returned."""
    first: int
    """With workspaces, in a step that makes the `.grad` that gradients are added to; without such as any step."""
    slow: int = 0
    """The most in slow memory."""

    @property
    def whole(self) -> int:
        """With workspaces."""
        return max(self.forward, self.backward)


def peaks(plan: Linear) -> Peaks:
    """The most memory that a plan takes, in each of its halves."""
    found = _peaks(plan, first=False)
    return replace(found, first=_peaks(plan, first=True).whole) if plan.added else found


def _peaks(plan: Linear, first: bool) -> Peaks:
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
        if storage.given is None and not storage.slow:
            ending[at] = ending.get(at, 0) + storage.bytes
    tangents = sum(v.storage.bytes for v in plan.given.values() if v.storage and v.storage.given == TANGENT)
    cut, live, most, storages, kept = len(plan.forward), 0, [0, 0], 0, 0
    for at, instruction in enumerate(instructions):
        if at == cut:
            kept, live = live, live + tangents
        live += sum(storage.bytes for storage in makes[at] if not storage.slow)
        most[at >= cut] = max(most[at >= cut], live + instruction.workspace)
        storages = max(storages, live)
        live -= ending.get(at, 0)
    slow = _slow(instructions, last)
    most[1] = max(most[1], live)
    return Peaks(most[0], most[1], kept, tangents, max(storages, live), max(most), slow)


def _slow(instructions: Sequence[Instruction], last: Mapping[Storage, int]) -> int:
    changes = [0] * (len(instructions) + 1)
    for at, instruction in enumerate(instructions):
        for storage in instruction.makes:
            if storage.slow:
                changes[at] += storage.bytes
                changes[last[storage] + 1] -= storage.bytes
    return max(accumulate(changes))


def _keep_grads(instructions: list[Instruction], makes: list[tuple[Storage, ...]], last: dict[Storage, int]) -> None:
    """What becomes a parameter's `.grad` stays to the end; it is made when it is not what a gradient is in."""
    for at, instruction in enumerate(instructions):
        if instruction.grad is not None:
            if instruction.grad not in last:
                makes[at] = (*makes[at], instruction.grad)
            last[instruction.grad] = len(instructions)
