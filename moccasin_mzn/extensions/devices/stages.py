"""Plans in stages of the input order; see `models/lib/devices_staged.mzn`, which draws them.

Stage k ends with the first computation of node k, on one device or several, and copies of its output. Before that come
nodes 1..k-1, in input order; of each first its computations, then its copies, both by memory. After the last stage
there is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.problem.plan import Action


def stages_of_plan(order: Sequence[int], memories: int, plan: Sequence[Action]) -> list[int]:
    """The stage, from 1, of each action, up to the first action that is out of place: shorter than the plan then.

    Args:
        order: the input order, positions in `graph.nodes`.
        memories: how many the platform has.
        plan: of known nodes and memories.
    """
    number = {v: k for k, v in enumerate(order, 1)}
    stages: list[int] = []
    stage, ended, latest, brought = 1, False, (0, 0), set[tuple[int, int]]()
    for action in plan:
        k, copied = number[action.node], action.source is not None
        key, place = (k, action.memory + memories * copied), (k, action.memory)
        if k > stage or key <= latest or place in brought:
            if not ended or k > stage + 1 or stage == len(order):
                break
            stage, ended, latest, brought = stage + 1, False, (0, 0), set()
        if k == stage and not copied:
            ended = True
        stages.append(stage)
        brought.add(place)
        latest = key
    return stages


def event(nodes: int, memories: int, stage: int, number: int, memory: int, copied: bool) -> int:
    """The event of an action; `stage` and `number` count from 1, `memory` from 0."""
    return 2 * memories * (nodes * (stage - 1) + number - 1) + memory + 1 + memories * copied
