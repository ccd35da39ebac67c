"""Simulated annealing over sequences of computations, within and beyond the budget."""

from __future__ import annotations

from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.heuristics.free_order.moves import move, refused, undo_to
from moccasin_mzn.heuristics.free_order.state import DURATION, EXCESS, LENGTH

TEMPERATURE, PRICE, ADAPTION, LEAST, BEST, BEST_PRICE = range(6)


@compiled
def anneal(problem, state, generator, mix, steps, cooling, control, best, journal, room):
    """Make `steps` moves, cooling by a factor after each.

    Args:
        generator: state of the random numbers, one uint64 other than 0.
        control: temperature, in duration units; price of memory over the budget, in duration units per size unit and
            position; relative change of the price per step: up while the sequence is over the budget, down while it is
            not, so that the search goes to and fro across the border, where the best schedules are; least memory over
            the budget so far, least duration with that, and the price then. Brought up to date.
        best: the slots of the sequence that has those; its length stands in the last entry.
        journal: room for (slot, position) pairs.
        room: see `moves.move`.
    """
    temperature, price, adaption = control[TEMPERATURE], control[PRICE], control[ADAPTION]
    for _ in range(steps):
        temperature *= cooling
        duration, excess = state.totals[DURATION], state.totals[EXCESS]
        length = move(problem, state, generator, mix, price, temperature, journal, room)
        if length > 0:
            if refused(state, duration, excess, price, temperature, generator):
                undo_to(problem, state, journal, length, 0)
            elif state.totals[EXCESS] < control[LEAST] or (
                state.totals[EXCESS] == control[LEAST] and state.totals[DURATION] < control[BEST]
            ):
                control[LEAST], control[BEST] = state.totals[EXCESS], state.totals[DURATION]
                control[BEST_PRICE] = price
                best[len(best) - 1] = state.totals[LENGTH]
                for t in range(state.totals[LENGTH]):
                    best[t] = state.seq[t]
        price *= 1.0 + adaption if state.totals[EXCESS] > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PRICE] = temperature, price
