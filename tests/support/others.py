"""Solvers of other people, installed for MiniZinc in a home folder: broken ones, and such as stand in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph

SKIP = ComputationGraph(tuple("xabcz"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
"""Within a budget of 8 the shortest schedule takes 14; the input order fits 10."""


def script(path: Path, *lines: str) -> Path:
    """An executable of the shell."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return path


def installed(home: Path, name: str, executable: Path | str, /, **fields: Any) -> Path:
    """The configuration file of a solver, where MiniZinc looks for those of the user."""
    path = home / ".minizinc" / "solvers" / f"{name}.msc"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"id": f"com.example.{name}", "name": name, "version": "1.2", "executable": str(executable)}
    content |= {"mznlib": "-Ggecode", "stdFlags": ["-a"], "supportsFzn": True, "needsSolns2Out": True}
    path.write_text(json.dumps(content | fields), encoding="utf-8")
    return path
