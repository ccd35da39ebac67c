"""Offsets of what is read as one: executed in one flat memory, the graph's concatenations and all."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from itertools import product

import pytest
from arena_oracle import shortest_in_arena
from concatenations import joining_graph, misread
from few import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import valid_sequences

from moccasin_mzn import solve, validate
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.formulations.checkers import CheckError
from moccasin_mzn.graphs.zero_copy import zero_copy_concat
from moccasin_mzn.machine.addresses.allocate import allocate_buffers, first_fit, least_arena
from moccasin_mzn.machine.addresses.arrange import JOINT
from moccasin_mzn.machine.addresses.joint import check_placed, solve_jointly
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, ArenaError
from moccasin_mzn.problem.blocks import merged
from moccasin_mzn.problem.buffer import Buffer, Gap, Piece
from moccasin_mzn.problem.files.plan_format import runtime_plan, versioned
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort
from moccasin_mzn.solvers.minizinc.run import Limits

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
JOINING = [seed for seed in range(400) if zero_copy_concat(joining_graph(seed)).taken_out]


def test_many_graphs_have_such_concatenations():
    assert len(JOINING) > 200
    nested = [
        seed for seed in JOINING if any(len(row) > 1 for row in zero_copy_concat(joining_graph(seed)).graph.adjacent)
    ]
    assert nested and any(zero_copy_concat(joining_graph(seed)).kept for seed in JOINING)


def judged(whole, found, sequence, offsets):
    """What goes wrong in a flat memory, with positions of the graph without concatenations."""
    back = [whole.position_of(node) for node in found.graph.nodes]
    return misread(whole, found.taken_out, [back[v] for v in sequence], offsets)


def draw_joining(seed):
    """A graph of five nodes, one of them a concatenation, without it and with it; None: it has none to take out."""
    whole = joining_graph(seed, 6)
    found = zero_copy_concat(whole)
    return (whole, found) if len(found.graph.nodes) == 5 and sum(found.graph.sizes) <= 14 else None


def schedules(grain=1):
    def of(seed):
        whole = joining_graph(seed, grain=grain)
        found = zero_copy_concat(whole, grain)
        return st.tuples(st.just(whole), st.just(found), valid_sequences(found.graph))

    return st.sampled_from(JOINING).flatmap(of)


@settings(max_examples=examples(200), deadline=None)
@given(schedules(), st.integers(0, 3))
def test_any_schedule_has_offsets_side_by_side(case, seed):
    whole, found, sequence = case
    simulation = simulate(found.graph, sequence)
    placing = placing_of(found.graph, simulation)
    arena = search_arena(placing.buffers, time_limit=0.002, seed=seed)
    assert arena.peak == simulation.peak <= arena.size
    offsets = [arena.offsets[copy] for copy in placing.copies]
    assert judged(whole, found, sequence, offsets) == ""
    again = search_arena(placing.buffers, time_limit=0.002, seed=seed + 1, begin_with=arena.offsets)
    assert again.size <= arena.size
    allocated = allocate_buffers(placing.buffers, begin_with=arena.offsets, effort=Effort(0.01), stop=lambda: True)
    assert allocated.arena.size <= arena.size
    offsets = [allocated.arena.offsets[copy] for copy in placing.copies]
    assert judged(whole, found, sequence, offsets) == ""


@settings(max_examples=examples(100), deadline=None)
@given(schedules(), st.randoms(use_true_random=False))
def test_a_copy_that_lies_elsewhere_is_noticed_by_all_judges(case, draw: random.Random):
    """By the test's own, by arenas, by plans for runtimes, and by `validate`."""
    whole, found, sequence = case
    graph, simulation = found.graph, simulate(found.graph, sequence)
    placing = placing_of(graph, simulation)
    arena = search_arena(placing.buffers, time_limit=0.002)
    offsets = [arena.offsets[copy] for copy in placing.copies]
    bound = [at for at, copy in enumerate(placing.copies) if placing.buffers[copy].block is not None]
    if not bound:
        return
    moved = draw.choice(bound)
    wrong = [*offsets]
    wrong[moved] = arena.size + draw.randint(0, 3)  # above all others: nothing overlaps
    actions = plan_of_sequence(sequence)
    assert RuntimePlan.of(graph, actions, offsets=offsets).arenas == (arena.size,)
    with pytest.raises(ArenaError, match="are of one block"):
        Arena(placing.buffers, tuple(wrong))
    right, notice = judged(whole, found, sequence, offsets), judged(whole, found, sequence, wrong)
    with pytest.raises(InputError, match="does not lie behind it"):
        RuntimePlan.of(graph, actions, offsets=wrong)
    assert not right and "in one piece" in notice


@settings(max_examples=examples(60), deadline=None)
@given(schedules(16))
def test_plans_are_placed_and_read_back(case):
    whole, found, sequence = case
    plan = placed(RuntimePlan.of(found.graph, plan_of_sequence(sequence)), 16, Effort(0.01))
    offsets = [step.offset for step in plan.steps]
    assert not any(offset % 16 for offset in offsets) and judged(whole, found, sequence, offsets) == ""
    simulation = simulate(found.graph, sequence)
    intervals = [
        {"node": found.graph.nodes[one.node], "start": one.start, "end": one.end, "offset": offset}
        for one, offset in zip(simulation.intervals, offsets, strict=True)
    ]
    nodes = [found.graph.nodes[v] for v in sequence]
    document = {"sequence": nodes, "intervals": intervals, "arena": plan.arenas[0], "alignment": 16}
    document = json.loads(json.dumps(versioned(found.graph, sequence, document)))
    assert runtime_plan(document, found.graph).steps == plan.steps
    joined = [at for at, interval in enumerate(document["intervals"]) if "adjacent" in interval]
    for at in joined:
        broken = json.loads(json.dumps(document))
        broken["intervals"][at].pop("adjacent")
        with pytest.raises(InputError, match="adjacent"):
            runtime_plan(broken, found.graph)


@pytest.mark.parametrize("seed", few(JOINING, 6))
def test_solved_with_addresses(seed):
    whole = joining_graph(seed, grain=4)
    found = zero_copy_concat(whole, 4)
    how = {"order": "free", "addresses": True, "alignment": 4, "time_limit": 5, "threads": 1}
    result = solve(whole, found.graph.total_size, zero_copy_concat=True, **how)
    assert result.valid
    offsets = result.details.instance.offsets(result.details.arenas, result.details.simulation)
    assert judged(whole, found, result.details.sequence, offsets) == ""
    document = json.loads(result.details.as_json())
    assert document["zero_copy_concat"] == 4
    assert validate(whole, document, zero_copy_concat=True).valid
    wrong = json.loads(json.dumps(document))
    at = next((r - 1 for one in wrong["intervals"] for group in one.get("adjacent", []) for r in group), None)
    wrong["intervals"][at]["offset"] = wrong["arena"] + -wrong["arena"] % 4
    kinds = {violation.kind for violation in validate(whole, wrong, zero_copy_concat=True).violations}
    assert "apart" in kinds


@needs_minizinc
@pytest.mark.parametrize("staged", [True, False], ids=["staged", "general"])
@pytest.mark.parametrize(
    "seed",
    [
        *few([seed for seed in range(30) if draw_joining(seed)], 2),
        *few([seed for seed in range(30, 200) if draw_joining(seed)], 0, mark=pytest.mark.slow),
    ],
)
@pytest.mark.few(1)
def test_the_joint_model_states_what_lies_side_by_side(seed, staged):
    """Against brute force over the offsets of all copies, in which who reads several as one needs them side by side."""
    whole, found = draw_joining(seed)
    graph = found.graph
    groups = {v: row for v, row in enumerate(graph.adjacent) if row}
    for budget in (max(graph.working_sets), max(graph.working_sets) + 1):
        least = shortest_in_arena(graph, budget, 1, 2, staged, groups)
        instance = Instance.build(graph, budget, max_computations=2)
        answer = solve_jointly(instance, staged=staged, limits=Limits(120, 1))
        assert answer.status == ("infeasible" if least is None else "optimal")
        if least is not None:
            simulation = simulate(graph, answer.sequence)
            assert simulation.duration == least and answer.arena.size <= budget
            assert judged(whole, found, answer.sequence, instance.offsets(answer.arena, simulation)) == ""


@needs_minizinc
@settings(max_examples=examples(6), deadline=None)
@given(schedules(4), st.sampled_from([1, 2, 4]))
@pytest.mark.full
def test_the_checker_of_schedules_judges_what_lies_side_by_side(case, alignment):
    """It does not know blocks: the same offsets are right, and wrong where one copy is moved to where nothing lies."""
    _, found, sequence = case
    simulation = simulate(found.graph, sequence)
    placing = placing_of(found.graph, simulation)
    arena = search_arena(placing.buffers, alignment, time_limit=0.002)
    instance = Instance.build(found.graph, 2 * arena.size + 8)
    apart = tuple(replace(buffer, block=None, place=0) for buffer in placing.buffers)
    free = Arena(apart, arena.offsets, alignment)
    assert f"CORRECT: duration {simulation.duration}" in check_placed(instance, sequence, simulation, free)
    last = next(at for at in reversed(range(len(sequence))) if found.graph.adjacent[sequence[at]])
    u = found.graph.adjacent[sequence[last]][0][-1]
    moved = max(at for at in range(last) if sequence[at] == u)
    offsets = list(arena.offsets)
    offsets[moved] = arena.size + 4 - arena.size % 4
    with pytest.raises(CheckError, match="in one piece, which are apart"):
        check_placed(instance, sequence, simulation, Arena(apart, tuple(offsets), alignment))


@pytest.mark.full
def test_brute_force_knows_that_side_by_side_costs_room():
    """Of some graphs schedules are longer, or need a larger arena, than if the same outputs might lie anywhere."""
    worse = 0
    for seed in range(60):
        if (drawn := draw_joining(seed)) is None:
            continue
        graph, groups = drawn[1].graph, {v: row for v, row in enumerate(drawn[1].graph.adjacent) if row}
        budget = max(graph.working_sets)
        worse += shortest_in_arena(graph, budget, 1, 2, False, groups) != shortest_in_arena(graph, budget, 1, 2, False)
    assert worse


@pytest.mark.full
@needs_minizinc
def test_with_addresses_a_schedule_with_the_copy_may_be_better():
    """Three outputs stay in one piece, where a copy of them would lie elsewhere. By brute force there is no schedule
    without it then, and with two computations of a node only a longer one."""
    whole = joining_graph(840712124, 7)
    whole = replace(whole, durations=[0 if v == 3 else duration for v, duration in enumerate(whole.durations)])
    found = zero_copy_concat(whole)
    assert found.taken_out == {3: (2, 1, 0)}
    groups = {v: row for v, row in enumerate(found.graph.adjacent) if row}
    assert shortest_in_arena(whole, 10, 1, 1, False) == 13
    assert shortest_in_arena(found.graph, 10, 1, 1, False, groups) is None
    how = {"addresses": True, "time_limit": 16, "threads": 1}
    for most, status, least in ((1, "infeasible", None), (2, "optimal", 14)):
        copying = solve(whole, 10, max_computations=most, **how)
        joined = solve(whole, 10, max_computations=most, zero_copy_concat=True, **how)
        assert (copying.status, copying.duration, joined.status) == ("optimal", 13, status)
        assert joined.proved_by == JOINT != copying.proved_by and (least is None or joined.duration == least)
        without = solve(whole, 10, max_computations=most, zero_copy_concat=True, **{**how, "addresses": False})
        assert (without.status, without.duration) == ("optimal", 13)


@needs_minizinc
@settings(max_examples=examples(6), deadline=None)
@given(schedules())
@pytest.mark.full
def test_the_model_of_the_least_arena_keeps_blocks(case):
    whole, found, sequence = case
    placing = placing_of(found.graph, simulate(found.graph, sequence))
    searched = search_arena(placing.buffers, time_limit=0.05)
    arena, outcome = least_arena(placing.buffers, begin_with=searched, limits=Limits(30, 1))
    assert outcome.status == "optimal" and arena.size <= searched.size
    assert judged(whole, found, sequence, [arena.offsets[copy] for copy in placing.copies]) == ""


# --- Blocks ---------------------------------------------------------------------------------------------------


