"""The solver configuration (`.msc` file) by which MiniZinc finds CP-SAT."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from moccasin_mzn.solvers.flatzinc.configuration import COMMON, solver_command

LIBRARY = Path(__file__).resolve().parent / "mznlib"
"""The MiniZinc library of the solver."""


def solver_configuration() -> dict:
    """The content of the `.msc` file of CP-SAT, in keys that MiniZinc 2.6 to 2.10 accept: 2.6 rejects the file for any
    other."""
    return {
        "id": "org.moccasin-mzn.cp-sat",
        "name": "CP-SAT (moccasin_mzn)",
        "description": "OR-Tools CP-SAT behind the FlatZinc reader of moccasin_mzn",
        "version": version("ortools"),
        "executable": solver_command("moccasin_mzn.solvers.cpsat"),
        "mznlib": str(LIBRARY),
        "tags": ["cp", "int", "cp-sat"],
        "extraFlags": [["--params", "CP-SAT parameters as text protocol buffer", "string", ""]],
        **COMMON,
    }
