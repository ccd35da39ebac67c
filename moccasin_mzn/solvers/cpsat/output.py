"""Solutions of CP-SAT as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.solvers.cpsat.builder import Term, as_term
from moccasin_mzn.solvers.cpsat.translate import Problem
from moccasin_mzn.solvers.flatzinc.items import Output, outputs

Values = Sequence[int]
"""The value of every CP-SAT variable, by its index."""


def evaluate(term: Term, values: Values) -> int:
    """The value of an operand in a solution."""
    return term.coefficient * values[term.variable] + term.offset


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An output item with the operands that are its elements."""

    output: Output
    terms: list[Term]

    def text(self, values: Values) -> str:
        """The line for a solution."""
        return self.output.text(evaluate(term, values) for term in self.terms)


def output_items(problem: Problem) -> list[OutputItem]:
    """The output items of a file, in its order: scalars first."""
    symbols = problem.symbols
    return [
        OutputItem(
            output,
            [as_term(symbols.literal(item)) if output.is_bool else symbols.term(item) for item in output.elements],
        )
        for output in outputs(problem.file)
    ]
