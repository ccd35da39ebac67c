"""The command `compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError

if TYPE_CHECKING:
    from moccasin_mzn.heuristics.compiled_searches import CompiledSearch


def searches() -> tuple[CompiledSearch, ...]:
    """All there are."""
    from moccasin_mzn.extensions.addresses import ADDRESSES
    from moccasin_mzn.extensions.paging import PAGING
    from moccasin_mzn.heuristics.compiled_searches import FREE, LOCAL, ORDERS
    from moccasin_mzn.strategies.dtr import EVICTIONS

    return LOCAL, ORDERS, FREE, PAGING, ADDRESSES, EVICTIONS


@command("compile")
def compile_searches() -> int:
    """Compile the searches, which else the first run that needs them does, and keep them on disk."""
    from moccasin_mzn.heuristics.compiled_searches import NOT_KEPT, ready
    from moccasin_mzn.heuristics.compiling import keeps

    if not keeps():
        raise InputError(NOT_KEPT.removeprefix("note: "))
    for search in searches():
        seconds = ready(search)
        click.echo(f"{search.name}: compiled in {seconds:.0f} s" if seconds else f"{search.name}: was compiled already")
    return EXIT_FOUND
