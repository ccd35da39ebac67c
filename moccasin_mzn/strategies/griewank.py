"""Optimal checkpoints of a chain: Griewank and Walther, Algorithm 799: revolve (ACM TOMS 26, 2000).

A number of slots hold forward outputs; a backward step finds its forward output in a slot, or it is recomputed from
the nearest earlier one in a slot. Where to put slots if all durations are equal is known in closed form; for any
durations dynamic programming finds it, as long as the chain is not too long.

States 1..L are the outputs of the L forward nodes, and state 0 is what takes no memory: the input of the network. ::

    states       0    1    2    3    4    5       to do: reach 5, 4, 3, 2, 1, in this order, while 0 is at hand
                 |--------->m                     cost(0, 5, s) = duration of the nodes 1..m     m goes into a slot
                            |------------->                     + cost(m, 5, s - 1)
                 |--->                                          + cost(0, m - 1, s)              m's slot is free again

In the terms of the paper, L nodes and s slots are L + 1 steps and s + 1 checkpoints, the start being one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import comb

import numpy as np

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import NotApplicableError
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.strategy import MOST_COMPUTATIONS, Passes, Stop, Strategy

# --- Recognising a training chain: a path forward, and a backward pass that goes back along it

#     forward     1 --> 2 --> 3 --> ... --> L
#                 |  /  |  /  |             |
#     backward    g1 <- g2 <- g3 <- ... <- loss
#
# Of the forward pass a backward node reads at most the output of its own step and that of the step after it.


@dataclass(frozen=True)
class Chain:
    """A training chain, numbered along the input order: L forward nodes, and then its backward steps."""

    durations: tuple[int, ...]
    """Durations of the forward nodes."""
    sizes: tuple[int, ...]
    """Sizes of their outputs."""
    lowest: tuple[int, ...]
    """For each node of the backward pass the least state, 1..L, that it or a node before it reads."""

    @classmethod
    def of(cls, instance: Instance) -> Chain:
        """Recognise a training chain.

        Raises:
            NotApplicableError: it is not a chain; the message names the first node, or edge, that shows it.
        """
        passes = Passes.of(instance)
        name = [node_text(instance.graph, v) for v in passes.order]
        length = _forward_length(passes, name)
        lowest, state = [], length
        for v in range(length, len(passes.order)):
            reads = [u + 1 for u in passes.inputs[v] if u < length]
            state = min([state, *reads])
            if reads and reads[-1] > state + 1:
                raise _no_chain(f"node {name[v]} reads node {name[reads[-1] - 1]}, which is not of its step")
            lowest.append(state)
            if passes.backward is None and v - 1 not in passes.inputs[v]:
                raise _no_chain(f"node {name[v]} does not read node {name[v - 1]}, the one before it")
        return cls(passes.duration[:length], passes.size[:length], tuple(lowest))


def _forward_length(passes: Passes, name: Sequence[str]) -> int:
    """Count the path at the beginning: all forward nodes, or, if these are unknown, as many as possible."""
    for v, inputs in enumerate(passes.inputs):
        if passes.backward is None:
            if inputs != _before(v):
                return v
        elif passes.backward[v]:
            late = next((w for w in passes.forward if w > v), None)
            if late is not None:
                raise _no_chain(f"node {name[late]} is a forward node, but comes after node {name[v]}, a backward one")
            if v == 0:
                raise _no_chain("there is no forward pass")
            return v
        elif inputs[-1:] != _before(v):
            raise _no_chain(f"node {name[v]} does not read node {name[v - 1]}, the one before it")
        elif len(inputs) > 1:
            raise _no_chain(f"node {name[v]} reads node {name[inputs[0]]}, not only node {name[v - 1]}")
    raise _no_chain("there is no backward pass")


def _before(v: int) -> tuple[int, ...]:
    return (v - 1,) if v else ()


def _no_chain(why: str) -> NotApplicableError:
    return NotApplicableError(Page.STRATEGIES.after(f"for training chains only: {why}"))


MOST_WORK = 7 * 10**8
"""Costs compared by dynamic programming, which takes some seconds: all numbers of slots for 300 forward nodes, but only
a few for 1,000. For the others durations are taken to be equal."""
MOST_EQUAL = 200
"""Numbers of slots tried with durations taken to be equal."""

Table = list[np.ndarray]
"""table[q][c]: where the first slot goes, counted from c + 1, if the states c+1..c+q are to be reached from c."""


def _tables(chain: Chain, stop: Stop) -> Iterator[Table]:
    """Where to put checkpoints, for 0, 1, 2, ... slots, within `MOST_WORK` and until time is up.

    Of the places of least duration the one of least size. Spans that have slots for all states are left empty.
    """
    length, work = len(chain.durations), 0
    yield []
    if _work(length, 1) > MOST_WORK:
        return  # and not even room for the matrices
    reach = _from_each([0.0, *np.cumsum(chain.durations, dtype=float)])
    reach -= reach[:, :1]  # reach[c, q]: duration of computing state c+q from c
    size = _from_each([0.0, *chain.sizes])
    cost = np.cumsum(reach, axis=1)  # cost[c, q]: of reaching c+q, ..., c+1, first without any slot
    for slots in range(1, length):
        work += _work(length, slots)
        if work > MOST_WORK:
            return
        rest = np.zeros_like(cost)  # rest[i, q]: of reaching i, ..., i-q+1 from i-q, with one slot less
        for q in range(length + 1):
            rest[q:, q] = cost[: length + 1 - q, q]
        cost = reach.copy()
        table = [np.zeros(0, dtype=np.int16)] * (slots + 2)
        for q in range(slots + 2, length + 1):
            if stop():
                return
            starts = length + 1 - q
            costs = reach[:starts, 1 : q + 1] + rest[q:, :q][:, ::-1] + cost[:starts, :q]
            cost[:starts, q] = costs.min(axis=1)
            best = costs == cost[:starts, q, None]
            table.append(np.where(best, size[:starts, 1 : q + 1], np.inf).argmin(axis=1).astype(np.int16))
        yield table


def _work(length: int, slots: int) -> int:
    return sum(q * (length + 1 - q) for q in range(slots + 2, length + 1))


def _from_each(values: Sequence[float]) -> np.ndarray:
    """Row c: the values from the c-th on, and zeros beyond the last."""
    padded = np.concatenate([values, np.zeros(len(values) - 1)])
    return np.lib.stride_tricks.sliding_window_view(padded, len(values)).copy()


def _sequence(chain: Chain, tables: Sequence[Table], slots: int) -> Iterator[int]:
    """Numbers along the input order: forward nodes as planned, backward nodes as soon as they find what they read."""
    length, done = len(chain.durations), 0
    to_do = [(0, 0, length, slots)]  # reached, first, last, free: see below; the last entry is next
    while to_do:
        reached, first, last, free = to_do.pop()
        if reached:
            while done < len(chain.lowest) and chain.lowest[done] >= reached:
                yield length + done
                done += 1
        if first < last:  # reach last, ..., first+1 from first, with so many free slots
            stored = _place(tables, first, last, free)
            yield from range(first, stored)
            to_do.append((stored, first, stored - 1, free))
            to_do.append((0, stored, last, free - 1))


def _place(tables: Sequence[Table], first: int, last: int, free: int) -> int:
    """The state to store next if last, ..., first+1 are to be reached from first."""
    if free == 0:
        return last  # nowhere to store it, but there it will be at hand
    if last - first <= free + 1:
        return first + 1
    if free < len(tables):
        return first + 1 + int(tables[free][last - first][first])
    steps, checkpoints = last - first + 1, free + 1  # in the terms of the paper
    times = _repetitions(steps, checkpoints)
    most = comb(checkpoints + times - 1, checkpoints)  # steps that are possible with one repetition less
    return first + min(most, steps - comb(checkpoints + times - 2, checkpoints - 1))


def _repetitions(steps: int, checkpoints: int) -> int:
    """How often a step must be recomputed at most, for an optimum if durations are equal."""
    return next(times for times in count() if comb(checkpoints + times, checkpoints) >= steps)


def _computations(steps: int, checkpoints: int) -> int:
    """Count computations of forward nodes with equal durations: r l - C(s + r, r - 1) for l steps, s checkpoints and r
    repetitions."""
    times = _repetitions(steps, checkpoints)
    return times * steps - comb(checkpoints + times, times - 1)


def _schedules(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    """A schedule for each number of slots, or for `MOST_EQUAL` of those without a table; none that is endless."""
    chain = Chain.of(instance)
    length = len(chain.durations)
    tables: list[Table] = []

    def schedule(slots: int) -> Sequence[int]:
        return tuple(instance.order[k] for k in _sequence(chain, tables, slots))

    for slots, table in enumerate(_tables(chain, stop)):
        tables.append(table)
        if _computations(length + 1, slots + 1) <= MOST_COMPUTATIONS:
            yield schedule(slots)
    step = max(1, (length - len(tables)) // MOST_EQUAL)
    for slots in reversed(range(length - 1, len(tables) - 1, -step)):
        if _computations(length + 1, slots + 1) <= MOST_COMPUTATIONS:
            yield schedule(slots)


GRIEWANK = Strategy(
    name="griewank",
    title="revolve: optimal checkpoints of a training chain, for every number of them",
    source="Griewank and Walther, Algorithm 799: revolve (ACM TOMS 26, 2000), for any durations by dynamic programming",
    guarantee="on training chains: least duration for a number of checkpoints, whatever memory each of them takes",
    schedules=_schedules,
)

STRATEGIES = (GRIEWANK,)
