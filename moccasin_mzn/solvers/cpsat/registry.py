"""The table of constraints that the solver knows, filled by decorators.

A constraint is one function. Its parameters after the builder say by their annotations what they take from FlatZinc:

    Int, Bool        an operand, variable or constant
    Ints, Bools      an array of them
    Par, Pars        an integer parameter, an array of them
    Set              a set parameter
    Sets             an array of set parameters

and the last one, `when`, is the list of literals under which the constraint is to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term
from moccasin_mzn.solvers.flatzinc.syntax import IntSet

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
"""Any of these."""

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
    value: Callable[..., Any] | None = None
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
    value: Callable[..., Any] | None = None,
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


_AS_INTEGERS: dict[tuple[str, str], Callable[[Any], Any]] = {
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


# --- Which modules know which constraints: each is loaded when a constraint is met that those before do not know

# Most files need two or three of them, and loading all takes longer than reading and solving a small file.


_FAMILIES = (
    "comparison",
    "arithmetic",
    "counting",
    "ordering",
    "scheduling",
    "successors",
    "extension",
)
"""The modules of the package `constraints`, the most frequent ones first."""
_unloaded = list(_FAMILIES)


def handler(name: str) -> Handler | None:
    """How to post a constraint of this name, None if there is none."""
    while name not in HANDLERS and _unloaded:
        import_module(f"moccasin_mzn.solvers.cpsat.constraints.{_unloaded.pop(0)}")
    return HANDLERS.get(name)


def all_handlers() -> dict[str, Handler]:
    """Those of all constraints, by name."""
    handler("")
    return HANDLERS
