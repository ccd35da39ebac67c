"""A plan as a list of instructions: what is called in which order with which values.

Values that share memory have the same `Storage`. Nothing here runs or measures anything; see `liveness` and `emission`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch import slow_memory

if TYPE_CHECKING:
    from torch import fx


@dataclass(eq=False)
class Storage:
    """Some memory."""

    bytes: int
    given: str | None = None
    """What kind of placeholder it belongs to; None: the program makes it."""
    slow: bool = False
    """Is it slow memory?"""


@dataclass(eq=False)
class Value:
    """What an instruction gives, or what is given."""

    storage: Storage | None
    """None: it is no tensor."""
    given: fx.Node | None = None
    """The placeholder or attribute that it is."""
    fake: Any = field(default=None, repr=False)
    """A tensor without memory that it is like, where it is a tensor."""


@dataclass(eq=False)
class Instruction:
    """One call."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    value: Value
    """What it gives: a tensor, or several, which further instructions take apart."""
    makes: tuple[Storage, ...] = ()
    """The memory that it allocates."""
    workspace: int = 0
    """Bytes that it takes beside that while it runs."""
    pure: bool = False
    """It need not be called if nothing reads what it gives."""
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


def values_in(arguments: Any) -> list[Value]:
    """The values among arguments, however deep."""
    if isinstance(arguments, Value):
        return [arguments]
    if isinstance(arguments, Mapping):
        arguments = arguments.values()
    elif not isinstance(arguments, (tuple, list)):
        return []
    return [value for each in arguments for value in values_in(each)]


def needed(instructions: Sequence[Instruction], results: Iterable[Value]) -> list[Instruction]:
    """Without the pure ones whose value nothing reads."""
    read = set(results)
    found = []
    for instruction in reversed(instructions):
        if not instruction.pure or instruction.value in read:
            found.append(instruction)
            read.update(instruction.reads)
    return found[::-1]


def settled(forward: list[Instruction], backward: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """With what waits for each write to slow memory, right after the last use of the memory that is written."""
    both = [*forward, *backward]
    last = {value.storage: at for at, each in enumerate(both) for value in (*each.reads, each.value)}
    after: dict[int, list[Instruction]] = {}
    for each in both:
        if each.target is slow_memory.write_out:
            waiting = Instruction(slow_memory.settled, (each.value, *each.args), {}, Value(None))
            after.setdefault(last[each.args[0].storage], []).append(waiting)

    def part(places: range) -> list[Instruction]:
        return [each for at in places for each in (both[at], *after.get(at, ()))]

    return part(range(len(forward))), part(range(len(forward), len(both)))
