"""The solver as a process: signals, time limits, and what MiniZinc makes of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from few import few
from fzn_support import COMMAND, ENVIRONMENT, compile_model, minizinc

from moccasin_mzn.solvers.cpsat.floats.items import KNOWN
from moccasin_mzn.solvers.cpsat.registry import all_handlers
from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT, LIBRARY

HARD = """
include "all_different.mzn";
int: n = 40;
array[1..n] of var 1..200: s;
array[1..n] of var 1..200: e;
var 0..100000: cost;
constraint all_different(s);
constraint forall(i in 1..n)(e[i] >= s[i] + (i * 7) mod 5);
constraint forall(i, j in 1..n where i < j /\\ (i * j) mod 3 != 0)(e[i] < s[j] \\/ e[j] < s[i]);
constraint cost = sum(i in 1..n)((1 + i mod 5) * e[i]);
solve minimize cost;
output ["cost=\\(cost)\\n"];
"""


@pytest.fixture(scope="module")
def hard(tmp_path_factory) -> Path:
    """FlatZinc with quick solutions whose optimum nobody proves in seconds."""
    folder = tmp_path_factory.mktemp("hard")
    compile_model(HARD, folder)
    return folder / "model.fzn"


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("flags", [[], ["-i", "-s"]])
def test_a_signal_ends_the_search_at_once_and_keeps_the_best_solution(hard, number, flags):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*COMMAND, "-v", *flags, hard], **pipes, text=True, env=ENVIRONMENT)
    assert any(line.startswith("#2 ") for line in process.stderr)  # the log tells of the second solution
    process.send_signal(number)
    sent = time.monotonic()
    out, _ = process.communicate(timeout=20)
    assert time.monotonic() - sent < 1.5
    assert process.returncode == 0
    assert re.search(r"^cost = \d+;$", out, re.MULTILINE)
    assert "----------\n" in out and "==========" not in out
    assert (out.count("----------") > 1) == bool(flags)


def test_a_signal_before_the_search():
    process = subprocess.Popen([*COMMAND, "/dev/stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
    time.sleep(0.15)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) in ((0, b"=====UNKNOWN=====\n"), (-signal.SIGTERM, b""))


LOADS = """import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
    for number in range(10**6): pass
except BaseException:
    {what}
