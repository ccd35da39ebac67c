"""Results say who found the answer and which proof settled it, and name a solver only for what its model did."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from plan_graphs import crossed_graph, paging_problem, u_graph
from solving import solve

from moccasin_mzn.api.race.racer import Racer
from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.report.schedules import print_result
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.board import INSTANT, WARM_START
from moccasin_mzn.search.conclusion import INPUT_ORDER
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.strategies import find_strategy

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)
BEST = (0, 1, 2, 3, 0, 4)


def credit(result) -> tuple[str, str]:
    told = result.as_dict()
    assert (told["found_by"] or "", told["proved_by"] or "") == (result.found_by, result.proved_by)
    return result.found_by, result.proved_by


def printed(result) -> str:
    out = io.StringIO()
    print_result(result, out)
    return out.getvalue()


@pytest.mark.full
def test_credit_of_a_model_alone():
    result = solve(SKIP, 8, search="off", time_limit=60)
    assert credit(result) == ("cp-sat", "cp-sat")
    assert "found by cp-sat, proved by cp-sat\n" in printed(result) and "solver: cp-sat" in printed(result)


def test_credit_of_searches_without_a_model():
    result = solve(SKIP, 8, search="only", time_limit=60)
    found, proved = credit(result)
    assert found in ("local search", "relaxation") and proved == "relaxation"
    assert "solver:" not in printed(result)


def test_a_solver_that_was_not_needed_is_not_credited():
    result = solve(SKIP, 8, search="off", time_limit=60)
    other = replace(result, found_by="relaxation", proved_by="relaxation")
    line = f"solver: cp-sat ({result.solver_version}) by {result.driver}"
    assert f"{line}\n" in printed(result) and f"{line}, begun but not needed\n" in printed(other)


def test_what_a_solver_starts_from_is_not_its_own():
    result = solve(SKIP, 8, search="off", time_limit=60, warm_start=BEST)
    assert (result.sequence, *credit(result)) == (BEST, WARM_START, "cp-sat")


@pytest.mark.parametrize(("budget", "found"), [(100, INPUT_ORDER), (7, "")])
def test_credit_of_what_is_known_at_once(budget, found):
    result = solve(SKIP, budget, time_limit=60)
    assert credit(result) == (found, INSTANT)
    assert "solver:" not in printed(result)  # no model ran


def test_credit_of_no_proof_is_empty():
    result = solve(SKIP, 8, search="off", until_gap=0.9, warm_start=BEST, time_limit=60)
    assert (result.status, *credit(result)) == ("feasible", WARM_START, "")


def test_credit_of_a_strategy():
    result = apply(Instance.build(SKIP, 100), find_strategy("keep-all"))
    assert credit(result) == ("keep-all", INSTANT)


def test_credit_of_plans():
    options = SearchOptions(search="off", threads=1, seed=0, time_limit=60)
    found, proved = credit(solve_problem(paging_problem(u_graph(), 6), PagingFormulation(), options))
    assert found == "cp-sat" and proved in ("cp-sat", INSTANT)
    assert credit(solve_problem(paging_problem(crossed_graph(), 11), PagingFormulation(), options)) == ("", INSTANT)


def test_a_racer_with_searches_of_its_own_is_not_its_solver():
    assert Racer("highs", True, "on").credit("local search") == "highs, local search"
    assert Racer("highs", True, "on").credit("highs") == "highs"
    assert Racer("highs", True, "off").credit("highs") == "highs"
    assert Racer("search", False, "only").credit("relaxation") == "search"
