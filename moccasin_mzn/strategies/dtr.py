"""Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021), simulated: an online rule, and its heuristics.

The operations come one by one in the input order. When memory is short, DTR evicts the unlocked resident output t with
the least h(t); when an operation needs an evicted input, it is recomputed, and first what that needs. Inputs are
locked while a node waits for them. When the last first computation that reads an output is done, the program lets go of
it and it is evicted at once (the paper's eager eviction), although DTR may have to recompute it for others.

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
reads before they are recomputed, so what it does below a higher threshold may fit as well: the other candidates
come from thresholds between the budget and the peak of the input order. A threshold under which DTR runs out of memory,
everything being locked, or thrashes gives no candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays, graph_arrays
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, small_instance
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.strategy import Stop, Strategy

# --- What evicting an output may cost later: the numerators of DTR's heuristics

# Nodes are numbered 0..n-1 along the input order, as in `GraphArrays`. A node is evicted if it was computed and is
# not in memory now. Durations are in the graph's unit.


class EvictionCost:
    """The listener gets every eviction and computation, and gives what each output would cost if it were evicted next.

    This one is 1 for all: only size or staleness decides.
    """

    def __init__(self, arrays: GraphArrays) -> None:
        self._duration = arrays.duration

    def evicted(self, node: int) -> None:
        """The output of `node` has left memory."""

    def computed(self, node: int) -> None:
        """The output of `node` is in memory, for the first time or again."""

    def costs(self, nodes: Array) -> Array:
        """Return the cost of evicting each of `nodes`, which are in memory: int64, in the graph's duration unit."""
        return np.ones(len(nodes), np.int64)


class OwnCost(EvictionCost):
    """The duration of the node alone."""

    def costs(self, nodes: Array) -> Array:
        return self._duration[nodes]


class RelativesCost(EvictionCost):
    """Own duration plus that of the evicted ancestors and, unless they are left out, of the evicted descendants.

    Both together are the evicted neighbourhood e*::

        a* -> b* -> c -> d* -> e*          * evicted
               \\               ^           ancestors of c: b, a
        x* -> y ---------------/           descendants of c: d, e; but not x, beyond the resident y
    """

    def __init__(self, arrays: GraphArrays, descendants: bool = True) -> None:
        n = arrays.node_count
        words = n // 64 + 1
        super().__init__(arrays)
        self._arrays = (arrays.pred_ptr, arrays.pred, arrays.succ_ptr, arrays.succ)
        self._descendants = descendants
        self._evicted = np.zeros(n, np.bool_)
        self._newest = 0
        self._room = np.zeros((2, n, words), np.uint64)
        of_byte = np.zeros(64 * words, np.int64)
        of_byte[:n] = arrays.duration
        bits = np.arange(256)[:, None] >> np.arange(8) & 1
        self._table = of_byte.reshape(-1, 8) @ bits.T

    def evicted(self, node: int) -> None:
        self._evicted[node] = True

    def computed(self, node: int) -> None:
        self._evicted[node] = False
        self._newest = max(self._newest, node + 1)

    def costs(self, nodes: Array) -> Array:
        """In time proportional to n/64 for every edge and n/8 for every one of `nodes`."""
        from moccasin_mzn.strategies.dtr_kernel import add_evicted_relatives  # numba loads slowly

        wanted = np.zeros(len(self._evicted), np.bool_)
        wanted[nodes] = True
        cost = self._duration.copy()
        add_evicted_relatives(
            self._arrays, self._evicted, wanted, self._newest, self._descendants, self._table, *self._room, cost
        )
        return cost[nodes]


class ClassesCost(EvictionCost):
    """Own duration plus that of the classes of evicted nodes next to the node.

    An evicted node joins the classes of its evicted inputs and readers into one. A node that is recomputed leaves
    its class, but the class stays in one piece. So this is never less than with e*, and cheaper to keep up to date.
    """

    def __init__(self, arrays: GraphArrays) -> None:
        super().__init__(arrays)
        n = arrays.node_count
        inputs = np.split(arrays.pred, arrays.pred_ptr[1:-1])
        readers = np.split(arrays.succ, arrays.succ_ptr[1:-1])
        self._near = np.concatenate([near for both in zip(inputs, readers, strict=True) for near in both])
        self._near_ptr = arrays.pred_ptr + arrays.succ_ptr
        self._class_of = np.full(n, -1, np.int64)
        self._class_cost = np.zeros(n, np.int64)
        self._members: list[list[int]] = [[] for _ in range(n)]
        self._unused = list(range(n))  # there are never more classes than evicted nodes
        self._seen = np.zeros(n, np.int64)

    def evicted(self, node: int) -> None:
        own = self._unused.pop()
        self._members[own] = [node]
        self._class_of[node] = own
        self._class_cost[own] = self._duration[node]
        near = self._class_of[self._near[self._near_ptr[node] : self._near_ptr[node + 1]]]
        for other in set(near.tolist()) - {-1}:
            own = self._joined(own, other)

    def _joined(self, one: int, other: int) -> int:
        small, large = sorted((one, other), key=lambda c: len(self._members[c]))
        self._class_of[self._members[small]] = large
        self._members[large] += self._members[small]
        self._class_cost[large] += self._class_cost[small]
        self._unused.append(small)
        return large

    def computed(self, node: int) -> None:
        old = int(self._class_of[node])
        if old >= 0:
            self._members[old].remove(node)
            self._class_cost[old] -= self._duration[node]
            self._class_of[node] = -1
            if not self._members[old]:
                self._unused.append(old)

    def costs(self, nodes: Array) -> Array:
        """In time proportional to the inputs and readers of `nodes`."""
        from moccasin_mzn.strategies.dtr_kernel import add_near_classes  # numba loads slowly

        cost = self._duration[nodes]
        add_near_classes(self._near_ptr, self._near, self._class_of, self._class_cost, nodes, self._seen, cost)
        return cost


