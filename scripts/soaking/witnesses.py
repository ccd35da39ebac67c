"""Schedules that refute claims: of the oracle, of earlier answers, and those that questions start from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from moccasin_mzn.graphs.graph import ComputationGraph
from soaking.judging import Account, Scope, account
from soaking.oracle import Answer, best_schedule
from soaking.questions import SMALL


@dataclass(frozen=True)
class Claim:
    """No schedule of a scope within a budget is shorter than the bound; or, without one, there is none."""

    order: tuple[int, ...]
    """The input order."""
    budget: int
    scope: Scope
    bound: int | None

    def refuted_by(self, sequence: Sequence[int], judged: Account) -> bool:
        """Does a schedule contradict it?"""
        if judged.peak > self.budget or (self.bound is not None and judged.duration >= self.bound):
            return False
        return self.scope.holds(self.order, sequence)


@dataclass
class Witnesses:
    """All that is known of one graph."""

    graph: ComputationGraph
    schedules: dict[tuple[int, ...], tuple[Account, str]] = field(default_factory=dict)
    """By sequence: its account, and where it comes from."""
    claims: list[tuple[Claim, str]] = field(default_factory=list)
    """Earlier ones that nothing has refuted, with what made them."""
    answers: dict[Claim, Answer] = field(default_factory=dict)
    """Answers of the oracle, by claims without a bound."""
    given_up: int = 0

    def best(self, order: tuple[int, ...], budget: int, scope: Scope) -> Answer:
        """The oracle's answer; it knows nothing of large graphs."""
        if len(self.graph.nodes) > SMALL:
            return Answer(None, complete=False)
        key = Claim(order, budget, scope, None)
        if key not in self.answers:
            found = best_schedule(self.graph, order, budget, scope)
            self.given_up += not found.complete
            if found.sequence is not None:
                found = Answer(without_useless(self.graph, order, budget, scope, found.sequence))
                self.add(found.sequence, f"oracle, {scope.kind}")
            self.answers[key] = found
        return self.answers[key]

    def add(self, sequence: Sequence[int], source: str) -> str:
        """Take a schedule in; the earlier claim that it refutes, in words, or nothing."""
        sequence = tuple(sequence)
        judged = account(self.graph, sequence)
        if judged.flaw or sequence in self.schedules:
            return ""
        self.schedules[sequence] = judged, source
        for claim, claimant in self.claims:
            if claim.refuted_by(sequence, judged):
                return (
                    f"{claimant} claimed {_words(claim)}; {_shown(self.graph, sequence, judged)} by {source} refutes it"
                )
        return ""

    def refutes(self, claim: Claim, claimant: str) -> str:
        """Take a claim in; the schedule that refutes it, in words, or nothing."""
        self.best(claim.order, claim.budget, claim.scope)
        for sequence, (judged, source) in self.schedules.items():
            if claim.refuted_by(sequence, judged):
                return f"claims {_words(claim)}, but there is {_shown(self.graph, sequence, judged)}, by {source}"
        self.claims.append((claim, claimant))
        return ""


def _words(claim: Claim) -> str:
    of = f"of {claim.scope.kind}, at most {list(claim.scope.most)} computations, within {claim.budget}"
    return f"no schedule {of}" if claim.bound is None else f"no schedule shorter than {claim.bound} {of}"


def _shown(graph: ComputationGraph, sequence: Sequence[int], judged: Account) -> str:
    names = [graph.nodes[v] for v in sequence]
    return f"{names} of duration {judged.duration} and peak {judged.peak}"


def without_useless(
    graph: ComputationGraph, order: Sequence[int], budget: int, scope: Scope, sequence: Sequence[int]
) -> tuple[int, ...]:
    """The schedule without computations that take no time and serve nothing, to be read by people."""
    sequence = tuple(sequence)
    for t in reversed(range(len(sequence))):
        shorter = sequence[:t] + sequence[t + 1 :]
        judged = account(graph, shorter)
        if not judged.flaw and judged.peak <= budget and scope.holds(order, shorter):
            sequence = shorter
    return sequence


def useless_too(
    rng: random.Random, graph: ComputationGraph, order: Sequence[int], budget: int, scope: Scope, base: Sequence[int]
) -> tuple[int, ...]:
    """A schedule of the scope within the budget, made from one by recomputing some nodes for nothing."""
    sequence = tuple(base)
    for _ in range(rng.randint(0, 8)):
        v, at = rng.choice(sequence), rng.randint(1, len(sequence))
        longer = (*sequence[:at], v, *sequence[at:])
        judged = account(graph, longer)
        if not judged.flaw and judged.peak <= budget and scope.holds(order, longer):
            sequence = longer
    return sequence
