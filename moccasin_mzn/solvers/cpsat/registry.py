"""The table of constraints that the solver knows, filled by decorators.

A constraint is one function. Its parameters after the builder declare by their annotations what they take from
FlatZinc:

    Int, Bool        an operand, variable or constant
    Ints, Bools      an array of them
    Par, Pars        an integer parameter, an array of them
    Set              a set parameter
    Sets             an array of set parameters

and the last one, `when`, is the list of literals under which the constraint is to hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, IntSet

Int = Term
Ints = list[Term]
Bool = int
Bools = list[int]
Par = int
Pars = list[int]
Set = IntSet
Sets = list[IntSet]
When = list[int]
Operand = Any
"""An operand of one of these kinds, as `Handler.kinds` has it."""

KINDS = ("Int", "Ints", "Bool", "Bools", "Par", "Pars", "Set", "Sets")


@dataclass(frozen=True, slots=True)
class Handler:
    """How to post a constraint of this name: the kinds of its arguments, and the function they go to.

    If `value` is there, the argument at `target`, an array of integers perhaps, follows from the values of the others
    (in order, without it). Warm starts are completed with it. The `halves` of a reified constraint post what follows if
    its last argument is true, and what follows if it is false.
    """

    name: str
    kinds: tuple[str, ...]
    post: Callable[..., None]
    value: Callable[..., Operand] | None = None
    target: int = -1
    halves: tuple[Callable[..., None], Callable[..., None]] | None = None


HANDLERS: dict[str, Handler] = {}


def relation(
    *names: str,
    kinds: Sequence[str] = (),
    bools: Mapping[str, Sequence[str]] | None = None,
    opposite: Callable[..., None] | None = None,
    reified: Callable[..., None] | None = None,
    holds: Callable[..., bool] | None = None,
    value: Callable[..., Operand] | None = None,
    target: int = -1,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function under its names, half-reified as `NAME_imp` and, if there is a function for the negation or
    for the `reified` form, whose last argument is the truth, as `NAME_reif`. That of `fzn_X` is also `native_X_reif`,
    see `mznlib`.

    Args:
        kinds: of the arguments; empty: as annotated.
        bools: further names with the kinds of their arguments, which are bools in place of some of the integers.
        holds: decides the relation for given values.
        value, target: as in `Handler`.
    """

    def register(post: Callable[..., None]) -> Callable[..., None]:
        own = tuple(kinds) or _kinds(post)
        for name, taken in [*((name, own) for name in names), *(bools or {}).items()]:
            require = _of_integers(post, taken, own)
            _add(Handler(name, tuple(taken), _unconditional(require), value, target))
            reified_kinds = (*taken, "Bool")
            _add(Handler(f"{name}_imp", reified_kinds, _half_reified(require), holds))
            full = [f"{name}_reif", f"native_{name.removeprefix('fzn_')}_reif"][: 1 + name.startswith("fzn_")]
            if opposite:
                halves = _half_reified(require), _half_refuted(_of_integers(opposite, taken, own))
                for each in full:
                    _add(Handler(each, reified_kinds, _reified(*halves), holds, halves=halves))
            elif reified:
                for each in full:
                    _add(Handler(each, reified_kinds, reified, holds))
        return post

    return register


