"""MiniZinc as a program: data files, models compiled to FlatZinc that nobody solves, and runs that only print."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

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


# --- MiniZinc data files --------------------------------------------------------------------------------------


Value = bool | int | str | Sequence[Any] | Set[Any]
"""A scalar, a set, or an array of one or two dimensions."""


class Member(str):
    """The name of a member of an enumeration; a plain text is a string."""


def dzn_text(data: Mapping[str, Value]) -> str:
    """`data` as the text of a `.dzn` file, one item a line."""
    return "".join(f"{name} = {_literal(value)};\n" for name, value in data.items())


def json_text(data: Mapping[str, Value]) -> str:
    """`data` as MiniZinc's JSON."""
    return json.dumps({name: _json(value) for name, value in data.items()}, ensure_ascii=False) + "\n"


def _json(value: Value) -> Any:
    if isinstance(value, Member):
        return {"e": str(value)}
    if isinstance(value, Set):
        return {"set": [_json(one) for one in sorted(value)]}
    return value if isinstance(value, bool | int | str) else [_json(one) for one in value]


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Member):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Set):
        return f"{{{', '.join(map(_literal, sorted(value)))}}}"
    if len(value) > 0 and not isinstance(value[0], int | str):  # rows of a matrix
        if not any(value):
            return f"array2d(1..{len(value)}, 1..0, [])"  # of which there is no literal
        return f"[|{'|'.join(', '.join(map(_literal, row)) for row in value)}|]"
    return f"[{', '.join(map(_literal, value))}]"
