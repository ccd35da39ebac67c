"""How to look for a plan."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.search.options import SEARCHES, Options


@dataclass(frozen=True)
class PlanOptions:
    """How to look for a plan.

    Raises:
        InputError: several solvers, an unknown search, or nonsense as a limit.
    """

    solver: str = "cp-sat"
    """Any solver MiniZinc knows."""
    search: str = "on"
    """"on": incumbents from a search beside the model; "off": the model alone; "only": without the model."""
    time_limit: float | None = None
    """Seconds; None: until proven."""
    until_gap: float = 0.0
    """Stop at this gap, (value - bound) / value."""
    threads: int | None = None
    """Of the solver; None: as many as there are cores."""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise InputError(f"unknown search {shown(self.search)}, expected one of {', '.join(SEARCHES)}")
        checked = Options(
            solver=self.solver, time_limit=self.time_limit, until_gap=self.until_gap, threads=self.threads,
            seed=self.seed,
        )  # fmt: skip
        if len(checked.solvers) > 1:
            raise InputError(f"solver {shown(self.solver)}: plans are for one solver, solvers do not race here")
