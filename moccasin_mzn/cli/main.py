"""The command line. Exit status 0: a valid schedule; 1: none; 2: bad usage or input, told in one line."""

from __future__ import annotations

import json
import sys

import click
from cloup import Section

from moccasin_mzn.cli.allocate import allocate
from moccasin_mzn.cli.bench import bench
from moccasin_mzn.cli.certificates import check_certificate
from moccasin_mzn.cli.common import EXIT_BAD_INPUT, EXIT_FOUND
from moccasin_mzn.cli.compare import compare
from moccasin_mzn.cli.compiling import compile_searches
from moccasin_mzn.cli.complexity import complexity
from moccasin_mzn.cli.deploy import deploy
from moccasin_mzn.cli.examples import add_examples
from moccasin_mzn.cli.export import export
from moccasin_mzn.cli.frontier import frontier
from moccasin_mzn.cli.generate import generate
from moccasin_mzn.cli.importing import import_
from moccasin_mzn.cli.info import info
from moccasin_mzn.cli.install import install_solver
from moccasin_mzn.cli.listing import list_methods
from moccasin_mzn.cli.order import order
from moccasin_mzn.cli.plot import plot
from moccasin_mzn.cli.reduce import convert, reduce
from moccasin_mzn.cli.running import run_
from moccasin_mzn.cli.solve import solve
from moccasin_mzn.cli.strict import group
from moccasin_mzn.cli.validate import validate
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, out_of_memory, require_address_space

LEAST_ADDRESS_SPACE = 200 * 2**20
"""In bytes."""


@group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moccasin_mzn", message="%(version)s")
def main() -> None:
    """Decide which tensors of a computation graph to drop and recompute, so that peak memory stays within a budget."""


SECTIONS = {
    "Solve": (solve, frontier, order, compare, allocate),
    "Train": (run_,),
    "Deploy": (deploy,),
    "Judge and draw": (validate, check_certificate, plot),
    "Graphs": (info, generate, import_, reduce, convert),
    "Models, solvers, experiments": (list_methods, export, complexity, bench, install_solver, compile_searches),
}
for title, commands in SECTIONS.items():
    main.add_section(Section(title, commands))
add_examples(main)
_PAGES = (Page.QUICK_START, Page.GUIDE, Page.TRAINING, Page.INFEASIBLE)
main.epilog = "\b\nRead on:\n" + "\n".join(f"  {page.address:<19}  {page.heading}" for page in _PAGES)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status; every refusal is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to fail
    try:
        require_address_space("this program", LEAST_ADDRESS_SPACE)
        return main.main(args=arguments, standalone_mode=False) or EXIT_FOUND
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        refusal = InputError(error.format_message())
    except InputError as error:
        refusal = error
    except click.Abort:
        refusal = InputError("interrupted")
    except Exception as error:
        lack = out_of_memory(error)
        if lack is not None:
            refusal = lack
        elif isinstance(error, OSError):  # of stdout: those of files are told by who opens them
            refusal = InputError(f"{error.filename or 'stdout'}: {error.strerror or error}")
        else:
            raise
    _tell(refusal, sys.argv[1:] if arguments is None else arguments)
    return EXIT_BAD_INPUT


def _tell(refusal: InputError, arguments: list[str]) -> None:
    """One line on stderr; and an object on stdout, if that is what stdout is for."""
    told = refusal.as_dict()
    if not {"--json", "--json-stream"}.isdisjoint(arguments):
        click.echo(json.dumps(told))
    click.echo(f"error: {told['message']}", err=True)
