"""Finding MiniZinc and its solvers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.flatzinc.configuration import solver_configuration

if TYPE_CHECKING:
    import minizinc

CP_SAT = "cp-sat"


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


def find_backend(name: str) -> Backend:
    """Look up a solver: "cp-sat" is this package's own, any other name is an id or tag known to MiniZinc.

    Raises:
        InputError: MiniZinc is not installed or too old, or it knows no such solver; the message lists those it knows.
    """
    driver = _driver()
    import minizinc

    if name == CP_SAT:
        return Backend(driver, minizinc.Solver(**solver_configuration()), name)
    try:
        return Backend(driver, minizinc.Solver.lookup(name, driver), name)
    except minizinc.error.MiniZincError as error:
        raise InputError(f"MiniZinc cannot list its solvers: {_one_line(error)}") from None
    except LookupError:
        known = {solver.id.rsplit(".", 1)[-1] for solvers in driver.available_solvers().values() for solver in solvers}
        raise InputError(
            f"unknown solver {shown(name)}, MiniZinc knows {', '.join([CP_SAT, *sorted(known - {CP_SAT})])}"
        ) from None


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
