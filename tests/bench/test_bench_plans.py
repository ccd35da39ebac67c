"""Experiments with several memories and with addresses: what is asked, what is recorded, and who judges it."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections import Counter
from dataclasses import replace

import pytest
from bench_support import runs_of, write
from concatenations import concatenation

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.execute import _attempt, _judged_arena, _schedule, execute
from moccasin_mzn.bench.matrix import parsed, unpacked
from moccasin_mzn.bench.report.runs import read_runs
from moccasin_mzn.bench.report.statistics import summarize
from moccasin_mzn.bench.store import Store, check_row
from moccasin_mzn.cli.bench_run import _outcome_text
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.problem.files.plans import claimed_plan, goal_document, platform_document
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.search.processes.guarded import never

HEAD = """
name = "plans"
time_limit = 60
threads = 1
budgets = ["0.8"]
[[graphs]]
generate = "u-shaped --nodes 8 --seed 1"
label = "U"
"""
PAGING = """
[[methods]]
label = "paging"
paging = true
page_out_time = ["0.1x", "inf"]
"""
DEVICES = """
[[methods]]
label = "devices"
device = "gpu, cpu=100%:4"
copy_time = "0.1x"
objective = "energy"
max_duration = "+50%"
copy_energy = 0.5
"""
POOLS = """
[[methods]]
label = "memories"
memory = "fast, slow=inf:0.25"
"""
ADDRESSES = """
[[methods]]
label = "addresses"
addresses = true
alignment = 2
[[methods]]
strategy = "keep-all"
addresses = true
"""


BUFFERS = """
[[methods]]
strategy = "keep-all"
[[graphs]]
buffers = "b.csv"
label = "B"
[[methods]]
allocate = true
[[methods]]
allocate = true
alignment = 5
"""


def outcome_of(folder, methods, label, head=HEAD):
    (run,) = (run for run in runs_of(write(folder, head + methods)) if run.row["method"] == label)
    return run, execute(run)


def reported(folder, command, outcomes):
    """The lines of a report about runs."""
    with Store.create(folder / "s.sqlite") as store:
        for outcome in outcomes:
            store.add(outcome.row, outcome.trace)
    status, _, errors = command("bench", "report", folder / "s.sqlite", "--output", folder, "--format", "md")
    assert status == 0, errors
    return (folder / "report.md").read_text().splitlines()


def judged(run, row):
    """The judge's account of a plan in a store, on the platform that the experiment asks for."""
    graph = parsed(unpacked(run.graph))
    problem = run.method.problem(graph, row["budget"], count_fixed=False)
    document = {"plan": json.loads(row["schedule"]), "platform": platform_document(problem.platform)}
    claimed = claimed_plan(json.loads(json.dumps({**document, "goal": goal_document(problem.goal)})), graph)
    return problem, judge_plan(problem.platform, claimed.plan, problem.goal)


@pytest.mark.full
@pytest.mark.parametrize(
    ("methods", "label", "memories"),
    [
        (PAGING, "paging page out time 0.1x", ["local", "slow"]),
        (DEVICES, "devices", ["gpu", "cpu"]),
        (POOLS, "memories", ["fast", "slow"]),
    ],
    ids=["paging", "devices", "memories"],
)
def test_plans_are_run_judged_recorded_and_reported(tmp_path, command, methods, label, memories):
    run, outcome = outcome_of(tmp_path, methods, label)
    row = outcome.row
    check_row(row)
    assert (row["status"], row["valid"], row["gap_percent"]) == ("optimal", True, 0.0), row["reason"]
    problem, simulation = judged(run, row)
    assert simulation.violations == ()
    assert row["objective"] == problem.goal.objective
    assert row["value"] == row["bound"] == problem.value(simulation) == outcome.trace[-1]["duration"]
    assert (row["duration"], row["peak"]) == (simulation.duration, simulation.peaks[0])
    assert row["duration_bound"] == (row["bound"] if row["objective"] == "duration" else None)
    told = json.loads(row["memories"])
    assert list(told) == memories and [of["peak"] for of in told.values()] == list(simulation.peaks)
    assert told[memories[0]]["budget"] == row["budget_amount"] >= row["peak"]
    assert row["extension"] and row["arena"] is None and row["formulation"] == "staged"
    assert row["solver_version"].startswith("OR-Tools")
    lines = [line for line in reported(tmp_path, command, [outcome]) if f"{memories[1]}: " in line]
    assert len(lines) == 1 and f"{memories[0]}: {row['peak']:,} / {row['budget_amount']:,}" in lines[0], lines
    actions = Counter(action["in"] for action in json.loads(row["schedule"]) if "compute" in action)
    assert all(f"{count} in {name}" in lines[0] for name, count in actions.items())


@pytest.mark.full
def test_addresses_are_run_judged_and_recorded(tmp_path):
    run, outcome = outcome_of(tmp_path, ADDRESSES, "addresses")
    row, graph = outcome.row, parsed(unpacked(run.graph))
    check_row(row)
    assert row["valid"] and row["status"] in ("optimal", "feasible"), row["reason"]
    simulation = simulate(graph, [graph.position_of(node) for node in json.loads(row["schedule"])])
    assert simulation.peak <= row["arena"] <= row["budget_amount"]
    assert (row["value"], row["extension"]) == (simulation.duration, "--addresses --alignment 2")
    assert "--addresses --alignment 2" in row["command"]
    rule = outcome_of(tmp_path, ADDRESSES, "keep-all")[1].row
    assert (rule["status"], rule["valid"], rule["extension"]) == ("over-budget", False, "--addresses")


@pytest.mark.full
def test_buffers_are_allocated_judged_recorded_and_reported(tmp_path, command):
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,3,4\nb,2,5,3\nc,4,6,4\n")
    path = write(tmp_path, HEAD + BUFFERS)
    outcomes = [execute(run) for run in runs_of(path)]
    rows = {outcome.row["method"]: outcome.row for outcome in outcomes}
    assert set(rows) == {"keep-all", "allocate", "allocate alignment 5"}
    assert _outcome_text(rows["allocate"]).startswith("optimal arena 7 in ")
    listed = command("bench", "run", path, "--store", tmp_path / "s.sqlite", "--list")[1]
    assert "B none allocate alignment 5 seed 1: allocate b.csv --alignment 5 --time-limit 60" in listed
    for row, arena in ((rows["allocate"], 7), (rows["allocate alignment 5"], 8)):
        check_row(row)
        assert (row["objective"], row["status"], row["valid"], row["nodes"]) == ("arena", "optimal", True, 3)
        assert (row["value"], row["bound"], row["arena"], row["peak"]) == (arena, arena, arena, 7)
    boxes = [(0, 3, 4, 5), (2, 5, 3, 5), (4, 6, 4, 5)]
    offsets = json.loads(rows["allocate alignment 5"]["schedule"])
    assert list(flaws(boxes, offsets)) == [] and len(offsets) == 3
    (line,) = (
        line for line in reported(tmp_path, command, outcomes) if "allocate alignment 5" in line and "14.286" in line
    )
    assert [cell.strip() for cell in line.split("|")[2:6]] == ["arena", "8", "8", "0.000"]


@pytest.mark.full
def test_an_arena_is_judged_by_what_is_asked(tmp_path):
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,3,4\nb,2,5,3\nc,4,6,4\n")
    (run,) = (run for run in runs_of(write(tmp_path, HEAD + BUFFERS)) if run.row["method"] == "allocate")
    other = replace(run, method=replace(run.method, options={**run.method.options, "alignment": 5}))
    text = unpacked(run.graph)
    row = _judged_arena(other, _attempt(run, text, never), text)
    assert (row["valid"], row.get("arena")) == (False, None) and execute(run).row["valid"]
    (tmp_path / "b.csv").write_text("id,lower,upper\n")
    with pytest.raises(InputError, match='b.csv: column "size" is missing'):
        runs_of(write(tmp_path, HEAD + BUFFERS))


@pytest.mark.full
def test_plans_are_judged_by_what_is_asked(tmp_path):
    """Not by what a process claims to have been asked: a plan for other costs is no answer."""
    quick = PAGING.replace('["0.1x", "inf"]', '0\nsearch = "only"\nuntil_gap = "99%"')
    (run,) = runs_of(write(tmp_path, HEAD + quick))
    text = unpacked(run.graph)
    other = replace(run, method=replace(run.method, options={**run.method.options, "slow_memory": "0"}))
    row = _schedule(other, _attempt(run, parsed(text), never), parsed(text))
    assert row["value"] is not None and not row["valid"] and row["gap_percent"] is None


