"""The models under MiniZinc 2.10, run as WebAssembly by `scripts/minizinc-wasm.cjs`, against brute force.

What 2.10 compiles for CP-SAT is also compared with what the MiniZinc on PATH compiles.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import MODEL_FORMS, MODELS, Case, data_text, draw_case, least_capacity, least_duration
from few import few
from newer_minizinc import NATIVE, NEWER, cp_sat_objective, execute, needs_newer

from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT, LIBRARY

pytestmark = needs_newer


FIRST = {"keep": 1, "mark": pytest.mark.slow}
MODELS_TO_COMPILE = few(MODEL_FORMS, keep=[MODEL_FORMS[0]], mark=pytest.mark.slow)


def question(seed: int, folder: Path, form: str) -> tuple[Case, Path]:
    """A case with two computations per node, which Gecode can prove too, and its data, with the form of a model."""
    case = draw_case(seed, workspaces=seed % 2 == 1)
    case = Case(case.graph, case.budget, 2)
    data = folder / "data.dzn"
    data.write_text(data_text(case) + form)
    return case, data


def expected_objective(case: Case, model: str, form: str) -> int | None:
    """None: it depends on weights."""
    if "ELASTIC" in form and least_duration(case, model) is None:
        return None
    return (least_capacity if "PEAK" in form else least_duration)(case, model)


@pytest.mark.full
@pytest.mark.parametrize("seed", few([14, 2, 8, 16, 23, 27, 34], **FIRST))
@pytest.mark.parametrize(("model", "form"), MODELS_TO_COMPILE)
def test_models_compile_for_cp_sat(tmp_path, model, form, seed):
    case, data = question(seed, tmp_path, form)
    objectives = {cp_sat_objective(NEWER, model, data, tmp_path)}
    if shutil.which("minizinc"):
        objectives.add(cp_sat_objective(NATIVE, model, data, tmp_path))
    expected = expected_objective(case, model, form)
    assert len(objectives) == 1 and expected in (None, *objectives)


@pytest.mark.full
@pytest.mark.parametrize("seed", few([8, 16, 23, 27, 34], **FIRST))
@pytest.mark.parametrize("solver", few(["chuffed", "gecode"], **FIRST))
@pytest.mark.parametrize(("model", "form"), MODELS_TO_COMPILE)
def test_models_compile_for_the_standard_library(tmp_path, model, form, solver, seed):
    case, data = question(seed, tmp_path, form)
    checker = MODELS / f"{model}.mzc.mzn"
    out = execute(
        NEWER, "--solver", solver, "--output-objective", "--output-mode", "dzn", MODELS / f"{model}.mzn", checker, data
    )
    assert "==========" in out
    assert "CORRECT: duration" in out
    assert "INCORRECT" not in out
    expected = expected_objective(case, model, form)
    assert expected is None or int(re.findall(r"_objective = (-?\d+)", out)[-1]) == expected


GLOBALS = {
    "extension": """
        constraint table(x[1..2], [|1,2|2,3|3,1|4,4|]);
        constraint b -> regular(x, 2, 4, [|1,2,0,0|2,1,2,0|], 1, {2});
    """,
    "circuit": "constraint circuit(x); constraint b -> x[1] > 2;",
    "subcircuit": "constraint b -> subcircuit(x); constraint b \\/ x[1] = x[2]; constraint x[3] = 1;",
    "inverse": "array [1..4] of var 1..4: y; constraint inverse(x, y); constraint b <-> y[1] < 3;",
    "counting": """
        constraint count(x, 2) >= 1; constraint b -> among(2, x, {1, 3});
        constraint global_cardinality(x, [1, 2], [y, z]); var 0..2: y; var 0..2: z;
        constraint b <-> at_most(1, x, 4);
    """,
    "ordering": "constraint lex_less(x[1..2], x[3..4]); constraint b <-> value_precede_chain([1, 2, 3], x);",
    "packing": """
        constraint bin_packing_load([y, z, 2, 0], x, [1, 2, 1, 2]); var 0..5: y; var 0..5: z;
        constraint b -> diffn([x[1], x[2]], [x[3], x[4]], [2, 1], [1, 2]);
    """,
    "scheduling": """
        constraint cumulative(x, [1, 2, 1, 3], [1, 1, 2, 1], 2); constraint b -> disjunctive(x[1..3], [1, 2, 1]);
    """,
    "optional": """
        array [1..2] of var opt 1..3: s; constraint cumulative(s, [2, 2], [1, 1], 1);
        constraint b -> disjunctive(s, [1, 2]);
        constraint x[1] = (s[1] default 4) /\\ x[2] = (s[2] default 4) /\\ x[3] = x[4];
    """,
    "extremes": """
        constraint max(x) = 3 /\\ min(x) = 1; constraint arg_max(x) = 2; constraint b <-> all_different(x[1..3]);
    """,
    "arithmetic": """
        constraint x[1] * x[2] = x[3] + 2; constraint x[4] div x[1] = x[2] mod 3; constraint b -> pow(x[1], 2) > 5;
    """,
    "sets": """
        var set of 1..4: s; constraint forall (i in 1..4) (x[i] in s); constraint b <-> card(s) = 2;
        constraint x[1] = x[3];
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("family", GLOBALS)
def test_globals_mean_the_same_to_both(tmp_path, family):
    """What 2.10 and the MiniZinc on PATH compile for our solver has the same solutions, all of them."""
    model = tmp_path / "model.mzn"
    items = 'include "globals.mzn"; array [1..4] of var 1..4: x; var bool: b; solve satisfy;'
    model.write_text(items + GLOBALS[family])
    solver, found = write_configuration(tmp_path, CP_SAT.configuration()), []
    for command in (NEWER, NATIVE) if shutil.which("minizinc") else (NEWER,):
        flatzinc = tmp_path / "model.fzn"
        execute(command, "-c", "--solver", solver, "--no-output-ozn", model, "--fzn", flatzinc)
        out = execute([sys.executable, "-m", "moccasin_mzn.solvers.cpsat"], "-a", flatzinc)
        assert out.endswith("==========\n")
        found.append({tuple(re.findall(r"^[xb] = .*", block, re.MULTILINE)) for block in out.split("-" * 10)[:-1]})
    assert len(found[0]) > 3
    assert all(solutions == found[0] for solutions in found)


