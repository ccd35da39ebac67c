"""The judge of plans against an account that shares nothing with it, and `simulate`; the definition's rules by hand."""

from __future__ import annotations

import random

import device_cases
import paging_cases
import pools_cases
import pytest
from few import few
from machine_cases import (
    best_of,
    draw_featured,
    draw_mixed_platform,
    draw_plan,
    draw_platform,
    least_of_all_plans,
    machine_of,
    mutated,
)
from soaking.exact import account, best
from soaking.exact_plans import Machine, account_of_plan, best_plan
from soaking.exact_questions import draw_graph, exact_graph

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Link, Memory, Platform


def compared(platform, tiny, plan):
    """The account of the judge and of the oracle, each in the same form."""
    found = judge_plan(platform, [Action(*action) for action in plan])
    expected = account_of_plan(tiny, machine_of(platform), plan)
    flaws = sorted(expected.flaws, key=str)
    overwrites = tuple((t, max(inputs, key=lambda u: (tiny.size[u], -u))) for t, inputs in expected.overwrites)
    one = found.memory, found.peaks, tuple(map(found.total, OBJECTIVES)), found.overwrites
    other = expected.memory, expected.peaks, expected.totals, overwrites
    copies = tuple((one.node, one.memory, one.start, one.end, one.source) for one in found.intervals)
    return (
        (*one, copies, sorted(((each.kind, each.position) for each in found.violations), key=str)),
        (*other, expected.intervals, flaws),
    )


@pytest.mark.parametrize("seed", few(range(3000), 150))
def test_the_judge_and_an_account_from_the_definition_agree(seed):
    rng = random.Random(f"plan {seed}")
    platform = draw_platform(rng) if seed % 4 else draw_mixed_platform(rng, draw_featured(rng))
    tiny, machine = exact_graph(platform.graph), machine_of(platform)
    plan = draw_plan(rng, tiny, machine)
    found, expected = compared(platform, tiny, plan)
    assert found == expected
    assert {kind for kind, _ in expected[-1]} <= {"never-computed"}, "moves are possible, and within budgets"
    for changed in mutated(rng, plan, tiny, machine):
        found, expected = compared(platform, tiny, changed)
        assert found == expected, changed


@pytest.mark.parametrize("seed", few(range(1000), 100))
def test_plans_of_one_memory_are_schedules(seed):
    rng = random.Random(f"one memory {seed}")
    graph, budget = draw_graph(rng, 5), rng.choice([0, 1, 9, 10**13])
    n = len(graph.nodes)
    sequence = list(graph.input_order())
    for _ in range(rng.randint(0, 6)):
        again = rng.randrange(n)
        sequence[(at := rng.randint(0, len(sequence))) : at] = rng.choice([[again], [again, *graph.outputs_of[again]]])
    if rng.random() < 0.3:
        sequence.pop(rng.randrange(len(sequence)))
    expected = judge(graph, sequence, budget)
    for accesses in (None, [0] * n):
        platform = Platform(graph, [Memory("only", budget, graph.durations, accesses=accesses)])
        found = judge_plan(platform, [Action(v) for v in sequence])
        assert (found.memory, found.peaks, found.duration) == ((expected.memory,), (expected.peak,), expected.duration)
        assert found.overwrites == expected.overwrites
        copies = [(one.node, one.start, one.end) for one in expected.intervals]
        assert [(one.node, one.start, one.end) for one in found.intervals] == copies
        kinds = [sorted((each.kind, each.position or 0) for each in one.violations) for one in (found, expected)]
        assert kinds[0] == kinds[1]


# --- The best of all plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few(range(400), 25))
def test_the_best_plan_is_the_least_of_all_plans(seed):
    rng = random.Random(f"all {seed}")
    platform = draw_platform(rng, 3) if seed % 3 else draw_mixed_platform(rng, draw_featured(rng, 2))
    while len(platform.memories) > 2 + (seed % 3 == 0) or len(platform.graph.nodes) > 4 - (seed % 3 == 0):
        platform = draw_platform(rng, 3) if seed % 3 else draw_mixed_platform(rng, draw_featured(rng, 2))
    tiny, machine = exact_graph(platform.graph), machine_of(platform)
    most = 7 if tiny.n * len(machine.budgets) <= 6 else 6
    found, least = best_plan(tiny, machine), least_of_all_plans(tiny, machine, most)
    if found is None or len(found[1]) <= most:
        assert (found and found[0]) == least
    else:
        assert least is None or least >= found[0]


