"""Annealing over sequences: its own account of memory against the simulator's, its schedules against brute force."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from cases import draw_case, least_duration
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, valid_sequences
from streams import drawn_layers
from working import working

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.heuristics.free_order.moves import SequenceMix, move, undo_to
from moccasin_mzn.heuristics.free_order.search import OrderAnnealing
from moccasin_mzn.heuristics.free_order.state import (
    DURATION,
    EXCESS,
    LENGTH,
    MOST_SLOTS,
    empty_state,
    load,
    parts_alongside,
    problem_of,
    sequence_of,
    slots_of,
)
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate


def instance_of(seed, nodes=9, most=3):
    draw = random.Random(seed)
    edges = [(u, v) for v in range(nodes) for u in range(v) if draw.random() < (0.8 if u == v - 1 else 0.3)]
    amounts = [[draw.randint(0, 9) for _ in range(nodes)] for _ in range(2)]
    graph = ComputationGraph(range(nodes), amounts[0], amounts[1], edges)
    graph = working(graph, seed) if seed % 2 else graph
    return Instance.build(graph, draw.choice([0.6, 0.7, 0.8, 0.9]), max_computations=most, order="free")


def assert_account_is_the_simulators(instance, problem, state):
    length = state.totals[LENGTH]
    sequence = sequence_of(instance, problem, state.seq[:length])
    simulation = simulate(instance.graph, sequence)
    assert simulation.violations == ()
    assert simulation.memory == tuple(state.memory[:length].tolist())
    excess = sum(max(0, memory - instance.budget) for memory in simulation.memory)
    assert (state.totals[DURATION], state.totals[EXCESS]) == (simulation.duration, excess)
    assert Counter(sequence) == {v: state.used[k] for k, v in enumerate(instance.order)}
    assert all(count <= instance.max_computations[v] for v, count in Counter(sequence).items())
    return sequence


def kept_or_undone(instance, problem, state, trail, length, before):
    """The sequence after a move, whose account is right; or, with what was before it, after the move is undone."""
    after = assert_account_is_the_simulators(instance, problem, state)
    if before is None:
        return after
    undo_to(problem, state, trail, length, 0)
    assert assert_account_is_the_simulators(instance, problem, state) == before
    return before


@pytest.mark.parametrize("seed", range(20))
def test_the_account_of_a_state_is_the_simulators_after_every_move_and_undoing_it_is_exact(seed):
    instance = instance_of(seed, nodes=6 + seed % 9)
    problem, state = problem_of(instance), None
    state = empty_state(problem)
    load(problem, state, slots_of(instance, problem, instance.order))
    before = assert_account_is_the_simulators(instance, problem, state)
    generator, trail, room = np.array([seed + 1], np.uint64), np.zeros((256, 2), np.int64), np.zeros((4, 5), np.int64)
    moved = 0
    for step in range(120):
        length = move(problem, state, generator, SequenceMix(), 0.5, 5.0, trail, room)
        after = assert_account_is_the_simulators(instance, problem, state)
        if step % 3 == 0:
            undo_to(problem, state, trail, length, 0)
            assert assert_account_is_the_simulators(instance, problem, state) == before
        else:
            moved += after != before
            before = after
    assert moved > 20


def streamed(seed):
    """Layers in parts, more or less in the order in which they are read."""
    graph, layers = drawn_layers(seed)
    shapes = [(layers.band[v], layers.band[v] + 1) for v in range(len(graph.nodes))]
    columns = [(column, column + 1) for column in layers.column]
    parts = [Part(f"layer {x}", box) for x, *box in zip(layers.layer, shapes, columns, strict=True)]
    return Instance.build(replace(graph, parts=parts), 0.7, max_computations=3, order="free")


@pytest.mark.parametrize("seed", range(12))
def test_moves_of_parts_and_those_alongside_them_are_accounted_for_and_undone_exactly(seed):
    instance = streamed(seed)
    problem = problem_of(instance)
    state = empty_state(problem, parts_alongside(instance))
    load(problem, state, slots_of(instance, problem, instance.order))
    before = assert_account_is_the_simulators(instance, problem, state)
    generator, trail, room = np.array([seed + 1], np.uint64), np.zeros((256, 2), np.int64), np.zeros((4, 5), np.int64)
    for step in range(120):
        mix = SequenceMix(alongside=0.5, chain=0.0 if step % 2 else 0.3)
        length = move(problem, state, generator, mix, 0.5, 50.0, trail, room)
        before = kept_or_undone(instance, problem, state, trail, length, None if step % 3 else before)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 1), (4, 2), (5, 3)])
def test_parts_alongside_are_those_of_the_same_layer_and_columns_in_the_rows_below_and_above(rows, columns):
    boxes = [((row, row + 1), (column, column + 1)) for row in range(rows) for column in range(columns)]
    parts = [*(Part(name, box) for name in ("a", "b") for box in boxes), None]
    count = len(boxes)
    edges = [*((u, count + v) for u in range(count) for v in range(u % 2, count)), (2 * count - 1, 2 * count)]
    graph = ComputationGraph(range(len(parts)), (1,) * len(parts), (1,) * len(parts), edges, parts=parts)
    instance = Instance.build(graph, "100%", order="free")
    below, above = parts_alongside(instance).tolist()
    for k, v in enumerate(instance.order):
        for alongside, step in ((below[k], 1), (above[k], -1)):
            part = graph.parts[v]
            begin = None if part is None or rows == 1 else part.box[0][0] + step
            if begin is None or not 0 <= begin < rows:
                assert alongside == -1
            else:
                assert graph.parts[instance.order[alongside]] == Part(part.layer, ((begin, begin + 1), part.box[1]))


def test_graphs_without_parts_have_none_alongside():
    assert parts_alongside(instance_of(1)).shape == (2, 0)


def test_one_move_recomputes_the_overlap_of_many_rows_and_one_takes_that_back():
    rows = 12
    edges = [(u, rows + v) for v in range(rows) for u in (v - 1, v, v + 1) if 0 <= u < rows]
    parts = [Part(name, ((v, v + 1),)) for name in ("a", "b") for v in range(rows)]
    graph = ComputationGraph(range(2 * rows), (1,) * 2 * rows, (1,) * 2 * rows, edges, parts=parts)
    instance = Instance.build(graph, 4, max_computations=4, order="free")
    problem = problem_of(instance)
    state, layer_by_layer = empty_state(problem, parts_alongside(instance)), tuple(range(2 * rows))
    trail, room = np.zeros((256, 2), np.int64), np.zeros((4, 5), np.int64)
    most = least = 0
    for seed in range(200):
        load(problem, state, slots_of(instance, problem, layer_by_layer))
        generator = np.array([seed], np.uint64)
        move(problem, state, generator, SequenceMix(alongside=1.0), 0.5, 1.0, trail, room)
        added = state.totals[LENGTH] - 2 * rows
        most = max(most, added)
        for _ in range(4):
            if added > 4:
                move(problem, state, generator, SequenceMix(alongside=1.0), 0.5, 1.0, trail, room)
                least = max(least, added - (state.totals[LENGTH] - 2 * rows))
        assert_account_is_the_simulators(instance, problem, state)
    assert most > rows // 2 and least > 4


SHAPES = {
    "no edge": (7, []),
    "chain": (20, [(v, v + 1) for v in range(19)]),
    "hub": (20, [(0, v) for v in range(1, 19)] + [(v, 19) for v in range(19)]),
    "tree": (15, [(v, v // 2 + 8) for v in range(14)]),
    "two sides": (12, [(u, v) for u in range(6) for v in range(6, 12)]),
    "there and back": (20, [(v, v + 1) for v in range(19)] + [(v, 19 - v) for v in range(9)]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("top", [1, 2**53 // 20])
def test_the_account_is_the_simulators_for_any_shape_of_graph_size_and_limit_on_computations(shape, top):
    (nodes, edges), draw = SHAPES[shape], random.Random(top)
    amounts = [[draw.choice((0, 1, top, draw.randint(0, top))) for _ in range(nodes)] for _ in range(2)]
    most = [draw.randint(1, 12) for _ in range(nodes)]
    graph = ComputationGraph(range(nodes), amounts[0], amounts[1], edges)
    instance = Instance.build(graph, 0.6, max_computations=most, order="free")
    problem = problem_of(instance)
    state = empty_state(problem)
    load(problem, state, slots_of(instance, problem, instance.order))
    generator, trail, room = np.array([7], np.uint64), np.zeros((256, 2), np.int64), np.zeros((4, 5), np.int64)
    before = instance.order
    for step in range(60):
        length = move(problem, state, generator, SequenceMix(), 0.5, 1.0 + top, trail, room)
        before = kept_or_undone(instance, problem, state, trail, length, None if step % 3 else before)


@settings(max_examples=examples(60))
@given(st.data())
def test_any_sequence_is_loaded_as_it_is(data):
    graph = data.draw(graphs())
    sequence = data.draw(valid_sequences(graph))
    instance = Instance.build(graph, 1000, max_computations=MOST_SLOTS)
    problem = problem_of(instance)
    state = empty_state(problem)
    slots = slots_of(instance, problem, sequence)
    load(problem, state, slots)
    assert_account_is_the_simulators(instance, problem, state)
    kept = Counter()
    for v in sequence:  # what is of no use to compute again has one slot
        useful = graph.sizes[v] > 0 and graph.successors[v]
        kept[v] += 1 if useful or not kept[v] else 0
    assert Counter(sequence_of(instance, problem, slots)) == kept


def incumbents(instance, seed, rounds=1, least=None):
    """All of some rounds, or until one takes as long as the shortest possible."""
    found = []
    search = OrderAnnealing(instance, seed)
    search.run(found.append, lambda: least is not None and search.duration == least, max_rounds=rounds)
    return found


def test_schedules_get_better_and_are_the_same_for_a_seed():
    instance = next(i for i in map(instance_of, range(99)) if i.baseline.peak > i.budget and incumbents(i, 1))
    found = incumbents(instance, 1)
    durations = [judge(instance.graph, sequence, instance.budget).duration for sequence in found]
    assert all(judge(instance.graph, sequence, instance.budget).feasible for sequence in found)
    assert durations == sorted(durations, reverse=True)
    assert found == incumbents(instance, 1)


def test_free_annealing_finds_the_optimum_of_small_cases_and_never_beats_it():
    reached = feasible = 0
    for seed in range(50):
        case = draw_case(seed)
        instance = Instance.build(case.graph, case.budget, order="free", max_computations=case.max_computations)
        if instance.baseline.peak <= case.budget:
            continue
        least = least_duration(case, "general")
        durations = [
            judge(case.graph, found, case.budget).duration
            for found in incumbents(instance, seed, 3 if least else 1, least)
        ]
        feasible += least is not None
        if durations:
            assert least is not None and durations[-1] >= least
            reached += durations[-1] == least
    assert reached == feasible > 12


def test_free_annealing_starts_from_drafts_and_continues_from_better_schedules():
    instance = next(i for i in map(instance_of, range(99)) if i.baseline.peak > i.budget and incumbents(i, 1))
    (*_, best) = incumbents(instance, 1)
    offered, drafts = [best], [instance.order]
    search = OrderAnnealing(instance, 2)
    search.run(
        lambda sequence: None,
        lambda: False,
        lambda duration: offered.pop() if offered else None,
        lambda: drafts.pop() if drafts else None,
        max_rounds=1,
    )
    assert not offered and not drafts
    assert search.duration <= simulate(instance.graph, best).duration
    asked = []
    search.run(lambda sequence: None, lambda: asked.append(1) or len(asked) > 2)
    assert len(asked) < 6


def test_free_annealing_moves_keep_to_the_size_of_the_undo_log():
    """A chain of 400 recomputations, of which each but the last is read by the next only."""
    n = 402
    edges = [*((v, v + 1) for v in range(n - 2)), (0, n - 1), (n - 3, n - 1), (n - 2, n - 1)]
    instance = Instance.build(ComputationGraph(range(n), [1] * n, [1] * n, edges), 2, order="free")
    search = OrderAnnealing(instance)
    rows = len(search._trail)
    search._trail = np.full((8 * rows, 2), -7, np.int64)[:rows]
    sentinel = search._trail.base
    chain = (*range(n - 1), *range(n - 2), n - 1)
    drafts = [chain]
    chunks = []
    search.run(
        lambda sequence: None,
        lambda: chunks.append(1) or len(chunks) > 20,
        draft=lambda: drafts.pop() if drafts else None,
    )
    assert (sentinel[rows:] == -7).all()


def test_free_annealing_keeps_the_price_of_memory_finite_where_nothing_fits():
    graph = ComputationGraph(range(4), [1] * 4, [5] * 4, [(0, 3), (1, 3), (2, 3)])
    search = OrderAnnealing(Instance.build(graph, 19, order="free"))
    asked = []
    search.run(lambda sequence: None, lambda: asked.append(1) or len(asked) > 300)
    assert np.isfinite(search._control[:2]).all()
    assert search.duration is None


def test_sums_past_the_exact_integers_are_rounded_to_the_safe_side():
    n = 100
    size = 2**53 // n
    graph = ComputationGraph(range(n), [1] * n, [size] * n, [(0, n - 1), *((v, v + 1) for v in range(n - 1))])
    instance = Instance.build(graph, 3 * size - 1, order="free", max_computations=1000)
    problem = problem_of(instance)
    unit = -(-size // int(problem.size[0]))
    assert unit > 1 and len(problem.slot_node) > 512  # so many times 2**53 is past 2**62
    assert problem.budget * unit <= instance.budget and (problem.size * unit >= size).all()
    state = empty_state(problem)
    load(problem, state, slots_of(instance, problem, instance.order))
    over = state.memory[:n] - problem.budget
    assert (over[2:] > 0).all() and state.totals[EXCESS] == over.clip(0).sum()
    few = Instance.build(graph, size, order="free", max_computations=5)
    assert problem_of(few).size.tolist() == [size] * n
