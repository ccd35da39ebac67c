"""Windows of schedules: their data, what the models make of them, and the way back, against brute force."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from dataclasses import replace

import pytest
from cases import MODELS, Case, draw_case
from few import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import best_fixed_order, fixed_order_schedule
from strategies import graphs
from window_cases import ALL, STAGED, Sequence, Solved, brute_force, check, draw_window, incumbent_alone

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.formulations.window_cuts import Freedom
from moccasin_mzn.formulations.windows import Incumbent, Window, window
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.solvers.minizinc.run import dzn_text

SEEDS_OF_WINDOWS = [29, 40, 101, 171, 197, 219, 264]
"""Windows of the middle that need recomputations: with absent outputs, an exit, stages over the budget."""


def random_schedule(graph: ComputationGraph, most: int, rng: random.Random) -> Sequence:
    """Every node once in input order, and recomputations in any stage, useful or not."""
    order, counts, sequence = graph.input_order(), Counter(graph.input_order()), []
    share = rng.choice([0.1, 0.3, 0.5])
    for stage, v in enumerate(order):
        for u in order[:stage]:
            if counts[u] < most and rng.random() < share:
                counts[u] += 1
                sequence.append(u)
        sequence.append(v)
    return tuple(sequence)


def draw(seed: int, workspaces: bool = False) -> tuple[Instance, Sequence]:
    """A small instance and a schedule for it: a random one that needs all of the budget, or a best one made worse."""
    rng = random.Random(seed)
    case, most = draw_case(seed, workspaces=workspaces), rng.choice([2, 2, 3])
    graph, order = case.graph, case.graph.input_order()
    best = fixed_order_schedule(graph, order, case.budget, most)
    if best is not None and len(best.sequence) > len(order):
        return Instance.build(graph, case.budget, max_computations=most), made_worse(case, most, best.sequence, rng)
    schedules = [random_schedule(graph, most, rng) for _ in range(rng.choice([1, 10, 50]))]
    sequence = min(schedules, key=lambda sequence: simulate(graph, sequence).peak)
    return Instance.build(graph, max(1, simulate(graph, sequence).peak), max_computations=most), sequence


def made_worse(case: Case, most: int, sequence: Sequence, rng: random.Random) -> Sequence:
    """With recomputations added or moved at random, wherever the schedule stays one."""
    order = case.graph.input_order()
    for _ in range(30):
        stages: list[set[int]] = [set() for _ in order]
        stage = 0
        for v in sequence:
            stages[stage].add(order.index(v))
            stage += order.index(v) == stage
        k = rng.randrange(1, len(order))
        stages[k] ^= {rng.randrange(k)}
        changed = tuple(order[v] for stage in stages for v in sorted(stage))
        worse = judge(case.graph, changed, case.budget)
        if worse.feasible and max(Counter(changed).values()) <= most and len(changed) >= len(sequence):
            sequence = changed
    return sequence


def seeds(quick: int, total: int) -> list:
    return few(range(total), keep=range(quick), mark=pytest.mark.slow)


@pytest.mark.parametrize("seed", few(seeds(20, 400), keep=6))
def test_a_window_is_solved_to_what_brute_force_finds(seed):
    instance, sequence = draw(seed)
    cut = draw_window(instance, sequence, seed)
    if cut is not None:
        check(cut, Solved(cut, ["gecode", "cp-sat"][seed % 4 == 0]), brute_force(cut))


@pytest.mark.parametrize("seed", few(seeds(20, 200), keep=4))
def test_a_window_of_a_graph_with_workspaces(seed):
    instance, sequence = draw(seed, workspaces=True)
    cut = draw_window(instance, sequence, seed)
    if cut is not None:
        check(cut, Solved(cut, ["gecode", "cp-sat"][seed % 4 == 0]), brute_force(cut))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", few(seeds(6, 60), keep=3))
def test_the_whole_window_is_the_whole_instance(seed):
    instance, sequence = draw(seed)
    cut = window(instance, sequence, 1, len(instance.order), ALL)
    if cut is not None:
        expected = best_fixed_order(instance.graph, instance.order, instance.budget, instance.max_computations)
        assert replace(cut.data, order=()) == replace(presolve(instance, staged=True), order=())
        check(cut, Solved(cut, "cp-sat"), expected)


@pytest.mark.full
@pytest.mark.parametrize("seed", few(few(SEEDS_OF_WINDOWS, keep=SEEDS_OF_WINDOWS[:3], mark=pytest.mark.slow), keep=1))
def test_solvers_and_precedences_agree_on_windows(seed):
    instance, sequence = draw(seed)
    cut = draw_window(instance, sequence, seed)
    expected = brute_force(cut)
    for form in (STAGED, find_formulation("staged", precedence="reservoir")):
        for solver in ("cp-sat", "gecode"):
            check(cut, Solved(cut, solver, form), expected)
    for precedence in ("served-by", "reservoir"):  # another index: events cannot be decoded, durations agree
        solved = Solved(
            cut, "gecode", find_formulation("staged", precedence=precedence, index="triangular"), hint=False
        )
        assert (solved.status, cut.duration(solved.objective)) == ("optimal", expected)


@pytest.mark.full
@pytest.mark.parametrize("seed", few(few(SEEDS_OF_WINDOWS, keep=SEEDS_OF_WINDOWS[:3], mark=pytest.mark.slow), keep=1))
def test_the_incumbent_of_a_window_is_a_solution(tmp_path, seed):
    """With the incumbent as the only solution allowed, the model finds it, and the checker accepts it."""
    instance, sequence = draw(seed)
    cut = draw_window(instance, sequence, seed)
    solved = incumbent_alone(cut, tmp_path)
    assert solved.objective == cut.objective

    data = tmp_path / "data.dzn"
    data.write_text(dzn_text(STAGED.data_items(instance.graph, cut.data, cut.incumbent)))
    command = ["minizinc", "--solver", "gecode", STAGED.file, MODELS / "staged.mzc.mzn", data]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "CORRECT: duration" in out and "INCORRECT" not in out


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", few(SEEDS_OF_WINDOWS, keep=3))
def test_no_solution_is_over_the_duration_limit(seed):
    instance, sequence = draw(seed)
    cut = draw_window(instance, sequence, seed)
    least = Solved(cut, "gecode").objective
    assert Solved(cut, "gecode", limit=least).objective == least
    assert Solved(cut, "gecode", limit=least - 1).status == "infeasible"


@pytest.mark.parametrize("seed", few(seeds(8, 60), keep=3))
def test_a_window_with_less_freedom_is_no_worse_than_the_incumbent(seed):
    instance, sequence = draw(seed)
    rng = random.Random(seed)
    freedom = Freedom(max_nodes=rng.randint(0, 6), depth=rng.randint(0, 1), spare=rng.randint(0, 1))
    cut = draw_window(instance, sequence, seed, freedom)
    if cut is not None:
        solved = Solved(cut, "gecode", limit=cut.objective)
        check(cut, solved, cut.duration(solved.objective))
        assert brute_force(cut) <= cut.duration(solved.objective)


@st.composite
def windows(draw: st.DrawFn) -> Window | None:
    """Of graphs of up to 12 nodes; the schedule needs all of its budget."""
    graph = draw(graphs(max_nodes=12, workspaces=True))
    most, rng = draw(st.integers(1, 4)), random.Random(draw(st.integers(0, 2**32)))
    sequence = random_schedule(graph, most, rng)
    budget = max(1, simulate(graph, sequence).peak)
    first = draw(st.integers(1, len(graph.nodes)))
    last = draw(st.integers(first, len(graph.nodes)))
    freedom = Freedom(draw(st.integers(0, 20)), draw(st.integers(0, 4)), draw(st.integers(0, 3)))
    return window(Instance.build(graph, budget, max_computations=most), sequence, first, last, freedom)


@settings(deadline=None, max_examples=examples(300))
@given(windows())
def test_decoding_the_incumbent_gives_it_back(cut):
    """But for recomputations that are of no use."""
    if cut is None:
        return
    whole, data = cut.whole, cut.data
    sequence = cut.decode(cut.incumbent)
    simulation = judge(whole.instance.graph, sequence, whole.instance.budget)
    assert simulation.feasible
    assert simulation.duration == cut.duration(cut.objective) <= whole.duration
    gone = Counter(whole.sequence) - Counter(sequence)
    assert len(sequence) == len(whole.sequence) - gone.total()  # some are gone, none is new
    assert sequence[: cut.cut.begin] == whole.sequence[: cut.cut.begin]
    behind = len(whole.sequence) - cut.cut.end
    assert behind == 0 or sequence[-behind:] == whole.sequence[-behind:]
    for v, first, last in zip(data.computation_nodes, cut.incumbent.start, cut.incumbent.end, strict=True):
        assert first <= last <= len(data.size) * (data.latest_stage[v - 1] - 1) + data.latest_stage[v - 1]


def test_outputs_retained_throughout_a_window_are_not_in_the_model():
    # b 1 to b 3 are read at the end; the window around node 6 can do nothing about them: all their copies are used up
    graph = ComputationGraph(
        range(9),
        [1] * 9,
        [5, 5, 5, 1, 1, 1, 1, 1, 1],
        [(0, 8), (1, 8), (2, 8), *((v, v + 1) for v in range(3, 8)), (3, 6)],
    )
    instance = Instance.build(graph, 100, max_computations=[1, 1, 1, 3, 3, 3, 3, 3, 3])
    sequence = (0, 1, 2, 3, 4, 5, 3, 6, 7, 8)
    data = window(instance, sequence, 6, 7).data
    assert data.order == (4, 5, 6, -1) or data.order == (3, 4, 5, 6, -1)
    assert data.budget == 85


def test_the_window_of_a_large_graph_is_small_and_quickly_made():
    graph = random_layered(2000, seed=1)
    order, rng = graph.input_order(), random.Random(1)
    sequence = []
    for stage, v in enumerate(order):
        sequence += sorted({rng.choice(order[:stage])} if stage % 10 == 9 else (), key=order.index)
        sequence.append(v)
    instance = Instance.build(graph, simulate(graph, sequence).peak, max_computations=1000)
    incumbent = Incumbent(instance, tuple(sequence))
    begin = time.perf_counter()
    sizes = [len(incumbent.window(first, first + 59, Freedom(max_nodes=300)).data.size) for first in (1, 900, 1900)]
    assert time.perf_counter() - begin < 1
    assert max(sizes) <= 400


@pytest.mark.parametrize("workspaces", [False, True])
def test_memory_of_the_input_order_is_what_the_judge_finds(workspaces):
    instance, _ = draw(3, workspaces)
    data = presolve(instance, staged=True)
    assert tuple(data.size_scale * memory for memory in data.input_order_memory) == instance.baseline.memory


CHAIN = ComputationGraph(range(4), [1] * 4, [1] * 4, [(0, 1), (1, 2), (0, 3), (2, 3)])


def test_a_copy_may_be_retained_until_the_window_begins():
    """Node 0 is dropped after stage 2 for no reason: the window, which is stage 4, sees that there was room for it."""
    cut = window(Instance.build(CHAIN, 3), (0, 1, 2, 0, 3), 4, 4)
    assert 0 in cut.cut.at_hand
    assert Solved(cut, "gecode").sequence == (0, 1, 2, 3)


def test_a_window_without_recomputations_has_nothing_to_save():
    assert window(Instance.build(CHAIN, 4), (0, 1, 2, 3), 1, 4) is None
    assert window(Instance.build(CHAIN, 4), (0, 1, 2, 0, 3), 1, 3) is None
    assert window(Instance.build(CHAIN, 4), (0, 1, 2, 0, 3), 4, 4) is not None


@pytest.mark.parametrize(
    ("sequence", "complaint"),
    [
        ((0, 1, 2), "never computed"),
        ((0, 1, 2, 0, 1, 3), "node 0 is computed 2 times, at most 1 allowed"),
        ((0, 1, 2, 1, 1, 3), "not in stages"),
        ((0, 1, 2, 2, 1, 3), "not in stages"),
        ((1, 0, 2, 3), "reads node 0"),
    ],
)
def test_what_is_no_schedule_in_stages_is_refused(sequence, complaint):
    with pytest.raises(InputError, match=complaint):
        window(Instance.build(CHAIN, 4, max_computations=[1, 3, 3, 3]), sequence, 1, 4)


def test_a_schedule_over_the_budget_is_refused():
    with pytest.raises(InputError, match="peak 3 is over the budget 2"):
        window(Instance.build(CHAIN, 2), (0, 1, 2, 3), 1, 4)


@pytest.mark.parametrize(("first", "last"), [(0, 2), (3, 2), (1, 5)])
def test_windows_outside_the_instance_are_refused(first, last):
    with pytest.raises(InputError, match=f"window {first}..{last}: expected stages in 1..4"):
        window(Instance.build(CHAIN, 4), (0, 1, 2, 3), first, last)
