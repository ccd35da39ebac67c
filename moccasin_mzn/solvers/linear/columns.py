"""Which column of a linear program a name of a FlatZinc file stands for, and what values columns may take."""

from __future__ import annotations

import math

from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST
from moccasin_mzn.solvers.flatzinc.syntax import (
    Expression,
    FlatZinc,
    FlatZincError,
    FloatSet,
    UnsupportedError,
    Variable,
    describe,
)

Number = int | float
"""A constant; bools count as 0 and 1."""
LARGEST_EXACT = 2**53
"""Up to here every integer is a double."""


class UnfitError(FlatZincError):
    """A constraint that no row can say; the message has no place yet."""


class Columns:
    """One column for every variable, except that `int2float(x, f)` makes f another name of the column of x.

    Attributes:
        index: column by name.
        names: name by column.
        lower, upper: bounds by column, infinite where there are none; `lower > upper` for an empty domain.
        is_integer: by column.
        aliased: ids of the constraints that aliases make true.
    """

    def __init__(self, file: FlatZinc) -> None:
        self._file = file
        self._constants = {name: value for name, value in file.parameters.items() if isinstance(value, (int, float))}
        self._arrays: dict[str, list[Number]] = {}
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.is_integer: list[bool] = []
        self.aliased: set[int] = set()
        aliases = self._find_aliases()
        for variable in file.variables.values():
            if variable.name not in aliases:
                self._declare(variable)
        for alias, name in aliases.items():
            column = self.index[alias] = self.index[name]
            low, high = self._bounds(file.variables[alias])
            self.lower[column] = max(self.lower[column], low if math.isinf(low) else math.ceil(low))
            self.upper[column] = min(self.upper[column], high if math.isinf(high) else math.floor(high))

    def _find_aliases(self) -> dict[str, str]:
        aliases: dict[str, str] = {}
        variables = self._file.variables
        for item in self._file.constraints:
            if item.name == "int2float" and len(item.arguments) == 2:
                source, target = (variables.get(name) if type(name) is str else None for name in item.arguments)
                if source and target and target.is_float and not source.is_float and target.name not in aliases:
                    aliases[target.name] = source.name
                    self.aliased.add(id(item))
        return aliases

    def _declare(self, variable: Variable) -> None:
        self.index[variable.name] = len(self.names)
        self.names.append(variable.name)
        low, high = self._bounds(variable)
        self.lower.append(low)
        self.upper.append(high)
        self.is_integer.append(not variable.is_float)

    def _bounds(self, variable: Variable) -> tuple[float, float]:
        """An integer that is no double is rounded outwards, where no solution is accepted anyway (see `check`)."""
        domain = variable.domain
        if variable.is_bool:
            return 0.0, 1.0
        if domain is None:
            return -math.inf, math.inf
        if isinstance(domain, FloatSet):
            return domain.low, domain.high
        if not domain.ranges:
            return math.inf, -math.inf
        if len(domain.ranges) > 1:
            place = self._file.where(self._file.positions[variable.name])
            raise UnsupportedError(f"{place}: {variable.name}: a domain with holes is not supported")
        low, high = domain.ranges[0]
        return -outwards(-low) if low > LOWEST else -math.inf, outwards(high) if high < HIGHEST else math.inf

    def number(self, value: Expression) -> Number:
        """A numeric constant, as a literal or by the name of a parameter; `UnfitError` for all else."""
        content = self._constants.get(value) if type(value) is str else value
        if isinstance(content, (int, float)):
            return content
        raise self._mismatch("a constant", value)

    def numbers(self, value: Expression) -> list[Number]:
        """An array of numeric constants, as a literal or by name."""
        if type(value) is str and value in self._arrays:
            return self._arrays[value]
        content = self._file.parameters.get(value) if type(value) is str else value
        if type(content) is not list:
            raise self._mismatch("an array of constants", value)
        numbers = content if set(map(type, content)) <= {int, float} else [self.number(item) for item in content]
        if type(value) is str:
            self._arrays[value] = numbers
        return numbers

    def operands(self, value: Expression) -> list[Expression]:
        """The elements of an array of variables or constants, as a literal or by name."""
        if type(value) is list:
            return value
        if type(value) is str:
            array = self._file.arrays.get(value)
            content = array.elements if array else self._file.parameters.get(value)
            if type(content) is list:
                return content
        raise self._mismatch("an array", value)

    def column(self, value: Expression) -> int:
        """The column of a variable; -1 for a constant."""
        if type(value) is str and value in self.index:
            return self.index[value]
        self.number(value)
        return -1

    def _mismatch(self, wanted: str, value: Expression) -> UnfitError:
        if type(value) is str and value not in self._file.positions:
            return UnfitError(f"{value} is not declared")
        return UnfitError(f"{wanted} expected, found {describe(value)}")


def outwards(bound: int) -> float:
    """The least double that is not below `bound`."""
    rounded = float(bound)
    return rounded if rounded >= bound else math.nextafter(rounded, math.inf)
