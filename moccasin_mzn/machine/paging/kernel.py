"""Compiled: annealing over sets of second intervals, each recomputed or read back from slow memory.

Nodes are numbered 0..n-1 along the input order. A set gives each slot (one for every interval that C_v allows beyond
the first) a stage, or NONE, and whether it is read back. It stands for the plan in stages of the input order whose
local intervals end at their last reads and whose writes follow them at once. Every such set respects precedence, since
first computations come before all reads; only budgets and limits may be exceeded, for a penalty. A set is judged by
running it from the first event to the last, which takes some microseconds for hundreds of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.annealing import PENALTY, TEMPERATURE
from moccasin_mzn.heuristics.compiling import NONE, below, compiled, unit

TOTALS = 3
VALUE, LOCAL_EXCESS, SLOW_EXCESS, LIMIT_EXCESS = 0, 1, 2, 3
LOCAL_PENALTY, SLOW_PENALTY, LIMIT_PENALTY, BEST = range(PENALTY, PENALTY + 4)
ADAPTION = 1e-3
"""Relative change of a penalty per step: up while the set is over what it is for, down while it is not."""
CHANGES = 8
"""Slots that one move may change."""


class Problem(NamedTuple):
    """What does not change. Arrays along the input order."""

    size: np.ndarray
    workspace: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    over: np.ndarray
    """bool: may the node overwrite the input `pred` has at this place?"""
    slot_ptr: np.ndarray
    """Slots of node v are slot_ptr[v]..slot_ptr[v + 1] - 1."""
    slot_node: np.ndarray
    compute: np.ndarray
    """int64[TOTALS, n]: costs; the objective first, as in `write` and `read`."""
    write: np.ndarray
    read: np.ndarray
    limit: np.ndarray
    """int64[TOTALS]: the most of each total, the objective's own included."""
    budget: int
    slow_capacity: int
    paging: bool
    """May outputs be written and read back?"""


class Workspace(NamedTuple):
    """Scratch of `run`, for at most `events` events."""

    start: np.ndarray
    end: np.ndarray
    node: np.ndarray
    own: np.ndarray
    """By event: what a computation takes for itself while it goes on."""
    over_event: np.ndarray
    """Computations that may overwrite an input, one entry for each such input, by event."""
    over_copy: np.ndarray
    """The interval that each of them reads of that input."""
    overs: np.ndarray
    """int64[1]: the number of these entries."""
    early: np.ndarray
    """By event: 1 if its interval is written over at its end, and so written out before that, else 0."""
    latest: np.ndarray
    """By node: its latest interval."""
    before_back: np.ndarray
    """By node: the interval before the first one read back, or NONE."""
    last_back: np.ndarray
    change: np.ndarray
    slow_change: np.ndarray
    totals: np.ndarray
    head: np.ndarray
    """By stage: its first slot, or NONE."""
    after: np.ndarray
    """By slot: the next one in the same stage, of a node at or after its own."""


@compiled
def run(problem, stage, back, workspace, figures):
    """What a set costs and exceeds, into `figures`; False if it has two intervals of a node in a stage."""
    n = len(problem.size)
    workspace.head[:] = NONE
    workspace.latest[:] = NONE
    workspace.before_back[:] = NONE
    workspace.totals[:] = 0
    workspace.overs[0] = 0
    for slot in range(len(stage) - 1, -1, -1):  # so that each stage has its slots in ascending order
        if stage[slot] != NONE:
            workspace.after[slot] = workspace.head[stage[slot]]
            workspace.head[stage[slot]] = slot
    count = 0
    for k in range(n):
        slot = workspace.head[k]
        while slot != NONE:
            v, following = problem.slot_node[slot], workspace.after[slot]
            if following != NONE and problem.slot_node[following] == v:
                return False
            if back[slot]:
                _read_back(problem, workspace, v, count)
            else:
                _compute(problem, workspace, v, count)
            count += 1
            slot = following
        _compute(problem, workspace, k, count)
        count += 1
    _sum_up(problem, workspace, count, figures)
    return True


@compiled
def _open(workspace, v, event):
    workspace.node[event], workspace.start[event], workspace.end[event] = v, event, event
    workspace.early[event] = 0
    workspace.latest[v] = event


@compiled
def _read_back(problem, workspace, v, event):
    if workspace.before_back[v] == NONE:
        workspace.before_back[v] = workspace.latest[v]
        for i in range(TOTALS):
            workspace.totals[i] += problem.write[i, v]
    workspace.last_back[v] = event
    for i in range(TOTALS):
        workspace.totals[i] += problem.read[i, v]
    workspace.own[event] = 0
    _open(workspace, v, event)


@compiled
def _compute(problem, workspace, v, event):
    for at in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
        copy = workspace.latest[problem.pred[at]]
        workspace.end[copy] = event
        if problem.over[at]:
            workspace.over_event[workspace.overs[0]], workspace.over_copy[workspace.overs[0]] = event, copy
            workspace.overs[0] += 1
    for i in range(TOTALS):
        workspace.totals[i] += problem.compute[i, v]
    workspace.own[event] = problem.workspace[v]
    _open(workspace, v, event)


@compiled
def _sum_up(problem, workspace, count, figures):
    workspace.change[: count + 1] = 0
    workspace.slow_change[: count + 1] = 0
    spared = NONE
    for i in range(workspace.overs[0]):  # by event
        event, copy = workspace.over_event[i], workspace.over_copy[i]
        if workspace.end[copy] == event:
            workspace.early[copy] = 1
            if spared != event:
                workspace.own[event] -= problem.size[workspace.node[event]]
                spared = event
    for t in range(count):
        workspace.change[t] += problem.size[workspace.node[t]]
        workspace.change[workspace.end[t] + 1] -= problem.size[workspace.node[t]]
    for v in range(len(problem.size)):
        if workspace.before_back[v] != NONE:
            source = workspace.before_back[v]
            workspace.slow_change[workspace.end[source] + 1 - workspace.early[source]] += problem.size[v]
            workspace.slow_change[workspace.last_back[v] + 1] -= problem.size[v]
    level, slow, over, slow_over = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for t in range(count):
        level += workspace.change[t]
        slow += workspace.slow_change[t]
        over += max(0, level + workspace.own[t] - problem.budget)
        slow_over += max(0, slow - problem.slow_capacity)
    figures[VALUE], figures[LOCAL_EXCESS], figures[SLOW_EXCESS] = workspace.totals[0], over, slow_over
    figures[LIMIT_EXCESS] = 0
    for i in range(TOTALS):
        figures[LIMIT_EXCESS] += max(0, workspace.totals[i] - problem.limit[i])


@compiled
def _note(stage, back, slot, trail, length):
    trail[length, 0], trail[length, 1], trail[length, 2] = slot, stage[slot], back[slot]
    return length + 1


@compiled
def _pick_used(stage, generator):
    """A slot in use, or NONE if that is rare."""
    for _ in range(64):
        slot = below(generator, len(stage))
        if stage[slot] != NONE:
            return slot
    return NONE


@compiled
def _way(problem, generator):
    """Recomputed (0) or read back (1)?"""
    if not problem.paging:
        return 0
    return np.int64(unit(generator) < 0.5)


