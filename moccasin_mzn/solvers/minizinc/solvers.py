"""Solvers: which MiniZinc drives them, in which version, and which of them have integers of 32 bits only."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.environment import python_path
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import closest
from moccasin_mzn.solvers.flatzinc.configuration import Configuration, OwnSolver, write_configuration
from moccasin_mzn.solvers.linear.configuration import ENGINES
from moccasin_mzn.solvers.minizinc.drivers import (
    Driver,
    NoNativeMiniZinc,
    drivers,
    native_drivers,
    one_line,
    webassembly_driver,
    webassembly_folder,
)

if TYPE_CHECKING:
    import minizinc


LIBRARY = Path(__file__).resolve().parents[1] / "cpsat" / "mznlib"
"""The MiniZinc library of CP-SAT: redefinitions of its global constraints."""
CP_SAT = OwnSolver(
    name="cp-sat",
    title="CP-SAT",
    library="OR-Tools",
    package="ortools",
    module="moccasin_mzn.solvers.cpsat",
    mznlib=str(LIBRARY),
    tags=("cp", "int"),
    parameters="CP-SAT parameters as text protocol buffer",
)
OWN: dict[str, OwnSolver] = {solver.name: solver for solver in (CP_SAT, *ENGINES.values())}
"""The solvers of this package, by name, which need no installation."""
_OTHER_NAMES = {"ortools": "cp-sat", "or-tools": "cp-sat", "cbc": "coin-bc", "coin": "coin-bc", "osicbc": "coin-bc"}
"""What people call some solvers elsewhere; these are suggested, not taken."""
BY_WEBASSEMBLY = {"chuffed", "coin-bc", "org.minizinc.chuffed", "org.minizinc.mip.coin-bc", "org.minizinc.mip.highs"}
"""Solvers that `scripts/install_solvers.sh` brings."""


@dataclass(frozen=True)
class Backend:
    """A MiniZinc and one of the solvers it can drive."""

    found: Driver
    solver: minizinc.Solver
    name: str
    """The name that was asked for, such as "cp-sat" or "gecode"."""

    @property
    def driver_title(self) -> str:
        """Which MiniZinc it is, such as "MiniZinc 2.6.4" or "MiniZinc 2.10.0 (WebAssembly)"."""
        return self.found.title

    @property
    def solver_version(self) -> str:
        """The solver behind the name, such as "Gecode 6.2.0" or "OR-Tools 9.15.6755", as MiniZinc's list has it or, for
        our own, as the packages here are. What a process of our own reports of itself counts more, see
        `run.Outcome`."""
        return _titled(self.solver, self._own.library if self._own else None)

    @property
    def title(self) -> str:
        """The solver's name for people, such as "Gecode" or "HiGHS"."""
        return self._own.library if self._own else self.solver.name

    @property
    def is_own(self) -> bool:
        """True for the solvers of this package."""
        return self._own is not None

    @property
    def in_floating_point(self) -> bool:
        """True for a MIP solver, whose arithmetic is in floating point."""
        return "mip" in self.solver.tags

    @property
    def is_chuffed(self) -> bool:
        """True for Chuffed, as part of MiniZinc or separate."""
        return self.solver.id.rpartition(".")[2] == "chuffed"

    @property
    def learns(self) -> bool:
        """False for Gecode, which follows a model's search annotation to better effect than its own search."""
        return self.solver.id.rpartition(".")[2] != "gecode"

    @property
    def is_cp_sat(self) -> bool:
        """True for this package's own solver."""
        return self.solver.id == CP_SAT.identifier

    @property
    def _own(self) -> OwnSolver | None:
        return OWN.get(self.name.partition("@")[0])


@dataclass(frozen=True)
class KnownSolver:
    """A solver that `find_backend` finds."""

    name: str
    """By which it is asked for."""
    version: str
    """The name for people and the version, such as "Gecode 6.2.0"."""
    driver: str
    """The MiniZinc that drives it, such as "MiniZinc 2.6.4"."""
    needs: str
    """The missing part to run: the flag that names its library to MiniZinc, such as "--cplex-dll", or the path of its
    executable; empty if nothing."""


def find_backend(name: str) -> Backend:
    """Find a solver by name: those in `OWN` are this package's own, any other name is an id or tag known to a MiniZinc.

    It is taken from the first MiniZinc in which it can run, native ones first. A solver that MiniZinc has under the
    name of one in `OWN`, such as its HiGHS, is reached by its full id. "name@version", such as "gecode@6.4.0" or
    "gecode@6.4", asks for a version, from whichever MiniZinc has it. Capitals do not matter where one solver alone has
    the name: "CP-SAT", "Gecode".

    Raises:
        InputError: MiniZinc is not installed or too old; none knows the solver, and the message lists those known; or
            it cannot run, for want of a library or of its executable.
    """
    name = spelled(name)
    plain, _, version = name.partition("@")
    if plain in OWN:
        return _own_backend(name, plain)
    unusable = None
    for driver in drivers():
        for solver in _answering(driver, plain):
            if _is_version(solver.version, version):
                lack = _lack(driver, solver)
                if not lack:
                    return Backend(driver, solver, name)
                unusable = unusable or f"solver {shown(name)} cannot run by {driver.title}: {lack_text(lack)}"
    raise InputError(Page.SOLVERS.after(unusable or _unknown(name, plain)))


