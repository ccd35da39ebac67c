"""Local improvement of an order: windows around its peak, reordered by beam search.

::

    memory            ##                     a window [first, last) around a position of large memory; what comes
                   ## ####  #                before and after stays. A new order of the window is taken if its peak
                ############## ##            is smaller, or, every so often, no larger: that leads away from where
    order     ...[           ]......         no window helps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.orders.beam import Beam, Taste
from moccasin_mzn.problem.judges.schedules import simulate

_SHORTEST, _DOUBLINGS = 20, 3.5
"""Nodes of a window: from the shortest to so many times twice as many."""
_HIGH = 0.98
"""Positions of at least this part of the peak are worth a window."""
_STRICT = 0.6
"""How often a window must become better."""


def improve_order(
    graph: ComputationGraph, numbered: Sequence[int], order: Sequence[int], beam: Beam, random_numbers: random.Random,
    stop: Callable[[], bool], rounds: int | None = None,
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Orders of less and less peak.

    Args:
        numbered: node k of the beam's arrays is `numbered[k]`, a position in `graph.nodes`.
        order: positions in `graph.nodes`.
        rounds: windows to try; None: until stopped.
    """
    number = {v: k for k, v in enumerate(numbered)}
    current, n = [number[v] for v in order], len(order)
    memory = simulate(graph, order).memory
    peak, tried = max(memory), 0
    while not stop() and tried != rounds:
        tried += 1
        least = peak if random_numbers.random() < 0.5 else _HIGH * peak
        centre = random_numbers.choice([at for at, amount in enumerate(memory) if amount >= least])
        length = int(_SHORTEST * 2 ** random_numbers.uniform(0, _DOUBLINGS))
        first = max(0, centre - random_numbers.randrange(length))
        last = min(n, first + length)
        limit = max(memory[first:last]) - (random_numbers.random() < _STRICT)
        taste = Taste(
            backward=random_numbers.random() < 0.5,
            power=random_numbers.choice((0.0, 0.3, 1.0)),
            noise=random_numbers.choice((0.0, 0.1, 0.5)),
        )
        found = beam.run(limit, taste, stop, current[:first], current[first:last])
        if found.order is None:
            continue
        current[first:last] = found.order
        better = tuple(numbered[k] for k in current)
        memory = simulate(graph, better).memory
        if max(memory) < peak:
            peak = max(memory)
            yield better
