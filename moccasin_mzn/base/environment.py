"""Processes that import this copy of the package, not one that their Python would find first; waiting for them."""

from __future__ import annotations

import contextlib
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

from moccasin_mzn.base.clock import POLL_SECONDS

ROOT = Path(__file__).resolve().parents[2]
"""The folder that contains the package: a checkout, or the folder of installed packages."""


def python_path() -> str | None:
    """Return the PYTHONPATH with which a new Python of this environment finds this package; None if it does anyway.

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


def user_cache() -> Path:
    """Return the folder of this package in the user's cache, which may not be there yet.

    Raises:
        OSError: the user has no home folder.
    """
    given = os.environ.get({"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME"), "")
    usual = {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(sys.platform, ".cache")
    try:
        return (Path(given) if given else Path.home() / usual) / "moccasin_mzn"
    except RuntimeError as error:
        raise OSError(str(error)) from None


# --- Processes that are waited for until they end, or have to stop ---------------------------------------------


class StoppedError(Exception):
    """A process was stopped before it was done."""


def ended(
    command: list[str], stop: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command, which is killed if this function does not return.

    Raises:
        StoppedError: `stop`, called twenty times a second, returned true.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", errors="replace", env=environment
    ) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, complaints = process.communicate(timeout=POLL_SECONDS)
                    return process.returncode, output, complaints
                if stop():
                    raise StoppedError
        except BaseException:
            process.kill()
            raise
