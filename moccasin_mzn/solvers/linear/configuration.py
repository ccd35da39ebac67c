"""The MIP solvers of this package: what is told of each, and how precise it is."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.solvers.flatzinc.configuration import OwnSolver


@dataclass(frozen=True, kw_only=True)
class LinearSolver(OwnSolver):
    """A solver of linear programs with integers: the module of its name beside this one has its `solve`, an `Engine`,
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
