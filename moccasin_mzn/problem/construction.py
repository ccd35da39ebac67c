"""The door for schedules that are constructed, by rules or by searches: judged before anything is made of them.

A search with a board offers what it finds to that, a sweep to what it knows; both judge it. All other schedules come
through here. `tests/house/test_constructions.py` follows whatever makes schedules to one of these doors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.stages import first_out_of_stage


@dataclass(frozen=True)
class Constructed:
    """A schedule that the judge accepts, with its figures. `judged` makes these, and nothing else does."""

    sequence: tuple[int, ...]
    """Positions in `graph.nodes`, further outputs directly after their first ones."""
    peak: int
    """In the graph's size unit."""
    duration: int
    """In the graph's duration unit."""


def judged(graph: ComputationGraph, sequence: Sequence[int], source: str) -> Constructed:
    """Return a schedule with its peak and its duration.

    Args:
        source: the name of what made it.

    Raises:
        JudgeError: it is no schedule of the graph, whatever the budget.
    """
    sequence = graph.together(sequence)
    simulation = simulate(graph, sequence)
    if simulation.violations:
        raise JudgeError(f"{source} made no schedule: {simulation.violations[0].message}")
    return Constructed(sequence, simulation.peak, simulation.duration)


def judged_within(
    instance: Instance, sequence: Sequence[int], source: str, *, staged: bool = False
) -> Constructed | None:
    """Return the same if it is a schedule of an instance; None: it is over the budget or C_v, or out of stage.

    Args:
        staged: it has to be in stages of the input order.

    Raises:
        JudgeError: see `judged`.
    """
    found = judged(instance.graph, sequence, source)
    counts = Counter(found.sequence)
    allowed = all(counts[v] <= most for v, most in enumerate(instance.max_computations))
    if found.peak > instance.budget or not allowed:
        return None
    return None if staged and first_out_of_stage(instance.order, found.sequence) is not None else found
