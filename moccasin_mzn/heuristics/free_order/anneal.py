"""Simulated annealing over sequences of computations, within and beyond the budget."""

from __future__ import annotations

from moccasin_mzn.heuristics.annealing import PENALTY, TEMPERATURE
from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.heuristics.free_order.moves import move, refused, undo_to
from moccasin_mzn.heuristics.free_order.state import DURATION, EXCESS, LENGTH

ADAPTION, LEAST, BEST, BEST_PENALTY = range(2, 6)


@compiled
def anneal(problem, state, generator, mix, steps, cooling, control, best, trail, stack):
    """Make `steps` moves, cooling by a factor after each.

    Args:
        control: temperature, in duration units; penalty of memory over the budget, in duration units per size unit and
            position; relative change of the penalty per step: up while the sequence is over the budget, down while it
            is not; least memory over the budget so far, least duration with that, and the penalty then. Kept up.
        best: the slots of the sequence that has those; its length stands in the last entry.
        trail, stack: see `moves.move`.
    """
    temperature, penalty, adaption = control[TEMPERATURE], control[PENALTY], control[ADAPTION]
    for _ in range(steps):
        temperature *= cooling
        duration, excess = state.totals[DURATION], state.totals[EXCESS]
        length = move(problem, state, generator, mix, penalty, temperature, trail, stack)
        if length > 0:
            if refused(state, duration, excess, penalty, temperature, generator):
                undo_to(problem, state, trail, length, 0)
            elif state.totals[EXCESS] < control[LEAST] or (
                state.totals[EXCESS] == control[LEAST] and state.totals[DURATION] < control[BEST]
            ):
                control[LEAST], control[BEST] = state.totals[EXCESS], state.totals[DURATION]
                control[BEST_PENALTY] = penalty
                best[len(best) - 1] = state.totals[LENGTH]
                for t in range(state.totals[LENGTH]):
                    best[t] = state.seq[t]
        penalty *= 1.0 + adaption if state.totals[EXCESS] > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty
