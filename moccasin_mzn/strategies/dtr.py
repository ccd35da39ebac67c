"""Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021), simulated: an online rule, and its heuristics.

The operations come one by one in the input order. When memory is short, DTR evicts the unlocked resident output t with
the least h(t); when an operation needs an evicted input, it is computed again, and first what that needs. Inputs are
locked while a node waits for them. When the last first computation that reads an output is done, the program lets go of
it and it is evicted at once (the paper's eager eviction), although DTR may have to compute it again for others.

::

    h = cost / (size * staleness)          cost                                              size   staleness
    dtr        h_DTR                       own + evicted neighbourhood e*                    yes    yes
    dtr-eq     h_DTR^eq                    own + union-find classes in place of e*           yes    yes
    dtr-local  h_DTR^local                 own                                               yes    yes
    dtr-msps   h_MSPS (Peng et al. 2020)   own + evicted ancestors                           yes    no
    dtr-lru    h_LRU                       1                                                 no     yes
    dtr-size   h_size (GreedyDual)         1                                                 yes    no

Staleness is the duration computed since the output was last computed or read. Evicted descendants that the program has
let go of count in e*, as in the authors' simulator.

The first candidate has the budget for its threshold. DTR does not know the future and counts outputs that nothing
reads before they are computed again, so what it does below a higher threshold may fit as well: the other candidates
come from thresholds between the budget and the peak of the input order. A threshold under which DTR runs out of memory,
everything being locked, or thrashes gives no candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, small_instance
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.dtr_costs import ClassesCost, EvictionCost, OwnCost, RelativesCost
from moccasin_mzn.strategies.dtr_executor import EvictionRule, Executor
from moccasin_mzn.strategies.strategy import Stop, Strategy

EVICTIONS = CompiledSearch("costs of evictions", __name__)

THRESHOLDS = 4
"""Thresholds tried: budget * (peak / budget) ** (k / THRESHOLDS) for k = 0, 1, ..."""

THRASHING = 20
"""DTR is given up when it has made more than so many computations per node, on average."""


def thresholds(instance: Instance) -> list[int]:
    """The budget, and some memory limits between it and the peak of the input order, ascending; size units."""
    budget, peak = instance.budget, instance.baseline.peak
    if not 0 < budget < peak:
        return [budget]
    between = (max(budget, int(budget * (peak / budget) ** (k / THRESHOLDS))) for k in range(1, THRESHOLDS))
    return sorted({budget, *between})


def run_dtr(instance: Instance, rule: EvictionRule, threshold: int, stop: Stop) -> tuple[Sequence[int] | None, int]:
    """What DTR does within `threshold`: its computations, positions in `graph.nodes`, and the peak of its own account.

    None in place of the computations if it runs out of memory, thrashes (see `THRASHING`) or time is up.
    """
    arrays = graph_arrays(instance.graph, instance.order)
    executor = Executor(arrays, rule, threshold, THRASHING * arrays.node_count, stop)
    computed = executor.run()
    return None if computed is None else [instance.order[v] for v in computed], executor.peak


def _schedules(rule: EvictionRule, instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    for threshold in thresholds(instance):
        computed, _ = run_dtr(instance, rule, threshold, stop)
        if computed is not None:
            yield computed


RULES = {
    "dtr": EvictionRule(RelativesCost, size=True, staleness=True),
    "dtr-eq": EvictionRule(ClassesCost, size=True, staleness=True),
    "dtr-local": EvictionRule(OwnCost, size=True, staleness=True),
    "dtr-msps": EvictionRule(partial(RelativesCost, descendants=False), size=True, staleness=False),
    "dtr-lru": EvictionRule(EvictionCost, size=False, staleness=True),
    "dtr-size": EvictionRule(EvictionCost, size=True, staleness=False),
}
_TITLES = (
    "h_DTR", "h_DTR with equivalence classes", "h_DTR of the node alone", "memory saving per second",
    "least recently used", "largest first",
)  # fmt: skip

STRATEGIES = tuple(
    Strategy(
        name=name,
        title=f"Dynamic Tensor Rematerialization, {title}",
        source="Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, sections 2 and 4",
        guarantee="the schedule made at the budget itself, if there is one, keeps within it; no bound on duration",
        schedules=partial(_schedules, rule),
        compiled=(EVICTIONS,),
    )
    for (name, rule), title in zip(RULES.items(), _TITLES, strict=True)
)


def compile_all() -> None:
    """Call every compiled function once."""
    for name in ("dtr", "dtr-eq"):
        for _ in _schedules(RULES[name], small_instance(), lambda: False):
            pass
