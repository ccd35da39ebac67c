"""Models of graphs that run in place: against brute force, with every form, and by the checkers."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from cases import MODEL_FORMS, MODELS, Case, data_text, draw_case, least_capacity, least_duration
from few import few
from oracle import fixed_order_schedule
from solving import solve

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Intervals, decode, find_formulation
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

SEEDS = few(few(range(200), keep={2, 7, *range(0, 200, 3)}, mark=pytest.mark.slow), keep={0, 2, 7})


def drawn(seed: int, most_nodes: int = 6) -> Case:
    return draw_case(seed, most_nodes, workspaces=seed % 4 == 3, in_place=True)


def check(case: Case, formulation: str, **how) -> None:
    """Compare a call of `solve` with brute force."""
    result = solve(
        case.graph, case.budget, formulation=formulation, max_computations=case.max_computations, time_limit=120,
        seed=0, **how,
    )  # fmt: skip
    expected = least_duration(case, formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    if expected is not None:
        assert judge(case.graph, result.sequence, case.budget).feasible


@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_models_find_what_brute_force_finds(seed, formulation):
    check(drawn(seed), formulation, search="off", threads=1)


@pytest.mark.parametrize(
    ("formulation", "solver", "own"),
    [
        ("staged", "gecode", {"two_phase": False}),
        ("general", "gecode", {"two_phase": False}),
        ("staged", "highs", {"two_phase": False}),
        ("staged", "cp-sat", {"two_phase": True}),
        ("staged", "cp-sat", {"index": "triangular", "precedence": "reservoir"}),
        ("general", "cp-sat", {"precedence": "reservoir"}),
        ("staged", "cp-sat", {"presolve": "off"}),
    ],
)
@pytest.mark.parametrize("seed", few(few(range(300, 320), keep=10, mark=pytest.mark.slow), keep=0))
def test_other_solvers_and_forms_find_the_same(seed, formulation, solver, own):
    case = drawn(seed, most_nodes=5)
    check(Case(case.graph, case.budget, min(2, case.max_computations)), formulation, search="off", solver=solver, **own)


@pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
@pytest.mark.parametrize("seed", few([14, 34, 35], keep=1))
@pytest.mark.parametrize(
    ("model", "form"), few([form for form in MODEL_FORMS if form[0] in ("staged", "general")], keep=1)
)
def test_the_checkers_accept_solutions(tmp_path, model, form, seed):
    case = drawn(seed)
    case = Case(case.graph, case.budget, 2)
    data = tmp_path / "data.dzn"
    data.write_text(data_text(case) + form)
    command = ["minizinc", "--solver", "gecode", MODELS / f"{model}.mzn", MODELS / f"{model}.mzc.mzn", data]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "INCORRECT" not in out
    duration, peak = map(int, re.search(r"CORRECT: duration (\d+), peak (\d+)", out).groups())
    if "PEAK" in form:
        assert peak <= least_capacity(case, model)
    elif least_duration(case, model) is not None:
        assert duration == least_duration(case, model) and peak <= case.budget


@pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
@pytest.mark.full
def test_the_checkers_count_as_the_judge_does(tmp_path):
    """c takes the memory of b, which b gives only if nobody reads it later."""
    graph = ComputationGraph(
        list("abcd"), [1] * 4, [3, 3, 3, 1], [(0, 1), (1, 2), (2, 3)], in_place=[[], [0], [1], []], runs_in_place=True
    )
    solution = {
        "active": [True] * 4, "start": [1, 6, 11, 16], "end": [6, 11, 16, 16], "computed_node": [1, 2, 3, 4],
        "total_duration": 4, "capacity": 4, "offset": [], "workspace_offset": [],
    }  # fmt: skip

    def verdict(given: dict) -> str:
        data = tmp_path / "solution.dzn"
        data.write_text(data_text(Case(graph, 4, 1)) + dzn_text(given))
        command = ["minizinc", "--solver", "gecode", MODELS / "staged.mzc.mzn", data]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()[0]

    assert verdict(solution) == "CORRECT: duration 4, peak 4"
    assert verdict({**solution, "end": [7, 11, 16, 16]}) == "INCORRECT: memory 6 at event 6 is over 4"


@pytest.mark.parametrize("seed", few([2, 16, 59, 3, 4, 40], keep=1))
def test_in_place_models_accept_a_warm_start_as_a_solution(tmp_path, seed):
    """With the warm start as the only solution allowed, the model finds it."""
    case = drawn(seed)
    order = case.graph.input_order()
    best = fixed_order_schedule(case.graph, order, case.budget, case.max_computations)
    if best is None:
        case = replace(case, budget=case.graph.total_size + max(case.graph.workspace_of))
        best = fixed_order_schedule(case.graph, order, case.budget, case.max_computations)
    form, found = find_formulation("staged"), []
    data = presolve(Instance.build(case.graph, case.budget, max_computations=case.max_computations), staged=True)
    model = tmp_path / "fixed.mzn"
    model.write_text(f"""
        include "{form.file}";
        constraint active = incumbent_active /\\ start = incumbent_start /\\ end = incumbent_end;
    """)
    text = dzn_text(form.data_items(case.graph, data, best.sequence))
    outcome = run_model(
        find_backend("cp-sat"), model, text, Limits(60, 1, 0),
        OutputListener(solution=lambda values: found.append(values), bound=lambda bound: None),
    )  # fmt: skip
    values = found[-1]
    assert outcome.status == "optimal" and values.objective * data.duration_scale == best.duration
    sequence = decode(data, Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))
    assert sequence == best.sequence


@pytest.mark.parametrize("formulation", ["checkmate-milp", "checkmate-milp-strengthened"])
def test_checkmate_refuses_in_place(formulation):
    case = drawn(2)
    with pytest.raises(InputError, match=f"^in place: {formulation} does not handle that: leave out --in-place"):
        find_formulation(formulation).data(Instance.build(case.graph, case.budget))
