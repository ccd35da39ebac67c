"""The MIP solvers of this package: how MiniZinc knows each, and how precise it is."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.solvers.flatzinc.configuration import OwnSolver
from moccasin_mzn.solvers.flatzinc.execution import ExecutionOptions, read_options, standard_parser


@dataclass(frozen=True, kw_only=True)
class LinearSolver(OwnSolver):
    """A solver of linear programs with integers: the module of its name in this folder has its `solve`, an `Engine`,
    and `relax`, a `Relaxer`."""

    precision: float
    """Relative difference up to which it takes numbers for equal."""
    module: str = "moccasin_mzn.solvers.linear"
    mznlib: str = "-Glinear"
    tags: tuple[str, ...] = ("mip", "int", "float")

    @property
    def arguments(self) -> tuple[str, ...]:
        return "--engine", self.name


_SOLVERS = (
    LinearSolver(
        name="highs", title="HiGHS", library="HiGHS", package="highspy", precision=1e-13,
        parameters="HiGHS options as NAME=VALUE, separated by blanks",
    ),
    LinearSolver(
        name="scip", title="SCIP", library="SCIP of OR-Tools", package="ortools", precision=1e-9,
        parameters="SCIP parameters as text protocol buffer (GScipParameters)",
    ),
)  # fmt: skip
ENGINES = {solver.name: solver for solver in _SOLVERS}
"""By the value of `--engine`."""


# --- The command line, as MiniZinc writes it ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinearOptions(ExecutionOptions):
    """What was asked for on the command line; `engine` is one of `ENGINES`."""

    engine: str = "highs"


def parse_options(arguments: list[str]) -> LinearOptions:
    """Read the command line, as `read_options` does."""
    parser = standard_parser("python -m moccasin_mzn.solvers.linear", "Solve a FlatZinc file of linear constraints.")
    parser.add_argument("--engine", choices=ENGINES, default="highs", help="the solver (default: highs)")
    forms = "; ".join(f"{solver.name}: {solver.parameters}" for solver in ENGINES.values())
    parser.add_argument("--params", default="", metavar="TEXT", help=f"parameters of the solver. {forms}")
    return read_options(parser, arguments, LinearOptions)
