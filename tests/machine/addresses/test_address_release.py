"""Memory reserved in stages: what the further nodes take, and what schedules found with them keep to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from cases import draw_case
from oracle import fixed_order_schedule

from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.release import Reserved, Window, near_by, released, runs, windows
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate


def draw_windows(rng: random.Random, count: int) -> tuple[Window, ...]:
    """Some stages without, some with less, most with all of an amount reserved."""
    amount = rng.randint(10, 50)
    return runs([amount if rng.random() < 0.6 else rng.randint(0, 9) for _ in range(count)])


def everywhere_but(instance: Instance, amount: int, *windows_released: Window) -> Reserved:
    reserved = [amount] * len(instance.order)
    for window in windows_released:
        reserved = released(reserved, window)
    return Reserved(instance, runs(reserved))


def reserved_at(reserved: Reserved, stage: int) -> int:
    return sum(window.reserved for window in reserved.windows if window.first <= stage <= window.last)


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
    reserved = Reserved(instance, draw_windows(rng, n))
    longer = reserved.inserted(best.sequence)
    extended = reserved.extended()
    assert reserved.stripped(longer) == best.sequence
    assert reserved.inserted(instance.order) == extended.order
    memory = simulate(extended.graph, longer)
    assert memory.feasible and memory.duration == best.duration
    plain, stage, seen = iter(simulate(case.graph, best.sequence).memory), 0, set()
    for v, amount in zip(longer, memory.memory, strict=True):
        if v < n:
            assert amount - next(plain) == reserved_at(reserved, stage)
            if v not in seen:
                seen.add(v)
                stage += 1


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_schedules_keep_to_what_is_not_reserved(seed):
    instance = Instance.build(random_layered(100, seed=seed), 0.9, max_computations=3)
    reserved = everywhere_but(instance, instance.budget // 50, replace(next(windows(instance)), reserved=5))
    found = near_by(reserved, instance.order, 1.0, seed, lambda: False)
    assert found is not None and judge(instance.graph, found, instance.budget).feasible
    for stage, memory in enumerate(memory_by_stage(instance, found)):
        assert memory <= instance.budget - reserved_at(reserved, stage)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_within_a_window_recomputations_elsewhere_stay_as_they_are(seed):
    instance = Instance.build(random_layered(100, seed=seed), 0.9, max_computations=3)
    amount = instance.budget // 25
    before = near_by(everywhere_but(instance, amount), instance.order, 1.0, seed, lambda: False)
    worst = next(windows(instance))
    window = Window(max(0, worst.first - 15), min(99, worst.last + 15))
    reserved = everywhere_but(instance, amount, window)
    after = near_by(reserved, before, 1.0, seed, lambda: False, within=window)
    assert simulate(instance.graph, after).duration < simulate(instance.graph, before).duration
    elsewhere = [
        [at for at in recomputations(sequence) if not window.first <= at[0] <= window.last]
        for sequence in (before, after)
    ]
    assert elsewhere[0] == elsewhere[1]
    for stage, memory in enumerate(memory_by_stage(instance, after)):
        assert memory <= instance.budget - reserved_at(reserved, stage)


def recomputations(sequence: tuple[int, ...]) -> list[tuple[int, int]]:
    """(stage, node) of each."""
    seen, found = set(), []
    for v in sequence:
        if v in seen:
            found.append((len(seen), v))
        seen.add(v)
    return sorted(found)


def test_nothing_is_found_where_too_much_is_reserved():
    graph = ComputationGraph(range(4), (1, 1, 1, 1), (4, 4, 4, 1), ((0, 1), (1, 2), (0, 3), (2, 3)))
    instance = Instance.build(graph, 12)
    everywhere = Reserved(instance, (Window(0, 3, 11),))
    assert near_by(everywhere, instance.order, 0.3, 0, lambda: False) is None
    assert near_by(everywhere, instance.order, 0.3, 0, lambda: False, within=Window(1, 2)) is None


def test_names_that_are_taken_are_left():
    graph = ComputationGraph(("reserved 0", "reserved 2"), (1, 1), (1, 1), ((0, 1),))
    extended = Reserved(Instance.build(graph, 2), (Window(0, 0, 1), Window(1, 1, 1))).extended()
    assert extended.graph.nodes[2:] == ("reserved 1", "reserved 3", "reserved 4", "reserved 5")


def test_what_is_not_released_is_reserved():
    once = released([7] * 10, Window(6, 7, 3))
    assert runs([7] * 10) == (Window(0, 9, 7),)
    assert runs(released([7] * 10, Window(0, 9))) == ()
    assert runs(once) == (Window(0, 5, 7), Window(6, 7, 3), Window(8, 9, 7))
    assert runs(released(once, Window(5, 6, 5))) == (Window(0, 4, 7), Window(5, 5, 5), Window(6, 7, 3), Window(8, 9, 7))


def test_windows_of_a_width_are_disjoint_and_where_the_input_order_is_over_the_budget():
    instance = Instance.build(random_layered(100, seed=1), 0.8)
    found = list(windows(instance))
    worst = max(range(100), key=lambda k: instance.baseline.memory[k])
    assert found[0].first <= worst <= found[0].last and found[-1] == Window(0, 99)
    widths = [window.count for window in found]
    assert widths == sorted(widths) and set(widths) == {4, 8, 16, 32, 64, 100}
    for width in set(widths):
        stages = [k for window in found for k in range(window.first, window.last + 1) if window.count == width]
        assert len(stages) == len(set(stages))
    for window in found:
        assert max(instance.baseline.memory[window.first : window.last + 1]) > instance.budget


def test_a_window_gives_up_less_and_less_and_gets_smaller():
    window, tried = Window(10, 29), []
    while window is not None:
        tried.append((window.count, window.reserved))
        window = window.tighter(over=40, amount=100)
    assert tried == [(width, reserved) for width in (20, 9, 5, 3) for reserved in (0, 40, 80)]


def test_a_window_whose_arena_fits_gives_up_more():
    assert Window(3, 9, 40).looser(amount=100) == Window(3, 9, 20)
    assert Window(3, 9, 10).looser(amount=100) is None
