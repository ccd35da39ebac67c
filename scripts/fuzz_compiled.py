#!/usr/bin/env python
"""Do compiled searches stay within their arrays? Random graphs, orders and warm starts through all of them.

    NUMBA_BOUNDSCHECK=1 python scripts/fuzz_compiled.py --runs 10000 --seed 1 [--only solve-warm,solve-free]

All is compiled with a check of every index, negative ones included, which numba would take to count from the end. What
is found is judged by the simulator, and must be no worse than the schedule to start from. Each run is reported with its
number and seed; exit status 1 if one fails.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from numba import config, types
from numba.np import arrayobj

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph
from moccasin_mzn.heuristics.orders.least_peak import good_orders, least_peak_order
from moccasin_mzn.machine.addresses.release import Reserved, Window, near_by
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.buffer import Buffer, Gap
from moccasin_mzn.problem.instance import Instance, without_tail
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, plan_of_sequence
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import known_at_once
from moccasin_mzn.search.options import Options
from moccasin_mzn.strategies import find_strategy
from moccasin_mzn.strategies.dtr import RULES

MOST_NODES = 14
MOST_AGAIN = 12
"""Useless computations added to a schedule."""
LOOKS = 5
"""After this many looks at the clock a search is stopped."""
SECONDS = 0.06, 0.12
"""The seconds of a call of `solve` along the input order, and in free order."""


# Requests


@dataclass(frozen=True)
class Question:
    """An instance, and schedules to start from."""

    instance: Instance
    start: tuple[int, ...] | None
    """Within the budget and C_v; None: none is known."""
    drafts: tuple[tuple[int, ...], ...]
    """Every node computed, inputs first; within C_v or not."""


def draw_graph(draw: random.Random) -> ComputationGraph:
    """Chains, bushes and crowds of up to `MOST_NODES` nodes, in an order of their own; amounts of mixed magnitudes."""
    n = draw.choice((1, 2, 3, *range(4, MOST_NODES + 1)))
    adjacent, distant = draw.choice((0.0, 0.5, 1.0, 1.0)), draw.choice((0.05, 0.2, 0.4, 0.8))
    order = draw.sample(range(n), n)
    pairs = itertools.combinations(range(n), 2)
    edges = [(order[u], order[v]) for u, v in pairs if draw.random() < (adjacent if v == u + 1 else distant)]
    amounts = [_amounts(draw, n) for _ in range(2)]
    return ComputationGraph(range(n), *amounts, edges, order=order)


def _amounts(draw: random.Random, n: int) -> list[int]:
    most = TOTAL_LIMIT // n
    largest = draw.choice((1, 9, 9, 1000, 10**9, most))
    return [draw.choice((0, 1, largest, *[draw.randint(0, largest)] * 6)) for _ in range(n)]


def draw_order(draw: random.Random, graph: ComputationGraph) -> tuple[int, ...]:
    """A random topological order."""
    missing, order = [len(inputs) for inputs in graph.predecessors], []
    ready = [v for v, count in enumerate(missing) if not count]
    while ready:
        order.append(ready.pop(draw.randrange(len(ready))))
        for x in graph.successors[order[-1]]:
            missing[x] -= 1
            ready += [x] if not missing[x] else []
    return tuple(order)


def draw_schedule(draw: random.Random, graph: ComputationGraph, order: Sequence[int], staged: bool) -> tuple[int, ...]:
    """An order with recomputations before reads; in stages of the order, or by chance in no stages at all."""
    staged |= draw.random() < 0.5
    place, chance, sequence = {v: k for k, v in enumerate(order)}, draw.choice((0.1, 0.4, 0.8)), []
    for k, v in enumerate(order):
        before = [u for u in graph.predecessors[v] if draw.random() < chance]
        before += [u for w in before for u in graph.predecessors[w] if draw.random() < chance / 2]
        before = sorted({u for u in before if place[u] < k}, key=place.__getitem__)
        if not staged:
            draw.shuffle(before)
        sequence += [*before, v]
    return tuple(sequence)


def with_useless(draw: random.Random, graph: ComputationGraph, sequence: Sequence[int], budget: int) -> tuple[int, ...]:
    """A schedule with computations that it does not need, at its end and, where there is room, within.

    One in stages of an order stays so, its end aside.
    """
    order, longer = tuple(dict.fromkeys(sequence)), list(sequence)
    staged = first_out_of_stage(order, sequence) is None
    for _ in range(draw.randint(0, MOST_AGAIN)):
        at = draw.randrange(1, len(longer) + 1)
        trial = [*longer[:at], draw.choice(longer[:at]), *longer[at:]]
        kept = not staged or first_out_of_stage(order, without_tail(trial)) is None
        if kept and judge(graph, trial, budget).feasible:
            longer = trial
    tail = draw.sample(order, draw.randint(0, len(order)))
    if draw.random() < 0.5:
        tail.sort(key=order.index)
    for v in tail:
        if judge(graph, [*longer, v], budget).feasible:
            longer.append(v)
    return tuple(longer)


def overwriting(draw: random.Random, graph: ComputationGraph) -> ComputationGraph:
    """The same graph, run in place, where chance decides what may be overwritten."""
    rows = [
        [u for u in inputs if graph.sizes[u] >= graph.sizes[v] and draw.random() < 0.7]
        for v, inputs in enumerate(graph.predecessors)
    ]
    return replace(graph, in_place=rows, runs_in_place=True)


def draw_question(draw: random.Random, staged: bool, in_place: bool = False) -> Question:
    """An instance that takes a search, as a rule, with a schedule to start from where chance made one.

    Args:
        staged: the schedules are in stages of the input order.
        in_place: the graph runs in place.
    """
    while True:
        graph = overwriting(draw, draw_graph(draw)) if in_place else draw_graph(draw)
        order = draw_order(draw, graph)
        along = [order if staged or draw.random() < 0.5 else draw_order(draw, graph) for _ in range(8)]
        drafts = [draw_schedule(draw, graph, chosen, staged) for chosen in along]
        best, peak = min(drafts, key=lambda draft: simulate(graph, draft).peak), simulate(graph, order).peak
        least = simulate(graph, best).peak
        budget = least if least < peak else max(0, peak - draw.choice((0, 1, draw.randint(0, peak))))
        start = with_useless(draw, graph, best, budget) if least <= budget else None
        most = [max(draw.choice((1, 2, 2, 3, 20)), start.count(v) if start else 1) for v in range(len(graph.nodes))]
        instance = Instance(graph, order, budget, tuple(most), free_order=not staged)
        if known_at_once(instance) is None or draw.random() < 0.05:
            return Question(instance, start, tuple(drafts))


# Runs: each raises an error where something is wrong


class Looks:
    """Stops a search after a number of looks at the clock."""

    def __init__(self, most: int = LOOKS) -> None:
        self.left = most

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def check(instance: Instance, sequence: Sequence[int], longest: int | None = None) -> int:
    """The schedule's duration; AssertionError: no schedule within budget and C_v, or longer than `longest`."""
    simulation = judge(instance.graph, sequence, instance.budget)
    assert simulation.feasible, simulation.violations[0].message
    assert all(count <= instance.max_computations[v] for v, count in Counter(sequence).items()), "more than C_v"
    assert longest is None or simulation.duration <= longest, f"{simulation.duration} is worse than {longest}"
    return simulation.duration


