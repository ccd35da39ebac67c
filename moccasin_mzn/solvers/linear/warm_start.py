"""Warm starts: the values that annotations of the solve item suggest."""

from __future__ import annotations

from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZincError, calls_in
from moccasin_mzn.solvers.linear.columns import UnfitError
from moccasin_mzn.solvers.linear.program import Translation

_NAMES = ("warm_start", "warm_start_int", "warm_start_bool", "warm_start_float")


def warm_start(translation: Translation) -> dict[int, float]:
    """The value that the first warm start for it gives each column; one outside of its bounds is left out.

    Raises `FlatZincError` if there are not as many values as variables.
    """
    values: dict[int, float] = {}
    for call in calls_in(translation.file.solve.annotations):
        if call.name in _NAMES and len(call.arguments) == 2:
            _collect(translation, call.name, *call.arguments, values)
    return values


def _collect(
    translation: Translation, name: str, variables: Expression, numbers: Expression, values: dict[int, float]
) -> None:
    file, columns, program = translation.file, translation.columns, translation.program
    try:
        names, starts = columns.operands(variables), columns.operands(numbers)
    except UnfitError:
        return
    if len(names) != len(starts):
        place = file.where(file.solve.position)
        raise FlatZincError(f"{place}: {name}: {len(names)} variables, but {len(starts)} values")
    for variable, start in zip(names, starts, strict=True):
        try:
            column, number = columns.column(variable), float(columns.number(start))
        except UnfitError:
            continue
        if column >= 0 and program.lower[column] <= number <= program.upper[column]:
            values.setdefault(column, number)
