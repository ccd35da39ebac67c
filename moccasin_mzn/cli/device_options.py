"""Options of `solve` for several devices, and the problem they ask for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from moccasin_mzn.errors import InputError

DEVICE_OPTIONS = (
    click.option("--device", multiple=True, metavar="NAME=BUDGET[:K]",
                 help="A device and its memory, such as gpu=0.8; once for each, in place of --budget. K: that many "
                 "times slower than the graph's durations, inf: computes nothing."),
    click.option("--copy-time", metavar="X",
                 help="Duration of a copy between devices per size unit; inf: not possible.  [default: 0]"),
    click.option("--copy-latency", metavar="N", help="Duration of each copy besides; inf: not possible.  [default: 0]"),
    click.option("--copy-energy", metavar="X", help="Energy of a copy per size unit.  [default: 0]"),
)  # fmt: skip
DEVICE_NAMES = ("device", "copy_time", "copy_latency", "copy_energy")
"""Names of their values."""
FORMS = ("staged", "general")


def device_problem(
    graph: Any, budget: str | None, order: str, count_fixed: bool, given: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    """The `PlanProblem`, and the formulation for it; see `solve_platform`.

    Raises:
        InputError: nonsense in an option, or options that do not go together.
    """
    from moccasin_mzn.cli.memory_options import goal_of, paging_costs, slow_capacity
    from moccasin_mzn.extensions.devices.build import CopyCosts, device_platform, with_slow_memory
    from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
    from moccasin_mzn.formulations.plan_formulation import PlanProblem
    from moccasin_mzn.graphs.formats import read_counts
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.search.options import parse_count

    if budget is not None:
        raise InputError("--budget is for one memory: with --device each has its own")
    if count_fixed:
        raise InputError("--count-fixed is for one memory, it does not go with --device")
    form = options.get("formulation", "staged")
    if form not in FORMS:
        raise InputError(f"devices are formulated as {' or '.join(FORMS)}, not as {form}")
    devices, copies = _devices(given), _copy_costs(given)
    _check_names(graph, devices)
    most = parse_count(options["max_computations"]) if "max_computations" in options else 2
    counts = read_counts(most, graph) if isinstance(most, Path) else most
    first = next(iter(devices.values())).budget
    instance = Instance.build(graph, first or "100%", order=order, max_computations=counts)
    peak = instance.baseline.peak
    platform = device_platform(graph, devices, copies, peak)
    if "paging" in given:
        costs = paging_costs(given)
        out, back = (
            None if time is None else CopyCosts(time, 0, energy)
            for time, energy in ((costs.out_time, costs.out_energy), (costs.in_time, costs.in_energy))
        )
        platform = with_slow_memory(platform, slow_capacity(given, peak), out, back)
    return PlanProblem(instance, platform, goal_of(given, instance.baseline.duration)), DevicesFormulation(
        form == "staged"
    )


def _devices(given: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import replace

    from moccasin_mzn.extensions.devices.build import exact, parse_device

    power = exact("--compute-power", given["compute_power"]) if "compute_power" in given else Fraction(1)
    devices: dict[str, Any] = {}
    for text in given["device"]:
        name, device = parse_device(text)
        if name in devices:
            raise InputError(f"device {name} is given twice")
        devices[name] = replace(device, power=power)
    return devices


def first_device_swept(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Devices with the first one, NAME or NAME:K, given no budget, as that is what is varied.

    Raises:
        InputError: it has one.
    """
    name, told, slowness = devices[0].partition(":")
    if "=" in name:
        name = name.partition("=")[0]
        raise InputError(f"device {name}: its budget is what is varied: give its name alone, --device {name}")
    return (f"{name}=inf{told}{slowness}", *devices[1:])


def _check_names(graph: Any, devices: dict[str, Any]) -> None:
    """Where the graph has durations by device, one that it does not name is more likely misspelt than meant.

    Raises:
        InputError: one without a slowness of its own.
    """
    known = graph.device_durations
    for name, device in devices.items():
        if known and name not in known and device.computes and device.slowness is None:
            expected = f"expected one of them, or a slowness, as in {name}=16GiB:4"
            raise InputError(f"device {name}: the graph has durations of {', '.join(known)}; {expected}")


def _copy_costs(given: dict[str, Any]) -> Any:
    """The `CopyCosts` that the options say; None: nothing can be copied.

    Raises:
        InputError: a broken number.
    """
    from moccasin_mzn.extensions.devices.build import CopyCosts, exact

    amounts, possible = {}, True
    for name in DEVICE_NAMES[1:]:
        option = f"--{name.replace('_', '-')}"
        if name not in given:
            continue
        if given[name].strip() != "inf":
            amounts[name.removeprefix("copy_")] = exact(option, given[name])
        elif name == "copy_energy":
            raise InputError(f"{option} inf: expected a number; a time of inf says that there is no link")
        else:
            possible = False
    if "latency" in amounts:
        if amounts["latency"].denominator != 1:
            raise InputError(f"--copy-latency {given['copy_latency']}: expected an integer of 0 or more")
        amounts["latency"] = int(amounts["latency"])
    return CopyCosts(**amounts) if possible else None
