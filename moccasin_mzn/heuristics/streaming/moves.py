"""Random changes of a plan: what a layer's role is, what is kept of it, how large its groups are."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.annealing import PENALTY, TEMPERATURE
from moccasin_mzn.heuristics.compiling import below, compiled, unit
from moccasin_mzn.heuristics.streaming.generator import (
    ALL,
    BAND,
    DURATION,
    GROUP,
    KEPT,
    LENGTH,
    PEAK,
    PIECE,
    ROLE,
    SIZE,
    STREAM,
    TARGET,
    WAVE,
    evaluate,
)

ADAPTION, LEAST, BEST, BEST_PENALTY = range(2, 6)


@compiled
def _other_size(streams, plan, x, generator):
    """Another number of parts for the groups of a layer."""
    parts = streams.first[x + 1] - streams.first[x]
    kind = below(generator, 6)
    size = plan[SIZE, x]
    if kind == 0:
        size = np.int64(1)
    elif kind == 1:
        size = parts
    elif kind == 2:
        size = streams.width[x] * (1 + below(generator, 4))
    elif kind == 3:
        size = size * 2
    elif kind == 4:
        size = size // 2
    else:
        size = size + 1 - 2 * below(generator, 2)
    return max(1, min(parts, size))


@compiled
def _role(generator):
    kind = unit(generator)
    return STREAM if kind < 0.5 else WAVE if kind < 0.75 else TARGET


@compiled
def _kept(generator):
    kind = unit(generator)
    return ALL if kind < 0.4 else GROUP if kind < 0.65 else PIECE if kind < 0.9 else BAND


@compiled
def copy_plan(plan, to):
    for row in range(len(plan)):
        for x in range(plan.shape[1]):
            to[row, x] = plan[row, x]


@compiled
def change(streams, plan, generator):
    """Change a plan at random."""
    layers = len(streams.last)
    x, kind = below(generator, layers), unit(generator)
    if kind < 0.2:
        plan[ROLE, x] = _role(generator)
        if plan[ROLE, x] != STREAM and unit(generator) < 0.5:
            plan[SIZE, x] = _other_size(streams, plan, x, generator)
    elif kind < 0.4:
        plan[KEPT, x] = _kept(generator)
    elif kind < 0.6:
        for _ in range(8):
            if plan[ROLE, x] != STREAM or streams.last[x]:
                break
            x = below(generator, layers)
        plan[SIZE, x] = _other_size(streams, plan, x, generator)
    elif kind < 0.75:
        y = min(layers, x + 1 + below(generator, np.int64(1) << below(generator, 6)))
        plan[KEPT, x:y] = _kept(generator)
    elif kind < 0.85:
        y = min(layers, x + 1 + below(generator, np.int64(1) << below(generator, 6)))
        plan[ROLE, x:y] = _role(generator)
    else:
        y = x + 1 - 2 * below(generator, 2)
        if 0 <= y < layers:
            for row in range(2):
                plan[row, x], plan[row, y] = plan[row, y], plan[row, x]


@compiled
def anneal(streams, state, plan, tried, best, generator, budget, steps, cooling, control):
    """Make `steps` changes, cooling by a factor after each.

    Args:
        control: temperature, in duration units; penalty of a peak over the budget, in duration units per size unit;
            relative change of the penalty per step; least peak over the budget so far, least duration with that, and the
            penalty then. Kept up.
        best: the plan that has those.
    """
    temperature, penalty, adaption = control[TEMPERATURE], control[PENALTY], control[ADAPTION]
    evaluate(streams, plan, state, budget)
    duration, over = state.totals[DURATION], max(0, state.totals[PEAK] - budget)
    for _ in range(steps):
        temperature *= cooling
        copy_plan(plan, tried)
        for _ in range(1 + below(generator, 2)):
            change(streams, tried, generator)
        if evaluate(streams, tried, state, budget):
            new, excess = state.totals[DURATION], max(0, state.totals[PEAK] - budget)
            delta = new - duration + penalty * (excess - over)
            if delta <= 0 or unit(generator) < np.exp(-delta / temperature):
                copy_plan(tried, plan)
                duration, over = new, excess
            if excess < control[LEAST] or (excess == control[LEAST] and new < control[BEST]):
                control[LEAST], control[BEST], control[BEST_PENALTY] = excess, new, penalty
                copy_plan(tried, best)
        penalty *= 1.0 + adaption if over > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty
