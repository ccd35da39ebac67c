"""A problem of several memories, from what is said of paging and of devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from os import PathLike
from types import MappingProxyType
from typing import Any

from moccasin_mzn.checks import plain
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.extensions.devices.build import (
    CopyCosts,
    Device,
    device_platform,
    parse_device,
    unknown_device,
    with_slow_memory,
)
from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
from moccasin_mzn.extensions.paging.build import PagingCosts, paging_platform, parse_cost
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import refuse_workspaces
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal

Amount = Budget | int | float | Fraction | str
"""Of memory, as `Budget.of` takes it."""


def asked_problem(
    graph: ComputationGraph,
    budget: Amount | None,
    *,
    paging: PagingCosts | Mapping[str, Any] | None = None,
    slow_memory: Amount | None = None,
    devices: Mapping[str, Device | Amount | None] | None = None,
    copies: CopyCosts | Mapping[str, Any] | None = None,
    goal: Goal | str | Callable[[int], Goal] = "duration",
    form: str = "staged",
    order: str | PathLike[str] | Sequence[int] = "input",
    max_computations: int | Sequence[int] | str | None = None,
    count_fixed: bool = False,
    spelled: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PlanProblem, PlanFormulation]:
    """What is to be planned, and the formulation for it; the arguments are those of `moccasin_mzn.solve`.

    Args:
        goal: or what makes one of the duration of the input order with every node computed once.
        spelled: what people know the costs by, such as "paging: out_time", where that is something else.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    goal = Goal(goal) if isinstance(goal, str) else goal
    costs = None if paging is None else paging_costs(paging, spelled)
    if slow_memory is not None and costs is None:
        raise InputError("slow memory goes with paging")
    most = 2 if max_computations is None else max_computations
    how: dict[str, Any] = {"order": order, "max_computations": most, "count_fixed": count_fixed}
    if devices is None:
        if budget is None:
            raise InputError("budget: expected one, of local memory")
        assert costs is not None
        instance = Instance.build(graph, budget, **how)
        capacity = capacity_of(slow_memory, instance.baseline.peak)
        platform = paging_platform(graph, max(0, instance.budget), costs, capacity)
        return PlanProblem(instance, platform, _goal(goal, instance)), PagingFormulation(form)
    if budget is not None or count_fixed:
        raise InputError(f"{'count fixed' if budget is None else 'budget'} is for one memory: each device has its own")
    if form not in ("staged", "general"):
        raise InputError(f"devices are formulated as staged or general, not as {form}")
    refuse_workspaces(graph, "plans for several devices")
    asked = {name: _device(name, given) for name, given in devices.items()}
    for name, device in asked.items():  # where the graph names devices, another name is more likely misspelt than meant
        if name not in (graph.device_durations or asked) and device.computes and device.slowness is None:
            raise unknown_device(graph, name)
    first = next((device.budget for device in asked.values()), None)
    instance = Instance.build(graph, first or "100%", **how)
    peak = instance.baseline.peak
    platform = device_platform(graph, asked, _costs("copies", CopyCosts, copies or {}, spelled), peak)
    if costs is not None:
        out, back = (
            None if time is None else CopyCosts(time, 0, energy)
            for time, energy in ((costs.out_time, costs.out_energy), (costs.in_time, costs.in_energy))
        )
        platform = with_slow_memory(platform, capacity_of(slow_memory, peak), out, back)
    return PlanProblem(instance, platform, _goal(goal, instance)), DevicesFormulation(form == "staged")


def _goal(given: Goal | Callable[[int], Goal], instance: Instance) -> Goal:
    return given if isinstance(given, Goal) else given(instance.baseline.duration)


def _device(name: str, given: Device | Amount | None) -> Device:
    if given is None or isinstance(given, Device):
        return given or Device()
    amount = plain(given)
    return parse_device(f"{name}={amount}")[1] if isinstance(amount, str) else Device(Budget.of(amount))


def paging_costs(
    given: PagingCosts | Mapping[str, Any], spelled: Mapping[str, str] = MappingProxyType({})
) -> PagingCosts:
    """Costs of paging by name, as `moccasin_mzn.solve` takes them.

    Raises:
        InputError: nonsense in one of them, or none of writing.
    """
    return _costs("paging", PagingCosts, given, spelled)


def capacity_of(given: Amount | None, peak: int) -> int | None:
    """Of slow memory, in size units; None: as much as there may be.

    Raises:
        InputError: it is no amount of memory.
    """
    if given is None:
        return None
    return 0 if str(given).strip() == "0" else Budget.of(given).resolve(peak)


def _costs(what: str, kind: Any, given: Any, spelled: Mapping[str, str]) -> Any:
    """An object of costs, from a mapping of their names to exact numbers; None: nothing can be copied."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"{what} {shown(given)}: expected {kind.__name__} or a mapping of costs by name")
    names = list(kind.__dataclass_fields__)
    for name in given:
        if name not in names:
            raise InputError(f"{what}: unknown cost {shown(name)}, expected some of {', '.join(names)}")
    label = {name: spelled.get(f"{what}: {name}", f"{what}: {name}") for name in names}
    values = {name: _exact(label[name], value, name.endswith(("time", "latency"))) for name, value in given.items()}
    if kind is CopyCosts:
        latency = values.get("latency")
        if isinstance(latency, Fraction):
            raise InputError(f"{label['latency']} {given['latency']}: expected an integer of 0 or more")
        return None if None in values.values() else CopyCosts(**values)
    if "out_time" not in values:
        told = spelled.get("paging", "paging"), label["out_time"].removeprefix("paging: ")
        raise InputError("{}: give {}, the duration of writing per size unit (0 if it takes none)".format(*told))
    back = {f"in_{cost}": values[f"out_{cost}"] for cost in ("time", "energy") if f"out_{cost}" in values}
    return kind(**back | values)


def _exact(what: str, value: Any, infinite: bool) -> Any:
    """A number as people mean it, 0.1 as a tenth; None: "inf". Others are left to the checks of what they are for."""
    value = plain(value)
    if not isinstance(value, str | float):
        return value
    number = parse_cost(what, str(value))
    if number is None and not infinite:
        raise InputError(f"{what} inf: expected a number; a time of inf says that there is no link")
    return int(number) if number is not None and number.denominator == 1 else number
