"""The command `list`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from moccasin_mzn.commands.common import EXIT_FOUND


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def list_methods(as_json: bool) -> int:
    """List formulations, strategies and solvers, and what each guarantees."""
    from moccasin_mzn.catalogue import entries
    from moccasin_mzn.minizinc.solvers import known_solvers
    from moccasin_mzn.report import print_catalogue

    solvers = known_solvers()
    if as_json:
        click.echo(json.dumps({"methods": [asdict(entry) for entry in entries()], "solvers": solvers}))
    else:
        print_catalogue(entries(), solvers, sys.stdout)
    return EXIT_FOUND
