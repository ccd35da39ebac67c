"""Files of experiments: what they mean, and what is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from bench_support import runs_of, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.experiment import read_experiment
from moccasin_mzn.bench.methods import MODEL_OPTIONS

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "experiments"
GOOD = """
name = "all"
title = "Every key"
time_limit = 60
threads = 2
memory_limit = "6GiB"
hard_limit = 10
seeds = [1, 2]
budgets = ["0.9", "80%"]
baseline = "dtr"
[[graphs]]
path = "g.json"
family = "made"
optional = true
[[graphs]]
generate = "layered --nodes 12 --seed 7"
label = "RL 12"
budgets = "0.7"
[[methods]]
label = "moccasin"
solver = ["cp-sat", "cp-sat,gecode"]
max_computations = [2, "auto"]
two_phase = true
seeds = [5]
threads = 1
graphs = ["RL *"]
[[methods]]
strategy = ["chen-*-ap", "dtr"]
time_limit = 7
[[methods]]
formulation = "checkmate-milp"
solver = "highs"
"""

RACES = ("cp-sat,gecode C=2", "cp-sat,gecode C=auto")


def test_every_key_is_read(tmp_path):
    experiment = read_experiment(write(tmp_path, GOOD))
    assert (experiment.name, experiment.title) == ("all", "Every key")
    assert (experiment.hard_limit, experiment.memory_limit) == (10, 6 * 2**30)
    assert experiment.baselines == ("dtr",)
    first, second = experiment.graphs
    assert (first.path, first.label, first.family, first.optional) == ("g.json", "g", "made", True)
    assert first.budgets == ("0.9", "80%")
    assert (second.generate, second.label) == (("layered", "--nodes", "12", "--seed", "7"), "RL 12")
    assert second.budgets == ("0.7",)


def test_lists_multiply_and_labels_distinguish_methods(tmp_path):
    methods = {method.label: method for method in read_experiment(write(tmp_path, GOOD)).methods}
    assert list(methods) == [
        "moccasin cp-sat C=2",
        "moccasin cp-sat C=auto",
        "moccasin cp-sat,gecode C=2",
        "moccasin cp-sat,gecode C=auto",
        "chen-sqrtn-ap",
        "chen-greedy-ap",
        "dtr",
        "checkmate-milp highs",
    ]
    race = methods["moccasin cp-sat,gecode C=auto"]
    assert race.seeds == (5,)
    assert race.arguments(5) == [
        "--solver", "cp-sat,gecode", "--max-computations", "auto", "--two-phase",
        "--time-limit", "60", "--threads", "1", "--seed", "5", "--if-none", "stop",
    ]  # fmt: skip
    assert race.fits("RL 12") and not race.fits("g")
    assert methods["dtr"].arguments(None) == ["--strategy", "dtr", "--time-limit", "7"]
    assert methods["checkmate-milp highs"].columns()["max_computations"] == "unlimited"


def test_methods_are_compared_with_the_baseline_from_which_they_differ_in_one_option(tmp_path):
    def compared(baseline, more=""):
        path = write(tmp_path, GOOD.replace('baseline = "dtr"', f"baseline = {baseline}") + more)
        near = read_experiment(path).compared_with
        assert {run.row["method"]: run.row["baseline"] for run in runs_of(path)} == {
            method.label: near.get(method.label) for method in read_experiment(path).methods
        }
        return near

    plain, auto, race, both = (f"moccasin {end}" for end in ("cp-sat C=2", "cp-sat C=auto", *RACES))
    assert compared(f'"{plain}"') == {auto: plain, race: plain}  # not what differs in both, nor rivals
    assert compared(f'["{plain}", "{race}"]') == {auto: plain, both: race}
    assert compared(f'["{race}", "{plain}"]') == {auto: plain, both: race}
    more = '[[methods]]\nstrategy = "dtr"\nlabel = "longer"\ntime_limit = 9\n'
    assert compared('"longer"', more) == {"dtr": "longer"}


PAIR = """
name = "pair"
budgets = ["0.9"]
baseline = "default"
[[graphs]]
generate = "chain -n 4"
[[methods]]
label = "default"
{}
[[methods]]
label = "other"
{}
[[methods]]
strategy = "dtr"
"""


@pytest.mark.parametrize(
    ("default", "other"),
    [
        ("", 'solver = "cp-sat"\nsearch = "off"'),
        ('solver = "cp-sat"\norder = "input"', 'search = "off"'),
        ('formulation = "staged"\nmax_computations = 2\nprecedence = "served-by"', 'until_gap = "1%"'),
        ("addresses = false\npaging = false", "addresses = true"),
    ],
)
def test_an_option_with_its_default_value_is_no_difference(tmp_path, default, other):
    assert read_experiment(write(tmp_path, PAIR.format(default, other))).compared_with == {"other": "default"}


def test_a_baseline_without_a_method_to_compare_is_refused_with_the_nearest_one(tmp_path):
    path = write(tmp_path, PAIR.format("", 'search = "off"\ntime_limit = 3'))
    with pytest.raises(InputError) as told:
        read_experiment(path)
    assert "baseline: no method differs from 'default' in one option: 'other' differs in search, time_limit" in str(
        told.value
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("generate", "file"), "graphs[0].file: unknown key, did you mean path?"),
        (("budgets", "budget"), "budget: unknown key, did you mean budgets?"),
        (("strategy", "heuristic"), "methods[2].heuristic: unknown key, did you mean strategy?"),
    ],
)
def test_keys_of_another_name_are_known_by_their_meaning(tmp_path, change, message):
    with pytest.raises(InputError) as told:
        read_experiment(write(tmp_path, PAIR.format("", "").replace(*change)))
    assert message in str(told.value)


def test_methods_that_are_compared_run_side_by_side(tmp_path):
    text = 'name = "e"\nbudgets = ["0.9", "0.8"]\nseeds = [1, 2]\n{}'
    text += '[[graphs]]\ngenerate = "chain -n 4"\n[[graphs]]\ngenerate = "chain -n 5"\n'
    text += '[[methods]]\nlabel = "m"\nindex = ["affine", "triangular"]\n'
    names = ("seed", "graph", "budget", "method")
    apart, beside = (
        [tuple(run.row[name] for name in names) for run in runs_of(write(tmp_path, text.format(line)))]
        for line in ("", 'baseline = "m affine"\n')
    )
    assert beside == [*product((1, 2), ("chain -n 4", "chain -n 5"), ("0.9", "0.8"), ("m affine", "m triangular"))]
    assert apart == sorted(beside, key=lambda run: (run[0], run[3]))


def test_seeds_are_outermost_and_strategies_are_run_once(tmp_path):
    told = []
    path = write(tmp_path, GOOD)
    from moccasin_mzn.bench.matrix import load_graphs, matrix
    from moccasin_mzn.cli.bench_run import generated

    experiment = read_experiment(path)
    runs = matrix(experiment, load_graphs(experiment, tmp_path, (), generated, told.append))
    assert told == ["left out: graph g: g.json is not at hand (see --graphs)"]
    seeds = [(run.row["method"], run.row["seed"]) for run in runs]
    assert seeds == [
        *((label, 5) for label in [method.label for method in experiment.methods][:4]),
        *((label, None) for label in ("chen-sqrtn-ap", "chen-greedy-ap", "dtr")),
        ("checkmate-milp highs", 1),
        ("checkmate-milp highs", 2),
    ]
    assert len({run.key for run in runs}) == len(runs)
    row = runs[0].row
    assert (row["nodes"], row["budget"], row["threads"], row["time_limit"]) == (12, "0.7", 1, 60.0)
    assert row["budget_amount"] == -(-7 * row["baseline_peak"] // 10)
    assert row["command"].startswith("<(moccasin-mzn generate layered --nodes 12 --seed 7) --budget 0.7 ")


def test_keys_change_with_what_is_run_and_not_with_names(tmp_path):
    def keys(*changes):
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return [run.key for run in runs_of(write(tmp_path, text))]

    plain = keys()
    assert keys(("all", "other"), ("Every key", "x"), ('"RL 12"', '"RL 0"'), ('"moccasin"', '"m"')) == plain
    assert keys(('"0.7"', '"70%"')) == plain
    for change in (("seed 7", "seed 8"), ('"0.7"', '"0.71"'), ("hard_limit = 10", "hard_limit = 11"), ("6GiB", "5GiB")):
        assert not set(keys(change)) & set(plain), change
    for change in (("threads = 1", "threads = 2"), ("seeds = [5]", "seeds = [6]"), ("true\nseeds", "false\nseeds")):
        assert len(set(keys(change)) & set(plain)) == len(plain) - 4, change
    assert len(set(keys(("= 7", "= 8"))) & set(plain)) == len(plain) - 3


def test_limits_of_memory_in_powers_of_1000(tmp_path):
    amounts = ("6GB", "6G", "6000MB")
    read = [read_experiment(write(tmp_path, GOOD.replace("6GiB", amount))).memory_limit for amount in amounts]
    assert read == [6 * 10**9] * 3


BAD = [
    ("name", "nam", "nam: unknown key, did you mean name?"),
    ('name = "all"', "", "name: missing"),
    ('"all"', "3", "name: 3, expected a string"),
    ("time_limit = 60", "time_limit = 0", "time_limit: 0, expected a positive number of seconds"),
    ("time_limit = 60", "time_limit = true", "time_limit: True, expected"),
    ("threads = 2", "threads = 1.5", "threads: 1.5, expected a positive integer"),
    ('"6GiB"', '"0.5"', "memory_limit: '0.5', expected an amount of memory"),
    ('"6GiB"', '"6 apples"', "memory_limit: budget '6 apples': unknown unit"),
    ("seeds = [1, 2]", "seeds = [1, 1]", "seeds: a number is given twice"),
    ("seeds = [1, 2]", "seeds = [-1]", "methods[2] (checkmate-milp highs): seed -1"),
    ("seeds = [5]", "seeds = []", "methods[0] (moccasin cp-sat C=2): seeds: a model needs one"),
    ("seeds = [5]", 'seeds = "5"', "methods[0].seeds: '5', expected a list of integers"),
    ('"80%"', '"90%"', "graphs[0]: budgets: '0.9' and '90%' are the same"),
    ('"80%"', '"much"', "graphs[0]: budget 'much': expected a fraction"),
    ('budgets = "0.7"', "budgets = []", "graphs[1]: budgets: there is none"),
    ('family = "made"', 'famly = "made"', "graphs[0].famly: unknown key, did you mean family?"),
    ('path = "g.json"', "", "graphs[0].label: '', expected a string|graphs[0]: give either path or generate"),
    ('path = "g.json"', 'path = "g.json"\ngenerate = "chain"', "graphs[0]: give either path or generate"),
    ("--seed 7", "--seed 7 -o x.json", "graphs[1]: generate: the graph is not to be written"),
    ("--seed 7", "--seed '7", "graphs[1].generate: "),
    ('"RL 12"', '"g"', "graphs: two of them have the label 'g'"),
    ('solver = ["cp-sat"', 'solvr = ["cp-sat"', "methods[0].solvr: unknown key, did you mean solver?"),
    ('"cp-sat,gecode"', "3", "methods[0].solver: 3, expected a string"),
    ('"cp-sat,gecode"', '"cp-sat"', "methods[0].solver: ['cp-sat', 'cp-sat'] is empty or has a value twice"),
    ('[2, "auto"]', "[0]", "methods[0] (moccasin cp-sat): max computations '0'"),
    ('[2, "auto"]', '"most"', "methods[0] (moccasin cp-sat): max_computations 'most': expected an integer or auto"),
    ("two_phase = true", 'two_phase = "yes"', "methods[0].two_phase: 'yes', expected true or false"),
    ("two_phase = true", "warm_start = 'x.json'", "methods[0].warm_start: every run of an experiment starts"),
    ("two_phase = true", 'order = "x"', "order 'x': expected one of input, topological, free"),
    ("two_phase = true", 'precedence = "x"', "methods[0] (moccasin cp-sat C=2): "),
    ('["RL *"]', '["LR *"]', "methods: 'moccasin cp-sat C=2' is for none of the graphs"),
    ('"dtr"]', '"dtr-*-x"]', "methods[1].strategy: 'dtr-*-x' matches none of keep-all"),
    ('"dtr"]', '"dtrr"]', "methods[1].strategy: strategy 'dtrr' is unknown"),
    ("time_limit = 7", "threads = 1", "methods[1].threads: a strategy has none"),
    ("time_limit = 7", 'solver = "highs"', "methods[1] (chen-sqrtn-ap): solver is for models"),
    ('solver = "highs"', 'search = "only"', "methods[2] (checkmate-milp search only): search only: checkmate-milp"),
    ('solver = "highs"', "max_computations = 2", "methods[2] (checkmate-milp C=2): checkmate-milp has no limit"),
    (
        'formulation = "checkmate-milp"',
        'strategy = "dtr"\ngraphs = []',
        "methods[2].strategy|is for none|solver is for",
    ),
    ('"dtr"', '"dtr-eq"', "baseline: there is no method 'dtr-eq', only moccasin cp-sat C=2, moccasin cp-sat C=auto,"),
    ('"dtr"', '"checkmate-milp highs"', "baseline: no method differs from 'checkmate-milp highs' in one option"),
    ('"dtr"', "3", "baseline: 3, expected a list of strings"),
    ("[[methods]]", "[[method]]", "method: unknown key, did you mean methods?"),
    ("title = ", "title = = ", "no TOML: "),
]


@pytest.mark.parametrize(("old", "new", "expected"), BAD)
def test_experiment_mistakes_are_one_line_that_names_file_and_key(tmp_path, command, old, new, expected):
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    status, output, errors = command("bench", "run", path, "--store", tmp_path / "s.sqlite", "--list")
    assert status == 2 and not output
    assert errors.startswith(f"error: {path}: ") and errors.count("\n") == 1
    assert any(part in errors for part in expected.split("|")), errors
    assert not (tmp_path / "s.sqlite").exists()


def test_two_methods_that_mean_the_same_are_refused(tmp_path, command):
    text = GOOD + '[[methods]]\nlabel = "again"\nformulation = "checkmate-milp"\nsolver = "highs"\n'
    status, _, errors = command("bench", "run", write(tmp_path, text), "--list")
    assert status == 2
    assert "two runs are the same: checkmate-milp highs on RL 12, budget 0.7, and again on RL 12" in errors


def test_missing_experiment_files_are_reported_with_the_folders_searched(tmp_path, command):
    path = write(tmp_path, GOOD.replace("optional = true", ""))
    status, _, errors = command("bench", "run", path, "--graphs", tmp_path, "--list")
    assert status == 2 and f"graph g: there is no g.json in {tmp_path}, {tmp_path}" in errors
    assert command("bench", "run", tmp_path / "none.toml")[0] == 2
    assert "no such folder" in command("bench", "run", path, "--graphs", tmp_path / "none")[2]
    wrong = write(tmp_path, GOOD.replace("--nodes 12", "--nodes 0"), "wrong.toml")
    assert "graph RL 12: generate layered --nodes 0" in command("bench", "run", wrong, "--list")[2]


def test_options_are_those_of_solve():
    from moccasin_mzn.cli.solve import solve

    assert set(MODEL_OPTIONS) <= {parameter.name for parameter in solve.params}


@pytest.mark.few(4)
@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_experiments_can_be_run(path, command, tmp_path):
    status, output, _ = command("bench", "run", path, "--store", tmp_path / "s.sqlite", "--list")
    assert status == 0 and " runs, 0 done" in output
