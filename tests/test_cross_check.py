"""The models, solvers and `solve` against brute force, on random graphs.

Two formulations, two forms of precedence and two solvers must all find what the oracle finds: the same least duration,
or that nothing fits.
"""

from __future__ import annotations

import pytest
from cases import Case, draw_case, least_duration

from moccasin_mzn.simulate import judge
from moccasin_mzn.solve import solve

GRAPHS = 200
QUICK_GRAPHS = 30
"""So many run by default."""
SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= QUICK_GRAPHS else []) for seed in range(GRAPHS)]
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
    )
    expected = least_duration(case, formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    assert result.valid is (expected is not None)
    if expected is not None:
        simulation = judge(case.graph, result.sequence, case.budget)
        assert simulation.feasible
        assert (simulation.duration, simulation.peak) == (result.duration, result.peak)
        assert max(map(result.sequence.count, result.sequence)) <= case.max_computations


@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cp_sat_finds_what_brute_force_finds(seed, formulation, precedence):
    check(draw_case(seed), formulation, precedence, "cp-sat")


@pytest.mark.parametrize("precedence", ["served-by", "reservoir"])
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", SEEDS)
def test_gecode_finds_what_brute_force_finds(seed, formulation, precedence):
    case = draw_case(seed)
    if formulation == "general" and case.max_computations > 2:  # 18 free events can take Gecode minutes
        case = Case(case.graph, case.budget, 2)
    check(case, formulation, precedence, "gecode")


@pytest.mark.parametrize("seed", range(8))
def test_two_phases_end_where_one_does(seed):
    case = draw_case(seed)
    result = solve(case.graph, case.budget, max_computations=case.max_computations, threads=1, two_phase=True)
    assert result.duration == least_duration(case, "staged")


def test_the_cases_are_of_all_kinds():
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
