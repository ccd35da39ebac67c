"""The models, solvers and `solve` against brute force, on random graphs.

Two formulations, two forms of precedence, two indices of staged events and two solvers must all find what the oracle
finds: the same least duration, or that nothing fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from cases import Case, draw_case, least_capacity, least_duration
from few import few
from oracle import fixed_order_schedule
from solving import solve

from moccasin_mzn.formulations import Formulation, Intervals, decode, find_formulation
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

GRAPHS = 200
QUICK_GRAPHS = 10
"""So many run by default."""


def seeds(quick: int) -> list:
    """Of all graphs; only the first `quick` are run by default."""
    return few(range(GRAPHS), keep=range(quick), mark=pytest.mark.slow)


SEEDS = few(seeds(QUICK_GRAPHS), keep={0, 2, 8})
"""Nothing fits, three computations per node and another order helps, nothing of that."""
CASES_WITH_RECOMPUTATIONS = [2, 16, 59, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4, 40))]
TIME_LIMIT = 120
"""Seconds; none of the graphs should take a tenth of it."""


def check(case: Case, formulation: str, precedence: str, solver: str) -> None:
    """Compare one call of `solve` with the oracle."""
    result = solve(
        case.graph,
        case.budget,
        solver=solver,
        formulation=formulation,
        precedence=precedence,
        max_computations=case.max_computations,
        time_limit=TIME_LIMIT,
        threads=1 if solver == "cp-sat" else None,
        seed=0,
        two_phase=False,
        search="off",
    )
    expected = least_duration(case, formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    assert result.valid is (expected is not None)
    if expected is not None:
        simulation = judge(case.graph, result.sequence, case.budget)
        assert simulation.feasible
        assert (simulation.duration, simulation.peak) == (result.duration, result.peak)
        assert max(map(result.sequence.count, result.sequence)) <= case.max_computations


@pytest.mark.few(1)
@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", SEEDS)
def test_formulations_by_cp_sat_agree_with_brute_force(seed, formulation, precedence):
    check(draw_case(seed), formulation, precedence, "cp-sat")


@pytest.mark.few(5)
@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", SEEDS)
def test_formulations_by_gecode_agree_with_brute_force(seed, formulation, precedence):
    case = draw_case(seed)
    if formulation == "general" and case.max_computations > 2:  # 18 free events can take Gecode minutes
        case = Case(case.graph, case.budget, 2)
    check(case, formulation, precedence, "gecode")


@pytest.mark.parametrize(
    ("formulation", "solver"),
    [("staged", "cp-sat"), ("staged", "gecode"), ("general", "cp-sat"), ("general", "gecode"), ("staged", "highs")],
)
@pytest.mark.parametrize("seed", few(seeds(QUICK_GRAPHS), keep={1}))
def test_workspaces_are_counted_in_every_model(seed, formulation, solver):
    case = draw_case(seed, most_nodes=5, workspaces=True)
    check(Case(case.graph, case.budget, min(2, case.max_computations)), formulation, "served-by", solver)


@dataclass
class Run:
    """What one run of a model gives."""

    status: str
    objective: int | None = None
    """In the graph's own units."""
    sequence: tuple[int, ...] | None = None


