"""The command line, as MiniZinc writes it."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.solvers.flatzinc.options import Options, read_options, standard_parser
from moccasin_mzn.solvers.linear.configuration import ENGINES


@dataclass(frozen=True, slots=True)
class LinearOptions(Options):
    """What was asked for on the command line; `engine` is one of `ENGINES`."""

    engine: str = "highs"


def parse_options(arguments: list[str]) -> LinearOptions:
    """Read the command line, as `read_options` does."""
    parser = standard_parser("python -m moccasin_mzn.solvers.linear", "Solve a FlatZinc file of linear constraints.")
    parser.add_argument("--engine", choices=ENGINES, default="highs", help="the solver (default: highs)")
    forms = "; ".join(f"{solver.name}: {solver.parameters}" for solver in ENGINES.values())
    parser.add_argument("--params", default="", metavar="TEXT", help=f"parameters of the solver. {forms}")
    return read_options(parser, arguments, LinearOptions)
