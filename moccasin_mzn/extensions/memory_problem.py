"""What the options for several memories ask for: the problem, the formulation, and how to search."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError, shown

if TYPE_CHECKING:
    from moccasin_mzn.formulations.plan_formulation import PlanFormulation
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.plan_problem import PlanProblem
    from moccasin_mzn.search.options import SearchOptions

_SEARCHING = ("solver", "search", "time_limit", "until_gap", "threads", "seed")
_ASKING = ("formulation", "max_computations", "warm_start")
DEVICE_NAMES = ("device", "copy_time", "copy_latency", "copy_energy")
"""Names of the options of devices."""
_COPY_COSTS = {name.removeprefix("copy_"): name for name in DEVICE_NAMES[1:]}
_PAGING_COSTS = {f"{way}_{cost}": f"page_{way}_{cost}" for way in ("out", "in") for cost in ("time", "energy")}
_PAGING_COSTS["power"] = "compute_power"
"""Names of options by name of the cost."""
_LIMITS = ("max_duration", "max_energy", "max_traffic")
PLATFORM_NAMES = ("paging", "slow_memory", *_PAGING_COSTS.values(), "objective", *_LIMITS, "platform", *DEVICE_NAMES)
"""Names of all options for several memories."""
TAKEN = frozenset((*_SEARCHING, *_ASKING))
"""Options of one memory that go with several."""


def asks_for_platform(given: dict[str, Any]) -> bool:
    """Is there slow memory, or are there devices?

    Raises:
        InputError: neither, but an option that is about them.
    """
    for needed, names in (("device", DEVICE_NAMES), ("paging", [n for n in given if n.startswith(("page_", "slow_"))])):
        for name in names:
            if name in given and needed not in given:
                raise InputError(f"--{name.replace('_', '-')} is for --{needed}")
    if {"paging", "device", "platform"} & given.keys():
        return True
    if given:
        raise InputError(f"--{next(iter(given)).replace('_', '-')} is for --paging or --device")
    return False


def refuse_others(options: dict[str, Any], given: dict[str, Any], more: frozenset[str] = frozenset()) -> None:
    """Refuse what is for one memory only.

    Args:
        options: those that are there, by name.
        given: of the options for several memories, those that are there.
        more: what goes with several memories besides `TAKEN`.

    Raises:
        InputError: the first of them.
    """
    asked = "--device" if "device" in given else "--paging"
    for name in options:
        if name not in TAKEN | more:
            raise InputError(f"--{name.replace('_', '-')} is for one memory, it does not go with {asked}")


def plan_options(options: dict[str, Any]) -> SearchOptions:
    """How to search, of all options that are there.

    Raises:
        InputError: see `SearchOptions`.
    """
    from moccasin_mzn.search.options import SearchOptions, parse_gap

    chosen = {name: options[name] for name in _SEARCHING if name in options}
    if "until_gap" in chosen:
        chosen["until_gap"] = parse_gap(chosen["until_gap"])
    return SearchOptions(**chosen)


def platform_problem(
    graph: ComputationGraph, budget: str | None, order: str, count_fixed: bool, given: dict[str, Any],
    options: dict[str, Any],
) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
    """What is to be planned, and the formulation for it.

    Args:
        budget: of local memory; None with devices, each of which has its own.
        given: of the options for several memories, those that are there.
        options: all others that are there.

    Raises:
        InputError: nonsense in an option, or options that do not go together.
    """
    from moccasin_mzn.extensions.devices.build import CopyCosts, exact
    from moccasin_mzn.extensions.paging.build import PagingCosts, parse_cost
    from moccasin_mzn.extensions.platforms import asked_problem

    if "platform" in given:
        return _problem_in_file(graph, order, given["platform"], options)
    paging, devices, copies = None, None, None
    if "paging" in given:
        paging = _costs(PagingCosts, given, "--paging", _PAGING_COSTS, parse_cost)
    if "device" in given:
        if budget is not None:
            raise InputError("--budget is for one memory: with --device each has its own")
        if count_fixed:
            raise InputError("--count-fixed is for one memory, it does not go with --device")
        devices, copies = _devices(given), _costs(CopyCosts, given, "--device", _COPY_COSTS, exact) or {"time": "inf"}
    return asked_problem(
        graph, budget, paging=paging, slow_memory=given.get("slow_memory"), devices=devices, copies=copies,
        goal=lambda duration: goal_of(given, duration), form=options.get("formulation", "staged"), order=order,
        max_computations=_counts(graph, options), count_fixed=count_fixed,
    )  # fmt: skip


def _counts(graph: ComputationGraph, options: dict[str, Any]) -> Any:
    from moccasin_mzn.problem.files.counts import read_counts
    from moccasin_mzn.search.options import parse_count

    most = parse_count(options["max_computations"]) if "max_computations" in options else 2
    return read_counts(most, graph) if isinstance(most, Path) else most


def _problem_in_file(
    graph: ComputationGraph, order: str, path: Path, options: dict[str, Any]
) -> tuple[PlanProblem, PlanFormulation]:
    """A platform and a goal as a plan's file has them, and which formulation they are for.

    Raises:
        InputError: the file cannot be read or is broken.
    """
    from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
    from moccasin_mzn.extensions.paging.formulation import PagingFormulation
    from moccasin_mzn.files import load_json
    from moccasin_mzn.problem.files.plans import goal_in, platform_of
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.problem.plan_problem import PlanProblem

    document = load_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected an object, got {shown(document)}")
    try:
        platform, goal = platform_of(graph, document.get("platform")), goal_in(document.get("goal"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    form = options.get("formulation", "staged")
    paging = document.get("formulation") == PagingFormulation.name
    formulation = PagingFormulation(form) if paging else DevicesFormulation(form == "staged")
    instance = Instance.build(graph, "100%", order=order, max_computations=_counts(graph, options))
    return PlanProblem(instance, platform, goal), formulation


_LIMIT = re.compile(r"[0-9]{1,30}", re.ASCII)
_PERCENT = re.compile(r"\+\s*([0-9]{1,6}(?:\.[0-9]{1,30})?)\s*%", re.ASCII)


def goal_of(given: dict[str, Any], baseline_duration: int) -> Any:
    """The `Goal` that the options say.

    Args:
        baseline_duration: of the input order with every node computed once, for a limit such as +5%.
    """
    from moccasin_mzn.problem.platform import Goal

    limits = {}
    for what in _LIMITS:
        if what in given:
            base = baseline_duration if what == "max_duration" else None
            limits[what] = _limit(f"--{what.replace('_', '-')}", given[what], base)
    return Goal(given.get("objective", "duration"), **limits)


def _limit(option: str, text: str, base: int | None) -> int:
    percent = _PERCENT.fullmatch(text.strip())
    if percent is not None and base is not None:
        return math.floor(base * (1 + Fraction(percent[1]) / 100))
    if not _LIMIT.fullmatch(text.strip()):
        more = "" if base is None else ", or an increase such as +5%"
        raise InputError(f"{option} {shown(text)}: expected an integer of 0 or more{more}")
    return int(text)


def _devices(given: dict[str, Any]) -> dict[str, Any]:
    from moccasin_mzn.extensions.devices.build import exact, parse_device

    power = exact("--compute-power", given["compute_power"]) if "compute_power" in given else Fraction(1)
    devices: dict[str, Any] = {}
    for text in given["device"]:
        name, device = parse_device(text)
        if name in devices:
            raise InputError(f"device {name} is given twice")
        devices[name] = replace(device, power=power)
    return devices


def first_device_swept(devices: tuple[str, ...], budget: str = "inf") -> tuple[str, ...]:
    """Devices with the first one, NAME or NAME:K, given `budget`, as that is what is varied.

    Raises:
        InputError: it has one.
    """
    name, told, slowness = devices[0].partition(":")
    if "=" in name:
        name = name.partition("=")[0]
        raise InputError(f"device {name}: its budget is what is varied: give its name alone, --device {name}")
    return (f"{name}={budget}{told}{slowness}", *devices[1:])


def _costs(kind: Any, given: dict[str, Any], what: str, options: dict[str, str], read: Callable) -> Any:
    """The costs that the options say, by what they are called there."""
    from moccasin_mzn.extensions.platforms import costs_of

    values = {name: given[option] for name, option in options.items() if option in given}
    shown_as = {name: f"--{option.replace('_', '-')}" for name, option in options.items()}
    return costs_of(kind, values, what, shown_as, read)
