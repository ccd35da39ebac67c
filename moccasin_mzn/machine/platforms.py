"""Platforms of several devices, of one and slow memory, or of one with several memories, from budgets, slowness and
costs per unit of size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moccasin_mzn.base.arguments import named
from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.platform import Link, Memory, Platform, scaled


@named
@dataclass(frozen=True)
class CopyCosts:
    """Costs of copying an output, each rounded up to an integer.

    Raises:
        InputError: a negative one.
    """

    time: Fraction = Fraction(0)
    """Per unit of size, in the graph's duration unit."""
    latency: int = 0
    """The fixed duration of each copy, in the graph's duration unit."""
    energy: Fraction = Fraction(0)
    """Per unit of size, in any unit."""

    if TYPE_CHECKING:  # what is taken; the fields are what it becomes

        def __init__(self, time: Fraction | float = 0, latency: int = 0, energy: Fraction | float = 0) -> None: ...

    def __post_init__(self) -> None:
        for what, value in list(vars(self).items()):
            object.__setattr__(self, what, value := _number(value))
            if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
                raise InputError(f"copy {what} {shown(value)} is not a number of 0 or more")
        if type(self.latency) is not int:
            raise InputError(f"copy latency {shown(self.latency)} is not an integer of 0 or more")


@named
@dataclass(frozen=True)
class Device:
    """One device as a user describes it.

    Raises:
        InputError: a factor or power that is no number of 0 or more; nonsense as a budget.
    """

    budget: Budget | None = None
    """The budget of its memory; a fraction is of the input order's peak. None: as much as there may be."""
    slowness: Fraction | None = None
    """Durations are the graph's, times this, rounded up, in place of the graph's durations of this device."""
    computes: bool = True
    """False: infinitely slow, its memory alone is of use."""
    power: Fraction = Fraction(1)
    """Energy of computing per unit of duration."""

    if TYPE_CHECKING:

        def __init__(
            self,
            budget: Budget | int | float | Fraction | str | None = None,
            slowness: Fraction | float | None = None,
            computes: bool = True,
            power: Fraction | float = 1,
        ) -> None: ...

    def __post_init__(self) -> None:
        for what in ("slowness", "power"):
            value = _number(getattr(self, what))
            if value is not None and (type(value) not in (int, Fraction) or value < 0):
                raise InputError(f"device: {what} {shown(value)} is not a number of 0 or more")
            object.__setattr__(self, what, value)
        object.__setattr__(self, "computes", plain(self.computes))
        if type(self.computes) is not bool:
            raise InputError(f"device: computes {shown(self.computes)} is not true or false")
        object.__setattr__(self, "budget", _budget(self.budget))


def device_platform(
    graph: ComputationGraph, devices: Mapping[str, Device], copies: CopyCosts | None, peak: int
) -> Platform:  # fmt: skip
    """Devices that are all linked to each other, if copies are possible.

    Durations on a device are `graph.device_durations`; those of the first device are `graph.durations` if the graph
    does not name it.

    Args:
        devices: by name.
        copies: None: nothing can be copied from one to another.
        peak: of the input order, in the graph's size unit, for budgets that are fractions.

    Raises:
        InputError: no device; one that the graph has no durations of; a node that no device can compute.
    """
    if not devices:
        raise InputError("no device: expected one or more")
    memories: list[Memory] = []
    for name, device in devices.items():
        durations = _durations(graph, name, device, first=not memories)
        energies = tuple(None if time is None else math.ceil(time * device.power) for time in durations)
        budget = None if device.budget is None else device.budget.resolve(peak)
        memories.append(Memory(name, budget, durations, energies))
    if copies is None:
        return Platform(graph, tuple(memories), ())
    times, energies = scaled(graph.sizes, copies.time, copies.latency), scaled(graph.sizes, copies.energy)
    count = len(memories)
    links = [Link(a, b, times, energies) for a in range(count) for b in range(count) if a != b]
    return Platform(graph, tuple(memories), tuple(links))


