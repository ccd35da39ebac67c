"""The models under MiniZinc 2.10, run as WebAssembly by `scripts/minizinc-wasm.cjs`, against brute force.

What 2.10 compiles for CP-SAT is also compared with what the MiniZinc on PATH compiles.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import CHECKER_NAMES, MODEL_NAMES, MODELS, Case, data_text, draw_case, least_capacity, least_duration

from moccasin_mzn.flatzinc.configuration import LIBRARY, write_configuration

ROOT = Path(__file__).resolve().parents[1]
RUNNER = ROOT / "scripts" / "minizinc-wasm.cjs"
PACKAGE = Path(os.environ.get("MINIZINC_WASM") or ROOT / "node_modules" / "minizinc")
NEWER = ["node", RUNNER]
NATIVE = ["minizinc"]


def _seeds(first: int, *others: int) -> list:
    """Of cases that need recomputations; only the first is run by default."""
    return [first, *(pytest.param(seed, marks=pytest.mark.slow) for seed in others)]


def _why_not() -> str | None:
    if shutil.which("node") is None:
        return "node is not on PATH"
    if not any((folder / "minizinc.wasm").is_file() for folder in (PACKAGE, PACKAGE / "dist")):
        return f"the npm package minizinc is not in {PACKAGE}: npm install minizinc, or set MINIZINC_WASM"
    return None


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))


def execute(command, *arguments) -> str:
    """What the command prints; it must not fail."""
    words = [str(word) for word in (*command, *arguments)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def question(seed: int, folder: Path) -> tuple[Case, Path]:
    """A case with two computations per node, which Gecode can prove too, and its data file."""
    case = draw_case(seed)
    case = Case(case.graph, case.budget, 2)
    data = folder / "data.dzn"
    data.write_text(data_text(case))
    return case, data


def expected_objective(case: Case, model: str) -> int:
    formulation = model.split("_")[0]
    return (least_capacity if model.endswith("_peak") else least_duration)(case, formulation)


def cp_sat_objective(command, model: str, data: Path, folder: Path) -> int:
    """Compile with our solver's library, solve the FlatZinc with our solver."""
    flatzinc = folder / "model.fzn"
    solver = write_configuration(folder)
    execute(command, "-c", "--solver", solver, "--no-output-ozn", MODELS / f"{model}.mzn", data, "--fzn", flatzinc)
    out = execute([sys.executable, "-m", "moccasin_mzn.flatzinc"], "-f", "-p", 1, "-s", flatzinc)
    assert "==========" in out
    return int(re.findall(r"objective=(-?\d+)", out)[-1])


@pytest.mark.parametrize("seed", _seeds(14, 2, 8, 16, 23, 27, 34))
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_models_compile_for_cp_sat(tmp_path, model, seed):
    case, data = question(seed, tmp_path)
    objectives = {cp_sat_objective(NEWER, model, data, tmp_path)}
    if shutil.which("minizinc"):
        objectives.add(cp_sat_objective(NATIVE, model, data, tmp_path))
    assert objectives == {expected_objective(case, model)}


@pytest.mark.parametrize("seed", _seeds(8, 16, 23, 27, 34))
@pytest.mark.parametrize("solver", ["gecode", "chuffed"])
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_models_compile_for_the_standard_library(tmp_path, model, solver, seed):
    case, data = question(seed, tmp_path)
    checker = MODELS / CHECKER_NAMES[model.split("_")[0]]
    out = execute(
        NEWER, "--solver", solver, "--output-objective", "--output-mode", "dzn", MODELS / f"{model}.mzn", checker, data
    )
    assert "==========" in out
    assert "CORRECT: duration" in out
    assert "INCORRECT" not in out
    assert int(re.findall(r"_objective = (-?\d+)", out)[-1]) == expected_objective(case, model)


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


@pytest.mark.parametrize("family", GLOBALS)
def test_globals_mean_the_same_to_both(tmp_path, family):
    """What 2.10 and the MiniZinc on PATH compile for our solver has the same solutions, all of them."""
    model = tmp_path / "model.mzn"
    items = 'include "globals.mzn"; array [1..4] of var 1..4: x; var bool: b; solve satisfy;'
    model.write_text(items + GLOBALS[family])
    solver, found = write_configuration(tmp_path), []
    for command in (NEWER, NATIVE) if shutil.which("minizinc") else (NEWER,):
        flatzinc = tmp_path / "model.fzn"
        execute(command, "-c", "--solver", solver, "--no-output-ozn", model, "--fzn", flatzinc)
        out = execute([sys.executable, "-m", "moccasin_mzn.flatzinc"], "-a", flatzinc)
        assert out.endswith("==========\n")
        found.append({tuple(re.findall(r"^[xb] = .*", block, re.MULTILINE)) for block in out.split("-" * 10)[:-1]})
    assert len(found[0]) > 3
    assert all(solutions == found[0] for solutions in found)


def test_the_whole_library_compiles(tmp_path):
    model, flatzinc, solver = tmp_path / "model.mzn", tmp_path / "model.fzn", write_configuration(tmp_path)
    files = sorted(path.name for path in LIBRARY.glob("fzn_*.mzn"))
    model.write_text("".join(f'include "{name}";' for name in ["globals.mzn", *files]) + "solve satisfy;")
    command = [*NEWER, "-c", "--warn-non-authoritative-names", "--solver", solver, model, "--fzn", flatzinc]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert flatzinc.read_text().endswith("solve  satisfy;\n")


def test_the_version_is_new_enough():
    major, minor = map(int, re.search(r"version (\d+)\.(\d+)", execute(NEWER, "--version")).groups())
    assert (major, minor) >= (2, 10)


def test_what_minizinc_complains_about_is_passed_on(tmp_path):
    model = tmp_path / "wrong.mzn"
    model.write_text("var 1..2: x; constraint y > 1;")
    ended = subprocess.run(
        ["node", RUNNER, "--solver", "gecode", model], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "undefined identifier" in ended.stderr


def test_included_files_are_found_in_their_folders(tmp_path):
    (tmp_path / "models" / "lib").mkdir(parents=True)
    (tmp_path / "models" / "lib" / "a.mzn").write_text('include "b.mzn";')
    (tmp_path / "models" / "lib" / "b.mzn").write_text("int: answer = 42;")
    model = tmp_path / "models" / "model.mzn"
    model.write_text('include "lib/a.mzn"; output ["\\(answer)"];')
    assert execute(NEWER, "--solver", "gecode", model).startswith("42\n")
