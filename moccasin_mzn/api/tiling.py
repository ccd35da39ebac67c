"""Problems on tiled graphs: the parts that are asked for, or those that do best within the budget.

::

    graph ── what no parts make smaller is over the budget ──> no schedule, at once
      └── tilings, fine to coarse ── tile_trials ──> the one that computes least, of those the coarsest
                                     tile_plans ───> for several memories, the one whose plans cost least
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.api.least import (
    AFTER_INTERRUPT,
    PEAK_SECONDS,
    PEAK_SHARE,
    Smallest,
    is_least,
    smallest,
    with_rest,
    within_least,
)
from moccasin_mzn.api.request import Request
from moccasin_mzn.api.tile_plans import alone, best_planned
from moccasin_mzn.api.tile_trials import NO_LIMIT, Maker, Weigh, chosen, lowest, of_whole_layers
from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.formatting import count_text, memory_text, over_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.tiling.choosing import MOST_NODES, candidates, needed_in_any_parts
from moccasin_mzn.graphs.tiling.cutting import Cuts, check_operators_known, cut, cuts_of, nodes_of, shape_of
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import FREE, Instance

AUTO = "auto"
LOWEST_SHARE = 0.6
"""Share of the time in which a least peak is sought that is for all tilings; the rest is for the best one."""
_SHORTEST = 0.2
"""Seconds in which that one is sought at least."""


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
Make = Callable[[ComputationGraph, int], Request]
"""Makes a request about a graph within an amount of memory."""


@dataclass(frozen=True)
class Target:
    """What computes parts."""

    cutting: Cutting = cut
    """Makes the graph of parts."""
    whole: Callable[[ComputationGraph], Collection[int]] = lambda graph: ()
    """The nodes whose outputs that never cuts."""
    weigh: Weigh | None = None
    """What a schedule of a graph of parts takes in addition to its arena. The budget leaves what whole layers that are
    computed once take: parts that take more have less of it."""


LAYERS = Target()
"""A target that computes parts of any node."""


def tiled(
    graph: ComputationGraph, budget: Any, count_fixed: bool, make: Make, tiles: Tiles, on_note: Callable[[str], None],
    stop: Callable[[], bool], target: Target,
) -> Request:  # fmt: skip
    """Return the request about the parts of a graph, in any order.

    Args:
        budget: within which they are chosen; "least": parts with which least is needed.
        make: makes a request about a graph of parts within an amount of memory.
        on_note: called with a line on what was chosen.
        stop: ends the choice.
    """
    begin = time.monotonic()
    check_operators_known(graph)
    least, weigh = is_least(budget), target.weigh
    # fractions are of the graph as it is
    layers = Instance.build(graph, "100%" if least else budget, count_fixed=count_fixed)
    once = 0 if weigh is None else weigh(whole_layers := target.cutting(graph, {}), whole_layers.input_order())

    def request(parts: ComputationGraph) -> Request:
        more = 0 if weigh is None else weigh(parts, parts.input_order()) - once
        return make(parts, max(1, layers.budget - more + layers.fixed))

    if not least and (why := _known_at_once(layers, target.whole(graph))):
        on_note(f"tiling: no layer is cut: {why}")
        return request(target.cutting(graph, {}))
    choice = _Choice(graph, tiles, target.cutting, request, begin, stop)
    if least:
        found = choice.least()
        on_note(found.text())
        made = found.request
    else:
        made = choice.of_rows() if tiles.rows is not None else choice.best(weigh)
    on_note(tiling_text(graph, made.problem.graph, choice.asked))
    return choice.ended(made)


def tiled_for_plans(
    graph: ComputationGraph, make: Callable[[ComputationGraph], Request], is_least: bool,
    on_note: Callable[[str], None], stop: Callable[[], bool], target: Target,
) -> Request:  # fmt: skip
    """Return the request about the parts of a graph for several memories, chosen by what their plans cost.

    Args:
        make: makes a request about a graph of parts.
        is_least: is the least budget of the first memory sought?

    The others are those of `tiled`.
    """
    begin = time.monotonic()
    check_operators_known(graph)
    choice = _Choice(graph, Tiles(), target.cutting, make, begin, stop)
    made = choice.least_planned(on_note) if is_least else choice.planned()
    on_note(tiling_text(graph, made.problem.graph, choice.asked))
    return choice.ended(made)


def _known_at_once(layers: Instance, whole: Collection[int]) -> str:
    """Why no tiling is within the budget, where that is known without any; empty: it is not."""
    graph, unit = layers.graph, layers.graph.size_unit
    need = needed_in_any_parts(graph, whole)
    if need.memory <= layers.budget or layers.baseline.peak <= layers.budget:
        return ""
    over = over_text(need.memory, layers.budget, unit)
    return f"node {node_text(graph, need.node)} needs {memory_text(need.memory, unit)} whatever the parts, {over}"


@dataclass
class _Choice:
    """The tilings of a graph, and which of them is taken."""

    graph: ComputationGraph
    tiles: Tiles
    cutting: Cutting
    request: Callable[[ComputationGraph], Request]
    begin: float
    stop: Callable[[], bool]
    asked: Mapping[int, Cuts] = field(default_factory=dict)
    """The last cuts that were asked for."""
    interrupted: bool = False
    """True after an interrupt, which ends all trials."""

    def over(self) -> bool:
        return self.interrupted or self.stop()

    def interrupt(self) -> None:
        self.interrupted = True

    def ended(self, made: Request) -> Request:
        """The request, which has the rest of its time limit, or after an interrupt as good as none."""
        if self.interrupted:
            return replace(made, options=replace(made.options, time_limit=AFTER_INTERRUPT))
        return with_rest(made, self.begin)

    def of_rows(self) -> Request:
        """The problem of given parts.

        Raises:
            InputError: there are too many of them.
        """
        return self.request(self._made(_given_cuts(self.graph, self.tiles)))

    def best(self, weigh: Weigh | None) -> Request:
        """The tiling that computes least within the budget, of those the coarsest; or one that is near to it."""
        whole = self.request(self._made({}))
        budget, limit = whole.problem.instance.budget, whole.options.time_limit
        deadline = Deadline(NO_LIMIT if limit is None else limit, self.begin)
        smallest: tuple[int, Request] = max(whole.problem.graph.working_sets), whole
        known = [of_whole_layers(whole, deadline, weigh)] if smallest[0] <= budget else []
        if known and known[0].done:
            return known[0].started()

        def possible() -> Iterator[Request]:
            nonlocal smallest
            for request in self._requests(budget, deadline, coarse_first=weigh is not None):
                need = max(request.problem.graph.working_sets)
                smallest = min(smallest, (need, request), key=lambda each: each[0])
                if need <= request.problem.instance.budget:
                    yield request

        trials = chosen(possible(), deadline, self.over, weigh, known, self.interrupt)
        return trials[0].started() if trials else smallest[1]

    def planned(self) -> Request:
        """The tiling whose plans for several memories cost least."""
        whole = self.request(self._made({}))
        limit, budget = whole.options.time_limit, whole.problem.platform.memories[0].budget
        deadline = Deadline(NO_LIMIT if limit is None else limit, self.begin)
        return best_planned(whole, self._requests(budget, deadline), deadline, self.over, self.interrupt)

    def least_planned(self, note: Callable[[str], None]) -> Request:
        """The least budget of the first memory, for the tiling of least peak there."""
        whole = self.request(self._made({}))
        limit = whole.options.time_limit
        share = Deadline(PEAK_SECONDS if limit is None else PEAK_SHARE * limit, self.begin).part(LOWEST_SHARE)
        found = lowest(map(alone, self._requests(None, share)), share, self.over, self.interrupt)
        parts = whole if found is None else self.request(found.problem.graph)
        return within_least(parts, note, self.over, self.begin)

    def least(self) -> Smallest:
        """The tiling of least peak."""
        whole = self.request(self._made({}))
        limit = whole.options.time_limit
        deadline = Deadline(PEAK_SECONDS if limit is None else PEAK_SHARE * limit, self.begin)
        if self.tiles.rows is not None:
            found: Request | None = self.of_rows()
        else:
            share = deadline.part(LOWEST_SHARE)
            found = lowest(self._requests(None, share), share, self.over, self.interrupt)
        left = deadline.remaining()
        return smallest(found or whole, max(_SHORTEST, left or 0.0), self.over)

    def _requests(self, budget: int | None, deadline: Deadline, *, coarse_first: bool = False) -> Iterator[Request]:
        """One for each tiling, as long as there is time to make it."""

        def nodes(cuts: Mapping[int, Cuts]) -> int:
            return nodes_of(self.graph, cuts)

        maker = Maker(self._made, nodes, deadline)
        tilings = candidates(self.graph, budget, coarse_first=coarse_first)
        return map(self.request, maker.made(tilings, lambda: self.over() or deadline.over()))

    def _made(self, cuts: Mapping[int, Cuts]) -> ComputationGraph:
        self.asked = cuts or self.asked
        return self.cutting(self.graph, cuts)


AUTO_IS_SEARCHED = "tile auto is for searches in any order, within one budget: give rows such as 4, or 4x16"
AUTO_IS_TRIED = "tile auto tries parts by the clock: give rows such as 4, or 4x16"


def cut_for_all(graph: ComputationGraph, tiles: Tiles) -> ComputationGraph:
    """Return the graph of parts that are the same for all budgets.

    Raises:
        InputError: they are to be chosen for a budget; the graph has no operators; there are too many parts.
    """
    if tiles.rows is None:
        raise InputError(AUTO_IS_SEARCHED)
    check_operators_known(graph)
    return cut(graph, _given_cuts(graph, tiles))


def _given_cuts(graph: ComputationGraph, tiles: Tiles) -> dict[int, Cuts]:
    """The cuts into given parts, unless there are too many."""
    cuts = cuts_of(graph, rows=tiles.rows, columns=tiles.columns)
    if (count := nodes_of(graph, cuts)) > MOST_NODES:
        raise InputError(f"tile: these are some {count:,} parts, more than {MOST_NODES:,}: give more rows")
    return cuts


def check_order(order: object) -> None:
    """Refuse an order for parts, which are computed in any order; raises `InputError`."""
    if not (isinstance(order, str) and order in ("input", FREE)):
        raise InputError("tile: parts are computed in any order: leave out the order, or give free")


def tiling_text(graph: ComputationGraph, parts: ComputationGraph, asked: Mapping[int, Cuts] | None = None) -> str:
    """What a tiling has, in a line.

    Args:
        asked: the cuts that were asked for; perhaps none could be made.
    """
    names = {str(node) for node in graph.nodes}
    nodes = Counter(part.layer for part in parts.parts or () if part is not None and part.layer in names)
    counts = [count for count in nodes.values() if count > 1]
    total = f"{count_text(len(parts.nodes), 'node')} in total"
    if not counts and parts.parts is None and len(parts.nodes) > len(graph.nodes):
        return f"tiling: layers are cut, {total} where parts are merged"
    if not counts:
        return f"tiling: no layer is cut{_why_whole(graph, asked)}"
    of = f"{len(counts)} of {count_text(len(graph.nodes), 'layer')}"
    each = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"tiling: {of} cut into {each} parts, {total}"


def _why_whole(graph: ComputationGraph, asked: Mapping[int, Cuts] | None) -> str:
    """Why none of the cuts that were asked for was made; empty: none was needed."""
    if asked is None:
        return ""
    wanted = [v for v, own in asked.items() if any(len(points) > 2 for points in own.values())]
    if not wanted:
        return ": there is nothing to cut them along" if asked else ": whole layers are enough for the budget"
    batches = [shape[0] for v in wanted if len(shape := shape_of(graph, v)) > 3 and shape[0] > 1]
    if len(batches) == len(wanted):
        return f": these are batches of {max(batches)} images, of which this target computes parts only one at a time"
    return f": this target has no parts of {node_text(graph, wanted[0])}, or they would take no less memory"
