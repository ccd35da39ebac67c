"""Finding MiniZinc and its solvers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.flatzinc.configuration import solver_configuration as cp_sat_configuration
from moccasin_mzn.linear.configuration import ENGINES
from moccasin_mzn.linear.configuration import solver_configuration as linear_configuration

if TYPE_CHECKING:
    import minizinc

CP_SAT = "cp-sat"
OWN = (CP_SAT, *ENGINES)
"""The solvers of this package, which need no installation."""


@dataclass(frozen=True)
class Backend:
    """A MiniZinc executable and one of the solvers it can drive."""

    driver: minizinc.Driver
    solver: minizinc.Solver
    name: str
    """As asked for, such as "cp-sat" or "gecode"."""

    @property
    def is_cp_sat(self) -> bool:
        """True for this package's own solver."""
        return self.name == CP_SAT


def own_configuration(name: str) -> dict:
    """The content of the `.msc` file of one of the solvers in `OWN`."""
    return cp_sat_configuration() if name == CP_SAT else linear_configuration(name)


def find_backend(name: str) -> Backend:
    """Look up a solver: those in `OWN` are this package's own, any other name is an id or tag known to MiniZinc.

    A solver that MiniZinc has under the same name, such as its HiGHS, is reached by its full id.

    Raises:
        InputError: MiniZinc is not installed or too old, or it knows no such solver; the message lists those it knows.
    """
    driver = _driver()
    import minizinc

    if name in OWN:
        return Backend(driver, minizinc.Solver(**own_configuration(name)), name)
    try:
        return Backend(driver, minizinc.Solver.lookup(name, driver), name)
    except minizinc.error.MiniZincError as error:
        raise InputError(f"MiniZinc cannot list its solvers: {_one_line(error)}") from None
    except LookupError:
        raise InputError(f"unknown solver {shown(name)}, MiniZinc knows {', '.join(_names(driver))}") from None


def known_solvers() -> list[str]:
    """The names that `find_backend` knows: our own first, then those of MiniZinc.

    Raises:
        InputError: as `find_backend`.
    """
    driver = _driver()
    import minizinc

    try:
        return _names(driver)
    except minizinc.error.MiniZincError as error:
        raise InputError(f"MiniZinc cannot list its solvers: {_one_line(error)}") from None


def _names(driver: minizinc.Driver) -> list[str]:
    """The last parts of the ids; of a solver called like one of ours, the whole id."""
    found = {solver.id for solvers in driver.available_solvers().values() for solver in solvers}
    found -= {own_configuration(name)["id"] for name in OWN}
    names = {identifier.rsplit(".", 1)[-1]: identifier for identifier in sorted(found)}
    return [*OWN, *sorted(identifier if name in OWN else name for name, identifier in names.items())]


def _driver() -> minizinc.Driver:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the package looks for MiniZinc when it is imported
            import minizinc
        try:
            driver = minizinc.Driver.find()
        except minizinc.error.ConfigurationError as error:  # too old
            raise InputError(_one_line(error)) from None
    except (AssertionError, OSError) as error:  # it tells no version, or does not start
        raise InputError(f"the MiniZinc on PATH does not run: {_one_line(error) or 'it tells no version'}") from None
    if driver is None:
        raise InputError(
            "MiniZinc is not on PATH; install it (apt-get install minizinc, brew install minizinc, or minizinc.org)"
        )
    return driver


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
