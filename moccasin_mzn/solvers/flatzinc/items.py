"""What a FlatZinc file wants printed, and in which form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moccasin_mzn.solvers.flatzinc.intset import IntSet
from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZinc


@dataclass(frozen=True, slots=True)
class Output:
    """A scalar, whose `sets` are None, or an array with the index sets that `output_array` asks for."""

    name: str
    elements: list[Expression]
    sets: tuple[IntSet, ...] | None
    is_bool: bool
    is_float: bool

    def text(self, numbers: Iterable[int | float]) -> str:
        """The line that gives its elements: `name = value;` or `name = arrayNd(sets, [elements]);`."""
        words = map(self._word, numbers)
        if self.sets is None:
            return f"{self.name} = {', '.join(words)};\n"
        return f"{self.name} = array{len(self.sets)}d({', '.join(map(str, self.sets))}, [{', '.join(words)}]);\n"

    def _word(self, number: int | float) -> str:
        if self.is_bool:
            return "true" if number else "false"
        return repr(float(number) + 0.0) if self.is_float else str(int(number))  # -0.0 becomes 0.0


def outputs(file: FlatZinc) -> list[Output]:
    """The output items of a file, in its order: scalars first."""
    items = [
        Output(variable.name, [variable.name], None, variable.is_bool, variable.is_float)
        for variable in file.variables.values()
        if variable.is_output
    ]
    items += [
        Output(array.name, array.elements, array.output, array.is_bool, array.is_float)
        for array in file.arrays.values()
        if array.output is not None
    ]
    return items
