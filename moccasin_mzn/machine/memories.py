"""Options about several memories, as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Self

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.option import flag, option
from moccasin_mzn.base.vocabulary import Objective
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import (
    CopyCosts,
    Device,
    MemoryPool,
    PagingCosts,
    exact,
    parse_device,
    parse_pool,
)
from moccasin_mzn.machine.problems import (
    Amount,
    Described,
    pools_problem,
    problem_in_file,
    several_memories_problem,
)
from moccasin_mzn.problem.files.schedules import counts_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal
from moccasin_mzn.search.options import SearchOptions

TAKEN = frozenset((*(part.name for part in fields(SearchOptions)), "formulation", "max_computations", "warm_start"))
"""Options of one memory that go with several."""
LEAST = "least"
"""A budget: the smallest for which an answer is found; of several memories that of the first one may be it."""
DESCRIBING = "platform", "device", "memory", "paging"
"""Options that describe several memories, each by itself; the others are about these."""
SLOW, BOTH, DEVICES = "Slow memory", "With slow memory or devices", "Several devices"
POOLS = "Several memories of one device"
COSTS = {
    "paging": {
        "out_time": "page_out_time", "in_time": "page_in_time", "out_energy": "page_out_energy",
        "in_energy": "page_in_energy", "power": "compute_power",
    },
    "copies": {"time": "copy_time", "latency": "copy_latency", "energy": "copy_energy"},
}  # fmt: skip
"""Names of costs in `moccasin_mzn.solve` and names of their options, by argument of `solve`."""
_SPELLED = {f"{what}: {cost}": flag(name) for what, costs in COSTS.items() for cost, name in costs.items()}
_SPELLED["paging"] = "--paging"


@dataclass(frozen=True)
class MemoryOptions:
    """Options for more than one memory, some of which are given; None, False or empty: not given. `of` makes them.

    Raises:
        InputError: an option without the one that it is about.
    """

    paging: bool = option(
        False, "", "Add a slow memory, to which outputs may be written and from which they are read back.",
        kind=bool, group=SLOW, flags=("--paging", ""),
    )  # fmt: skip
    slow_memory: str | None = option(
        None, "BYTES|64GiB", "Capacity of the slow memory.  [default: unlimited]", group=SLOW
    )
    page_out_time: str | None = option(
        None, "X", "Duration of writing a unit of size to the slow memory; inf: not possible.", group=SLOW
    )
    page_in_time: str | None = option(None, "X", "Duration of reading it back.  [default: that of writing]", group=SLOW)
    page_out_energy: str | None = option(None, "X", "Energy of writing a unit of size.  [default: 0]", group=SLOW)
    page_in_energy: str | None = option(None, "X", "Energy of reading it back.  [default: that of writing]", group=SLOW)
    compute_power: str | None = option(
        None, "P", "Energy of a unit of duration of computing.  [default: 1]", group=BOTH
    )
    objective: Objective | None = option(
        None,
        "duration|energy|traffic",
        "What to minimize: the total duration, energy, or traffic between memories.  [default: duration]",
        group=BOTH,
    )
    max_duration: str | None = option(
        None, "N|+5%", "A limit on the duration, or on its increase; goes with --memory too.", group=BOTH
    )
    max_energy: str | None = option(None, "N", "A limit on the energy.", group=BOTH)
    max_traffic: str | None = option(
        None, "N", "A limit on what is copied between memories, in units of size.", group=BOTH
    )
    platform: Path | None = option(
        None, "FILE", "Memories, links and goal as in the file of a plan, in place of all these.", kind=Path
    )
    device: tuple[str, ...] = option(
        (), "NAME=BUDGET[:K]",
        "A device and the budget of its memory, such as gpu=0.8; once for each device, in place of --budget. K: the "
        "device is K times slower than the graph's durations; inf: it only stores. The first one may have the budget "
        "least.", multiple=True, group=DEVICES,
    )  # fmt: skip
    copy_time: str | None = option(
        None, "X", "Duration of copying a unit of size between devices; inf: not possible.  [default: 0]", group=DEVICES
    )
    copy_latency: str | None = option(
        None, "N", "Duration of each copy, whatever its size, in addition.  [default: 0]", group=DEVICES
    )
    copy_energy: str | None = option(None, "X", "Energy of copying a unit of size.  [default: 0]", group=DEVICES)
    memory: tuple[str, ...] = option(
        (), "NAME=BUDGET[:X]",
        "A memory that the device reads and writes in, such as fast=128KiB or slow=8MiB:4; once for each memory, in "
        "place of --budget; the first one may have the budget least. Each output lies in one of them. X: duration of "
        "reading or writing a unit of size there.",
        multiple=True, group=POOLS,
    )  # fmt: skip

    def __post_init__(self) -> None:
        given = [name for name in self.given() if name != "platform"]
        if given and self.platform is not None:
            raise InputError(f"{flag(given[0])} does not go with --platform, whose file has memories, links and goal")
        for name in given:
            if name in COSTS["copies"].values() and not self.device:
                raise InputError(f"{flag(name)} is for --device")
            if name.startswith(("page_", "slow_")) and not self.paging:
                raise InputError(f"{flag(name)} is for --paging")
            if name not in ("memory", "max_duration") and self.memory:
                raise InputError(f"{flag(name)} is for --paging or --device, not for --memory")
        if given and not set(DESCRIBING).intersection(given):
            raise InputError(f"{flag(given[0])} is for --paging or --device")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self | None:
        """Make options of values by name; None: none is given, there is one memory.

        Raises:
            InputError: see the class.
        """
        found = cls(**options)
        return found if found.given() else None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self | None:
        """Take these out of a command's options; see `of`."""
        return cls.of({part.name: options.pop(part.name) for part in fields(cls)})

    def swept(self) -> Self:
        """Return the options where the first device, or memory, is given by its name alone: its budget is varied."""
        return replace(self, device=first_swept(self.device), memory=first_swept(self.memory, what="memory"))

    def given(self) -> dict[str, Any]:
        """Return the options that are given, by name."""
        return {name: value for name, value in vars(self).items() if value not in (None, False, ())}

    @property
    def own_budgets(self) -> bool:
        """True if each memory has a budget of its own, in place of `--budget`."""
        return bool(self.device or self.memory) or self.platform is not None

    @property
    def is_least(self) -> bool:
        """True if the least budget of the first memory is sought."""
        return any(_is_least(texts[0].partition("=")[2]) for texts in (self.device, self.memory) if texts)

    def refuse_others(self, names: Iterable[str]) -> None:
        """Refuse what is for one memory only.

        Raises:
            InputError: the first of these names that does not go with several.
        """
        refuse_of_one_memory(names, flag, self._what_has_several)

    @property
    def _what_has_several(self) -> str:
        return next(flag(name) for name in DESCRIBING if name in self.given())

    def _refuse_one_budget(self, budget: Amount | None, count_fixed: bool) -> None:
        """Refuse options about the budget of one memory where each has its own."""
        for given, name in ((budget is not None, "--budget"), (count_fixed, "--count-fixed")):
            if given and self.own_budgets:
                raise InputError(f"{name} is for one memory: with {self._what_has_several} each has its own budget")

    def problem(
        self,
        graph: ComputationGraph,
        options: Mapping[str, Any],
        *,
        budget: Amount | None,
        order: str | PathLike[str] | Iterable[int | str],
        count_fixed: bool = False,
        whole: ComputationGraph | None = None,
    ) -> tuple[PlanProblem, PlanFormulation]:
        """Return the problem and its formulation.

        Args:
            options: all others that are there, by name.
            budget: of local memory; None where each memory has its own.
            whole: the graph of whole layers, of whose peak fractions are, where `graph` is one of parts.

        Raises:
            InputError: nonsense in an option, or options that do not go together.
        """
        form, most = options.get("formulation", "staged"), counts_of(options.get("max_computations", 2), graph)
        self._refuse_one_budget(budget, count_fixed)
        if self.platform is not None:
            return problem_in_file(graph, order, self.platform, form, most)
        if self.memory:
            return pools_problem(graph, self._pools(), form, order, most, self._goal, whole)
        described = Described(
            self._costs("paging") if self.paging else None, self.slow_memory,
            self._devices() if self.device else None, self._costs("copies"), self._goal, _SPELLED,
        )  # fmt: skip
        return several_memories_problem(
            graph, budget, described, form=form, order=order, max_computations=most, count_fixed=count_fixed,
            whole=whole,
        )  # fmt: skip

    def _costs(self, what: str) -> dict[str, str]:
        costs = {cost: getattr(self, name) for cost, name in COSTS[what].items()}
        return {cost: value for cost, value in costs.items() if value is not None}

    def _devices(self) -> dict[str, Device]:
        power = Fraction(1) if self.compute_power is None else exact("--compute-power", self.compute_power)
        devices: dict[str, Device] = {}
        for text in self.device if not self.is_least else _unlimited(self.device):
            name, device = parse_device(text)
            if name in devices:
                raise InputError(f"device {name} is given twice")
            devices[name] = replace(device, power=power)
        return devices

    def _pools(self) -> dict[str, MemoryPool]:
        pools: dict[str, MemoryPool] = {}
        for text in self.memory if not self.is_least else _unlimited(self.memory):
            name, pool = parse_pool(text)
            if name in pools:
                raise InputError(f"memory {name} is given twice")
            pools[name] = pool
        return pools

    def _goal(self, baseline_duration: int) -> Goal:
        """The `Goal`; an increase such as +5% is of `Problem.baseline_duration`."""
        limits = {
            name: _limit(flag(name), value, baseline_duration if name == "max_duration" else None)
            for name, value in self.given().items()
            if name.startswith("max_")
        }
        return Goal(self.objective or "duration", **limits)


@dataclass(frozen=True)
class MemoriesGiven:
    """Several memories as arguments of `moccasin_mzn.solve` describe them; None: not given. `of` makes them.

    Raises:
        InputError: an argument without the one that it is about, or with one that it does not go with.
    """

    paging: PagingCosts | Mapping[str, object] | None = None
    slow_memory: Amount | None = None
    devices: Mapping[str, Device | Amount | None] | None = None
    copies: CopyCosts | Mapping[str, object] | None = None
    memories: Mapping[str, MemoryPool | Amount | None] | None = None
    goal: Goal | Objective | None = None

    def __post_init__(self) -> None:
        names = self.given().keys()
        if names and names.isdisjoint(("paging", "devices", "memories")):
            raise InputError(f"{next(iter(names)).replace('_', ' ')} goes with paging or devices")
        if self.memories is not None and (others := names - {"memories", "goal"}):
            raise InputError(f"{min(others).replace('_', ' ')} does not go with memories of one device")

    @classmethod
    def of(cls, *arguments: Any) -> Self | None:
        """Make it of the arguments in their order; None: none is given, there is one memory.

        Raises:
            InputError: see the class.
        """
        found = cls(*arguments)
        return found if found.given() else None

    def given(self) -> dict[str, Any]:
        """Return the arguments that are given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def own_budgets(self) -> bool:
        """True if each memory has a budget of its own."""
        return self.devices is not None or self.memories is not None

    @property
    def is_least(self) -> bool:
        """True if the least budget of the first memory is sought."""
        given: Mapping[str, Any] = (self.devices if self.memories is None else self.memories) or {}
        return _is_least(next(iter(given.values()), None))

    def _with_budgets(self) -> MemoriesGiven:
        """The same, where a least budget is no limit: it is sought from above."""
        if not self.is_least:
            return self
        what = "devices" if self.memories is None else "memories"
        (name, value), *others = self.given()[what].items()
        changed: dict[str, Any] = {what: {name: "inf" + str(value).strip().removeprefix(LEAST), **dict(others)}}
        return replace(self, **changed)

    def refuse_others(self, names: Iterable[str]) -> None:
        """Refuse what is for one memory only.

        Raises:
            InputError: the first of these names that does not go with several.
        """
        refuse_of_one_memory(names, lambda name: name.replace("_", " "), "a plan of several")

    def problem(
        self, graph: ComputationGraph, options: Mapping[str, Any], *, budget: Amount | None, order: Any,
        count_fixed: bool = False, whole: ComputationGraph | None = None,
    ) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
        """Return the problem and its formulation, see `MemoryOptions.problem`.

        Raises:
            InputError: nonsense in an argument, or arguments that do not go together.
        """
        form, most = options.get("formulation", "staged"), counts_of(options.get("max_computations"), graph)
        given = self._with_budgets()
        if given.memories is None:
            return several_memories_problem(
                graph, budget, Described(**given.given()), form=form, max_computations=most, order=order,
                count_fixed=count_fixed, whole=whole,
            )  # fmt: skip
        if budget is not None or count_fixed:
            what = "count fixed" if budget is None else "budget"
            raise InputError(f"{what} is for one memory: each of several has its own")
        return pools_problem(graph, given.memories, form, order, most, self.goal or "duration", whole)


def _is_least(budget: object) -> bool:
    """Whether a budget, perhaps with what an access takes or a slowness, is the least one."""
    return isinstance(budget, str) and budget.partition(":")[0].strip() == LEAST


def _unlimited(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Devices or memories whose first one has no budget in place of the least."""
    name, _, value = texts[0].partition("=")
    return f"{name}=inf{value.strip().removeprefix(LEAST)}", *texts[1:]


