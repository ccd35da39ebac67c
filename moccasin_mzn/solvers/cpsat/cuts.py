"""Domains that are cut for want of bounds, and what is proven nevertheless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from moccasin_mzn.solvers.cpsat.bounds import implied_bounds
from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZinc


@dataclass(frozen=True, slots=True)
class Cut:
    """A variable whose domain was cut to low..high."""

    name: str
    low: int
    high: int


def names_in_constraints(file: FlatZinc) -> set[str]:
    """All names that constraints and right-hand sides mention, themselves or through an array."""
    names: set[str] = set()

    def collect(values: Sequence[Expression]) -> None:
        for value in values:
            if isinstance(value, list):
                collect(value)
            elif isinstance(value, str) and value not in names:
                names.add(value)
                if value in file.arrays:
                    collect(file.arrays[value].elements)

    for item in file.constraints:
        collect(item.arguments)
    for variable in file.variables.values():
        if variable.value is not None:
            collect([variable.name, variable.value])
    return names


def are_harmless(cuts: Mapping[int, Cut], file: FlatZinc, best: int) -> bool:
    """Is an optimum within cut domains one of the file? It is if, by what the constraints imply, no solution is better,
    or none that is as good has values beyond a cut."""
    objective, minimizes = file.solve.objective, file.solve.goal == "minimize"
    if not isinstance(objective, str) or objective not in file.variables:
        return True  # a constant, of which every solution is an optimum
    better = {objective: (-inf, best - 1) if minimizes else (best + 1, inf)}
    if implied_bounds(file, better) is None:
        return True
    bounds = implied_bounds(file, {objective: (-inf, best) if minimizes else (best, inf)})
    return bounds is not None and all(
        cut.low <= bounds[cut.name][0] and bounds[cut.name][1] <= cut.high for cut in cuts.values()
    )
