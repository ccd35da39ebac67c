"""The model files: what they cite, what they include, and what they need."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cases import MODELS, Case, draw_case, least_duration
from few import few
from solving import solve

from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.formulation import header
from moccasin_mzn.formulations.presolve import as_given
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import find_backend

MAIN = sorted(path for path in MODELS.glob("*.mzn") if not path.name.endswith(".mzc.mzn"))
_EQUATION = re.compile(r"^\s*% ((?:\(\d+\)(?:, | and )?)+)", re.MULTILINE)


def parts(path: Path, seen: set[Path]) -> set[Path]:
    """A model and all files of ours that it includes."""
    seen.add(path)
    for name in re.findall(r'^include "(.*)";', path.read_text(), re.MULTILINE):
        if (path.parent / name).is_file() and path.parent / name not in seen:
            parts(path.parent / name, seen)
    return seen


def test_every_equation_of_the_paper_is_cited_once_where_it_stands():
    """The numbers at the beginning of a comment, over the constraint; `models/README.md` says which is where."""
    cited = {
        number: sorted(
            path.name
            for path in {*parts(MODELS / "staged.mzn", set()), *parts(MODELS / "general.mzn", set())}
            for numbers in _EQUATION.findall(path.read_text())
            if number in map(int, re.findall(r"\d+", numbers))
        )
        for number in range(1, 14)
    }
    assert cited == {
        1: ["intervals.mzn"], 2: ["retention.mzn"], 3: ["retention.mzn"], 4: ["retention.mzn"], 5: ["served_by.mzn"],
        6: ["general.mzn"], 7: ["retention.mzn"], 8: ["retention.mzn"], 9: ["general.mzn"], 10: ["reservoir.mzn"],
        11: ["staged.mzn"], 12: ["objective.mzn"], 13: ["objective.mzn"],
    }  # fmt: skip


def test_there_are_few_main_files_and_no_part_is_left_over():
    assert 2 <= len(MAIN) <= 12
    used = {path for main in MAIN for path in parts(main, set())}
    assert set((MODELS / "lib").glob("*.mzn")) == {path for path in used if path.parent.name == "lib"}


def test_names_of_solvers_libraries_are_not_used():
    for path in MODELS.rglob("*.mzn"):
        assert "fzn_" not in path.read_text(), path.name


def test_the_two_checkers_of_schedules_are_one():
    """Two names, as the MiniZinc IDE looks for them, and no include, which MiniZinc 2.6 cannot do in a checker."""
    assert (MODELS / "staged.mzc.mzn").read_text() == (MODELS / "general.mzc.mzn").read_text()


@pytest.mark.parametrize("workspaces", [False, True])
def test_what_models_derive_is_what_is_left_to_them(tmp_path, workspaces):
    """Memory of the input order and C of a graph, as Python knows them."""
    case = draw_case(14, workspaces=workspaces)
    graph, order = case.graph, case.graph.input_order()
    data = as_given(Instance.build(graph, case.budget, max_computations=2))
    model = tmp_path / "derived.mzn"
    model.write_text(f"""include "{MODELS}/lib/instance.mzn";
solve satisfy;
output ["\\(MEMORY_ONCE)|\\(C)|\\(card(HILLS))"];
""")
    items = header(graph, order, data.duration, data.size, data.edges, case.budget)
    items |= {"workspace": data.workspace} if workspaces else {}
    memory, counts, hills = by_minizinc(tmp_path, model, items).splitlines()[-2].split("|")
    assert memory == str(list(data.input_order_memory)) and int(hills) > 0
    most = zip(data.max_computations, data.size, strict=True)
    assert counts == str([count if size else 1 for count, size in most])


def test_elastic_memory_is_dearer_than_any_recomputation():
    """To compute x again takes longer than the memory over the budget would cost by the unit."""
    durations, sizes, edges = (50, 3, 3, 3, 1), (4, 4, 4, 4, 1), ((0, 1), (1, 2), (2, 3), (0, 4), (3, 4))
    graph = ComputationGraph(("x", "a", "b", "c", "z"), durations, sizes, edges)
    result = solve(graph, 9, search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 110)


@pytest.mark.parametrize("memory", [10**11, 6 * 10**12])
def test_elastic_memory_is_counted_from_the_budget(memory):
    """The weight of what is over it, some 10^8, times the budget itself, is over 2^63; x is to be computed again."""
    durations, sizes = (5 * 10**7, 3, 3, 3, 1), (7, 5, memory, 5, 3)
    graph = ComputationGraph(tuple("xabcz"), durations, sizes, ((0, 1), (1, 2), (2, 3), (0, 4), (3, 4)))
    form, budget = find_formulation("staged"), memory + 10
    assert form.elastic(form.data(Instance.build(graph, budget)))
    result = solve(graph, budget, search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 100_000_010)


def test_what_takes_longest_for_the_memory_it_spares_is_decided_first():
    """By solvers that search as they are told; cp-sat does better on its own. Of a and e, as long, e spares less."""
    names, edges = "abcdef", ["ad", "ae", "bd", "be", "cd", "cf", "de", "ef"]
    pairs = [(names.index(tail), names.index(head)) for tail, head in edges]
    graph = ComputationGraph(tuple(names), (40, 90, 9, 1, 40, 1), (3, 3, 3, 3, 1, 3), pairs)
    instance = Instance.build(graph, 12)

    def decided(solver: str, **own: str) -> str | None:
        form = find_formulation("staged", redundant="none", presolve="off", **own)
        data = form.data(instance)
        text = compile_model(find_backend(solver), form.file, dzn_text(form.items(instance, data, None, None)))
        arrays = dict(re.findall(r"^array .*?: (\w+) *(?:::.*)? = \[(.*)\];", text, re.MULTILINE))
        nodes = [v for v, most in zip(names, data.max_computations, strict=True) for _ in range(most)]
        node_of = dict(zip(arrays["active"].split(","), nodes, strict=True))
        as_integer = dict(re.findall(r"bool2int\((\w+),(\w+)\)", text))
        node_of |= {number: node_of[flag] for flag, number in as_integer.items() if flag in node_of}
        searched = re.search(r"solve.*int_search\((\w+),input_order,indomain_min", text)
        assert ("indomain_split" in text) == (own.get("branching") == "from-below")
        return searched and "".join(node_of[name] for name in arrays[searched[1]].split(","))

    assert decided("gecode") == decided("gecode", branching="from-below") == "ebacd"
    assert decided("gecode", branching="by-solver") is None and decided("cp-sat") is None


def by_minizinc(folder: Path, model: Path, items: dict) -> str:
    data = folder / "data.dzn"
    data.write_text(dzn_text(items))
    command = ["minizinc", "--solver", "gecode", str(model), str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("model", ["staged", "general", "checkmate"])
@pytest.mark.parametrize("seed", few([14, 34, 16, 59], keep=1))
def test_graph_and_budget_are_enough_and_people_can_read_the_answer(tmp_path, model, seed, workspaces):
    case = draw_case(seed, workspaces=workspaces)
    case = Case(case.graph, case.budget, 2)
    graph, order = case.graph, case.graph.input_order()
    data = as_given(Instance.build(graph, case.budget))
    items = header(graph, order, data.duration, data.size, data.edges, case.budget)
    items |= {"workspace": data.workspace} if workspaces else {}
    told = by_minizinc(tmp_path, MODELS / f"{model}.mzn", items)
    once, best = graph.total_duration, least_duration(case, model)
    assert f"duration {best} = {once} + {best - once}, TDI {100 * (best - once) / once:.4f} %\n" in told
    assert f", budget {case.budget}\n" in told
    sequence = re.findall(r'^sequence \["(.*)"\]$', told, re.MULTILINE)[-1].split('", "')
    assert {str(graph.nodes[v]) for v in order} == set(sequence)
    peak = simulate(graph, [graph.position_of(node) for node in sequence]).peak
    assert f"peak {peak}, budget" in told or model == "checkmate"  # which may keep what it does not need
