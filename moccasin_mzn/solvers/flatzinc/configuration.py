"""Solver configurations (`.msc` files), by which MiniZinc finds solvers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from moccasin_mzn.base.files import JsonObject

Configuration = JsonObject
"""The content of a file `.msc`, as JSON has it."""
_COMMON = {
    "stdFlags": ["-a", "-i", "-n", "-f", "-p", "-r", "-s", "-t", "-v"],
    "supportsMzn": False,
    "supportsFzn": True,
    "needsSolns2Out": True,
    "needsMznExecutable": False,
    "needsStdlibDir": False,
    "isGUIApplication": False,
}
"""What holds for every solver of ours."""


@dataclass(frozen=True, kw_only=True)
class OwnSolver:
    """A solver of this package, and how MiniZinc knows it.

    Attributes:
        name: as on the command line, such as "highs".
        title: for people.
        library: what solves behind it, as reported together with its version.
        package: the distribution that brings the library, and whose version counts.
        module: what Python runs, with `arguments` and the flags that MiniZinc adds.
        mznlib: the library of MiniZinc that models are compiled with.
        tags: by which MiniZinc finds it, besides its name.
        parameters: the form of the value of `--params`, in words.
    """

    name: str
    title: str
    library: str
    package: str
    module: str
    mznlib: str
    tags: tuple[str, ...]
    parameters: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the module, before all flags."""
        return ()

    @property
    def identifier(self) -> str:
        """The id that MiniZinc knows it by."""
        return f"org.moccasin-mzn.{self.name}"

    @property
    def version(self) -> str:
        """The version of what solves behind it, as installed here."""
        return version(self.package)

    def configuration(self) -> Configuration:
        """The content of its `.msc` file, in keys that MiniZinc 2.6 to 2.10 accept: 2.6 rejects the file for any
        other."""
        return {
            "id": self.identifier,
            "name": f"{self.title} (moccasin_mzn)",
            "description": f"{self.title} behind the FlatZinc reader of moccasin_mzn",
            "version": self.version,
            "executable": solver_command(self.module, *self.arguments),
            "mznlib": self.mznlib,
            "tags": [*self.tags, self.name],
            "extraFlags": [["--params", self.parameters, "string", ""]],
            **_COMMON,
        }


def solver_command(module: str, *arguments: str) -> list[str]:
    """The command line of a module of ours up to the flags that MiniZinc adds.

    MiniZinc follows symbolic links before it starts an executable. The `python` of a virtual environment is such a
    link, and would lose its packages; behind `env` it keeps its name.
    """
    prefix = ["/usr/bin/env"] if os.name == "posix" and os.path.realpath(sys.executable) != sys.executable else []
    isolated = ["-P"] if sys.version_info >= (3, 11) else []  # no modules from the folder MiniZinc runs in
    return [*prefix, sys.executable, *isolated, "-m", module, *arguments]


def file_name(configuration: Configuration) -> str:
    """The name of the file of a configuration, such as `cp-sat.msc`."""
    return configuration["id"].rpartition(".")[2] + ".msc"


def write_configuration(folder: Path, configuration: Configuration) -> Path:
    """Write a configuration into `folder`, made if missing; with the folder in MZN_SOLVER_PATH, MiniZinc knows the
    solver. Returns the path of the file."""
    path = Path(folder) / file_name(configuration)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"  # MiniZinc 2.6 does not read \\u escapes
    path.write_text(text, encoding="utf-8", errors="surrogateescape")  # nor are all paths UTF-8
    return path


# --- Makes solvers known to every MiniZinc of this user, and to the MiniZinc IDE ------------------------------


GENERAL_TAGS = {"cp", "mip", "int", "float"}
"""Tags that name a kind of solver, as many have."""


class InstallError(Exception):
    """Why nothing was changed, in one line."""


