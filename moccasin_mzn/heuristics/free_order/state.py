"""Any sequence of computations, and what it costs, kept up to date change by change.

Nodes are numbered 0..n-1 along the input order. Node v has C_v slots, each of which may stand at one position of the
sequence; a slot that does not is free::

    position      0   1   2   3   4
    seq          a1  b1  c1  b2  d1       slots: b1 and b2 compute b; a2, c2 and d2 are free
    memory        .   .   .   .   .       as the judge counts it, at each position

Adding or taking away a computation changes memory between reads of the node, and of its inputs. Between two changes a
sequence may lack a copy that is read, as a node is taken away to be put elsewhere; such a read holds nothing.

Further outputs of an operation, numbered behind its first one, have readers of their own, but no slots and no reads:
they come with each computation of the first, at its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import NONE, ProblemArrays, compiled, problem_with
from moccasin_mzn.heuristics.streaming.layers import layers_of
from moccasin_mzn.problem.instance import Instance

MOST_SLOTS = 8
"""Most computations of one node, whatever C_v allows: more are rarely of use."""


class SequenceState(NamedTuple):
    """A sequence. Memory includes both ends of every retention interval."""

    seq: np.ndarray
    """The slot at each position."""
    memory: np.ndarray
    """At each position."""
    pos: np.ndarray
    """The position of each slot; NONE if it is free."""
    used: np.ndarray
    """Number of computations of each node."""
    totals: np.ndarray
    """Duration of all computations; sum over positions of the memory over the budget; number of positions."""
    alongside: np.ndarray
    """By node the part of the same layer below it, and the one above it, NONE if there is none: two rows, of no columns
    where nothing is a part. It never changes."""


DURATION, EXCESS, LENGTH = 0, 1, 2


def problem_of(instance: Instance) -> ProblemArrays:
    """An instance for compiled code: a slot for each computation that C_v allows, `MOST_SLOTS` at most."""
    problem = problem_with(instance, lambda most: np.minimum(most, MOST_SLOTS))
    if len(problem.output_of):
        problem = _with_outputs_at_once(problem)
    return problem._replace(pred=problem.pred.astype(np.int64), succ=problem.succ.astype(np.int64))


def _with_outputs_at_once(problem: ProblemArrays) -> ProblemArrays:
    """The problem without slots and reads of further outputs."""
    n, further = len(problem.duration), problem.output_of != NONE
    slots = np.where(further, 0, np.diff(problem.slot_ptr))
    tail, head = np.repeat(np.arange(n), np.diff(problem.succ_ptr)), problem.succ
    reads = np.where(further, 0, np.diff(problem.pred_ptr))
    readers = np.bincount(tail[~further[head]], minlength=n)
    reading = np.repeat(further, np.diff(problem.pred_ptr))
    slot_ptr, pred_ptr, succ_ptr = (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64) for counts in (slots, reads, readers)
    )
    return problem._replace(
        slot_ptr=slot_ptr, slot_node=np.repeat(np.arange(n, dtype=np.int64), slots), pred_ptr=pred_ptr,
        pred=problem.pred[~reading], succ_ptr=succ_ptr, succ=head[~further[head]],
    )  # fmt: skip


def slots_of(instance: Instance, problem: ProblemArrays, sequence: Sequence[int]) -> np.ndarray:
    """The slots of a sequence of positions in `graph.nodes`; computations without a slot, the latest ones, are left
    out."""
    number = {v: k for k, v in enumerate(instance.order)}
    free = problem.slot_ptr[:-1].tolist()
    end = problem.slot_ptr[1:].tolist()
    slots = []
    for v in sequence:
        k = number[v]
        if len(problem.output_of) and problem.output_of[k] != NONE:
            continue
        if free[k] < end[k]:
            slots.append(free[k])
            free[k] += 1
    return np.array(slots, np.int64)


def sequence_of(instance: Instance, problem: ProblemArrays, slots: np.ndarray) -> tuple[int, ...]:
    """The sequence, as positions in `graph.nodes`; inverse of `slots_of`."""
    return instance.graph.with_all_outputs([instance.order[k] for k in problem.slot_node[slots].tolist()])


def parts_alongside(instance: Instance) -> np.ndarray:
    """For each node, numbered along the input order, the parts alongside it, as `SequenceState` has them."""
    if instance.graph.parts is None:
        return np.zeros((2, 0), np.int64)
    layers = layers_of(instance.graph, instance.order)
    places = zip(layers.layer, layers.column, layers.band, strict=True)
    number = {v: k for k, v in enumerate(instance.order)}
    at = {place: number[v] for v, place in enumerate(places)}
    alongside = np.full((2, len(number)), NONE, np.int64)
    for (layer, column, band), k in at.items():
        for row, step in ((0, 1), (1, -1)):
            alongside[row, k] = at.get((layer, column, band + step), NONE)
    return alongside


def empty_state(problem: ProblemArrays, alongside: np.ndarray | None = None) -> SequenceState:
    """No computation at all.

    Args:
        alongside: see `parts_alongside`; None: nothing is a part.
    """
    slots = len(problem.slot_node)
    return SequenceState(
        seq=np.full(slots, NONE, np.int64),
        memory=np.zeros(slots, np.int64),
        pos=np.full(slots, NONE, np.int64),
        used=np.zeros(len(problem.duration), np.int64),
        totals=np.zeros(3, np.int64),
        alongside=np.zeros((2, 0), np.int64) if alongside is None else alongside,
    )


@compiled
def maker(problem, v):
    """The node whose computations make output v: itself, or the first output of its operation."""
    if len(problem.output_of) > 0 and problem.output_of[v] != NONE:
        return np.int64(problem.output_of[v])
    return np.int64(v)


@compiled
def beyond_outputs(problem, v):
    """The first number behind those of the outputs that computations of v make."""
    end = v + 1
    while end < len(problem.output_of) and problem.output_of[end] == v:
        end += 1
    return end


@compiled
def latest_start(problem, state, v, t):
    """Position of the latest copy of v that is computed before t; NONE."""
    best, v = np.int64(NONE), maker(problem, v)
    for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
        start = state.pos[slot]
        if best < start < t:
            best = start
    return best


@compiled
def next_start(problem, state, v, t):
    """Position of the next copy of v after t; the number of positions if there is none."""
    best, v = state.totals[LENGTH], maker(problem, v)
    for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
        start = state.pos[slot]
        if t < start < best:
            best = start
    return best


@compiled
def last_read(problem, state, u, begin, end):
    """The last position strictly between `begin` and `end` that reads u; `begin` if there is none."""
    best = begin
    for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
        x = problem.succ[at]
        for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
            read = state.pos[slot]
            if best < read < end:
                best = read
    return best


@compiled
def first_read(problem, state, u, begin):
    """The first position after `begin` that reads u; the number of positions if there is none."""
    best = state.totals[LENGTH]
    for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
        x = problem.succ[at]
        for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
            read = state.pos[slot]
            if begin < read < best:
                best = read
    return best


@compiled
def longest_retained(problem, state, u):
    """The read of u before which a copy of it is retained for most positions without one; NONE if u is not read."""
    found, most = np.int64(NONE), np.int64(0)
    for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
        x = problem.succ[at]
        for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
            read = state.pos[slot]
            if read == NONE:
                continue
            lasts = read - last_read(problem, state, u, latest_start(problem, state, u, read), read)
            if lasts > most:
                found, most = read, lasts
    return found


@compiled
def last_read_of_any(problem, state, v, begin, end):
    """The same of all outputs that computations of v make."""
    best = begin
    for u in range(v, beyond_outputs(problem, v)):
        best = max(best, last_read(problem, state, u, begin, end))
    return best


@compiled
def first_read_of_any(problem, state, v, begin):
    """The first position after `begin` that reads any output that computations of v make, as `first_read`."""
    best = state.totals[LENGTH]
    for u in range(v, beyond_outputs(problem, v)):
        best = min(best, first_read(problem, state, u, begin))
    return best


@compiled
def _shift_memory(problem, state, begin, end, amount):
    """Add `amount` to the memory at begin..end - 1."""
    budget, excess = problem.budget, np.int64(0)
    part = state.memory[begin : max(begin, end)]
    for i in range(len(part)):
        old = part[i]
        new = old + amount
        part[i] = new
        excess += max(0, new - budget) - max(0, old - budget)
    state.totals[EXCESS] += excess


@compiled
def _retain(problem, state, v, t, sign):
    """What a computation of v at position t, between all others, changes in the memory of those, times `sign`.

    Returns:
        The memory that it adds at t itself.
    """
    memory, outputs = np.int64(0), beyond_outputs(problem, v) - v
    for i in range(problem.pred_ptr[v] - outputs, problem.pred_ptr[v + 1]):
        own = i < problem.pred_ptr[v]  # first the copies that it makes, then those of its inputs
        u = v + problem.pred_ptr[v] - 1 - i if own else np.int64(problem.pred[i])
        begin, end, amount = t, t, problem.size[u]
        start = latest_start(problem, state, u, t)
        last = last_read(problem, state, u, t, next_start(problem, state, u, t))
        if own and start == NONE:
            begin, end = t + 1, last + 1
            memory += amount if u == v else 0  # further outputs are in the workspace
        elif own and last > t:
            memory -= 0 if u == v else amount  # the copy before it is retained across t no more
            begin, amount = last_read(problem, state, u, start, t) + 1, -amount
        elif own:
            memory += amount if u == v else 0
        elif start != NONE and last == t:
            begin = last_read(problem, state, u, start, t) + 1
            memory += amount
        if begin < end:
            _shift_memory(problem, state, begin, end, sign * amount)
    return memory


@compiled
def add(problem, state, slot, t):
    """Compute the node of a free slot at position t; what stands there and later moves up by one."""
    v, length = problem.slot_node[slot], state.totals[LENGTH]
    memory = np.int64(0)  # of what is retained across the new position
    if t < length:
        x = problem.slot_node[state.seq[t]]
        memory = state.memory[t] - problem.size[x] - problem.workspace[x]
    for at in range(length, t, -1):
        moved = state.seq[at - 1]
        state.seq[at] = moved
        state.pos[moved] = at
        state.memory[at] = state.memory[at - 1]
    state.totals[LENGTH] = length + 1
    memory += problem.workspace[v] + _retain(problem, state, v, t, 1)
    state.seq[t], state.pos[slot], state.memory[t] = slot, t, memory
    state.totals[EXCESS] += max(0, memory - problem.budget)
    state.totals[DURATION] += problem.duration[v]
    state.used[v] += 1


@compiled
def remove(problem, state, slot):
    """Take a computation away, and close the gap; the opposite of `add`."""
    v, t = problem.slot_node[slot], state.pos[slot]
    state.pos[slot] = NONE
    state.used[v] -= 1
    state.totals[DURATION] -= problem.duration[v]
    state.totals[EXCESS] -= max(0, state.memory[t] - problem.budget)
    _retain(problem, state, v, t, -1)
    length = state.totals[LENGTH] - 1
    for at in range(t, length):
        moved = state.seq[at + 1]
        state.seq[at] = moved
        state.pos[moved] = at
        state.memory[at] = state.memory[at + 1]
    state.totals[LENGTH] = length


def enter(problem: ProblemArrays, state: SequenceState, slots: np.ndarray) -> None:
    """Make `state` the sequence of the given slots.

    Raises:
        ValueError: it is not a schedule: a slot that is missing or used twice, a node that is not computed, or is
            so before one of its inputs.
    """
    count, n = len(problem.slot_node), len(problem.duration)
    if np.any(slots < 0) or np.any(slots >= count) or len(np.unique(slots)) < len(slots):
        raise ValueError(f"slots that are not in 0..{count - 1}, or used twice")
    first = np.full(n, count, np.int64)
    np.minimum.at(first, problem.slot_node[slots], np.arange(len(slots)))
    further = np.flatnonzero(problem.output_of != NONE)
    first[further] = first[problem.output_of[further]]
    tail = np.repeat(np.arange(n), np.diff(problem.succ_ptr))
    if np.any(first == count) or np.any(first[tail] >= first[problem.succ]):
        raise ValueError("a node is not computed, or is before one of its inputs")
    load(problem, state, slots)


@compiled
def load(problem, state, slots):
    state.pos[:] = NONE
    state.used[:] = 0
    state.totals[:] = 0
    for t in range(len(slots)):
        add(problem, state, slots[t], t)
