"""The command `list`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError


@command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def list_methods(as_json: bool) -> int:
    """List formulations, strategies and solvers, and what each guarantees; without MiniZinc there are no solvers."""
    from moccasin_mzn.report.schedules import print_catalogue
    from moccasin_mzn.search.catalogue import entries
    from moccasin_mzn.solvers.minizinc.solvers import solver_list

    solvers, problem = [], ""
    try:
        solvers = solver_list()
    except InputError as error:
        problem = str(error)
    if as_json:
        told = {
            "methods": [asdict(entry) for entry in entries()],
            "solvers": [solver.name for solver in solvers],
            "solver_versions": [asdict(solver) for solver in solvers],
            **({"no_solvers": problem} if problem else {}),
        }
        click.echo(json.dumps(told))
    else:
        print_catalogue(entries(), solvers, sys.stdout)
        if problem:
            click.echo(f"--solver, for formulations: none; {problem}")
    return EXIT_FOUND
