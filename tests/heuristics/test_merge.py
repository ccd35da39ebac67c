"""Merging local optima: the 0-1 program against every subset and the simulator; what a merger keeps and finds."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from few import few
from working import working

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ignore, later
from moccasin_mzn.heuristics.staged.merge import MOST_SETS, Merger, program_of
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.heuristics.staged.state import NONE, problem_of, sequence_of
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.solvers.cpsat.branching import branch

CHOICES = 8


def instance_of(seed: int, scale: tuple[int, int] = (1, 1)) -> Instance:
    draw = random.Random(seed)
    edges = [(u, v) for v in range(9) for u in range(v) if draw.random() < (0.8 if u == v - 1 else 0.3)]
    sizes, durations = ([draw.randint(0, 9) * factor for _ in range(9)] for factor in scale)
    graph = ComputationGraph(range(9), durations, sizes, edges)
    budget = draw.choice([0.7, 0.8, 0.9])
    return Instance.build(working(graph, seed) if seed % 2 else graph, budget, max_computations=2 + seed % 3)


def choices_of(problem, seed: int) -> list[tuple[int, int]]:
    every = [(v, k) for v in range(9) for k in range(v + 1, 9) if problem.slot_ptr[v] < problem.slot_ptr[v + 1]]
    return sorted(random.Random(seed).sample(every, min(CHOICES, len(every))))


def slots_of(problem, chosen) -> np.ndarray | None:
    """None: some node is computed again more often than it may be."""
    stage_of_slot = np.full(len(problem.slot_node), NONE, np.int64)
    for v, k in chosen:
        free = [s for s in range(problem.slot_ptr[v], problem.slot_ptr[v + 1]) if stage_of_slot[s] == NONE]
        if not free:
            return None
        stage_of_slot[free[0]] = k
    return stage_of_slot


def best_subset(instance, problem, choices) -> int | None:
    """Extra duration of the best that the simulator accepts, of all subsets."""
    found = []
    for count in range(len(choices) + 1):
        for chosen in itertools.combinations(choices, count):
            slots = slots_of(problem, chosen)
            if (
                slots is not None
                and judge(instance.graph, sequence_of(instance, problem, slots), instance.budget).feasible
            ):
                found.append(sum(int(problem.duration[v]) for v, _ in chosen))
    return min(found, default=None)


def solve(program):
    return branch(
        program, least=0, most=None, deadline=Deadline(60.0), seed=1, on_bound=ignore, stop=lambda found: False,
        presolve=True,
    )  # fmt: skip


@pytest.mark.parametrize("scale", [(1, 1), (10**12, 10**14)])
@pytest.mark.parametrize("seed", few(range(200), 12))
def test_the_best_subset_is_that_of_all_subsets(seed, scale):
    instance = instance_of(seed, scale)
    problem = problem_of(instance)
    choices = choices_of(problem, seed)
    solved, best = solve(program_of(problem, choices)), best_subset(instance, problem, choices)
    assert solved.ended and solved.infeasible == (best is None)
    if best is not None:
        chosen = [one for one, is_chosen in zip(choices, solved.solution, strict=False) if is_chosen]
        sequence = sequence_of(instance, problem, slots_of(problem, chosen))
        assert judge(instance.graph, sequence, instance.budget).feasible
        assert sum(int(problem.duration[v]) for v, _ in chosen) == solved.bound == best


def optima_of(instance, rounds: int) -> tuple[LocalSearch, list[np.ndarray]]:
    """Local optima of as many rounds; the merger of the search has them."""
    found: list[np.ndarray] = []
    search = LocalSearch(instance, 3)
    note = search._merger.note
    search._merger.note = lambda stages: (found.append(stages.copy()), note(stages))
    search.run(ignore, later(10**6), max_rounds=rounds)
    return search, found


def chain(nodes: int = 60) -> Instance:
    draw = random.Random(5)
    edges = {(v - 1, v) for v in range(1, nodes)} | {tuple(sorted(draw.sample(range(nodes), 2))) for _ in range(nodes)}
    amounts = [[draw.randint(1, 99) for _ in range(nodes)] for _ in range(2)]
    return Instance.build(ComputationGraph(range(nodes), *amounts, sorted(edges)), 0.8, max_computations=2)


def test_a_merger_finds_what_is_better_than_all_it_knows_or_nothing():
    instance = chain()
    search, found = optima_of(instance, 2)
    problem, good = search._problem, found[0]

    def fits(stages):
        return judge(instance.graph, sequence_of(instance, problem, stages), instance.budget).feasible

    def extra(stages):
        return sum(int(problem.duration[v]) for v in problem.slot_node[stages != NONE])

    worse = []
    for slot in np.flatnonzero(good == NONE):
        other = good.copy()
        other[slot] = problem.slot_node[slot] + 1
        worse += [other] if fits(other) else []
    assert len(worse) >= 2 and min(map(extra, worse)) > extra(good)
    merger = Merger(problem, 1)
    for stages in worse[:2]:
        merger.note(stages)
    merged = merger.merged(lambda: False)
    assert merged is not None and fits(merged) and extra(merged) <= extra(good)
    merger.note(merged)
    again = merger.merged(lambda: False)  # with some more inputs to choose among
    assert again is None or (fits(again) and extra(again) < extra(merged))


@pytest.mark.full
def test_a_search_with_mergers_repeats_itself():
    durations = [optima_of(chain(), 8)[0].duration for _ in range(2)]
    assert durations[0] == durations[1] is not None


def test_the_best_and_the_latest_sets_are_kept_each_once():
    problem = problem_of(chain())
    merger, one = Merger(problem, 1), np.full(len(problem.slot_node), NONE, np.int64)
    last = [x[-1] if len(x) else v for v, x in enumerate(np.split(problem.succ, problem.succ_ptr[1:-1]))]
    sets = []
    for v in range(30):
        if problem.slot_ptr[v] < problem.slot_ptr[v + 1] and last[v] > v + 1:
            other = one.copy()
            other[problem.slot_ptr[v]] = last[v]
            sets.append((int(problem.duration[v]), (v, int(last[v]))))
            merger.note(other)
            merger.note(other)
    assert len(merger.sets) == merger.new == len(sets)
    merger.merged(lambda: True)
    assert merger.new == 0 and len(merger.sets) <= MOST_SETS
    assert frozenset({min(sets)[1]}) in merger.sets and frozenset({sets[-1][1]}) in merger.sets
