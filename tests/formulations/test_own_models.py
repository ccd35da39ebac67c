"""Models of one's own in the place of a formulation's: asked, compared, counted, benched, and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cases import MODELS
from few import few
from soaking.exact import best
from soaking.exact_questions import exact_graph
from tight_graphs import drawn

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Formulation, find_formulation, formulations
from moccasin_mzn.formulations.catalogue import GROUP
from moccasin_mzn.formulations.moccasin import IntervalFormulation

GRAPH = mz.ComputationGraph(
    ("x", "a", "b", "c", "z"), (2, 3, 3, 3, 1), (4, 4, 4, 4, 1), ((0, 1), (1, 2), (2, 3), (0, 4), (3, 4))
)
"""Within 9, x is computed twice."""


@pytest.fixture
def own(tmp_path):
    """A changed copy of staged.mzn in another folder, and what it includes that is not ours."""
    model = tmp_path / "lean.mzn"
    text = (MODELS / "staged.mzn").read_text().replace('include "lib/cover.mzn";', "% cover rows: left out.")
    (tmp_path / "extra.mzn").write_text("% Ours to change.\nconstraint forall(v in NODE)(C[v] <= 3);\n")
    model.write_text(f'{text}include "extra.mzn";\n')
    return model


@pytest.mark.parametrize("solver", ["cp-sat", "gecode"])
def test_own_models_are_solved_as_formulations_are(own, solver):
    result = mz.solve(GRAPH, 9, model=str(own), solver=solver)
    assert (result.status, result.duration) == ("optimal", 14)
    ranges = "in stages of the input order with at most 2 computations per node"
    assert result.reason == f"proven: no schedule that lean.mzn has as a solution {ranges} is shorter"
    told = result.details.as_dict()
    assert told["formulation"] == "lean" and told["seconds"]["solve"] > 0


def test_own_models_respect_their_constraints(tmp_path):
    model = tmp_path / "never.mzn"
    model.write_text(f'include "{MODELS}/general.mzn";\nconstraint not active[first[1] + 1];\n')
    result = mz.solve(GRAPH, 9, model=str(model), like="general")
    assert result.status == "infeasible" and "never.mzn" in result.reason


def test_the_remedies_named_for_own_models_are_possible(tmp_path):
    model = tmp_path / "few.mzn"
    model.write_text(f'include "{MODELS}/staged.mzn";\nconstraint forall(v in NODE)(C[v] <= 3);\n')
    result = mz.solve(GRAPH, 9, model=str(model), max_computations=1)
    assert result.status == "infeasible" and "--order free" not in result.reason
    assert result.reason.endswith("(--max-computations), or fewer constraints in the model, may fit")
    options = [(one.option, one.detail) for one in result.details.shortfall.helps]
    assert options[0] == ("--max-computations auto", "--model") and not [o for o, _ in options if "--order" in o]


def test_commands_take_own_models(command, own, graph, tmp_path):
    assert command("solve", graph, "--budget", 9, "--model", own, "--like", "staged")[0] == 0
    status, told, _ = command("complexity", graph, "--budget", 9, "--model", own, "--json")
    sizes = {row["formulation"]: row for row in map(json.loads, told.splitlines())}
    assert status == 0 and sizes["lean"]["constraints"] != sizes["staged"]["constraints"]
    assert set(sizes["lean"]["growth"].values()) == {"-"} and "-" not in sizes["staged"]["growth"].values()
    options = ("--only", "lean", "--only", "staged alone", "--json")
    status, told, _ = command("compare", graph, "--budget", 9, "--model", own, *options)
    rows = {row["contender"]: row for row in map(json.loads, told.splitlines())}
    assert status == 0 and {name: (row["status"], row["duration"]) for name, row in rows.items()} == {
        "staged alone": ("optimal", 14), "lean": ("optimal", 14)
    }  # fmt: skip
    assert command("export", graph, "--budget", 9, "--model", own, "-o", tmp_path / "made")[0] == 0
    assert "left out" in (tmp_path / "made" / "model.mzn").read_text()


@pytest.mark.full
def test_own_models_are_benchmarked_with_staged_on_five_graphs(command, own, tmp_path):
    """One experiment: a copy of staged.mzn without a redundant group, by the file's text; a change is another run."""
    graphs = "\n".join(
        f'[[graphs]]\ngenerate = "layered --nodes {10 + seed} --seed {seed}"\nlabel = "l{seed}"' for seed in range(5)
    )
    experiment, store, table = tmp_path / "own.toml", tmp_path / "own.sqlite", tmp_path / "own.csv"
    experiment.write_text(f"""
name = "own"
budgets = ["0.8"]
time_limit = 30
{graphs}
[[methods]]
formulation = "staged"
search = "off"
two_phase = false
[[methods]]
model = "lean.mzn"
like = "staged"
two_phase = false
""")
    import pandas as pd

    def runs():
        assert command("bench", "run", experiment, "--store", store)[0] == 0
        assert command("bench", "export", store, "-o", table)[0] == 0
        return pd.read_csv(table)

    found = runs().set_index(["graph", "formulation"]).unstack()
    assert list(found["status"].columns) == ["lean", "staged"] and len(found) == 5
    assert (found["duration"]["lean"].fillna(-1) == found["duration"]["staged"].fillna(-1)).all()
    assert found["status"].isin(["optimal", "infeasible"]).all(axis=None)
    own.write_text(own.read_text() + "% changed\n")
    assert len(runs()) == 15  # the changed model's runs are others


