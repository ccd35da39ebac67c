"""Solutions of CP-SAT as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.solvers.cpsat.builder import Term, as_term
from moccasin_mzn.solvers.cpsat.translate import Problem
from moccasin_mzn.solvers.flatzinc.stream import Output, outputs

if TYPE_CHECKING:
    from fractions import Fraction

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


@dataclass(frozen=True, slots=True)
class FloatItem:
    """An output item of floats; each element is the sum of a constant and of operands times fractions."""

    output: Output
    elements: list[tuple[Fraction, list[Fraction], list[Term]]]

    @property
    def terms(self) -> list[Term]:
        """All operands."""
        return [term for _, _, terms in self.elements for term in terms]

    def text(self, values: Values) -> str:
        """The line for a solution."""
        return self.output.text(
            float(constant + sum(factor * evaluate(term, values) for factor, term in zip(factors, terms, strict=True)))
            for constant, factors, terms in self.elements
        )


def output_items(problem: Problem) -> list[OutputItem | FloatItem]:
    """The output items of a file, in its order: scalars first."""
    symbols, integral = problem.symbols, problem.integral
    items: list[OutputItem | FloatItem] = []
    for output in outputs(integral.source if integral else problem.file):
        if output.is_float and integral:
            forms = map(integral.form, output.elements)
            pairs = ((form, list(map(symbols.term, form.factors))) for form in forms)
            items.append(FloatItem(output, [(form.constant, [*form.factors.values()], terms) for form, terms in pairs]))
        else:
            read = (lambda item: as_term(symbols.literal(item))) if output.is_bool else symbols.term
            items.append(OutputItem(output, list(map(read, output.elements))))
    return items
