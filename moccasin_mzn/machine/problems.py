"""Problems of several memories: from costs of paging and devices, from memories of one device, from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.files import load_json
from moccasin_mzn.base.vocabulary import Objective
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.platforms import (
    CopyCosts,
    Device,
    MemoryPool,
    PagingCosts,
    device_in,
    device_platform,
    paging_platform,
    parse_cost,
    parse_number,
    pool_in,
    pools_platform,
    unknown_device,
    with_slow_memory,
)
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.features import refuse_unsolved
from moccasin_mzn.problem.files.plans import goal_in, graph_of_plan, platform_of
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal

Amount = Budget | int | float | Fraction | str
"""An amount of memory, as `Budget.of` takes it."""
Place = TypeVar("Place", MemoryPool, Device)
Costs = Mapping[str, object]
"""Costs by name, such as "out_time"; "inf" where there is no link."""


@dataclass(frozen=True)
class Described:
    """Slow memory and devices as arguments of `moccasin_mzn.solve` describe them; None: not given."""

    paging: PagingCosts | Costs | None = None
    slow_memory: Amount | None = None
    devices: Mapping[str, Device | Amount | None] | None = None
    copies: CopyCosts | Costs | None = None
    goal: Goal | Objective | Callable[[int], Goal] = "duration"
    """Or what makes a goal of the duration of the input order with every node computed once."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """What people know the costs by, such as "paging: out_time", where that is something else."""


def several_memories_problem(
    graph: ComputationGraph,
    budget: Amount | None,
    described: Described,
    *,
    form: str = "staged",
    order: str | PathLike[str] | Iterable[int | str] = "input",
    max_computations: int | Sequence[int] | str | None = None,
    count_fixed: bool = False,
    whole: ComputationGraph | None = None,
) -> tuple[PlanProblem, PlanFormulation]:
    """Return the problem and its formulation; the arguments are those of `moccasin_mzn.solve`.

    Args:
        whole: the graph of whose peak fractions are; None: `graph`.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    most, devices = 2 if max_computations is None else max_computations, described.devices
    slow_memory = described.slow_memory
    costs = None if described.paging is None else paging_costs(described.paging, described.spelled)
    if slow_memory is not None and costs is None:
        raise InputError("slow memory goes with paging")
    if devices is None:
        if budget is None:
            raise InputError("budget: expected one, of local memory")
        assert costs is not None
        instance = Instance.build(graph, budget, order=order, max_computations=most, count_fixed=count_fixed)
        capacity = capacity_of(slow_memory, _peak(instance, whole))
        platform = paging_platform(graph, max(0, instance.budget), costs, capacity)
        return _formulated(_towards(described.goal, PlanProblem(instance, platform)), form, *PLAN_FORMULATIONS)
    if budget is not None or count_fixed:
        raise InputError(f"{'count fixed' if budget is None else 'budget'} is for one memory: each device has its own")
    chosen = {name: _described("device", name, given, Device, device_in) for name, given in devices.items()}
    for (
        name,
        device,
    ) in chosen.items():  # where the graph names devices, another name is more likely misspelt than meant
        if name not in (graph.device_durations or chosen) and device.computes and device.slowness is None:
            raise unknown_device(graph, name)
    first = next((device.budget for device in chosen.values()), None)
    instance = Instance.build(graph, first or "100%", order=order, max_computations=most)
    peak = _peak(instance, whole)
    if first is not None and whole is not None:
        instance = replace(instance, budget=first.resolve(peak))
    platform = device_platform(graph, chosen, _copy_costs(described.copies or {}, described.spelled), peak)
    if costs is not None:
        out, back = (
            None if time is None else CopyCosts(time, 0, energy)
            for time, energy in ((costs.out_time, costs.out_energy), (costs.in_time, costs.in_energy))
        )
        platform = with_slow_memory(platform, capacity_of(slow_memory, peak), out, back)
    return _formulated(_towards(described.goal, PlanProblem(instance, platform)), form, MachineFormulation)


def pools_problem(
    graph: ComputationGraph, pools: Mapping[str, MemoryPool | Amount | None], form: str,
    order: str | PathLike[str] | Iterable[int | str], most: int | Sequence[int] | str | None,
    goal: Goal | Objective | Callable[[int], Goal] = "duration", whole: ComputationGraph | None = None,
) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
    """Return the problem of one device with several memories, and its formulation.

    Args:
        whole: the graph of whose peak fractions are; None: `graph`.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    most = 2 if most is None else most
    chosen = pools_of(pools)
    instance = Instance.build(graph, "100%", order=order, max_computations=most)
    platform = pools_platform(graph, chosen, _peak(instance, whole))
    return _formulated(_towards(goal, PlanProblem(instance, platform)), form, MachineFormulation)


def _peak(instance: Instance, whole: ComputationGraph | None) -> int:
    """The peak that fractions refer to: that of a problem in its input order, or of whole layers where it has parts."""
    if whole is None:
        return instance.baseline.peak
    return Instance.build(whole, "100%").baseline.peak


def pools_of(given: Mapping[str, MemoryPool | Amount | None]) -> dict[str, MemoryPool]:
    """Return the memories of one device from how they are given.

    Raises:
        InputError: there is none, or nonsense as a budget or an access.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"memories: expected values by name, got {shown(given)}")
    if not given:
        raise InputError("no memory: expected one or more")
    return {name: _described("memory", name, pool, MemoryPool, pool_in) for name, pool in given.items()}