def words_of(run):
    """The words after the graph, in the command that asks the same."""
    words = shlex.split(run.row["command"].replace("<(", "'<(").replace(") ", ")' ", 1))
    return words[1:]


def test_options_of_plans_are_keys_of_experiments(tmp_path):
    runs = {run.row["method"]: run for run in runs_of(write(tmp_path, HEAD + PAGING + DEVICES + ADDRESSES))}
    graph = parsed(unpacked(runs["devices"].graph))
    words = words_of(runs["devices"])
    assert words[:4] == ["--device", "gpu=0.8", "--device", "cpu=100%:4"] and "--budget" not in words
    assert "--if-none" not in words and "--if-none" in words_of(runs["addresses"])
    time = float(words[words.index("--copy-time") + 1])
    assert time == pytest.approx(0.1 * graph.total_duration / graph.total_size)
    paging = words_of(runs["paging page out time inf"])
    assert paging[:5] == ["--budget", "0.8", "--paging", "--page-out-time", "inf"]
    assert len({run.key for run in runs.values()}) == len(runs) == 5
    changed = (HEAD + PAGING + DEVICES + ADDRESSES).replace("= 0.5", "= 0.25")
    again = {run.row["method"]: run.key for run in runs_of(write(tmp_path, changed))}
    assert [label for label in again if again[label] != runs[label].key] == ["devices"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("paging = true", "", "--page-out-time is for --paging"),
        ("paging = true", "paging = 1", "methods[0].paging: 1, expected true or false"),
        ("paging = true", "paging = true\nprecedence = 'reservoir'", "--precedence is for one memory"),
        ("paging = true", 'paging = true\nstrategy = "dtr"', "paging is for models, dtr is a strategy"),
        ('"0.1x", "inf"', '"much"', "paging on graph U, budget '0.8': --page-out-time 'much': expected a number"),
        ('"0.1x", "inf"', '"muchx"', "page_out_time 'much': expected a number"),
        ('"0.1x", "inf"', '"infx"', "page_out_time 'inf': expected a number"),
        ('["0.1x", "inf"]', "true", "methods[0].page_out_time: True, expected a number or a string"),
        ("gpu, cpu", "gpu=3, cpu", "device gpu: its budget is what is varied"),
        ("gpu, cpu=100%:4", "gpu, cpu", "device 'cpu': expected NAME=BUDGET"),
        ('objective = "energy"', 'objective = "fun"', "unknown objective 'fun'"),
        ('device = "gpu, cpu=100%:4"', "", "--copy-time is for --device"),
        ("alignment = 2", "alignment = 0", "methods[2].alignment: 0, expected a positive integer"),
        ("addresses = true\nalign", "align", "alignment goes with addresses"),
        ("alignment = 2", "aligment = 2", "did you mean alignment?"),
        (
            "alignment = 2\n",
            "alignment = 2\n[[graphs]]\nbuffers = 'b.csv'\nbudgets = '1'\n",
            "graphs[1].budgets: buffers",
        ),
        ("addresses = true\nalignment", "allocate = true\nseeds = []\nalignment", "seeds: a model needs one at least"),
        ("alignment = 2", "allocate = false", "methods[2].allocate: False, expected true"),
        ("alignment = 2", "allocate = true", "addresses does not go with allocate"),
        ("paging = true", 'paging = true\ngraphs = ["B"]', "methods: 'paging page out time 0.1x' is for none of"),
        ('generate = "u-shaped --nodes 8 --seed 1"', 'path = "g.json"\nbuffers = "b.csv"', "or buffers"),
        ('budgets = ["0.8"]', 'budgets = ["0.8"]\ncount_fixed = true', "--count-fixed is for one memory"),
    ],
)
def test_experiments_of_plans_report_mistakes_in_one_line(tmp_path, command, old, new, expected):
    text = HEAD + PAGING + DEVICES + ADDRESSES
    assert old in text
    path = write(tmp_path, text.replace(old, new, 1))
    status, output, errors = command("bench", "run", path, "--store", tmp_path / "s.sqlite", "--list")
    assert (status, output, errors.count("\n")) == (2, "", 1) and errors.startswith(f"error: {path}: ")
    assert expected in errors, errors


