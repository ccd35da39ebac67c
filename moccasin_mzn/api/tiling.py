"""Problems on tiled graphs: the parts that are asked for, or the coarsest ones that are enough for the budget.

::

    graph ── tilings, coarse to fine ──> cut ──> search for a schedule, for a while ──> the first one that is found,
                                                                                  or a finer one that computes less
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moccasin_mzn.api.least import PEAK_SECONDS, PEAK_SHARE, Smallest, is_least, smallest, with_rest
from moccasin_mzn.api.request import Prepare, Request
from moccasin_mzn.api.solve import answer
from moccasin_mzn.checks import plain
from moccasin_mzn.clock import never
from moccasin_mzn.errors import InputError, located, shown
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
FINER_SHARE, LOWER, IN_VAIN = 0.06, 0.98, 2
"""Share of the time limit in which the least peak of a tiling is sought, what is lower than the best, and how many
finer tilings in turn may be no lower."""


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
        for name, value in (("rows", self.rows), ("columns", self.columns)):
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(f"{name} {shown(value)}: expected an integer of 1 or more")

    @classmethod
    def of(cls, value: object) -> Tiles:
        """Read "auto", rows such as 4 or "4", or rows and columns, such as "4x16" or (4, 16).

        Raises:
            InputError: it is something else.
        """
        value = plain(value)
        if isinstance(value, Tiles):
            return value
        with located(f"tile {shown(value)}"):
            if isinstance(value, tuple | list) and len(value) == 2:
                return cls(*map(plain, value))
            if type(value) is int:
                return cls(value)
            if isinstance(value, str) and value == AUTO:
                return cls()
            if isinstance(value, str) and len(numbers := extents_of(value)) in (1, 2):
                return cls(*numbers)
            raise InputError("expected auto, rows such as 4, or rows and columns such as 4x16")


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

    The budget may be "least": with tilings of ever finer parts, as long as that needs less.

    Args:
        on_note: called with a line on what was chosen.
        stop: ends the choice.
        cutting: makes the graph of parts.
    """

    def make(graph: ComputationGraph, budget: Any, order: Any, count_fixed: bool) -> Request:
        begin = time.monotonic()
        check_operators_known(graph)
        _check_order(order)
        least = is_least(budget)
        # fractions are of the graph as it is
        whole = Instance.build(graph, "100%" if least else budget, count_fixed=count_fixed)

        def request(parts: ComputationGraph) -> Request:
            return prepare(parts, budget=max(1, whole.budget + whole.fixed), order=FREE, count_fixed=count_fixed)

        if tiles.rows is not None:
            requests: Iterator[Request] = iter([request(_cut(graph, tiles, cutting))])
        else:
            requests = (request(cutting(graph, cuts)) for cuts in tilings(graph, whole.budget))
        if least:
            found = _least(requests, begin, stop)
            on_note(found.text())
            made = found.request
        elif tiles.rows is not None:
            made = next(requests)
        else:
            made = _chosen(requests, graph, whole.budget, begin, stop) or request(cutting(graph, {}))
        on_note(tiling_text(graph, made.problem.graph))
        return with_rest(made, begin)

    return make


def cut_for_all(graph: ComputationGraph, tiles: Tiles, order: object) -> ComputationGraph:
    """Return the graph of parts that are the same for all budgets; its order is free.

    Raises:
        InputError: they are to be chosen for a budget; the graph has no operators; an order is given.
    """
    if tiles.rows is None:
        raise InputError("tile auto is for one budget: give rows such as 4, or rows and columns such as 4x16")
    _check_order(order)
    return _cut(graph, tiles, cut)


def _cut(graph: ComputationGraph, tiles: Tiles, cutting: Cutting) -> ComputationGraph:
    return cutting(graph, cuts_of(graph, rows=tiles.rows, columns=tiles.columns))


def _check_order(order: object) -> None:
    if not (isinstance(order, str) and order in ("input", FREE)):
        raise InputError("tile: parts are computed in any order: leave out the order, or give free")


def _least(requests: Iterator[Request], begin: float, stop: Callable[[], bool]) -> Smallest:
    """The tiling of least peak: each has a short time, as long as finer ones need less, and the best what is left."""
    best: Smallest | None = None
    in_vain = 0
    for request in requests:
        limit = request.options.time_limit or PEAK_SECONDS
        if best is not None and max(request.problem.graph.working_sets) > best.peak:
            continue
        found = smallest(request, max(LEAST_TRIAL, FINER_SHARE * limit), stop)
        if best is None or found.peak < LOWER * best.peak:
            best, in_vain = found, 0
        else:
            in_vain += 1
        if in_vain == IN_VAIN or time.monotonic() - begin > PEAK_SHARE * limit or found.interrupted or stop():
            break
    assert best is not None
    left = PEAK_SHARE * (best.request.options.time_limit or PEAK_SECONDS) - (time.monotonic() - begin)
    return smallest(best.request, left, stop) if left > LEAST_TRIAL and not best.interrupted and not stop() else best


def tiling_text(graph: ComputationGraph, parts: ComputationGraph) -> str:
    """What a tiling has, in a line."""
    counts = [len(nodes) for _, nodes in layers_of(parts) if len(nodes) > 1]
    if not counts:
        return "tiling: no layer is cut"
    of = f"{len(counts)} of {count_text(len(graph.nodes), 'layer')}"
    each = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"tiling: {of} cut into {each} parts, {count_text(len(parts.nodes), 'node')} in total"


def _chosen(
    requests: Iterator[Request], graph: ComputationGraph, budget: int, begin: float, stop: Callable[[], bool]
) -> Request | None:
    """The request for the coarsest tiling with which a schedule is found soon; for a finer one, if that computes less.

    It starts from that schedule. If none is found, it is for the tiling with the least peak that was seen; None: all
    have parts that are over the budget.
    """
    best: tuple[float, Request] | None = None
    nearest: tuple[float, Request | None] = math.inf, None
    for tried in requests:
        if max(tried.problem.graph.working_sets) > budget:
            continue
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
    return best[1] if best is not None else nearest[1]


def _tried(request: Request, stop: Callable[[], bool]) -> Result:
    """What is found in a share of the time."""
    options = request.options
    assert isinstance(options, Options)
    limit = TRIAL if options.time_limit is None else max(LEAST_TRIAL, TRIAL_SHARE * options.time_limit)
    return answer(replace(request, options=replace(options, time_limit=limit, if_none=STOP)), stop=stop)
