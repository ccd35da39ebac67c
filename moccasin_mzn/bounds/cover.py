"""The instant bound: what the input order holds too much at one stage must be dropped there and computed again.

::

    stage       u ............ k ............ x
    output u    [=============]~~~~~~~~~~[====]      u is held across k for a later first use x, and k does not read it
                           dropped     again

If the memory of the input order at stage k exceeds the budget by e, then outputs like u worth e are dropped, and each
costs a computation. The cheapest fractional choice is a lower bound; time and memory are linear, but for a sort.
"""

from __future__ import annotations

from moccasin_mzn.problem.stages import Stages, highest_maxima

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
