"""What is misspelt, or named as other tools name it, is refused in one line that says what may have been meant."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest
from few import few
from hypothesis import given
from hypothesis import strategies as st
from test_examples import commands_of

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import closest
from moccasin_mzn.cli.main import main
from moccasin_mzn.cli.options import Choice
from moccasin_mzn.cli.suggestions import COMMANDS, SYNONYMS, meant_option
from moccasin_mzn.formulations import FORMULATIONS, find_formulation
from moccasin_mzn.graphs.generators.catalogue import NETWORKS
from moccasin_mzn.search.options import Options
from moccasin_mzn.solvers.minizinc.solvers import OWN, find_backend
from moccasin_mzn.strategies import find_strategy, strategies

ALL = dict(commands_of(main))
UNET = Path(__file__).resolve().parents[2] / "data" / "unet_training.json"


def options_of(words):
    shown = [one for one in ALL[words].params if isinstance(one, click.Option) and not one.hidden]
    return [name for one in shown for name in (*one.opts, *one.secondary_opts) if name.startswith("--")]


# options


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("solve g --timeout 5", "--time-limit"),
        ("solve g -t 5", "--time-limit"),
        ("solve g --time_limit 5", "--time-limit"),
        ("solve g --TIME-LIMIT 5", "--time-limit"),
        ("solve g --max-memory 5", "--budget"),
        ("solve g -j 2", "--threads"),
        ("solve g --bugdet 5", "--budget"),
        ("allocate b --budget 5", "--capacity"),
        ("bench run e --jobs 2", "--workers"),
        ("frontier g --mip-gap 0.1", "--until-gap"),
        ("generate network unet --batch-size 2", "--batch"),
        ("run torch m --save-as x", "--save"),
        ("info g --timeout 5", ""),  # it has no limit, and nothing else is meant
        ("list --zzzzzz", ""),
    ],
)
def test_an_unknown_option_names_the_one_that_is_meant(command, line, meant):
    status, out, err = command(*line.split())
    option = next(word for word in line.split() if word.startswith("-"))
    assert (status, out) == (2, "")
    assert err == f"error: No such option {option!r}." + (f" Did you mean {meant}?\n" if meant else "\n")


@pytest.mark.parametrize("words", ALL)
def test_a_synonym_is_never_taken_for_an_option_of_another_meaning(words):
    known = options_of(words)
    for group in SYNONYMS:
        for word in group:
            meant = meant_option(f"--{word}", known)
            assert meant == "" or meant.removeprefix("--") in group
            assert bool(meant) == any(f"--{other}" in known for other in group)


def test_each_synonym_has_one_meaning_and_an_option():
    words = [word for group in SYNONYMS for word in group]
    assert len(set(words)) == len(words)
    every = {name for command in ALL for name in options_of(command)}
    assert all(f"--{group[0]}" in every for group in SYNONYMS)


@pytest.mark.parametrize("words", few(list(ALL), keep=5))
@given(data=st.data())
def test_one_letter_left_out_of_a_long_option_is_found(words, data):
    known = [name for name in options_of(words) if len(name) > 7]
    if not known:
        return
    name = data.draw(st.sampled_from(known))
    at = data.draw(st.integers(2, len(name) - 1))
    typed = name[:at] + name[at + 1 :]
    if typed in known or any(typed[2:] in group for group in SYNONYMS):
        return
    meant = meant_option(typed, known)
    assert meant and closest(typed, [meant]) == meant


# commands


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("generate resnet50", "generate network resnet50"),
        ("resnet50", "generate network resnet50"),
        ("generate netwrk", "generate network"),
        ("onnx m.onnx", "deploy onnx|import onnx"),
        ("layered", "generate layered"),
        ("slove g", "solve"),
        ("Solve g", "solve"),
        ("bench rnu", "bench run"),
        ("runn", "run"),
        ("import kera", ""),
        ("import pytorch x", ""),
    ],
)
def test_an_unknown_command_names_the_one_that_is_meant(command, line, meant):
    status, out, err = command(*line.split())
    assert (status, out) == (2, "") and err.startswith("error: No such command ") and err.count("\n") == 1
    if meant:
        assert err.endswith(f". Did you mean {' or '.join(f'moccasin-mzn {one}' for one in meant.split('|'))}?\n")


@pytest.mark.parametrize(("true", "others"), COMMANDS.items())
def test_what_other_tools_call_a_command_is_known(command, true, others):
    words = true.split()
    if not true.startswith("-"):
        assert true in ALL
    for other in others:
        assert command(other)[2] == f"error: No such command {other!r}. Did you mean moccasin-mzn {' '.join(words)}?\n"


def test_a_graph_in_the_place_of_a_command_is_to_be_solved(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my graph.json").write_text("{}")
    err = command("my graph.json", "--budget", "0.8")[2]
    assert err == "error: No such command 'my graph.json'. Did you mean moccasin-mzn solve 'my graph.json'?\n"


# solvers


def capitals(name):
    return [name.upper(), name.title(), name.capitalize()]


@pytest.mark.parametrize("name", [spelled for own in OWN for spelled in capitals(own)])
def test_our_solvers_are_taken_in_any_letters(name):
    assert find_backend(name).name == name.casefold() == Options(solver=name).solver
    version = find_backend(name.casefold()).solver.version
    assert find_backend(f"{name}@{version}").name == f"{name.casefold()}@{version}"
    with pytest.raises(InputError, match="is named twice"):
        Options(solver=f"{name.casefold()},{name}")


@pytest.mark.parametrize("name", ["Gecode", "GECODE", "org.Gecode.gecode"])
def test_a_solver_of_minizinc_is_taken_in_any_letters(name):
    assert find_backend(name).solver.id == find_backend("gecode").solver.id == "org.gecode.gecode"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("cpsat", "cp-sat"), ("CPSAT", "cp-sat"), ("ortools", "cp-sat"), ("OR-Tools", "cp-sat"), ("Highs4", "highs"),
     ("gecod", "gecode"), ("MIP", "")],
)  # fmt: skip
def test_an_unknown_solver_names_the_one_that_is_meant(name, meant):
    with pytest.raises(InputError) as caught:
        find_backend(name)
    hint = f" (did you mean {meant}?)" if meant else ""
    assert str(caught.value).startswith(f"unknown solver {name!r}{hint}, MiniZinc knows ")


def test_the_command_takes_what_the_table_of_solvers_shows(command):
    status, out, _ = command("solve", UNET, "--budget", "100%", "--solver", "CP-SAT", "--json")
    assert (status, json.loads(out)["solver"]) == (0, "cp-sat")


# choices, methods, files


CHOICES = [
    (words, option) for words, one in ALL.items() for option in one.params if isinstance(option.type, click.Choice)
]


@pytest.mark.parametrize(("words", "option"), CHOICES, ids=lambda one: getattr(one, "name", one))
def test_every_choice_is_taken_in_capitals_and_suggested_where_misspelt(words, option):
    assert isinstance(option.type, Choice)
    for value in option.type.choices:
        assert option.type.convert(value.upper(), option, None) == value
        with pytest.raises(click.BadParameter) as caught:
            option.type.convert(f"{value}{value[-1]}", option, None)
        assert "Did you mean " in caught.value.message


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (find_formulation, [form.name for form in FORMULATIONS]),
        (find_strategy, [rule.name for rule in strategies()]),
        (lambda name: Options(search=name), ["only"]),
        (lambda name: Options(if_none=name), ["more", "hint", "stop"]),
        (lambda name: Options(own={"presolve": name}), ["off"]),
    ],
)
def test_an_unknown_value_names_the_closest(make, names):
    for name in names:
        with pytest.raises(InputError, match=rf", did you mean {name}\?"):
            make(f"{name}{name[-1]}")


def test_a_misspelt_file_names_that_which_is_there(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/unet.json").write_text("{}")
    err = command("solve", "folder/unet.jsn", "--budget", "0.8")[2]
    assert "No such file or directory, did you mean folder/unet.json?" in err and err.count("\n") == 1
    assert "did you mean" not in command("solve", "other.json", "--budget", "0.8")[2]
    assert "did you mean" not in command("solve", "nowhere/unet.json", "--budget", "0.8")[2]


@pytest.mark.parametrize("name", few(list(NETWORKS), keep=2))
@pytest.mark.few(1)
def test_the_name_of_a_network_as_a_graph_names_the_command_that_makes_it(command, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for words in (["solve"], ["solve", "--budget", "0.9"], ["info"], ["validate"], ["compare", "--budget", "0.9"]):
        status, _, err = command(words[0], name, *words[1:])
        assert status == 2 and err.startswith(f"error: {name}: there is no such file; ")
    line = shlex.split(err.partition("made by: ")[2])
    assert line[0] == "moccasin-mzn" and command(*line[1:])[0] == 0
    assert command("info", f"{name}.json")[0] == 0
