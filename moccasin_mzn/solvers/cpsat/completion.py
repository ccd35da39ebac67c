"""Completes a warm start: CP-SAT only takes a hint for its first solution if every variable is in it.

MiniZinc introduces variables that no model mentions, for the objective, for sums and for the truth of constraints.
Their values follow from those of the model's own variables through the constraints that define them. Here these
constraints are evaluated as soon as all their other operands are known. Where r -> c is all that is asked of r, it is
hinted as the truth of c.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from moccasin_mzn.solvers.cpsat import families
from moccasin_mzn.solvers.cpsat.builder import Term, as_term
from moccasin_mzn.solvers.cpsat.translate import Problem
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST

Step = Callable[[], Iterable[int]]
"""Tries to find a value; returns the variables of which one has to become known before it is worth another try."""
UNDEFINED = (ValueError, ArithmeticError, LookupError)
"""What functions raise where they have no value, such as the maximum of nothing or a division by a hinted 0."""


class Completion:
    """Extends `hints` (CP-SAT variable -> value) in place."""

    def __init__(self, problem: Problem, hints: dict[int, int]) -> None:
        self.problem = problem
        self.hints = hints
        self._waiting: dict[int, list[Step]] = defaultdict(list)
        self._ready: list[Step] = []

    def run(self) -> None:
        """Find all values that follow."""
        self._ready = list(self._definitions())
        while self._ready:
            step = self._ready.pop()
            for variable in step():
                self._waiting[variable].append(step)
        self._auxiliaries()

    def value(self, term: Term) -> int | None:
        """The value of an operand, None if it is not known."""
        if not term.coefficient:
            return term.offset
        known = self.hints.get(term.variable)
        return None if known is None else term.coefficient * known + term.offset

    def _auxiliaries(self) -> None:
        for variable, terms, rule in self.problem.builder.hint_rules:
            values = [value for value in map(self.value, terms) if value is not None]
            with suppress(*UNDEFINED):
                found = rule(values) if len(values) == len(terms) else None
                if found is not None:
                    self.hints.setdefault(variable, int(found))

    def _definitions(self) -> Iterable[Step]:
        converters = self.problem.symbols.converters
        for item in self.problem.file.constraints:
            handler = families.handler(item.name)
            half = self.problem.halves.get(id(item))
            if half and half.twin:
                continue  # its bool is now one that says more
            if item.name == "int_lin_eq" or handler.value:
                operands = [converters[kind](value) for kind, value in zip(handler.kinds, item.arguments, strict=True)]
                if item.name == "int_lin_eq":
                    yield self._equation(*operands)
                else:
                    yield self._function(handler, operands)

    def _learn(self, term: Term, value: int) -> None:
        """The operand has this value, unless something else is known about it."""
        if term.coefficient and term.variable not in self.hints:
            steps, rest = divmod(value - term.offset, term.coefficient)
            if rest == 0 and LOWEST < steps < HIGHEST:
                self.hints[term.variable] = steps
                self._ready.extend(self._waiting.pop(term.variable, ()))

    def _equation(self, factors: list[int], terms: list[Term], total: int) -> Step:
        """sum factors * terms = total gives the last unknown term."""

        def step() -> Iterable[int]:
            rest, unknown = total, []
            for factor, term in zip(factors, terms, strict=True):
                value = self.value(term)
                if value is not None:
                    rest -= factor * value
                else:
                    unknown.append((factor, term))
                    if len(unknown) == 2:
                        return {term.variable for _, term in unknown}
            if unknown:
                factor, term = unknown[0]
                if factor and rest % factor == 0:
                    self._learn(term, rest // factor)
            return ()

        return step

    def _function(self, handler, operands: list) -> Step:
        """The value of one operand, which may be an array, follows from all the others."""
        target = handler.target % len(operands)
        kind, operand = handler.kinds[target], operands[target]
        results = operand if kind == "Ints" else [as_term(operand) if kind == "Bool" else operand]
        others = [pair for index, pair in enumerate(zip(handler.kinds, operands, strict=True)) if index != target]

        def step() -> Iterable[int]:
            if None in map(self.value, results):
                try:
                    values = [self._evaluate(kind, operand) for kind, operand in others]
                except _Unknown as unknown:
                    return unknown.args
                try:
                    found = handler.value(*values)
                except UNDEFINED:
                    return ()
                for term, number in zip(results, found if kind == "Ints" else [found], strict=False):
                    self._learn(term, int(number))
            return ()

        return step

    def _evaluate(self, kind: str, operand):
        if kind in ("Ints", "Bools"):
            return [self._evaluate(kind[:-1], element) for element in operand]
        if kind == "Bool":
            return bool(self._known(as_term(operand)))
        return self._known(operand) if kind == "Int" else operand

    def _known(self, term: Term) -> int:
        value = self.value(term)
        if value is None:
            raise _Unknown(term.variable)
        return value


class _Unknown(Exception):
    """The CP-SAT variable given as argument has no value yet."""
