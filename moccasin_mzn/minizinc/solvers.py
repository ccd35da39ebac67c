"""Finding solvers: which MiniZinc drives them, and in which version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.flatzinc.configuration import solver_configuration as cp_sat_configuration
from moccasin_mzn.linear.configuration import ENGINES
from moccasin_mzn.linear.configuration import solver_configuration as linear_configuration
from moccasin_mzn.minizinc.drivers import (
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

CP_SAT = "cp-sat"
OWN = (CP_SAT, *ENGINES)
"""The solvers of this package, which need no installation."""
OWN_TITLES = {CP_SAT: "OR-Tools", "highs": "HiGHS", "scip": "SCIP of OR-Tools"}
"""What solves behind them; the versions are those of the packages."""
BY_WEBASSEMBLY = {"chuffed", "coin-bc", "org.minizinc.chuffed", "org.minizinc.mip.coin-bc", "org.minizinc.mip.highs"}
"""Solvers that `scripts/install_solvers.sh` brings."""


@dataclass(frozen=True)
class Backend:
    """A MiniZinc and one of the solvers it can drive."""

    found: Driver
    solver: minizinc.Solver
    name: str
    """As asked for, such as "cp-sat" or "gecode"."""

    @property
    def driver(self) -> minizinc.Driver:
        """The MiniZinc executable."""
        return self.found.minizinc

    @property
    def driver_title(self) -> str:
        """Which MiniZinc it is, such as "MiniZinc 2.6.4" or "MiniZinc 2.10.0 (WebAssembly)"."""
        return self.found.title

    @property
    def solver_version(self) -> str:
        """The solver behind the name, such as "Gecode 6.2.0" or "OR-Tools 9.15.6755"."""
        return _titled(self.solver, OWN_TITLES.get(self.name.partition("@")[0]))

    @property
    def is_chuffed(self) -> bool:
        """True for Chuffed, as part of MiniZinc or beside it."""
        return self.solver.id.rpartition(".")[2] == "chuffed"

    @property
    def is_cp_sat(self) -> bool:
        """True for this package's own solver."""
        return self.solver.id == own_configuration(CP_SAT)["id"]


@dataclass(frozen=True)
class KnownSolver:
    """A solver that `find_backend` finds."""

    name: str
    """By which it is asked for."""
    version: str
    """Its name for people and its version, such as "Gecode 6.2.0"."""
    driver: str
    """The MiniZinc that drives it, such as "MiniZinc 2.6.4"."""
    needs: str
    """The flag that names its library to MiniZinc, if that library is not here, such as "--cplex-dll"; else empty."""


def own_configuration(name: str) -> dict:
    """The content of the `.msc` file of one of the solvers in `OWN`."""
    return cp_sat_configuration() if name == CP_SAT else linear_configuration(name)


def find_backend(name: str) -> Backend:
    """Look up a solver: those in `OWN` are this package's own, any other name is an id or tag known to a MiniZinc.

    It is taken from the first MiniZinc that has it, native ones first; one whose library is missing only if there is
    no other. A solver that MiniZinc has under the name of one in `OWN`, such as its HiGHS, is reached by its full id.
    "name@version", such as "gecode@6.4.0" or "gecode@6.4", asks for a version, from whichever MiniZinc has it.

    Raises:
        InputError: MiniZinc is not installed or too old, or none knows the solver; the message lists those known.
    """
    plain, _, version = name.partition("@")
    if plain in OWN:
        return _own_backend(name, plain, version)
    unusable = None
    for driver in drivers():
        for solver in _answering(driver, plain):
            if _is_version(solver.version, version):
                backend = Backend(driver, solver, name)
                if not solver.requiredFlags:
                    return backend
                unusable = unusable or backend
    if unusable is not None:
        return unusable
    raise InputError(_unknown(name, plain))


