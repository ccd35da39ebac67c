"""Options of `solve` for slow memory and several devices, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from cloup import option, option_group

from moccasin_mzn.extensions.memory_problem import PLATFORM_NAMES

DEVICE_OPTIONS = (
    option("--device", multiple=True, metavar="NAME=BUDGET[:K]",
                 help="A device and its memory, such as gpu=0.8; once for each, in place of --budget. K: that many "
                 "times slower than the graph's durations, inf: computes nothing."),
    option("--copy-time", metavar="X",
                 help="Duration of a copy between devices per size unit; inf: not possible.  [default: 0]"),
    option("--copy-latency", metavar="N", help="Duration of each copy besides; inf: not possible.  [default: 0]"),
    option("--copy-energy", metavar="X", help="Energy of a copy per size unit.  [default: 0]"),
)  # fmt: skip


_PAGING = (
    option("--paging", is_flag=True, help="There is slow memory to write outputs to and read them back from."),
    option("--slow-memory", metavar="BYTES|64GiB", help="Capacity of slow memory.  [default: none]"),
    option("--page-out-time", metavar="X",
                 help="Duration of writing to slow memory per size unit; inf: not possible."),
    option("--page-in-time", metavar="X", help="The same of reading back.  [default: that of writing]"),
    option("--page-out-energy", metavar="X", help="Energy of writing per size unit.  [default: 0]"),
    option("--page-in-energy", metavar="X", help="The same of reading back.  [default: that of writing]"),
)  # fmt: skip
_GOAL = (
    option("--compute-power", metavar="P", help="Energy of computing per unit of duration.  [default: 1]"),
    option("--objective", metavar="duration|energy|traffic",
                 help="What is to be least.  [default: duration]"),
    option("--max-duration", metavar="N|+5%", help="With another objective: most duration, or increase of it."),
    option("--max-energy", metavar="N", help="Most energy."),
    option("--max-traffic", metavar="N", help="Most that is copied between memories, in size units."),
)  # fmt: skip
_FILE = option("--platform", type=click.Path(path_type=Path), hidden=True,
               help="Memories, links and goal as in the file of a plan, in place of all these.")  # fmt: skip
GROUPS = {
    "Slow memory": _PAGING,
    "Several devices": DEVICE_OPTIONS,
    "With slow memory or devices": _GOAL,
}
"""In the order of the help text."""


def platform_options(command: Callable) -> Callable:
    """Adds the options to a command."""
    for title, options in reversed(GROUPS.items()):
        command = option_group(title, *options)(command)
    return _FILE(command)


def taken_out(options: dict[str, Any]) -> dict[str, Any]:
    """The values of these options that are given, removed from those of a command."""
    found = {name: options.pop(name) for name in PLATFORM_NAMES}
    return {name: value for name, value in found.items() if value not in (None, False, ())}


def require_budget(budget: str | None, given: dict[str, Any]) -> None:
    """Only devices have budgets of their own, and a platform in a file.

    Raises:
        click.MissingParameter: no budget, and no device.
    """
    if budget is None and not {"device", "platform"} & given.keys():
        raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'--budget'", param_type="option")
