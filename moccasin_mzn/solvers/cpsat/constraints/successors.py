"""Constraints on arrays of successors: circuit, subcircuit, inverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term
from moccasin_mzn.solvers.cpsat.constraints.comparison import bool_eq
from moccasin_mzn.solvers.cpsat.registry import Ints, Par, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST

# Circuits


def cycles(values: Sequence[int], first: int) -> list[set[int]] | None:
    """The cycles of a permutation of the nodes first, first + 1, ..., as positions; None: it is no permutation."""
    if sorted(values) != list(range(first, first + len(values))):
        return None
    left, result = set(range(len(values))), []
    while left:
        node, cycle = min(left), set()
        while node not in cycle:
            cycle.add(node)
            node = values[node] - first
        result.append(cycle)
        left -= cycle
    return result


def is_circuit(values: Sequence[int], first: int) -> bool:
    """One cycle of all nodes, at least two if any."""
    parts = cycles(values, first)
    return parts is not None and len(parts) <= 1 and len(values) != 1


def is_subcircuit(values: Sequence[int], first: int) -> bool:
    """At most one cycle of two nodes or more, and all other nodes succeed themselves."""
    parts = cycles(values, first)
    return parts is not None and sum(len(part) > 1 for part in parts) <= 1


def not_circuit(builder: Builder, terms: Ints, first: Par, when: When) -> None:
    """the successors do not make one circuit of all nodes"""
    if not terms:
        builder.false(when)
    elif len(terms) > 1:  # one node alone is no circuit
        _several_cycles(builder, terms, first, [TRUE] * len(terms), when)


@relation("fzn_circuit_offset", opposite=not_circuit, holds=is_circuit)
def circuit(builder: Builder, terms: Ints, first: Par, when: When) -> None:
    """The successors make one circuit of all nodes first, first + 1, ...

    False for a single node, true without nodes.
    """
    _circuit(builder, terms, first, when, loops=False)


def not_subcircuit(builder: Builder, terms: Ints, first: Par, when: When) -> None:
    """the successors do not make one circuit and nodes that succeed themselves"""
    moved = [~builder.equals_value(term, first + node) for node, term in enumerate(terms)]
    _several_cycles(builder, terms, first, moved, when)


@relation("fzn_subcircuit_offset", opposite=not_subcircuit, holds=is_subcircuit)
def subcircuit(builder: Builder, terms: Ints, first: Par, when: When) -> None:
    """Some of the nodes first, first + 1, ... make a circuit, all others succeed themselves."""
    _circuit(builder, terms, first, when, loops=True)


def _circuit(builder: Builder, terms: Sequence[Term], first: int, when: When, *, loops: bool) -> None:
    arcs = [
        (tail, head, literal)
        for tail, row in enumerate(_successor_literals(builder, terms, first))
        for head, literal in enumerate(row)
        if literal != FALSE and (loops or head != tail)
    ]
    tails, heads, literals = zip(*arcs, strict=True) if arcs else ((), (), ())
    if not len(set(tails)) == len(set(heads)) == len(terms):  # CP-SAT does not know of nodes without arcs
        builder.false(when)
    elif terms:
        proto = builder.new(when).circuit
        proto.tails.extend(tails)
        proto.heads.extend(heads)
        proto.literals.extend(literals)


def _several_cycles(builder: Builder, terms: Sequence[Term], first: int, counts: Sequence[int], when: When) -> None:
    """The terms are no permutation of the nodes, or one with two cycles or more, not counting those in which no node
    `counts`.

    A permutation has two cycles if there is a set of nodes that it maps to itself, with nodes inside and outside. For
    a permutation with a single cycle there is none; the set is empty then, and wherever none is asked for. Without
    loss of generality it does not contain the first node.
    """
    successors = _successor_literals(builder, terms, first)
    reached = [~builder.conjunction([~literal for literal in column]) for column in zip(*successors, strict=True)]
    permutation = builder.conjunction(reached)
    inside = [builder.boolean() if node else FALSE for node in range(len(terms))]
    for tail, row in enumerate(successors[1:], 1):
        for condition in (permutation, *when):
            builder.clause([condition, ~inside[tail]])
        for head, literal in enumerate(row):
            if head != tail and literal != FALSE:
                builder.clause([~inside[tail], ~literal, inside[head]])
        builder.suggest(inside[tail], [*terms, *map(as_term, counts)], partial(_is_member, tail, first))
    for part in (inside, [~literal for literal in inside]):
        pairs = zip(part, counts, strict=True)
        builder.clause([~permutation, *(builder.conjunction(pair) for pair in pairs)], when)


def _is_member(node: int, first: int, values: Sequence[int]) -> bool:
    """The hint for whether a node is in the set of `_several_cycles`, from successors and then which nodes count."""
    successors, counted = values[: len(values) // 2], values[len(values) // 2 :]
    parts = [part for part in cycles(successors, first) or () if any(counted[place] for place in part)]
    return any(node in part for part in parts[1:])


def _successor_literals(builder: Builder, terms: Sequence[Term], first: int) -> list[list[int]]:
    """For each term the literals that state whether it is each of the nodes."""
    return [[builder.equals_value(term, first + node) for node in range(len(terms))] for term in terms]


# Inverse functions


def are_inverse(values: Sequence[int], inverses: Sequence[int], first: int, first_inverse: int) -> bool:
    """values[i] = j exactly if inverses[j] = i, where all i and j are indices."""
    inside = cycles(values, first_inverse) is not None and len(values) == len(inverses)
    return inside and all(inverses[value - first_inverse] == i for i, value in enumerate(values, first))


def not_inverse(builder: Builder, terms: Ints, inverses: Ints, first: Par, first_inverse: Par, when: When) -> None:
    """the arrays are not inverse functions"""
    if len(terms) == len(inverses):
        pairs = _pairs(builder, terms, inverses, first, first_inverse)
        matches = [as_term(builder.conjunction(pair)) for pair in pairs]
        builder.linear([1] * len(matches), matches, (LOWEST, len(terms) - 1), when)


@relation("fzn_inverse_offset", opposite=not_inverse, holds=are_inverse)
def inverse(builder: Builder, terms: Ints, inverses: Ints, first: Par, first_inverse: Par, when: When) -> None:
    """The arrays, whose indices start at first and first_inverse, are inverse functions.

    False if they differ in length.
    """
    if len(terms) != len(inverses):
        builder.false(when)
    elif terms:
        proto = builder.new(when).inverse
        proto.f_direct.extend([_variable(builder, term.plus(-first_inverse)) for term in terms])
        proto.f_inverse.extend([_variable(builder, term.plus(-first)) for term in inverses])


def are_inverse_in_range(values: Sequence[int], inverses: Sequence[int], first: int, first_inverse: int) -> bool:
    """values[i] = j exactly if inverses[j] = i, for all indices i and j."""
    return all(
        (value == j) == (other == i)
        for i, value in enumerate(values, first)
        for j, other in enumerate(inverses, first_inverse)
    )


def not_inverse_in_range(
    builder: Builder, terms: Ints, inverses: Ints, first: Par, first_inverse: Par, when: When
) -> None:
    """some i and j are related in one array only"""
    factors: list[int] = []
    summands: list[Term] = []
    for pair in _pairs(builder, terms, inverses, first, first_inverse):
        factors.extend((1, 1, -2))
        summands.extend(map(as_term, (*pair, builder.conjunction(pair))))
    builder.linear(factors, summands, (1, HIGHEST), when)


@relation("fzn_inverse_in_range_offset", opposite=not_inverse_in_range, holds=are_inverse_in_range)
def inverse_in_range(builder: Builder, terms: Ints, inverses: Ints, first: Par, first_inverse: Par, when: When) -> None:
    """terms[i] = j exactly if inverses[j] = i, for all indices i and j; other values are free"""
    for left, right in _pairs(builder, terms, inverses, first, first_inverse):
        if left != right:
            bool_eq(builder, left, right, when)


def _pairs(
    builder: Builder, terms: Sequence[Term], inverses: Sequence[Term], first: int, first_inverse: int
) -> list[tuple[int, int]]:
    """The literals terms[i] = j and inverses[j] = i, for all indices i and j for which one of them can be true."""
    pairs = [
        (builder.equals_value(term, j), builder.equals_value(other, i))
        for i, term in enumerate(terms, first)
        for j, other in enumerate(inverses, first_inverse)
    ]
    return [pair for pair in pairs if pair != (FALSE, FALSE)]


def _variable(builder: Builder, term: Term) -> int:
    """The index of a variable that equals the operand."""
    if term.coefficient == 1 and term.offset == 0:
        return term.variable
    copy = builder.integer(*builder.bounds(term))
    builder.equal(copy, term)
    builder.suggest(copy.variable, [term], sum)
    return copy.variable
