"""HiGHS and SCIP behind the FlatZinc reader, as processes: what they print, when they end, what they refuse."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time

import pytest

ENGINES = ("highs", "scip")
KNAPSACK = """
array [1..3] of int: weight = [5, 4, 3];
var 0..2: a :: output_var;
var 0..2: b :: output_var;
var 0..1: c :: output_var;
var -100..0: total :: output_var;
constraint int_lin_le(weight, [a, b, c], 11);
constraint int_lin_eq([-8, -7, -4, -1], [a, b, c, total], 0);
solve minimize total;
"""
"""The best of 18 combinations is a = 0, b = 2, c = 1."""


def command(engine: str, *arguments) -> list[str]:
    return [sys.executable, "-m", "moccasin_mzn.linear", "--engine", engine, *map(str, arguments)]


def execute(engine: str, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(command(engine, *arguments), capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def file(tmp_path):
    """Writes a FlatZinc file and returns its path."""

    def write(text: str):
        path = tmp_path / "model.fzn"
        path.write_text(text)
        return path

    return write


def market_split(rows: int = 5, columns: int = 40) -> str:
    """A feasible program whose optimum takes far longer than any test: least deviation from half of each row's sum."""
    rng = random.Random(1)
    xs = [f"x{j}" for j in range(columns)]
    lines = [f"var 0..1: {x} :: output_var;" for x in xs]
    deviations = [f"d{i}{sign}" for i in range(rows) for sign in "pm"]
    lines += [f"var 0..100000: {d};" for d in deviations]
    lines.append("var 0..1000000: total :: output_var;")
    for i in range(rows):
        weights = [rng.randint(0, 99) for _ in xs]
        names = [*xs, f"d{i}p", f"d{i}m"]
        lines.append(f"constraint int_lin_eq({[*weights, 1, -1]}, [{', '.join(names)}], {sum(weights) // 2});")
    lines.append(f"constraint int_lin_eq({[1] * 2 * rows + [-1]}, [{', '.join([*deviations, 'total'])}], 0);")
    return "\n".join([*lines, "solve minimize total;"])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_optimum_is_printed_with_its_bound(engine, file):
    ended = execute(engine, "-s", file(KNAPSACK))
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"^(?:a|b|c|total) = .*;$", ended.stdout, re.M)[-4:] == [
        "a = 0;",
        "b = 2;",
        "c = 1;",
        "total = -18;",
    ]
    assert ended.stdout.index("----------") < ended.stdout.index("==========")
    assert re.findall(r"objectiveBound=(-?\d+)", ended.stdout)[-1] == "-18"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("items", "printed"),
    [
        (
            ["var 0..5: x :: output_var", "constraint int_lin_eq([2], [x], 3)", "solve minimize x"],
            "=====UNSATISFIABLE=====",
        ),
        (["var int: x :: output_var", "solve maximize x"], "=====UNBOUNDED====="),
        (
            ["var 3..5: x :: output_var", "constraint int_lin_le([-1], [x], -5)", "solve satisfy"],
            "x = 5;\n----------",
        ),
        (
            ["var 1.5..9.5: x :: output_var", "var 2..9: y", "var float: z", "constraint int2float(y, z)"]
            + ["constraint float_lin_le([-1.0, 1.0], [x, z], 0.0)", "solve minimize x"],
            "x = 2.0;\n----------",
        ),
    ],
)
def test_other_endings(engine, file, items, printed):
    ended = execute(engine, file("".join(f"{item};\n" for item in items)))
    assert ended.returncode == 0, ended.stderr
    assert printed in ended.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_the_time_limit_ends_with_the_best_solution(engine, file):
    begin = time.monotonic()
    ended = execute(engine, "-i", "-s", "-t", 4000, file(market_split()))
    assert ended.returncode == 0, ended.stderr
    assert time.monotonic() - begin < 30
    assert "total = " in ended.stdout and "----------" in ended.stdout and "==========" not in ended.stdout
    objectives = [int(value) for value in re.findall(r"^total = (\d+);", ended.stdout, re.M)]
    assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_signal_ends_with_the_best_solution(engine, file, number):
    arguments = command(engine, "-i", file(market_split()))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "x0 = " in process.stdout.readline()  # it has found something
        process.send_signal(number)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "----------" in rest and "==========" not in rest


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("var 0..3: x;\nconstraint int_times(x, x, x);\nsolve satisfy;", ":2:1: "),
        ("var 0..3: x;\nsolve minimize y;", ""),
        ("var 0..3 x;", ":1:10: "),
        ("var 0..3: x;", "there is no solve item"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_one_line(engine, file, text, complaint):
    ended = execute(engine, file(text))
    assert ended.returncode == 1 and ended.stdout == ""
    assert complaint in ended.stderr and len(ended.stderr.splitlines()) == 1 and "Traceback" not in ended.stderr


def test_a_missing_file_is_told(tmp_path):
    ended = execute("highs", tmp_path / "none.fzn")
    assert ended.returncode == 1 and "none.fzn" in ended.stderr and len(ended.stderr.splitlines()) == 1
