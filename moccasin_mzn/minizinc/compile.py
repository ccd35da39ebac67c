"""MiniZinc as a program: models compiled to FlatZinc that nobody solves, and runs that only print."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from moccasin_mzn.minizinc.run import SolverError
from moccasin_mzn.minizinc.solvers import Backend


def compile_model(backend: Backend, model: Path, data: str) -> str:
    """The FlatZinc of `model` with the `.dzn` text `data`, in the constraints that the backend's solver knows.

    Raises:
        SolverError: MiniZinc failed; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        flat = Path(folder) / "instance.fzn"
        printed(backend, ["-c", "--no-output-ozn", "--fzn", str(flat), str(model)], data)
        return flat.read_text(encoding="utf-8")


def printed(backend: Backend, arguments: list[str], data: str) -> str:
    """What MiniZinc prints on stdout, called with the arguments, the backend's solver and the `.dzn` text `data`.

    Raises:
        SolverError: MiniZinc failed; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder, backend.solver.configuration() as solver:
        data_file = Path(folder) / "instance.dzn"
        data_file.write_text(data, encoding="utf-8")
        command = [str(backend.driver.executable), "--solver", solver, *arguments, str(data_file)]
        ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if ended.returncode:
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        told = [line for line in lines if "rror" in line and not line.startswith("Error: type")]
        raise SolverError(f"{backend.name}: MiniZinc failed: {(told or lines or ['without a message'])[-1]}")
    return ended.stdout