def _described(
    what: str, name: str, given: Place | Amount | None, kind: type[Place], read: Callable[[str, str], Place]
) -> Place:
    """What a caller gives for a memory or a device: itself, its text, or its budget alone."""
    value = plain(given)
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        return read(name, value)
    with located(f"{what} {name}"):
        return kind(value)


PLAN_FORMULATIONS: tuple[type[PlanFormulation], ...] = PagingFormulation, MachineFormulation
"""All formulations of several memories: the last one handles all, those before it are faster special cases."""


def _formulated(problem: PlanProblem, form: str, *kinds: type[PlanFormulation]) -> tuple[PlanProblem, PlanFormulation]:
    """A problem, and the first of some formulations that handles all features of it.

    Raises:
        InputError: none does, or there is no form of that name.
    """
    refuse_unsolved(problem.features, [kind() for kind in kinds])
    kind = next((kind for kind in kinds if kind.takes(problem)), kinds[-1])
    return problem, kind.of(form)


def _towards(goal: Goal | Objective | Callable[[int], Goal], problem: PlanProblem) -> PlanProblem:
    """The problem with its goal, which may be relative to the baseline's duration."""
    given = goal(problem.baseline_duration) if callable(goal) else goal
    return replace(problem, goal=given if isinstance(given, Goal) else Goal(given))


def paging_costs(given: PagingCosts | Costs, spelled: Mapping[str, str] = MappingProxyType({})) -> PagingCosts:
    """Costs of paging by name, as `moccasin_mzn.solve` takes them.

    Raises:
        InputError: nonsense in one of them, or none of writing.
    """
    if isinstance(given, PagingCosts):
        return given
    values, label = _exact_costs("paging", PagingCosts, given, spelled)
    if "out_time" not in values:
        paging, out_time = spelled.get("paging", "paging"), label["out_time"].removeprefix("paging: ")
        raise InputError(f"{paging}: give {out_time}, the duration of writing per size unit (0 if it takes none)")
    back = {f"in_{cost}": values[f"out_{cost}"] for cost in ("time", "energy") if f"out_{cost}" in values}
    return PagingCosts(**back | values)


def _copy_costs(given: CopyCosts | Costs, spelled: Mapping[str, str]) -> CopyCosts | None:
    """Costs of copies by name; None: nothing can be copied."""
    if isinstance(given, CopyCosts):
        return given
    values, label = _exact_costs("copies", CopyCosts, given, spelled)
    if isinstance(values.get("latency"), Fraction):
        raise InputError(f"{label['latency']} {given['latency']}: expected an integer of 0 or more")
    return None if None in values.values() else CopyCosts(**values)


def capacity_of(given: Amount | None, peak: int) -> int | None:
    """Return the capacity of slow memory, in size units; None: there is no limit.

    Raises:
        InputError: it is no amount of memory.
    """
    if given is None:
        return None
    return 0 if str(given).strip() == "0" else Budget.of(given).resolve(peak)


def _exact_costs(
    what: str, kind: type[PagingCosts] | type[CopyCosts], given: Costs, spelled: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Exact numbers by name of the cost, None for "inf"; and how messages call each cost."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what} {shown(given)}: expected {kind.__name__} or a mapping of costs by name")
    names = [part.name for part in fields(kind)]
    for name in given:
        if name not in names:
            raise InputError(f"{what}: unknown cost {shown(name)}, expected some of {', '.join(names)}")
    label = {name: spelled.get(f"{what}: {name}", f"{what}: {name}") for name in names}
    return {
        name: _exact(label[name], value, name.endswith(("time", "latency"))) for name, value in given.items()
    }, label


def _exact(what: str, value: object, infinite: bool) -> object:
    """A number as people mean it, 0.1 as a tenth; None: "inf". Others are left to the checks of what they are for."""
    value = plain(value)
    if not isinstance(value, str | float):
        return value
    number = parse_cost(what, str(value)) if infinite else parse_number(what, str(value))
    return int(number) if number is not None and number.denominator == 1 else number


# --- A platform as the file of a plan has it -------------------------------------------------------------------


def problem_in_file(
    graph: ComputationGraph,
    order: str | PathLike[str] | Iterable[int | str],
    path: Path,
    form: str,
    most: int | Sequence[int] | str,
) -> tuple[PlanProblem, PlanFormulation]:
    """The problem of a platform and a goal as a plan's file has them, and its formulation.

    Raises:
        InputError: the file cannot be read or is broken.
    """
    document = load_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected an object, got {shown(document)}")
    with located(path):
        if graph_of_plan(document, graph) is not graph:
            raise InputError("it is of an older version, in which the outputs of an operation are one: solve once more")
        platform, goal = platform_of(graph, document.get("platform")), goal_in(document.get("goal"))
    instance = Instance.build(graph, "100%", order=order, max_computations=most)
    with located(path):
        problem = PlanProblem(instance, platform, goal)
        kinds = PLAN_FORMULATIONS[document.get("formulation") != PagingFormulation.name :]
        return _formulated(problem, form, *kinds)
