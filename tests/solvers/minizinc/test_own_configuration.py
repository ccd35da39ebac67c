"""Our own solvers are those of this package, whatever is installed under their names and wherever the package is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from others import installed, script
from solving import solve
from tiny_graphs import SKIP

import moccasin_mzn
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import LIBRARY, OWN, find_backend

pytestmark = pytest.mark.usefixtures("minizinc")
PACKAGE = Path(moccasin_mzn.__file__).parent
SLOW = pytest.mark.slow
FOLDER = "dürf ñ 模型 und mehr"
TITLES = {"cp-sat": "solvers/cpsat/run.py", "highs": "solvers/linear/run.py", "scip": "solvers/linear/run.py"}
"""Where the executables name themselves."""


def in_the_way(home: Path, name: str, **fields) -> Path:
    """Install a configuration with our own id, of an executable that fails; the file that this would leave."""
    mark = home / "was-run"
    other = script(home / "other", f"touch {mark}", "echo of another environment >&2", "exit 3")
    own = {key: value for key, value in OWN[name].configuration().items() if key != "description"}
    installed(home, name, other, **{**own, "executable": str(other), "mznlib": "-Ggecode", **fields})
    return mark


@pytest.mark.full
@pytest.mark.parametrize("version", ["own", pytest.param("0.1", marks=SLOW), pytest.param("99.0", marks=SLOW)])
@pytest.mark.parametrize("name", OWN)
def test_an_installed_solver_of_the_same_id_does_not_run(home, name, version):
    mark = in_the_way(home, name, **({} if version == "own" else {"version": version}))
    result = solve(SKIP, 8, solver=name, search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 14)
    assert result.solver_version == find_backend(name).solver_version
    assert not mark.exists()


@pytest.mark.full
def test_installed_solvers_on_the_solver_path_and_their_flags_do_not_run(home, monkeypatch):
    mark = in_the_way(home, "cp-sat")
    (home / "elsewhere").mkdir()
    shutil.move(home / ".minizinc" / "solvers" / "cp-sat.msc", home / "elsewhere" / "cp-sat.msc")
    monkeypatch.setenv("MZN_SOLVER_PATH", str(home / "elsewhere"))
    preferences = {"solverDefaults": [[OWN["cp-sat"].configuration()["id"], "--params", "no parameter at all"]]}
    (home / ".minizinc" / "Preferences.json").write_text(json.dumps(preferences))
    assert solve(SKIP, 8, search="off", time_limit=60).duration == 14
    assert not mark.exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OWN)
def test_models_are_compiled_for_our_own_library(home, name):
    form = find_formulation("staged")
    text = dzn_text(form.data_items(SKIP, form.data(Instance.build(SKIP, 8, max_computations=2))))

    def kinds() -> Counter[str]:
        flat = compile_model(find_backend(name), form.file, text)
        return Counter(re.findall(r"^constraint (\w+)", flat, re.MULTILINE))

    before = kinds()
    in_the_way(home, name)
    assert kinds() == before


@pytest.fixture
def copied(tmp_path) -> Path:
    """A copy of the package and its models in a folder whose name is neither ASCII nor a single word; its executables
    name themselves otherwise."""
    folder = tmp_path / FOLDER
    shutil.copytree(PACKAGE, folder / "moccasin_mzn", ignore=shutil.ignore_patterns("__pycache__"))
    if not (folder / "moccasin_mzn" / "models").is_dir():
        shutil.copytree(PACKAGE.parent / "models", folder / "models")
    for file in set(TITLES.values()):
        path = folder / "moccasin_mzn" / file
        text = path.read_text(encoding="utf-8")
        changed = text.replace('f"OR-Tools {', 'f"copied {').replace('version = f"{', 'version = f"copied {')
        assert changed != text
        path.write_text(changed, encoding="utf-8")
    return folder


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="there is no env")
@pytest.mark.parametrize("name", ["cp-sat", *(pytest.param(name, marks=SLOW) for name in ("highs", "scip"))])
def test_a_checkout_that_is_not_installed_runs_its_own_code_from_any_path(copied, home, name):
    in_the_way(home, name)
    graph = copied / "gräph 模.json"
    write_graph(SKIP, graph)
    temporary = copied / "tëmp 1"
    temporary.mkdir()
    command = [sys.executable, "-m", "moccasin_mzn", "solve", graph, "--budget", "8", "--search", "off"]
    command += ["--solver", name, "--json", "--check", "--output", copied / "schedüle.json"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=copied, env=environment, capture_output=True, text=True, encoding="utf-8")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["duration"]) == (0, "optimal", 14), done.stderr
    assert told["solver_version"].startswith("copied ")
    assert list(temporary.iterdir()) == []


def test_plain_minizinc_reads_our_configuration_with_any_path(home):
    folder = home / FOLDER
    folder.mkdir()
    shutil.copytree(LIBRARY, folder / "mznlib")
    command = OWN["cp-sat"].configuration()["executable"]
    start = script(folder / "stårt", "exec " + " ".join(f"'{word}'" for word in command) + ' "$@"')
    content = {**OWN["cp-sat"].configuration(), "executable": str(start), "mznlib": str(folder / "mznlib")}
    path = write_configuration(folder, content)
    model = folder / "mödel.mzn"
    model.write_text('var 1..7: x; constraint x != 6; solve maximize x; output ["x=\\(x)\\n"];')
    done = subprocess.run(["minizinc", "--solver", path, model], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "x=7\n----------\n==========\n"), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
def test_a_path_that_is_not_text_is_written_as_it_is(tmp_path):
    odd = os.fsdecode(b"\xe9t\xe9")
    path = write_configuration(tmp_path, {**OWN["cp-sat"].configuration(), "mznlib": odd})
    assert b'"\xe9t\xe9"' in path.read_bytes()
