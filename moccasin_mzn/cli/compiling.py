"""The command `compile`."""

from __future__ import annotations

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError


@command("compile")
def compile_searches() -> int:
    """Compile the searches, which else the first run that needs them does, and keep them on disk."""
    from moccasin_mzn.cli.compiled_searches import NOT_KEPT, SEARCHES, ready
    from moccasin_mzn.heuristics.compiling import keeps

    if not keeps():
        raise InputError(NOT_KEPT.removeprefix("note: "))
    for name in SEARCHES:
        seconds = ready(name)
        click.echo(f"{name}: compiled in {seconds:.0f} s" if seconds else f"{name}: was compiled already")
    return EXIT_FOUND
