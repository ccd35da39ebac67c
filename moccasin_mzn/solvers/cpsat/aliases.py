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
        for constraint in file.constraints:
            if constraint.name in ("bool2int", "bool_eq", "bool_not") and len(constraint.arguments) == 2:
                self._absorb(constraint, *constraint.arguments)
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

    def _absorb(self, constraint: Constraint, left: Expression, right: Expression) -> None:
        """Make a constraint between two variables true, if there are two and nothing else has made them one."""
        if not self._is_bool(left):
            return
        if self._is_bool(right):
            absorbed = constraint.name != "bool2int" and self._join(left, right, constraint.name == "bool_not")
        else:
            is_variable = type(right) is str and right in self._variables
            absorbed = constraint.name == "bool2int" and is_variable and right not in self.booleans
            if absorbed:
                self.booleans[right] = left
        if absorbed:
            self.absorbed.add(id(constraint))

    def _join(self, left: str, right: str, opposite: bool) -> bool:
        """Make the roots of both one; False if they are one already."""
        (left_root, left_flip), (right_root, right_flip) = self.root(left), self.root(right)
        if left_root == right_root:
            return False
        self._parents[right_root] = (left_root, left_flip ^ right_flip ^ opposite)
        return True
