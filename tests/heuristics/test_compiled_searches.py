"""Compiling the searches: said once, kept, before any clock, and once for all processes of a run."""

import json
import logging
import os
import subprocess
import sys

import pytest
from bench_support import until

from moccasin_mzn.base import log
from moccasin_mzn.heuristics import compiled_searches
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch

FIRST = "compiling the costs of evictions, once after an installation; `moccasin-mzn compile` does it beforehand"
NOT_KEPT = (
    "no folder for what is compiled can be written to, so every run compiles: "
    "set NUMBA_CACHE_DIR to a folder that can be"
)
DTR = ["-m", "moccasin_mzn", "solve", "skip.json", "--budget", "8", "--strategy", "dtr", "--json"]
NODES = [("x", 5, 2), ("a", 1, 1), ("b", 1, 7), ("c", 1, 1), ("z", 1, 1)]
SKIP = {
    "format": "moccasin-graph",
    "version": 1,
    "nodes": [{"id": node, "duration": duration, "size": size} for node, duration, size in NODES],
    "edges": [{"source": u, "target": v} for u, v in ("xa", "xz", "ab", "bc", "cz")],
}


@pytest.fixture
def python(tmp_path):
    """Runs Python in a folder with a graph, with an empty cache; gives exit status, stdout and the lines of stderr."""
    (tmp_path / "skip.json").write_text(json.dumps(SKIP))
    (tmp_path / "tmp").mkdir()

    def call(*words, **environment):
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp"), **environment}
        answer = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True
        )
        return answer.returncode, answer.stdout, answer.stderr.splitlines()

    return call


@pytest.mark.full
def test_compilation_is_announced_once(python):
    status, out, err = python(*DTR)
    assert status == 0 and json.loads(out)["valid"] and FIRST in err
    assert FIRST not in python(*DTR)[2]


@pytest.mark.full
def test_compilation_time_is_neither_reported_nor_limited(python):
    code = """
import time
from moccasin_mzn.heuristics.compiled_searches import ready, seconds_spent
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.strategies import find_strategy
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.call import Call
instance = Instance.build(read_graph("skip.json"), 8)
begin = time.monotonic()
told = apply(instance, find_strategy("dtr"), call=Call(begin=begin)).seconds.total
all_of_it, compiling = time.monotonic() - begin, seconds_spent()
assert 0 < compiling < all_of_it and told <= all_of_it - compiling, (told, compiling, all_of_it)
from moccasin_mzn.strategies.dtr import EVICTIONS
assert ready(EVICTIONS) == 0
"""
    status, _, err = python("-c", code)
    assert status == 0, err


@pytest.mark.full
def test_everything_is_compiled_beforehand():
    """A search after `ready` finds all its compiled functions there, for all the types that it calls them with."""
    code = """
import sys
from moccasin_mzn.machine.addresses.allocate import allocate_buffers
from moccasin_mzn.problem.arena import Buffer
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.cli.install import searches
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.formulations.searched import PlanProblem
from moccasin_mzn.search.options import Effort, SearchOptions
from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn import solve
from moccasin_mzn.strategies import find_strategy
from moccasin_mzn.search.apply_strategy import apply

def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("moccasin_mzn")]
    made = {f for module in modules for f in vars(module).values() if hasattr(f, "nopython_signatures")}
    return {str(f.py_func): len(f.signatures) for f in made}

ready(*searches())
before = compiled()
assert len(before) > 80 and sum(before.values()) > 10
graph = random_layered(40, 1)
limits = {"time_limit": 1.5, "search": "only"}
assert solve(graph, 0.85, **limits).valid and solve(graph, 0.85, order="free", **limits).valid
instance = Instance.build(graph, 0.85)
warm = solve(graph, 0.85, time_limit=0.5, search="only").positions
assert solve(graph, 0.85, warm_start=warm, time_limit=0.5, search="only").valid
problem = PlanProblem(instance, paging_platform(graph, instance.budget, PagingCosts()))
assert solve_problem(problem, PagingFormulation(), SearchOptions(time_limit=1.5, search="only")).found
for name in ("dtr", "dtr-eq", "dtr-local"):
    apply(instance, find_strategy(name))
least_peak_order(graph, time_limit=1)
lives = [(11 * at % 40, 11 * at % 40 + 3 + 7 * at % 17, 1 + 29 * at % 23) for at in range(60)]
allocate_buffers([Buffer(str(at), *life) for at, life in enumerate(lives)], effort=Effort(1))
assert compiled() == before, {f: n for f, n in compiled().items() if before.get(f) != n}
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-3000:]


SOLVE = ["-m", "moccasin_mzn", "solve", "skip.json", "--budget", "8", "--json"]
BACKGROUND = "compiling searches in the background, once after an installation"


@pytest.mark.full
def test_the_first_solve_waits_for_no_compiling(python, tmp_path):
    """The model and the bounds begin at once; a process goes on compiling, and once it is done, searches are loaded."""
    status, out, err = python(*SOLVE, "--if-none", "stop")
    answer = json.loads(out)
    assert status == 0 and answer["status"] == "optimal" and answer["found_by"] != "local search"
    assert [line for line in err if line.startswith(BACKGROUND)] and not list((tmp_path / "cache").glob("*.kept"))
    assert until(lambda: list((tmp_path / "cache").glob("*.staged.search.*.kept")))
    status, _, err = python(*SOLVE)
    assert status == 0 and not [line for line in err if line.startswith(BACKGROUND)]


@pytest.mark.full
@pytest.mark.parametrize("alone", [["--search", "only"], ["--paging", "--page-out-time", "1", "--order", "free"]])
def test_where_there_is_only_our_search_it_is_compiled_before_the_clock(python, alone):
    """Plans in any order have the models only inside a search for orders."""
    status, out, err = python(*SOLVE, *alone, "--time-limit", "20")
    answer = json.loads(out)
    assert status == 0 and answer["valid"] and answer["seconds"]["total"] < 20
    assert any(line.startswith("compiling the ") and ", once" in line for line in err)
    assert not any(line.startswith(BACKGROUND) for line in err)


def test_what_is_kept_is_known_by_what_it_depends_on(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    search = CompiledSearch("search", "some.module")
    compiled_searches._note_kept(search)
    assert compiled_searches.is_kept(search) and not compiled_searches.is_kept(CompiledSearch("another", "module"))
    monkeypatch.setattr(compiled_searches, "_state", lambda: "of another processor")
    assert not compiled_searches.is_kept(search)
    compiled_searches._note_kept(search)
    assert [path.name for path in tmp_path.glob("*.kept")] == ["some.module.of another processor.kept"]


def test_a_search_that_cannot_be_compiled_is_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    search = CompiledSearch("search for nothing", "moccasin_mzn.no_such_module")
    assert not compiled_searches.join(lambda: False, lambda: 100.0, search)
    assert "note: compiling the search for nothing failed, so that it is left out" in caplog.text


def test_while_another_process_compiles_none_is_begun(tmp_path, monkeypatch, caplog):
    """With the lock taken it waits, and says so; with the lock free and nothing kept it begins one itself."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(log, "_noted", set())
    monkeypatch.setattr(compiled_searches, "_processes", {})
    caplog.set_level(logging.INFO, "moccasin_mzn")
    search = CompiledSearch("search for less than nothing", "moccasin_mzn.no_other_module")
    with open(tmp_path / "compiling.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not compiled_searches.join(compiled_searches.later(3), lambda: 100.0, search)
    assert not compiled_searches._processes and caplog.messages == [compiled_searches.ELSEWHERE]
    assert not compiled_searches.join(lambda: False, lambda: 100.0, search)
    assert list(compiled_searches._processes) == [(search,)]
    assert caplog.messages[1:] == [
        compiled_searches.IN_BACKGROUND, compiled_searches.NOT_COMPILED.format("search for less than nothing")
    ]  # fmt: skip


@pytest.mark.full
def test_info_waits_for_no_compiling(python):
    """It prints the bound that needs no compiled search, and says so; the process that it begins is the only one."""
    say = "a better bound on the peak of all orders is not sought: the search for orders is still being compiled"
    status, out, err = python("-m", "moccasin_mzn", "info", "skip.json", "--json")
    assert status == 0 and json.loads(out)["order_peak_bound"] == 8
    assert len(err) == 2 and err[0].startswith(BACKGROUND) and err[1] == say
    assert python("-m", "moccasin_mzn", "info", "skip.json")[2] == [compiled_searches.ELSEWHERE, say]


def test_a_short_limit_loads_no_compiled_code(python):
    code = """
import sys
from moccasin_mzn.cli.main import run
status = run(["solve", "skip.json", "--budget", "8", "--time-limit", "0.1", "--solver", "gecode"])
print(status, *sys.modules)
"""
    out = python("-c", code, NUMBA_CACHE_DIR="")[1]
    status, *modules = out.splitlines()[-1].split()
    assert status in "01" and "moccasin_mzn.search.runner" in modules and not {"numba", "networkx"} & set(modules)


NOWHERE = {
    "NUMBA_CACHE_DIR": "",
    "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator,UserWideCacheLocator",
    "XDG_CACHE_HOME": "/proc/nowhere",
}
"""As where the package is installed read-only, for a user without a folder of their own."""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.full
def test_where_nothing_can_be_kept(python, tmp_path):
    status, out, err = python(*DTR, **NOWHERE)
    assert status == 0 and json.loads(out)["valid"] and err.count(f"note: {NOT_KEPT}") == 1 and FIRST not in err
    assert os.listdir(tmp_path / "tmp") == []
    assert python("-m", "moccasin_mzn", "compile", **NOWHERE) == (2, "", [f"error: {NOT_KEPT}"])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.full
def test_where_nothing_can_be_kept_a_run_compiles_once(python):
    code = """
import logging, subprocess, sys
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.strategies.dtr import EVICTIONS
logging.basicConfig(format="%(message)s")
assert ready(EVICTIONS) > 0
again = "from moccasin_mzn.heuristics.compiled_searches import ready; from moccasin_mzn.strategies.dtr import EVICTIONS"
again += "; assert ready(EVICTIONS) == 0"
sys.exit(subprocess.run([sys.executable, "-c", again]).returncode)
"""
    status, _, err = python("-c", code, **NOWHERE)
    assert status == 0 and err == [f"note: {NOT_KEPT}"]


@pytest.mark.slow
def test_the_command_compiles_all_that_is_needed(python):
    status, out, _ = python("-m", "moccasin_mzn", "compile")
    assert status == 0 and out.count(": compiled in ") == 7
    status, out, err = python("-m", "moccasin_mzn", "compile")
    assert (status, out.count(": was compiled already"), err) == (0, 7, [])
    for words in ("solve skip.json --budget 8 --order free", "order skip.json", "solve skip.json --budget 8 --paging"):
        assert not [line for line in python("-m", "moccasin_mzn", *words.split())[2] if "compiling" in line]


INTERRUPTED = """
import os, signal
from numba.core.codegen import CPUCodeLibrary
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.strategies.dtr import EVICTIONS

def looked_up(module, usual=CPUCodeLibrary._object_getbuffer_hook):
    if not sent:
        sent.append(os.kill(os.getpid(), signal.SIGINT))
    return usual(module)

sent = []
CPUCodeLibrary._object_getbuffer_hook = looked_up
try:
    ready(EVICTIONS)
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_while_llvm_calls_back_is_not_lost(python):
    status, out, err = python("-c", INTERRUPTED)
    assert (status, out) == (0, "interrupted True\n") and not [line for line in err if "gnored" in line]
