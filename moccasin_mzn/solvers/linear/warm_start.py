"""Warm starts: the values that annotations of the solve item suggest."""

from __future__ import annotations

from moccasin_mzn.solvers.flatzinc.syntax import warm_starts
from moccasin_mzn.solvers.linear.columns import UnfitError
from moccasin_mzn.solvers.linear.program import Translation

_NAMES = ("warm_start", "warm_start_int", "warm_start_bool", "warm_start_float")


def warm_start(translation: Translation) -> dict[int, float]:
    """The value that the first warm start for it gives each column; one outside of its bounds is left out.

    Raises `FlatZincError` if there are not as many values as variables.
    """
    columns, program = translation.columns, translation.program
    values: dict[int, float] = {}
    for variable, start in warm_starts(translation.file, _NAMES, columns.operands):
        try:
            column, number = columns.column(variable), float(columns.number(start))
        except UnfitError:
            continue
        if column >= 0 and program.lower[column] <= number <= program.upper[column]:
            values.setdefault(column, number)
    return values
