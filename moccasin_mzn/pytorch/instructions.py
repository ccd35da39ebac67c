"""A plan as a list of instructions: what is called in which order with which values.

Values that share memory have the same `Storage`. Nothing here runs or measures anything; see `runtime` for
the code. `peaks` finds the peak of their memory to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from moccasin_mzn.pytorch import offloading
from moccasin_mzn.pytorch.joint import TANGENT, is_number

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.fx.node import Target
    from torch.utils._pytree import PyTree


@dataclass(eq=False)
class Storage:
    """Some memory."""

    bytes: int
    given: str | None = None
    """What kind of placeholder it belongs to; None: the program makes it."""
    slow: bool = False
    """Is it host memory that tensors are offloaded to?"""


@dataclass(eq=False)
class Value:
    """What an instruction gives, or what is given."""

    storage: Storage | None
    """None: it is no tensor."""
    given: fx.Node | None = None
    """The placeholder or attribute that it is."""
    fake: torch.Tensor | None = field(default=None, repr=False)
    """A tensor without memory that it is like, where it is a tensor."""


@dataclass(eq=False)
class Instruction:
    """One call."""

    target: Target
    args: tuple[PyTree, ...]
    kwargs: Mapping[str, PyTree]
    value: Value
    """What the instruction gives: a tensor, or several, which further instructions take apart."""
    makes: tuple[Storage, ...] = ()
    """The memory that it allocates."""
    workspace: int = 0
    """Bytes that it takes in addition to that while it runs."""
    pure: bool = False
    """The instruction need not be called if nothing reads what it gives."""
    node: fx.Node | None = None
    """The traced node that it is an instance of."""
    grad: Storage | None = None
    """The memory that it keeps as a parameter's `.grad`, or makes for that, if there is none yet."""

    @property
    def reads(self) -> list[Value]:
        return values_in((self.args, self.kwargs))


@dataclass(frozen=True, eq=False)
class Linear:
    """A plan."""

    forward: tuple[Instruction, ...]
    outputs: tuple[Value, ...]
    backward: tuple[Instruction, ...]
    gradients: tuple[Value | None, ...]
    given: Mapping[fx.Node, Value] = field(repr=False)
    """Placeholders and attributes."""
    added: Mapping[fx.Node, Value] = field(repr=False, default_factory=dict)
    """Parameters to whose `.grad` gradients are added."""


def values_in(arguments: PyTree) -> list[Value]:
    """The values among arguments, however deep."""
    if isinstance(arguments, Value):
        return [arguments]
    if isinstance(arguments, Mapping):
        arguments = arguments.values()
    elif not isinstance(arguments, (tuple, list)):
        return []
    return [value for each in arguments for value in values_in(each)]


def needed(instructions: Sequence[Instruction], results: Iterable[Value]) -> list[Instruction]:
    """The instructions without the pure ones whose value nothing reads."""
    read = set(results)
    found = []
    for instruction in reversed(instructions):
        if not instruction.pure or instruction.value in read:
            found.append(instruction)
            read.update(instruction.reads)
    return found[::-1]


def settled(forward: list[Instruction], backward: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """With what waits for each write to host memory, right after the last use of the memory that is written."""
    both = [*forward, *backward]
    last = {value.storage: at for at, each in enumerate(both) for value in (*each.reads, each.value)}
    after: dict[int, list[Instruction]] = {}
    for each in both:
        if each.target is offloading.write_out:
            waiting = Instruction(offloading.settled, (each.value, *each.args), {}, Value(None))
            after.setdefault(last[each.args[0].storage], []).append(waiting)

    def part(places: range) -> list[Instruction]:
        return [each for at in places for each in (both[at], *after.get(at, ()))]

    return part(range(len(forward))), part(range(len(forward), len(both)))


# --- Views of the same memory, made once for all who read them: on small tensors they take as long as what is
# computed

# A view keeps no memory longer than its last reader, who reads that memory as well.


def shared(instructions: Sequence[Instruction], results: Iterable[Value]) -> list[Instruction]:
    """With each view but once, and without those that are what they view.

    Args:
        results: values that stay, whatever they are.
    """
    import torch

    found: list[Instruction] = []
    known: dict[object, Value] = {}
    same: dict[Value, Value] = {}
    stays = set(results)
    for each in instructions:
        args, kwargs = _with(each.args, same), _with(each.kwargs, same)
        call = replace(each, args=args, kwargs=kwargs)
        if _is_view(call) and call.value not in stays:
            seen = args[0] if call.target is torch.ops.aten.detach.default else known.setdefault(_key(call), call.value)
            if seen is not call.value:
                same[call.value] = seen
                continue
        found.append(call)
    return found


def _is_view(call: Instruction) -> bool:
    storage = call.value.storage
    return call.pure and storage is not None and any(value.storage is storage for value in call.reads)


def _key(call: Instruction) -> object:
    return call.target, _part(call.args), _part(call.kwargs)


def _part(argument: PyTree) -> object:
    if isinstance(argument, (tuple, list)):
        return tuple(_part(each) for each in argument)
    if isinstance(argument, Mapping):
        return tuple((name, _part(each)) for name, each in argument.items())
    return argument if isinstance(argument, Value) else (type(argument), repr(argument))


def _with(argument: PyTree, same: Mapping[Value, Value]) -> PyTree:
    """The argument with the values that are taken instead of others."""
    if isinstance(argument, Value):
        return same.get(argument, argument)
    if isinstance(argument, (tuple, list)):
        return type(argument)(_with(each, same) for each in argument)
    if isinstance(argument, Mapping):
        return {name: _with(each, same) for name, each in argument.items()}
    return argument


# --- The peak of a plan's memory, to the byte: what is live at each instruction, as Python frees it, and its
# workspace

# Parameters, buffers and inputs do not count. Outputs count from the cut to the end, and tangents from there to their
# last read: nobody else has the gradients that a loss outside of the plan makes of outputs. Gradients stay once they
# are made. What gradients are added to, `.grad`, is there before and does not count; if it is not, the gradients
# become it, and stay.


@dataclass(frozen=True)
class Peaks:
    """Peaks of a step, in bytes above parameters, buffers and inputs."""

    forward: int
    """The peak of the forward pass at the allocator, with workspaces of operators."""
    backward: int
    """The peak of the backward pass at the allocator, with workspaces of operators."""
    kept: int
    """Live at the cut: outputs, and what the backward pass reads."""
    tangents: int
    """The gradients of the outputs, which the caller passes to the backward pass."""
    storages: int
    """The most of both passes without workspaces: what operators have returned."""
    first: int
    """With workspaces, in a step that makes the `.grad` that gradients are added to; without such as any step."""
    slow: int = 0
    """The most in host memory."""

    @property
    def whole(self) -> int:
        """The peak of the step at the allocator, with workspaces of operators."""
        return max(self.forward, self.backward)


def gradient_bytes(plan: Linear) -> int:
    """Bytes of the gradients that stay to the end of the step, whatever the plan."""
    storages = {value.storage for value in plan.gradients if value is not None and value.storage is not None}
    return sum(storage.bytes for storage in storages if storage.given is None)


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
    tangents = 0
    for node, value in plan.given.items():
        if value.storage is not None and value.storage.given == TANGENT:
            tangents += value.storage.bytes
            if value.storage in last and not is_number(node):
                ending[last[value.storage]] = ending.get(last[value.storage], 0) + value.storage.bytes
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
