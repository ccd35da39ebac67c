"""Simulated annealing over sets of recomputations, within and beyond the budget."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.annealing import PENALTY, TEMPERATURE
from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.heuristics.randomness import unit
from moccasin_mzn.heuristics.staged.moves import move, undo_to
from moccasin_mzn.heuristics.staged.state import EXCESS, EXTRA

ADAPTION = 3e-4
"""Relative change per step of the penalty of memory over the budget: up while the state is over it, else down."""
USUAL = 6000
"""On graphs of more nodes it changes as much less: there it takes as many more steps until the state has answered."""

BEST = 2
UNKNOWN = -1


@compiled
def _note(changed, trail, length):
    """Add the slots of a trail to those that have changed."""
    count = changed[0]
    if count == UNKNOWN or count + length >= len(changed):
        changed[0] = UNKNOWN
        return
    for at in range(length):
        changed[1 + count + at] = trail[at, 0]
    changed[0] = count + length


@compiled
def _keep(state, best_stage, changed):
    """Make `best_stage` the state's, slot by slot where it is known which have changed: of many, few have."""
    if changed[0] == UNKNOWN:
        for slot in range(len(best_stage)):
            best_stage[slot] = state.stage[slot]
    for at in range(changed[0]):
        best_stage[changed[1 + at]] = state.stage[changed[1 + at]]
    changed[0] = 0


@compiled
def anneal(problem, state, tail, head, generator, mix, steps, cooling, control, best_stage, changed, trail, stack):
    """Make `steps` moves, cooling by a factor after each.

    Args:
        tail, head: edges (u, x) such that recomputing u before x can be of use.
        control: temperature, in duration units; penalty of memory over the budget, in duration units per size unit and
            event; least extra duration of a state within the budget so far. Kept up.
        best_stage: the state that has it.
        changed: how many slots differ since then, and which; `UNKNOWN`: nobody has counted.
        trail, stack: see `moves.move`.
    """
    temperature, penalty = control[TEMPERATURE], control[PENALTY]
    adaption = ADAPTION * min(1.0, USUAL / len(problem.duration))
    for _ in range(steps):
        temperature *= cooling
        extra, excess = state.totals[EXTRA], state.totals[EXCESS]
        length = move(problem, state, tail, head, generator, mix, penalty, temperature, trail, stack)
        if length > 0:
            delta = (state.totals[EXTRA] - extra) + penalty * (state.totals[EXCESS] - excess)
            if delta > 0 and unit(generator) >= np.exp(-delta / temperature):
                undo_to(problem, state, trail, length, 0)
            else:
                _note(changed, trail, length)
                if state.totals[EXCESS] == 0 and state.totals[EXTRA] < control[BEST]:
                    control[BEST] = state.totals[EXTRA]
                    _keep(state, best_stage, changed)
        penalty *= 1.0 + adaption if state.totals[EXCESS] > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty
