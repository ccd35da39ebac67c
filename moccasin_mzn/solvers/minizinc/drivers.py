"""Finding MiniZinc: on PATH, native bundles where they are usually unpacked, and MiniZinc as WebAssembly."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained
from moccasin_mzn.base.files import JsonObject

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    import minizinc

HOW_TO_INSTALL = "install it (apt-get install minizinc, brew install minizinc, or minizinc.org)"

BUNDLES = {
    "linux": (
        "/opt/[mM]ini[zZ]inc*",
        "/usr/local/[mM]ini[zZ]inc*",
        "~/[mM]ini[zZ]inc*",
        "~/.local/[mM]ini[zZ]inc*",
        "~/.local/opt/[mM]ini[zZ]inc*",
        "~/.local/share/[mM]ini[zZ]inc*",
        "/snap/minizinc/current",
        "/var/lib/snapd/snap/minizinc/current",
    ),
    "darwin": (
        "/Applications/MiniZincIDE.app/Contents/Resources",
        "~/Applications/MiniZincIDE.app/Contents/Resources",
        "/opt/homebrew/opt/minizinc",
        "/usr/local/opt/minizinc",
    ),
    "win32": ("${ProgramFiles}/MiniZinc*", "${ProgramFiles(x86)}/MiniZinc*", "${LocalAppData}/Programs/MiniZinc*"),
}
"""Patterns of folders, by `sys.platform`: where official bundles and package managers put MiniZinc. The executable is
in such a folder or in its `bin`."""


class NoNativeMiniZinc(InputError):
    """There is no native MiniZinc, or only too old ones."""


@dataclass(frozen=True)
class Driver:
    """A MiniZinc that runs here."""

    minizinc: minizinc.Driver
    webassembly: bool = False
    """This MiniZinc runs inside Node.js: it brings solvers of its own and cannot start any other."""

    @property
    def title(self) -> str:
        """For people, such as "MiniZinc 2.6.4" or "MiniZinc 2.10.0 (WebAssembly)"."""
        version = ".".join(map(str, self.minizinc.parsed_version))
        return f"MiniZinc {version}" + (" (WebAssembly)" if self.webassembly else "")

    def listed(self, identifier: str, version: str) -> JsonObject:
        """What this driver knows of a solver beyond its files, such as the path of its executable; may be empty."""
        with contextlib.suppress(ValueError):
            for solver in json.loads(self._listing.stdout):
                if (solver["id"], solver["version"]) == (identifier, version):
                    return solver["extraInfo"]
        return {}

    def real_message(self, text: str) -> str:
        """The one line of what it printed on stderr that gives the reason why a run failed.

        Left out are warnings, and complaints about broken configurations of other solvers whatever it is asked to do.
        """
        usual = {line.strip() for line in self._listing.stderr.decode(errors="replace").splitlines()}
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and line not in usual and not line.startswith(("Warning:", "warning:"))]
        errors = [line for line in lines if "rror" in line and not line.startswith("Error: type")]
        if lines and lines[0].startswith("Traceback"):
            return lines[-1]
        return (errors or lines or ["it ended without a message"])[0]

    @functools.cached_property
    def _listing(self) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.minizinc.executable), "--solvers-json"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def drivers() -> Iterator[Driver]:
    """All that there are, native ones first; each is started, to ask for its version, only when its turn comes.

    Raises:
        InputError: there is none; or the one on PATH does not run.
    """
    problem = None
    try:
        yield from native_drivers()
    except NoNativeMiniZinc as error:
        problem = error
    other = webassembly_driver()
    if other is not None:
        yield other
    elif problem is not None:
        raise problem


def native_drivers() -> Iterator[Driver]:
    """The MiniZinc on PATH, then those in bundles, the newest first. One that is too old is passed over.

    Raises:
        NoNativeMiniZinc: there is none, or all are too old.
        InputError: one does not run.
    """
    found, problem = False, None
    for executable in _native_executables():
        try:
            driver = Driver(_started(executable))
        except NoNativeMiniZinc as error:
            problem = problem or error
        else:
            found = True
            yield driver
    with explained(Page.INSTALL):
        if not found:
            raise problem or NoNativeMiniZinc(f"MiniZinc is not on PATH; {HOW_TO_INSTALL}")


def webassembly_driver() -> Driver | None:
    """What `scripts/install_solvers.sh` puts into this Python environment; None if it is not there or Node.js is not.

    Raises:
        InputError: it does not run.
    """
    executable = webassembly_folder() / "minizinc"
    if not executable.is_file() or shutil.which("node") is None:
        return None
    return Driver(_started(executable), webassembly=True)


def webassembly_folder() -> Path:
    """Where `scripts/install_solvers.sh` puts MiniZinc as WebAssembly."""
    return Path(sys.prefix) / "share" / "moccasin_mzn" / "drivers" / "minizinc-wasm"


def _native_executables() -> Iterator[Path]:
    """Each once, whatever names lead to it."""
    on_path = shutil.which("minizinc")
    seen = set()
    for name in [on_path, *(shutil.which("minizinc", path=str(folder)) for folder in bundle_folders())]:
        if name is not None and os.path.realpath(name) not in seen:
            seen.add(os.path.realpath(name))
            yield Path(name)


def bundle_folders() -> list[Path]:
    """Folders that may hold the executable of a bundle, those of the newest version first where the name has one."""
    folders = []
    for pattern in BUNDLES.get(sys.platform, ()):
        path = Path(os.path.expandvars(os.path.expanduser(pattern)))
        for folder in sorted(path.parent.glob(path.name), key=_version_in_name, reverse=True):
            folders += [folder / "bin", folder]
    return folders


def _version_in_name(folder: Path) -> tuple[list[int], str]:
    return [int(digits) for digits in re.findall(r"\d+", folder.name)], folder.name


def _started(executable: Path) -> minizinc.Driver:
    """The driver of an executable, which is asked for its version.

    Raises:
        NoNativeMiniZinc: it is too old.
        InputError: it does not run.
    """
    place = "on PATH" if str(executable) == shutil.which("minizinc") else f"in {executable.parent}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the package looks for MiniZinc when it is imported
            import minizinc
        try:
            return _tied(minizinc.Driver)(executable)
        except minizinc.error.ConfigurationError as error:
            raise NoNativeMiniZinc(one_line(error)) from None
    except (AssertionError, OSError) as error:  # it reports no version, or does not start
        message = f"the MiniZinc {place} does not run: {one_line(error) or 'it reports no version'}"
        raise InputError(Page.INSTALL.after(message)) from None


def _tied(driver_class: type) -> type:
    """`minizinc.Driver` whose runs get SIGTERM when the thread that started them dies, be it with kill -9 of all.

    For this there must be the `setpriv` of util-linux; elsewhere such a run goes on to its time limit.
    """
    tie = _setpriv()
    if tie is None:
        return driver_class

    class TiedDriver(driver_class):
        async def _create_process(self, args: Sequence[object], solver: str | None = None) -> Process:
            import asyncio

            chosen = [] if solver is None else ["--solver", solver]
            arguments = [str(self.executable), *chosen, "--allow-multiple-assignments", *map(str, args)]
            command = [str(tie), "--pdeathsig", "TERM", *arguments, "--json-stream"]
            return await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return TiedDriver


@functools.cache
def _setpriv() -> str | None:
    """The program, if it is here and can do it."""
    program = shutil.which("setpriv") if sys.platform == "linux" else None
    if program is None:
        return None
    trial = subprocess.run([program, "--pdeathsig", "TERM", "true"], capture_output=True, check=False)
    return program if trial.returncode == 0 else None


def one_line(error: Exception) -> str:
    """The message of an error, in one line."""
    return " ".join(str(error).split())
