"""What a strategy is: a rule that makes schedules without a search, and proves nothing about them.

And what several of them share: an instance as strategies see it, and schedules as two boolean matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from moccasin_mzn.base.errors import InputError, NotApplicableError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Ability, Feature
from moccasin_mzn.problem.instance import Instance

Stop = Callable[[], bool]
"""Is time up? Asked for rules that take long before their first candidate, or between two."""


@dataclass(frozen=True)
class Strategy:
    """A rule from the literature.

    `schedules(instance, stop)` makes candidates, one by one, as sequences of positions in `graph.nodes`. Every
    candidate computes all nodes in a valid order; its peak may be over the budget, as most rules do not look at the
    budget or only estimate memory. The caller has the simulator judge all candidates and takes the shortest that
    fits, or, if none does, the one with the least peak; see `apply`. No candidate: the rule gave up within this budget.

    Raises:
        NotApplicableError: from `schedules`, at the latest at its first candidate.
    """

    name: str
    """The name on the command line, such as "chen-sqrtn-ap"."""
    title: str
    """A few words for people."""
    source: str
    """The publication and its section."""
    guarantee: str
    """One line: what is known of its schedules, and for which graphs it is."""
    schedules: Callable[[Instance, Stop], Iterable[Sequence[int]]]
    compiled: tuple[CompiledSearch, ...] = ()
    """What the strategy needs of `compiled_searches`."""
    family: str = ""
    """The method whose published figures are its own, as columns of a table of these name it; empty: there are none."""


RULES = Ability(
    "strategies",
    OF_ONE_MEMORY
    | {
        Feature.ITERATIONS,
        Feature.OFFSETS,
        Feature.CERTIFICATE,
        Feature.ZERO_COPY,
        Feature.TILE,
        Feature.LEAST,
        Feature.FRONTIER,
    },
    MappingProxyType(
        {
            **dict.fromkeys((Feature.PAGING, Feature.DEVICES, Feature.POOLS), "its rule knows one memory"),
            **dict.fromkeys((Feature.RACE, Feature.OWN_MODEL), "a strategy is in place of a model"),
        }
    ),
    Feature.STRATEGY,
)
"""All rules: what they make is judged with whatever the graph has, few of them look at more than sizes."""


# --- An instance as strategies see it: nodes numbered along the input order, forward and backward pass distinguished


@dataclass(frozen=True)
class Passes:
    """Nodes 0..n-1 along the input order, which are also the stages that end with their first computations."""

    order: tuple[int, ...]
    """Position in `graph.nodes` of each node."""
    inputs: tuple[tuple[int, ...], ...]
    """The nodes each node reads, ascending."""
    size: tuple[int, ...]
    duration: tuple[int, ...]
    backward: tuple[bool, ...] | None
    """True for the nodes of the backward pass; None: unknown, and not to be seen from the edges."""

    @property
    def forward(self) -> tuple[int, ...]:
        """The nodes of the forward pass, ascending; all nodes if it is not known which they are."""
        return tuple(v for v in range(len(self.order)) if self.backward is None or not self.backward[v])

    @classmethod
    def of(cls, instance: Instance) -> Passes:
        """Number the nodes."""
        graph, order = instance.graph, instance.order
        number = {v: k for k, v in enumerate(order)}
        inputs = tuple(tuple(sorted(number[u] for u in graph.predecessors[v])) for v in order)
        return cls(
            order=order,
            inputs=inputs,
            size=tuple(graph.sizes[v] for v in order),
            duration=tuple(graph.durations[v] for v in order),
            backward=_mirrored(inputs) if graph.backward is None else tuple(graph.backward[v] for v in order),
        )


def _mirrored(inputs: Sequence[Sequence[int]]) -> tuple[bool, ...] | None:
    """What follows the first half as the backward pass, if it mirrors that: of n nodes, node n - 1 - v reads node v.

    So it is in every training graph by Checkmate's construction, the node in the middle being the loss (see
    `generators.network.training_graph`), and hardly in any other but tiny ones.
    """
    n = len(inputs)
    if n < 5 or n % 2 == 0 or not all(v in inputs[n - 1 - v] for v in range(n // 2)):
        return None
    return tuple(v >= n // 2 for v in range(n))


# --- Schedules as two boolean matrices, as Checkmate writes them: what each stage keeps, and what it computes

# Rows are stages, columns nodes, both numbered along the input order from 0. Stage t ends with the first computation
# of node t; before it, nodes before t may be recomputed, in input order::
#
#     chain 0 -> 1 -> 2 -> 3, and 3 also reads 0
#
#                   keep           recompute        sequence
#     stage 0    . . . .           # . . .          0
#     stage 1    # . . .           . # . .          1          keep[t, i]: output i is kept from stage t-1 into stage t
#     stage 2    . # . .           . . # .          2          recompute[t, i]: stage t computes node i, first or again
#     stage 3    . . # .           # . . #          0 3
#
# Keeping is a promise, recomputation what it takes: `complete` finds the least of it (Jain et al., Checkmate, MLSys
# 2020, section 5.2).


MOST_NODES = 10_000
"""A matrix takes the square of the nodes in bytes."""
MOST_COMPUTATIONS = 5_000_000
"""A longer sequence is of no use; the square of the nodes can be more than fits in memory."""


def nothing_kept(nodes: int) -> np.ndarray:
    """The matrix `keep` of a schedule that keeps nothing from any stage to the next, to be filled in.

    Raises:
        NotApplicableError: more than `MOST_NODES` nodes.
    """
    if nodes > MOST_NODES:
        raise NotApplicableError(
            f"the graph has {nodes} nodes, but its stages can be written down for {MOST_NODES} at most"
        )
    return np.zeros((nodes, nodes), dtype=bool, order="F")  # it is mostly filled column by column


def complete(graph: ComputationGraph, order: Sequence[int], keep: np.ndarray) -> np.ndarray:
    """The least that must be computed for `keep` to hold and for every node to find its inputs.

    Stage t computes node t; what stage t+1 keeps and stage t does not; and, from the last of these to the first, every
    input that is not kept. All other schedules with this `keep` compute this as well.

    Args:
        order: input order, positions in `graph.nodes`.
        keep: bool, n x n; keep[t, i] is false wherever i >= t, as stage t-1 does not know node t.

    Returns:
        bool, n x n.

    Raises:
        InputError: `keep` has another shape, or keeps what is not computed yet.
    """
    n = len(order)
    if keep.shape != (n, n):
        raise InputError(f"keep has the shape {keep.shape}, expected {(n, n)}")
    if np.triu(keep).any():
        t, i = np.argwhere(np.triu(keep))[0]
        raise InputError(f"keep[{t}, {i}]: node {graph.nodes[order[i]]} is not computed before stage {t}")
    column = {v: i for i, v in enumerate(order)}
    missing = np.ascontiguousarray(~keep.T)  # by node, as all stages are looked at together
    computed = np.eye(n, dtype=bool)
    computed[:, :-1] |= ~missing[:, 1:] & missing[:, :-1]
    for i in reversed(range(n)):
        for u in graph.predecessors[order[i]]:
            k = column[u]
            computed[k, i:] |= computed[i, i:] & missing[k, i:]
    return computed.T


def sequence_of(order: Sequence[int], recompute: np.ndarray) -> tuple[int, ...]:
    """What a matrix from `complete` computes, stage by stage, each in input order: positions in `graph.nodes`."""
    return tuple(np.asarray(order)[np.nonzero(recompute)[1]].tolist())


def schedule(graph: ComputationGraph, order: Sequence[int], keep: np.ndarray) -> tuple[int, ...] | None:
    """The sequence of the completion of `keep`; None if it has more than `MOST_COMPUTATIONS`. See `complete`."""
    recompute = complete(graph, order, keep)
    return sequence_of(order, recompute) if np.count_nonzero(recompute) <= MOST_COMPUTATIONS else None