def solve_warm(draw: random.Random) -> None:
    """`solve` along the input order, without the model, from a warm start."""
    _solve(draw, staged=True)


def solve_free(draw: random.Random) -> None:
    """The same in free order."""
    _solve(draw, staged=False)


def _solve(draw: random.Random, staged: bool) -> None:
    question = draw_question(draw, staged, in_place=draw.random() < 0.3)
    instance, start = question.instance, question.start if draw.random() < 0.8 else None
    options = Options(search="only", time_limit=SECONDS[not staged], seed=draw.randrange(1000))
    result = solve_instance(instance, options, warm_start=start)
    if start is not None:
        assert result.valid, "a warm start, and no answer"
    if result.valid:
        check(instance, result.sequence, check(instance, start) if start else None)


def stages(draw: random.Random) -> None:
    """Local search from a schedule and from drafts, of all stages or within some."""
    question = draw_question(draw, staged=True, in_place=draw.random() < 0.5)
    within = tuple(sorted(draw.choices(range(len(question.instance.order)), k=2))) if draw.random() < 0.3 else None
    _local_search(draw, question.instance, question.start, question.drafts, within)


def _local_search(
    draw: random.Random, instance: Instance, start: Sequence[int] | None, drafts: Sequence[Sequence[int]] = (),
    within: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    from moccasin_mzn.heuristics.staged.search import LocalSearch

    waiting, record = list(drafts), Board(instance, time.monotonic())
    if start is not None:
        record.offer(start, "the warm start")
    longest = record.value
    LocalSearch(instance, draw.randrange(1000), within).run(
        lambda sequence: record.offer(sequence, "local search") and check(instance, sequence),
        Looks(),
        lambda duration: record.answer if record.answer and duration is None else None,
        lambda: waiting.pop() if waiting else None,
    )
    if record.answer is not None:
        check(instance, record.answer, longest)


def sequences(draw: random.Random) -> None:
    """Annealing in free order, and then local search along the order of what it found."""
    from moccasin_mzn.heuristics.free_order.search import OrderAnnealing

    question = draw_question(draw, staged=False)
    instance, start, waiting = question.instance, question.start, list(question.drafts)
    record = Board(instance, time.monotonic())
    if start is not None:
        record.offer(start, "the warm start")
    OrderAnnealing(instance, draw.randrange(1000)).run(
        lambda sequence: record.offer(sequence, "annealing") and check(instance, sequence),
        Looks(3 * LOOKS),
        lambda duration: record.answer if duration is None else None,
        lambda: waiting.pop() if waiting else None,
    )
    best = record.answer
    if best is None:
        return
    check(instance, best, check(instance, start) if start else None)
    order = tuple(dict.fromkeys(best))
    if first_out_of_stage(order, best) is None:
        _local_search(draw, replace(instance, order=order, free_order=False), best)


def streams(draw: random.Random) -> None:
    """Streaming plans, of layers of a few parts each."""
    from moccasin_mzn.heuristics.streaming.layers import Layers
    from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

    instance, parts, width = draw_question(draw, staged=False).instance, draw.randint(1, 6), draw.randint(1, 3)
    place = {v: at for at, v in enumerate(instance.order)}
    places = [divmod(place[v], parts) for v in range(len(place))]
    layers = Layers(*zip(*((x, part // width, part % width) for x, part in places), strict=True))
    PlanAnnealing(instance, layers, draw.randrange(1000)).run(lambda sequence: check(instance, sequence), Looks())


def orders(draw: random.Random) -> None:
    """Orders of least peak: beams, cuts, precedences and windows."""
    graph, seed = draw_graph(draw), draw.randrange(1000)
    start = draw_order(draw, graph)
    found = least_peak_order(graph, time_limit=0.02, seed=seed, start=start)
    assert found.bound <= simulate(graph, found.order).peak <= simulate(graph, start).peak
    for order in itertools.islice(good_orders(graph, seed=seed, start=start, stop=Looks(10), windows=3), 2):
        assert simulate(graph, order).feasible and len(order) == len(start)


def paging(draw: random.Random) -> None:
    """Plans with slow memory, from a schedule."""
    from moccasin_mzn.machine.paging.search import PagingSearch

    question = draw_question(draw, staged=True)
    instance, graph = question.instance, question.instance.graph
    slow = draw.choice((None, 0, graph.total_size // 2))
    platform = paging_platform(graph, instance.budget, PagingCosts(), slow)
    goal = Goal(draw.choice(("duration", "energy", "traffic")), max_traffic=draw.choice((None, graph.total_size)))
    problem = PlanProblem(replace(instance, free_order=False), platform, goal)
    known = question.start and plan_of_sequence(question.start)

    def offer(plan: Sequence) -> None:
        assert judge_plan(platform, plan, goal).feasible

    PagingSearch(problem, draw.randrange(1000)).run(offer, Looks(4 * LOOKS), lambda: known)


def addresses(draw: random.Random) -> None:
    """Arenas of a schedule, and schedules near it with memory reserved."""
    question = draw_question(draw, staged=True)
    sequence = question.start or question.drafts[0]
    graph, alignment = question.instance.graph, draw.choice((1, 1, 2, 64))
    if graph.total_size * len(sequence) * alignment < TOTAL_LIMIT:
        buffers = placing_of(graph, simulate(graph, sequence)).buffers
        arena = search_arena(buffers, alignment, time_limit=0.05, seed=draw.randrange(1000), stop=Looks(40))
        Arena(buffers, arena.offsets, alignment)  # judged at birth
        given = some_given(draw, arena)
        arena = search_arena(given, alignment, time_limit=0.05, seed=draw.randrange(1000), stop=Looks(40))
        Arena(given, arena.offsets, alignment)
    n = len(question.instance.order)
    first, last = sorted(draw.choices(range(n), k=2))
    reserved = Reserved(question.instance, (Window(first, last, draw.randint(0, question.instance.budget // 2 + 1)),))
    if graph.total_size + reserved.windows[0].reserved <= TOTAL_LIMIT:
        within = Window(first, last) if question.start and draw.random() < 0.5 else None
        found = near_by(reserved, sequence, 1.0, draw.randrange(1000), Looks(), within)
        assert found is None or judge(graph, found, question.instance.budget).feasible


def some_given(draw: random.Random, arena: Arena) -> list[Buffer]:
    """The buffers of an arena, some of which are to stay where they are, want to be elsewhere, or have gaps."""
    buffers = []
    for buffer, offset in zip(arena.buffers, arena.offsets, strict=True):
        times = sorted(draw.sample(range(buffer.start, buffer.end + 1), min(4, buffer.end - buffer.start + 1)))
        low = draw.randrange(max(1, buffer.size))
        windows = (None, (low, draw.randint(low + 1, buffer.size))) if buffer.size else (None,)
        gaps = [Gap(*pair, draw.choice(windows)) for pair in zip(times[::2], times[1::2], strict=False)]
        buffers.append(
            replace(
                buffer,
                offset=offset if draw.random() < 0.2 else None,
                hint=draw.randint(0, arena.size) if draw.random() < 0.2 else None,
                gaps=tuple(gap for gap in gaps if draw.random() < 0.5),
            )
        )
    return buffers


def strategies(draw: random.Random) -> None:
    """Dynamic Tensor Rematerialization, with each of its costs."""
    instance = replace(draw_question(draw, staged=True).instance, free_order=False)
    for name in RULES:
        result = apply(instance, find_strategy(name))
        assert not result.valid or judge(instance.graph, result.sequence, instance.budget).feasible


RUNS: dict[str, tuple[Callable[[random.Random], None], int]] = {
    "solve-warm": (solve_warm, 4),
    "solve-free": (solve_free, 4),
    "stages": (stages, 4),
    "sequences": (sequences, 3),
    "streams": (streams, 1),
    "orders": (orders, 1),
    "paging": (paging, 1),
    "addresses": (addresses, 1),
    "strategies": (strategies, 1),
}
"""By name, with how many of 20 runs are of the kind."""


# The checks


def check_all_indices() -> None:
    """Have an IndexError raised for every index that is out of range or negative, and see that it is.

    Raises:
        RuntimeError: this numba has no such checks, or NUMBA_BOUNDSCHECK was not set when it was loaded.
    """

    def as_it_is(context, builder, kind, index, size):
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    if not config.BOUNDSCHECK:
        raise RuntimeError("indices are not checked: set NUMBA_BOUNDSCHECK=1")
    arrayobj.fix_integer_index = as_it_is  # instead of adding the size to a negative one
    from moccasin_mzn.heuristics.compiling import compiled

    @compiled
    def entry(row, at):
        return row[at]

    row = np.arange(3)
    if entry(row, 2) != 2 or not all(_refused(entry, row, at) for at in (-4, -1, 3, 4)):
        raise RuntimeError("this numba compiles without the checks of indices that are asked for")


def _refused(entry: Callable[[np.ndarray, int], int], row: np.ndarray, at: int) -> bool:
    try:
        entry(row, at)
    except IndexError:
        return True
    return False


def few_moves() -> list[tuple[ModuleType, str, float]]:
    """Constants of modules with which searches look at the clock often: graphs are small, and runs are to be short."""
    from moccasin_mzn.heuristics.staged import search as local
    from moccasin_mzn.machine.addresses import search as arenas
    from moccasin_mzn.machine.paging import search as plans

    return [
        (local, "CHUNK", 2_000),
        (plans, "EVENTS_PER_CHUNK", 50_000),
        (arenas, "CHUNK_WORK", 1e4),
        (arenas, "CHUNK_STEPS", 1e4),
    ]


@dataclass
class Tally:
    """Figures of one kind of run."""

    runs: int = 0
    errors: int = 0
    seconds: float = 0.0
    """Figures of all processors."""


def run(names: Sequence[str], count: int, seed: int, announce: Callable[[str], None]) -> dict[str, Tally]:
    """A number of runs, of the named kinds in turn."""
    kinds = [name for name in names for _ in range(RUNS[name][1])]
    tallies = {name: Tally() for name in names}
    for number in range(count):
        name = kinds[number % len(kinds)]
        tally, begin = tallies[name], time.process_time()
        try:
            RUNS[name][0](random.Random(f"{seed} {number}"))
        except Exception:
            tally.errors += 1
            announce(f"run {number} of seed {seed}, {name}:\n{traceback.format_exc()}")
        tally.runs += 1
        tally.seconds += time.process_time() - begin
    return tallies


def main() -> int:
    """Read the command line, run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(RUNS), metavar="NAME,...", help=f"of {', '.join(RUNS)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if not set(names) <= set(RUNS):
        parser.error(f"--only: expected some of {', '.join(RUNS)}")
    check_all_indices()
    for module, name, value in few_moves():
        setattr(module, name, value)
    begin = time.monotonic()
    tallies = run(names, arguments.runs, arguments.seed, lambda text: print(text, file=sys.stderr, flush=True))
    print("| search | runs | errors | CPU s |\n| --- | ---: | ---: | ---: |")
    for name, tally in tallies.items():
        print(f"| {name} | {tally.runs} | {tally.errors} | {tally.seconds:.0f} |")
    errors = sum(tally.errors for tally in tallies.values())
    print(f"\n{arguments.runs} runs, {errors} errors, {time.monotonic() - begin:.0f} s")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
