"""Any schedule within a budget, however long: local search that looks at memory alone.

The local search of `heuristics` weighs duration against memory over the budget. Near the least feasible budget,
duration leads it away from the few schedules that fit. With durations of 0 nothing but memory counts; recomputations
that turn out needless within the budget are left out afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.retention import retained as held


def fitting_schedule(
    instance: Instance, seed: int, stop: Callable[[], bool], near: Sequence[int] | None = None
) -> tuple[int, ...] | None:
    """A schedule within the budget, in stages of the input order and within C_v; None: none found until `stop()`.

    Args:
        instance: with an order of its own.
        seed: of the random numbers.
        near: a schedule over the budget to begin near, in stages of the input order as well.
    """
    from moccasin_mzn.heuristics.staged.search import LocalSearch  # here, because compiled code takes a while to load

    weightless = replace(instance.graph, durations=(0,) * len(instance.graph.nodes))
    found: list[tuple[int, ...]] = []
    drafts = [] if near is None else [tuple(near)]
    LocalSearch(replace(instance, graph=weightless), seed).run(
        found.append, lambda: bool(found) or stop(), draft=lambda: drafts.pop() if drafts else None
    )
    if not found:
        return None
    shorter = held(instance.graph, found[0], instance.budget, stop)
    return shorter if first_out_of_stage(instance.order, shorter) is None else found[0]
