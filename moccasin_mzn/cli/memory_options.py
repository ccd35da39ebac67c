"""Options of `solve` for slow memory and several devices, and what they ask for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import click

from moccasin_mzn.cli.device_options import DEVICE_NAMES, DEVICE_OPTIONS
from moccasin_mzn.errors import InputError, shown

_LIMIT = re.compile(r"[0-9]{1,30}", re.ASCII)
_PERCENT = re.compile(r"\+\s*([0-9]{1,6}(?:\.[0-9]{1,30})?)\s*%", re.ASCII)

_PAGING = (
    click.option("--paging", is_flag=True, help="There is slow memory to write outputs to and read them back from."),
    click.option("--slow-memory", metavar="BYTES|64GiB", help="Capacity of slow memory.  [default: none]"),
    click.option("--page-out-time", metavar="X",
                 help="Duration of writing to slow memory per size unit; inf: not possible."),
    click.option("--page-in-time", metavar="X", help="The same of reading back.  [default: that of writing]"),
    click.option("--page-out-energy", metavar="X", help="Energy of writing per size unit.  [default: 0]"),
    click.option("--page-in-energy", metavar="X", help="The same of reading back.  [default: that of writing]"),
)  # fmt: skip
_GOAL = (
    click.option("--compute-power", metavar="P", help="Energy of computing per unit of duration.  [default: 1]"),
    click.option("--objective", metavar="duration|energy|traffic",
                 help="With slow memory or devices: what is to be least.  [default: duration]"),
    click.option("--max-duration", metavar="N|+5%", help="With another objective: most duration, or increase of it."),
    click.option("--max-energy", metavar="N", help="Most energy."),
    click.option("--max-traffic", metavar="N", help="Most that is copied between memories, in size units."),
)  # fmt: skip
GROUPS = (DEVICE_OPTIONS, _PAGING, _GOAL)
"""In the order of the help text."""


def platform_options(command: Callable) -> Callable:
    """Adds the options to a command."""
    for option in reversed([option for group in GROUPS for option in group]):
        command = option(command)
    return command


PLATFORM_NAMES = (
    "paging", "slow_memory", "page_out_time", "page_in_time", "page_out_energy", "page_in_energy", "compute_power",
    "objective", "max_duration", "max_energy", "max_traffic", *DEVICE_NAMES,
)  # fmt: skip
"""Names of their values."""


def taken_out(options: dict[str, Any]) -> dict[str, Any]:
    """The values of these options that are given, removed from those of a command."""
    found = {name: options.pop(name) for name in PLATFORM_NAMES}
    return {name: value for name, value in found.items() if value not in (None, False, ())}


def require_budget(budget: str | None, given: dict[str, Any]) -> None:
    """Only devices have budgets of their own.

    Raises:
        click.MissingParameter: no budget, and no device.
    """
    if budget is None and "device" not in given:
        raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'--budget'", param_type="option")


def asks_for_platform(given: dict[str, Any]) -> bool:
    """Is there slow memory, or are there devices?

    Raises:
        InputError: neither, but an option that is about them.
    """
    for needed, names in (("device", DEVICE_NAMES), ("paging", [n for n in given if n.startswith(("page_", "slow_"))])):
        for name in names:
            if name in given and needed not in given:
                raise InputError(f"--{name.replace('_', '-')} is for --{needed}")
    if "paging" in given or "device" in given:
        return True
    if given:
        raise InputError(f"--{next(iter(given)).replace('_', '-')} is for --paging or --device")
    return False


def goal_of(given: dict[str, Any], baseline_duration: int) -> Any:
    """The `Goal` that the options say.

    Args:
        baseline_duration: of the input order with every node computed once, for a limit such as +5%.
    """
    from moccasin_mzn.problem.platform import Goal

    limits = {}
    for what in ("max_duration", "max_energy", "max_traffic"):
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


def paging_costs(given: dict[str, Any]) -> Any:
    """The `PagingCosts` that the options say.

    Raises:
        InputError: a broken number, or no time of writing.
    """
    from moccasin_mzn.extensions.paging.build import PagingCosts, parse_cost

    def cost(name: str, default: Fraction | None, finite: bool = True) -> Fraction | None:
        if name not in given:
            return default
        option = f"--{name.replace('_', '-')}"
        value = parse_cost(option, given[name])
        if value is None and finite:
            raise InputError(f"{option} inf: expected a number; a time of inf says that there is no link")
        return value

    if "page_out_time" not in given:
        raise InputError("--paging: give --page-out-time, the duration of writing per size unit (0 if it takes none)")
    out_time = cost("page_out_time", None, finite=False)
    out_energy = cost("page_out_energy", Fraction(0))
    return PagingCosts(
        out_time=out_time,
        in_time=cost("page_in_time", out_time, finite=False),
        out_energy=out_energy,
        in_energy=cost("page_in_energy", out_energy),
        power=cost("compute_power", Fraction(1)),
    )


def slow_capacity(given: dict[str, Any], peak: int) -> int | None:
    """Capacity of slow memory in size units; None: as much as there may be.

    Args:
        peak: of the input order, for a fraction of it.
    """
    from moccasin_mzn.problem.budget import Budget

    text = given.get("slow_memory")
    return None if text is None else 0 if text.strip() == "0" else Budget.parse(text).resolve(peak)
