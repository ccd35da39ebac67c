"""By what to part a cube: strong branching on the linear relaxation.

A few nodes that it holds by half are tried both ways, large ones first. The best of them makes both parts dear.
"""

from __future__ import annotations

from collections.abc import Callable

from moccasin_mzn.bounds.linear import Warm
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.clock import Deadline

TRIED = 6
"""Nodes that are tried."""
HALF = 0.02
"""What is held by less, or all but less, is not tried."""


def parting(relaxation: Relaxation, most: int, deadline: Deadline, stop: Callable[[], bool]) -> tuple[int, int] | None:
    """A chosen stage and a node: to hold it there costs much more than the linear relaxation, and so does not to.

    None if there is no such solution, or none in time, or it holds everything wholly or not at all.

    Args:
        most: costs beyond that are no better.
    """
    places, halves = relaxation.places(), Warm(relaxation, deadline, stop)
    cost = halves.solve()
    if cost is None:
        return None
    shares = {column: min(halves.value(column), 1 - halves.value(column)) for column in places}
    sizes = relaxation.stages.size
    some = sorted((-share * sizes[places[column][1]], column) for column, share in shares.items() if share > HALF)
    best, found = 0.0, None
    for _, column in some[:TRIED]:
        if stop() or deadline.over():
            break
        product = 1.0
        for side in (0, 1):
            tried = halves.solve(column, side)
            product *= max(1.0, min(most + 1.0, most + 1.0 if tried is None else tried) - cost)
        if product > best:
            best, found = product, places[column]
    return found
