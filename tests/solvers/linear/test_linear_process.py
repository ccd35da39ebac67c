"""The linear backend as a process: signals, time limits, flags, wrong input, and what MiniZinc makes of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from linear_support import COMMAND, ENGINES, ENVIRONMENT, minizinc

from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.linear.configuration import ENGINES as SOLVERS

COUNT, SIDES = 100, 10


def hard_text() -> str:
    """A knapsack of many dimensions: solutions come at once, a proof takes minutes."""
    weights = [
        [((i * 7919 + 13) * (j * 104729 + 7)) % 997 + 20 for j in range(1, COUNT + 1)] for i in range(1, SIDES + 1)
    ]
    values = [sum(row[j] for row in weights) // SIDES + ((j + 1) ** 2 * 31) % 400 for j in range(COUNT)]
    names = ",".join(f"x{j}" for j in range(COUNT))
    lines = [f"var 0..1: x{j};" for j in range(COUNT)]
    lines += [f"constraint int_lin_le({row},[{names}],{sum(row) // 2});" for row in weights]
    lines.append(f"var int: total :: output_var; constraint int_lin_eq({[*values, -1]},[{names},total],0);")
    return "\n".join([*lines, "solve maximize total;", ""])


@pytest.fixture(scope="module")
def hard(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("hard") / "hard.fzn"
    path.write_text(hard_text())
    return path


def start(engine: str, *arguments: object) -> subprocess.Popen:
    command = [*COMMAND, "--engine", engine, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def call(engine: str, *arguments: object) -> tuple[int, str, str]:
    process = start(engine, *arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def call_until(
    enough: Callable[[str], bool], engine: str, *arguments: object, number: int = signal.SIGINT
) -> tuple[int, str, str]:
    """As `call`, ended by a signal once enough is printed, however slow this machine is just now."""
    process, out = start(engine, *arguments), ""
    for line in process.stdout:
        out += line
        if enough(out):
            process.send_signal(number)
            break
    out += process.stdout.read()  # `communicate` would lose what has been read ahead
    err = process.stderr.read()
    return process.wait(timeout=60), out, err


@pytest.mark.few(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_search(hard, engine, number):
    status, out, err = call_until(lambda out: out.count("----------\n") == 2, engine, "-i", "-s", hard, number=number)
    assert (status, err) == (0, "")
    assert "==========" not in out and out.endswith("%%%mzn-stat-end\n")


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_time_limit_ends_the_search(hard, engine):
    status, out, err = call(engine, "-t", "1500", hard)
    assert (status, err) == (0, "")
    assert re.fullmatch(r"total = \d+;\n----------\n", out)


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_improving_solutions_and_bounds_come_as_they_are_found(hard, engine):
    def totals_and_bounds(out: str) -> list[list[int]]:
        return [
            [int(number) for number in re.findall(pattern, out, re.MULTILINE)]
            for pattern in (r"^total = (\d+);$", r"objectiveBound=(\d+)$")
        ]

    def enough(out: str) -> bool:
        totals, bounds = totals_and_bounds(out)
        return len(totals) > 1 and len(set(bounds)) > 1 and out.count("%%%mzn-stat-end") > len(totals) + 1

    status, out, err = call_until(enough, engine, "-i", "-s", "-t", "60000", hard)
    assert (status, err) == (0, "")
    totals, bounds = totals_and_bounds(out)
    assert len(totals) > 1 and totals == sorted(set(totals))
    objectives = [int(value) for value in re.findall(r"objective=(\d+)", out)]
    assert list(dict.fromkeys(objectives)) == totals
    assert len(set(bounds)) > 1 and bounds == sorted(bounds, reverse=True) and bounds[-1] >= totals[-1]
    assert out.count("%%%mzn-stat-end") > len(totals) + 1, "bounds are told while nothing better is found"


@pytest.mark.parametrize("engine", ENGINES)
def test_no_time_at_all(hard, engine):
    assert call(engine, "-t", "1", hard) == (0, "=====UNKNOWN=====\n", "")


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_is_on_stderr(hard, engine):
    status, out, err = call(engine, "-v", "-t", "1000", hard)
    assert status == 0 and out.endswith("----------\n") and out.count("\n") == 2
    assert {"highs": "Solving MIP model", "scip": "presolved problem has"}[engine] in err


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("var 0..9: x :: output_var; constraint int_le(10,x); solve satisfy;", "=====UNSATISFIABLE=====\n"),
        ("var int: x; var int: y; constraint int_lin_eq([2,4],[x,y],3); solve maximize x;",
         "=====UNSATISFIABLE=====\n"),
        ("var int: x :: output_var; solve minimize x;", "=====UNBOUNDED=====\n"),
        ("var int: x; var 0..3: y :: output_var; constraint int_le(y,x); solve maximize x;", "=====UNBOUNDED=====\n"),
        ("var -5.0..5.0: f :: output_var; constraint float_le(1.25,f); solve minimize f;",
         "f = 1.25;\n----------\n==========\n"),
        ("bool: b = true; array [1..3] of var int: xs :: output_array([1..1,0..2]) = [1,n,x]; int: n = 7;"
         "var 2..2: x :: output_var; solve satisfy;", "x = 2;\nxs = array2d(1..1, 0..2, [1, 7, 2]);\n----------\n"),
        ("int: n = 7; solve minimize n;", "----------\n==========\n"),
        ("constraint bool_eq(false,true); solve satisfy;", "=====UNSATISFIABLE=====\n"),
        ("var 4000000000..9007199254740991: x :: output_var; constraint int_lin_le([-1,-1],[x,y],-8000000003);"
         "var 0..4000000000: y :: output_var; solve minimize x;",
         "x = 4000000003;\ny = 4000000000;\n----------\n==========\n"),
    ],
)  # fmt: skip
def test_mip_process_prints_answers(engine, text, expected, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(text)
    status, out, err = call(engine, path)
    assert status == 0
    assert (out, err) == (expected, "")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("constraint int_times(1,2,3); solve satisfy;", ":1:1: unsupported constraint int_times\n"),
        ("var 1..3: x;\n solve maximise x;", ":2:8: satisfy, minimize or maximize expected, found 'maximise'\n"),
        ("var {1,3}: x; solve satisfy;", ":1:1: x: a domain with holes is not supported\n"),
        ("var set of 1..3: x; solve satisfy;", ":1:5: var set is not supported\n"),
        ("array [1..1] of var int: y :: output_array([1..1]) = [z]; solve satisfy;", ":1:1: z is not declared\n"),
        ("", ":1:1: there is no solve item\n"),
    ],
)
def test_wrong_or_unsupported_files(text, message, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(text)
    assert call("highs", path) == (1, "", f"{path}{message}")


def test_a_file_that_is_not_there(tmp_path):
    assert call("scip", tmp_path / "no.fzn") == (1, "", f"{tmp_path / 'no.fzn'}: No such file or directory\n")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("engine", "parameters", "message"),
    [
        ("highs", "no_such_option=1", "error: --params: HiGHS does not understand no_such_option=1\n"),
        ("highs", "threads=many", "error: --params: HiGHS does not understand threads=many\n"),
        ("highs", "mip_rel_gap=-3", "error: --params: HiGHS does not understand mip_rel_gap=-3\n"),
        ("scip", "nonsense", "error: --params: SCIP does not understand 'nonsense': "),
        ("scip", 'int_params{key:"no/such" value:1}', "error: SCIP: "),
    ],
)
def test_parameters_that_the_solver_does_not_know(hard, engine, parameters, message):
    status, out, err = call(engine, "--params", parameters, hard)
    assert (status, out, err.count("\n")) == (1, "", 1) and err.startswith(message)


@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "parameters"),
    [
        ("highs", "mip_max_nodes=1 presolve=off output_flag=false mip_heuristic_effort=0.1"),
        ("scip", 'long_params{key:"limits/nodes" value:1}'),
    ],
)
def test_parameters_reach_the_solver(hard, engine, parameters):
    status, out, err = call(engine, "--params", parameters, hard)
    assert (status, err) == (0, "") and out.endswith("----------\n")


def test_unknown_flags_are_reported(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text("var 1..3: x :: output_var; solve maximize x;")
    status, out, err = call("highs", "--no-such-flag", "3", "-f", "-r", "5", "-p", "1", path)
    assert (status, out, err) == (0, "x = 3;\n----------\n==========\n", "% ignored arguments: --no-such-flag 3\n")
    assert call("cplex", path)[0] == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_minizinc_streams_solutions_and_bounds_of_mip_solvers(engine, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text("""
        int: n = 60; array [1..n] of var bool: b; array [1..n] of int: w = [(i * i * 7919) mod 97 + 3 | i in 1..n];
        constraint forall(k in 1..6)(sum(i in 1..n)((w[i] * k + i * i) mod 101 * b[i]) <= 700);
        solve maximize sum(i in 1..n)((w[i] + 7 * i mod 31) * b[i]); output [show(b)];""")
    flags = ["-i", "-s", "-p", 1, "-r", 7, "-f", "-v", "--json-stream", "--time-limit", 5000]
    told = minizinc("--solver", f"org.moccasin-mzn.{engine}", *flags, path)
    messages = [json.loads(line) for line in told.stdout.splitlines()]
    statistics = [message["statistics"] for message in messages if message["type"] == "statistics"]
    objectives = [block["objective"] for block in statistics if "objective" in block]
    bounds = [block["objectiveBound"] for block in statistics if "objectiveBound" in block]
    assert sum(message["type"] == "solution" for message in messages) == len(set(objectives)) > 1
    assert bounds[-1] >= objectives[-1] and "ignored arguments" not in told.stderr


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_of_a_solution_to_start_from(engine, tmp_path):
    path = tmp_path / "f.fzn"
    chosen = [int(j % 7 == 0) for j in range(COUNT - 3)]  # of the last three variables, nothing is said
    fixed = "".join(f"constraint int_eq(x{j},{value});" for j, value in enumerate(chosen))
    path.write_text(hard_text().replace("solve ", f"{fixed} solve "))
    best = re.search(r"total = \d+;", call(engine, path)[1])[0]
    names = ",".join(f"x{j}" for j in range(COUNT - 3))
    path.write_text(hard_text().replace("solve ", f"solve :: warm_start_int([{names}],{chosen}) "))
    status, out, err = call_until(lambda out: best in out and "Bound" in out, engine, "-i", "-s", "-t", "60000", path)
    assert (status, err) == (0, "") and best in out
    bounds = [int(value) for value in re.findall(r"objectiveBound=(\d+)", out)]
    assert min(bounds) > 41600, "no bound holds for the completions of the start only"


@pytest.mark.parametrize("engine", ENGINES)
def test_mip_configurations_have_only_keys_of_minizinc_2_6(engine, tmp_path):
    path = write_configuration(tmp_path / "new folder", SOLVERS[engine].configuration())
    content = json.loads(path.read_text())
    assert path.name == f"{engine}.msc" and content == SOLVERS[engine].configuration()
    assert "inputType" not in content and content["mznlib"] == "-Glinear"
    assert {"mip", "int", "float", engine} == set(content["tags"])