@compiled
def _add(problem, stage, back, tail, head, generator, trail, length):
    """Let an output come again in the stage of one of its readers, in any slot of its own."""
    e = below(generator, len(tail))
    u, k = tail[e], head[e]
    readers_slots = problem.slot_ptr[k + 1] - problem.slot_ptr[k]
    if readers_slots > 0 and unit(generator) < 0.3:
        again = problem.slot_ptr[k] + below(generator, readers_slots)
        if stage[again] != NONE and back[again] == 0:
            k = stage[again]
    slot = problem.slot_ptr[u] + below(generator, problem.slot_ptr[u + 1] - problem.slot_ptr[u])
    length = _note(stage, back, slot, trail, length)
    stage[slot], back[slot] = k, _way(problem, generator)
    # what its computation needs may come again as well
    at = problem.pred_ptr[u]
    while back[slot] == 0 and at < problem.pred_ptr[u + 1] and length < CHANGES and unit(generator) < 0.3:
        p = problem.pred[at]
        at += 1
        if problem.slot_ptr[p] < problem.slot_ptr[p + 1] and stage[problem.slot_ptr[p]] == NONE:
            length = _note(stage, back, problem.slot_ptr[p], trail, length)
            stage[problem.slot_ptr[p]], back[problem.slot_ptr[p]] = k, _way(problem, generator)
    return length


@compiled
def _move(problem, stage, back, tail, head, generator, trail):
    """Change the set at random; how many slots are noted in the trail, latest last."""
    kind, length = unit(generator), 0
    if kind < 0.45:
        return _add(problem, stage, back, tail, head, generator, trail, length)
    slot = _pick_used(stage, generator)
    if slot == NONE:
        return _add(problem, stage, back, tail, head, generator, trail, length)
    length = _note(stage, back, slot, trail, length)
    if kind < 0.6:
        stage[slot] = NONE
    elif kind < 0.7:
        stage[slot] = NONE
        return _add(problem, stage, back, tail, head, generator, trail, length)
    elif kind < 0.82 and problem.paging:
        back[slot] = 1 - back[slot]
    else:
        k = stage[slot] + below(generator, 21) - 10
        if k <= problem.slot_node[slot] or k >= len(problem.size):
            return 0
        stage[slot] = k
    return length


@compiled
def _undo(stage, back, trail, length):
    for at in range(length - 1, -1, -1):
        stage[trail[at, 0]], back[trail[at, 0]] = trail[at, 1], trail[at, 2]


@compiled
def _penalized(figures, control):
    return (
        figures[VALUE]
        + control[LOCAL_PENALTY] * figures[LOCAL_EXCESS]
        + control[SLOW_PENALTY] * figures[SLOW_EXCESS]
        + control[LIMIT_PENALTY] * figures[LIMIT_EXCESS]
    )


@compiled
def anneal(
    problem, stage, back, tail, head, generator, steps, cooling, control, best_stage, best_back, trail, workspace,
    figures, trial,
):  # fmt: skip
    """Make `steps` moves from a set, cooling by a factor after each.

    Args:
        tail, head: edges (u, x) such that u may be of use again for x.
        control: temperature, penalties for the three excesses, least value of a set within all of them so far; kept up.
        best_stage, best_back: the set that has it.
        trail: CHANGES + 2 rows of slot, stage and way before.
        figures, trial: int64[4], for what the set costs and exceeds.
    """
    run(problem, stage, back, workspace, figures)
    for _ in range(steps):
        control[TEMPERATURE] *= cooling
        length = _move(problem, stage, back, tail, head, generator, trail)
        if length > 0:
            taken = run(problem, stage, back, workspace, trial)
            if taken:
                delta = _penalized(trial, control) - _penalized(figures, control)
                taken = delta <= 0 or unit(generator) < np.exp(-delta / control[TEMPERATURE])
            if not taken:
                _undo(stage, back, trail, length)
            else:
                for i in range(4):
                    figures[i] = trial[i]
                if figures[1] == 0 and figures[2] == 0 and figures[3] == 0 and figures[VALUE] < control[BEST]:
                    control[BEST] = figures[VALUE]
                    for slot in range(len(stage)):
                        best_stage[slot], best_back[slot] = stage[slot], back[slot]
        for i in range(1, 4):
            control[LOCAL_PENALTY - 1 + i] *= 1.0 + ADAPTION if figures[i] > 0 else 1.0 - ADAPTION
