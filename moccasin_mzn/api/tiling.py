"""Problems on tiled graphs: the parts that are asked for, or the coarsest ones that are enough for the budget.

::

    graph ── tilings, coarse to fine ──> cut ──> search for a schedule, for a while ──> the first one that is found,
                                                                                  or a finer one that computes less
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moccasin_mzn.api.request import Prepare, Request
from moccasin_mzn.api.solve import answer
from moccasin_mzn.checks import plain
from moccasin_mzn.clock import never
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formatting import count_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.tiling.choosing import tilings
from moccasin_mzn.graphs.tiling.cutting import Cuts, check_operators_known, cut, cuts_of, layers_of
from moccasin_mzn.problem.instance import FREE, Instance
from moccasin_mzn.search.options import STOP, Options
from moccasin_mzn.search.result import Result

AUTO = "auto"
TRIAL_SHARE, LEAST_TRIAL, TRIAL = 0.15, 1.0, 10.0
"""Share of the time limit that the search with each tiling has at first, its least seconds, and those without limit."""
LITTLE = 1.01
"""A finer tiling is not tried where no more than this is computed, over everything once."""


@dataclass(frozen=True)
class Tiles:
    """The parts into which outputs are cut.

    Raises:
        InputError: rows or columns that are no integers of 1 or more.
    """

    rows: int | None = None
    """None: chosen for the budget, layer by layer."""
    columns: int | None = None

    def __post_init__(self) -> None:
        for value in (self.rows, self.columns):
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(f"tile {shown(value)}: expected an integer of 1 or more")

    @classmethod
    def of(cls, value: object) -> Tiles:
        """Read "auto", rows such as 4 or "4", or rows and columns, such as "4x16" or (4, 16).

        Raises:
            InputError: it is something else.
        """
        value = plain(value)
        if isinstance(value, Tiles):
            return value
        if isinstance(value, tuple | list) and len(value) == 2:
            return cls(*map(plain, value))
        if type(value) is int:
            return cls(value)
        if isinstance(value, str) and value == AUTO:
            return cls()
        if isinstance(value, str) and len(numbers := extents_of(value)) in (1, 2):
            return cls(*numbers)
        raise InputError(f"tile {shown(value)}: expected auto, rows such as 4, or rows and columns such as 4x16")


def extents_of(text: str) -> tuple[int, ...]:
    """The numbers in text such as "4x16"; none if it is something else."""
    numbers = text.split("x")
    fits = all(each.isascii() and each.isdecimal() and len(each) < 10 for each in numbers)
    return tuple(map(int, numbers)) if fits else ()


Cutting = Callable[[ComputationGraph, Mapping[int, Cuts]], ComputationGraph]
"""Makes the graph of parts, of cuts by node."""


def tiled(
    prepare: Prepare, tiles: Tiles, on_note: Callable[[str], None], stop: Callable[[], bool] = never,
    cutting: Cutting = cut,
) -> Prepare:  # fmt: skip
    """Turn what makes a request for a graph into what makes one for its parts, in any order.

    Args:
        on_note: called with a line on what was chosen.
        stop: ends the choice.
        cutting: makes the graph of parts.
    """

    def make(graph: ComputationGraph, budget: Any, order: Any, count_fixed: bool) -> Request:
        begin = time.monotonic()
        check_operators_known(graph)
        if not (isinstance(order, str) and order in ("input", FREE)):
            raise InputError("tile: parts are computed in any order: leave out the order, or give free")
        whole = Instance.build(graph, budget, count_fixed=count_fixed)  # fractions are of the graph as it is

        def request(parts: ComputationGraph) -> Request:
            return prepare(parts, budget=whole.budget + whole.fixed, order=FREE, count_fixed=count_fixed)

        if tiles.rows is not None:
            made = request(cutting(graph, cuts_of(graph, rows=tiles.rows, columns=tiles.columns)))
        else:
            made = _chosen(graph, whole.budget, request, begin, stop, cutting)
        parts = made.problem.graph
        on_note(tiling_text(graph, parts))
        left = made.options.time_limit
        if left is None:
            return made
        left = max(LEAST_TRIAL, left - (time.monotonic() - begin))
        return replace(made, options=replace(made.options, time_limit=left))

    return make


def tiling_text(graph: ComputationGraph, parts: ComputationGraph) -> str:
    """What a tiling has, in a line."""
    counts = [len(nodes) for _, nodes in layers_of(parts) if len(nodes) > 1]
    if not counts:
        return "tiling: no layer is cut"
    of = f"{len(counts)} of {count_text(len(graph.nodes), 'layer')}"
    each = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"tiling: {of} cut into {each} parts, {count_text(len(parts.nodes), 'node')} in total"


def _chosen(
    graph: ComputationGraph, budget: int, request: Callable[[ComputationGraph], Request], begin: float,
    stop: Callable[[], bool], cutting: Cutting,
) -> Request:  # fmt: skip
    """The request for the coarsest tiling with which a schedule is found soon; for a finer one, if that computes less.

    It starts from that schedule. If none is found, it is for the tiling with the least peak that was seen.
    """
    best: tuple[float, Request] | None = None
    nearest: tuple[float, Request | None] = math.inf, None
    for cuts in tilings(graph, budget):
        parts = cutting(graph, cuts)
        if max(parts.working_sets) > budget:
            continue
        tried = request(parts)
        limit = tried.options.time_limit
        if stop() or (limit is not None and time.monotonic() - begin > limit / 2):
            break
        found = _tried(tried, stop)
        if found.valid and found.sequence:
            duration = float(found.simulation.duration)
            if best is not None and duration >= best[0]:
                break
            best = duration, replace(tried, start=tuple(found.sequence))
            if duration <= LITTLE * graph.total_duration:
                break
        elif found.shortfall is not None and found.shortfall.least_peak < nearest[0]:
            nearest = found.shortfall.least_peak, tried
    return best[1] if best is not None else nearest[1] or request(cutting(graph, {}))


def _tried(request: Request, stop: Callable[[], bool]) -> Result:
    """What is found in a share of the time."""
    options = request.options
    assert isinstance(options, Options)
    limit = TRIAL if options.time_limit is None else max(LEAST_TRIAL, TRIAL_SHARE * options.time_limit)
    return answer(replace(request, options=replace(options, time_limit=limit, if_none=STOP)), stop=stop)
