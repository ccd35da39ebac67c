"""The wheel alone, without the checkout, runs from any folder; the source distribution has what `make` needs."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
def test_the_wheel_runs_from_any_folder(tmp_path):
    wheels, site, elsewhere = tmp_path / "wheels", tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT]
    subprocess.run(pip, check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    assert (site / "moccasin_mzn/py.typed").is_file()
    where = "import moccasin_mzn.formulations as f; print(f.models_folder())"
    environment = {**os.environ, "PYTHONPATH": str(site)}  # before the checkout that is installed for the tests
    folder = subprocess.check_output([sys.executable, "-c", where], cwd=elsewhere, env=environment, text=True)
    assert Path(folder.strip()) == site / "moccasin_mzn" / "models"
    assert {path.relative_to(ROOT / "models") for path in (ROOT / "models").rglob("*.mzn")} == {
        path.relative_to(site / "moccasin_mzn" / "models") for path in (site / "moccasin_mzn" / "models").rglob("*.mzn")
    }
    assert (site / "moccasin_mzn" / "solvers" / "cpsat" / "mznlib" / "redefinitions.mzn").is_file()
    assert (site / "moccasin_mzn" / "deploy" / "c" / "kernels.c").is_file()
    assert [path.read_bytes() for path in site.glob("*.dist-info/licenses/*")] == [(ROOT / "LICENSE").read_bytes()]
    graph = ROOT / "data" / "unet_training.json"
    command = [sys.executable, "-m", "moccasin_mzn", "solve", graph, "--budget", "0.8", "--json"]
    answer = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["status"] == "optimal"
    example = site / "moccasin_mzn" / "data" / "unet_training.json"
    assert example.read_bytes() == graph.read_bytes() and list(example.parent.iterdir()) == [example]
    first = [sys.executable, "-m", "moccasin_mzn", "solve", "--solver", "cp-sat", "--json"]  # as one begins
    answer = subprocess.run(first, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["status"] == "optimal" and f"with the package, {example}," in answer.stderr


@pytest.mark.full
def test_the_flatzinc_solver_is_a_command_of_the_installed_package(tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path, ROOT], check=True, capture_output=True)
    flat = tmp_path / "model.fzn"
    flat.write_text("var 1..3: x :: output_var; constraint int_le(2,x); solve minimize x;")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [tmp_path / "bin" / "fzn-cp-sat", "-s", flat]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "x = 2;\n----------\n==========\n" in answer.stdout
    heavy = "import sys; import moccasin_mzn.solvers.cpsat.process; print({'numpy', 'pandas'} & {*sys.modules})"
    loaded = subprocess.check_output([sys.executable, "-c", heavy], cwd=tmp_path, env=environment, text=True)
    assert loaded == "set()\n"


def test_the_source_distribution_has_what_make_needs(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"Makefile", "pyproject.toml", "scripts/setup.sh", "data/unet_training.json", ".ci/run"} <= names
    assert {".github/workflows/tests.yml", ".pre-commit-config.yaml"} <= names
    assert {"data/paper/LICENSE", "data/paper/README.md", "data/paper/published.csv"} <= names  # of their own licence
    assert {"data/minimalloc/LICENSE", "data/minimalloc/A.1048576.csv"} <= names
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "models/README.md"} <= names
    for folder, kind in (("moccasin_mzn", "py"), ("models", "mzn"), ("tests", "py"), ("docs", "md"), ("data", "svg")):
        there = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(f"*.{kind}")}
        assert there and there <= names
    assert not [name for name in names if name.startswith((".venv", "build/"))]
