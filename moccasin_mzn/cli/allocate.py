"""The command `allocate`: offsets for buffers in the least arena."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.cli.common import EXIT_BAD_INPUT, EXIT_FOUND, EXIT_NONE, check_outputs, file_jobs, write_files
from moccasin_mzn.cli.options import command, effort

if TYPE_CHECKING:
    from moccasin_mzn.problem.arena import Arena

MOST_SHOWN = 20
"""The most buffers whose offsets `allocate` prints where no file gets them."""


@command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--capacity",
    metavar="BYTES|256KiB",
    help="Find an arena of at most this size, in place of the smallest; exit status 1 if none is found.",
)
@click.option("--alignment", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Offsets are multiples of it.")  # fmt: skip
@effort("Seconds for the search.  [default: as long as it makes progress]", seed=0)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the CSV with offsets.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def allocate(
    file: Path, capacity: str | None, alignment: int, time_limit: float | None, threads: int | None, seed: int,
    output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Give the buffers in FILE, a CSV in the format of minimalloc, offsets in one arena, as small as possible.

    A buffer with an offset in the file stays there; a hint in the file is where the search starts. During its gaps a
    buffer takes no memory, or only a window of its size. Ctrl-C ends the search and keeps the best arena found.
    """
    from moccasin_mzn.base.files import load_text
    from moccasin_mzn.base.formatting import over_text
    from moccasin_mzn.heuristics.compiled_searches import seconds_spent
    from moccasin_mzn.machine.addresses.allocate import allocate_buffers
    from moccasin_mzn.problem.arena import capacity_of, check_alignment
    from moccasin_mzn.problem.files.buffers import parse_buffers, placed_text
    from moccasin_mzn.search.options import Effort

    begin, limits = time.monotonic(), Effort(time_limit, threads, seed)
    check_alignment(alignment)
    check_outputs({"--output": output}, {"the file of buffers": file})
    most, text = capacity_of(capacity), load_text(file)
    buffers = parse_buffers(text, file, alignment, most)
    with stopped_by_signals():
        allocation = allocate_buffers(buffers, alignment, capacity=most, effort=limits)
    arena, enough = allocation.arena, most is None or allocation.arena.size <= most
    seconds = round(time.monotonic() - begin - seconds_spent(), 3)
    files = file_jobs((output if enough else None, lambda: placed_text(text, arena.offsets)))
    all_written = write_files(files)
    if as_json:
        sys.stdout.write(json.dumps({**allocation.document(most), "seconds": seconds}) + "\n")
    else:
        _print_arena(arena, allocation.bound, allocation.status, seconds)
        if enough and output is None and len(buffers) <= MOST_SHOWN:
            _print_offsets(arena)
    if not enough and most is not None:
        click.echo(f"no arena: {arena.size:,} is {over_text(arena.size, most, 'unit', 'the capacity')}", err=True)
        return EXIT_NONE
    return EXIT_FOUND if all_written else EXIT_BAD_INPUT


def _print_arena(arena: Arena, bound: int, status: str, seconds: float) -> None:
    from moccasin_mzn.base.formatting import count_text

    click.echo(f"{count_text(len(arena.buffers), 'buffer')}, most memory at a time {arena.peak:,}")
    click.echo(f"arena {arena.size:,}, fragmentation {arena.fragmentation_percent:.3f} %, no arena is below {bound:,}")
    click.echo(f"{status} after {seconds:.2f} s")


def _print_offsets(arena: Arena) -> None:
    from moccasin_mzn.report.tables import console, plain_table, print_table

    table = plain_table(None, ("buffer", "from", "until before", "size", "offset"), left=("buffer",))
    for buffer, offset in zip(arena.buffers, arena.offsets, strict=True):
        amounts = (buffer.start, buffer.end, buffer.size, offset)
        table.add_row(buffer.name, *(f"{amount:,}" for amount in amounts))
    print_table(console(sys.stdout), table)
