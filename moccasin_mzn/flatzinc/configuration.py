"""The solver configuration (`.msc` file) by which MiniZinc finds the solver."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

FILE_NAME = "cp-sat.msc"
LIBRARY = Path(__file__).resolve().parent / "mznlib"
"""The MiniZinc library of the solver."""


def solver_configuration() -> dict:
    """The content of the `.msc` file, in keys that MiniZinc 2.6 to 2.10 accept: 2.6 rejects the file for any other."""
    return {
        "id": "org.moccasin-mzn.cp-sat",
        "name": "CP-SAT (moccasin_mzn)",
        "description": "OR-Tools CP-SAT behind the FlatZinc reader of moccasin_mzn",
        "version": version("ortools"),
        "executable": _command(),
        "mznlib": str(LIBRARY),
        "tags": ["cp", "int", "cp-sat"],
        "stdFlags": ["-a", "-i", "-n", "-f", "-p", "-r", "-s", "-t", "-v"],
        "extraFlags": [["--params", "CP-SAT parameters as text protocol buffer", "string", ""]],
        "supportsMzn": False,
        "supportsFzn": True,
        "needsSolns2Out": True,
        "needsMznExecutable": False,
        "needsStdlibDir": False,
        "isGUIApplication": False,
    }


def _command() -> list[str]:
    """The command line up to the flags.

    MiniZinc follows symbolic links before it starts an executable. The `python` of a virtual environment is such a
    link, and would lose its packages; behind `env` it keeps its name.
    """
    prefix = ["/usr/bin/env"] if os.name == "posix" and os.path.realpath(sys.executable) != sys.executable else []
    isolated = ["-P"] if sys.version_info >= (3, 11) else []  # no modules from the folder MiniZinc runs in
    return [*prefix, sys.executable, *isolated, "-m", "moccasin_mzn.flatzinc"]


def write_configuration(folder: Path) -> Path:
    """Write `cp-sat.msc` into `folder`, made if missing; with the folder in MZN_SOLVER_PATH, `minizinc --solver cp-sat`
    works. Returns the path of the file."""
    path = Path(folder) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(solver_configuration(), indent=2) + "\n", encoding="utf-8")
    return path
