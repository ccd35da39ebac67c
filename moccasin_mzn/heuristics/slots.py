"""An instance as flat arrays for compiled searches: nodes along the input order, each with slots for computations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.problem.instance import Instance

NONE = -1


class Problem(NamedTuple):
    """What does not change. All arrays along the input order; sizes, workspaces and durations in any integer unit."""

    duration: np.ndarray
    size: np.ndarray
    workspace: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    succ_ptr: np.ndarray
    succ: np.ndarray
    slot_ptr: np.ndarray
    """Slots of node v are slot_ptr[v]..slot_ptr[v + 1] - 1."""
    slot_node: np.ndarray
    budget: int
    over_ptr: np.ndarray
    """Inputs that node v may overwrite are over[over_ptr[v]..over_ptr[v + 1] - 1]; `over` is empty if none may."""
    over: np.ndarray


def problem_with(instance: Instance, slots_for: Callable[[np.ndarray], np.ndarray], without: int = 0) -> Problem:
    """An instance for compiled code; sizes are rounded up, and the budget down, if sums of them might pass 2**62.

    Args:
        slots_for: gets C_v of each node, 1 where more is of no use, and tells how many slots each has.
        without: how many computations each node has that take no slot.
    """
    arrays = graph_arrays(instance.graph, instance.order)
    most = np.array([instance.max_computations[v] for v in instance.order], np.int64)
    slots = slots_for(np.where((arrays.size > 0) & (np.diff(arrays.succ_ptr) > 0), most, 1))
    slot_ptr = np.zeros(arrays.node_count + 1, np.int64)
    np.cumsum(slots, out=slot_ptr[1:])
    unit = size_unit(int(arrays.size.sum() + arrays.workspace.max()), int(slot_ptr[-1]) + without * arrays.node_count)
    return Problem(
        duration=arrays.duration,
        size=-(-arrays.size // unit),
        workspace=-(-arrays.workspace // unit),
        pred_ptr=arrays.pred_ptr,
        pred=arrays.pred,
        succ_ptr=arrays.succ_ptr,
        succ=arrays.succ,
        slot_ptr=slot_ptr,
        slot_node=np.repeat(np.arange(arrays.node_count, dtype=np.int64), slots),
        budget=np.int64(instance.budget // unit),  # type: ignore[arg-type]  # an int to compiled code
        **_overwritable(instance),
    )


def _overwritable(instance: Instance) -> dict[str, np.ndarray]:
    """`over_ptr` and `over` of a problem."""
    rows = instance.graph.overwritable or ((),) * len(instance.order)
    number = {v: k for k, v in enumerate(instance.order)} if instance.graph.overwritable else {}
    over_ptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(rows[v]) for v in instance.order], out=over_ptr[1:])
    return {"over_ptr": over_ptr, "over": np.array([number[u] for v in instance.order for u in rows[v]], np.int32)}


@compiled
def slot_at(problem, places, v, place):
    """The first slot of v at a place, a stage or a position, of which `places` has one for each; NONE: none is."""
    for slot in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]):
        if places[slot] == place:
            return slot
    return np.int64(NONE)


def size_unit(total: int, events: int) -> int:
    """The unit in which all sizes together, summed over so many events, stay within 2**62."""
    return max(1, -(-total * events // 2**62))
