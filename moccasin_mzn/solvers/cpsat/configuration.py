"""CP-SAT as a solver of this package."""

from __future__ import annotations

from pathlib import Path

from moccasin_mzn.solvers.flatzinc.configuration import OwnSolver

LIBRARY = Path(__file__).resolve().parent / "mznlib"
"""The MiniZinc library of the solver."""
CP_SAT = OwnSolver(
    name="cp-sat",
    title="CP-SAT",
    library="OR-Tools",
    package="ortools",
    module="moccasin_mzn.solvers.cpsat",
    mznlib=str(LIBRARY),
    tags=("cp", "int"),
    parameters="CP-SAT parameters as text protocol buffer",
)