def run(options, stop): return 1
"""
EXECUTES = """
from moccasin_mzn.solvers.flatzinc.execution import parse_options
from moccasin_mzn.solvers.flatzinc.execution import execute
raise SystemExit(execute(parse_options(["model.fzn"]), "loads"))
"""


@pytest.mark.parametrize("what", ["pass", "raise ImportError('PyCapsule_Import') from None"])
def test_a_signal_that_is_swallowed_or_changed_while_the_solver_loads(tmp_path, what):
    (tmp_path / "loads.py").write_text(LOADS.format(what=what))
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", EXECUTES], capture_output=True, env=environment)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"=====UNKNOWN=====\n", b"")


@pytest.mark.full
def test_the_time_limit_counts_from_the_start_of_the_process(hard):
    started = time.monotonic()
    result = subprocess.run([*COMMAND, "-t", "3000", hard], capture_output=True, text=True, env=ENVIRONMENT, timeout=20)
    assert 2.5 < time.monotonic() - started < 4
    assert result.returncode == 0
    assert result.stdout.count("----------") == 1 and "==========" not in result.stdout


def test_unknown_flags_and_wrong_input(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text("constraint what(1); solve satisfy;")
    flags = ["--no-such-flag", "3", "-node", "5", "-n3", "-restart", "luby"]
    result = subprocess.run([*COMMAND, *flags, path], capture_output=True, text=True, env=ENVIRONMENT, timeout=20)
    assert result.returncode == 1 and result.stdout == ""
    assert "ignored arguments: --no-such-flag 3 -node 5 -restart luby\n" in result.stderr
    assert f"{path}:1:1: unsupported constraint what\n" in result.stderr


STARTS = """
import sys
from moccasin_mzn.solvers.cpsat.__main__ import main
assert main([sys.argv[1]]) == 0
print(sorted({"pandas", "numpy", "ortools.sat.python.cp_model"} & set(sys.modules)))
"""


def test_a_small_file_loads_no_large_package(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text("var 1..3: x :: output_var; solve maximize x;")
    command = [sys.executable, "-c", STARTS, path]
    run = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=20)
    assert (run.stdout, run.stderr) == ("x = 3;\n----------\n==========\n[]\n", "")


@pytest.mark.full
def test_minizinc_streams_solutions_and_bounds_of_cp_sat(hard):
    result = minizinc("--solver", "cp-sat", "-i", "-s", "--json-stream", "--time-limit", 4000, hard.with_suffix(".mzn"))
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    found = [message for message in messages if message["type"] == "solution"]
    costs = [int(message["output"]["default"].strip().removeprefix("cost=")) for message in found]
    assert costs == sorted(set(costs), reverse=True) and len(costs) > 1
    blocks = [message["statistics"] for message in messages if message["type"] == "statistics"]
    objectives = [block["objective"] for block in blocks if "objective" in block]
    bounds = [block["objectiveBound"] for block in blocks if "objectiveBound" in block]
    assert list(dict.fromkeys(objectives)) == costs
    assert bounds == sorted(bounds) and bounds[-1] <= costs[-1]


@pytest.mark.full
def test_minizinc_passes_all_its_flags(tmp_path):
    model = tmp_path / "m.mzn"
    model.write_text('var 1..3: x; var 1..3: y; constraint x < y; solve maximize x + y; output ["\\(x) \\(y)"];')
    flags = ["-f", "-p", 1, "-r", 7, "-s", "-v", "-i", "-a", "--time-limit", 20000, "--params", "linearization_level:2"]
    result = minizinc("--solver", "org.moccasin-mzn.cp-sat", *flags, model)
    assert result.returncode == 0
    assert "2 3\n----------\n==========\n" in result.stdout
    assert "ignored arguments" not in result.stderr
    assert "linearization_level: 2" in result.stderr and "random_seed: 7" in result.stderr


def test_cp_sat_configuration_has_only_keys_of_minizinc_2_6(tmp_path):
    path = write_configuration(tmp_path / "new folder", CP_SAT.configuration())
    content = json.loads(path.read_text())
    assert path.name == "cp-sat.msc" and content == CP_SAT.configuration()
    assert "inputType" not in content and Path(content["mznlib"]).is_dir()
    assert content["version"].startswith("9.")


ORACLE = {
    "half-reified comparisons": """
        array[1..3] of var 0..3: x; array[1..3] of var bool: b;
        constraint b[1] -> (x[1] < x[2] /\\ x[2] != x[3]);
        constraint b[2] -> (x[1] + 2 * x[2] <= 4 /\\ x[1] - x[3] = 1);
        constraint b[3] -> (x[1] in {0, 2} /\\ x[1] + x[2] != 3);
        constraint sum(b) >= 2; solve satisfy;""",
    "reified comparisons": """
        array[1..3] of var 0..2: x; var 0..4: n;
        constraint n = sum(i, j in 1..3 where i < j)(x[i] <= x[j]) + (x[1] = x[2]) + (x[1] + x[3] = 2);
        constraint (x[1] != x[3]) <-> (x[2] in {0, 2}); solve satisfy;""",
    "booleans": """
        array[1..5] of var bool: b;
        constraint b[1] xor b[2] xor b[3]; constraint forall([b[1], b[4]]) <-> exists([b[2], b[5]]);
        constraint b[3] -> (b[4] xor b[5]); constraint not (b[1] /\\ b[5]) \\/ b[2];
        constraint b[2] -> (b[1] < b[3]); constraint b[5] -> (b[1] = b[4]); solve satisfy;""",
    "arithmetic": """
        var -3..3: x; var -2..2: y; var -9..9: z; var 0..5: m;
        constraint z = x * y; constraint m = abs(x) + max(y, 0) - min([x, y, 0]) * 0;
        constraint max([x, y, z]) <= 4; constraint min([x, y, z]) >= -3; solve satisfy;""",
    "elements": """
        array[0..3] of var 1..3: x; array[1..4] of var bool: b; var -1..5: i; var bool: c;
        constraint x[i] = [2, 3, 1, 2][i + 1]; constraint b[x[0]] = c; constraint [true, false, true][x[1]] -> c;
        constraint x[2] = 1 /\\ x[3] >= x[0]; solve satisfy;""",
    "all different, two-dimensional output": """
        include "all_different.mzn";
        array[0..1, 1..2] of var 1..4: x; var bool: b;
        constraint b -> all_different(array1d(x)); constraint x[0, 1] < x[1, 2]; constraint not b -> x[0, 2] = 4;
        solve satisfy;""",
    "cumulative": """
        include "cumulative.mzn";
        array[1..3] of var 0..3: s; var 0..2: d; var 1..2: r; var 1..3: c;
        constraint cumulative(s, [d, 2, 1], [1, r, 2], c); constraint s[1] <= s[2]; solve satisfy;""",
    "sets": """
        var set of 1..4: S; var set of 2..5: T; var 1..5: x; constraint card(S) = 2 /\\ S intersect T = {3};
        constraint x in T -> x in S; constraint max(T) = 4; solve satisfy;""",
    "optional cumulative": """
        include "cumulative_opt.mzn";
        var opt 0..2: s; var opt 1..3: t; var bool: b;
        constraint cumulative([s, t], [2, 2], [1, 1], 1); constraint b -> occurs(s) /\\ occurs(t);
        solve maximize 3 * b + occurs(s) - (if occurs(t) then deopt(t) else 0 endif);""",
    "knapsack": """
        array[1..8] of var 0..3: x; constraint sum(i in 1..8)((3 + i * 5 mod 7) * x[i]) <= 40;
        constraint forall(i in 1..7)(x[i] > 0 -> x[i + 1] <= 1);
        solve maximize sum(i in 1..8)((2 + i * 3 mod 5) * x[i]);""",
}


def answers(solver: list[str], path: Path) -> set[str] | str:
    """All solutions of a satisfaction problem, or the objective value of an optimisation problem."""
    optimise = "solve satisfy" not in path.read_text()
    output = ["--output-objective"] if optimise else ["-a"]
    result = minizinc(*solver, *output, "--output-mode", "dzn", path)
    assert result.returncode == 0 and "==========" in result.stdout, result.stdout + result.stderr
    if optimise:
        return re.findall(r"^_objective = (.*);$", result.stdout, re.MULTILINE)[-1]
    blocks = result.stdout.split("----------\n")[:-1]
    assert len(set(blocks)) == len(blocks)
    return set(blocks)


@pytest.mark.full
@pytest.mark.parametrize("name", few(ORACLE, keep=2))
def test_same_answers_as_gecode(name, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text(ORACLE[name])
    ours = answers(["--solver", "cp-sat"], path)
    assert len(ours) >= 1
    assert ours == answers(["--solver", "gecode", "-G", "std"], path)


OWN = """
include "fzn_cumulative_intervals.mzn";
include "fzn_reservoir.mzn";
include "fzn_served_read.mzn";
array[1..2] of var bool: active; array[1..2] of var 1..3: first; array[1..2] of var 1..3: last; var bool: r;
constraint fzn_cumulative_intervals(active, first, last, [1, 2], 2);
constraint r -> fzn_cumulative_intervals(active, first, last, [1, 1], 1);
constraint fzn_reservoir(first, [1, -1], active, 0);
constraint r -> fzn_reservoir(last, [-1, 1], active, 0);
array[1..2] of var bool: serves;
constraint fzn_served_read(true, 3, serves, active, first, last);
constraint r -> fzn_served_read(true, 2, serves, active, first, last);
solve satisfy;
"""


def test_own_globals_reach_the_solver_whole(tmp_path):
    text = compile_model(OWN, tmp_path)
    names = re.findall(r"^constraint (\w+)\(", text, re.MULTILINE)
    assert sorted(names) == [
        "fzn_cumulative_intervals",
        "fzn_cumulative_intervals_imp",
        "fzn_reservoir",
        "fzn_reservoir_imp",
        "fzn_served_read",
        "fzn_served_read_imp",
    ]


def test_the_library_declares_only_what_the_solver_knows():
    text = "\n".join(re.sub(r"%.*", "", path.read_text()) for path in LIBRARY.glob("*.mzn"))
    declared = re.findall(r"predicate\s+(\w+)\s*\([^()]*\)\s*(;|=)", text)
    assert len(declared) == text.count("predicate")
    bodyless = {name for name, end in declared if end == ";"}
    assert len(bodyless) > 100 and bodyless <= {*all_handlers(), *KNOWN}