def known_solvers() -> list[str]:
    """The names that `find_backend` knows, each once: our own first, then those of every MiniZinc.

    Raises:
        InputError: as `find_backend`.
    """
    return [solver.name for solver in solver_list()]


def solver_list() -> list[KnownSolver]:
    """What `find_backend` knows by name: our own first, then others by name.

    Raises:
        InputError: as `find_backend`.
    """
    from importlib.metadata import version

    own, others = [], {}
    own_ids = {own_configuration(name)["id"] for name in OWN}
    for driver in drivers():
        if not own and not driver.webassembly:
            packages = {CP_SAT: "ortools", **{name: package for name, (_, package, _) in ENGINES.items()}}
            own = [KnownSolver(name, f"{OWN_TITLES[name]} {version(packages[name])}", driver.title, "") for name in OWN]
        for solver in _unique(driver):
            short = solver.id.rpartition(".")[2]
            known = KnownSolver(
                solver.id if short in OWN else short, _titled(solver), driver.title, " ".join(solver.requiredFlags)
            )  # fmt: skip
            if solver.id not in own_ids and (known.name not in others or others[known.name].needs):
                others[known.name] = known
    return [*own, *(others[name] for name in sorted(others))]


def _own_backend(name: str, plain: str, version: str) -> Backend:
    """One of our own solvers, by the first native MiniZinc.

    Raises:
        InputError: there is none, or the version is another.
    """
    try:
        driver = next(native_drivers())
    except NoNativeMiniZinc as error:
        if webassembly_driver() is None:
            raise
        raise InputError(f"{error}: MiniZinc as WebAssembly cannot start {plain}, only solvers of its own") from None
    import minizinc

    solver = minizinc.Solver(**own_configuration(plain))
    if not _is_version(solver.version, version):
        raise InputError(f"unknown version {shown(name)}: here is {plain}@{solver.version}")
    return Backend(driver, solver, name)


def _unique(driver: Driver) -> Iterator[minizinc.Solver]:
    """All solvers of a MiniZinc, each once, in its order.

    Raises:
        InputError: it cannot list them.
    """
    import minizinc

    try:
        by_tag = driver.minizinc.available_solvers()
    except minizinc.error.MiniZincError as error:
        raise InputError(f"{driver.title} cannot list its solvers: {one_line(error)}") from None
    yield from {id(solver): solver for solvers in by_tag.values() for solver in solvers}.values()


def _answering(driver: Driver, name: str) -> list[minizinc.Solver]:
    """Solvers of a MiniZinc whose id, last part of the id or tag is `name`, in this order, as MiniZinc has it."""
    ranked = []
    for solver in _unique(driver):
        names = [{solver.id}, {solver.id.rpartition(".")[2]}, set(solver.tags)]
        rank = next((rank for rank, some in enumerate(names) if name in some), None)
        if rank is not None:
            ranked.append((rank, solver))
    return [solver for _, solver in sorted(ranked, key=lambda pair: pair[0])]


def _is_version(version: str, asked: str) -> bool:
    """Is it the version asked for, if one is? "6.4" stands for "6.4.0" and "6.4.1"."""
    return not asked or version == asked or version.startswith(asked + ".")


def _titled(solver: minizinc.Solver, title: str | None = None) -> str:
    known = solver.version if solver.version[:1].isdigit() else ""
    return f"{title or solver.name} {known}".strip()


def _unknown(name: str, plain: str) -> str:
    """What to say of a solver that nobody knows, or not in this version."""
    versions = [
        f"{plain}@{solver.version} ({driver.title})" for driver in drivers() for solver in _answering(driver, plain)
    ]
    if versions:
        return f"unknown version {shown(name)}: here is {', '.join(versions)}"
    message = f"unknown solver {shown(name)}, MiniZinc knows {', '.join(known_solvers())}"
    if plain in BY_WEBASSEMBLY and not webassembly_folder().is_dir():
        message += f"; scripts/install_solvers.sh installs {plain}"
    return message
