"""What the names of a FlatZinc file stand for in the CP-SAT model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, ModelError, Term, constant
from moccasin_mzn.solvers.flatzinc.intset import IntSet
from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZinc, describe


class Symbols:
    """Turns FlatZinc expressions into operands; the tables are filled by `translate`.

    `integers` and `literals` hold scalars, variables and parameters alike. Every conversion raises `ModelError` if the
    expression is not of the kind asked for.
    """

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.parameters = file.parameters
        self.elements = {name: array.elements for name, array in file.arrays.items()}
        self.elements.update({name: value for name, value in file.parameters.items() if isinstance(value, list)})
        self.integers: dict[str, Term] = {}
        self.literals: dict[str, int] = {}
        for name, value in file.parameters.items():
            if type(value) is bool:
                self.literals[name] = TRUE if value else FALSE
            elif type(value) is int:
                self.integers[name] = constant(value)
        self._arrays: dict[tuple[str, str], Sequence[Any]] = {}
        single: dict[str, Callable[[Expression], Any]] = {
            "Int": self.term,
            "Bool": self.literal,
            "Par": self.integer,
            "Set": self.set,
        }
        self.converters = single | {f"{kind}s": partial(self._array, kind) for kind in single}

    def term(self, value: Expression) -> Term:
        """An integer operand."""
        if type(value) is str and value in self.integers:
            return self.integers[value]
        if type(value) is int:
            return Term(0, 0, value)
        raise self._mismatch("an integer", value)

    def literal(self, value: Expression) -> int:
        """A boolean operand."""
        if type(value) is str and value in self.literals:
            return self.literals[value]
        if type(value) is bool:
            return TRUE if value else FALSE
        raise self._mismatch("a bool", value)

    def integer(self, value: Expression) -> int:
        """An integer parameter."""
        if type(value) is int:
            return value
        if type(value) is str and type(self.parameters.get(value)) is int:
            return self.parameters[value]
        raise self._mismatch("an integer constant", value)

    def set(self, value: Expression) -> IntSet:
        """A set parameter."""
        content = self.parameters.get(value) if type(value) is str else value
        if isinstance(content, IntSet):
            return content
        raise self._mismatch("a set constant", value)

    def list(self, value: Expression) -> list[Expression]:
        """The elements of an array, given by name or as a literal."""
        if type(value) is list:
            return value
        if type(value) is str and value in self.elements:
            return self.elements[value]
        raise self._mismatch("an array", value)

    def _array(self, kind: str, value: Expression) -> Sequence[Any]:
        if type(value) is not str:
            return list(map(self.converters[kind], self.list(value)))
        key = (kind, value)
        if key not in self._arrays:
            self._arrays[key] = list(map(self.converters[kind], self.list(value)))
        return self._arrays[key]

    def _mismatch(self, wanted: str, value: Expression) -> ModelError:
        if type(value) is str and value not in self.file.positions:
            return ModelError(f"{value} is not declared")
        return ModelError(f"{wanted} expected, found {describe(value)}")
