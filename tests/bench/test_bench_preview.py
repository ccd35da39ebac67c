"""`bench run` before the first run: which runs are chosen, whether they can run, which problems are infeasible."""

from __future__ import annotations

import re

import pytest
from bench_support import runs_of, write

from moccasin_mzn.bench.experiment import read_experiment

TEXT = """
name = "e"
time_limit = 5
seeds = [1, 2]
budgets = [0.8]
[[graphs]]
generate = "chain -n 4"
label = "RL G1"
[[graphs]]
generate = "chain -n 6 --seed 3"
label = "RL G2"
budgets = [0.9, 0.7]
[[methods]]
label = "alone"
search = "off"
[[methods]]
strategy = "keep-all"
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, TEXT)


def listed(command, path, *more):
    status, out, err = command("bench", "run", path, "--list", *more)
    assert status == 0, err
    return [line.removeprefix("-").strip().partition(": ")[0] for line in out.splitlines()[:-1]]


# What has to be compiled

NEEDS = """
name = "e"
budgets = [0.8]
[[graphs]]
generate = "chain -n 4"
[[methods]]
label = "alone"
search = "off"
[[methods]]
label = "default"
[[methods]]
label = "free"
order = "free"
[[methods]]
label = "paging"
paging = true
page_out_time = 1
[[methods]]
label = "arena"
search = "off"
addresses = true
[[methods]]
strategy = ["keep-all", "dtr"]
"""


def test_each_method_needs_its_own_compiled_searches(tmp_path):
    methods = read_experiment(write(tmp_path, NEEDS)).methods
    local = {"local search"}
    assert {method.label: {search.name for search in method.compiled()} for method in methods} == {
        "alone": set(),
        "default": local,
        "free": local | {"search for orders", "annealing of orders"},
        "paging": local | {"search for paging"},
        "arena": local | {"search for addresses"},
        "keep-all": set(),
        "dtr": {"costs of evictions"},
    }


def test_the_preview_counts_what_the_chosen_runs_compile(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    path = write(tmp_path, NEEDS)
    ends = {
        pattern: command("bench", "run", path, "--list", "--only", pattern)[1].splitlines()[-1]
        for pattern in ("keep-all", "dtr", "*")
    }
    assert ends["keep-all"].endswith("of this machine")
    assert ends["dtr"].endswith("of this machine, and up to about 40 s of compiling, once")
    assert ends["*"].endswith(", and up to about 4 min of compiling, once")


# --only


@pytest.mark.parametrize(
    ("patterns", "labels"),
    [
        (["RL G1 0.8 alone seed 2"], ["RL G1 0.8 alone seed 2"]),
        (["RL G1"], ["RL G1 0.8 alone seed 1", "RL G1 0.8 keep-all", "RL G1 0.8 alone seed 2"]),
        (["0.7"], ["RL G2 0.7 alone seed 1", "RL G2 0.7 keep-all", "RL G2 0.7 alone seed 2"]),
        (["keep-*"], ["RL G1 0.8 keep-all", "RL G2 0.9 keep-all", "RL G2 0.7 keep-all"]),
        (["RL G2 0.9 *"], ["RL G2 0.9 alone seed 1", "RL G2 0.9 keep-all", "RL G2 0.9 alone seed 2"]),
        (["* seed 2", "RL G1 0.8 keep-all"],
         ["RL G1 0.8 keep-all", "RL G1 0.8 alone seed 2", "RL G2 0.9 alone seed 2", "RL G2 0.7 alone seed 2"]),
        (["*"], None),
        ([], None),
    ],
)  # fmt: skip
def test_only_chooses_runs_by_graph_budget_method_or_label(command, experiment, patterns, labels):
    found = listed(command, experiment, *(word for pattern in patterns for word in ("--only", pattern)))
    every = [run.label for run in runs_of(experiment)]
    assert found == [label for label in every if labels is None or label in labels]
    assert labels is None or sorted(found) == sorted(labels)


@pytest.mark.parametrize(
    ("pattern", "meant"), [("RL G3", ", did you mean RL G1?"), ("alnoe", ", did you mean alone?"), ("x*", "")]
)
def test_a_pattern_that_matches_nothing_is_refused(command, experiment, pattern, meant):
    for more in ([], ["--list"]):
        status, out, err = command("bench", "run", experiment, "--only", "keep-all", "--only", pattern, *more)
        assert (status, out, err) == (2, "", f"error: --only {pattern!r}: matches no run{meant}; --list lists them\n")


@pytest.mark.full
def test_only_these_are_run_and_the_others_later(command, experiment):
    status, out, _ = command("bench", "run", experiment, "--only", "RL G1 0.8 keep-all")
    assert status == 0 and "experiment.sqlite: 1 of 1 run done: " in out
    lines = command("bench", "run", experiment, "--list")[1].splitlines()
    (done,) = [line for line in lines if line.startswith("done ")]
    assert done.startswith("done  RL G1 0.8 keep-all: ")
    out = command("bench", "run", experiment, "--only", "keep-all")[1]
    assert "experiment.sqlite: 1 of 3 runs done already" in out and "3 of 3 runs done: " in out


# budgets that are numbers


@pytest.mark.parametrize(
    ("budgets", "texts"),
    [
        ("[0.8]", ["0.8"]), ("0.8", ["0.8"]), ("[1.0, 0.75]", ["1.0", "0.75"]), ("[4096, '80%']", ["4096", "80%"]),
        ("1e-5", ["0.00001"]), ("[0.8, '1.5GiB']", ["0.8", "1.5GiB"]), ("12", ["12"]),
    ],
)  # fmt: skip
def test_budgets_are_numbers_or_texts(tmp_path, budgets, texts):
    path = write(tmp_path, TEXT.replace("budgets = [0.8]", f"budgets = {budgets}"))
    assert read_experiment(path).graphs[0].budgets == tuple(texts)


def test_a_number_is_the_budget_that_its_text_is(tmp_path):
    keys = [
        [run.key for run in runs_of(write(tmp_path, TEXT.replace("[0.8]", form)))]
        for form in ("[0.8]", '["0.8"]', "0.8")
    ]
    assert keys[0] == keys[1] == keys[2]


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ("[true]", "budgets: [True], expected a list of budgets"),
        ("[nan]", "budgets: [nan], expected a list of budgets"),
        ("[0.8, 0.80]", "graphs[0]: budgets: '0.8' and '0.8' are the same"),
        ("[0.8, '80%']", "graphs[0]: budgets: '0.8' and '80%' are the same"),
        ("[1.5]", "graphs[0]: budget 1.5 is not a fraction"),
        ("[-3]", "graphs[0]: budget '-3'"),
        ("[[0.8]]", "budgets: [[0.8]], expected a list of budgets"),
    ],
)
def test_numbers_that_are_no_budgets_are_refused_in_one_line(command, tmp_path, budgets, message):
    path = write(tmp_path, TEXT.replace("budgets = [0.8]", f"budgets = {budgets}"))
    status, out, err = command("bench", "run", path, "--list")
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith(f"error: {path}: {message}"), err


# everything is checked, and nothing is run


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('search = "off"', 'search = "off"\nsolver = "nonesuch"', "method alone: unknown solver 'nonesuch', MiniZinc"),
        ('search = "off"', 'solver = "CPSAT"', "method alone: unknown solver 'CPSAT' (did you mean cp-sat?), MiniZinc"),
        ('search = "off"', 'solver = ["gecode", "nonesuch"]', "method alone nonesuch: unknown solver 'nonesuch'"),
        ('search = "off"', 'solver = "gecode,nonesuch"', "method alone: unknown solver 'nonesuch'"),
        ('search = "off"', 'search = "only"\nsolver = "nonesuch"', "method alone: unknown solver 'nonesuch'"),
        ('search = "off"', 'solver = "cp-sat@1"', "method alone: unknown version 'cp-sat@1'"),
        ('search = "off"', 'formulation = "stagd"', "methods[0] (alone): unknown formulation 'stagd', "),
        ('"keep-all"', '"kep-all"', "methods[1].strategy: strategy 'kep-all' is unknown; "),
        ('generate = "chain -n 4"', 'path = "none.json"', "graph RL G1: there is no none.json in "),
        (
            'generate = "chain -n 4"',
            'generate = "chian -n 4"',
            "graph RL G1: generate chian -n 4: No such command 'chian'.",
        ),
        ('generate = "chain -n 4"', 'path = "experiment.tml"', " in .*, did you mean .*/experiment.toml\\?"),
        ('search = "off"', 'model = "none.mzn"', "methods[0] (alone): "),
    ],
)
def test_what_cannot_run_is_one_line_before_the_first_run(command, experiment, old, new, message):
    write(experiment.parent, TEXT.replace(old, new))
    status, out, err = command("bench", "run", experiment)
    assert (status, out, err.count("\n")) == (2, "", 1) and (message in err or re.search(message, err)), err
    assert [path.name for path in experiment.parent.iterdir()] == ["experiment.toml"]


def test_solvers_of_what_is_not_chosen_do_not_matter(command, experiment):
    write(experiment.parent, TEXT.replace('search = "off"', 'solver = "nonesuch"'))
    assert len(listed(command, experiment)) == 9
    status, _, err = command("bench", "run", experiment, "--only", "alone")
    assert status == 2 and "unknown solver" in err
    from moccasin_mzn.bench.preview import check_can_run, chosen

    check_can_run(chosen(runs_of(experiment), ["keep-all"]))


# infeasible problems


def test_infeasible_problems_are_named_before_the_first_run(command, experiment):
    from moccasin_mzn.bench.preview import infeasible
    from moccasin_mzn.cli.bench_run import planned

    write(experiment.parent, TEXT.replace("[0.9, 0.7]", "[0.9, 0.1, 2]").replace("[0.8]", "[1.0]"))
    graphs, runs = planned(experiment, ())
    lines = list(infeasible(graphs, runs))
    assert [line.partition(" (3 runs): ")[0] for line in lines] == [
        "infeasible: RL G2, budget 0.1", "infeasible: RL G2, budget 2"
    ]  # fmt: skip
    for line, budget in zip(lines, ("0.1", "2"), strict=True):
        command("generate", "chain", "-n", 6, "--seed", 3, "-o", "g2.json")
        assert line.partition(" (3 runs): ")[2] in command("solve", "g2.json", "--budget", budget)[1]
    assert not list(infeasible(graphs, [run for run in runs if run.row["graph"] == "RL G1"]))


@pytest.mark.full
def test_they_are_named_on_stderr_and_run_all_the_same(command, experiment):
    write(experiment.parent, TEXT.replace("[0.9, 0.7]", "[0.1]"))
    status, out, err = command("bench", "run", experiment, "--only", "RL G2 * seed 1")
    assert status == 0 and err.startswith("infeasible: RL G2, budget 0.1 (1 run): node ")
    assert "1 of 1 run done: 1 infeasible" in out
