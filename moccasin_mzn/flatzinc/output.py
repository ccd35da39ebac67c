"""Solutions as text: one `name = value;` line for every output item."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import Term, as_term
from .translate import Problem

Values = Sequence[int]
"""The value of every CP-SAT variable, by its index."""


def evaluate(term: Term, values: Values) -> int:
    """The value of an operand in a solution."""
    return term.coefficient * values[term.variable] + term.offset


class OutputItem:
    """A scalar or an array; `text` prints it as FlatZinc, arrays as `arrayNd(sets, [elements])` with the index sets
    that `output_array` asks for."""

    def __init__(self, name: str, terms: list[Term], is_bool: bool, sets: tuple | None) -> None:
        self.terms = terms
        self.is_bool = is_bool
        if sets is None:
            self.prefix, self.suffix = f"{name} = ", ";\n"
        else:
            self.prefix = f"{name} = array{len(sets)}d({', '.join(map(str, sets))}, ["
            self.suffix = "]);\n"

    def text(self, values: Values) -> str:
        """The line for a solution."""
        numbers = [coefficient * values[variable] + offset for variable, coefficient, offset in self.terms]
        words = ["true" if number else "false" for number in numbers] if self.is_bool else map(str, numbers)
        return self.prefix + ", ".join(words) + self.suffix


def output_items(problem: Problem) -> list[OutputItem]:
    """The output items of a file, in its order: scalars first."""
    symbols, file = problem.symbols, problem.file

    def terms(elements: list, is_bool: bool) -> list[Term]:
        return [as_term(symbols.literal(item)) if is_bool else symbols.term(item) for item in elements]

    items = [
        OutputItem(variable.name, terms([variable.name], variable.is_bool), variable.is_bool, None)
        for variable in file.variables.values()
        if variable.is_output
    ]
    items += [
        OutputItem(array.name, terms(array.elements, array.is_bool), array.is_bool, array.output)
        for array in file.arrays.values()
        if array.output is not None
    ]
    return items
