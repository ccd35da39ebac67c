"""0-1 programs that relaxations are: least cost of the true columns, subject to clauses and capacities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

YES = -1
"""In place of a column: known to be true. None: known to be false."""

Literal = int | None


@dataclass(frozen=True)
class Capacity:
    """The weights of the true columns sum to at most `most`, if `when` is true."""

    columns: tuple[int, ...]
    weights: tuple[int, ...]
    most: int
    when: int = YES


@dataclass(kw_only=True)
class Program:
    """Least cost of the true columns subject to all constraints."""

    cost: list[int] = field(default_factory=list)
    """By column."""
    clauses: list[tuple[tuple[int, ...], int | None]] = field(default_factory=list)
    """(columns, premise): one of the columns is true if the premise is, a column or None for always."""
    capacities: list[Capacity] = field(default_factory=list)
    infeasible: bool = False
    least_cost: int = 0
    """No solution of interest costs less."""

    def column(self, cost: int = 0) -> int:
        self.cost.append(cost)
        return len(self.cost) - 1

    def clause(self, literals: Iterable[Literal], premise: Literal = YES) -> None:
        """One of the literals is true if the premise is."""
        literals = tuple(literals)
        if premise is None or YES in literals:
            return
        columns = tuple(x for x in literals if x is not None)
        if not columns and premise == YES:
            self.infeasible = True
        self.clauses.append((columns, None if premise == YES else premise))

    def capacity(self, weighted: Iterable[tuple[Literal, int]], most: int, when: int = YES) -> None:
        """The weights, 0 or more, of the true literals sum to at most `most`."""
        columns, weights = [], []
        for literal, weight in weighted:
            if literal == YES:
                most -= weight
            elif literal is not None and weight:
                columns.append(literal)
                weights.append(weight)
        if most < 0:
            self.clause((), when) if when == YES else self.clauses.append(((), when))
        elif sum(weights) > most:
            self.capacities.append(Capacity(tuple(columns), tuple(weights), most, when))

    def row(self, terms: Iterable[tuple[Literal, int]], most: int) -> None:
        """The weights of the true literals, of any sign, sum to at most `most`."""
        weights: dict[int, int] = {}
        for literal, weight in terms:
            if literal == YES:
                most -= weight
            elif literal is not None:
                weights[literal] = weights.get(literal, 0) + weight
        kept = {column: weight for column, weight in weights.items() if weight}
        if sum(weight for weight in kept.values() if weight > 0) > most:
            self.infeasible = self.infeasible or sum(weight for weight in kept.values() if weight < 0) > most
            self.capacities.append(Capacity(tuple(kept), tuple(kept.values()), most))