@pytest.mark.full
def test_cp_sat_library_compiles_with_minizinc_2_10(tmp_path):
    model, flatzinc, solver = (
        tmp_path / "model.mzn",
        tmp_path / "model.fzn",
        write_configuration(tmp_path, CP_SAT.configuration()),
    )
    files = sorted(path.name for path in LIBRARY.glob("fzn_*.mzn"))
    model.write_text("".join(f'include "{name}";' for name in ["globals.mzn", *files]) + "solve satisfy;")
    command = [*NEWER, "-c", "--warn-non-authoritative-names", "--solver", solver, model, "--fzn", flatzinc]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert flatzinc.read_text().endswith("solve  satisfy;\n")


def test_the_version_is_new_enough():
    major, minor = map(int, re.search(r"version (\d+)\.(\d+)", execute(NEWER, "--version")).groups())
    assert (major, minor) >= (2, 10)


@pytest.mark.full
def test_what_minizinc_complains_about_is_passed_on(tmp_path):
    model = tmp_path / "wrong.mzn"
    model.write_text("var 1..2: x; constraint y > 1;")
    command = [*NEWER, "--solver", "gecode", model]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "undefined identifier" in ended.stderr
    assert f"\n{model}:1." in ended.stderr
    ended = subprocess.run([*command, "--json-stream"], capture_output=True, text=True, timeout=60, check=False)
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [entry["location"]["filename"] for entry in told if entry["type"] == "error"] == [str(model)]


def test_included_files_are_found_in_their_folders(tmp_path):
    (tmp_path / "models" / "lib").mkdir(parents=True)
    (tmp_path / "models" / "lib" / "a.mzn").write_text('include "b.mzn";')
    (tmp_path / "models" / "lib" / "b.mzn").write_text("int: answer = 42;")
    model = tmp_path / "models" / "model.mzn"
    model.write_text('include "lib/a.mzn"; output ["\\(answer)"];')
    assert execute(NEWER, "--solver", "gecode", model).startswith("42\n")


@pytest.mark.full
def test_files_are_found_where_options_and_parameter_files_name_them(tmp_path):
    folder = tmp_path / "a folder, with 100 % odd names"
    (folder / "library").mkdir(parents=True)
    (folder / "library" / "more.mzn").write_text("int: more = 100;")
    (folder / "model.mzn").write_text('include "more.mzn"; int: n; output ["\\(n + more)"];')
    (folder / "data.dzn").write_text("n = 7;")
    (folder / "data.json").write_text('{"n": 8}')
    parameters = {
        "solver": "chuffed",
        "model": "model.mzn",
        "data": ["data.dzn"],
        "search-dir": str(folder / "library"),
    }
    (folder / "run.mpc").write_text(json.dumps(parameters))
    library = ["-I", folder / "library"]
    assert execute(NEWER, "--param-file", folder / "run.mpc").startswith("107\n")
    assert execute(NEWER, folder / "run.mpc").startswith("107\n")
    assert (
        execute(NEWER, *library, "--solver", "gecode", folder / "model.mzn", "-d", folder / "data.json")[:4] == "108\n"
    )
    execute(NEWER, *library, "--solver", "gecode", "-m", folder / "model.mzn", "-D", "n = 9;", "-o", folder / "out.txt")
    assert (folder / "out.txt").read_text().startswith("109\n")


@pytest.mark.full
def test_only_the_files_that_a_model_includes_are_read(tmp_path):
    (tmp_path / "unreadable.mzn").write_bytes(b"\xff" * 10)
    (tmp_path / "part.mzn").write_text("int: answer = 42;")
    (tmp_path / "model.mzn").write_text('include "globals.mzn"; include "part.mzn"; output ["\\(answer)"];')
    (tmp_path / "loop.mzn").symlink_to(tmp_path, target_is_directory=True)
    assert execute(NEWER, "--solver", "gecode", tmp_path / "model.mzn").startswith("42\n")


@pytest.mark.full
def test_models_may_call_deeply(tmp_path):
    model = tmp_path / "model.mzn"
    model.write_text('function int: f(int: n) = if n = 0 then 0 else 1 + f(n - 1) endif; output ["\\(f(3000))"];')
    assert execute(NEWER, "--solver", "gecode", model).startswith("3000\n")