def run(
    case: Case,
    form: Formulation,
    objective: str,
    solver: str,
    incumbent: tuple[int, ...] | None = None,
    model: Path | None = None,
) -> Run:
    """Presolve a case and solve one model of it, without the rest of `solve`; default: the model of the formulation."""
    instance = Instance.build(case.graph, case.budget, max_computations=case.max_computations)
    data = presolve(instance, form.staged)
    scale = {"duration": data.duration_scale, "peak": data.size_scale}[objective]
    found = Run("unknown")

    def note(values) -> None:
        found.objective = values.objective * scale
        found.sequence = decode(data, Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))

    text = dzn_text(form.data_items(case.graph, data, incumbent, objective=objective))
    limits = Limits(TIME_LIMIT, 1 if solver == "cp-sat" else None, 0)
    listener = OutputListener(solution=note, bound=lambda bound: None)
    found.status = run_model(find_backend(solver), model or form.file, text, limits, listener).status
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("solver", ["cp-sat", "gecode"])
@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("seed", few(seeds(QUICK_GRAPHS // 2), keep={2}))
def test_the_published_index_finds_what_brute_force_finds(seed, precedence, solver):
    case = draw_case(seed)
    expected = least_duration(case, "staged")
    found = run(case, find_formulation("staged", precedence=precedence, index="triangular"), "duration", solver)
    assert (found.status, found.objective) == ("infeasible" if expected is None else "optimal", expected)
    if expected is not None:
        simulation = judge(case.graph, found.sequence, case.budget)
        assert simulation.feasible
        assert simulation.duration == expected


@pytest.mark.full
@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("seed", few(few(range(12), keep=range(4), mark=pytest.mark.slow), keep={0, 2}))
def test_the_published_index_finds_the_least_peak(seed, precedence):
    """Phase 1, from the input order. What is compared is the schedule's peak: presolve rounds the budget down."""
    case = draw_case(seed)
    order = case.graph.input_order()
    found = run(case, find_formulation("staged", precedence=precedence, index="triangular"), "peak", "cp-sat", order)
    assert found.status == "optimal"
    assert max(judge(case.graph, found.sequence, case.budget).peak, case.budget) == least_capacity(case, "staged")


@pytest.mark.few(1)
@pytest.mark.parametrize("index", ["affine", "triangular"])
@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("seed", few(CASES_WITH_RECOMPUTATIONS, keep={2}))
def test_staged_and_general_accept_a_warm_start_as_a_solution(tmp_path, seed, precedence, index):
    """With the warm start as the only solution allowed, a model finds it."""
    case = draw_case(seed)
    best = fixed_order_schedule(case.graph, case.graph.input_order(), case.budget, case.max_computations)
    form = find_formulation("staged", precedence=precedence, index=index)
    model = tmp_path / "fixed.mzn"
    model.write_text(f'''
        include "{form.file}";
        constraint active = incumbent_active /\\ start = incumbent_start /\\ end = incumbent_end;
    ''')
    found = run(case, form, "duration", "cp-sat", best.sequence, model)
    assert (found.status, found.objective, found.sequence) == ("optimal", best.duration, best.sequence)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", few(few(range(12), keep=range(4), mark=pytest.mark.slow), keep={0, 2}))
@pytest.mark.parametrize("two_phase", [True, None])  # None: both in one run
def test_two_phases_end_where_one_does(seed, two_phase):
    case = draw_case(seed)
    limits = {"max_computations": case.max_computations, "threads": 1}
    result = solve(case.graph, case.budget, two_phase=two_phase, search="off", **limits)
    expected = least_duration(case, "staged")
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)


@pytest.mark.full
def test_cross_check_cases_are_of_all_kinds():
    """Most cases are worth solving, and the difference between fixed and free order and between C's is seen."""
    kinds = []
    for seed in range(GRAPHS):
        case = draw_case(seed)
        fixed, free = least_duration(case, "staged"), least_duration(case, "general")
        recomputes = fixed is not None and fixed > case.graph.total_duration
        kinds.append((recomputes, fixed is None, fixed != free, case.max_computations))
    assert sum(recomputes for recomputes, *_ in kinds) >= GRAPHS // 5
    assert GRAPHS // 10 <= sum(infeasible for _, infeasible, *_ in kinds) <= GRAPHS // 2
    assert sum(differs for _, _, differs, _ in kinds) >= GRAPHS // 10
    assert {most for *_, most in kinds} == {1, 2, 3}


@pytest.mark.few(3)
@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("seed", few(few(range(200), keep=range(6), mark=pytest.mark.slow), keep={0, 2}))
@pytest.mark.parametrize("formulation", ["staged", "general"])
def test_all_searches_together_agree_with_brute_force(seed, formulation, workspaces):
    case = draw_case(seed, workspaces=workspaces)
    result = solve(case.graph, case.budget, formulation=formulation, max_computations=case.max_computations, threads=2)
    expected = least_duration(case, formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
