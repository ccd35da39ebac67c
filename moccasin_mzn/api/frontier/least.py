"""The least feasible budget: bisection, where a search that ends with nothing counts as no for the time being. ::

        proven none      nobody knows        found
    ---------------)[...x.......x........x[------------->  budget
                 least                  least found        x  searched in vain

First the least peak is sought: between the highest budget searched in vain and the least peak found. Then the proof:
between the proven bound and the lowest budget searched in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from moccasin_mzn.api.frontier.knowledge import Knowledge
from moccasin_mzn.api.frontier.questions import Question

TOLERANCE = 1 / 400
"""As a share of the input order's peak: closer than that, two budgets are the same on a large graph."""
SEARCHES = 6
"""A single search gets this part of the time that is left, so that some may be in vain."""
SHORTEST = 0.5
"""Seconds of a search, at least."""


def seek_least(
    knowledge: Knowledge, ask: Callable[[Question], None], remaining: Callable[[], float], prove: bool = True,
    hopeless: Collection[int] = (),
) -> None:  # fmt: skip
    """Close in on the least feasible budget while there is time.

    Args:
        knowledge: where it is known so far.
        ask: puts a question; the answer goes into `knowledge`.
        remaining: seconds that are left for this.
        prove: False: seek the least peak only, which is of more use and often sooner known.
        hopeless: budgets searched in vain before, to which more time makes no difference.
    """
    vain = set(hopeless)
    tolerance = max(1, int(TOLERANCE * knowledge.variant.peak))
    while remaining() > 0:
        budget = _next(knowledge, vain, tolerance, prove)
        if budget is None:
            return
        least, seconds = knowledge.least, max(SHORTEST, remaining() / SEARCHES)
        near = knowledge.found[0].schedule if knowledge.found else None
        ask(Question(budget, seconds, enough=knowledge.bound(budget).bound, any_schedule=True, near=near))
        if knowledge.least == least and knowledge.best(budget) is None:
            vain.add(budget)


def _next(knowledge: Knowledge, vain: set[int], tolerance: int, prove: bool) -> int | None:
    """The budget to search with next; None if it is known closely enough, or by no shorter searches."""
    proven = knowledge.least - 1
    found = knowledge.variant.peak + 1 if knowledge.least_found is None else knowledge.least_found
    vain = {budget for budget in vain if proven < budget < found}
    sides = [(max(vain, default=proven), found), (proven, min(vain, default=found))]
    return next(((low + high) // 2 for low, high in sides[: 1 + prove] if high - low > tolerance), None)
