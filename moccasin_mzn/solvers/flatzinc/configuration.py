"""Solver configurations (`.msc` files), by which MiniZinc finds solvers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

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
    """A solver of this package, and all that is told of it.

    Attributes:
        name: as on the command line, such as "highs".
        title: for people.
        library: what solves behind it, as told together with its version.
        package: the distribution that brings the library, and whose version counts.
        module: what Python runs, with `arguments` and the flags that MiniZinc adds.
        mznlib: the library of MiniZinc that models are compiled with.
        tags: by which MiniZinc finds it, beside its name.
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
        """Of the module, before all flags."""
        return ()

    @property
    def identifier(self) -> str:
        """The id that MiniZinc knows it by."""
        return f"org.moccasin-mzn.{self.name}"

    @property
    def version(self) -> str:
        """Of what solves behind it, as installed here."""
        return version(self.package)

    def configuration(self) -> dict:
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
