"""What a strategy is: a rule that makes schedules without a search, and proves nothing about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.instance import Instance

Stop = Callable[[], bool]
"""Says whether time is up; for rules that take long before their first candidate, or between two."""


@dataclass(frozen=True)
class Strategy:
    """A rule from the literature.

    `schedules(instance, stop)` makes candidates, one by one, as sequences of positions in `graph.nodes`. Every
    candidate computes all nodes in a valid order; its peak may be over the budget, as most rules do not look at the
    budget or only estimate memory. Whoever asks has the simulator judge all candidates and takes the shortest that
    fits, or, if none does, the one with the least peak; see `apply`. No candidate: the rule gave up within this budget.

    Raises:
        NotApplicableError: from `schedules`, at the latest at its first candidate.
    """

    name: str
    """As on the command line, such as "chen-sqrtn-ap"."""
    title: str
    """A few words for people."""
    source: str
    """The publication and its section."""
    guarantee: str
    """One line: what is known of its schedules, and for which graphs it is."""
    schedules: Callable[[Instance, Stop], Iterable[Sequence[int]]]
    compiled: tuple[CompiledSearch, ...] = ()
    """What it needs of `compiled_searches`."""
    family: str = ""
    """Whose published figures are its own, as columns of a table of published figures name it; empty: nobody's."""
