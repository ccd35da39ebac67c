"""Random changes of a set of recomputations, with a trail to undo them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import below, compiled, slot_at, unit
from moccasin_mzn.heuristics.staged.state import (
    COUNT,
    EXCESS,
    EXTRA,
    NONE,
    add,
    last_read,
    latest_start,
    next_start,
    peak_of,
    remove,
    stage_over,
)

USUAL = 500
"""On graphs of more nodes, stages over the budget are looked for."""
STEP = 20
"""How many stages a recomputation is moved at most, but for moves to another read."""


class Mix(NamedTuple):
    """Which moves are made how often. The first five are cumulative chances, in this order."""

    swap_two: float = 0.05
    """Take two recomputations away and add one."""
    swap: float = 0.2
    """Take one away and add one."""
    add: float = 0.5
    add_within: float = 0.475
    """Below that on graphs of more than `USUAL` nodes, within the budget: a swap instead, as there is nothing
    that an addition alone could be of use for."""
    remove: float = 0.7
    to_read: float = 0.85
    """Move one to the stage of another read; the rest of the chance: by up to `STEP` stages."""
    anywhere: float = 0.05
    """Chance that an addition is of any node before any of its reads, obviously useful or not."""
    chain: float = 0.3
    """Chance that an added recomputation considers to recompute its inputs as well."""
    depth: int = 3
    """How far at most: inputs of inputs of ..."""
    nearest: int = 1
    """How far at least: any depth from here on is as likely, as few trials see either all inputs or far ones."""
    trials: int = 12
    """How many inputs it considers at most."""
    most: int = 2**30
    """How often a node is recomputed at most, within C_v."""
    tries: int = 10
    """Edges tried until one lies across a stage over the budget."""
    first: int = 0
    """Recomputations before this stage stay as they are,"""
    last: int = 2**30
    """and those after this one."""


@compiled
def _random_slot(problem, v, generator):
    return problem.slot_ptr[v] + below(generator, problem.slot_ptr[v + 1] - problem.slot_ptr[v])


@compiled
def _free_slot(problem, state, v, most):
    """A slot of v that is free; NONE if there is none, or if v is recomputed `most` times already."""
    if state.used[v] >= most:
        return np.int64(NONE)
    return slot_at(problem, state.stage, v, NONE)


@compiled
def _set(problem, state, slot, k, trail, length):
    """Move a slot to stage k (NONE: free it) and note where it was."""
    trail[length, 0] = slot
    trail[length, 1] = state.stage[slot]
    if state.stage[slot] != NONE:
        remove(problem, state, slot)
    if k != NONE:
        add(problem, state, slot, k)
    return length + 1


@compiled
def undo_to(problem, state, trail, length, before):
    """Undo the changes noted last, down to `before` of them."""
    for at in range(length - 1, before - 1, -1):
        _set(problem, state, trail[at, 0], trail[at, 1], trail, at)


@compiled
def _must_extend(problem, state, p, event):
    """Would a read of p at `event` hold its copy for longer than its other reads do?"""
    n = len(problem.duration)
    start = latest_start(problem, state, p, event)
    if start // n == event // n:
        return False
    return last_read(problem, state, p, start, event) // n < event // n


@compiled
def _add_chain(problem, state, slot, k, mix, penalty, temperature, generator, trail, length, stack):
    """Recompute in stage k, and so each input that is not retained there, and theirs, wherever that is cheaper than to
    hold it. (With a stack, since compiled recursion cannot be cached.)

    Args:
        stack: a row is a node, its next input, and extra, excess and length before it was added.
    """
    depth = mix.nearest + below(generator, mix.depth - mix.nearest + 1) if unit(generator) < mix.chain else 0
    trials = mix.trials
    length = _set(problem, state, slot, k, trail, length)
    stack[0, 0], stack[0, 1] = problem.slot_node[slot], problem.pred_ptr[problem.slot_node[slot]]
    top = 0
    while top >= 0:
        v, i = stack[top, 0], stack[top, 1]
        if top == depth or trials == 0 or i == problem.pred_ptr[v + 1]:
            if top > 0:
                delta = state.totals[EXTRA] - stack[top, 2] + penalty * (state.totals[EXCESS] - stack[top, 3])
                if delta > 0 and unit(generator) >= np.exp(-delta / temperature):
                    undo_to(problem, state, trail, length, stack[top, 4])
                    length = stack[top, 4]
            top -= 1
            continue
        stack[top, 1] += 1
        p = problem.pred[i]
        if p >= k or length >= len(trail) or not _must_extend(problem, state, p, k * len(problem.duration) + v):
            continue
        free = _free_slot(problem, state, p, mix.most)
        if free != NONE:
            trials -= 1
            top += 1
            stack[top, 0], stack[top, 1] = p, problem.pred_ptr[p]
            stack[top, 2], stack[top, 3], stack[top, 4] = state.totals[EXTRA], state.totals[EXCESS], length
            length = _set(problem, state, free, k, trail, length)
    return length


@compiled
def _remove(problem, state, slot, trail, length):
    """Free a slot, and those of inputs recomputed in the same stage, and theirs, that nothing reads any more."""
    n = len(problem.duration)
    at = length
    length = _set(problem, state, slot, NONE, trail, length)
    while at < length:
        v, k = problem.slot_node[trail[at, 0]], trail[at, 1]
        at += 1
        for i in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
            p = problem.pred[i]
            if state.used[p] == 0 or 2 * length >= len(trail):  # half is left to what follows in the same move
                continue
            unread = slot_at(problem, state.stage, p, k)
            event = k * n + p
            if unread != NONE and last_read(problem, state, p, event, next_start(problem, state, p, event)) == event:
                length = _set(problem, state, unread, NONE, trail, length)
    return length


@compiled
def _stage_of_read(problem, state, x, generator):
    """The stage of the first computation of x, or of one of its recomputations."""
    if state.used[x] and unit(generator) < 0.5:
        slot = _random_slot(problem, x, generator)
        if state.stage[slot] != NONE:
            return state.stage[slot]
    return x


@compiled
def _pick_edge(problem, state, tail, head, generator, tries):
    """An edge at random; while memory is over the budget, rather one whose output could be absent where it is."""
    e = below(generator, len(tail))
    if state.totals[EXCESS] == 0:
        return e
    n = len(problem.duration)
    over = NONE
    for _ in range(16):
        k = below(generator, n)
        if peak_of(state, k) > problem.budget:
            over = k
            break
    if over == NONE and n > USUAL:
        over = stage_over(problem, state, below(generator, n))
    if over == NONE:
        return e
    for _ in range(tries):
        if tail[e] < over < head[e]:
            return e
        e = below(generator, len(tail))
    return e


@compiled
def _pick_read(problem, state, tail, head, generator, mix):
    """A node u and a reader x before which it may be recomputed, or NONE: mostly a useful edge."""
    if unit(generator) < mix.anywhere:
        u = below(generator, len(problem.duration))
        readers = problem.succ_ptr[u + 1] - problem.succ_ptr[u]
        if readers == 0 or problem.slot_ptr[u] == problem.slot_ptr[u + 1]:
            return np.int64(NONE), np.int64(NONE)
        return u, np.int64(problem.succ[problem.succ_ptr[u] + below(generator, readers)])
    e = _pick_edge(problem, state, tail, head, generator, mix.tries)
    return tail[e], head[e]


@compiled
def _other_stage(problem, state, slot, to_read, generator):
    """Another stage for a recomputation: that of another read, or one nearby between the reads before and after it."""
    n, v = len(problem.duration), problem.slot_node[slot]
    k = state.stage[slot]
    if to_read:
        i = problem.succ_ptr[v] + below(generator, problem.succ_ptr[v + 1] - problem.succ_ptr[v])
        return _stage_of_read(problem, state, problem.succ[i], generator)
    event = k * n + v
    low = last_read(problem, state, v, latest_start(problem, state, v, event), event) // n + 1
    low = max(low, k - STEP, v + 1)
    high = min(k + STEP, np.int64(problem.succ[problem.succ_ptr[v + 1] - 1]))
    return low + below(generator, high - low + 1) if low <= high else np.int64(NONE)


@compiled
def _fixed(mix, k):
    """Do recomputations in a stage stay as they are?"""
    return k != NONE and (k < mix.first or k > mix.last)


@compiled
def _change(problem, state, tail, head, generator, mix, penalty, temperature, trail, stack):
    """Change the state at random, and note how in the trail; the number of changes. See `move`."""
    kind, count, length = unit(generator), state.totals[COUNT], 0
    if kind >= mix.add and count > 0:
        slot = state.chosen[below(generator, count)]
        if _fixed(mix, state.stage[slot]):
            return 0
        if kind < mix.remove:
            return _remove(problem, state, slot, trail, length)
        k = _other_stage(problem, state, slot, kind < mix.to_read, generator)
        if k == NONE or slot_at(problem, state.stage, problem.slot_node[slot], k) != NONE:
            return 0
        return _set(problem, state, slot, k, trail, length)
    if len(problem.duration) > USUAL and state.totals[EXCESS] == 0 and mix.swap <= kind < mix.add_within:
        kind = mix.swap * unit(generator)
    if kind < mix.swap and count > 0:
        length = _remove(problem, state, state.chosen[below(generator, count)], trail, length)
    if kind < mix.swap_two and state.totals[COUNT] > 0:
        length = _remove(problem, state, state.chosen[below(generator, state.totals[COUNT])], trail, length)
    u, x = _pick_read(problem, state, tail, head, generator, mix)
    if u == NONE:
        return length
    k = _stage_of_read(problem, state, x, generator)
    there = slot_at(problem, state.stage, u, k)
    if there != NONE:
        return _remove(problem, state, there, trail, length)
    slot = _free_slot(problem, state, u, mix.most)
    if slot == NONE:
        slot = _random_slot(problem, u, generator)
        if state.stage[slot] == NONE:  # of the few in use, the first
            slot = problem.slot_ptr[u]
            while state.stage[slot] == NONE:
                slot += 1
    return _add_chain(problem, state, slot, k, mix, penalty, temperature, generator, trail, length, stack)


@compiled
def _with_outputs(problem, state, trail, length):
    """Have every further output that is recomputed follow its first one: compute that too, or leave them both away.

    Returns:
        The number of changes; 0, all of them undone, if that cannot be, or something is recomputed between outputs.
    """
    at = 0
    while at < length:
        slot, before = trail[at, 0], trail[at, 1]
        v, k, at = problem.slot_node[slot], state.stage[slot], at + 1
        first = problem.output_of[v]
        needed = np.int64(NONE)
        if k != NONE and problem.output_of[k] != NONE:
            undo_to(problem, state, trail, length, 0)
            return 0
        if k != NONE and first != NONE and slot_at(problem, state.stage, first, k) == NONE:
            needed = _free_slot(problem, state, first, 2**30)
            if needed == NONE or length == len(trail):
                undo_to(problem, state, trail, length, 0)
                return 0
            length = _set(problem, state, needed, k, trail, length)
        if first == NONE and before != NONE and slot_at(problem, state.stage, v, before) == NONE:
            x = v + 1
            while x < len(problem.output_of) and problem.output_of[x] == v:
                left = slot_at(problem, state.stage, x, before)
                if left != NONE:
                    if length == len(trail):
                        undo_to(problem, state, trail, length, 0)
                        return 0
                    length = _set(problem, state, left, NONE, trail, length)
                x += 1
    return length


@compiled
def move(problem, state, tail, head, generator, mix, penalty, temperature, trail, stack):
    """Change the state at random, and note how in the trail; the number of changes.

    Args:
        tail, head: edges (u, x) such that recomputing u before x can be of use.
        penalty, temperature: for decisions within the move; see `anneal`.
        trail: for (slot, stage before) pairs.
        stack: see `_add_chain`.
    """
    length = _change(problem, state, tail, head, generator, mix, penalty, temperature, trail, stack)
    if len(problem.output_of) > 0:
        length = _with_outputs(problem, state, trail, length)
    for at in range(length):
        if _fixed(mix, trail[at, 1]) or _fixed(mix, state.stage[trail[at, 0]]):
            undo_to(problem, state, trail, length, 0)
            return 0
    return length
