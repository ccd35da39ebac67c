"""Every formulation and strategy against brute force, and against each other, on 300 random graphs of up to 7 nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import oracle
import pytest
from cases import Case, draw_case
from few import few
from flat import least_duration
from solving import solve

from moccasin_mzn.api.compare import contenders
from moccasin_mzn.base.errors import NotApplicableError
from moccasin_mzn.formulations import find_formulation, staged_events
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.solution_checkers import check_schedule
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance, pruned
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.strategies import strategies

GRAPHS = 300
QUICK_GRAPHS = 8
"""So many run by default."""
EXTRA_COMPUTATIONS = 2
"""Brute force looks at all sequences with up to so many recomputations."""


def seeds(quick: int = QUICK_GRAPHS) -> list:
    return few(range(GRAPHS), keep=range(quick), mark=pytest.mark.slow)


@cache
def drawn(seed: int) -> Case:
    return draw_case(seed, most_nodes=7)


def instance_of(case: Case, most: int | str) -> Instance:
    return Instance.build(case.graph, case.budget, max_computations=most)


@cache
def staged_optimum(seed: int, most: int) -> int | None:
    case = drawn(seed)
    return oracle.best_fixed_order(case.graph, case.graph.input_order(), case.budget, most)


def sequences(
    graph: ComputationGraph, budget: int, extra: int, begun: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """All schedules within the budget with up to `extra` recomputations that begin in this way and end with a first
    computation. What is begun needs no less memory later on, which leaves out whatever is over the budget already."""
    if len(set(begun)) == len(graph.nodes):
        yield begun
        return
    for v in range(len(graph.nodes)):
        again = v in begun
        if extra < again or not set(graph.predecessors[v]) <= set(begun):
            continue
        if simulate(graph, (*begun, v)).peak <= budget:
            yield from sequences(graph, budget, extra - again, (*begun, v))


@pytest.mark.few(1)
@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
@pytest.mark.parametrize("seed", few(seeds(), keep=3))
def test_checkmate_finds_the_best_staged_schedule(seed, solver):
    instance = instance_of(drawn(seed), "unlimited")
    for form in (find_formulation("checkmate-milp"), find_formulation("checkmate-milp-strengthened")):
        assert least_duration(form, instance, solver) == staged_optimum(seed, len(instance.order)), form.name


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", few(seeds(), keep=3))
def test_staged_finds_the_best_staged_schedule_for_each_limit(seed):
    """C = n, which is no limit, and C = 1, 2, 3, none of them better than the next."""
    n = len(drawn(seed).graph.nodes)
    staged = find_formulation("staged")
    found = [least_duration(staged, instance_of(drawn(seed), most), "cp-sat") for most in (1, 2, 3, max(3, n))]
    assert found == [staged_optimum(seed, most) for most in (1, 2, 3, max(3, n))]
    feasible = [duration for duration in found if duration is not None]
    assert feasible == found[len(found) - len(feasible) :]  # once there is a schedule, there is one for larger C
    assert feasible == sorted(feasible, reverse=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", few(seeds(), keep=3))
def test_general_finds_the_best_of_all_sequences(tmp_path, seed):
    """The model with at most n + 2 computations, each node at most three times, against all such sequences."""
    case = drawn(seed)
    form = find_formulation("general")
    model = tmp_path / "short.mzn"
    model.write_text(f"""
        include "{form.file}";
        constraint sum(c in COMPUTATION)(bool2int(active[c])) <= nodes + {EXTRA_COMPUTATIONS};
    """)
    found = least_duration(form, instance_of(case, 1 + EXTRA_COMPUTATIONS), "cp-sat", model)
    durations = (sum(case.graph.durations[v] for v in sequence)
                 for sequence in sequences(case.graph, case.budget, EXTRA_COMPUTATIONS))  # fmt: skip
    assert found == min(durations, default=None)


@pytest.mark.parametrize("seed", few(seeds(), keep=3))
def test_no_strategy_beats_the_optimum(seed):
    """A strategy's schedule is as long and needs as much memory as it says, and is no shorter than the best schedule
    in any order within that memory."""
    case = drawn(seed)
    instance = instance_of(case, "unlimited")
    for strategy in strategies():
        try:
            result = apply(instance, strategy)
        except NotApplicableError:
            continue
        if not result.found:
            continue
        simulation = judge(case.graph, result.sequence, case.budget)
        assert (simulation.peak, simulation.duration) == (result.peak, result.duration), strategy.name
        assert result.valid is simulation.feasible is (result.peak <= case.budget)
        assert result.status in (("optimal", "feasible") if result.valid else ("over-budget",))
        best = oracle.best_free_order(case.graph, max(result.peak, case.budget), len(case.graph.nodes))
        assert best <= result.duration, strategy.name


MEMORY_INCUMBENT = {
    "checkmate-milp": """
        /\\ forall(t in NODE, e in EDGE where head[e] <= t)(
            F[t, e] = bool2int(starts(head[e], event(t, head[e])) /\\ ends(tail[e], event(t, head[e]))))
        /\\ forall(t, k in NODE where k <= t)(
            F_own[t, k] = bool2int(starts(k, event(t, k)) /\\ ends(k, event(t, k))))""",
    "checkmate-milp-strengthened": """
        /\\ forall(t in NODE, e in EDGE where head[e] <= t)(A[t, e] = bool2int(holds(tail[e], event(t, head[e]))))""",
}


@pytest.mark.parametrize("name", MEMORY_INCUMBENT)
@pytest.mark.parametrize("seed", few([2, 3, 4, 16, *few(range(20, 80), keep=(), mark=pytest.mark.slow)], keep=2))
def test_checkmates_warm_start_is_a_solution(tmp_path, seed, name):
    """With the values of the warm start as the only ones allowed, there is a solution: the schedule it came from."""
    case = drawn(seed)
    n = len(case.graph.nodes)
    best = oracle.fixed_order_schedule(case.graph, case.graph.input_order(), case.budget, n)
    form = find_formulation(name)
    instance = instance_of(case, "unlimited")
    if best is None:
        return
    sequence = pruned(case.graph, best.sequence, case.budget)  # of what takes no time the oracle may compute too much
    if not all_useful(form.data(instance), sequence):
        return
    model = tmp_path / "fixed.mzn"
    model.write_text(f"""
        include "{form.file}";
        constraint forall(t, i in NODE where i <= t)(
            R[t, i] = bool2int(starts(i, event(t, i))) /\\ S[t, i] = bool2int(i < t /\\ holds(i, event(t, 1))))
            {MEMORY_INCUMBENT[name]};
    """)
    assert least_duration(form, instance, "cp-sat", model, sequence) == best.duration


def all_useful(data: ModelData, sequence: tuple[int, ...]) -> bool:
    """Does a schedule recompute only in stages in which presolve finds it of use? One that does not is a mere hint."""
    stage = 1
    for event in staged_events(data, sequence):
        v = (event - 1) % len(data.order) + 1
        if v == stage:
            stage += 1
        elif not data.earliest_stage[v - 1] <= stage <= data.latest_stage[v - 1]:
            return False
    return True


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 16))])
@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
@pytest.mark.parametrize("name", few(["checkmate-milp-strengthened", "checkmate-milp"], keep=1))
def test_checkmate_from_end_to_end(name, solver, seed):
    """The same through `solve`, with processes, presolve, decoding and both judges."""
    case = drawn(seed)
    result = solve(case.graph, case.budget, formulation=name, solver=solver, time_limit=120)
    expected = staged_optimum(seed, len(case.graph.nodes))
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    if result.found:
        assert f"duration {result.duration}, peak {result.peak}" in check_schedule(
            result.instance, result.sequence, result.simulation
        )


@pytest.mark.full
def test_the_cases_distinguish_formulations():
    """Among the graphs there are some on which staged and general differ, and C = 1, 2 and n."""
    differ = {"order": 0, "limit": 0, "infeasible": 0, "recomputing": 0}
    for seed in range(70):
        case = drawn(seed)
        n = len(case.graph.nodes)
        free = oracle.best_free_order(case.graph, case.budget, 2)
        differ["order"] += free != staged_optimum(seed, 2)
        differ["limit"] += staged_optimum(seed, 2) != staged_optimum(seed, n)
        differ["infeasible"] += staged_optimum(seed, n) is None
        differ["recomputing"] += staged_optimum(seed, n) not in (None, case.graph.total_duration)
    assert differ["order"] >= 5 and differ["infeasible"] >= 3 and differ["recomputing"] >= 15
    assert differ["limit"] >= 1


def test_every_strategy_is_compared():
    labels = [contender.label for contender in contenders()]
    assert {strategy.name for strategy in strategies()} <= set(labels)
    assert len(labels) == len(set(labels))
