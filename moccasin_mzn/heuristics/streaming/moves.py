"""Random changes of a plan, and annealing with them."""

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
    OVER,
    PEAK,
    PIECE,
    ROLE,
    SIZE,
    STREAM,
    STRIP,
    TARGET,
    WAVE,
    evaluate,
)

ADAPTION, LEAST, BEST, BEST_PENALTY, ROUND_LEAST, ROUND_BEST = range(2, 8)
"""Where they stand in the control array, after those of every annealing."""


@compiled
def copy_plan(plan, to):
    for row in range(len(plan)):
        for x in range(plan.shape[1]):
            to[row, x] = plan[row, x]


@compiled
def _role(generator):
    kind = unit(generator)
    return STREAM if kind < 0.5 else WAVE if kind < 0.75 else TARGET


@compiled
def _kept(generator, once):
    kind = unit(generator)
    return ALL if once or kind < 0.4 else GROUP if kind < 0.65 else PIECE if kind < 0.9 else BAND


@compiled
def _resize(streams, plan, x, generator):
    """Another number of parts for the groups of a layer, and other strips."""
    parts, width, kind = streams.first[x + 1] - streams.first[x], streams.width[x], below(generator, 6)
    size = plan[SIZE, x]
    if kind == 0:
        size = np.int64(1)
    elif kind == 1:
        size = parts
    elif kind == 2:
        size = width * (1 + below(generator, 4))
    elif kind == 3:
        size = size * 2
    elif kind == 4:
        size = size // 2
    else:
        size = size + 1 - 2 * below(generator, 2)
    if width > 1 and unit(generator) < 0.4:
        plan[STRIP, x] = 1 + below(generator, width)
        if unit(generator) < 0.5:
            size = plan[STRIP, x]
    plan[SIZE, x] = max(1, min(parts, size))


@compiled
def _swap(streams, plan, x, y):
    """Have two layers change their roles and the rest."""
    for row in range(len(plan)):
        plan[row, x], plan[row, y] = plan[row, y], plan[row, x]
    for z in (x, y):
        plan[SIZE, z] = min(plan[SIZE, z], streams.first[z + 1] - streams.first[z])


@compiled
def _fuse(streams, plan, x, end, generator, once):
    """Have the layers from x to before the last of them be computed for each group of that."""
    role = WAVE if unit(generator) < 0.3 else STREAM
    kept = _kept(generator, once)
    for y in range(x, end - 1):
        plan[ROLE, y], plan[KEPT, y] = role, kept
    plan[ROLE, end - 1] = TARGET if unit(generator) < 0.6 else WAVE
    plan[KEPT, end - 1] = ALL
    _resize(streams, plan, end - 1, generator)


@compiled
def change(streams, plan, generator, once):
    """Change a plan at random: a layer, or a few in a row."""
    layers = len(streams.last)
    x, kind = below(generator, layers), unit(generator)
    end = min(layers, x + 1 + below(generator, np.int64(1) << below(generator, 6)))
    if kind < 0.2:
        plan[ROLE, x] = _role(generator)
        if plan[ROLE, x] != STREAM and unit(generator) < 0.5:
            _resize(streams, plan, x, generator)
    elif kind < 0.4:
        plan[KEPT, x] = _kept(generator, once)
    elif kind < 0.6:
        for _ in range(8):
            if plan[ROLE, x] != STREAM:
                break
            x = below(generator, layers)
        _resize(streams, plan, x, generator)
    elif kind < 0.7:
        _fuse(streams, plan, x, end, generator, once)
    elif kind < 0.78:
        plan[KEPT, x:end] = _kept(generator, once)
    elif kind < 0.86:
        plan[ROLE, x:end] = _role(generator)
    else:
        _swap(streams, plan, x, max(0, min(layers - 1, x + 1 - 2 * below(generator, 2))))
    for x in range(layers):
        if plan[ROLE, x] == TARGET or streams.last[x]:
            plan[ROLE, x], plan[KEPT, x] = TARGET, ALL


@compiled
def _excess(state, budget, spread):
    """Memory over the budget, as it is penalised: that of all segments, or that of the worst."""
    return float(state.totals[OVER] if spread else max(0, state.totals[PEAK] - budget))


@compiled
def anneal(streams, state, plan, tried, best, round_best, generator, budget, once, spread, steps, cooling, control):
    """Make `steps` changes, cooling by a factor after each.

    Args:
        plan, tried, best, round_best: the present plan, room for another, the best one so far, and that of the round.
        once: whether everything is kept, so that nothing is computed twice.
        spread: whether memory over the budget is summed over all segments.
        control: temperature, in duration units; penalty of memory over the budget, in duration units per size unit;
            relative change of the penalty per step: up while the plan is over the budget, down while it is not; least
            peak over the budget so far, least duration with that, and the penalty then; the first two again, of the
            round. Kept up.
    """
    temperature, penalty, adaption = control[TEMPERATURE], control[PENALTY], control[ADAPTION]
    evaluate(streams, plan, state, budget, np.int64(2) ** 62)
    duration, over = state.totals[DURATION], _excess(state, budget, spread)
    for _ in range(steps):
        temperature *= cooling
        copy_plan(plan, tried)
        for _ in range(1 + below(generator, 2)):
            change(streams, tried, generator, once)
        limit = duration + penalty * over - temperature * np.log(1.0 - unit(generator))
        if evaluate(streams, tried, state, budget, np.int64(min(limit, 4e18))):
            now, excess = state.totals[DURATION], _excess(state, budget, spread)
            if now + penalty * excess <= limit:
                copy_plan(tried, plan)
                duration, over = now, excess
            excess = max(0, state.totals[PEAK] - budget)
            if excess < control[ROUND_LEAST] or (excess == control[ROUND_LEAST] and now < control[ROUND_BEST]):
                control[ROUND_LEAST], control[ROUND_BEST] = excess, now
                copy_plan(tried, round_best)
            if excess < control[LEAST] or (excess == control[LEAST] and now < control[BEST]):
                control[LEAST], control[BEST], control[BEST_PENALTY] = excess, now, penalty
                copy_plan(tried, best)
        penalty *= 1.0 + adaption if over > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty
