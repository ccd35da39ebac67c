"""The options and commands around formulations and strategies, as a person meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from few import few

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.cli.frontier import _longest
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.catalogue import entries
from moccasin_mzn.strategies import strategies

ROOT = Path(__file__).resolve().parents[2]
UNET = str(ROOT / "data" / "unet_training.json")
SKIP = {  # x is read at the beginning and at the end
    "format": "moccasin-graph",
    "version": 1,
    "nodes": [
        {"id": node, "duration": duration, "size": size}
        for node, duration, size in (("x", 5, 2), ("a", 1, 1), ("b", 1, 7), ("c", 1, 1), ("z", 1, 1))
    ],
    "edges": [{"source": u, "target": v} for u, v in ("xa", "xz", "ab", "bc", "cz")],
}


@pytest.fixture
def skip(tmp_path):
    """The path of a graph that needs 8 with one recomputation and 10 without."""
    path = tmp_path / "skip.json"
    path.write_text(json.dumps(SKIP))
    return path


# list


def test_list_has_all_names_and_guarantees(command):
    status, out, _ = command("list", "--json")
    told = json.loads(out)
    assert status == 0
    assert [method["name"] for method in told["methods"]] == [one.name for one in (*FORMULATIONS, *strategies())]
    assert all(method["title"] and method["source"] and method["guarantee"] for method in told["methods"])
    assert {"cp-sat", "highs", "scip", "gecode"} <= set(told["solvers"])


def test_list_prints_tables(command):
    status, out, _ = command("list")
    assert status == 0
    assert all(heading in out for heading in ("--formulation", "--strategy", "--solver", "guarantee"))


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_the_documents_have_a_row_for_each(entry):
    assert f"| `{entry.name}` |" in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


# rivals


@pytest.mark.full
@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
@pytest.mark.parametrize("name", few(["checkmate-milp", "checkmate-milp-strengthened"], keep=1))
def test_checkmate_is_solved_and_checked(command, skip, name, solver):
    status, out, _ = command(
        "solve", skip, "--budget", 8, "--formulation", name, "--solver", solver, "--check", "--json"
    )
    told = json.loads(out)
    assert (status, told["status"], told["duration"], told["peak"]) == (0, "optimal", 14, 8)
    assert told["formulation"] == name and told["solver"] == solver and told["precedence"] is None
    assert told["checks"] == [
        "general.mzc.mzn: CORRECT: duration 14, peak 8",
        "checkmate.mzc.mzn: CORRECT, the solver's own solution",
    ]
    assert "with any number of recomputations" in told["reason"]


def test_a_budget_too_small_for_checkmate_is_an_answer(command, skip):
    status, out, _ = command("solve", skip, "--budget", 7, "--formulation", "checkmate-milp", "--json")
    assert (status, json.loads(out)["status"]) == (1, "infeasible")


@pytest.mark.full
def test_moccasins_own_solution_is_checked(command, skip):
    status, out, _ = command("solve", skip, "--budget", 8, "--search", "off", "--check")
    assert status == 0
    assert "checked by general.mzc.mzn: CORRECT: duration 14, peak 8" in out
    assert "checked by staged.mzc.mzn: CORRECT, the solver's own solution" in out


# strategies


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [rule.name for rule in strategies()])
def test_a_strategy_reports_the_cost_of_its_schedule(command, name, tmp_path):
    path = tmp_path / "schedule.json"
    status, out, err = command("solve", UNET, "--budget", "0.9", "--strategy", name, "--json", "--output", path)
    if status == 2:
        assert err.startswith("error: ") and len(err.splitlines()) == 1
        return
    told = json.loads(out)
    assert (told["strategy"], told["formulation"], told["solver"]) == (name, None, None)
    if told["sequence"] is None:
        assert (status, told["status"]) == (1, "unknown")
        return
    graph = read_graph(UNET)
    simulation = judge(graph, [graph.position_of(node) for node in told["sequence"]], told["budget"])
    assert (simulation.peak, simulation.duration) == (told["peak"], told["duration"])
    assert simulation.feasible == told["valid"] == (status == 0) == path.exists()
    if not told["valid"]:
        assert told["status"] == "over-budget" and told["gap_percent"] is None
        over, budget = (memory_text(amount, "byte") for amount in (told["peak"] - told["budget"], told["budget"]))
        assert f"{over} over the budget {budget}" in told["reason"]


def test_a_strategy_over_the_budget_is_reported(command):
    status, out, err = command("solve", UNET, "--budget", "0.5", "--strategy", "keep-all")
    assert status == 1
    assert "OVER THE BUDGET" in out and "over-budget: the peak of keep-all" in out
    assert "over-budget: the peak of keep-all, least of 1 schedule, is " in out
    assert err.splitlines()[-1].startswith("no schedule (see ")


# warm starts and limits per node


def test_a_warm_start_is_where_the_search_begins(command, skip, tmp_path):
    start = tmp_path / "start.json"
    start.write_text('["x", "a", "b", "x", "c", "x", "z"]')
    status, out, _ = command(
        "solve", skip, "--budget", 9, "--formulation", "checkmate-milp", "--warm-start", start, "--json"
    )  # fmt: skip
    told = json.loads(out)
    assert (status, told["status"], told["duration"]) == (0, "optimal", 14)
    assert told["trace"][0][1:] == [19, 9, "the warm start"] and told["trace"][-1][1] == 14


@pytest.mark.parametrize(
    ("sequence", "budget", "complaint"),
    [
        ('["x", "a", "b", "c", "z"]', 8, "warm start: position 3: memory 10 is 2 over the budget 8"),
        ('["x", "a", "b", "c"]', 10, "warm start: node z is never computed"),
        ('["x", "a", "x", "x", "b", "c", "x", "z"]', 10, "warm start: node x is computed 4 times, at most 2 allowed"),
        ('["x", "a", "a", "b", "c", "z"]', 10, None),
        ('["x", "x", "a", "b", "c", "z"]', 10, None),
        ('["x", "q"]', 10, "start.json: sequence[1]: node 'q' is not in the graph"),
    ],
)
def test_a_useless_warm_start_is_refused(command, skip, tmp_path, sequence, budget, complaint):
    start = tmp_path / "start.json"
    start.write_text(sequence)
    status, _, err = command("solve", skip, "--budget", budget, "--warm-start", start)
    if complaint is None:
        assert status == 0
    else:
        assert status == 2 and complaint in err and len(err.splitlines()) == 1


@pytest.mark.full
def test_limits_per_node(command, skip, tmp_path):
    counts = tmp_path / "counts.json"
    for content, status in (('{"x": 1}', 1), ('{"x": 2, "a": 1}', 0), ("[2, 1, 1, 1, 1]", 0), ("[1, 2, 2, 2, 2]", 1)):
        counts.write_text(content)
        found, out, _ = command("solve", skip, "--budget", 8, "--max-computations", counts, "--json")
        assert found == status, content
        assert json.loads(out)["status"] == ("infeasible" if status else "optimal")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"q": 1}', "node 'q' is not in the graph"),
        ('{"x": 0}', "node x: count 0 is not a positive integer"),
        ("[1, 2]", "2 counts for 5 nodes"),
        ("7", "expected a list of counts or an object"),
        ("[1,", "counts.json: "),
    ],
)
def test_broken_limits_are_refused(command, skip, tmp_path, content, complaint):
    counts = tmp_path / "counts.json"
    counts.write_text(content)
    status, _, err = command("solve", skip, "--budget", 8, "--max-computations", counts)
    assert status == 2 and complaint in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--strategy", "x"], "strategy 'x' is unknown"),
        (["--strategy", "keep-all", "--solver", "highs"], "--solver is for models, keep-all is a strategy"),
        (["--strategy", "keep-all", "--max-computations", "3"], "--max-computations is for models"),
        (["--strategy", "keep-all", "--time-limit", "-1"], "time limit -1.0 is not a positive number"),
        (["--formulation", "checkmate-lp-rounding"], "checkmate-lp-rounding is a strategy"),
        (["--formulation", "checkmate-milp", "--max-computations", "2"], "checkmate-milp has no limit on computations"),
        (["--formulation", "checkmate-milp", "--search", "on"], "checkmate-milp runs alone"),
        (["--formulation", "checkmate-milp", "--precedence", "reservoir"], "checkmate-milp has no precedence"),
        (["--formulation", "checkmate-milp", "--two-phase"], "checkmate-milp has no first phase"),
        (["--max-computations", "no-such-file"], "expected a positive integer, auto or a file"),
        (["--warm-start", "no-such-file"], "no-such-file"),
    ],
)
def test_solve_command_rejects_wrong_options_in_one_line(command, skip, options, complaint):
    status, out, err = command("solve", skip, "--budget", 8, *options)
    assert (status, out) == (2, "")
    assert complaint in err and len(err.splitlines()) == 1


# compare


@pytest.mark.full
def test_compare_puts_all_side_by_side(command, skip, tmp_path):
    published = tmp_path / "published.csv"
    published.write_text(
        "graph,n,m,budget,checkmate_tdi,checkmate_peak,checkmate_seconds,moccasin_tdi,moccasin_peak,moccasin_seconds\n"
        "Skip,5,5,8,55.6,7.9,1.0,55.5,8.0,2.0\n"
    )
    only = ["--only", "staged", "--only", "checkmate-milp*", "--only", "keep-all", "--only", "griewank"]
    status, out, _ = command("compare", skip, "--budget", 8, "--budget", 10, *only, "--published", published)
    assert status == 0
    lines = [line for line in out.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = {row[0]: row for row in cells[:9]}
    assert rows["staged"][1:5] == ["optimal", "55.556", "1.000", "0.00"]
    assert rows["staged"][6:] == ["55.5", "8.0", "2.0"]
    for name in ("checkmate-milp cp-sat", "checkmate-milp-strengthened highs"):
        assert rows[name][1:5] == ["optimal", "55.556", "1.000", "0.00"]
        assert rows[name][6:] == ["55.6", "7.9", "1.0"]
    assert rows["keep-all"][1:4] == ["over-budget", "0.000", "1.250"]
    assert rows["griewank"][1] == "-" and "griewank: does not apply: " in out
    assert "Skip: 5 nodes, 5 edges, budget 8\n" in out and "skip: 5 nodes, 5 edges, budget 10\n" in out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "the column graph is missing"),
        (b"hello\n", "the column graph is missing"),
        (b'{"graph": [1, 2]}\n', "the column graph is missing"),
        (b"graph,n,m,budget\nG,5,5,8\n", "the column FAMILY_tdi is missing"),
        (b"graph,n,budget,a_tdi,a_peak,a_seconds\nG,5,8,1,2,3\n", "the column m is missing"),
        (b"graph,n,m,budget,a_tdi,a_peak\nG,5,5,8,1,2\n", "the column a_seconds is missing"),
        (b"graph,n,m,budget,a_tdi,a_peak,a_seconds\n", "there is no line below the header"),
        (b"graph,n,m,budget,a_tdi,a_peak,a_seconds\nG,5,5\n", "a line has 3 fields, the header 7"),
        (b"graph,n,m,budget,a_tdi,a_peak,a_seconds\nG,five,5,8,1,2,3\n", "invalid literal"),
        (b"graph,n,m,budget,a_tdi,a_peak,a_seconds\nG,5,5,8 apples,1,2,3\n", "budget '8 apples' has an unknown unit"),
        (b'graph,n,m,budget,a_tdi,a_peak,a_seconds\n"G"x,5,5,8,1,2,3\n', "',' expected after"),
        (b"\x89PNG\r\n\x1a\n\x00", "line 1: byte 0x89 is not UTF-8"),
    ],
)
def test_what_is_no_table_of_published_figures_is_refused_at_once(command, tmp_path, text, why):
    """Before the graph is read, which is not there."""
    path = tmp_path / "published.csv"
    path.write_bytes(text)
    for words in (["compare", "no-graph.json", "--budget", "0.8"], ["bench", "report", "no-store.sqlite"]):
        status, out, err = command(*words, "--published", path)
        assert (status, out) == (2, "") and err.startswith(f"error: {path}: ") and err.count("\n") == 1
        assert why in err and "expected CSV with the columns graph, n, m, budget and, of each family, FAMILY_tdi" in err


def test_compare_prints_json(command, skip):
    status, out, _ = command("compare", skip, "--budget", 8, "--only", "keep-all", "--only", "recompute-all", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [row["contender"] for row in told] == ["keep-all", "recompute-all"]
    assert told[0]["peak"] == 10 and not told[0]["valid"] and told[0]["budget_amount"] == 8


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((29, 4, 60.0), "29 methods x 4 problems, at most 1 h 56 min with --time-limit 60; --only PATTERN chooses"),
        ((1, 1, 0.5), "1 method x 1 problem, at most 1 s with --time-limit 0.5; --only PATTERN chooses"),
        ((29, 1, 10.0), "29 methods x 1 problem, at most 4 min 50 s with --time-limit 10; --only PATTERN chooses"),
    ],
)
def test_compare_reports_how_long_it_may_take(runs, expected):
    assert _longest(*runs) == expected


def test_compare_refuses_unknown_names(command, skip):
    status, _, err = command("compare", skip, "--budget", 8, "--only", "nothing*")
    assert status == 2 and "'nothing*' matches none of staged, " in err


def test_compare_starts_warm_if_asked(command, skip):
    only = ["--only", "staged", "--only", "checkmate-milp highs"]
    status, out, err = command("compare", skip, "--budget", 8, *only, "--warm-start", "--json")
    assert status == 0 and "at most" not in err
    assert [json.loads(line)["duration"] for line in out.splitlines()] == [14, 14]


# complexity


@pytest.mark.full
def test_complexity_counts_what_grows(command, skip):
    status, out, _ = command("complexity", UNET, "--json")
    told = {size["formulation"]: size for size in map(json.loads, out.splitlines())}
    n, m = 63, 135
    assert status == 0
    published, rival = told["staged, as published"], told["checkmate-milp"]
    assert published["integers"] <= 2 * 2 * n + 4 * n + m and published["largest_domain"] <= n * (n + 1) // 2
    assert n * n / 2 < rival["booleans"] <= 2 * n * n + n * m
    assert rival["constraints"] > 10 * published["constraints"]
    assert "O(C n)" in command("complexity", skip)[1]


# workspaces


@pytest.fixture
def working(tmp_path):
    """The same graph with workspaces: it needs 10 with one recomputation and 12 without."""
    nodes = [{**node, "workspace": {"a": 3, "b": 2, "z": 4}.get(node["id"], 0)} for node in SKIP["nodes"]]
    path = tmp_path / "working.json"
    path.write_text(json.dumps({**SKIP, "nodes": nodes}))
    return path


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "how",
    [
        (), ("--search", "only"), ("--order", "free"), ("--search", "off", "--solver", "gecode"),
        ("--search", "off", "--solver", "cp-sat"), ("--search", "off", "--formulation", "general"),
    ],
)  # fmt: skip
def test_workspaces_count_whatever_searches(command, working, tmp_path, how):
    file, picture = tmp_path / "schedule.json", tmp_path / "schedule.svg"
    given = ("--budget", 10, "--threads", 1, "--check", "--json", "--output", file)
    status, out, _ = command("solve", working, *given, *how, *(() if how else ("--plot", picture)))
    told = json.loads(out)
    assert (status, told["status"], told["duration"], told["peak"]) == (0, "optimal", 14, 10)
    assert told["checks"][0] == "general.mzc.mzn: CORRECT: duration 14, peak 10"
    assert sorted(told["sequence"]) == sorted("xabxcz")
    assert command("validate", working, file, "--budget", 10)[0] == 0
    assert picture.is_file() == (not how)


def test_a_budget_without_room_for_a_workspace_is_an_answer(command, working):
    status, out, _ = command("solve", working, "--budget", 9, "--json")
    reason = "node b alone needs 10 for its inputs, its output and its workspace, 1 over the budget 9"
    assert (status, json.loads(out)["reason"]) == (1, reason)


def test_info_shows_the_largest_workspace_and_what_workspaces_add(command, working, skip):
    told, plain = (json.loads(command("info", path, "--json")[1]) for path in (working, skip))
    assert told.items() >= {"peak": 12, "peak_without_workspaces": 10, "largest_workspace": 4}.items()
    assert told["largest_workspace_node"] == "z" and plain.keys() < told.keys()
    out = command("info", working)[1]
    assert "largest workspace" in out and "workspace" not in command("info", skip)[1]


@pytest.mark.parametrize("suffix", ["graphml", "dot"])
def test_workspaces_survive_another_format(command, working, tmp_path, suffix):
    there, back = tmp_path / f"there.{suffix}", tmp_path / "back.json"
    assert command("convert", working, "--to", suffix, "-o", there)[0] == 0
    assert command("convert", there, "--to", "json", "-o", back)[0] == 0
    assert read_graph(back).workspaces == read_graph(working).workspaces == (0, 3, 2, 0, 4)


def test_a_strategy_that_looks_at_memory_leaves_room_for_workspaces(command, working):
    told = json.loads(command("solve", working, "--budget", 10, "--strategy", "dtr", "--json")[1])
    assert (told["status"], told["duration"], told["peak"]) == ("feasible", 14, 10)


def test_workspaces_count_on_devices(command, working, tmp_path):
    file, words = tmp_path / "plan.json", ("--time-limit", 10, "--threads", 1)
    status, out, _ = command("solve", working, "--output", file, "--device", "gpu=100%", *words, "--json")
    found = json.loads(out)
    assert status == 0 and found["status"] == "optimal"
    graph = read_graph(working)
    assert found["peaks"] == {"gpu": simulate(graph, graph.input_order()).peak}
    assert command("validate", working, file)[0] == 0


@pytest.mark.parametrize(("value", "shown"), [(-3, "-3"), (1.5, "1.5"), ("3", "'3'"), (None, "None"), (True, "True")])
def test_a_workspace_that_is_no_amount_is_refused(command, tmp_path, value, shown):
    nodes = [*SKIP["nodes"][:-1], {**SKIP["nodes"][-1], "workspace": value}]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**SKIP, "nodes": nodes}))
    status, out, err = command("info", path)
    assert (status, out) == (2, "")
    hint = "; scale all of them to a smaller unit in which they are integers" if isinstance(value, float) else ""
    told = f"{path}: node z: workspace is {shown}, expected an integer >= 0{hint}"
    assert err == f"error: {Page.GRAPH_FILES.after(told)}\n"


def test_a_dash_is_a_graph_on_standard_input(skip):
    words = ("-m", "moccasin_mzn", "reduce", "-")
    run = subprocess.run([sys.executable, *words], input=skip.read_text(), capture_output=True, text=True, check=True)
    assert [node["id"] for node in json.loads(run.stdout)["nodes"]] == list("xabcz")
