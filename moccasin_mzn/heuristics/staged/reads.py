"""Who computes and who reads what, and when, in a set of recomputations; see `state`."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

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
