"""First schedules by minimum cuts: what they are, and that large graphs have one at once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from working import working

from moccasin_mzn.graphs.generators.random_layered import random_layered, width_of_layers
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.staged.construct import construct
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.heuristics.staged.state import (
    BLOCK,
    EXCESS,
    NONE,
    PLAIN,
    add,
    empty_state,
    problem_of,
    remove,
    sequence_of,
)
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate


def instance_of(seed: int, nodes: int, most: int = 2) -> Instance:
    """A chain with reads of all lengths."""
    draw = random.Random(seed)
    edges = {(v - 1, v) for v in range(1, nodes)}
    edges |= {tuple(sorted(draw.sample(range(nodes), 2))) for _ in range(2 * nodes)}
    amounts = [[draw.randint(0, 9) for _ in range(nodes)] for _ in range(2)]
    graph = ComputationGraph(range(nodes), amounts[0], amounts[1], sorted(edges))
    return Instance.build(working(graph, seed) if seed % 2 else graph, 0.85, max_computations=most)


def peaks_of(instance: Instance, sequence: tuple[int, ...]) -> list[int]:
    """The largest memory of each stage, from the simulator."""
    place = {v: k for k, v in enumerate(instance.order)}
    peaks, stage = [0] * len(instance.order), 0
    for v, memory in zip(sequence, simulate(instance.graph, sequence).memory, strict=True):
        peaks[stage] = max(peaks[stage], memory)
        stage += place[v] == stage
    return peaks


def check_account(instance, problem, state):
    peaks = peaks_of(instance, sequence_of(instance, problem, state.stage))
    assert state.peak.tolist() == peaks
    blocks = [max(peaks[at : at + BLOCK]) for at in range(0, len(peaks), BLOCK)]
    counted = [peak for peak in blocks for _ in range(BLOCK)] if len(peaks) > PLAIN else peaks
    assert state.totals[EXCESS] == sum(max(0, peak - problem.budget) for peak in counted)
    assert len(peaks) <= PLAIN or state.top.tolist() == blocks


@pytest.mark.parametrize("seed", range(2))
def test_memory_shifted_block_by_block_is_the_simulators(seed):
    instance, draw = instance_of(seed, PLAIN + BLOCK + 40), random.Random(seed)
    problem = problem_of(instance)
    state = empty_state(problem)
    for _ in range(4):
        for _ in range(60):
            slot = draw.randrange(len(problem.slot_node))
            v = int(problem.slot_node[slot])
            if state.stage[slot] != NONE:
                remove(problem, state, slot)
            elif v + 1 < len(instance.order):
                add(problem, state, slot, draw.randrange(v + 1, len(instance.order)))
        check_account(instance, problem, state)


@pytest.mark.few(1)
@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_constructed_set_is_a_set_and_no_further_over_the_budget(seed, most):
    instance = instance_of(seed, 120, most)
    problem = problem_of(instance)
    state = empty_state(problem)
    before = int(state.totals[EXCESS])
    stages, price = construct(problem, state, lambda: False)
    assert price is not None and price > 0
    sequence = sequence_of(instance, problem, stages)
    simulation = simulate(instance.graph, sequence)
    assert not simulation.violations
    assert max(map(sequence.count, range(len(instance.order)))) <= most
    excess = sum(max(0, peak - instance.budget) for peak in peaks_of(instance, sequence))
    assert excess < before


def test_construction_stops_when_asked():
    problem = problem_of(instance_of(1, 60))
    stages, price = construct(problem, empty_state(problem), lambda: True)
    assert np.all(stages == NONE) and price is None


def first_schedule(graph: ComputationGraph, budget: float, chunks: int) -> tuple[int, ...] | None:
    """The first one, after so many chunks of annealing at most."""
    instance, found, asked = Instance.build(graph, budget), [], [0]

    def stop() -> bool:
        asked[0] += len(found) == 0
        return bool(found) or asked[0] > 200 + chunks

    LocalSearch(instance).run(found.append, stop)
    if not found:
        return None
    simulation = judge(graph, found[0], instance.budget)
    assert simulation.feasible
    return found[0]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_large_graphs_have_a_schedule_at_once(kind):
    graph = random_layered(6000, 7) if kind == "dense" else random_layered(9000, 1, width=width_of_layers(9000, 21.2))
    assert LocalSearch(Instance.build(graph, 0.9)).large
    assert first_schedule(graph, 0.9, chunks=20) is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_largest_graphs_have_a_schedule_at_once(kind):
    n = 100_000
    graph = random_layered(n, 7) if kind == "dense" else random_layered(n, 1, width=width_of_layers(n, 21.2))
    assert first_schedule(graph, 0.9, chunks=200) is not None
