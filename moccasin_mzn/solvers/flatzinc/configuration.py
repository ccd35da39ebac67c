"""Solver configurations (`.msc` files), by which MiniZinc finds solvers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

COMMON = {
    "stdFlags": ["-a", "-i", "-n", "-f", "-p", "-r", "-s", "-t", "-v"],
    "supportsMzn": False,
    "supportsFzn": True,
    "needsSolns2Out": True,
    "needsMznExecutable": False,
    "needsStdlibDir": False,
    "isGUIApplication": False,
}
"""What holds for every solver of ours."""


def solver_command(module: str, *arguments: str) -> list[str]:
    """The command line of a module of ours up to the flags that MiniZinc adds.

    MiniZinc follows symbolic links before it starts an executable. The `python` of a virtual environment is such a
    link, and would lose its packages; behind `env` it keeps its name.
    """
    prefix = ["/usr/bin/env"] if os.name == "posix" and os.path.realpath(sys.executable) != sys.executable else []
    isolated = ["-P"] if sys.version_info >= (3, 11) else []  # no modules from the folder MiniZinc runs in
    return [*prefix, sys.executable, *isolated, "-m", module, *arguments]


def file_name(configuration: dict) -> str:
    """The name of the file of a configuration, such as `cp-sat.msc`."""
    return configuration["id"].rpartition(".")[2] + ".msc"


def write_configuration(folder: Path, configuration: dict) -> Path:
    """Write a configuration into `folder`, made if missing; with the folder in MZN_SOLVER_PATH, MiniZinc knows the
    solver. Returns the path of the file."""
    path = Path(folder) / file_name(configuration)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"  # MiniZinc 2.6 does not read \\u escapes
    path.write_text(text, encoding="utf-8", errors="surrogateescape")  # nor are all paths UTF-8
    return path