def test_a_block_takes_what_its_buffers_take():
    buffers = [
        Buffer("a", 0, 3, 3, block="x", place=5), Buffer("alone", 0, 9, 2), Buffer("c", 2, 4, 3, block="x", place=9),
        Buffer("late", 4, 6, 1, block="x", place=5), Buffer("gap", 0, 3, 2, gaps=(Gap(1, 2),)),
    ]  # fmt: skip
    whole = merged(buffers)
    assert whole.of == (0, 1, 0, 0, 2) and whole.places == (0, 0, 4, 0, 0) and whole.buffers[1] == buffers[1]
    assert whole.buffers[0] == Buffer("x", 0, 6, 7)
    assert whole.pieces[0] == (Piece(0, 3, 0, 3), Piece(2, 4, 4, 7), Piece(4, 6, 0, 1))
    assert whole.pieces[2] == (Piece(0, 1, 0, 2), Piece(2, 3, 0, 2))
    assert whole.offsets_of((10, 0, 3)) == (10, 0, 14, 10, 3) and whole.offsets_from((10, 0, 14, 10, 3)) == [10, 0, 3]


def test_others_may_lie_inside_a_block():
    """In the time in which what is in the middle is not there."""
    buffers = (
        Buffer("a", 0, 4, 2, block="x"), Buffer("b", 2, 4, 2, block="x", place=2),
        Buffer("c", 0, 4, 2, block="x", place=4), Buffer("inside", 0, 2, 2),
    )  # fmt: skip
    arena = Arena(buffers, (0, 2, 4, 2))
    assert arena.size == arena.bound == 6 and arena.is_least
    assert search_arena(buffers, time_limit=0.05) == first_fit(buffers, 1, 6) == arena
    assert allocate_buffers(buffers, begin_with=arena.offsets, effort=Effort(0.05)).arena.size == 6


def drawn_blocks(seed):
    """Buffers of which some are in one of two blocks, at places that leave them room."""
    draw = random.Random(seed)
    buffers, tops = [], {"x": 0, "y": 0}
    for at in range(5):
        start, size, block = draw.randint(0, 5), draw.randint(1, 3), draw.choice((None, "x", "x", "y"))
        place = 0
        if block is not None:
            place = tops[block] + draw.choice((0, 0, 1))
            tops[block] = place + size
        end = start + draw.randint(1, 4)
        buffers.append(Buffer(str(at), start, end, size, block=block, place=place))
    return tuple(buffers)


def least_by_brute_force(buffers):
    """The size of the least arena: every offset of every block is tried, and each time and address taken once."""
    keys = [at if buffer.block is None else buffer.block for at, buffer in enumerate(buffers)]
    low = {key: min(b.place for b, k in zip(buffers, keys, strict=True) if k == key) for key in keys}
    names, best = [*dict.fromkeys(keys)], sum(buffer.size + buffer.place for buffer in buffers)
    for origin in product(range(best), repeat=len(names)):
        where = dict(zip(names, origin, strict=True))
        taken, top = set(), 0
        for buffer, key in zip(buffers, keys, strict=True):
            at = where[key] + buffer.place - low[key]
            cells = {(t, a) for t in range(buffer.start, buffer.end) for a in range(at, at + buffer.size)}
            top = max(top, at + buffer.size)
            if top >= best or cells & taken:
                break
            taken |= cells
        else:
            best = top
    return best


@needs_minizinc
@pytest.mark.parametrize("seed", few(few(range(200), 80, mark=pytest.mark.slow), 8))
def test_allocations_of_blocks_against_brute_force(seed):
    buffers = drawn_blocks(seed)
    least = least_by_brute_force(buffers)
    found = search_arena(buffers, time_limit=0.1)
    assert found.bound <= least <= found.size <= least + 1  # a heuristic
    arena, outcome = least_arena(buffers, begin_with=found, limits=Limits(30, 1))
    assert (outcome.status, arena.size) == ("optimal", least)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"place": 3}, "place 3, but it is in no block"),
        ({"block": 3}, "block 3 is not a string"),
        ({"block": "x", "place": -1}, "place -1 is not an integer"),
    ],
)
def test_buffers_of_blocks_are_checked(change, message):
    with pytest.raises(InputError, match=message):
        Buffer("a", 0, 1, 1, **change)


def test_places_are_aligned():
    buffers = [Buffer("a", 0, 1, 3, block="x"), Buffer("b", 0, 1, 3, 4, block="x", place=3)]
    with pytest.raises(InputError, match="buffer b: place 3 in its block is not a multiple of 4, its alignment"):
        search_arena(buffers)