def spelled(name: str) -> str:
    """Return the name of a solver as `OWN` has it, where only capitals differ; other names stay as they are."""
    plain, at, version = name.partition("@")
    return f"{plain.casefold()}{at}{version}" if plain.casefold() in OWN else name


def check_solvers(names: Iterable[str]) -> None:
    """Check names where no solver is needed after all; for those in `OWN` no MiniZinc is needed either.

    Raises:
        InputError: as `find_backend`.
    """
    for name in map(spelled, names):
        plain, _, version = name.partition("@")
        if plain in OWN:
            _check_own_version(name, OWN[plain].version)
        else:
            find_backend(name)


def lack_text(lack: str) -> str:
    """What a solver lacks (`KnownSolver.needs`), in words."""
    what = "its library" if lack.startswith("-") else "its executable"
    return f"{what} is not here ({lack})"


def known_solvers() -> list[str]:
    """The names in `solver_list`."""
    return [solver.name for solver in solver_list()]


def solver_list() -> list[KnownSolver]:
    """What `find_backend` knows by name: our own first, then others by name.

    Raises:
        InputError: as `find_backend`.
    """
    own: list[KnownSolver] = []
    others: dict[str, KnownSolver] = {}
    own_ids = {solver.identifier for solver in OWN.values()}
    for driver in drivers():
        if not own and not driver.webassembly:
            own = [KnownSolver(one.name, f"{one.library} {one.version}", driver.title, "") for one in OWN.values()]
        for solver in _unique(driver):
            short = solver.id.rpartition(".")[2]
            name = solver.id if short in OWN else short
            known = KnownSolver(name, _titled(solver), driver.title, _lack(driver, solver))
            if solver.id not in own_ids and (known.name not in others or others[known.name].needs):
                others[known.name] = known
    return [*own, *(others[name] for name in sorted(others))]


def _own_backend(name: str, plain: str) -> Backend:
    """One of our own solvers, by the first native MiniZinc.

    Raises:
        NoNativeMiniZinc: there is none.
        InputError: it does not run, or the version is another.
    """
    try:
        driver = next(native_drivers())
    except NoNativeMiniZinc as error:
        if webassembly_driver() is None:
            raise
        raise NoNativeMiniZinc(
            f"MiniZinc as WebAssembly cannot start {plain}, only solvers of its own: {error}"
        ) from None
    _check_own_version(name, OWN[plain].version)
    return Backend(driver, _own_solver(OWN[plain].configuration()), name)


def _check_own_version(name: str, version: str) -> None:
    plain, _, asked = name.partition("@")
    if not _is_version(version, asked):
        raise InputError(Page.SOLVERS.after(f"unknown version {shown(name)}: here is {plain}@{version}"))


def _own_solver(configuration: Configuration) -> minizinc.Solver:
    """A solver that MiniZinc gets to know by a file for each run.

    MiniZinc up to 2.7 reads such a file and then looks its id up, where an installed solver of the same id and version
    comes first, be it of another environment: hence an id that nothing else has. Flags that the user has set for the
    installed one do not reach it either. The solver is that of this very package.
    """
    import minizinc

    command, path = configuration["executable"], python_path()
    if path is not None and os.name == "posix":
        command = ["/usr/bin/env", f"PYTHONPATH={path}", *(word for word in command if word != "/usr/bin/env")]
    identifier = f"org.moccasin-mzn.run-{uuid.uuid4().hex}"

    class Started(minizinc.Solver):
        @contextlib.contextmanager
        def configuration(self) -> Iterator[str]:
            with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
                content = {**configuration, "id": identifier, "executable": command}
                yield str(write_configuration(Path(folder), content))

    return Started(**configuration)


def _unique(driver: Driver) -> Iterator[minizinc.Solver]:
    """All solvers of a MiniZinc, each once, in its order.

    Raises:
        InputError: it cannot list them.
    """
    import minizinc

    try:
        by_tag = driver.minizinc.available_solvers()
    except (minizinc.error.MiniZincError, ValueError) as error:  # or what it prints is no JSON
        raise InputError(f"{driver.title} cannot list its solvers: {one_line(error)}") from None
    yield from {id(solver): solver for solvers in by_tag.values() for solver in solvers}.values()


def _lack(driver: Driver, solver: minizinc.Solver) -> str:
    """What a solver lacks to run, see `KnownSolver.needs`.

    Flags in the user's configuration of MiniZinc may name the library, and relative paths are MiniZinc's to resolve:
    then its own account of the solver is asked for.
    """
    command = solver.executable
    if not solver.requiredFlags and (command is None or os.access(command, os.X_OK) and os.path.isabs(command)):
        return ""
    listed = driver.listed(solver.id, solver.version)
    flags = [flag for flag in solver.requiredFlags if flag not in listed.get("defaultFlags", ())]
    if flags or command is None:
        return " ".join(flags)
    return "" if os.access(listed.get("executable", ""), os.X_OK) else command


