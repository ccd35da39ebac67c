"""MiniZinc as a program: models compiled to FlatZinc that nobody solves, and runs that only print."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from moccasin_mzn.solvers.minizinc.run import SolverError, model_file
from moccasin_mzn.solvers.minizinc.solvers import Backend
from moccasin_mzn.solvers.processes import ended


def compile_model(backend: Backend, model: Path | str, data: str, stop: Callable[[], bool] = lambda: False) -> str:
    """The FlatZinc of `model` with the `.dzn` text `data`, in the constraints that the backend's solver knows.

    Raises:
        SolverError: MiniZinc failed; the message is its own.
        StoppedError: `stop` said so.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        flat, file = Path(folder) / "instance.fzn", model_file(model, Path(folder))
        printed(backend, ["-c", "--no-output-ozn", "--output-mode", "json", "--fzn", str(flat), str(file)], data, stop)
        return flat.read_text(encoding="utf-8")


def printed(backend: Backend, arguments: list[str], data: str, stop: Callable[[], bool] = lambda: False) -> str:
    """What MiniZinc prints on stdout, called with the arguments, the backend's solver and the `.dzn` text `data`.

    Raises:
        SolverError, StoppedError: as `compile_model`.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder, backend.solver.configuration() as solver:
        data_file = Path(folder) / "instance.dzn"
        data_file.write_text(data, encoding="utf-8")
        command = [str(backend.found.minizinc.executable), "--solver", solver, *arguments, str(data_file)]
        status, output, complaints = ended(command, stop)
    if status:
        raise SolverError(f"{backend.name}: MiniZinc failed: {backend.found.real_message(complaints)}")
    return output
