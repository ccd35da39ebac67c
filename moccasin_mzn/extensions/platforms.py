"""A problem of several memories, from what is said of paging and of devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from os import PathLike
from typing import Any

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
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal

Amount = Budget | int | float | Fraction | str
"""Of memory, as `Budget.of` takes it."""


def asked_problem(
    graph: ComputationGraph, budget: Amount | None, *, paging: PagingCosts | Mapping[str, Any] | None = None,
    slow_memory: Amount | None = None, devices: Mapping[str, Device | Amount | None] | None = None,
    copies: CopyCosts | Mapping[str, Any] | None = None, goal: Goal | str | Callable[[int], Goal] = "duration",
    form: str = "staged", order: str | PathLike[str] | Sequence[int] = "input",
    max_computations: int | Sequence[int] | str | None = None, count_fixed: bool = False,
) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
    """What is to be planned, and the formulation for it; the arguments are those of `moccasin_mzn.solve`.

    Args:
        goal: or what makes one of the duration of the input order with every node computed once.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    goal = Goal(goal) if isinstance(goal, str) else goal
    costs = None if paging is None else costs_of(PagingCosts, paging, "paging")
    if slow_memory is not None and costs is None:
        raise InputError("slow memory goes with paging")
    most = 2 if max_computations is None else max_computations
    how: dict[str, Any] = {"order": order, "max_computations": most, "count_fixed": count_fixed}
    if devices is None:
        if budget is None:
            raise InputError("budget: expected one, of local memory")
        assert costs is not None
        instance = Instance.build(graph, budget, **how)
        capacity = _capacity(slow_memory, instance.baseline.peak)
        platform = paging_platform(graph, max(0, instance.budget), costs, capacity)
        return PlanProblem(instance, platform, _goal(goal, instance)), PagingFormulation(form)
    if budget is not None or count_fixed:
        raise InputError(f"{'count fixed' if budget is None else 'budget'} is for one memory: each device has its own")
    if form not in ("staged", "general"):
        raise InputError(f"devices are formulated as staged or general, not as {form}")
    asked = {name: _device(name, given) for name, given in devices.items()}
    for name, device in asked.items():  # where the graph names devices, another name is more likely misspelt than meant
        if name not in (graph.device_durations or asked) and device.computes and device.slowness is None:
            raise unknown_device(graph, name)
    first = next((device.budget for device in asked.values()), None)
    instance = Instance.build(graph, first or "100%", **how)
    peak = instance.baseline.peak
    platform = device_platform(graph, asked, costs_of(CopyCosts, copies or {}, "copies"), peak)
    if costs is not None:
        platform = with_slow_memory(platform, _capacity(slow_memory, peak), *costs.ways())
    return PlanProblem(instance, platform, _goal(goal, instance)), DevicesFormulation(form == "staged")


def _goal(given: Goal | Callable[[int], Goal], instance: Instance) -> Goal:
    return given if isinstance(given, Goal) else given(instance.baseline.duration)


def _device(name: str, given: Device | Amount | None) -> Device:
    if given is None or isinstance(given, Device):
        return given or Device()
    return parse_device(f"{name}={given}")[1] if isinstance(given, str) else Device(Budget.of(given))


def _capacity(given: Amount | None, peak: int) -> int | None:
    """In size units; None: as much as there may be."""
    if given is None:
        return None
    return 0 if str(given).strip() == "0" else Budget.of(given).resolve(peak)


def costs_of(
    kind: Any, given: Any, what: str, options: Mapping[str, str] | None = None, read: Callable = parse_cost
) -> Any:
    """An object of costs; None: nothing can be copied.

    Args:
        kind: `PagingCosts` or `CopyCosts`.
        given: one of them, or costs by name; text and floats are read as people mean them, 0.1 as a tenth.
        options: names of the costs in messages.
        read: what reads a number other than inf.

    Raises:
        InputError: nonsense; no time of writing.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"{what} {shown(given)}: expected {kind.__name__} or a mapping of costs by name")
    names = list(kind.__dataclass_fields__)
    values = dict[str, Any]()
    for name, value in given.items():
        if name not in names:
            raise InputError(f"{what}: unknown cost {shown(name)}, expected some of {', '.join(names)}")
        values[name] = _exact(options[name] if options else f"{what}: {name}", name, value, read)
    if kind is CopyCosts:
        return None if None in values.values() else CopyCosts(**values)
    if "out_time" not in values:
        name = options["out_time"] if options else "out_time"
        raise InputError(f"{what}: give {name}, the duration of writing per size unit (0 if it takes none)")
    back = {f"in_{cost}": values[f"out_{cost}"] for cost in ("time", "energy") if f"out_{cost}" in values}
    return kind(**back | values)


def _exact(what: str, name: str, value: Any, read: Callable) -> Any:
    """A number; None: there is no link. What is neither text nor a float is left to the checks of what it is for."""
    if not isinstance(value, str | float):
        return value
    if str(value).strip() == "inf":
        if not name.endswith(("time", "latency")):
            raise InputError(f"{what} inf: expected a number; a time of inf says that there is no link")
        return None
    number = read(what, str(value))
    if name == "latency" and number.denominator != 1:
        raise InputError(f"{what} {value}: expected an integer of 0 or more")
    return int(number) if number.denominator == 1 else number
