"""Sequences to start from: orders of low peak, and what a tree decomposition gives."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

from moccasin_mzn.clock import Deadline
from moccasin_mzn.heuristics.orders.least_peak import good_orders, least_peak_order
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.strategies.kumar import KUMAR_HELD

ORDERS = 4
"""Orders of low peak, the best one aside."""


def starts(
    instance: Instance,
    seconds: float,
    seed: int,
    stop: Callable[[], bool],
    on_bound: Callable[[int], None] = lambda bound: None,
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Sequences that compute every node after its inputs, each with whether it is a schedule of the instance.

    Args:
        seconds: for all of them; half of it, at most, for the order of least peak.
        stop: ends them before that.
        on_bound: gets a peak that every order has at least if it computes each node once.
    """
    deadline = Deadline(seconds)

    def over() -> bool:
        return stop() or deadline.over()

    ordering = least_peak_order(instance.graph, time_limit=seconds / 2, seed=seed, stop=stop, start=instance.order)
    on_bound(ordering.bound)
    found = itertools.chain(
        [ordering.order],
        itertools.islice(good_orders(instance.graph, seed=seed, stop=over, start=instance.order), ORDERS),
        KUMAR_HELD.schedules(instance, over),
    )
    for sequence in found:
        if stop():
            return
        allowed = all(count <= instance.max_computations[v] for v, count in Counter(sequence).items())
        if allowed:
            yield tuple(sequence), judge(instance.graph, sequence, instance.budget).feasible
        if over():
            return