# --- DTR's executor: an online program that evicts when memory is short and recomputes what it then lacks

# Nodes are numbered 0..n-1 along the input order. The account of memory is the executor's own: an output counts until
# it is evicted, even if nothing will read it before it is recomputed. So it is never below the simulator's.


@dataclass(frozen=True)
class EvictionRule:
    """h(t) = cost / (size * staleness), in which factors may be left out. The output with the least h goes first."""

    cost: Callable[[GraphArrays], EvictionCost]
    size: bool
    """True if the size of the output divides."""
    staleness: bool
    """True if the duration computed since the output was last computed or read divides."""


class Executor:
    """Runs the program once; see `run`."""

    peak: int
    """Most memory so far, by the executor's own account."""

    def __init__(self, arrays: GraphArrays, rule: EvictionRule, threshold: int, most: int, stop: Stop) -> None:
        """The graph is along the input order, `threshold` the most memory in its size unit; after `most` computations
        the program is given up as thrashing, and as soon as `stop` is true."""
        n = arrays.node_count
        self._rule, self._threshold, self._most, self._stop = rule, threshold, most, stop
        self._cost = rule.cost(arrays)
        self._duration: list[int] = arrays.duration.tolist()
        self._size: list[int] = arrays.size.tolist()
        self._workspace: list[int] = arrays.workspace.tolist()
        self._divisor = arrays.size if rule.size else np.ones(n, np.int64)
        self._inputs = [arrays.pred[arrays.pred_ptr[v] : arrays.pred_ptr[v + 1]].tolist() for v in range(n)]
        self._unread: list[int] = np.diff(arrays.succ_ptr).tolist()  # first computations that will still read it
        self._worth_evicting = arrays.size > 0
        self._resident = np.zeros(n, np.bool_)
        self._locks = np.zeros(n, np.int64)
        self._accessed = np.zeros(n)  # floats: a thrashing program's clock may leave int64
        self._clock = self._memory = self.peak = 0
        self._computed: list[int] = []

    def run(self) -> Sequence[int] | None:
        """All computations in their order; None if memory ran out, everything being locked, or if given up."""
        for v in range(len(self._size)):
            if not self._materialize(v):
                return None
            for u in self._inputs[v]:
                self._unread[u] -= 1
                if self._unread[u] == 0:  # the program lets go of it, even if some evicted output was made from it
                    self._evict(u)
            if self._unread[v] == 0:
                self._evict(v)
        return self._computed

    def _materialize(self, node: int) -> bool:
        """Compute `node` and, before that, its evicted inputs, their evicted inputs, and so on; False if that fails.

        The inputs of every node under way are locked as soon as they are resident.
        """
        under_way: list[tuple[int, set[int]]] = [(node, set())]
        while under_way:
            v, locked = under_way[-1]
            missing = self._lock_inputs(v, locked)
            if missing is not None:
                under_way.append((missing, set()))
                continue
            if len(self._computed) == self._most or self._stop():
                return False
            if not self._make_room(self._size[v] + self._workspace[v]):
                return False
            self._compute(v)
            self._locks[list(locked)] -= 1
            under_way.pop()
        return True

    def _lock_inputs(self, node: int, locked: set[int]) -> int | None:
        """Lock the resident inputs of `node` that are not locked for it yet. The first missing input, if any."""
        missing = None
        for u in self._inputs[node]:
            if not self._resident[u]:
                missing = u if missing is None else missing
            elif u not in locked:
                locked.add(u)
                self._locks[u] += 1
                self._accessed[u] = self._clock
        return missing

    def _make_room(self, size: int) -> bool:
        """Evict until `size` more fits; False if all that could be evicted is locked."""
        while self._memory + size > self._threshold:
            unlocked = np.flatnonzero(self._resident & self._worth_evicting & (self._locks == 0))
            if len(unlocked) == 0:
                return False
            self._evict(int(unlocked[np.argmin(self._scores(unlocked))]))
        return True

    def _scores(self, nodes: Array) -> Array:
        """h of each of `nodes`."""
        divisor = self._divisor[nodes].astype(np.float64)
        if self._rule.staleness:
            divisor *= float(self._clock) - self._accessed[nodes]
        cost = self._cost.costs(nodes)
        return np.divide(cost, divisor, out=np.full(len(nodes), np.inf), where=divisor > 0)

    def _compute(self, node: int) -> None:
        self._clock += self._duration[node]
        self._memory += self._size[node]
        self.peak = max(self.peak, self._memory + self._workspace[node])
        self._resident[node] = True
        self._accessed[node] = self._clock
        self._computed.append(node)
        self._cost.computed(node)

    def _evict(self, node: int) -> None:
        self._resident[node] = False
        self._memory -= self._size[node]
        self._cost.evicted(node)


EVICTIONS = CompiledSearch("costs of evictions", __name__)

THRESHOLDS = 4
"""Thresholds tried: budget * (peak / budget) ** (k / THRESHOLDS) for k = 0, 1, ..."""

THRASHING = 20
"""DTR is given up when it has made more than this many computations per node, on average."""


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