def with_slow_memory(
    platform: Platform, capacity: int | None, out_costs: CopyCosts | None, in_costs: CopyCosts | None
) -> Platform:  # fmt: skip
    """Return a platform with slow memory added, linked to all its memories.

    Args:
        capacity: in the graph's size unit; None: as much as there may be.
        out_costs, in_costs: costs of writing to slow memory and of reading back; None: not possible.

    Raises:
        InputError: a device is called "slow".
    """
    sizes, slow = platform.graph.sizes, len(platform.memories)
    links = list(platform.links)
    for m in range(slow):
        for ends, costs in (((m, slow), out_costs), ((slow, m), in_costs)):
            if costs is not None:
                links.append(Link(*ends, scaled(sizes, costs.time, costs.latency), scaled(sizes, costs.energy)))
    return Platform(platform.graph, (*platform.memories, Memory("slow", capacity)), tuple(links))


def _durations(graph: ComputationGraph, name: str, device: Device, first: bool) -> tuple[int | None, ...]:
    if not device.computes:
        return (None,) * len(graph.nodes)
    if device.slowness is not None:
        return scaled(graph.durations, device.slowness)
    if name in graph.device_durations:
        return graph.device_durations[name]
    if first:
        return graph.durations
    raise unknown_device(graph, name)


def unknown_device(graph: ComputationGraph, name: str) -> InputError:
    """Return the error for durations that the graph does not have."""
    known = ", ".join(graph.device_durations) or "none"
    expected = f"expected one of them, or a slowness, as in {name}=16GiB:4"
    return InputError(f"device {name}: the graph has durations of {known}; {expected}")


def _budget(given: Budget | int | float | Fraction | str | None) -> Budget | None:
    """A budget, where None and "inf" mean that there is none."""
    return None if given is None or str(given).strip() == "inf" else Budget.of(given)


def _number(value: Any) -> Any:
    """Convert as `plain` does, and a finite float to the number that it is written as: 0.1 to a tenth."""
    value = plain(value)
    return Fraction(repr(value)) if type(value) is float and math.isfinite(value) else value


def parse_device(text: str) -> tuple[str, Device]:
    """Read NAME=BUDGET or NAME=BUDGET:SLOWNESS, as in gpu=0.8, cpu=16GiB:4, cpu=inf:inf.

    Raises:
        InputError: it is neither.
    """
    name, is_there, value = text.partition("=")
    if not name.strip() or not is_there or not value.partition(":")[0].strip():
        wrong = f"device {shown(text)}: expected NAME=BUDGET, such as gpu=0.8 or cpu=16GiB:4"
        raise InputError(Page.DEVICES.after(wrong))
    return name.strip(), device_in(name.strip(), value)


def device_in(name: str, value: str) -> Device:
    """Read the BUDGET or BUDGET:SLOWNESS of a device; an "inf" is no budget, or a device that computes nothing.

    Raises:
        InputError: it is neither.
    """
    budget, colon, slowness = value.partition(":")
    stores_only = slowness.strip() == "inf"
    factor = exact(f"slowness of device {name}", slowness) if colon and not stores_only else None
    with located(f"device {name}"):
        return Device(budget, factor, computes=not stores_only)


@named
@dataclass(frozen=True)
class MemoryPool:
    """One of several memories of one device, as a user describes it.

    Raises:
        InputError: an access that is no number of 0 or more; nonsense as a budget.
    """

    budget: Budget | None = None
    """The memory's budget; a fraction is of the input order's peak. None: as much as there may be."""
    access: Fraction = Fraction(0)
    """What reading or writing a unit of size takes, in the graph's duration unit."""

    if TYPE_CHECKING:

        def __init__(
            self, budget: Budget | int | float | Fraction | str | None = None, access: Fraction | float = 0
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "access", value := _number(self.access))
        if type(value) not in (int, Fraction) or value < 0:
            raise InputError(f"memory: access {shown(value)} is not a number of 0 or more")
        object.__setattr__(self, "budget", _budget(self.budget))


def pools_platform(graph: ComputationGraph, pools: Mapping[str, MemoryPool], peak: int) -> Platform:
    """Return a device that reads and writes in several memories.

    Args:
        pools: by name.
        peak: of the input order, in the graph's size unit, for budgets that are fractions.

    Raises:
        InputError: no memory, or one whose name or accesses make no sense.
    """
    memories = tuple(
        Memory(
            name, None if pool.budget is None else pool.budget.resolve(peak), graph.durations,
            accesses=scaled(graph.sizes, Fraction(pool.access)),
        )
        for name, pool in pools.items()
    )  # fmt: skip
    return Platform(graph, memories, devices=(0,) * len(memories))


