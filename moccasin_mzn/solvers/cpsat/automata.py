"""Finite automata over integers, as data: what `regular` and `mdd` are given by."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moccasin_mzn.solvers.flatzinc.intset import IntSet

MOST_STATES = 10_000
"""The most states that a nondeterministic automaton may have once it is made deterministic."""

Transition = tuple[int, int, int]
"""Tail, symbol, head."""


class TooLargeError(Exception):
    """A nondeterministic automaton with too many states once it is made deterministic."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """A finite automaton. `step` tells which states a symbol leads to from a state; only low..high lead anywhere."""

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
    """Row q of `heads` tells where the symbols first, ..., first + width - 1 lead from state q = 1, 2, ..., 0 for
    nowhere."""
    return nondeterministic(first, width, [(head,) if head else () for head in heads], start, finals)


def nondeterministic(first: int, width: int, heads: Sequence[Iterable[int]], start: int, finals: IntSet) -> Automaton:
    """As `deterministic`, with sets of states."""

    def step(state: int, symbol: int) -> Iterable[int]:
        return heads[(state - 1) * width + symbol - first]

    return Automaton(start, finals, first, first + width - 1, step)


def decision_diagram(
    nodes: int, levels: Sequence[int], count: int, tails: Sequence[int], labels: Sequence[IntSet], heads: Sequence[int]
) -> Automaton:
    """From node 1 to node 0 along edges, each of which stands for all values in its label. `nodes`, their `levels` and
    the `count` of edges say nothing more."""
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
