"""`models/paper.mzn`, the equations of the paper as printed: its optima are those of `staged` and `general`."""

from __future__ import annotations

import re

import pytest
from cases import MODELS, Case, draw_case, least_capacity, least_duration
from documents import page
from few import few
from flat import least_duration as least_by_model
from flat import optimum_by_cp_sat
from fzn_support import minizinc
from script_loading import load_script

from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import find_backend

PAPER = MODELS / "paper.mzn"
EXAMPLE = MODELS.parent / "data" / "paper_example.dzn"
GRAPHS = 100
MOST_NODES = {"staged": 6, "general": 5}
"""Free events grow too fast for more."""
MOST_COMPUTATIONS = {"staged": 3, "general": 2}


def paper_data(case: Case, form: str, phase: int) -> str:
    """The question of a case in the letters of the paper."""
    graph = case.graph
    items = {
        "n": len(graph.nodes),
        "w": graph.durations,
        "m": graph.sizes,
        "E": [(u + 1, v + 1) for u, v in graph.edges],
        "C": [case.max_computations] * len(graph.nodes),
        "M": case.budget,
        "order": [v + 1 for v in graph.input_order()],
        "staged": form == "staged",
        "phase": phase,
    }
    if not graph.edges:
        del items["E"]
    return dzn_text(items) + ("" if graph.edges else "E = array2d(1..0, 1..2, []);\n")


def small_case(seed: int, form: str) -> Case:
    case = draw_case(seed, most_nodes=MOST_NODES[form])
    return Case(case.graph, case.budget, min(case.max_computations, MOST_COMPUTATIONS[form]))


def optimum(data: str, model=PAPER) -> int | None:
    return optimum_by_cp_sat(compile_model(find_backend("cp-sat"), model, data))


def printed(solver: str, *arguments) -> str:
    """What `minizinc` prints last, with the optimum or that there is none proven."""
    out = minizinc("--solver", solver, PAPER, *arguments, check=True).stdout
    assert out.endswith("==========\n") or "UNSATISFIABLE" in out
    return out


def test_paper_model_is_one_page_with_every_equation():
    text = PAPER.read_text()
    comments = " ".join(line.partition("%")[2] for line in text.splitlines())
    assert {f"({number})" for number in range(1, 14)} <= set(re.findall(r"\(\d+\)", comments))
    assert len(text.splitlines()) <= 90
    assert re.findall(r'include "(.*)"', text) == ["all_different.mzn", "cumulative.mzn"]


def test_paper_page_shows_lines_of_the_model():
    lines = PAPER.read_text().splitlines()
    shown = [
        line
        for block in page("docs/paper.md").blocks
        if block.language == "minizinc"
        for line in block.text.splitlines()
    ]
    assert len(shown) >= 25
    assert [line for line in shown if line and line not in lines] == []


def test_paper_drawings_are_of_the_example():
    figures, given = load_script("paper_figures"), EXAMPLE.read_text()
    graph, picture = figures.GRAPH, figures.intervals()
    edges = " |".join(f"{u + 1}, {v + 1}" for u, v in graph.edges)
    for item in (
        f"w = {list(graph.durations)}",
        f"m = {list(graph.sizes)}",
        f"M = {figures.BUDGET}",
        f"E = [|{edges}|]",
    ):
        assert f"{item};" in given
    events = [figures.event(stage, v + 1) for stage, v in zip(picture.stages, figures.SEQUENCE, strict=True)]
    for form, number in (("false", lambda p: p), ("true", lambda p: events[p - 1])):
        drawn = {
            v: [f"{number(bar.start)}..{number(bar.end)}" for bar in picture.bars if bar.node == v] for v in range(4)
        }
        lines = printed("gecode", EXAMPLE, "-D", f"staged = {form};").splitlines()
        assert lines[1:5] == [f"node {v + 1}: {', '.join(intervals)}" for v, intervals in drawn.items()]


def example(budget: int, rest: str) -> str:
    """The data of the example with another budget."""
    return re.sub(r"(?m)^M = .*$", f"M = {budget};", EXAMPLE.read_text()) + rest


@pytest.mark.parametrize("solver", ["gecode", "cp-sat"])
@pytest.mark.parametrize("staged", ["false", "true"])
def test_paper_model_solves_the_example(solver, staged):
    """1 2 3 1 4, with `minizinc` and the file that the page names."""
    assert "duration 5, peak 4, M 4\n" in printed(solver, EXAMPLE, "-D", f"staged = {staged};")


@pytest.mark.parametrize("staged", ["false", "true"])
def test_paper_model_solves_the_example_at_other_budgets(staged):
    """1 2 3 4 needs 5; 2 with its output and 3 need 4."""
    assert optimum(example(5, f"staged = {staged};")) == 4
    assert optimum(example(3, f"staged = {staged};")) is None
    assert optimum(example(3, f"staged = {staged}; phase = 1;")) == 4


@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize(
    "seed", few(few(range(GRAPHS), keep=range(GRAPHS // 2), mark=pytest.mark.slow), keep=range(1, 4))
)
@pytest.mark.few(3)
def test_optima_are_those_of_our_models_and_of_brute_force(seed, form):
    case = small_case(seed, form)
    instance = Instance.build(case.graph, case.budget, max_computations=case.max_computations)
    expected = least_duration(case, form)
    assert least_by_model(find_formulation(form), instance, "cp-sat") == expected
    assert optimum(paper_data(case, form, phase=2)) == expected


@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", few(few(range(GRAPHS), keep=GRAPHS // 2, mark=pytest.mark.slow), keep=2))
def test_phase_1_finds_the_least_memory(seed, form):
    case = small_case(seed, form)
    assert optimum(paper_data(case, form, phase=1)) == least_capacity(case, form)


@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", few(few(range(GRAPHS), keep=GRAPHS // 2, mark=pytest.mark.slow), keep=2))
def test_gecode_agrees_and_what_it_prints_is_a_schedule(tmp_path, seed, form):
    """On smaller graphs; intervals sorted by start are a sequence that the simulator judges."""
    case = draw_case(seed, most_nodes=5 if form == "staged" else 4)
    case = Case(case.graph, case.budget, min(2, case.max_computations))
    data = tmp_path / "data.dzn"
    data.write_text(paper_data(case, form, phase=2))
    out, expected = printed("gecode", data), least_duration(case, form)
    assert ("UNSATISFIABLE" in out) == (expected is None)
    if expected is not None:
        last = out[out.rindex("duration") :]
        starts = [
            (int(start), int(node) - 1)
            for node, intervals in re.findall(r"node (\d+): (.*)", last)
            for start in re.findall(r"(\d+)\.\.", intervals)
        ]
        simulation = simulate(case.graph, [v for _, v in sorted(starts)])
        duration, peak = map(int, re.match(r"duration (\d+), peak (\d+)", last).groups())
        assert simulation.duration == duration == expected
        assert simulation.peak <= peak <= case.budget


def test_no_constraint_of_the_reservoir_is_lost():
    """3 is in memory when 2 is computed: with sums in place of levels MiniZinc 2.6.4 finds 14 enough."""
    data = "n = 3; w = [9, 7, 4]; m = [8, 9, 6]; E = [|1, 3|3, 2|]; C = [1, 1, 1]; order = [1, 3, 2];"
    for staged in ("false", "true"):
        assert optimum(f"{data} M = 14; staged = {staged};") is None
        assert optimum(f"{data} M = 15; staged = {staged};") == 20


def test_the_drop_of_10_as_printed_contradicts_4_and_5():
    """With -1 at e[u, j] the optimum of the example is lost, and stages have no solution whatever the budget is."""
    text = PAPER.read_text()
    assert text.count("[e[u, j] + 1 | j in J]") == 1
    as_printed = text.replace("[e[u, j] + 1 | j in J]", "[e[u, j] | j in J]")
    for staged, optima in (("false", [None, 4, 4]), ("true", [None, None, None])):
        assert [optimum(example(budget, f"staged = {staged};"), as_printed) for budget in (4, 5, 9)] == optima
