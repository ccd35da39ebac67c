"""Orders of arrays and of values: lexicographic order, value precedence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import le, lt

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.constraints.arithmetic import greatest_of
from moccasin_mzn.solvers.cpsat.constraints.comparison import Clause, Condition, conjunction
from moccasin_mzn.solvers.cpsat.registry import Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet

MANY_LITERALS = 100_000
"""From this many literals `value has occurred` on, `seq_precede_chain` compares greatest values instead."""


def _lexicographic(
    builder: Builder, left: Sequence[Term], right: Sequence[Term], equal_allowed: bool, when: Sequence[int]
) -> None:
    """`left` comes before `right` in the order of words, or is equal to it if that is allowed.

    The literal `so_far` states at each position that left >= right at all positions before. Then left <= right has to
    hold here too, so that it comes to mean that the words are equal so far. It is defined whether or not the constraint
    holds.
    """
    if len(left) != len(right):
        equal_allowed = len(left) < len(right)
    last = min(len(left), len(right)) - 1
    if last < 0 and not equal_allowed:
        builder.false(when)
    so_far = TRUE
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        limit = -1 if index == last and not equal_allowed else 0
        builder.linear((1, -1), (one, other), (LOWEST, limit), when if so_far == TRUE else [so_far, *when])
        if index < last:
            so_far = _still_at_least(builder, one, other, so_far)
            if so_far == FALSE:
                break


def _still_at_least(builder: Builder, left: Term, right: Term, so_far: int) -> int:
    """The literal `so_far and left >= right`."""
    if builder.bounds(left)[0] >= builder.bounds(right)[1] or left == right:
        return so_far
    if builder.bounds(left)[1] < builder.bounds(right)[0]:
        return FALSE
    literal = builder.boolean()
    before = [] if so_far == TRUE else [so_far]
    if before:
        builder.clause([so_far], [literal])
    builder.linear((1, -1), (left, right), (0, HIGHEST), [literal])
    builder.linear((1, -1), (left, right), (LOWEST, -1), [~literal, *before])
    operands = as_term(so_far), left, right
    builder.suggest(literal, operands, lambda values: values[0] and values[1] >= values[2])
    return literal


def add_order(name: str, compare: Callable[..., bool], equal_allowed: bool) -> None:
    """Register the comparison of words."""

    def opposite(builder: Builder, left: Ints, right: Ints, when: When) -> None:
        _lexicographic(builder, right, left, not equal_allowed, when)

    @relation(
        f"fzn_lex_{name}_int", bools={f"fzn_lex_{name}_bool": ("Bools", "Bools")}, opposite=opposite, holds=compare
    )
    def order(builder: Builder, left: Ints, right: Ints, when: When) -> None:
        _lexicographic(builder, left, right, equal_allowed, when)


add_order("less", lt, False)
add_order("lesseq", le, True)


def _precedences(builder: Builder, pairs: Sequence[tuple[int, int]], terms: Sequence[Term]) -> list[Clause]:
    """For every pair (before, after): a term is `after` only if an earlier one is `before`."""
    occurred = {before: FALSE for before, _ in pairs}
    clauses = []
    for index, term in enumerate(terms, 1):
        for before, after in pairs:
            here = builder.equals_value(term, after)
            if here != FALSE and occurred[before] != TRUE:
                clauses.append([~here, occurred[before]])
        for before, already in occurred.items():
            here = builder.equals_value(term, before)
            if here != FALSE and index < len(terms):
                occurred[before] = ~builder.conjunction([~already, ~here])
    return clauses


def _in_order(pairs: Sequence[tuple[int, int]], values: list[int]) -> bool:
    def first(value: int) -> int:
        return values.index(value) if value in values else len(values)

    return all(after not in values or first(before) < first(after) for before, after in pairs)


@conjunction("fzn_value_precede_int", holds=lambda before, after, values: _in_order([(before, after)], values))
def value_precede(builder: Builder, before: Par, after: Par, terms: Ints) -> list[Clause]:
    """a term is `after` only if an earlier one is `before`"""
    return _precedences(builder, [(before, after)], terms)


@conjunction("fzn_value_precede_chain_int", holds=lambda order, values: _in_order([*pairwise(order)], values))
def value_precede_chain(builder: Builder, order: Pars, terms: Ints) -> list[Clause]:
    """a term is order[i + 1] only if an earlier one is order[i]"""
    return _precedences(builder, [*pairwise(order)], terms)


def _successors_in_order(builder: Builder, terms: Sequence[Term]) -> list[Clause]:
    """A term is v + 1 > 1 only if an earlier one is v."""
    greatest = max((builder.bounds(term)[1] for term in terms), default=0)
    clauses = _precedences(builder, [*pairwise(range(1, min(greatest, len(terms)) + 1))], terms)
    beyond = IntSet.of_range(len(terms) + 1, HIGHEST)
    return clauses + [[~builder.is_in(term, beyond)] for term in terms]


def _small_steps(builder: Builder, terms: Sequence[Term]) -> list[Condition]:
    """Every term is at most 1 more than the greatest one before, which is 0 at first."""
    conditions, greatest = [], constant(0)
    for term in terms:
        conditions.append(Condition((1, -1), (term, greatest), IntSet.of_range(LOWEST, 1)))
        greatest = greatest_of(builder, [greatest, term])
    return conditions


def _takes_small_steps(values: list[int]) -> bool:
    return all(value <= max([0, *values[:index]]) + 1 for index, value in enumerate(values))


@conjunction("fzn_seq_precede_chain_int", holds=_takes_small_steps)
def seq_precede_chain(builder: Builder, terms: Ints) -> Sequence[Condition | Clause]:
    """a term is v + 1 > 1 only if an earlier one is v"""
    few_literals = len(terms) ** 2 <= MANY_LITERALS
    return _successors_in_order(builder, terms) if few_literals else _small_steps(builder, terms)