@pytest.mark.full
def test_the_example_of_the_readme_runs(command, tmp_path):
    text = (MODELS / "README.md").read_text()
    model = tmp_path / "latest.mzn"
    model.write_text(text[text.index("% latest.mzn") : text.index("```", text.index("% latest.mzn"))])
    status, told, _ = command("solve", MODELS.parent / "data" / "unet_training.json", "--budget", 0.8, "--model", model)
    assert status == 0 and "that latest.mzn has as a solution" in told and "valid" in told


@pytest.mark.parametrize("seed", few(range(40), keep=4))
def test_own_models_like_general_choose_the_order(seed, tmp_path):
    graph = drawn(f"own {seed}")
    budget = max(graph.working_sets) + seed % 2
    (tmp_path / "mine.mzn").write_text(f'include "{MODELS}/general.mzn";\n')
    found = mz.solve(
        graph, budget, model=tmp_path / "mine.mzn", like="general", order="free", max_computations=2, threads=1
    )
    exact = best(exact_graph(graph), budget, "free", 2)
    assert found.status == ("infeasible" if exact is None else "optimal")
    assert exact is None or (found.duration == exact[0] and mz.validate(graph, found.sequence, budget=budget).valid)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "none.mzn"), "none.mzn: cannot read"),
        (("--model", "OWN", "--search", "on"), "search on: lean runs alone"),
        (("--like", "general"), "like: it goes with a model of one's own"),
        (("--model", "OWN", "--formulation", "general", "--like", "staged"), "'general' and like 'staged': give one"),
        (("--model", "OWN", "--like", "x"), "unknown formulation 'x'"),
        (("--model", "BROKEN"), "cp-sat: "),
        (
            ("--model", "OWN", "--order", "free"),
            "order free: lean.mzn is like staged, for a given order; one like general is not",
        ),
    ],
)
def test_own_models_with_mistakes_are_refused_in_one_line(command, own, graph, tmp_path, arguments, message):
    (tmp_path / "broken.mzn").write_text('include "lib/instance.mzn";\nvar int x;\n')
    names = {"OWN": own, "BROKEN": tmp_path / "broken.mzn"}
    status, out, err = command("solve", graph, "--budget", 9, *(names.get(one, one) for one in arguments))
    told = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (status, out, len(told)) == (2, "", 1) and message in told[0], err


class Entry:
    """An entry point of another package."""

    value = "another_package:FORM"

    def __init__(self, loaded):
        self.loaded = loaded

    def load(self):
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def entry(monkeypatch):
    def made(loaded):
        formulations.cache_clear()
        asked = "moccasin_mzn.formulations.catalogue.entry_points"
        monkeypatch.setattr(asked, lambda group: [Entry(loaded)] if group == GROUP else [])

    yield made
    monkeypatch.undo()
    formulations.cache_clear()


def test_another_package_may_have_a_formulation(entry, own):
    staged = find_formulation("staged")
    told = {name: getattr(staged, name) for name in ("title", "source", "guarantee", "growth")}
    form: Formulation = IntervalFormulation(name="lean", **told, model=str(own))
    entry(form)
    assert find_formulation("lean") == form
    assert mz.solve(GRAPH, 9, formulation="lean").duration == 14


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (ImportError("no module named other"), "another_package:FORM of moccasin_mzn.formulations: no module named"),
        (AssertionError(), "another_package:FORM of moccasin_mzn.formulations: AssertionError"),
        (3, "3 is no Formulation"),
        (find_formulation("general"), "the name 'general' is taken"),
    ],
)
def test_formulations_of_another_package_are_checked(entry, loaded, message):
    entry(loaded)
    with pytest.raises(mz.InputError, match=message):
        find_formulation("lean")
    assert find_formulation("staged").name == "staged"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import another_package_of_it", "No module named 'another_package_of_it'"),
        ("raise ValueError('so\\nit is')", "so it is"),
    ],
)
def test_a_broken_package_is_in_the_way_of_nothing_else(tmp_path, graph, code, message):
    """One that is really installed."""
    (tmp_path / "broken_package.py").write_text(f"{code}\n")
    told = tmp_path / "broken_package-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_package\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[{GROUP}]\nlean = broken_package:FORM\n")

    def run(*arguments):
        line = [sys.executable, "-m", "moccasin_mzn", *map(str, arguments)]
        made = subprocess.run(line, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
        return made.returncode, made.stderr

    assert run("--help") == (0, "")
    assert run("export", graph, "--budget", 9, "-o", tmp_path / "made.dzn") == (0, "")
    for asked in (("list",), ("export", graph, "--budget", 9, "--formulation", "lean", "-o", tmp_path / "lean.dzn")):
        status, err = run(*asked)
        assert (status, err.count("\n")) == (2, 1) and message in err, err
        assert err.startswith("error: entry point broken_package:FORM of moccasin_mzn.formulations: ")


def test_solutions_without_what_the_formulation_reads_are_refused_in_one_sentence():
    sentence = r"^staged.mzn: its solutions have no `R`, and --formulation checkmate-milp reads it"
    with pytest.raises(InputError, match=sentence):
        mz.solve(GRAPH, 9, model=str(MODELS / "staged.mzn"), like="checkmate-milp")
