"""Constraints given by their tuples or by an automaton: table, regular, mdd, cost_regular; automata as data."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moccasin_mzn.solvers.cpsat.builder import TRUE, Builder, ModelError, Proto, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.registry import Bool, Int, Ints, Operand, Par, Pars, Set, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import IntSet

MOST_STATES = 10_000
"""The most states that a nondeterministic automaton may have once it is made deterministic."""

Transition = tuple[int, int, int]
"""Tail, symbol, head."""


class TooLargeError(Exception):
    """A nondeterministic automaton with too many states once it is made deterministic."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """A finite automaton. `step` gives the states a symbol leads to from a state; only low..high lead anywhere."""

    start: int
    finals: IntSet
    low: int
    high: int
    step: Callable[[int, int], Iterable[int]]

    def successors(self, states: Iterable[int], symbol: int) -> frozenset[int]:
        """The states that the symbol leads to from one of the given ones."""
        if not self.low <= symbol <= self.high:
            return frozenset()
        return frozenset(head for state in states for head in self.step(state, symbol))

    def accepts(self, word: Iterable[int]) -> bool:
        """Can the word lead from the start to a final state?"""
        states = frozenset([self.start])
        for symbol in word:
            states = self.successors(states, symbol)
        return any(state in self.finals for state in states)


def deterministic(first: int, width: int, heads: Sequence[int], start: int, finals: IntSet) -> Automaton:
    """Row q of `heads` states where the symbols first, ..., first + width - 1 lead from state q = 1, 2, ..., 0 for
    nowhere."""
    return nondeterministic(first, width, [(head,) if head else () for head in heads], start, finals)


def nondeterministic(first: int, width: int, heads: Sequence[Iterable[int]], start: int, finals: IntSet) -> Automaton:
    """Make an automaton as `deterministic` does, with sets of states."""

    def step(state: int, symbol: int) -> Iterable[int]:
        return heads[(state - 1) * width + symbol - first]

    return Automaton(start, finals, first, first + width - 1, step)


def decision_diagram(
    nodes: int, levels: Sequence[int], count: int, tails: Sequence[int], labels: Sequence[IntSet], heads: Sequence[int]
) -> Automaton:
    """From node 1 to node 0 along edges, each of which stands for all values in its label. `nodes`, their `levels` and
    the `count` of edges imply nothing more."""
    edges: dict[int, list[tuple[IntSet, int]]] = defaultdict(list)
    for tail, label, head in zip(tails, labels, heads, strict=True):
        edges[tail].append((label, head))
    ends = [end for label in labels for end in label.flat()]

    def step(node: int, value: int) -> list[int]:
        return [head for label, head in edges.get(node, ()) if value in label]

    return Automaton(1, IntSet.of_range(0, 0), min(ends, default=0), max(ends, default=-1), step)


def determinised(
    automaton: Automaton, symbols: Iterable[int], length: int, *, total: bool
) -> tuple[list[Transition], set[int]]:
    """Transitions and final states of an equivalent deterministic automaton for the words of this length; state 0 is
    the start.

    Its states are sets of states. The empty one, from which no final state is reached, is left out unless `total`.
    """
    start = frozenset([automaton.start])
    index, layer, transitions = {start: 0}, [start], []
    for _ in range(length):
        following = []
        for states in layer:
            for symbol in symbols:
                heads = automaton.successors(states, symbol)
                if not heads and not total:
                    continue
                if heads not in index:
                    index[heads] = len(index)
                    following.append(heads)
                transitions.append((index[states], symbol, index[heads]))
            if len(index) > MOST_STATES and any(len(heads) > 1 for heads in following):
                raise TooLargeError
        layer = following
    return transitions, {index[states] for states in index if any(state in automaton.finals for state in states)}


def without_dead_ends(transitions: Iterable[Transition], finals: Iterable[int]) -> list[Transition]:
    """The transitions from which a final state can be reached."""
    tails: dict[int, list[int]] = defaultdict(list)
    for tail, _, head in transitions:
        tails[head].append(tail)
    useful, stack = set(finals), list(finals)
    while stack:
        for tail in tails[stack.pop()]:
            if tail not in useful:
                useful.add(tail)
                stack.append(tail)
    return [transition for transition in transitions if transition[2] in useful]


def all_transitions(automaton: Automaton, symbols: Iterable[int]) -> list[Transition]:
    """The transitions of the automaton itself between states that can be reached."""
    transitions: list[Transition] = []
    reached, stack = {automaton.start}, [automaton.start]
    while stack:
        tail = stack.pop()
        for symbol in symbols:
            heads = automaton.successors([tail], symbol)
            transitions.extend((tail, symbol, head) for head in heads)
            stack.extend(heads - reached)
            reached |= heads
    return transitions


STUCK = 0
"""The state of a deterministic automaton after a symbol that leads nowhere."""


def layers(automaton: Automaton, words: Iterable[Iterable[int]], *, total: bool) -> list[list[Transition]]:
    """The transitions of a deterministic automaton that can be made at each position, where one symbol of those given
    is read.

    If `total`, there is one for every symbol, to `STUCK` if need be; else only those on a way to a final state.
    """
    states, result = {automaton.start}, []
    for symbols in words:
        layer: list[Transition] = []
        for state, symbol in itertools.product(states, symbols):
            heads = automaton.successors([state], symbol) if state != STUCK else ()
            layer.extend((state, symbol, head) for head in heads or ([STUCK] if total else []))
        result.append(layer)
        states = {head for _, _, head in layer}
    if not total:
        useful = {state for state in states if state in automaton.finals}
        for place in reversed(range(len(result))):
            result[place] = [transition for transition in result[place] if transition[2] in useful]
            useful = {tail for tail, _, _ in result[place]}
    return result


# Tables


def in_rows(values: Sequence[int], rows: Sequence[int]) -> bool:
    """Are the values, one at least, one of the rows that stand one after the other?"""
    width, values = len(values), list(values)
    return any(values == rows[start : start + width] for start in range(0, len(rows), width))


def not_in_table(builder: Builder, terms: Ints, rows: Pars, when: When) -> None:
    """the operands take none of the rows"""
    if rows:
        _table(builder, terms, rows, when).negated = True


@relation("fzn_table_int_flat", bools={"fzn_table_bool_flat": ("Bools", "Bools")}, opposite=not_in_table, holds=in_rows)
def table(builder: Builder, terms: Ints, rows: Pars, when: When) -> None:
    """the operands take one of the rows, which stand one after the other"""
    if rows:
        _table(builder, terms, rows, when)
    else:
        builder.false(when)


def _table(builder: Builder, terms: Sequence[Term], rows: Sequence[int], when: When) -> Proto:
    if not terms or len(rows) % len(terms):
        raise ModelError("the rows of a table are not as long as the array")
    proto = builder.new(when).table
    builder.write_all(terms, proto.exprs)
    proto.values.extend(rows)
    return proto


# Automata


def add_automaton(*names: str, kinds: Sequence[str], automaton: Callable[..., Automaton]) -> None:
    """Register that an automaton, made of the arguments after the operands, accepts these."""

    def accept(builder: Builder, terms: Ints, *description: Operand, when: When) -> None:
        _accept(builder, terms, automaton(*description), when)

    def judge(builder: Builder, terms: Ints, *rest: Operand) -> None:
        *description, verdict = rest
        _judge(builder, terms, automaton(*description), verdict)

    def accepts(values: list[int], *description: Operand) -> bool:
        return automaton(*description).accepts(values)

    relation(*names, kinds=("Ints", *kinds), reified=judge, holds=accepts)(accept)


add_automaton("fzn_regular_flat", kinds=("Par", "Par", "Pars", "Par", "Set"), automaton=deterministic)
add_automaton("fzn_regular_nfa_flat", kinds=("Par", "Par", "Sets", "Par", "Set"), automaton=nondeterministic)
add_automaton(
    "fzn_mdd", "fzn_mdd_nondet", kinds=("Par", "Pars", "Par", "Pars", "Sets", "Pars"), automaton=decision_diagram
)


def _accept(builder: Builder, terms: Sequence[Term], automaton: Automaton, when: When) -> None:
    """The automaton accepts the operands."""
    alphabet = IntSet.of_range(automaton.low, automaton.high)
    symbols = sorted({value for term in set(terms) for value in _common(builder, term, alphabet)})
    try:
        transitions, finals = determinised(automaton, symbols, len(terms), total=False)
    except TooLargeError:
        return _find_run(builder, terms, automaton, symbols, when)
    _post(builder, terms, transitions, finals, when)


def _judge(builder: Builder, terms: Sequence[Term], automaton: Automaton, verdict: int) -> None:
    """verdict = the automaton accepts the operands. The verdict is the last symbol of a longer word."""
    terms = [_narrowed(builder, term, automaton.low, automaton.high) for term in terms]
    symbols = sorted({value for term in set(terms) for value in builder.values(term)})
    try:
        transitions, finals = determinised(automaton, symbols, len(terms), total=True)
    except TooLargeError:
        raise ModelError(f"the reified automaton has more than {MOST_STATES} states if made deterministic") from None
    base = symbols[-1] + 1 if symbols else 0
    states = {0, *(head for _, _, head in transitions)}
    end = len(states)
    known = builder.fixed(verdict)
    for state in states:
        accepts = state in finals
        if known in (None, accepts):
            transitions.append((state, base + accepts, end))
    _post(builder, [*terms, as_term(verdict).plus(base)], transitions, {end}, [])


def _post(builder: Builder, terms: Sequence[Term], transitions: list[Transition], finals: set[int], when: When) -> None:
    """The automaton constraint itself, with start 0."""
    if not terms:
        return None if 0 in finals else builder.false(when)
    transitions = without_dead_ends(transitions, finals)
    if not transitions:
        return builder.false(when)
    proto = builder.new(when).automaton
    proto.starting_state = 0
    proto.final_states.extend(sorted(finals))
    proto.transition_tail.extend([tail for tail, _, _ in transitions])
    proto.transition_label.extend([symbol for _, symbol, _ in transitions])
    proto.transition_head.extend([head for _, _, head in transitions])
    builder.write_all(terms, proto.exprs)


def _find_run(
    builder: Builder, terms: Sequence[Term], automaton: Automaton, symbols: Sequence[int], when: When
) -> None:
    """The automaton accepts the operands: variables for the states of one of the runs that accept them."""
    rows = all_transitions(automaton, symbols)
    states = IntSet.of_values([automaton.start, *(head for _, _, head in rows)])
    flat = [number for row in rows for number in row]
    state = constant(automaton.start)
    for term in terms:
        head = builder.integer_in(states.flat())
        table(builder, [state, term, head], flat, when)
        for condition in when:  # free otherwise
            builder.equal(head, constant(automaton.start), [~condition])
        state = head
    builder.within(state, automaton.finals, when)


def _common(builder: Builder, term: Term, values: IntSet) -> Sequence[int]:
    """The literals of the values that the operand can take."""
    variable, coefficient, offset = term
    if not coefficient:
        return [offset] if offset in values else []
    domain = builder.domain(variable)
    if (coefficient, offset) == (1, 0):
        return list(domain & values)
    pairs = ((value, divmod(value - offset, coefficient)) for value in values)
    return [value for value, (quotient, rest) in pairs if not rest and quotient in domain]


def _narrowed(builder: Builder, term: Term, low: int, high: int) -> Term:
    """An operand that equals `term` where that is in low..high, and is low - 1 elsewhere."""
    least, greatest = builder.bounds(term)
    if low <= least and greatest <= high:
        return term
    if greatest < low or high < least:
        return constant(low - 1)
    inside = builder.is_in(term, IntSet.of_range(low, high))
    copy = builder.integer(low - 1, high)
    builder.equal(copy, term, [inside])
    builder.equal(copy, constant(low - 1), [~inside])
    builder.suggest(copy.variable, [term], lambda values: values[0] if low <= values[0] <= high else low - 1)
    return copy


# Automata with costs


def cost_of(
    word: Sequence[int], first: int, width: int, heads: Sequence[int], start: int, finals: IntSet, costs: Sequence[int]
) -> int | None:
    """The sum of the costs of the steps of a deterministic automaton, None if it does not accept the word."""
    state, total = start, 0
    for symbol in word:
        if not state or not first <= symbol < first + width:
            return None
        place = (state - 1) * width + symbol - first
        state, total = heads[place], total + costs[place]
    return total if state in finals else None


def cost_regular_reif(
    builder: Builder, terms: Ints, first: Par, width: Par, heads: Pars, start: Par, finals: Set, costs: Pars,
    total: Int, verdict: Bool,
) -> None:  # fmt: skip
    """verdict = a deterministic automaton accepts the operands and the costs of its steps sum to `total`"""
    ends, steps = _flow(builder, terms, deterministic(first, width, heads, start, finals), total=True)
    exact = builder.truth(*_excess(steps, first, width, costs, total), IntSet.of_range(0, 0))
    for end in ends:
        builder.clause([verdict, ~end, ~exact])
    builder.clause([*ends, ~verdict])
    builder.clause([exact, ~verdict])


@relation(
    "fzn_cost_regular_flat", reified=cost_regular_reif, holds=lambda word, *rest: cost_of(word, *rest[:-1]) == rest[-1]
)
def cost_regular(
    builder: Builder, terms: Ints, first: Par, width: Par, heads: Pars, start: Par, finals: Set, costs: Pars,
    total: Int, when: When,
) -> None:  # fmt: skip
    """a deterministic automaton accepts the operands, and the costs of its steps sum to `total`"""
    ends, steps = _flow(builder, terms, deterministic(first, width, heads, start, finals), total=bool(when))
    builder.linear([1] * len(ends), list(map(as_term, ends)), (1, 1), when)
    builder.linear(*_excess(steps, first, width, costs, total), (0, 0), when)


Step = tuple[int, int, int]
"""State, symbol, and the literal that states whether this step is made."""


def _flow(
    builder: Builder, terms: Sequence[Term], automaton: Automaton, *, total: bool
) -> tuple[list[int], list[Step]]:
    """Literals that state which final state a deterministic automaton ends in, if any, and all steps that can occur.

    The steps are a flow from state to state: their linear relaxation is exact for the costs of one automaton. Unless
    `total`, the automaton is made to end in a final state.
    """
    low, high = automaton.low, automaton.high
    if total:
        terms = [_narrowed(builder, term, low, high) for term in terms]
        low -= 1
    words = [_common(builder, term, IntSet.of_range(low, high)) for term in terms]
    states, steps = {automaton.start: TRUE}, []
    for term, layer in zip(terms, layers(automaton, words, total=total), strict=True):
        into, parts = defaultdict(list), defaultdict(list)
        for state, symbol, head in layer:
            here, read = states[state], builder.equals_value(term, symbol)
            literal = builder.conjunction([here, read])
            into[head].append(literal)
            parts["from", here].append(literal)
            parts["on", read].append(literal)
            if head != STUCK:
                steps.append((state, symbol, literal))
        for (_, whole), literals in parts.items():
            _sum_up(builder, literals, whole)
        states = {head: _one_of(builder, literals) for head, literals in into.items()}
    return [literal for state, literal in states.items() if state in automaton.finals], steps


def _one_of(builder: Builder, literals: Sequence[int]) -> int:
    """The literal that is true if one of the given ones is; never more than one is."""
    if len(literals) == 1:
        return literals[0]
    result = builder.boolean()
    _sum_up(builder, literals, result)
    builder.suggest(result, map(as_term, literals), max)
    return result


def _sum_up(builder: Builder, parts: Sequence[int], whole: int) -> None:
    """The whole is the sum of its parts."""
    builder.linear([*(1 for _ in parts), -1], [*map(as_term, parts), as_term(whole)], (0, 0))


def _excess(
    steps: Sequence[Step], first: int, width: int, costs: Sequence[int], total: Term
) -> tuple[list[int], list[Term]]:
    """Factors and terms of the sum of the costs less the total."""
    factors = [costs[(state - 1) * width + symbol - first] for state, symbol, _ in steps]
    return [*factors, -1], [*(as_term(literal) for _, _, literal in steps), total]