def function(
    *names: str, value: Callable[..., object] | None = None, target: int = -1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a constraint that exists in one form only, without `when`; `value` and `target` as in `Handler`."""

    def register(post: Callable[..., None]) -> Callable[..., None]:
        for name in names:
            _add(Handler(name, _kinds(post), post, value, target))
        return post

    return register


def _add(handler: Handler) -> None:
    if handler.name in HANDLERS:
        raise ValueError(f"constraint {handler.name} is registered twice")
    HANDLERS[handler.name] = handler


def _kinds(post: Callable[..., None]) -> tuple[str, ...]:
    annotations = [annotation for name, annotation in post.__annotations__.items() if name != "return"]
    kinds = tuple(kind for kind in annotations[1:] if kind != "When")
    if not set(kinds) <= set(KINDS):
        raise TypeError(f"{post.__name__}: parameters must be annotated with one of {', '.join(KINDS)}")
    return kinds


_AS_INTEGERS: dict[tuple[str, str], Callable[[Operand], Operand]] = {
    ("Bool", "Int"): as_term,
    ("Bools", "Ints"): lambda literals: [as_term(literal) for literal in literals],
    ("Bools", "Pars"): lambda constants: [int(constant == TRUE) for constant in constants],
}


def _of_integers(post: Callable[..., None], taken: Sequence[str], kinds: Sequence[str]) -> Callable[..., None]:
    """The function, but for operands of the kinds `taken`, bools among them where it takes integers."""
    if tuple(taken) == tuple(kinds):
        return post
    readers = [_AS_INTEGERS.get(pair, lambda operand: operand) for pair in zip(taken, kinds, strict=True)]

    def converted(builder: Builder, *operands: Operand, when: When) -> None:
        post(builder, *(read(operand) for read, operand in zip(readers, operands, strict=True)), when=when)

    return converted


def _unconditional(post: Callable[..., None]) -> Callable[..., None]:
    return lambda builder, *arguments: post(builder, *arguments, when=[])


def _half_reified(post: Callable[..., None]) -> Callable[..., None]:
    def imp(builder: Builder, *arguments: Operand) -> None:
        *operands, condition = arguments
        if condition != FALSE:
            post(builder, *operands, when=[] if condition == TRUE else [condition])

    return imp


def _half_refuted(opposite: Callable[..., None]) -> Callable[..., None]:
    fails = _half_reified(opposite)
    return lambda builder, *arguments: fails(builder, *arguments[:-1], ~arguments[-1])


def _reified(holds: Callable[..., None], fails: Callable[..., None]) -> Callable[..., None]:
    def reif(builder: Builder, *arguments: Operand) -> None:
        holds(builder, *arguments)
        fails(builder, *arguments)

    return reif


# --- Constraints by module: each is loaded when one is met that those before do not know ----------------------

# Most files need two or three of them, and loading all takes longer than reading and solving a small file.


_FAMILIES = ("comparison", "arithmetic", "counting", "ordering", "scheduling", "successors", "extension")
"""The modules of the package `constraints`, the most frequent ones first."""
_unloaded = list(_FAMILIES)


def handler(name: str) -> Handler | None:
    """How to post a constraint of this name, None if absent."""
    while name not in HANDLERS and _unloaded:
        import_module(f"moccasin_mzn.solvers.cpsat.constraints.{_unloaded.pop(0)}")
    return HANDLERS.get(name)


def all_handlers() -> dict[str, Handler]:
    """The handlers of all constraints, by name."""
    handler("")
    return HANDLERS


# --- Which reified constraints need one direction only --------------------------------------------------------

# MiniZinc writes `serves -> start <= end` as b <-> start <= end and a clause, b or not serves. As b is asked for
# nothing else, b -> start <= end does, and b may as well be `serves` itself:
#
#     constraint int_le_reif(start,end,b);        serves -> start <= end
#     constraint bool_clause([b],[serves]);
#
# The same solutions exist for all other variables; b itself may get another value, so that it must not be printed.


IF_TRUE, IF_FALSE = 0, 1
"""Indices into `Handler.halves`: the constraint holds if its bool is true; its opposite does if it is false."""

Counterpart = tuple[Expression, bool]
"""A bool, and whether its negation is meant."""


@dataclass(frozen=True, slots=True)
class Half:
    """What is left of a reified constraint. `clause` is the only one that mentions its bool, if it is a clause of two
    literals; the bool may then be made one with the `counterpart`, which makes the clause true."""

    direction: int
    clause: Constraint | None = None
    counterpart: Counterpart | None = None


def find_halves(file: FlatZinc, *, deep: bool = False) -> dict[int, Half]:
    """The reified constraints, by id, that one direction is enough for; `deep` also finds those whose bools occur in
    conjunctions and disjunctions for which one direction is enough."""
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
# and its counterpart.


class Aliases:
    """`absorbed` holds the ids of the constraints that the aliases make true; `booleans` states for an integer variable
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
            if half and half.counterpart and self._is_bool(half.counterpart[0]):
                self._join(half.counterpart[0], item.arguments[-1], half.counterpart[1])
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
