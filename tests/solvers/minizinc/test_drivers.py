"""Several MiniZincs: which one is taken for a solver, what they find, and that nothing of them is left behind.

Only MiniZincs that are installed here take part. Many tests need MiniZinc as WebAssembly, which
`sh scripts/install_solvers.sh` installs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from cases import draw_case, least_duration
from few import few
from others import native, webassembly
from solving import solve
from tiny_graphs import SKIP

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.solvers.minizinc.drivers import (
    HOW_TO_INSTALL,
    bundle_folders,
    native_drivers,
    webassembly_driver,
    webassembly_folder,
)
from moccasin_mzn.solvers.minizinc.run import Limits, _options
from moccasin_mzn.solvers.minizinc.solvers import OWN, find_backend, known_solvers, solver_list

ROOT = Path(__file__).resolve().parents[3]
INSTALLER = ROOT / "scripts" / "install_solvers.sh"
"""The first output is read again at the end."""
OTHERS = ("org.minizinc.mip.highs", "chuffed", "coin-bc", "gecode_presolver")
"""What MiniZinc as WebAssembly brings."""
HARD = """
    array [1..40] of var 1..60: x;
    constraint forall (i, j in 1..40 where i < j) (x[i] != x[j] /\\ x[i] + i != x[j] + j /\\ x[i] - i != x[j] - j);
    solve minimize sum(i in 1..40)((i * 7 mod 11) * x[i]);
"""
"""A first solution comes soon, the last one not within minutes."""


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """14 nodes, on which Chuffed goes wrong when it searches freely from a warm start."""
    path = tmp_path_factory.mktemp("graphs") / "g.json"
    command = [sys.executable, "-m", "moccasin_mzn", "generate", "layered", "-n", "14", "--seed", "3", "-o", path]
    subprocess.run(command, check=True, capture_output=True)
    return read_graph(path)


@pytest.fixture
def hard(tmp_path):
    path = tmp_path / "hard.mzn"
    path.write_text(HARD)
    return path


def folder_of_programs(folder: Path, *names: str) -> Path:
    """A folder for PATH with links to these programs."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return folder


# Which MiniZinc


@pytest.mark.full
@native
@pytest.mark.skipif(sys.platform != "linux", reason="bundles are elsewhere")
def test_bundles_are_found_without_path(monkeypatch, tmp_path):
    executable = tmp_path / "MiniZincIDE-2.6.4-bundle-linux-x86_64" / "bin" / "minizinc"
    executable.parent.mkdir(parents=True)
    executable.symlink_to(Path(shutil.which("minizinc")).resolve())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert executable in [driver.minizinc.executable for driver in native_drivers()]
    result = solve(SKIP, 8, search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 14)


@pytest.mark.skipif(sys.platform != "linux", reason="bundles are elsewhere")
def test_the_newest_bundle_is_preferred(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ["MiniZincIDE-2.9.3-bundle-linux-x86_64", "MiniZincIDE-2.10.0-bundle-linux-x86_64", "minizinc"]
    for name in names:
        (tmp_path / name).mkdir()
    found = [folder.name for folder in bundle_folders() if folder.parent == tmp_path]
    assert found == [names[1], names[0], names[2]]


@native
def test_one_minizinc_under_two_names_is_one(monkeypatch, tmp_path):
    before = [driver.title for driver in native_drivers()]
    (tmp_path / "MiniZinc" / "bin").mkdir(parents=True)
    (tmp_path / "MiniZinc" / "bin" / "minizinc").symlink_to(Path(shutil.which("minizinc")).resolve())
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [driver.title for driver in native_drivers()] == before


@pytest.mark.full
@webassembly
def test_a_native_solver_is_preferred_and_a_version_is_chosen():
    ours, other = find_backend("gecode"), find_backend("gecode_presolver")
    assert re.fullmatch(r"MiniZinc [\d.]+", ours.driver_title)
    assert re.fullmatch(r"MiniZinc [\d.]+ \(WebAssembly\)", other.driver_title)
    for backend in (ours, other):
        again = find_backend(f"gecode@{backend.solver.version}")
        assert (again.driver_title, again.solver_version) == (backend.driver_title, backend.solver_version)
        assert again.solver_version == f"Gecode {backend.solver.version}"
    assert find_backend("gecode@" + other.solver.version.rpartition(".")[0]).solver.id == other.solver.id
    with pytest.raises(InputError, match=r"unknown version 'gecode@5': here is gecode@.* \(MiniZinc .*WebAssembly"):
        find_backend("gecode@5")


@webassembly
def test_a_solver_whose_library_is_there_is_preferred():
    assert find_backend("mip").solver.requiredFlags == []


@pytest.mark.full
@native
def test_each_solver_is_known_once_and_found_by_its_name():
    solvers = solver_list()
    assert len({solver.name for solver in solvers}) == len(solvers)
    assert [solver.name for solver in solvers] == known_solvers()
    for solver in solvers:
        if solver.needs:
            continue
        backend = find_backend(solver.name)
        assert (backend.solver_version, backend.driver_title) == (solver.version, solver.driver)


@native
@pytest.mark.parametrize("name", OWN)
def test_our_own_solvers_report_their_versions(name):
    backend = find_backend(name)
    assert re.fullmatch(r"(OR-Tools|HiGHS|SCIP of OR-Tools) \d+\.\d+\.\d+", backend.solver_version)
    assert find_backend(f"{name}@{backend.solver.version}").is_cp_sat == (name == "cp-sat")
    with pytest.raises(InputError, match=f"unknown version '{name}@1.2.3': here is {name}@{backend.solver.version}"):
        find_backend(f"{name}@1.2.3")


@webassembly
def test_only_webassembly_is_here(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(folder_of_programs(tmp_path / "bin", "node", "dirname", "readlink")))
    if list(bundle_folders_with_minizinc()):
        pytest.skip("a bundle of MiniZinc is installed here")
    assert find_backend("gecode").driver_title.endswith("(WebAssembly)")
    with pytest.raises(InputError) as caught:
        find_backend("cp-sat")
    lacking = f"MiniZinc is not on PATH; {HOW_TO_INSTALL}"
    told = f"MiniZinc as WebAssembly cannot start cp-sat, only solvers of its own: {lacking}"
    assert str(caught.value) == Page.INSTALL.after(told)


def bundle_folders_with_minizinc():
    return (folder for folder in bundle_folders() if shutil.which("minizinc", path=str(folder)))


@webassembly
def test_without_node_there_is_no_webassembly(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(folder_of_programs(tmp_path / "bin", "minizinc")))
    assert webassembly_driver() is None
    assert "chuffed@" not in " ".join(known_solvers())
    assert find_backend("cp-sat").is_cp_sat


@native
def test_list_names_what_could_be_installed(monkeypatch, tmp_path):
    if any(solver.name == "chuffed" and "WebAssembly" not in solver.driver for solver in solver_list()):
        pytest.skip("MiniZinc on PATH has Chuffed")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(
        InputError, match=r"unknown solver 'chuffed', .*; bash .*scripts/install_solvers.sh installs chuffed \(see M"
    ):
        find_backend("chuffed")
    with pytest.raises(InputError, match=r"unknown solver 'nonesuch', MiniZinc knows cp-sat, .*[a-z] \(see M"):
        find_backend("nonesuch")


@native
def test_list_has_versions_and_drivers(command):
    status, out, _ = command("list", "--json")
    told = {solver["name"]: solver for solver in json.loads(out)["solver_versions"]}
    assert status == 0
    assert told["gecode"]["version"].startswith("Gecode 6.")
    assert told["cp-sat"]["driver"].startswith("MiniZinc 2.")
    status, out, _ = command("list")
    assert all(solver["version"].split()[0] in out for solver in told.values())


# What they find


@pytest.mark.full
@webassembly
@pytest.mark.parametrize("name", few(OTHERS, keep=1, mark=pytest.mark.slow))
def test_each_solver_finds_the_optimum(command, tmp_path, name):
    path = tmp_path / "g.json"
    write_graph(SKIP, path)
    arguments = ["solve", path, "--budget", "8", "--search", "off", "--solver", name, "--threads", 2, "--seed", 1]
    status, out, _ = command(*arguments, "--time-limit", 120, "--json")
    told = json.loads(out)
    assert (status, told["status"], told["duration"]) == (0, "optimal", 14)
    assert told["driver"].endswith("(WebAssembly)")
    assert told["solver_version"] == find_backend(name).solver_version


@webassembly
@pytest.mark.slow
@pytest.mark.parametrize(("branching", "least"), [("density", 1), ("from-below", 1), ("by-solver", 4)])
def test_chuffed_is_right_without_a_warm_start(layered, branching, least):
    result = solve(layered, 0.9, solver="chuffed", search="off", time_limit=120, branching=branching)
    assert (result.status, result.duration) == ("optimal", 8222)
    assert len([point for point in result.trace if point.value is not None]) >= least


@pytest.mark.full
@webassembly
def test_chuffed_is_right_with_a_warm_start(layered):
    start = solve(layered, 0.9, search="only", time_limit=1)
    result = solve(layered, 0.9, solver="chuffed", search="off", time_limit=120, warm_start=start.sequence)
    assert (result.status, result.duration) == ("optimal", 8222)


@webassembly
def test_chuffed_searches_freely_only_without_a_warm_start():
    backend = find_backend("chuffed")
    assert _options(backend, Limits(), warm_start=False)["free_search"]
    assert not _options(backend, Limits(), warm_start=True)["free_search"]
    assert _options(find_backend("cp-sat"), Limits(), warm_start=True)["free_search"]


def test_gecode_searches_as_the_model_says():
    assert not _options(find_backend("gecode"), Limits())["free_search"]


@webassembly
@pytest.mark.parametrize("name", OTHERS)
def test_webassembly_gets_no_threads(name):
    assert "processes" not in _options(find_backend(name), Limits(threads=2))
    assert _options(find_backend("gecode"), Limits(threads=2))["processes"] == 2


@webassembly
@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 8, 14, 16])
@pytest.mark.parametrize("name", OTHERS)
def test_solvers_agree_with_brute_force(name, seed):
    case = draw_case(seed)
    options = {"max_computations": case.max_computations, "time_limit": 120}
    result = solve(case.graph, case.budget, solver=name, search="off", **options)
    expected = least_duration(case, "staged")
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    if result.found:
        again = solve(case.graph, case.budget, solver=name, search="off", warm_start=result.sequence, **options)
        assert (again.status, again.duration) == ("optimal", expected)


@native
def test_results_without_minizinc_name_no_driver():
    assert solve(SKIP, 8, search="only", time_limit=5).driver is None
    at_once = solve(SKIP, 100)
    assert (at_once.driver, at_once.solver_version) == (None, None)
    asked = solve(SKIP, 8, time_limit=60).as_dict()
    assert asked["driver"].startswith("MiniZinc 2.") and asked["solver_version"].startswith("OR-Tools 9.")


# How they end


@contextlib.contextmanager
def started(*arguments, **options):
    """MiniZinc as WebAssembly, gone at the end whatever happens."""
    command = [webassembly_folder() / "minizinc", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until_gone(pid: int, seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.full
@webassembly
@pytest.mark.parametrize("number", few([signal.SIGTERM, signal.SIGINT], keep=1, mark=pytest.mark.slow))
def test_webassembly_streams_solutions_and_ends_at_a_signal(hard, number):
    with started("--json-stream", "--solver", "chuffed", "-i", hard) as process:
        kinds = (json.loads(line)["type"] for line in process.stdout)
        assert "solution" in kinds  # reads up to the first one
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(10) == 128 + number


@webassembly
def test_a_time_limit_ends_webassembly_without_a_failure(hard):
    with started("--json-stream", "--solver", "org.minizinc.mip.highs", "--time-limit", 1000, hard) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "OPTIMAL" not in out


@webassembly
def test_webassembly_ends_with_its_parent(hard):
    code = (
        "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:], stdout=2).pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, webassembly_folder() / "minizinc", "--solver", "coin-bc", hard]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(1)
        assert psutil.Process(pid).is_running()
        parent.kill()
        assert wait_until_gone(pid)


@pytest.mark.full
@webassembly
@pytest.mark.parametrize("number", few([signal.SIGINT, signal.SIGTERM], keep=1, mark=pytest.mark.slow))
def test_a_stopped_search_leaves_nothing_behind(tmp_path, number):
    path = tmp_path / "g.json"
    generate = [sys.executable, "-m", "moccasin_mzn", "generate", "layered", "-n", "60", "--seed", "1", "-o", path]
    subprocess.run(generate, check=True, capture_output=True)
    command = [sys.executable, "-m", "moccasin_mzn", "solve", path, "--budget", "0.8", "--search", "off",
               "--solver", "coin-bc", "--json"]  # fmt: skip
    search = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        below = wait_for_minizinc(search)
        (os.killpg if number == signal.SIGINT else os.kill)(search.pid, number)
        out, _ = search.communicate(timeout=30)
        told = json.loads(out)
        assert (told["status"], told["interrupted"]) == ("unknown", True)
        assert all(wait_until_gone(pid) for pid in below)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(search.pid, signal.SIGKILL)


def wait_for_minizinc(search: subprocess.Popen) -> list[int]:
    """The processes below a search, once one of them solves."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(search.pid).children(recursive=True)
            if any("--statistics" in process.cmdline() for process in below):
                return [process.pid for process in below]
        time.sleep(0.05)
    pytest.fail("MiniZinc was not started")


# The installer


def installer(*arguments, **environment):
    return subprocess.run(
        ["sh", INSTALLER, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@webassembly
def test_installing_again_changes_nothing():
    before = {path: path.stat().st_mtime_ns for path in webassembly_folder().rglob("*")}
    answer = installer(PYTHON=sys.executable)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert answer.stderr == f"install_solvers: {webassembly_folder()} is up to date\n"
    assert {path: path.stat().st_mtime_ns for path in webassembly_folder().rglob("*")} == before


@pytest.mark.parametrize(
    ("programs", "arguments", "environment", "message"),
    [
        (("sh", "dirname"), (), {"PYTHON": "/no/such/python"}, "/no/such/python does not run; make sets up .venv"),
        (("sh", "dirname"), (), {}, "Node.js is not on PATH: install it"),
        (("sh", "dirname", "node"), (), {}, "npm is not on PATH: install it"),
        (("sh", "dirname"), ("--nonsense",), {}, "unknown argument --nonsense; there is only --remove"),
    ],
)
def test_missing_programs_are_reported_in_one_line(tmp_path, programs, arguments, environment, message):
    if "node" in programs and shutil.which("node") is None:
        pytest.skip("node is not on PATH")
    path = folder_of_programs(tmp_path / "bin", *programs)
    answer = installer(*arguments, **{"PYTHON": sys.executable, "PATH": str(path), **environment})
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"install_solvers: {message}") and answer.stderr.count("\n") == 1