def parse_pool(text: str) -> tuple[str, MemoryPool]:
    """Read NAME=BUDGET or NAME=BUDGET:ACCESS, as in fast=128KiB, slow=8MiB:4.

    Raises:
        InputError: it is neither.
    """
    name, is_there, value = text.partition("=")
    if not name.strip() or not is_there or not value.partition(":")[0].strip():
        wrong = f"memory {shown(text)}: expected NAME=BUDGET, such as fast=128KiB or slow=8MiB:4"
        wrong += "" if is_there else "; of one memory the budget is --budget"
        raise InputError(Page.POOLS.after(wrong))
    return name.strip(), pool_in(name.strip(), value)


def pool_in(name: str, value: str) -> MemoryPool:
    """Read the BUDGET or BUDGET:ACCESS of a memory of one device; "inf" is no budget.

    Raises:
        InputError: it is neither.
    """
    budget, colon, access = value.partition(":")
    cost = parse_number(f"access of memory {name}", access) if colon else Fraction(0)
    with located(f"memory {name}"):
        return MemoryPool(budget, cost)


def exact(what: str, text: str) -> Fraction:
    """A decimal number of 0 or more, exactly.

    Raises:
        InputError: it is not one.
    """
    plain = text.strip().replace(".", "", 1)
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 30):
        raise InputError(f"{what} {shown(text)}: expected a number of 0 or more, such as 0.25")
    return Fraction(text.strip())


# --- A platform of one device and slow memory, from costs per unit of size ------------------------------------


LOCAL, SLOW = 0, 1
"""Positions of the two memories."""
_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


@named
@dataclass(frozen=True)
class PagingCosts:
    """Costs per unit of size; the cost of an output is rounded up to an integer.

    Raises:
        InputError: a negative one, or one that is no exact number.
    """

    out_time: Fraction | None = Fraction(0)
    """The duration of writing to slow memory, in the graph's duration unit; None: nothing can be written."""
    in_time: Fraction | None = Fraction(0)
    """The duration of reading back; None: nothing can be read back."""
    out_energy: Fraction = Fraction(0)
    """The energy of writing, in any unit."""
    in_energy: Fraction = Fraction(0)
    power: Fraction = Fraction(1)
    """Energy of computing per unit of duration."""

    if TYPE_CHECKING:

        def __init__(
            self,
            out_time: Fraction | float | None = 0,
            in_time: Fraction | float | None = 0,
            out_energy: Fraction | float = 0,
            in_energy: Fraction | float = 0,
            power: Fraction | float = 1,
        ) -> None: ...

    def __post_init__(self) -> None:
        for what, value in list(vars(self).items()):
            object.__setattr__(self, what, value := _number(value))
            if value is None and what in ("out_time", "in_time"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
                raise InputError(f"{what.replace('_', ' ')} {shown(value)} is not an exact number of 0 or more")

    def ways(self) -> tuple[CopyCosts | None, CopyCosts | None]:
        """Costs of writing and of reading back; None: not possible."""
        out = None if self.out_time is None else CopyCosts(self.out_time, energy=self.out_energy)
        return out, None if self.in_time is None else CopyCosts(self.in_time, energy=self.in_energy)


def paging_platform(
    graph: ComputationGraph, budget: int, costs: PagingCosts, slow_capacity: int | None = None
) -> Platform:
    """Return a platform of one device with `budget`, and slow memory.

    Args:
        budget: of local memory, in the graph's size unit.
        slow_capacity: in the graph's size unit; None: as much as there may be.
    """
    energies = tuple(math.ceil(duration * costs.power) for duration in graph.durations)
    local = Memory("local", budget, graph.durations, energies)
    return with_slow_memory(Platform(graph, (local,)), slow_capacity, *costs.ways())


def parse_cost(what: str, text: str) -> Fraction | None:
    """Read a cost per unit of size, exactly: 3, 0.25, 1e-6; "inf": None, not possible.

    Raises:
        InputError: it is no such number.
    """
    return None if text.strip() == "inf" else parse_number(what, text, ", or inf")


def parse_number(what: str, text: str, otherwise: str = "") -> Fraction:
    """Read a number of 0 or more, exactly: 3, 0.25, 1e-6.

    Args:
        otherwise: what else may be there, for the message.

    Raises:
        InputError: it is not one.
    """
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f"{what} {shown(text)}: expected a number of 0 or more, such as 0.25{otherwise}")
    return Fraction(text.strip())
