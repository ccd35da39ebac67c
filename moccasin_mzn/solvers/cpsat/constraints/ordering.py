"""Orders of arrays and of values: lexicographic order, value precedence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import le, lt

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term, constant, known
from moccasin_mzn.solvers.cpsat.constraints.conditions import Condition, refute, require
from moccasin_mzn.solvers.cpsat.constraints.extremes import maximum_of
from moccasin_mzn.solvers.cpsat.registry import Bools, Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST, IntSet

MANY_LITERALS = 100_000
"""From so many literals `value has occurred` on, `seq_precede_chain` compares greatest values instead."""


def _lexicographic(
    builder: Builder, left: Sequence[Term], right: Sequence[Term], equal_allowed: bool, when: Sequence[int]
) -> None:
    """`left` comes before `right` in the order of words, or is equal to it if that is allowed.

    The literal `so_far` tells at each position that left >= right at all positions before. Then left <= right has to
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

    def rule(value: Callable[[Term], int | None]) -> int | None:
        values = known(map(value, (as_term(so_far), left, right)))
        return None if values is None else int(values[0] and values[1] >= values[2])

    builder.suggest(literal, rule)
    return literal


def lex_greatereq_int(builder: Builder, left: Ints, right: Ints, when: When) -> None:
    """left >= right as words"""
    _lexicographic(builder, right, left, True, when)


@relation("fzn_lex_less_int", opposite=lex_greatereq_int, holds=lt)
def lex_less_int(builder: Builder, left: Ints, right: Ints, when: When) -> None:
    """left < right as words"""
    _lexicographic(builder, left, right, False, when)


def lex_greater_int(builder: Builder, left: Ints, right: Ints, when: When) -> None:
    """left > right as words"""
    _lexicographic(builder, right, left, False, when)


@relation("fzn_lex_lesseq_int", opposite=lex_greater_int, holds=le)
def lex_lesseq_int(builder: Builder, left: Ints, right: Ints, when: When) -> None:
    """left <= right as words"""
    _lexicographic(builder, left, right, True, when)


def lex_greatereq_bool(builder: Builder, left: Bools, right: Bools, when: When) -> None:
    """left >= right as words"""
    lex_greatereq_int(builder, [*map(as_term, left)], [*map(as_term, right)], when)


@relation("fzn_lex_less_bool", opposite=lex_greatereq_bool, holds=lt)
def lex_less_bool(builder: Builder, left: Bools, right: Bools, when: When) -> None:
    """left < right as words"""
    lex_less_int(builder, [*map(as_term, left)], [*map(as_term, right)], when)


def lex_greater_bool(builder: Builder, left: Bools, right: Bools, when: When) -> None:
    """left > right as words"""
    lex_greater_int(builder, [*map(as_term, left)], [*map(as_term, right)], when)


@relation("fzn_lex_lesseq_bool", opposite=lex_greater_bool, holds=le)
def lex_lesseq_bool(builder: Builder, left: Bools, right: Bools, when: When) -> None:
    """left <= right as words"""
    lex_lesseq_int(builder, [*map(as_term, left)], [*map(as_term, right)], when)


Implication = tuple[int, int]
"""Two literals: if the first, then the second."""


def _precedences(builder: Builder, pairs: Sequence[tuple[int, int]], terms: Sequence[Term]) -> list[Implication]:
    """For every pair (before, after): a term is `after` only if an earlier one is `before`."""
    occurred = {before: FALSE for before, _ in pairs}
    implications = []
    for index, term in enumerate(terms, 1):
        for before, after in pairs:
            here = builder.equals_value(term, after)
            if here != FALSE and occurred[before] != TRUE:
                implications.append((here, occurred[before]))
        for before, already in occurred.items():
            here = builder.equals_value(term, before)
            if here != FALSE and index < len(terms):
                occurred[before] = ~builder.conjunction([~already, ~here])
    return implications


def _require_all(builder: Builder, implications: Sequence[Implication], when: Sequence[int]) -> None:
    for premise, conclusion in implications:
        builder.clause([~premise, conclusion], when)


