"""Orders of least peak, every node computed once: `least_peak_order`, several good ones: `good_orders`, and a bound at
once: `peak_bound`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.checks import check_seed, check_time_limit
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.log import note_once
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed
from moccasin_mzn.heuristics.compiled_searches import ORDERS, STREAMING, ignore, kept_or_begun, ready

NOT_SOUGHT = "a better bound on the peak of all orders is not sought: the search for orders is still being compiled"


@dataclass(frozen=True)
class Ordering:
    """An order of all nodes, each computed once, and what is known of the least peak of any such order.

    Raises:
        InputError: a bound above the peak.
    """

    order: tuple[int, ...]
    """Positions in `graph.nodes`."""
    peak: int
    """The peak of this order, by the simulator, in the graph's size unit."""
    bound: int
    """No order that computes every node once has a smaller peak; with recomputations a smaller one may be possible."""
    seconds: float
    source: str
    """Who found the order; "start" if it is the one to start from."""
    bound_source: str = ""
    interrupted: bool = False
    """True if an interrupt from the keyboard ended the search."""

    def __post_init__(self) -> None:
        if self.bound > self.peak:
            raise InputError(f"bound {self.bound} is above the peak {self.peak} of an order")

    @property
    def status(self) -> str:
        """If no order has a smaller peak "optimal", else "feasible"."""
        return "optimal" if self.peak == self.bound else "feasible"

    @property
    def gap_percent(self) -> float:
        """100 (peak - bound) / peak."""
        return 100 * (self.peak - self.bound) / self.peak if self.peak else 0.0


@dataclass(frozen=True)
class OrderProgress:
    """A better order or a better bound, while the search goes on."""

    seconds: float
    peak: int
    bound: int
    source: str
    """Who improved it."""
    order: tuple[int, ...] | None = field(default=None, repr=False)
    """The order, where it is new."""


Listener = Callable[[OrderProgress], None]


def least_peak_order(
    graph: ComputationGraph, *, time_limit: float | None = None, seed: int = 0, on_progress: Listener | None = None,
    stop: Callable[[], bool] = never, start: Sequence[int] | None = None, turns: int | None = None,
) -> Ordering:  # fmt: skip
    """Search for an order of least peak, until it is proven, the time is up, `stop()` or an interrupt (Ctrl-C).

    Args:
        time_limit: in seconds; None: until proven, which large graphs may never be. Compiling, once after every
            installation, is not counted.
        on_progress: called in this thread with every improvement.
        stop: asked many times a second.
        start: an order to start from, positions in `graph.nodes`; the answer is never worse. Default: the input order.
        turns: end after this many turns of methods, without a clock: the same result for the same seed.

    Raises:
        InputError: nonsense as a limit or seed; a start that is no topological order of the graph.
    """
    check_time_limit(time_limit)
    check_seed(seed)
    start = _checked_start(graph, start)
    if graph.overwritable is not None:
        return _in_place(graph, start, time_limit, seed, stop, turns)
    from moccasin_mzn.heuristics.orders.order_search import OrderSearch  # here, because that takes a while

    ready(ORDERS, *((STREAMING,) if graph.parts else ()))
    deadline = Deadline(time_limit)

    def report(new: bool) -> None:
        source, order = (search.source, search.order) if new else (search.bound_source, None)
        (on_progress or ignore)(OrderProgress(deadline.elapsed(), search.peak, search.bound, source, order))

    search, interrupted = OrderSearch(graph, start, seed, report), False
    try:
        search.run(lambda: stop() or deadline.over(), turns)
    except KeyboardInterrupt:
        interrupted = True  # what was found so far is the answer
    return Ordering(
        search.order, search.peak, search.bound, deadline.elapsed(), search.source, search.bound_source, interrupted
    )


def peak_bound(graph: ComputationGraph, order: Sequence[int], seconds: float = 2.0) -> int:
    """A peak that every order which computes each node once has at least: by working sets and minimum cuts.

    By working sets alone, with a note, as long as the search for orders is not compiled; that then begins.

    Args:
        order: a topological order, positions in `graph.nodes`; the better it is, the fewer cuts are needed.
        seconds: for the cuts; large graphs take longer, and then not all nodes are looked at.
    """
    from moccasin_mzn.graphs.arrays import graph_arrays
    from moccasin_mzn.heuristics.orders.cut_bound import CutBound
    from moccasin_mzn.problem.judges.schedules import simulate

    graph, more = relaxed(graph)
    if not kept_or_begun(ORDERS):
        note_once(NOT_SOUGHT)
        return graph.largest_working_set().memory - more
    ready(ORDERS)
    cuts, memory = CutBound(graph_arrays(graph, order)), simulate(graph, order).memory
    return cuts.improve(graph.largest_working_set().memory, memory, Deadline(seconds).over) - more


def good_orders(
    graph: ComputationGraph, *, seed: int = 0, stop: Callable[[], bool] = never, start: Sequence[int] | None = None,
    windows: int = 50, tries: int | None = None,
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Diverse orders of low peak, in no order of merit; each comes from another random narrow search.

    Endless for most graphs: take as many as needed, or pass `stop`. With a graph of few orders `stop` must end it.

    Args:
        seed: the same orders in the same sequence for a seed.
        start: the order that is kept where nothing better is found. Default: the input order.
        windows: how much work to spend on each.
        tries: how many searches there are; None: any number.

    Yields:
        Orders, positions in `graph.nodes`, no one twice.

    Raises:
        InputError: a bad seed; a start that is no topological order of the graph.
    """
    check_seed(seed)
    start = _checked_start(graph, start)
    from moccasin_mzn.heuristics.orders.order_search import diverse_orders

    return diverse_orders(relaxed(graph)[0], start, seed, stop, windows, tries)


def _in_place(
    graph: ComputationGraph, start: tuple[int, ...], time_limit: float | None, seed: int, stop: Callable[[], bool],
    turns: int | None,
) -> Ordering:  # fmt: skip
    """An order of a graph that runs in place: the best of its relaxation, where every computation spares what it may,
    if that is no worse than the start."""
    from moccasin_mzn.problem.judges.schedules import simulate

    other, more = relaxed(graph)
    found = least_peak_order(other, start=start, time_limit=time_limit, seed=seed, stop=stop, turns=turns)
    before, after = simulate(graph, start).peak, simulate(graph, found.order).peak
    order, peak, source = (start, before, "start") if before < after else (found.order, after, found.source)
    return replace(found, order=order, peak=peak, bound=found.bound - more, source=source)


def _checked_start(graph: ComputationGraph, start: Sequence[int] | None) -> tuple[int, ...]:
    if start is None:
        return graph.input_order()
    graph.check_order(start)
    return tuple(start)
