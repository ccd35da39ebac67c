"""Solvers of other people, installed for MiniZinc in a home folder: broken ones, and such as stand in the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from moccasin_mzn.solvers.minizinc.drivers import webassembly_driver

native = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
webassembly = pytest.mark.skipif(
    shutil.which("minizinc") is None or webassembly_driver() is None,
    reason="there is no MiniZinc as WebAssembly beside the one on PATH: sh scripts/install_solvers.sh",
)


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