def user_solver_folder() -> Path:
    """Where MiniZinc looks for the solver configurations of this user: what the MiniZinc on PATH reports, or else what
    all versions from 2.6 on use."""
    try:
        return Path(json.loads(_minizinc("--config-dirs"))["userSolverConfigDir"])
    except (InstallError, ValueError, KeyError, TypeError):
        if os.name == "nt":
            return Path(os.environ.get("APPDATA", Path.home())) / "MiniZinc" / "solvers"
        return Path.home() / ".minizinc" / "solvers"


def check(folder: Path, configurations: Sequence[Configuration]) -> None:
    """Raises `InstallError` if one of the configurations has in `folder` the file name of another solver's.

    Called before any of several is installed or removed, it keeps things from being done by halves.
    """
    for configuration in configurations:
        _read_ours(folder, configuration)


def install(folder: Path, configuration: Configuration) -> tuple[Path, str]:
    """Write a configuration into `folder`, made if missing; the path of the file, and
    "wrote", "replaced" or "kept".

    Raises `InstallError` if there is a file of this name that is not ours, the folder cannot be written, or MiniZinc
    could not start the solver.
    """
    path = folder / file_name(configuration)
    _check_command(configuration)
    present = _read_ours(folder, configuration)
    if present == configuration:
        return path, "kept"
    try:
        write_configuration(folder, configuration)
    except OSError as error:
        raise InstallError(f"{path}: cannot write: {error.strerror or error}") from None
    return path, "wrote" if present is None else "replaced"


def remove(folder: Path, configuration: Configuration) -> tuple[Path, bool]:
    """Undo `install`; the path of the file, and whether it was there.

    Raises `InstallError` if the file is not ours, or cannot be removed.
    """
    path = folder / file_name(configuration)
    if _read_ours(folder, configuration) is None:
        return path, False
    try:
        path.unlink()
    except OSError as error:
        raise InstallError(f"{path}: cannot remove: {error.strerror or error}") from None
    return path, True


def is_known(own: Configuration) -> bool:
    """Return whether MiniZinc knows a solver of ours; not without a MiniZinc on PATH."""
    try:
        return any(item.get("id") == own["id"] for item in json.loads(_minizinc("--solvers-json")))
    except (InstallError, ValueError, AttributeError):
        return False


def namesakes(own: Configuration) -> list[str]:
    """Ids of other solvers that MiniZinc also finds under the short name of ours, such as `cp-sat`; none if there is no
    MiniZinc on PATH."""
    try:
        solvers = json.loads(_minizinc("--solvers-json"))
    except (InstallError, ValueError):
        return []
    found = [item for item in solvers if isinstance(item, dict) and item.get("id") != own["id"]]
    names = {own["id"].rpartition(".")[2], *own["tags"]} - GENERAL_TAGS
    return [item["id"] for item in found if names & {item.get("id", "").rpartition(".")[2], *item.get("tags", ())}]


def called(own: Configuration) -> str:
    """Return the name by which MiniZinc finds a solver of ours and no other: the short one, or the full id."""
    return own["id"] if namesakes(own) else own["id"].rpartition(".")[2]


def minizinc_is_there() -> bool:
    """Is there a MiniZinc on PATH?"""
    return shutil.which("minizinc") is not None


def _read_ours(folder: Path, configuration: Configuration) -> Configuration | None:
    """What stands in the file of a configuration, None if there is no file; `InstallError` for one that we did not
    write."""
    path = folder / file_name(configuration)
    try:
        present = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: cannot read: {error.strerror or error}") from None
    except ValueError:
        present = None
    if not isinstance(present, dict) or present.get("id") != configuration["id"]:
        raise InstallError(f"{path}: belongs to another solver, left as it is")
    return present


def _check_command(configuration: Configuration) -> None:
    """MiniZinc starts the solver in folders of its own, where only an installed package is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [*configuration["executable"], "--help"]
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if ended.returncode:
        raise InstallError(f"{sys.executable} finds no moccasin_mzn outside of its own folder: pip install it first")


def _minizinc(option: str) -> str:
    try:
        return subprocess.run(
            ["minizinc", option], capture_output=True, text=True, encoding="utf-8", timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallError(f"minizinc {option}: {error}") from None
