"""Processes of this very package: not of another copy of it that their Python would find first."""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds the package: a checkout, or where packages are installed."""


def python_path() -> str | None:
    """What PYTHONPATH has to be for a new Python of this environment to find this package; None if it does anyway.

    A checkout that is only the current folder is not found by `python -P`, and another one may be installed.
    """
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    if ROOT in {Path(folder).resolve() for folder in installed} or os.pathsep in str(ROOT):
        return None
    rest = os.environ.get("PYTHONPATH")
    return str(ROOT) + (os.pathsep + rest if rest else "")


def own_environment() -> dict[str, str]:
    """The environment of this process, in which a new Python finds this package."""
    path = python_path()
    return dict(os.environ) if path is None else {**os.environ, "PYTHONPATH": path}
