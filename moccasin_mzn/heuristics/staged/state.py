"""Sets of recomputations, and what they cost, kept up to date move by move.

Nodes are numbered 0..n-1 along the input order; stage k ends with the first computation of node k, and before it any of
the nodes 0..k-1 may be recomputed, in ascending order (paper, 2.3). Computing v in stage k is event k n + v. A set of
recomputations is thereby a sequence::

    stage         0    1         2              3
    event        0,0  1,1   2,0  2,2   3,0  3,1  3,3        recomputations: 0 in stage 2, 0 and 1 in stage 3

Every such set respects precedence, since a first computation comes before all reads; only memory may exceed the budget.
Adding or taking away one recomputation changes memory in a few ranges of events: those between reads of the node and of
its inputs. If the graph runs in place, a node that read one of these before may overwrite it then, or not: memory at
these single events changes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import NONE, ProblemArrays, compiled, problem_with, slot_at
from moccasin_mzn.problem.instance import Instance

# --- Who computes and who reads what, and when ----------------------------------------------------------------


NEVER = np.int64(2**62)


@compiled
def latest_start(problem, state, v, event):
    """Event of the latest copy of v that is computed before `event`."""
    n = len(problem.duration)
    best = v * n + v
    if state.used[v]:
        for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
            if state.stage[slot] >= 0:
                start = state.stage[slot] * n + v
                if best < start < event:
                    best = start
    return best


@compiled
def next_start(problem, state, v, event):
    """Event of the next copy of v after `event`; NEVER if there is none."""
    n = len(problem.duration)
    best = NEVER
    if state.used[v]:
        for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
            if state.stage[slot] >= 0:
                start = state.stage[slot] * n + v
                if event < start < best:
                    best = start
    return best


@compiled
def last_read(problem, state, u, begin, end):
    """The last event strictly between `begin` and `end` that reads u; `begin` if there is none."""
    n = len(problem.duration)
    best = begin
    for at in range(problem.succ_ptr[u], problem.succ_ptr[u + 1]):
        x = problem.succ[at]
        read = x * n + x
        if best < read < end:
            best = read
        if state.used[x]:
            for slot in range(problem.slot_ptr[x], problem.slot_ptr[x + 1]):
                if state.stage[slot] >= 0:
                    read = state.stage[slot] * n + x
                    if best < read < end:
                        best = read
    return best


@compiled
def overwrites(problem, state, x, event):
    """Does x, computed at `event`, overwrite an input: is one that it may overwrite not read any more?"""
    for at in range(problem.over_ptr[x], problem.over_ptr[x + 1]):
        u = problem.over[at]
        start = latest_start(problem, state, u, event)
        if last_read(problem, state, u, start, next_start(problem, state, u, event)) == event:
            return True
    return False


# --- The state ------------------------------------------------------------------------------------------------


BLOCK_BITS = 5
BLOCK = 1 << BLOCK_BITS
"""Stages in a block: a range of stages is shifted block by block, so that it costs little on large graphs too."""
PLAIN = 64 * BLOCK
"""Up to this many stages there are no blocks: to go through all stages of a range is quick enough."""


class State(NamedTuple):
    """A set of recomputations. Memory includes both ends of every retention interval."""

    stage: np.ndarray
    """The stage of each slot's recomputation; NONE if the slot is free."""
    head: np.ndarray
    """First slot of each stage, by node; NONE."""
    after: np.ndarray
    """Next slot in the same stage; NONE."""
    level: np.ndarray
    """The largest memory in each stage, but for the lift of its block."""
    lift: np.ndarray
    """For each block of stages: what all its levels lack to the memory; 0 on small graphs."""
    top: np.ndarray
    """The largest memory in each block; not kept on small graphs."""
    below: np.ndarray
    """How far the memory at the end of each stage is below its peak."""
    slot_below: np.ndarray
    """How far the memory at each recomputation is below the peak of its stage."""
    used: np.ndarray
    """Number of recomputations of each node."""
    chosen: np.ndarray
    """The slots in use, in any order: the first totals[COUNT] entries."""
    place: np.ndarray
    """Where each slot in use stands in `chosen`."""
    totals: np.ndarray
    """Extra duration; sum over stages of the peak over the budget, on large graphs with each stage's taken for that of
    its block; number of recomputations."""
    spared: np.ndarray
    """What the first computation of each node takes less, as it overwrites an input."""
    slot_spared: np.ndarray
    """The same of each recomputation."""

    @property
    def peak(self) -> np.ndarray:
        """The largest memory in each stage."""
        return self.level + np.repeat(self.lift, BLOCK)[: len(self.level)]