@pytest.mark.parametrize("seed", few(range(600), 40))
def test_in_one_memory_the_best_plan_is_the_best_schedule(seed):
    rng = random.Random(f"schedule {seed}")
    graph = draw_graph(rng, 5)
    tiny, low = exact_graph(graph), max(1, *graph.working_sets)
    high = max(low, account(tiny, tiny.order).peak)
    budget, most = rng.choice([low, max(low, high - 1), rng.randint(low, high)]), rng.choice([1, 2, 3])
    cost, counts = [(duration, 0) for duration in tiny.dur], [1 if v in tiny.once else most for v in range(tiny.n)]
    dear = [(10**14, 0)] * tiny.n
    for mode in ("free", "first", "staged"):
        expected = best(tiny, budget, mode, most)
        alone = [Machine([budget], [cost], access=access) for access in (None, [[0] * tiny.n])]
        for machine in (*alone, Machine([budget, None], [cost, None], {(0, 1): dear, (1, 0): dear})):
            found = best_plan(tiny, machine, mode, [counts, [1] * tiny.n])
            assert (found and found[0] < 10**14 and found[0]) == (expected and expected[0]) or expected is None, mode


@pytest.mark.parametrize("seed", few(range(300), 40))
def test_the_judge_accepts_best_plans_at_their_cost(seed):
    draw = (paging_cases.draw_problem, device_cases.draw_problem, pools_cases.draw_pools)[seed % 3]
    problem = draw(seed)
    for mode in ("free", "slots" if draw is device_cases.draw_problem else "staged"):
        found = best_of(problem, mode)
        if found is not None:
            simulation = judge_plan(problem.platform, found.plan, problem.goal)
            assert simulation.violations == () and problem.out_of_scope(found.plan) is None
            assert tuple(map(simulation.total, OBJECTIVES)) == found.totals


# --- By hand --------------------------------------------------------------------------------------------------

LOCAL, SLOW = 0, 1


def paging(graph, budget=None):
    """Local memory and slow memory; a copy takes 10 out, and 100 back."""
    costs = [[each] * len(graph.nodes) for each in (10, 100, 0)]
    links = [Link(LOCAL, SLOW, costs[0], costs[2]), Link(SLOW, LOCAL, costs[1], costs[2])]
    return Platform(graph, [Memory("local", budget, graph.durations), Memory("slow", None)], links)


def pools(graph, budgets=(None, None)):
    """Memories of one device: an access to slow takes the size, one to fast nothing."""
    fast = Memory("fast", budgets[0], graph.durations, accesses=[0] * len(graph.nodes))
    return Platform(graph, [fast, Memory("slow", budgets[1], graph.durations, accesses=graph.sizes)], devices=(0, 0))


def shown(platform, *actions):
    """What both judges say of a plan: memories, duration, and kinds of violations."""
    plan = [action if isinstance(action, tuple) else (action, 0, None) for action in actions]
    found, expected = compared(platform, exact_graph(platform.graph), plan)
    assert found == expected
    return found[0], found[2][0], [kind for kind, _ in found[-1]]


OVERWRITING = ComputationGraph([*"abc"], [1, 1, 1], [8, 6, 3], [(0, 1), (1, 2), (0, 2)], in_place=[[], [0], [0, 1]])


def test_in_place_a_copy_elsewhere_is_read_later():
    graph = OVERWRITING.run_in_place()
    assert shown(paging(graph), 0, 1, 2) == (((8, 14, 14), (0, 0, 0)), 3, [])  # b does not overwrite a, c does
    plan = 0, (0, SLOW, LOCAL), 1, (0, LOCAL, SLOW), 2  # b overwrites a, which is in slow memory
    assert shown(paging(graph), *plan) == (((8, 8, 8, 14, 14), (0, 8, 8, 8, 0)), 113, [])
    late = 0, 1, (0, SLOW, LOCAL), (0, LOCAL, SLOW), 2  # the copy at 3 reads a in local, after b
    assert shown(paging(graph), *late) == (((8, 14, 14, 14, 14), (0, 0, 8, 8, 0)), 113, [])


def test_in_place_only_within_one_memory():
    chain = ComputationGraph([*"ab"], [1, 1], [8, 8], [(0, 1)], in_place=[[], [0]]).run_in_place()
    assert shown(pools(chain), 0, 1) == (((8, 8), (0, 0)), 2, [])
    assert shown(pools(chain), (0, 1, None), (1, 1, None)) == (((0, 0), (8, 8)), 26, [])
    assert shown(pools(chain), (0, 1, None), (1, 0, None)) == (((0, 8), (8, 8)), 18, [])
    copied = shown(paging(chain), 0, (0, SLOW, LOCAL), (0, LOCAL, SLOW), 1)  # a copy overwrites nothing
    assert copied == (((8, 8, 8, 8), (0, 8, 8, 0)), 112, [])


SPLIT = ComputationGraph(
    ["x", "split", "right", "z"], [1, 2, 0, 1], [4, 2, 3, 1], [("x", "split"), ("right", "z")], workspaces=[0, 5, 0, 0],
    output_of=[None, None, 1, None],
)  # fmt: skip


def test_all_outputs_are_written_at_the_first_one():
    assert shown(paging(SPLIT), 0, 1, 2, 3) == (((4, 14, 9, 4), (0, 0, 0, 0)), 4, [])
    copies = 0, 1, 2, (2, SLOW, LOCAL), (2, LOCAL, SLOW), 3  # an action of its own
    assert shown(paging(SPLIT), *copies) == (((4, 14, 9, 3, 3, 4), (0, 0, 0, 3, 3, 0)), 114, [])
    assert shown(paging(SPLIT), 0, 1, (1, SLOW, LOCAL), 2, 3)[2] == ["apart"]
    assert shown(paging(SPLIT), 0, 1, 3)[2] == ["missing-input", "never-computed"]


def test_memories_of_one_device_charge_all_outputs_at_the_first_one():
    in_slow = 0, (1, 1, None), (2, 1, None), 3  # writes of 2 and 3, a read of 3
    assert shown(pools(SPLIT), *in_slow) == (((4, 4, 4, 1), (0, 10, 5, 3)), 12, [])
    unread = 0, (1, 1, None), 1, 2, 3  # what is dropped at once is written too
    assert shown(pools(SPLIT), *unread) == (((4, 4, 14, 9, 4), (0, 10, 0, 0, 0)), 11, [])
    assert shown(pools(SPLIT), 0, (1, 1, None), 2, 3)[2] == ["apart"], "not where the first one is"


def test_workspaces_are_where_a_node_is_computed():
    graph = ComputationGraph([*"ab"], [1, 1], [4, 2], [(0, 1)], workspaces=[0, 3])
    assert shown(pools(graph), 0, (1, 1, None)) == (((4, 4), (0, 5)), 4, [])
    there_and_back = 0, 1, (1, SLOW, LOCAL)  # a copy has none
    assert shown(paging(graph), *there_and_back) == (((4, 9, 2), (0, 0, 2)), 12, [])


SIDE_BY_SIDE = ComputationGraph([*"abc"], [1, 1, 1], [2, 4, 1], [(0, 2), (1, 2)], adjacent=[[], [], [[0, 1]]])


def test_what_is_read_as_one_is_in_one_memory_of_a_device():
    assert shown(pools(SIDE_BY_SIDE), 0, (1, 1, None), 2)[2] == ["apart"]
    assert shown(pools(SIDE_BY_SIDE), (0, 1, None), (1, 1, None), 2) == (((0, 0, 1), (2, 6, 6)), 15, [])
    assert shown(pools(SIDE_BY_SIDE), (0, 1, None), 0, 1, 2)[2] == [], "the latest copy counts"
    assert shown(paging(SIDE_BY_SIDE), 0, (0, SLOW, LOCAL), 1, 2)[2] == [], "computations read one memory"


@pytest.mark.parametrize(
    ("platform", "least"),
    [
        (paging(OVERWRITING.run_in_place(), 14), 3),
        (paging(OVERWRITING.run_in_place(), 13), None),
        (paging(SPLIT, 14), 4),
        (paging(SPLIT, 13), None),
        (pools(SPLIT, (13, 10)), 12),  # split and right in slow: 5 written, 3 read
        (pools(SPLIT, (9, 9)), None),
        (pools(SIDE_BY_SIDE, (6, None)), 4),  # c in slow
        (pools(SIDE_BY_SIDE, (5, None)), 15),  # a and b in slow: 6 written, 6 read
    ],
)
def test_best_plans_by_hand(platform, least):
    found = best_plan(exact_graph(platform.graph), machine_of(platform))
    assert (found and found[0]) == least