@pytest.mark.full
def test_increases_of_memories_of_one_device_are_relative_to_accesses(tmp_path):
    """Those of a method with one memory in the same experiment are not, and each has its own in the report."""
    methods = POOLS.replace("fast, slow=inf:0.25", "fast:1, slow=inf:1") + '[[methods]]\nstrategy = "keep-all"\n'
    runs = runs_of(write(tmp_path, HEAD.replace('"0.8"', '"100%"') + methods))
    outcomes = {run.row["method"]: execute(run) for run in runs}
    with Store.create(tmp_path / "s.sqlite") as store:
        for outcome in outcomes.values():
            store.add(outcome.row, outcome.trace)
        read = read_runs(store.runs(), store.traces())
    accessed, plain = outcomes["memories"].row, outcomes["keep-all"].row
    assert accessed["baseline_duration"] > plain["baseline_duration"] == plain["duration"]
    assert accessed["duration"] == accessed["baseline_duration"] and accessed["status"] == "optimal"
    for name, outcome in outcomes.items():
        assert outcome.row["tdi_percent"] == 0 and summarize(read, 0, name).tdi.median == 0


# --- Graphs that methods change: in place, without concatenations, in parts -----------------------------------


def parallel_network():
    """Two layers that are read late, one overwritten by the next, joined, and brought down to a number."""
    shape = (8, 8, 4)
    near, same = [Reach(axis, 1, 3, before=1) for axis in (0, 1)], [Reach(axis) for axis in (0, 1, 2)]
    operators = [
        Operator("conv", shape, (Read(None, (8, 8, 3), (*near, None)),)),
        Operator("conv", shape, (Read(0, shape, (*near, None)),)),
        Operator("relu", shape, (Read(1, shape, tuple(same)),)),
        Operator("conv", shape, (Read(2, shape, (*near, None)),)),
        Operator("conv", (8, 8, 1), (Read(3, shape, (*near, None)),)),
        concatenation((4, 0), [(8, 8, 1), shape], axis=2),
        Operator("conv", (8, 8, 1), (Read(5, (8, 8, 5), (*near, None)),)),
    ]
    sizes = [each.elements for each in operators]
    return mz.ComputationGraph(
        nodes=list("abcdefg"), durations=[9, 9, 1, 9, 9, 1, 9], sizes=sizes, operators=operators,
        edges=[(0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (4, 5), (5, 6)], in_place=[[], [], [1], [], [], [], []],
    )  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "extension"),
    [("in_place = true", "--in-place"), ("tile = 4", "--tile 4"), ('tile = "4x4"', "--tile 4x4"),
     ("zero_copy_concat = true", "--zero-copy-concat"),
     ("in_place = true\naddresses = true", "--in-place --addresses"),
     ("zero_copy_concat = true\nin_place = true", "--in-place --zero-copy-concat")],
)  # fmt: skip
def test_changed_graphs_are_run_judged_and_recorded(tmp_path, options, extension):
    graph = parallel_network()
    mz.write_graph(graph, tmp_path / "g.json")
    head = (
        HEAD.replace('generate = "u-shaped --nodes 8 --seed 1"', 'path = "g.json"')
        .replace("60", "5")
        .replace("0.8", "0.95")
    )
    run, outcome = outcome_of(tmp_path, f'[[methods]]\nlabel = "m"\nsearch = "only"\n{options}\n', "m", head)
    row = outcome.row
    check_row(row)
    assert row["valid"] and row["extension"] == extension, row["reason"]
    whole, of_answer = run.method.whole(graph), run.method.graph(graph)
    simulation = simulate(of_answer, [of_answer.position_of(node) for node in json.loads(row["schedule"])])
    assert (simulation.peak, simulation.duration) == (row["peak"], row["duration"])
    assert row["peak"] <= row["budget_amount"] < simulate(whole, whole.input_order()).peak == row["baseline_peak"]
    words = shlex.split(row["command"])[1:]
    assert words[:2] == ["--budget", "0.95"] and extension.split()[0] in words
    again = mz.solve(graph, 0.95, time_limit=5, search="only", **tomllib.loads(options))
    assert again.valid and of_answer == again.graph


@pytest.mark.parametrize(
    ("options", "reason"),
    [('tile = "auto"', "tile auto: parts would be chosen outside of the limits of a run"),
     ("tile = 4\nzero_copy_concat = true", "taking out concatenations is for whole layers")],
)  # fmt: skip
def test_changed_graphs_that_cannot_be_had_are_refused_at_once(tmp_path, options, reason):
    with pytest.raises(InputError, match=reason):
        runs_of(write(tmp_path, f"{HEAD}\n[[methods]]\n{options}\n"))
