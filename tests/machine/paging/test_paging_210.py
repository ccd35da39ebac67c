"""The models of paging under MiniZinc 2.10, against brute force."""

from __future__ import annotations

import re

import newer_minizinc as newer
import pytest
from paging_cases import best, draw_problem

from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.solvers.minizinc.run import dzn_text

pytestmark = newer.needs_newer


@pytest.mark.slow
@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", [5, 17])
def test_paging_with_minizinc_2_10_agrees_with_its_checker(tmp_path, seed, form):
    problem, formulation = draw_problem(seed), PagingFormulation(form == "staged")
    found = best(problem, form)
    data = formulation.data(problem)
    incumbent = found.plan
    (tmp_path / "data.dzn").write_text(dzn_text(formulation.data_items(data, incumbent)))
    objective = newer.cp_sat_objective(newer.NEWER, f"paging_{form}", tmp_path / "data.dzn", tmp_path)
    expected = found.totals[OBJECTIVES.index(problem.goal.objective)]
    assert formulation.objective(data, objective) == expected
    out = newer.execute(
        newer.NEWER,
        "--solver",
        "gecode",
        formulation.file,
        newer.MODELS / formulation.checker,
        tmp_path / "data.dzn",
    )
    assert "INCORRECT" not in out
    assert int(re.findall(r"CORRECT: cost (\d+)", out)[-1]) * data.totals[0].scale == expected
