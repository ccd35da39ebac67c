"""Memory reserved in stages: what the further nodes take, and what schedules found with them keep to."""

from __future__ import annotations

import random

import pytest
from cases import draw_case
from oracle import fixed_order_schedule

from moccasin_mzn.addresses.release import Reserved, half, near_by, reserved_but, windows
from moccasin_mzn.generators.random_layered import random_layered
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.instance import Instance
from moccasin_mzn.simulate import judge, simulate


def draw_ranges(rng: random.Random, count: int) -> tuple[tuple[int, int], ...]:
    kept = [k for k in range(count) if rng.random() < 0.6]
    windows_of_one = [(k, k) for k in range(count) if k not in kept]
    return reserved_but(count, windows_of_one)


def memory_by_stage(instance: Instance, sequence: tuple[int, ...]) -> list[int]:
    """The most in each stage of the order."""
    most, stage, seen = [0] * len(instance.order), 0, set()
    for v, memory in zip(sequence, simulate(instance.graph, sequence).memory, strict=True):
        most[stage] = max(most[stage], memory)
        if v not in seen:
            seen.add(v)
            stage += 1
    return most


@pytest.mark.parametrize("seed", range(60))
def test_the_further_nodes_take_the_amount_in_their_stages_and_nothing_else(seed):
    rng, case = random.Random(seed), draw_case(seed)
    best = fixed_order_schedule(case.graph, case.graph.input_order(), case.graph.total_size + 1, 3)
    n = len(case.graph.nodes)
    instance = Instance.build(case.graph, case.graph.total_size + 100, max_computations=3)
    reserved = Reserved(instance, rng.randint(1, 50), draw_ranges(rng, n))
    longer = reserved.inserted(best.sequence)
    extended = reserved.extended()
    assert reserved.stripped(longer) == best.sequence
    assert reserved.inserted(instance.order) == extended.order
    memory = simulate(extended.graph, longer)
    assert memory.feasible and memory.duration == best.duration
    plain, stage, seen = iter(simulate(case.graph, best.sequence).memory), 0, set()
    for v, amount in zip(longer, memory.memory, strict=True):
        if v < n:
            inside = any(first <= stage <= last for first, last in reserved.ranges)
            assert amount - next(plain) == (reserved.amount if inside else 0)
            if v not in seen:
                seen.add(v)
                stage += 1


@pytest.mark.parametrize("seed", range(3))
def test_schedules_keep_to_what_is_not_reserved(seed):
    graph = random_layered(100, seed=seed)
    instance = Instance.build(graph, 0.9, max_computations=3)
    amount = instance.budget // 50
    released = next(windows(instance))
    reserved = Reserved(instance, amount, reserved_but(len(instance.order), [released]))
    found = near_by(reserved, instance.order, 1.0, seed, lambda: False)
    assert found is not None and judge(graph, found, instance.budget).feasible
    for stage, memory in enumerate(memory_by_stage(instance, found)):
        assert memory <= instance.budget - (0 if released[0] <= stage <= released[1] else amount)


def test_nothing_is_found_where_too_much_is_reserved():
    graph = ComputationGraph(range(4), (1, 1, 1, 1), (4, 4, 4, 1), ((0, 1), (1, 2), (0, 3), (2, 3)))
    instance = Instance.build(graph, 12)
    assert near_by(Reserved(instance, 11, ((0, 3),)), instance.order, 0.3, 0, lambda: False) is None


def test_names_that_are_taken_are_left():
    graph = ComputationGraph(("reserved 0", "reserved 2"), (1, 1), (1, 1), ((0, 1),))
    extended = Reserved(Instance.build(graph, 2), 1, ((0, 0), (1, 1))).extended()
    assert extended.graph.nodes[2:] == ("reserved 1", "reserved 3", "reserved 4", "reserved 5")


def test_what_is_not_released_is_reserved():
    assert reserved_but(10, []) == ((0, 9),)
    assert reserved_but(10, [(0, 9)]) == ()
    assert reserved_but(10, [(6, 7), (0, 2)]) == ((3, 5), (8, 9))


def test_windows_are_disjoint_and_where_the_input_order_is_over_the_budget():
    instance = Instance.build(random_layered(100, seed=1), 0.8)
    found = list(windows(instance))
    stages = [k for first, last in found for k in range(first, last + 1)]
    assert len(stages) == len(set(stages)) and found
    worst = max(range(100), key=lambda k: instance.baseline.memory[k])
    assert found[0][0] <= worst <= found[0][1]
    for first, last in found:
        assert max(instance.baseline.memory[first : last + 1]) > instance.budget


def test_windows_are_halved_until_few_stages_are_left():
    window, widths = (10, 29), []
    while window is not None:
        widths.append(window[1] - window[0] + 1)
        window = half(window)
    assert widths == [20, 9, 5, 3]
