"""MiniZinc 2.10 as WebAssembly, run by `scripts/minizinc-wasm.cjs`, and the one on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import MODELS

from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.minizinc.drivers import webassembly_folder
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "scripts" / "minizinc-wasm.cjs"
PACKAGE = Path(os.environ.get("MINIZINC_WASM") or webassembly_folder() / "node_modules" / "minizinc")
NEWER = ["env", f"MINIZINC_WASM={PACKAGE}", "node", RUNNER]
NATIVE = ["minizinc"]


def _why_not() -> str | None:
    if shutil.which("node") is None:
        return "node is not on PATH"
    if not any((folder / "minizinc.wasm").is_file() for folder in (PACKAGE, PACKAGE / "dist")):
        return f"the npm package minizinc is not in {PACKAGE}: sh scripts/install_solvers.sh, or set MINIZINC_WASM"
    return None


needs_newer = pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))


def execute(command, *arguments) -> str:
    """What the command prints; it must not fail."""
    words = [str(word) for word in (*command, *arguments)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def cp_sat_objective(command, model: str, data: Path, folder: Path) -> int:
    """Compile with our solver's library, solve the FlatZinc with our solver."""
    flatzinc = folder / "model.fzn"
    solver = write_configuration(folder, CP_SAT.configuration())
    execute(
        command,
        "-c",
        "--solver",
        solver,
        "--no-output-ozn",
        "--output-mode",
        "json",
        MODELS / f"{model}.mzn",
        data,
        "--fzn",
        flatzinc,
    )
    out = execute([sys.executable, "-m", "moccasin_mzn.solvers.cpsat"], "-f", "-p", 1, "-s", flatzinc)
    assert "==========" in out
    return int(re.findall(r"objective=(-?\d+)", out)[-1])
