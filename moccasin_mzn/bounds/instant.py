"""Lower bounds that take next to no time: from the excess of the input order at one stage, and from minimum cuts.

The first of them, for one stage::

    stage       u ............ k ............ x
    output u    [=============]~~~~~~~~~~[====]      u is retained across k for a first use x; k does not read it
                           dropped     again

If the memory of the input order at stage k exceeds the budget by e, then outputs like u worth e are dropped, and each
costs a recomputation. The cheapest fractional choice is a lower bound; time and memory are linear, but for a sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import Stages, highest_maxima

if TYPE_CHECKING:
    from moccasin_mzn.graphs.arrays import GraphArrays

_STAGES = 16
"""Tried in order of excess: the first one is hardly ever beaten by much."""


def cover_bound(stages: Stages) -> int | None:
    """Least duration of recomputations, in the unit of `stages`, rounded up; None: no schedule fits the budget."""
    for k in range(stages.n):
        if stages.size[k] + stages.workspace[k] + sum(stages.size[u] for u in stages.inputs[k]) > stages.budget:
            return None
    best = 0
    for k in highest_maxima(stages.memory, stages.budget, _STAGES):
        bound = _cover(stages, k)
        if bound is None:
            return None
        best = max(best, bound)
    return best


def _cover(stages: Stages, k: int) -> int | None:
    """Least cost of dropping what is too much at stage k; None if it cannot be dropped."""
    s = stages
    excess = s.memory[k] - s.budget
    needed = set(s.inputs[k])
    across = [u for u in range(k) if s.readers[u] and s.readers[u][-1] > k and s.most[u] > 1 and u not in needed]
    cost = 0
    for u in sorted(across, key=lambda u: s.duration[u] / s.size[u]):
        if s.size[u] >= excess:
            return cost - (-s.duration[u] * excess // s.size[u])
        cost += s.duration[u]
        excess -= s.size[u]
    return None


# --- Lower bounds from one stage or several, by minimum cuts --------------------------------------------------

# At the first computation of node k, a node u before it is retained or not, and recomputed after it or not::
#
#     h[u]         u is in memory while node k is computed, as all inputs of k are
#     a[u]         u is recomputed after that
#     h[u] + a[u]  at least 1 if a node after k reads u in its first computation, and at least a[w] for every reader w
#                  of u before k: what is recomputed reads its inputs then
#
# What is retained fits together with node k, and the recomputations cost the durations of all with a[u]: with a price
# for memory that is the choice of `Choice`. Its value at any price is a bound, in exact integers.
# Several stages together, each with a price, are the choice of `heuristics.staged.moments`.


MOST_STAGES, EDGES_AND_STAGES = 64, 4_000_000
"""Stages seen together at most, and stages times edges at most, which is what time and memory grow with."""


def moment_bound(instance: Instance, arrays: GraphArrays, k: int, stop: Callable[[], bool] = lambda: False) -> int:
    """Least duration of recomputations after the first computation of node k, in the graph's unit, rounded up.

    Args:
        arrays: of the instance's graph along its order.
        k: from 0, along the order; a stage over the budget.
    """
    import numpy as np

    from moccasin_mzn.heuristics.staged.moments import Choice

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
        reads=(readers, arrays.pred[: len(readers)]), needed=needed, prerequisites=~needed & ~at_hand,
        possible=most > 1, excess=instance.baseline.memory[k] - instance.budget,
    )  # fmt: skip
    return choice.best(stop)[0]


def moments_bounds(instance: Instance, arrays: GraphArrays, stop: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """Least durations of recomputations after the first of several stages, in the graph's unit, rounded up: better and
    better on the whole, from more and more stages.

    Args:
        arrays: of the instance's graph along its order; some stage is over the budget.
    """
    import numpy as np

    from moccasin_mzn.heuristics.staged.moments import finer_and_finer

    over = np.array(instance.baseline.memory) - instance.budget
    possible = np.array([instance.max_computations[v] for v in instance.order]) > 1
    most = max(1, min(MOST_STAGES, EDGES_AND_STAGES // len(arrays.succ)))
    return (found.taken.value for found in finer_and_finer(arrays, possible, over, most, stop))
