"""Lower bounds from one stage or several, by minimum cuts: about linear in time and memory, also for large graphs.

At the first computation of node k, a node u before it is held or not, and computed again after it or not::

    h[u]         u is in memory while node k is computed, as all inputs of k are
    a[u]         u is computed again after that
    h[u] + a[u]  at least 1 if a node after k reads u in its first computation, and at least a[w] for every reader w
                 of u before k: what is computed again reads its inputs then

What is held fits beside node k, and the recomputations cost the durations of all with a[u]: with a price for memory
that is the choice of `heuristics.staged.choice`. Its value at any price is a bound, in exact integers. Several stages
together, each with a price, are the choice of `heuristics.staged.moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from moccasin_mzn.graphs.arrays import GraphArrays
from moccasin_mzn.heuristics.staged.choice import Choice
from moccasin_mzn.heuristics.staged.moments import finer_and_finer
from moccasin_mzn.problem.instance import Instance

MOST_STAGES, EDGES_AND_STAGES = 64, 4_000_000
"""Seen together at most; and so many times the number of edges, which is what time and memory grow with."""


def moment_bound(instance: Instance, arrays: GraphArrays, k: int, stop: Callable[[], bool] = lambda: False) -> int:
    """Least duration of recomputations after the first computation of node k, in the graph's unit, rounded up.

    Args:
        arrays: of the instance's graph along its order.
        k: from 0, along the order; a stage over the budget.
    """
    last = np.full(arrays.node_count, -1, np.int64)
    read = np.flatnonzero(np.diff(arrays.succ_ptr))
    last[read] = arrays.succ[arrays.succ_ptr[read + 1] - 1]
    at_hand = np.zeros(k, bool)
    at_hand[arrays.pred[arrays.pred_ptr[k] : arrays.pred_ptr[k + 1]]] = True
    needed = (last[:k] > k) & ~at_hand
    most = np.array([instance.max_computations[v] for v in instance.order[:k]])
    readers = np.repeat(np.arange(k), np.diff(arrays.pred_ptr[: k + 1]))
    choice = Choice(
        duration=arrays.duration[:k], saves=arrays.size[:k], holds=arrays.size[:k],
        reads=(readers, arrays.pred[: len(readers)]), needed=needed, tools=~needed & ~at_hand, possible=most > 1,
        excess=instance.baseline.memory[k] - instance.budget,
    )  # fmt: skip
    return choice.best(stop)[0]


def moments_bounds(instance: Instance, arrays: GraphArrays, stop: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """Least durations of recomputations after the first of several stages, in the graph's unit, rounded up: better and
    better on the whole, from more and more stages.

    Args:
        arrays: of the instance's graph along its order; some stage is over the budget.
    """
    over = np.array(instance.baseline.memory) - instance.budget
    possible = np.array([instance.max_computations[v] for v in instance.order]) > 1
    most = max(1, min(MOST_STAGES, EDGES_AND_STAGES // len(arrays.succ)))
    return (found.taken.value for found in finer_and_finer(arrays, possible, over, most, stop))
