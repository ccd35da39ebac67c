"""Solution checkers of graphs with several outputs: they accept what the models find, and refuse outputs apart."""

from __future__ import annotations

import shutil

import pytest
from few import few
from outputs_oracle import draw_operations

import moccasin_mzn as mz
from moccasin_mzn.cli.solve import checker_lines
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.checkers import run_checker
from moccasin_mzn.formulations.presolve import as_given
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["staged", "general", "checkmate-milp", "checkmate-milp-strengthened"])
@pytest.mark.parametrize("seed", few(range(60), keep=3))
def test_checkers_accept_what_models_find_of_several_outputs(form, seed):
    operations, budget, most = draw_operations(seed, 4)
    limit = {} if form.startswith("checkmate") else {"max_computations": most}
    found = mz.solve(operations.graph, budget, time_limit=60, threads=1, formulation=form, search="off", **limit)
    if found.valid:
        lines = checker_lines(found.details)
        assert len(lines) == 1 + (found.details.solution is not None) and all(
            "CORRECT" in line and "INCORRECT" not in line for line in lines
        )


SPLIT = ComputationGraph(
    list("xsrab"), [1, 2, 0, 1, 1], [4, 2, 2, 1, 1], [(0, 1), (1, 3), (2, 4), (3, 4)],
    output_of=[None, None, 1, None, None], order=range(5),
)  # fmt: skip
APART = "INCORRECT: node 3 at event {} does not come directly after the first output of its operation"


def test_checkers_of_intervals_refuse_outputs_apart():
    """The right part, node 3, after the left one, node 2, or after a, which is computed from that."""
    items = find_formulation("general").data_items(SPLIT, as_given(Instance.build(SPLIT, 20, max_computations=1)))
    columns = {"active": [True] * 5, "computed_node": [1, 2, 3, 4, 5], "total_duration": 5, "capacity": 20}
    columns |= {"offset": (), "workspace_offset": ()}
    together = {"start": [1, 2, 3, 4, 5], "end": [3, 4, 5, 5, 5]}
    apart = {"start": [1, 2, 4, 3, 5], "end": [4, 4, 5, 5, 5]}
    for checker in ("staged.mzc.mzn", "general.mzc.mzn"):
        assert run_checker(checker, {**items, **columns, **together}) == "CORRECT: duration 5, peak 8"
        assert run_checker(checker, {**items, **columns, **apart}) == APART.format(4)


def test_the_checker_of_matrices_refuses_outputs_apart():
    """The right part is computed again in stage 5, by itself."""
    data = as_given(Instance.build(SPLIT, 20, max_computations=2))
    items = find_formulation("checkmate-milp").data_items(SPLIT, data)
    computed = [[int(t == i) for i in range(5)] for t in range(5)]
    kept = [[int(i < t) for i in range(5)] for t in range(5)]
    solution = {"R": computed, "S": kept, "total_duration": 5}
    assert run_checker("checkmate.mzc.mzn", {**items, **solution}).startswith("CORRECT: duration 5")
    computed[4][2] = 1
    refused = run_checker("checkmate.mzc.mzn", {**items, **solution})
    assert refused == "INCORRECT: node 3 does not come directly after the first output of its operation"