def _answering(driver: Driver, name: str) -> list[minizinc.Solver]:
    """Solvers of a MiniZinc whose id, last part of the id or tag is `name`, in this order, as MiniZinc has it.

    If there is none: the one solver, in all its versions, whose ids differ in capitals or in their last part only.
    """
    ranked, same_spelling = [], []
    for solver in _unique(driver):
        own, last = solver.id, solver.id.rpartition(".")[2]
        rank = next((rank for rank, some in enumerate(({own}, {last}, set(solver.tags))) if name in some), None)
        if rank is not None:
            ranked.append((rank, solver))
        if name.casefold() in (own.casefold(), last.casefold()):
            same_spelling.append(solver)
    if not ranked and len({solver.id for solver in same_spelling}) == 1:
        return same_spelling
    return [solver for _, solver in sorted(ranked, key=lambda pair: pair[0])]


def _is_version(version: str, asked: str) -> bool:
    """Is it the version asked for, if one is? "6.4" stands for "6.4.0" and "6.4.1"."""
    return not asked or version == asked or version.startswith(asked + ".")


def _titled(solver: minizinc.Solver, title: str | None = None) -> str:
    known = solver.version if solver.version[:1].isdigit() else ""
    return f"{title or solver.name} {known}".strip()


def _unknown(name: str, plain: str) -> str:
    """The message for a solver that is unknown, or unknown in this version."""
    versions = [
        f"{plain}@{solver.version} ({driver.title})" for driver in drivers() for solver in _answering(driver, plain)
    ]
    if versions:
        return f"unknown version {shown(name)}: here is {', '.join(versions)}"
    known = known_solvers()
    near = _OTHER_NAMES.get(plain.casefold()) or closest(plain, known)
    hint = f" (did you mean {near}?)" if near else ""
    message = f"unknown solver {shown(name)}{hint}, MiniZinc knows {', '.join(known)}"
    if plain in BY_WEBASSEMBLY and not webassembly_folder().is_dir():
        message += f"; {_installer()} installs {plain}"
    return message


def _installer() -> str:
    """Return the command that brings the solvers of `BY_WEBASSEMBLY`."""
    script = Path(__file__).resolve().parents[3] / "scripts" / "install_solvers.sh"
    return shlex.join(["bash", str(script)]) if script.is_file() else "in a checkout, bash scripts/install_solvers.sh"


# --- Solvers whose integers have 32 bits: models with larger sums are refused before they are compiled --------

# Gecode 6 reads no number past 2^31 - 2, and wraps around unseen in some sums that pass it; Chuffed wraps around in
# all. Then they call optimal what is not, and infeasible what has a solution. What counts are the sums in the model:
# amounts there are divided by their greatest common divisor.


LARGEST = 2**31 - 2
NARROW = frozenset(("gecode", "gecode_presolver", "gist", "chuffed"))
"""The last parts of their ids."""
NARROW_TITLES = ("Gecode", "Chuffed")


@dataclass(frozen=True)
class Sum:
    """A sum over nodes in a model, as large as it may become."""

    what: str
    """The amounts that are summed, such as "duration"."""
    terms: Sequence[int]
    """By node of the model."""
    order: Sequence[int]
    """Position in `graph.nodes` of each node of the model."""
    scale: int
    """Terms times this are in the problem's unit."""

    @property
    def total(self) -> int:
        """The largest sum that may occur."""
        return sum(self.terms)


def too_wide(sums: Iterable[Sum]) -> list[Sum]:
    """The sums that integers of 32 bits cannot hold."""
    return [one for one in sums if one.total > LARGEST]


def check_integers(backends: Iterable[Backend], sums: Callable[[], Iterable[Sum]], named: Callable[[int], str]) -> None:
    """Check that the sums of a model fit the integers of its solvers.

    Args:
        sums: makes them, if any of the solvers has narrow integers.
        named: returns the name of a node for messages, of its position in the graph.

    Raises:
        InputError: one does not; the message names the solver, the sum, its largest term and solvers that can.
    """
    *own, last = OWN
    narrow = [backend for backend in backends if backend.solver.id.rpartition(".")[2] in NARROW]
    for one in too_wide(sums()) if narrow else ():
        largest = max(range(len(one.terms)), key=one.terms.__getitem__)
        unit = f" in units of {one.scale}" if one.scale != 1 else ""
        message = (
            f"solver {narrow[0].name} has integers of 32 bits, up to {LARGEST}: the total {one.what} in the model "
            f"may be {one.total}{unit}, {one.terms[largest]} of it of node {named(one.order[largest])}; "
            f"{', '.join(own)} and {last} can count that far"
        )
        raise InputError(Page.SOLVERS.after(message))
