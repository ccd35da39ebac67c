"""The commands `install-solver` and `compile`, which prepare a machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.commands import command as command_text
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.options import command

if TYPE_CHECKING:
    from moccasin_mzn.heuristics.compiled_searches import CompiledSearch


@command("install-solver")
@click.option("--remove", "removing", is_flag=True, help="Remove the solvers again.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="FOLDER",
              help="The folder for them.  [default: where MiniZinc looks for solvers of this user]")  # fmt: skip
def install_solver(removing: bool, folder: Path | None) -> int:
    """Make the solvers of this package known to MiniZinc and its IDE, as in `minizinc --solver cp-sat model.mzn`."""
    from moccasin_mzn.solvers.flatzinc import configuration as install
    from moccasin_mzn.solvers.minizinc.solvers import OWN

    given, folder = folder, folder or install.user_solver_folder()
    configurations = [solver.configuration() for solver in OWN.values()]
    try:
        install.check(folder, configurations)
        for configuration in configurations:
            if removing:
                path, was_there = install.remove(folder, configuration)
                click.echo(f"removed {path}" if was_there else f"nothing to remove: there is no {path}")
            else:
                path, action = install.install(folder, configuration)
                click.echo(f"{path} was up to date" if action == "kept" else f"{action} {path}")
    except install.InstallError as error:
        raise InputError(str(error)) from None
    if not removing:
        _print_use(configurations, given)
    return EXIT_FOUND


def _print_use(configurations: list[JsonObject], folder: Path | None) -> None:
    """Print how to use and to remove the solvers; `folder` is where they are, if not where MiniZinc looks."""
    from moccasin_mzn.solvers.flatzinc import configuration as install

    if not install.minizinc_is_there():
        click.echo("MiniZinc is not on PATH yet; once it is:")
    place = "" if folder is None else f"MZN_SOLVER_PATH={shlex.quote(str(folder.resolve()))} "
    for configuration in configurations:
        short = configuration["id"].rpartition(".")[2]
        if namesakes := install.namesakes(configuration):
            click.echo(f"other solvers answer to {short} as well ({', '.join(namesakes)}), hence the full id:")
        name = install.called(configuration)
        click.echo(f"{place}minizinc --solver {name} model.mzn data.dzn    # of the Python environment {sys.prefix}")
    where = () if folder is None else ("--folder", folder)
    click.echo(f"{command_text('install-solver', '--remove', *where)}    # undoes it")


# --- compile --------------------------------------------------------------------------------------------------


def searches() -> tuple[CompiledSearch, ...]:
    """Return all compiled searches of the package."""
    from moccasin_mzn.heuristics.compiled_searches import FREE, LOCAL, ORDERS, STREAMING
    from moccasin_mzn.machine.addresses import ADDRESSES
    from moccasin_mzn.machine.paging import PAGING
    from moccasin_mzn.strategies.dtr import EVICTIONS

    return LOCAL, ORDERS, FREE, STREAMING, PAGING, ADDRESSES, EVICTIONS


@command("compile")
def compile_searches() -> int:
    """Compile the local searches now and cache them on disk, which otherwise the first run does that needs them."""
    from moccasin_mzn.heuristics.compiled_searches import NOT_KEPT, ready
    from moccasin_mzn.heuristics.compiling import keeps

    if not keeps():
        raise InputError(NOT_KEPT.removeprefix("note: "))
    for search in searches():
        seconds = ready(search)
        click.echo(f"{search.name}: compiled in {seconds:.0f} s" if seconds else f"{search.name}: was compiled already")
    return EXIT_FOUND
