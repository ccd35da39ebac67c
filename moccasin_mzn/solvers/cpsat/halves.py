"""Which reified constraints need one direction only.

MiniZinc writes `serves -> start <= end` as b <-> start <= end and a clause, b or not serves. As b is asked for nothing
else, b -> start <= end does, and b may as well be `serves` itself:

    constraint int_le_reif(start,end,b);        serves -> start <= end
    constraint bool_clause([b],[serves]);

The same solutions exist for all other variables; b itself may get another value, so that it must not be printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from moccasin_mzn.solvers.cpsat.registry import handler
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc

IF_TRUE, IF_FALSE = 0, 1
"""Indices into `Handler.halves`: the constraint holds if its bool is true; its opposite does if it is false."""

Twin = tuple[Expression, bool]
"""A bool, and whether its negation is meant."""


@dataclass(frozen=True, slots=True)
class Half:
    """What is left of a reified constraint. `clause` is the only one that mentions its bool, if it is a clause of two
    literals; the bool may then be made one with the `twin`, which makes the clause true."""

    direction: int
    clause: Constraint | None = None
    twin: Twin | None = None


def find_halves(file: FlatZinc, *, deep: bool = False) -> dict[int, Half]:
    """The reified constraints, by id, that one direction is enough for; `deep` also finds those whose bools occur in
    conjunctions and disjunctions of which one direction is enough."""
    try:
        return _find_halves(file, deep)
    except TypeError:  # an array inside of an array, which translation refuses with its place
        return {}


def _find_halves(file: FlatZinc, deep: bool) -> dict[int, Half]:
    reified = dict(_defined(file, _is_halved))
    parts = {name: _members(item) for name, item in _defined(file, _is_part)} if deep else {}
    known: dict[str, object] = {**parts, **reified}
    uses = _count_uses(file, known)
    needed: dict[str, set[int]] = {name: set() for name in known}
    seen = Counter(chain.from_iterable(parts.values()))
    clauses: dict[str, Constraint] = {}
    for item in file.constraints:
        if item.name in ("bool_clause", "array_bool_or"):
            for direction, literals in enumerate(_literals(item)):
                for name in filter(known.__contains__, literals):
                    needed[name].add(direction)
                    seen[name] += 1
                    clauses[name] = item
    for name in known:
        if not uses[name] == 1 + seen[name] > 1:
            needed[name] = {IF_TRUE, IF_FALSE}
    queue = list(parts)
    while queue:
        for name in parts[whole := queue.pop()]:
            if name in known and not needed[whole] <= needed[name]:
                needed[name] |= needed[whole]
                queue += [name] if name in parts else []
    return {
        id(item): _half(name, min(needed[name]), clauses.get(name) if uses[name] == 2 else None)
        for name, item in reified.items()
        if len(needed[name]) == 1
    }


def _defined(file: FlatZinc, takes: Callable[[Constraint], bool]) -> Iterator[tuple[str, Constraint]]:
    """The constraints that define a bool which is not printed, with its name."""
    for item in filter(takes, file.constraints):
        variable = file.variables.get(item.arguments[-1]) if type(item.arguments[-1]) is str else None
        if variable and variable.is_bool and not variable.is_output and variable.value is None:
            yield variable.name, item


def _is_halved(item: Constraint) -> bool:
    known = handler(item.name) if item.name.endswith("_reif") else None
    return bool(known and known.halves and len(item.arguments) == len(known.kinds))


def _is_part(item: Constraint) -> bool:
    return item.name in ("array_bool_and", "array_bool_or") and len(item.arguments) == 2


def _members(item: Constraint) -> list[Expression]:
    return [each for each in item.arguments[0] if type(each) is str] if type(item.arguments[0]) is list else []


def _count_uses(file: FlatZinc, names: Mapping[str, object]) -> Counter[str]:
    """How often each of the names occurs outside of annotations; in a named array twice, as its use is not known."""
    arguments = chain.from_iterable(item.arguments for item in file.constraints)
    occurrences = chain.from_iterable(value if type(value) is list else (value,) for value in arguments)
    uses = Counter(filter(names.__contains__, occurrences))
    for array in file.arrays.values():
        uses.update(filter(names.__contains__, 2 * array.elements))
    uses.update(filter(names.__contains__, (variable.value for variable in file.variables.values())))
    return uses


def _literals(item: Constraint) -> tuple[list[Expression], list[Expression]]:
    """The literals of a clause without and with negation, if they stand in the constraint itself."""
    if item.name == "bool_clause" and len(item.arguments) == 2:
        positive, negative = item.arguments
    elif item.name == "array_bool_or" and len(item.arguments) == 2 and item.arguments[1] is True:
        positive, negative = item.arguments[0], []
    else:
        return [], []
    if type(positive) is list and type(negative) is list:
        return positive, negative
    return [], []


def _half(name: str, direction: int, clause: Constraint | None) -> Half:
    literals = [] if clause is None else [(item, sign) for sign, part in enumerate(_literals(clause)) for item in part]
    if len(literals) != 2:
        return Half(direction)
    (other, negated) = literals[literals[0][0] == name]
    # b or not a: b is a. b or a: b is not a. a or not b: b is a. not a or not b: b is not a.
    return Half(direction, clause, (other, bool(negated) == bool(direction)))


# --- Which variables are the same up to negation, found before any of them is created -------------------------

# `bool2int`, `bool_eq` and `bool_not` between variables need no constraint and no second variable: both names become
# one CP-SAT literal. A hint for one is then a hint for the other. The same goes for the bool of a half (see `halves`)
# and its twin.


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