EXTRA, EXCESS, COUNT = 0, 1, 2


def problem_of(instance: Instance) -> ProblemArrays:
    """An instance for compiled code: a slot for each recomputation that C_v allows, and one at most in each stage."""
    return problem_with(instance, lambda most: np.minimum(most - 1, np.arange(len(most) - 1, -1, -1)), without=1)


def useful_edges(problem: ProblemArrays, instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Edges (u, x) such that u may be recomputed and some stage between the read before x and x is over the budget
    in the input order; or at that read, if that is to overwrite u."""
    memory = np.array(instance.baseline.memory, dtype=object)
    over = np.concatenate([[0], np.cumsum(memory > instance.budget)]).astype(np.int64)
    n = len(problem.duration)
    tail = np.repeat(np.arange(n, dtype=np.int64), np.diff(problem.succ_ptr))
    head = problem.succ.astype(np.int64)
    previous = np.concatenate([tail[:1], head[:-1]])
    first = np.concatenate([[True], tail[1:] != tail[:-1]])[: len(tail)]
    previous = np.where(first, tail, previous)
    recomputable = np.diff(problem.slot_ptr)[tail] > 0
    in_place = len(problem.over) > 0
    useful = recomputable & (over[head] > over[previous if in_place else previous + 1])
    if len(problem.output_of) > 0:
        useful &= problem.output_of[head] == NONE  # nothing is recomputed between outputs
    return tail[useful], head[useful]


def stages_of(instance: Instance, problem: ProblemArrays, sequence: Sequence[int]) -> np.ndarray:
    """The stage of each slot for a sequence in stages of the input order; see `stages_of_slots`."""
    return stages_of_slots(instance.order, problem.slot_ptr, sequence)[0]


def stages_of_slots(
    order: Sequence[int], slot_ptr: np.ndarray, sequence: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The stage of each slot, ascending for each node, and its place in the sequence; NONE for slots that are free.

    Recomputations without a slot (of outputs without memory, for example) and second ones in a stage are left out, as
    is what comes after the last stage.

    Raises:
        ValueError: the nodes are not all computed, or not in the input order for the first time.
    """
    number = {v: k for k, v in enumerate(order)}
    stage_of_slot, place = np.full((2, slot_ptr[-1]), NONE, np.int64)
    free, stage, n = slot_ptr[:-1].tolist(), 0, len(number)
    for t, v in enumerate(sequence):
        k = number[v]
        if stage == n or k > stage:
            break
        if k == stage:
            stage += 1
        elif free[k] < slot_ptr[k + 1] and (free[k] == slot_ptr[k] or stage_of_slot[free[k] - 1] != stage):
            stage_of_slot[free[k]], place[free[k]] = stage, t
            free[k] += 1
    if stage < n:
        raise ValueError(f"stage {stage} of the input order does not end with the first computation of its node")
    return stage_of_slot, place


def sequence_of(instance: Instance, problem: ProblemArrays, stage_of_slot: np.ndarray) -> tuple[int, ...]:
    """The sequence of computations, as positions in `graph.nodes`; inverse of `stages_of`."""
    n = len(instance.order)
    slots = np.flatnonzero(stage_of_slot != NONE)
    again = stage_of_slot[slots] * n + problem.slot_node[slots]
    events = np.sort(np.concatenate([np.arange(n, dtype=np.int64) * (n + 1), again]))
    return tuple(instance.order[k] for k in (events % n).tolist())


def empty_state(problem: ProblemArrays) -> State:
    """Every node computed once."""
    n, slots = len(problem.duration), len(problem.slot_node)
    state = State(
        stage=np.full(slots, NONE, np.int64),
        head=np.full(n, NONE, np.int64),
        after=np.full(slots, NONE, np.int64),
        level=np.zeros(n, np.int64),
        lift=np.zeros(-(-n // BLOCK), np.int64),
        top=np.zeros(-(-n // BLOCK), np.int64),
        below=np.zeros(n, np.int64),
        slot_below=np.zeros(slots, np.int64),
        used=np.zeros(n, np.int64),
        chosen=np.zeros(slots, np.int64),
        place=np.zeros(slots, np.int64),
        totals=np.zeros(3, np.int64),
        spared=np.zeros(n, np.int64),
        slot_spared=np.zeros(slots, np.int64),
    )
    _fill(problem, state, np.zeros(n + 1, np.int64))
    return state


@compiled
def _fill(problem, state, change):
    n = len(problem.duration)
    for v in range(n):
        last = v
        for at in range(problem.succ_ptr[v], problem.succ_ptr[v + 1]):
            last = max(last, problem.succ[at])
        change[v] += problem.size[v]
        change[last + 1] -= problem.size[v]
    level = np.int64(0)
    for k in range(n):
        level += change[k]
        state.level[k] = level + problem.workspace[k]
        if overwrites(problem, state, k, k * n + k):
            state.spared[k] = problem.size[k]
            state.level[k] -= problem.size[k]
        if n <= PLAIN:
            state.totals[EXCESS] += max(0, state.level[k] - problem.budget)
    if n > PLAIN:
        for block in range(len(state.top)):
            _find_top(problem, state, block)


@compiled
def _find_top(problem, state, block):
    """Make the top of a block what it is."""
    top = state.level[block << BLOCK_BITS]
    for level in state.level[block << BLOCK_BITS : (block + 1) << BLOCK_BITS]:
        top = max(top, level)
    top += state.lift[block]
    state.totals[EXCESS] += BLOCK * (max(0, top - problem.budget) - max(0, state.top[block] - problem.budget))
    state.top[block] = top


@compiled
def peak_of(state, k):
    """The largest memory in stage k."""
    return state.level[k] + state.lift[k >> BLOCK_BITS]


@compiled
def stage_over(problem, state, start):
    """The first stage over the budget from `start` on, and behind the last one from the first on; there must be one."""
    n, k = len(problem.duration), start
    while peak_of(state, k) <= problem.budget:
        k += 1
        if n > PLAIN and (k & (BLOCK - 1)) == 0:
            while k < n and state.top[k >> BLOCK_BITS] <= problem.budget:
                k += BLOCK
        k = k if k < n else 0
    return k


@compiled
def _shift_part(problem, state, k, begin, end, amount):
    """Add `amount` to the memory of the events of stage k strictly between two events."""
    n, old, block = len(problem.duration), peak_of(state, k), k >> BLOCK_BITS
    at_end = old - state.below[k] + (amount if begin < k * n + k < end else 0)
    new = at_end
    slot = state.head[k]
    while slot != NONE:
        inside = begin < k * n + problem.slot_node[slot] < end
        memory = old - state.slot_below[slot] + (amount if inside else 0)
        state.slot_below[slot] = -memory
        new = max(new, memory)
        slot = state.after[slot]
    slot = state.head[k]
    while slot != NONE:
        state.slot_below[slot] += new
        slot = state.after[slot]
    state.level[k], state.below[k] = new - state.lift[block], new - at_end
    if n > PLAIN:
        _find_top(problem, state, block)
    else:
        state.totals[EXCESS] += max(0, new - problem.budget) - max(0, old - problem.budget)


@compiled
def _shift_memory(problem, state, begin, end, amount):
    """Add `amount` to the memory of all events strictly between two events."""
    n = len(problem.duration)
    first, last = begin // n, end // n
    if begin != first * n + first:
        _shift_part(problem, state, first, begin, end, amount)
    if last > first and state.head[last] != NONE:
        _shift_part(problem, state, last, begin, end, amount)
    k, last = first + 1, max(last, first + 1)
    if n <= PLAIN:
        state.totals[EXCESS] += _lifted(state.level[k:last], amount, problem.budget)
        return
    block, beyond = (k + BLOCK - 1) >> BLOCK_BITS, last >> BLOCK_BITS
    _shift_stages(problem, state, k, min(last, block << BLOCK_BITS), amount)
    if block <= beyond:
        _shift_stages(problem, state, beyond << BLOCK_BITS, last, amount)
    if block < beyond:
        for at in range(block, beyond):
            state.lift[at] += amount
        state.totals[EXCESS] += BLOCK * _lifted(state.top[block:beyond], amount, problem.budget)


@compiled
def _lifted(levels, amount, budget):
    """Add `amount` to levels; by how much their sum over the budget grows."""
    excess = np.int64(0)
    for i in range(len(levels)):
        old = levels[i]
        new = old + amount
        levels[i] = new
        excess += max(0, new - budget) - max(0, old - budget)
    return excess


@compiled
def _shift_stages(problem, state, first, end, amount):
    """Add `amount` to the memory of the stages from `first` to before `end`, all of one block, if there are any."""
    for k in range(first, end):
        state.level[k] += amount
    if first < end:
        _find_top(problem, state, first >> BLOCK_BITS)


@compiled
def _settle(problem, state, event):
    """See whether what is computed at `event` overwrites an input, and count its memory accordingly."""
    n = len(problem.duration)
    k, x = event // n, event % n
    spared = problem.size[x] if overwrites(problem, state, x, event) else np.int64(0)
    if x == k:
        before = state.spared[k]
        state.spared[k] = spared
    else:
        slot = slot_at(problem, state.stage, x, k)
        before = state.slot_spared[slot]
        state.slot_spared[slot] = spared
    if before != spared:
        _shift_part(problem, state, k, event - 1, event + 1, before - spared)


@compiled
def _settle_around(problem, state, v, event):
    """The same for a node that reads v, or an input of v, last before a computation of v at `event` came or went."""
    start = latest_start(problem, state, v, event)
    last = last_read(problem, state, v, start, event)
    if last > start:
        _settle(problem, state, last)
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        start = latest_start(problem, state, problem.pred[at], event)
        last = last_read(problem, state, problem.pred[at], start, event)
        if last > start:
            _settle(problem, state, last)


@compiled
def add(problem, state, slot, k):
    """Recompute the node of a free slot in stage k, after its first computation and with no copy of it yet."""
    n, v = len(problem.duration), problem.slot_node[slot]
    event = k * n + v
    before, behind = NONE, state.head[k]
    while behind != NONE and problem.slot_node[behind] < v:
        before, behind = behind, state.after[behind]
    if behind == NONE:
        memory = peak_of(state, k) - state.below[k] - problem.size[k] - problem.workspace[k] + state.spared[k]
    else:
        x = problem.slot_node[behind]
        memory = peak_of(state, k) - state.slot_below[behind] - problem.size[x] - problem.workspace[x]
        memory += state.slot_spared[behind]
    memory += problem.workspace[v]

    start = latest_start(problem, state, v, event)
    last = last_read(problem, state, v, start, event)
    if last_read(problem, state, v, event, next_start(problem, state, v, event)) > event:
        _shift_memory(problem, state, last, event, -problem.size[v])
    else:
        memory += problem.size[v]
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        p = problem.pred[at]
        if last_read(problem, state, p, event, next_start(problem, state, p, event)) == event:
            last = last_read(problem, state, p, latest_start(problem, state, p, event), event)
            _shift_memory(problem, state, last, event, problem.size[p])
            memory += problem.size[p]

    state.stage[slot] = k
    state.after[slot] = behind
    if before == NONE:
        state.head[k] = slot
    else:
        state.after[before] = slot
    state.used[v] += 1
    count = state.totals[COUNT]
    state.chosen[count] = slot
    state.place[slot] = count
    state.totals[COUNT] += 1
    state.totals[EXTRA] += problem.duration[v]
    state.slot_below[slot] = peak_of(state, k) - memory
    if memory > peak_of(state, k):
        _shift_part(problem, state, k, NEVER, NEVER, 0)
    if len(problem.over) > 0:
        _settle(problem, state, event)
        _settle_around(problem, state, v, event)


@compiled
def remove(problem, state, slot):
    """Take a recomputation away; the opposite of `add`."""
    n = len(problem.duration)
    v, k = problem.slot_node[slot], state.stage[slot]
    event = k * n + v
    if state.head[k] == slot:
        state.head[k] = state.after[slot]
    else:
        before = state.head[k]
        while state.after[before] != slot:
            before = state.after[before]
        state.after[before] = state.after[slot]
    state.stage[slot] = NONE
    state.slot_spared[slot] = 0
    state.used[v] -= 1
    count = state.totals[COUNT] - 1
    moved = state.chosen[count]
    state.chosen[state.place[slot]] = moved
    state.place[moved] = state.place[slot]
    state.totals[COUNT] = count
    state.totals[EXTRA] -= problem.duration[v]
    _shift_part(problem, state, k, NEVER, NEVER, 0)

    start = latest_start(problem, state, v, event)
    last = last_read(problem, state, v, start, event)
    if last_read(problem, state, v, event, next_start(problem, state, v, event)) > event:
        _shift_memory(problem, state, last, event, problem.size[v])
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        p = problem.pred[at]
        if last_read(problem, state, p, event, next_start(problem, state, p, event)) == event:
            last = last_read(problem, state, p, latest_start(problem, state, p, event), event)
            _shift_memory(problem, state, last, event, -problem.size[p])
    if len(problem.over) > 0:
        _settle_around(problem, state, v, event)


def enter(problem: ProblemArrays, state: State, stage_of_slot: np.ndarray) -> None:
    """Make `state` the given set.

    Raises:
        ValueError: it is not a schedule: a node that is recomputed where that cannot be, or another number of slots.
    """
    used = np.flatnonzero(stage_of_slot != NONE)
    stage, node, n = stage_of_slot[used], problem.slot_node[used], len(problem.duration)
    if len(stage_of_slot) != len(problem.slot_node) or np.any(stage <= node) or np.any(stage >= n):
        raise ValueError("recomputations in stages that are none, or not after the first computation")
    if len(np.unique(stage * n + node)) < len(used):
        raise ValueError("a node is computed twice in a stage")
    load(problem, state, stage_of_slot)


@compiled
def load(problem, state, stage_of_slot):
    while state.totals[COUNT] > 0:
        remove(problem, state, state.chosen[state.totals[COUNT] - 1])
    for slot in range(len(stage_of_slot)):
        if stage_of_slot[slot] != NONE:
            add(problem, state, slot, stage_of_slot[slot])
    if len(problem.output_of) > 0:
        _drop_apart(problem, state)


@compiled
def _drop_apart(problem, state):
    """Leave out recomputations of further outputs whose first one is not recomputed there, and any between outputs."""
    for slot in range(len(state.stage)):
        v, k = problem.slot_node[slot], state.stage[slot]
        if k == NONE:
            continue
        first = problem.output_of[v]
        if problem.output_of[k] != NONE or (first != NONE and slot_at(problem, state.stage, first, k) == NONE):
            remove(problem, state, slot)
