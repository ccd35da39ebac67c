"""What the commands `deploy ...` that begin with a plan or a graph share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from moccasin_mzn.cli.typed import added, effort

PLAN = click.argument("plan", type=click.Path(path_type=Path))


def output(help_text: str) -> Callable[[Any], Any]:
    """The option --output, without which there is nothing to do."""
    return click.option(
        "--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE", help=help_text
    )  # fmt: skip


PLANNING = added(
    click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="With a graph: most memory of the arena."),
    click.option("--alignment", type=click.IntRange(min=1), metavar="N",
                 help="Offsets are multiples of it.  [default: the plan's own]"),
    effort("Of a search for a schedule or for offsets.  [default: 10]"),
)  # fmt: skip
