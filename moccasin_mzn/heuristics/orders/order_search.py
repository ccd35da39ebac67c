"""The search for an order of least peak: all methods in turn, and what they have found and proven so far."""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.arrays import GraphArrays, graph_arrays
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.heuristics.orders.beam import Beam, Taste, widest_beam
from moccasin_mzn.heuristics.orders.cut_bound import CutBound, Forced, PrecedenceBound, promising
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate

# --- Local improvement of an order: windows around its peak, reordered by beam search -------------------------

# ::
#
#     memory            ##                     a window [first, last) around a position of large memory; what comes
#                    ## ####  #                before and after stays. A new order of the window is taken if its peak
#                 ############## ##            is smaller, or, every so often, no larger: that leads away from where
#     order     ...[           ]......         no window helps.


_SHORTEST, _DOUBLINGS = 20, 3.5
"""Nodes of a window: from the shortest to this many times twice as many."""
_HIGH = 0.98
"""Positions of at least this part of the peak are worth a window."""
_STRICT = 0.6
"""How often a window must become better."""


def improve_order(
    graph: ComputationGraph, numbered: Sequence[int], order: Sequence[int], beam: Beam, random_numbers: random.Random,
    stop: Callable[[], bool], rounds: int | None = None,
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Orders of less and less peak.

    Args:
        numbered: node k of the beam's arrays is `numbered[k]`, a position in `graph.nodes`.
        order: positions in `graph.nodes`.
        rounds: windows to try; None: until stopped.
    """
    number = {v: k for k, v in enumerate(numbered)}
    current, n = [number[v] for v in order], len(order)
    memory = simulate(graph, order).memory
    peak, tried = max(memory), 0
    while not stop() and tried != rounds:
        tried += 1
        least = peak if random_numbers.random() < 0.5 else _HIGH * peak
        centre = random_numbers.choice([at for at, amount in enumerate(memory) if amount >= least])
        length = int(_SHORTEST * 2 ** random_numbers.uniform(0, _DOUBLINGS))
        first = max(0, centre - random_numbers.randrange(length))
        last = min(n, first + length)
        limit = max(memory[first:last]) - (random_numbers.random() < _STRICT)
        taste = Taste(
            backward=random_numbers.random() < 0.5,
            power=random_numbers.choice((0.0, 0.3, 1.0)),
            noise=random_numbers.choice((0.0, 0.1, 0.5)),
        )
        found = beam.run(limit, taste, stop, current[:first], current[first:last])
        if found.order is None:
            continue
        better = graph.together([numbered[k] for k in (*current[:first], *found.order, *current[last:])])
        taken = simulate(graph, better).memory
        if max(taken) > peak and graph.output_of is not None:
            continue  # the window's order had outputs computed apart
        current, memory = [number[v] for v in better], taken
        if max(memory) < peak:
            peak = max(memory)
            yield better


# --- The search -----------------------------------------------------------------------------------------------


WINDOW_WIDTH = 64
"""Width of the beams in windows."""
FIRST_WIDTH, GROWTH = 16, 4
FIRST_NODES, MOST_NODES = 30, 1000
"""Between at most this many nodes precedences are sought."""
FIRST_PATIENCE = 1.0
"""Processor seconds to refute a limit, at first; twice as many nodes get four times the seconds."""
FAILURES = 2
"""Limits that may stand before more nodes are looked at."""
WINDOWS_PER_TURN = 50
"""Windows of one turn where turns are counted."""
FIRST_WINDOW_SECONDS, MOST_WINDOW_SECONDS = 0.05, 2.0
"""Seconds of one local improvement, which restarts from the best order: longer each time, up to the second number."""


class OrderSearch:
    """Best order and best bound so far. Only the simulator's peaks count.

    Raises:
        JudgeError: from all methods, for what the simulator contradicts.

    Args:
        start: an order of the graph.
        on_progress: called after every improvement with True if the order is new.
    """

    def __init__(
        self, graph: ComputationGraph, start: tuple[int, ...], seed: int, on_progress: Callable[[bool], None] = ignore
    ) -> None:  # fmt: skip
        self.graph, self.start, self.on_progress = graph, start, on_progress
        self.order, self.peak, self.source = start, simulate(graph, start).peak, "start"
        self.bound, self.bound_source = graph.largest_working_set().memory, "largest working set"
        self._forced: list[Forced] = []
        self._seed = seed
        self._random = random.Random(seed)

    @property
    def proven(self) -> bool:
        return self.peak <= self.bound

    def run(self, over: Callable[[], bool], turns: int | None = None) -> None:
        """Search until the best order is proven to be one, or `over()`. The methods share the time evenly.

        Args:
            turns: end after this many turns, which the methods then take in turn; no clock is asked, so that
                the same seed gives the same order and bound.
        """

        def ended() -> bool:
            return self.proven or over()

        if ended():
            return
        arrays = graph_arrays(self.graph, self.start)
        cuts = CutBound(arrays)
        self._prove(cuts.improve(self.bound, simulate(self.graph, self.start).memory, over), "minimum cuts")
        methods = [self._widening(arrays, True, ended), self._widening(arrays, False, ended)]
        if self.graph.parts is not None:
            methods.insert(0, self._streams(ended))
        narrow = Beam(arrays, WINDOW_WIDTH, self._seed)
        if turns is not None:
            methods.append(self._counted_windows(narrow, ended))
            self._take_turns(methods, turns, ended)
            return
        methods.append(self._windows(narrow, ended))
        methods.append(self._precedences(cuts, ended))
        spent = [0.0] * len(methods)
        while not ended():
            turn = spent.index(min(spent))
            begin = time.monotonic()
            next(methods[turn])
            spent[turn] += time.monotonic() - begin

    def _take_turns(self, methods: Sequence[Iterator[None]], turns: int, ended: Callable[[], bool]) -> None:
        """Give turns to the methods, one after the other."""
        for turn in range(turns):
            if ended():
                return
            next(methods[turn % len(methods)])

    def _counted_windows(self, beam: Beam, ended: Callable[[], bool]) -> Iterator[None]:
        """Local improvement of the best order; this many windows for each `next`."""
        while True:
            for order in improve_order(
                self.graph, self.start, self.order, beam, self._random, ended, WINDOWS_PER_TURN
            ):  # fmt: skip
                self.offer(order, "windows")
            yield

    def _streams(self, ended: Callable[[], bool]) -> Iterator[None]:
        """Orders in which layers in parts stream through memory; three rounds of annealing for each `next`."""
        from moccasin_mzn.heuristics.streaming.layers import layers_of
        from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

        instance = Instance(self.graph, self.start, self.bound, (1,) * len(self.start))
        plans = PlanAnnealing(instance, layers_of(self.graph, self.start), self._seed, once=True)
        while True:
            plans.run(
                lambda order: self.offer(tuple(order), "streaming"), ended, max_rounds=3,
                on_peak=lambda order: self.offer(tuple(order), "streaming"),
            )  # fmt: skip
            yield

    def _widening(self, arrays: GraphArrays, backward: bool, ended: Callable[[], bool]) -> Iterator[None]:
        """Beams in one direction, wider and wider as long as memory lasts; one run for each `next`."""
        width, beam = 1, Beam(arrays, 1, self._seed)
        while True:
            source = "list scheduling" if width == 1 else f"beam of {width}"
            for power in (0.0, 0.3) if width <= WINDOW_WIDTH else (0.0,):
                yield from self._halve(beam, Taste(backward, power), source, ended)
            yield
            wider = min(FIRST_WIDTH if width == 1 else GROWTH * width, widest_beam(arrays.node_count))
            if wider > width:
                width = wider
                del beam  # frees its memory first
                beam = Beam(arrays, width, self._seed)
            else:
                yield from self._halve(beam, Taste(backward, noise=0.1, spread=0.1), source, ended)

    def _halve(self, beam: Beam, taste: Taste, source: str, ended: Callable[[], bool]) -> Iterator[None]:
        """One beam with ever other limits: it begins at the bound, then halves what is between failure and success.

        Wide beams are dear: one that fails without a proof tries the easiest limit only.
        """
        failed, limit = self.bound, self.bound  # below `failed` this beam finds nothing
        while failed < self.peak and not ended():
            found = beam.run(limit, taste, ended)
            before = self.peak
            if found.order is not None:
                self.offer(tuple(self.start[k] for k in found.order), source)
            if found.order is not None and self.peak == before:  # outputs apart: together they take more
                failed = limit + 1
            elif found.order is None:
                if found.proven:
                    self._prove(found.needed, f"exhausted {source}")
                failed = max(limit + 1, found.needed)
            easiest = found.order is None and not found.proven and beam.width > WINDOW_WIDTH
            limit = self.peak - 1 if easiest else min((failed + self.peak) // 2, self.peak - 1)
            yield

    def _precedences(self, cuts: CutBound, ended: Callable[[], bool]) -> Iterator[None]:
        """Higher and higher limits to refute, between more and more nodes; one limit for each `next`."""
        place = {v: k for k, v in enumerate(self.start)}
        number, patience = FIRST_NODES, FIRST_PATIENCE
        while True:
            memory = [0] * len(self.start)
            for v, amount in zip(self.order, simulate(self.graph, self.order).memory, strict=True):
                memory[place[v]] = amount
            claims = PrecedenceBound(cuts, promising(cuts, memory, number, ended), self._forced)
            hopeless, failures = self.peak, 0
            while (hopeless - self.bound) * 1000 > self.peak - self.bound and failures < FAILURES and not ended():
                limit, until = (self.bound + hopeless) // 2, time.thread_time() + patience
                if claims.refutes(limit, lambda: ended() or time.thread_time() >= until):  # noqa: B023
                    self._prove(limit + 1, f"precedences of {count_text(number, 'node')}")
                else:
                    hopeless, failures = limit, failures + 1
                yield
            number, patience = min(2 * number, MOST_NODES), 4 * patience
            yield

    def _windows(self, beam: Beam, ended: Callable[[], bool]) -> Iterator[None]:
        """Local improvement of the best order; a while for each `next`."""
        seconds = FIRST_WINDOW_SECONDS
        while True:
            deadline = Deadline(seconds)
            for order in improve_order(
                self.graph, self.start, self.order, beam, self._random, lambda: ended() or deadline.over()  # noqa: B023
            ):  # fmt: skip
                self.offer(order, "windows")
            seconds = min(2 * seconds, MOST_WINDOW_SECONDS)
            yield

    def offer(self, order: tuple[int, ...], source: str) -> None:
        """Take an order for judgement, and keep it if it is the best."""
        order = self.graph.together(order)
        simulation = simulate(self.graph, order)
        if not simulation.feasible or len(order) != len(self.start):
            raise JudgeError(f"{source} returned what is no order")
        if simulation.peak < self.peak:
            self.order, self.peak, self.source = order, simulation.peak, source
            self._check()
            self.on_progress(True)

    def _prove(self, bound: int, source: str) -> None:
        """No order has a peak below `bound`."""
        if bound > self.bound:
            self.bound, self.bound_source = bound, source
            self._check()
            self.on_progress(False)

    def _check(self) -> None:
        if self.bound > self.peak:
            claim = f"{self.bound_source} claims that no order has a peak below {self.bound}"
            raise JudgeError(f"{claim}, but the simulator finds {self.peak} for that of {self.source}")


@functools.cache
def compile_all() -> None:
    """Load the compiled code, or compile it, which takes seconds, before any clock runs."""
    graph = ComputationGraph(nodes=("a", "b", "c"), durations=(1, 1, 1), sizes=(1, 2, 1), edges=((0, 2), (1, 2)))
    arrays = graph_arrays(graph, (0, 1, 2))
    beam = Beam(arrays, 1)
    for backward in (False, True):
        beam.run(graph.total_size, Taste(backward), lambda: False)
    CutBound(arrays).improve(0, (1, 3, 4), lambda: False)


def diverse_orders(
    graph: ComputationGraph, start: tuple[int, ...], seed: int, stop: Callable[[], bool], rounds: int,
    tries: int | None = None,
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Orders of low peak, each from a narrow beam of random taste whose order is improved in `rounds` windows.

    Args:
        tries: how many beams; None: until stopped.
    """
    arrays, random_numbers = graph_arrays(graph, start), random.Random(seed)
    seen: set[tuple[int, ...]] = set()
    beams = [Beam(arrays, width, seed) for width in (FIRST_WIDTH, WINDOW_WIDTH)]
    least, most = graph.largest_working_set().memory, simulate(graph, start).peak
    for number in itertools.count():
        if stop() or number == tries:
            return
        taste = Taste(
            backward=number % 2 == 0,
            power=random_numbers.choice((0.0, 0.3, 1.0)),
            spread=random_numbers.choice((0.0, 0.1, 0.3)) if number > 1 else 0.0,
            noise=0.0 if number < 2 else 0.1,
        )
        order = _by_halving(graph, start, beams[0], taste, least, most, stop)
        for better in improve_order(graph, start, order, beams[1], random_numbers, stop, rounds):
            order = better
        if order not in seen:
            seen.add(order)
            yield order


def _by_halving(
    graph: ComputationGraph, start: tuple[int, ...], beam: Beam, taste: Taste, failed: int, peak: int,
    stop: Callable[[], bool],
) -> tuple[int, ...]:  # fmt: skip
    """The best order of one beam and taste, to a hundredth; `start` if that is no worse."""
    order = start
    while (peak - failed) * 100 > peak and not stop():
        found = beam.run((failed + peak) // 2, taste, stop)
        if found.order is None:
            failed = max((failed + peak) // 2 + 1, found.needed)
        else:
            order = tuple(start[k] for k in found.order)
            peak = simulate(graph, order).peak
    return order