def _refute_one(builder: Builder, implications: Sequence[Implication], when: Sequence[int]) -> None:
    builder.clause([builder.conjunction([premise, ~conclusion]) for premise, conclusion in implications], when)


def _in_order(pairs: Sequence[tuple[int, int]], values: list[int]) -> bool:
    def first(value: int) -> int:
        return values.index(value) if value in values else len(values)

    return all(after not in values or first(before) < first(after) for before, after in pairs)


def _succession(values: Sequence[int]) -> list[tuple[int, int]]:
    """Each value with the next one."""
    return list(zip(values, values[1:], strict=False))


def not_value_precede(builder: Builder, before: Par, after: Par, terms: Ints, when: When) -> None:
    """a term is `after` and none before is `before`"""
    _refute_one(builder, _precedences(builder, [(before, after)], terms), when)


@relation(
    "fzn_value_precede_int",
    opposite=not_value_precede,
    holds=lambda before, after, values: _in_order([(before, after)], values),
)
def value_precede(builder: Builder, before: Par, after: Par, terms: Ints, when: When) -> None:
    """a term is `after` only if an earlier one is `before`"""
    _require_all(builder, _precedences(builder, [(before, after)], terms), when)


def not_value_precede_chain(builder: Builder, order: Pars, terms: Ints, when: When) -> None:
    """the negation of `value_precede_chain`"""
    _refute_one(builder, _precedences(builder, _succession(order), terms), when)


@relation(
    "fzn_value_precede_chain_int",
    opposite=not_value_precede_chain,
    holds=lambda order, values: _in_order(_succession(order), values),
)
def value_precede_chain(builder: Builder, order: Pars, terms: Ints, when: When) -> None:
    """a term is order[i + 1] only if an earlier one is order[i]"""
    _require_all(builder, _precedences(builder, _succession(order), terms), when)


def _successors_in_order(builder: Builder, terms: Sequence[Term]) -> list[Implication]:
    """A term is v + 1 > 1 only if an earlier one is v."""
    greatest = max((builder.bounds(term)[1] for term in terms), default=0)
    implications = _precedences(builder, _succession(range(1, min(greatest, len(terms)) + 1)), terms)
    beyond = IntSet.of_range(len(terms) + 1, HIGHEST)
    return implications + [(builder.is_in(term, beyond), FALSE) for term in terms]


def _small_steps(builder: Builder, terms: Sequence[Term]) -> list[Condition]:
    """Every term is at most 1 more than the greatest one before, which is 0 at first."""
    conditions, greatest = [], constant(0)
    for term in terms:
        conditions.append(Condition((1, -1), (term, greatest), IntSet.of_range(LOWEST, 1)))
        greatest = _greater_of(builder, greatest, term)
    return conditions


def _greater_of(builder: Builder, left: Term, right: Term) -> Term:
    """A new operand max(left, right)."""
    bounds = builder.bounds(left), builder.bounds(right)
    result = builder.integer(max(low for low, _ in bounds), max(high for _, high in bounds))
    maximum_of(builder, result, [left, right], [])

    def rule(value: Callable[[Term], int | None]) -> int | None:
        return None if (values := known(map(value, (left, right)))) is None else max(values)

    builder.suggest(result.variable, rule)
    return result


def _few_literals(terms: Sequence[Term]) -> bool:
    return len(terms) ** 2 <= MANY_LITERALS


def not_seq_precede_chain(builder: Builder, terms: Ints, when: When) -> None:
    """the negation of `seq_precede_chain`"""
    if _few_literals(terms):
        _refute_one(builder, _successors_in_order(builder, terms), when)
    else:
        refute(builder, _small_steps(builder, terms), when)


def _takes_small_steps(values: list[int]) -> bool:
    return all(value <= max([0, *values[:index]]) + 1 for index, value in enumerate(values))


@relation("fzn_seq_precede_chain_int", opposite=not_seq_precede_chain, holds=_takes_small_steps)
def seq_precede_chain(builder: Builder, terms: Ints, when: When) -> None:
    """a term is v + 1 > 1 only if an earlier one is v"""
    if _few_literals(terms):
        _require_all(builder, _successors_in_order(builder, terms), when)
    else:
        require(builder, _small_steps(builder, terms), when)
