"""What solvers in doubles prove of a model: MIP solvers, whose tolerances hide a unit of large sums.

Ours see to it themselves (`linear.claims`): they prove in exact arithmetic, have a claim confirmed, or say that it is
only claimed. What others say of a model with large sums is a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from moccasin_mzn.solvers.minizinc.run import Outcome
from moccasin_mzn.solvers.minizinc.solvers import Backend, Sum

LARGEST = 250_000
"""A tolerance of 10^-6, as is usual, hides no more than a quarter of a unit of sums up to this."""

CONFIRMED = ", confirmed by "
"""Between the name of a solver and that of who confirmed its claim."""


@dataclass(frozen=True)
class Said:
    """What is proven by the end of a run, and what is only claimed."""

    status: str
    """As in `Outcome`, as far as it is proven."""
    source: str
    """Who proved it."""
    claim: str
    """"optimal" or "infeasible", where only the solver says so; else empty."""


def doubtful(backend: Backend, sums: Callable[[], Iterable[Sum]]) -> bool:
    """Is what the solver says of a model with such sums only a claim?"""
    return backend.in_doubles and not backend.is_own and any(sum(one.terms) > LARGEST for one in sums())


def said(backend: Backend, outcome: Outcome, doubted: bool) -> Said:
    """What the end of a run says; `doubted` as `doubtful` has it."""
    if doubted and outcome.status in ("optimal", "infeasible"):
        return Said("unknown", backend.name, outcome.status)
    return Said(outcome.status, source(backend, outcome.confirmed_by), outcome.claim)


def source(backend: Backend, confirmed_by: str) -> str:
    """Who proves what the solver says, such as "cp-sat" or "highs, confirmed by CP-SAT"."""
    return f"{backend.name}{CONFIRMED}{confirmed_by}" if confirmed_by else backend.name
