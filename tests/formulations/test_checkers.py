"""The solution checker of the models: it accepts what solvers find and names what is wrong with damaged solutions."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cases import MODEL_FORMS, MODELS, Case, data_text, draw_case, least_capacity, least_duration
from few import few

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.run import dzn_text

CHECKER = MODELS / "staged.mzc.mzn"

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


def u_shape(half: int) -> ComputationGraph:
    """A chain in which node v of the second half also reads its mirror image in the first half."""
    n = 2 * half
    chain = [(v, v + 1) for v in range(n - 1)]
    return ComputationGraph(range(n), [1] * n, [1] * n, chain + [(v, n - 1 - v) for v in range(half - 1)])


CASE = Case(u_shape(3), budget=3, max_computations=2)
SOLUTION = {  # nodes 1 2 3 4 5 1 6, where the last stage recomputes node 1
    "active": [True, True, True, False, True, False, True, False, True, False, True, False],
    "start": [1, 31, 8, 14, 15, 21, 22, 28, 29, 35, 36, 36],
    "end": [8, 36, 29, 14, 22, 21, 29, 28, 36, 35, 36, 36],
    "computed_node": [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6],
    "total_duration": 7,
    "capacity": 3,
    "offset": [],
    "workspace_offset": [],
}


def minizinc(*arguments) -> str:
    """What MiniZinc prints, without the warnings of its library."""
    command = ["minizinc", "--solver", "gecode", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def verdict(folder, case: Case, solution: dict, checker: Path = CHECKER) -> str:
    """What the checker says when it runs by itself, with the solution as data."""
    data = folder / "solution.dzn"
    data.write_text(data_text(case) + dzn_text(solution))
    return minizinc(checker, data).splitlines()[0]


def changed(array: str, computation: int, value) -> dict:
    """The solution with one value of an array changed; computations count from 1."""
    values = list(SOLUTION[array])
    values[computation - 1] = value
    return {**SOLUTION, array: values}


@pytest.mark.few(8)
@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("seed", few([14, 34], keep=1))
@pytest.mark.parametrize(("model", "form"), few(MODEL_FORMS, keep=8))
def test_solutions_of_every_model_are_accepted(tmp_path, model, form, seed, workspaces):
    case = draw_case(seed, workspaces=workspaces)
    case = Case(case.graph, case.budget, 2)
    data = tmp_path / "data.dzn"
    data.write_text(data_text(case) + form)
    out = minizinc(MODELS / f"{model}.mzn", MODELS / f"{model}.mzc.mzn", data)
    duration, peak = map(int, re.search(r"CORRECT: duration (\d+), peak (\d+)", out).groups())
    assert "INCORRECT" not in out
    if "PEAK" in form:
        assert peak <= least_capacity(case, model)
    elif least_duration(case, model) is None:
        assert "ELASTIC" in form and peak == least_capacity(case, model)
    else:
        assert duration == least_duration(case, model)
        assert peak <= case.budget


def test_staged_checker_accepts_a_solution_by_hand(tmp_path):
    assert verdict(tmp_path, CASE, SOLUTION) == "CORRECT: duration 7, peak 3"


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        (changed("active", 5, False), "node 3 is never computed"),
        (changed("start", 2, 36), "two computations at event 36"),
        (changed("end", 5, 14), "the copy of node 3 computed at event 15 ends before, at 14"),
        (changed("end", 1, 32), "node 1 is computed at event 31, but its copy of event 1 is held until 32"),
        (changed("end", 1, 7), "node 2 at event 8 reads node 1, which is not held"),
        (changed("end", 2, 35), "node 6 at event 36 reads node 1, which is not held"),
        (changed("active", 2, False), "node 6 at event 36 reads node 1, which is not held"),
        (changed("start", 7, 29), "two computations at event 29"),
        (changed("start", 11, 28), "node 6 at event 28 reads node 1, which is not held"),
        (changed("end", 5, 29), "memory 4 at event 29 is over 3"),
        ({**SOLUTION, "total_duration": 6}, "total_duration is 6, the computations take 7"),
        ({**SOLUTION, "capacity": 2}, "memory 3 at event 22 is over 2"),
    ],
)
def test_staged_checker_rejects_damaged_solutions(tmp_path, damaged, complaint):
    assert verdict(tmp_path, CASE, damaged) == f"INCORRECT: {complaint}"


def test_a_capacity_below_the_budget_is_rejected(tmp_path):
    roomy = Case(CASE.graph, budget=4, max_computations=2)
    assert verdict(tmp_path, roomy, SOLUTION) == "INCORRECT: capacity 3 is less than the budget 4"


def test_a_large_solution_is_checked_in_seconds(tmp_path):
    graph = u_shape(125)
    n = len(graph.nodes)
    peak = simulate(graph, range(n)).peak
    event = [n * v + v + 1 for v in range(n)]
    solution = {
        "active": [True] * n,
        "start": event,
        "end": [event[max(graph.successors[v], default=v)] for v in range(n)],
        "computed_node": list(range(1, n + 1)),
        "offset": [],
        "workspace_offset": [],
        "total_duration": n,
        "capacity": peak,
    }
    begin = time.monotonic()
    assert verdict(tmp_path, Case(graph, peak, 1), solution) == f"CORRECT: duration {n}, peak {peak}"
    assert time.monotonic() - begin < 10


# Checkmate: the same schedule as matrices, one row a stage; the last stage computes node 1 again

MATRICES = {
    "R": [[int(t == i or (t, i) == (6, 1)) for i in range(1, 7)] for t in range(1, 7)],
    "S": [
        [0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0],
        [0, 1, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
    ],
    "total_duration": 7,
}


def with_cell(matrix: str, stage: int, node: int, value: int) -> dict:
    """The matrices with one cell changed; stages and nodes count from 1."""
    rows = [list(row) for row in MATRICES[matrix]]
    rows[stage - 1][node - 1] = value
    return {**MATRICES, matrix: rows}


def test_checkmate_checker_accepts_matrices_by_hand(tmp_path):
    assert verdict(tmp_path, CASE, MATRICES, MODELS / "checkmate.mzc.mzn") == "CORRECT: duration 7, peak 3"


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        (with_cell("R", 3, 3, 0), "node 3 is not computed in its own stage"),
        (with_cell("R", 2, 4, 1), "stage 2 computes node 4, which comes later"),
        (with_cell("S", 1, 1, 1), "node 1 is kept into stage 1, but is not in memory in the stage before"),
        (with_cell("S", 4, 1, 1), "node 1 is kept into stage 4, but is not in memory in the stage before"),
        (with_cell("S", 3, 2, 0), "node 2 is kept into stage 4, but is not in memory in the stage before"),
        (with_cell("R", 6, 1, 0), "node 6 in stage 6 reads node 1, which is not in memory"),
        (with_cell("S", 5, 2, 0), "node 5 in stage 5 reads node 2, which is not in memory"),
        (with_cell("R", 5, 1, 1), "total_duration is 7, the computations take 8"),
        (with_cell("R", 4, 1, 1), "total_duration is 7, the computations take 8"),
        ({**MATRICES, "total_duration": 6}, "total_duration is 6, the computations take 7"),
    ],
)
def test_checkmate_checker_rejects_damaged_matrices(tmp_path, damaged, complaint):
    assert verdict(tmp_path, CASE, damaged, MODELS / "checkmate.mzc.mzn") == f"INCORRECT: {complaint}"


def test_checkmate_checker_rejects_matrices_over_the_budget(tmp_path):
    small = Case(CASE.graph, budget=2, max_computations=2)
    assert verdict(tmp_path, small, MATRICES, MODELS / "checkmate.mzc.mzn") == "INCORRECT: memory 3 is over 2"
