"""Which variables are the same up to negation, found before any of them is created.

`bool2int`, `bool_eq` and `bool_not` between variables need no constraint and no second variable: both names become one
CP-SAT literal. A hint for one is then a hint for the other. The same goes for the bool of a half (see `halves`) and its
twin.
"""

from __future__ import annotations

from collections.abc import Mapping

from moccasin_mzn.solvers.cpsat.halves import Half
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc


class Aliases:
    """`absorbed` holds the ids of the constraints that the aliases make true; `booleans` says for an integer variable
    which bool it copies."""

    def __init__(self, file: FlatZinc, halves: Mapping[int, Half]) -> None:
        self.absorbed: set[int] = set()
        self.booleans: dict[str, str] = {}
        self._parents: dict[str, tuple[str, bool]] = {}
        self._variables = variables = file.variables
        for variable in variables.values():
            if variable.is_bool and self._is_bool(variable.value):
                self._join(str(variable.value), variable.name, False)
        readers = {"bool2int": self._channel, "bool_eq": self._equal, "bool_not": self._opposite}
        for constraint in file.constraints:
            reader = readers.get(constraint.name)
            if reader and len(constraint.arguments) == 2:
                left, right = constraint.arguments
                if self._is_bool(left) and (self._is_int if reader == self._channel else self._is_bool)(right):
                    reader(constraint, left, right)

        for item in file.constraints:
            half = halves.get(id(item))
            if half and half.twin and self._is_bool(half.twin[0]):
                self._join(half.twin[0], item.arguments[-1], half.twin[1])
                self.absorbed.add(id(half.clause))

    def root(self, name: str) -> tuple[str, bool]:
        """The bool that stands for `name`, and whether `name` is its negation."""
        negated, parents = False, self._parents
        while name in parents:
            parent, flip = parents[name]
            if parent in parents:  # halve the path for the next time
                parent, more = parents[parent]
                flip ^= more
                parents[name] = parent, flip
            name = parent
            negated ^= flip
        return name, negated

    def _is_bool(self, value: Expression | None) -> bool:
        """Is this the name of a bool variable?"""
        return type(value) is str and value in self._variables and self._variables[value].is_bool

    def _is_int(self, value: Expression | None) -> bool:
        """Is this the name of an integer variable?"""
        return type(value) is str and value in self._variables and not self._variables[value].is_bool

    def _channel(self, constraint: Constraint, literal: str, integer: str) -> None:
        if integer not in self.booleans:
            self.booleans[integer] = literal
            self.absorbed.add(id(constraint))

    def _equal(self, constraint: Constraint, left: str, right: str) -> None:
        if self._join(left, right, False):
            self.absorbed.add(id(constraint))

    def _opposite(self, constraint: Constraint, left: str, right: str) -> None:
        if self._join(left, right, True):
            self.absorbed.add(id(constraint))

    def _join(self, left: str, right: str, opposite: bool) -> bool:
        """Make the roots of both one; False if they are one already."""
        (left_root, left_flip), (right_root, right_flip) = self.root(left), self.root(right)
        if left_root == right_root:
            return False
        self._parents[right_root] = (left_root, left_flip ^ right_flip ^ opposite)
        return True
