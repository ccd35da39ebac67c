"""The command `install-solver`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from moccasin_mzn.commands.common import EXIT_FOUND
from moccasin_mzn.errors import InputError


@click.command("install-solver")
@click.option("--remove", "removing", is_flag=True, help="Undo it.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Default: the folder in which MiniZinc looks for this user's solvers.")  # fmt: skip
def install_solver(removing: bool, folder: Path | None) -> int:
    """Make CP-SAT known to MiniZinc and its IDE: `minizinc --solver cp-sat model.mzn data.dzn`."""
    from moccasin_mzn.flatzinc import install

    folder = folder or install.user_solver_folder()
    try:
        if removing:
            path, was_there = install.remove(folder)
            click.echo(f"removed {path}" if was_there else f"nothing to remove: there is no {path}")
            return EXIT_FOUND
        path, action = install.install(folder)
    except install.InstallError as error:
        raise InputError(str(error)) from None
    click.echo(f"{path} was up to date" if action == "kept" else f"{action} {path}")
    rivals = install.rivals()
    if rivals:
        click.echo(f"other solvers answer to cp-sat as well ({', '.join(rivals)}), hence the full id:")
    if not install.minizinc_is_there():
        click.echo("MiniZinc is not on PATH yet; once it is:")
    name = install.solver_configuration()["id"] if rivals else "cp-sat"
    click.echo(f"minizinc --solver {name} model.mzn data.dzn    # CP-SAT of the Python environment {sys.prefix}")
    click.echo("python -m moccasin_mzn install-solver --remove    # undoes it")
    return EXIT_FOUND
