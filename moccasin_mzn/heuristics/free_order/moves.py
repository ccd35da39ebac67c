"""Random changes of a sequence, with a trail to undo them: what is recomputed, and when everything is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import below, compiled, slot_at, unit
from moccasin_mzn.heuristics.free_order.state import (
    DURATION,
    EXCESS,
    LENGTH,
    NONE,
    add,
    first_read_of_any,
    last_read,
    last_read_of_any,
    latest_start,
    longest_retained,
    maker,
    next_start,
    remove,
)


class SequenceMix(NamedTuple):
    """Which moves are made how often: cumulative chances, in this order; what is left is for moves by a few
    positions."""

    swap: float = 0.12
    """Take a recomputation away and add one."""
    add: float = 0.3
    remove: float = 0.45
    late: float = 0.65
    """Put a computation just before its first reader, and its inputs with it where that costs nothing."""
    early: float = 0.8
    """Put a computation just after the read before it of one of its inputs."""
    block: float = 0.88
    """Put a few computations in a row elsewhere."""
    anywhere: float = 0.2
    """Chance that a recomputation is put anywhere between the reads before and after it."""
    chain: float = 0.3
    """Chance that an added recomputation considers to recompute its inputs as well."""
    depth: int = 3
    """How far: inputs of inputs of ..."""
    trials: int = 12
    """How many inputs it considers at most."""
    tries: int = 16
    """Reads looked at until one lies across a position over the budget."""
    alongside: float = 0.03
    """Chance that a recomputation is added, or taken away, and the same is done with parts alongside it."""


BLOCK = 6
"""Computations that are moved together at most."""
RETAINED = 2
"""Positions for which a part is retained between two reads at least, if it is to be recomputed with others."""


@compiled
def put(problem, state, slot, t, trail, length):
    """Move a slot to position t (NONE: free it) of the sequence without it, and note where it was."""
    trail[length, 0] = slot
    trail[length, 1] = state.pos[slot]
    if state.pos[slot] != NONE:
        remove(problem, state, slot)
    if t != NONE:
        add(problem, state, slot, t)
    return length + 1


@compiled
def undo_to(problem, state, trail, length, before):
    for at in range(length - 1, before - 1, -1):
        put(problem, state, trail[at, 0], trail[at, 1], trail, at)


@compiled
def first_start(problem, state, v, but):
    """Position of the first copy of v, that of slot `but` aside; the number of positions if there is none."""
    best, v = state.totals[LENGTH], maker(problem, v)
    for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
        if slot != but and 0 <= state.pos[slot] < best:
            best = state.pos[slot]
    return best


@compiled
def lowest(problem, state, slot):
    """The first position to which a computation can be moved: after the first copies of its inputs."""
    v, low = problem.slot_node[slot], np.int64(0)
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        low = max(low, first_start(problem, state, problem.pred[at], NONE) + 1)
    return low


@compiled
def highest(problem, state, slot):
    """The last one, in the sequence without it: a node is computed before it is read."""
    v = problem.slot_node[slot]
    read = first_read_of_any(problem, state, v, NONE)
    if first_start(problem, state, v, slot) < read:
        return state.totals[LENGTH] - 1
    return read - 1


@compiled
def refused(state, duration, excess, penalty, temperature, generator):
    """Is a step from there to here refused? Less is always welcome, more with a chance that falls with it."""
    delta = state.totals[DURATION] - duration + penalty * (state.totals[EXCESS] - excess)
    return delta > 0 and unit(generator) >= np.exp(-delta / temperature)


@compiled
def _pick_read(problem, state, generator, tries):
    """Input, position of its copy and position of a read of it, at random; while memory is over the budget, rather one
    across such a position, which comes fourth."""
    length, over = state.totals[LENGTH], np.int64(NONE)
    if state.totals[EXCESS] > 0:
        for _ in range(16):
            t = below(generator, length)
            if state.memory[t] > problem.budget:
                over = t
                break
    for _ in range(tries):
        read = over + 1 + below(generator, length - over - 1) if over < length - 1 else length - 1
        x = problem.slot_node[state.seq[read]]
        inputs = problem.pred_ptr[x + 1] - problem.pred_ptr[x]
        if inputs == 0:
            continue
        u = problem.pred[problem.pred_ptr[x] + below(generator, inputs)]
        start = latest_start(problem, state, u, read)
        if over == NONE or start < over:
            return u, start, read, over
    return np.int64(NONE), np.int64(NONE), np.int64(NONE), over


@compiled
def _add_chain(problem, state, slot, t, mix, penalty, temperature, generator, trail, length, stack):
    """Compute at t once more, and before it each input that is not retained there, and theirs, wherever that is cheaper
    than to hold it. (With a stack, since compiled recursion cannot be kept.)

    Args:
        stack: a row is a slot, its next input, and duration, excess and length before it was added.
    """
    depth = mix.depth if unit(generator) < mix.chain else 0
    trials = mix.trials
    length = put(problem, state, slot, t, trail, length)
    stack[0, 0], stack[0, 1] = slot, problem.pred_ptr[problem.slot_node[slot]]
    top = 0
    while top >= 0:
        s, i = stack[top, 0], stack[top, 1]
        v = problem.slot_node[s]
        if top == depth or trials == 0 or i == problem.pred_ptr[v + 1]:
            if top > 0 and refused(state, stack[top, 2], stack[top, 3], penalty, temperature, generator):
                undo_to(problem, state, trail, length, stack[top, 4])
                length = stack[top, 4]
            top -= 1
            continue
        stack[top, 1] += 1
        p, at = problem.pred[i], state.pos[s]
        start = latest_start(problem, state, p, at)
        retained = last_read(problem, state, p, at, next_start(problem, state, p, at)) > at
        if retained or length >= len(trail) // 2 or last_read(problem, state, p, start, at) >= at - 2:
            continue
        p = maker(problem, p)
        free = slot_at(problem, state.pos, p, NONE)
        if free != NONE:
            trials -= 1
            top += 1
            stack[top, 0], stack[top, 1] = free, problem.pred_ptr[p]
            stack[top, 2], stack[top, 3], stack[top, 4] = state.totals[DURATION], state.totals[EXCESS], length
            length = put(problem, state, free, at, trail, length)
    return length


@compiled
def _add(problem, state, mix, penalty, temperature, generator, trail, length, stack):
    u, start, read, over = _pick_read(problem, state, generator, mix.tries)
    u = maker(problem, u) if u != NONE else u
    if u == NONE or start == read - 1 or problem.slot_ptr[u + 1] - problem.slot_ptr[u] == 1:
        return length
    slot = slot_at(problem, state.pos, u, NONE)
    if slot == NONE:  # move one from behind the read, which leaves the copies before it
        slot = problem.slot_ptr[u] + below(generator, problem.slot_ptr[u + 1] - problem.slot_ptr[u])
        if state.pos[slot] <= start:
            return length
    if unit(generator) < mix.anywhere:
        low = max(start, over) + 1
        if low < read:
            read = low + below(generator, read - low + 1)
    return _add_chain(problem, state, slot, read, mix, penalty, temperature, generator, trail, length, stack)


@compiled
def _may_go(problem, state, slot):
    """Is there another computation of the node for each of its reads?"""
    v, t = problem.slot_node[slot], state.pos[slot]
    if state.used[v] == 1:
        return False
    if latest_start(problem, state, v, t) != NONE:
        return True
    return last_read_of_any(problem, state, v, t, next_start(problem, state, v, t)) == t


@compiled
def _remove(problem, state, slot, trail, length):
    """Free a slot, and those of its inputs, and theirs, that nothing reads any more."""
    at = length
    length = put(problem, state, slot, NONE, trail, length)
    while at < length:
        v, t = problem.slot_node[trail[at, 0]], trail[at, 1]
        at += 1
        for i in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
            p = maker(problem, problem.pred[i])
            start = latest_start(problem, state, p, t)
            if state.used[p] == 1 or start == NONE or length >= len(trail) // 2:
                continue
            if last_read_of_any(problem, state, p, start, next_start(problem, state, p, start)) == start:
                length = put(problem, state, slot_at(problem, state.pos, p, start), NONE, trail, length)
                t -= start < t
    return length


@compiled
def _random_repeat(problem, state, generator):
    """The slot of a computation that is not the only one of its node; NONE if none was found."""
    for _ in range(64):
        slot = state.seq[below(generator, state.totals[LENGTH])]
        if state.used[problem.slot_node[slot]] > 1:
            return slot
    return np.int64(NONE)


@compiled
def _add_alongside(problem, state, mix, penalty, temperature, generator, trail, length, stack):
    """Compute a part once more before a read, and parts alongside it, one after the other, each before the read for
    which it is retained longest: what overlaps is recomputed along a layer, and no longer kept."""
    u, start, read, _ = _pick_read(problem, state, generator, mix.tries)
    row, count = below(generator, np.int64(2)), np.int64(1) << below(generator, np.int64(7))
    while count > 0 and u != NONE and read != NONE and 4 * length < len(trail):
        slot = slot_at(problem, state.pos, u, NONE) if maker(problem, u) == u else NONE
        if slot != NONE and read - last_read(problem, state, u, start, read) > RETAINED:
            length = _add_chain(problem, state, slot, read, mix, penalty, temperature, generator, trail, length, stack)
        u, count = state.alongside[row, u], count - 1
        if u != NONE:
            read = longest_retained(problem, state, u)
            start = latest_start(problem, state, u, read) if read != NONE else np.int64(NONE)
    return length


@compiled
def _remove_alongside(problem, state, generator, trail, length):
    """Take a recomputation away, and one of each of the parts alongside it: what overlaps is kept along a layer."""
    slot = _random_repeat(problem, state, generator)
    row, count = below(generator, np.int64(2)), np.int64(1) << below(generator, np.int64(7))
    v = problem.slot_node[slot] if slot != NONE else np.int64(NONE)
    while count > 0 and v != NONE and 4 * length < len(trail):
        if slot != NONE and _may_go(problem, state, slot):
            length = _remove(problem, state, slot, trail, length)
        v, count, slot = state.alongside[row, v], count - 1, np.int64(NONE)
        if v != NONE and state.used[v] > 1:
            for other in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
                if state.pos[other] != NONE and (slot == NONE or state.pos[other] > state.pos[slot]):
                    slot = other
    return length


@compiled
def _late(problem, state, slot, trail, length):
    """Put a computation just before its first reader; then its inputs before it, where that is no worse."""
    read = first_read_of_any(problem, state, problem.slot_node[slot], state.pos[slot])
    if read == state.totals[LENGTH] or read - 1 > highest(problem, state, slot):
        return length
    at = length
    length = put(problem, state, slot, read - 1, trail, length)
    while at < length and 2 * length < len(trail):
        moved = trail[at, 0]
        v = problem.slot_node[moved]
        at += 1
        for i in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
            p, t = maker(problem, problem.pred[i]), state.pos[moved]
            start = latest_start(problem, state, p, t)
            if start >= t - 2 or first_read_of_any(problem, state, p, start) != t or 2 * length >= len(trail):
                continue
            excess = state.totals[EXCESS]
            put(problem, state, slot_at(problem, state.pos, p, start), t - 1, trail, length)
            if state.totals[EXCESS] > excess:
                undo_to(problem, state, trail, length + 1, length)
            else:
                length += 1
    return length


@compiled
def _early(problem, state, slot, generator, trail, length):
    """Put a computation just after the read of one of its inputs before it, or as near to that as can be."""
    v, t = problem.slot_node[slot], state.pos[slot]
    inputs = problem.pred_ptr[v + 1] - problem.pred_ptr[v]
    if inputs == 0:
        return length
    low = np.int64(0)
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        low = max(low, latest_start(problem, state, problem.pred[at], t) + 1)
    q = problem.pred[problem.pred_ptr[v] + below(generator, inputs)]
    low = max(low, last_read(problem, state, q, latest_start(problem, state, q, t), t) + 1)
    return put(problem, state, slot, low, trail, length) if low < t else length


@compiled
def _jump(problem, state, slot, generator, trail, length):
    """Put a computation a random number of positions away, rather few than many."""
    step = np.int64(1) << below(generator, 9)
    t = state.pos[slot] + below(generator, 2 * step + 1) - step
    t = max(t, lowest(problem, state, slot))
    t = min(t, highest(problem, state, slot))
    return put(problem, state, slot, t, trail, length) if t != state.pos[slot] else length


@compiled
def _jump_together(problem, state, t, generator, trail, length):
    """Put the computations at t and just after it elsewhere, their order kept; nothing if one of them cannot go."""
    before = length
    count = min(2 + below(generator, BLOCK - 1), state.totals[LENGTH] - t)
    step = 1 + below(generator, np.int64(1) << below(generator, 8))
    up = unit(generator) < 0.5
    for i in range(count):
        slot = state.seq[t + count - 1 - i] if up else state.seq[t + i]
        to = state.pos[slot] + (step if up else -step)
        if not lowest(problem, state, slot) <= to <= highest(problem, state, slot):
            undo_to(problem, state, trail, length, before)
            return before
        length = put(problem, state, slot, to, trail, length)
    return length


@compiled
def _move_order(problem, state, kind, mix, generator, trail, length):
    """Put a computation elsewhere; while memory is over the budget, rather one whose copy is retained there."""
    slot = state.seq[below(generator, state.totals[LENGTH])]
    u, start, read, _ = _pick_read(problem, state, generator, mix.tries)
    if kind < mix.late:
        if u != NONE:
            slot = state.seq[start]
        return _late(problem, state, slot, trail, length)
    if kind < mix.early:
        if u != NONE:
            slot = state.seq[read]
        return _early(problem, state, slot, generator, trail, length)
    if u != NONE:
        slot = state.seq[start if unit(generator) < 0.5 else read]
    if kind < mix.block:
        return _jump_together(problem, state, state.pos[slot], generator, trail, length)
    return _jump(problem, state, slot, generator, trail, length)


@compiled
def move(problem, state, generator, mix, penalty, temperature, trail, stack):
    """Change the sequence at random, and note how in the trail; the number of changes.

    Args:
        penalty, temperature: for decisions within the move; see `anneal`.
        trail: for (slot, position before) pairs.
        stack: see `_add_chain`.
    """
    kind, length = unit(generator), 0
    if state.alongside.shape[1] > 0 and unit(generator) < mix.alongside:
        if kind < 0.5:
            return _add_alongside(problem, state, mix, penalty, temperature, generator, trail, length, stack)
        return _remove_alongside(problem, state, generator, trail, length)
    if kind >= mix.remove:
        return _move_order(problem, state, kind, mix, generator, trail, length)
    if kind < mix.swap or kind >= mix.add:
        slot = _random_repeat(problem, state, generator)
        if slot != NONE and _may_go(problem, state, slot):
            length = _remove(problem, state, slot, trail, length)
    if kind < mix.add:
        length = _add(problem, state, mix, penalty, temperature, generator, trail, length, stack)
    return length