def refuse_of_one_memory(names: Iterable[str], spelled: Callable[[str], str], several: str) -> None:
    """Refuse the first of some options that is for one memory only.

    Args:
        spelled: how the user writes the name of an option.
        several: what has several memories.

    Raises:
        InputError: there is one.
    """
    for name in names:
        if name not in TAKEN:
            raise InputError(f"{spelled(name)} is for one memory, it does not go with {several}")


def first_swept(devices: tuple[str, ...], budget: str = "inf", what: str = "device") -> tuple[str, ...]:
    """Devices, or memories, with the first one, NAME or NAME:K, given `budget`, as that is what is varied.

    Raises:
        InputError: it has one, or no name.
    """
    if not devices:
        return ()
    name, colon, slowness = devices[0].partition(":")
    if not name.strip():
        raise InputError(f"{what} {shown(devices[0])}: expected a name; its budget is what is varied")
    if "=" in name:
        name = name.partition("=")[0]
        raise InputError(f"{what} {name}: its budget is what is varied: give its name alone, --{what} {name}")
    return (f"{name}={budget}{colon}{slowness}", *devices[1:])


_LIMIT = re.compile(r"[0-9]{1,30}", re.ASCII)
_PERCENT = re.compile(r"\+\s*([0-9]{1,6}(?:\.[0-9]{1,30})?)\s*%", re.ASCII)


def _limit(option: str, text: str, base: int | None) -> int:
    percent = _PERCENT.fullmatch(text.strip())
    if percent is not None and base is not None:
        return math.floor(base * (1 + Fraction(percent[1]) / 100))
    if not _LIMIT.fullmatch(text.strip()):
        more = "" if base is None else ", or an increase such as +5%"
        raise InputError(f"{option} {shown(text)}: expected an integer of 0 or more{more}")
    return int(text)
