"""Continuous floats without bounds, and in sums: exact where steps say all, else rows for HiGHS; against vertices in
fractions, orders of tasks, and HiGHS."""

from __future__ import annotations

import itertools
import re
import subprocess
from fractions import Fraction

import pytest
from few import examples
from fzn_support import COMMAND, ENVIRONMENT, solve
from hypothesis import event, given, settings
from hypothesis import strategies as st
from linear_support import solve as solve_elsewhere

from moccasin_mzn.solvers.cpsat.floats.rows import as_rows
from moccasin_mzn.solvers.flatzinc.parser import parse

F = Fraction
quarters = st.integers(1, 20).map(lambda count: F(count, 4))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(quarters, min_size=1, max_size=3), st.lists(quarters, min_size=3, max_size=3), st.booleans())
def test_a_makespan_without_a_bound(durations, releases, one_machine):
    """The end of all tasks, or of all tasks on one machine, of which the type says nothing."""
    tasks = range(len(durations))
    text = "".join(f"var {float(releases[i])}..100.0: s{i};" for i in tasks) + "var float: z :: output_var;"
    text += "".join(f"constraint float_lin_le([1.0,-1.0],[s{i},z],{-float(durations[i])});" for i in tasks)
    for i, j in itertools.combinations(tasks, 2) if one_machine else ():
        text += f"var bool: b{i}{j};"
        text += f"constraint float_lin_le_imp([1.0,-1.0],[s{i},s{j}],{-float(durations[i])},b{i}{j});"
        text += f"var bool: c{i}{j}; constraint bool_not(b{i}{j},c{i}{j});"
        text += f"constraint float_lin_le_imp([1.0,-1.0],[s{j},s{i}],{-float(durations[j])},c{i}{j});"
    best = min(_end(order, durations, releases, one_machine) for order in itertools.permutations(tasks))
    assert solve(text + "solve minimize z;") == f"z = {float(best)};\n----------\n==========\n"


def _end(order, durations, releases, one_machine) -> Fraction:
    time = end = F(0)
    for task in order:
        time = max(time, releases[task]) + durations[task] if one_machine else releases[task] + durations[task]
        end = max(end, time)
    return end


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz"), st.integers(-12, 12)), max_size=5),
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["<=", ">=", "="]), st.integers(-8, 8)), max_size=4),
    st.sampled_from("xyz"),
    st.sampled_from(["minimize", "maximize"]),
)
def test_what_is_proven_without_bounds_is_what_highs_finds(differences, ends, objective, goal):
    """Three floats, none of which has a bound by its type; what is refused is not wrong."""
    text = "".join(f"var float: {name} :: output_var;" for name in "xyz")
    text += "".join(f"constraint float_lin_le([1.0,-1.0],[{a},{b}],{c / 4});" for a, b, c in differences if a != b)
    for name, relation, side in ends:
        sign = -1 if relation == ">=" else 1
        text += f"constraint float_lin_{'eq' if relation == '=' else 'le'}([{sign}.0],[{name}],{sign * side / 4});"
    text += f"solve {goal} {objective};"
    try:
        found = solve(text)
    except RuntimeError as refused:
        event("refused")
        if "float without bounds" not in str(refused):
            raise
        return
    expected = solve_elsewhere("highs", text)
    assert ("=====" in found) and ("UNSAT" in found) == ("UNSAT" in expected), (found, expected)
    if "UNSAT" not in found:
        values = [float(re.findall(rf"^{objective} = (.*);", out, re.MULTILINE)[-1]) for out in (found, expected)]
        assert found.endswith("==========\n") and values[0] == pytest.approx(values[1], abs=1e-6)


def least(rows: list[tuple[int, int, Fraction]], costs: tuple[int, int]) -> Fraction | None:
    """The least of costs[0] x + costs[1] y at the vertices of a x + b y <= c for all rows, within the box 0..4."""
    box = [(1, 0, F(4)), (0, 1, F(4)), (-1, 0, F(0)), (0, -1, F(0))]
    best = None
    for (a, b, c), (d, e, f) in itertools.combinations([*rows, *box], 2):
        if a * e != b * d:
            x, y = F(c * e - b * f) / (a * e - b * d), F(a * f - c * d) / (a * e - b * d)
            if all(p * x + q * y <= r for p, q, r in [*rows, *box]):
                value = costs[0] * x + costs[1] * y
                best = value if best is None else min(best, value)
    return best


row = st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-6, 12).map(lambda count: F(count, 2)))
LOGIC = {
    "constraint array_bool_or([a,b],true);": lambda a, b: a or b,
    "constraint bool_clause([a],[b]);": lambda a, b: a or not b,
    "constraint bool_not(a,b);": lambda a, b: a != b,
    "constraint bool_eq(a,b); constraint array_bool_or([a],true);": lambda a, b: a and b,
    "constraint array_bool_and([a,b],true);": lambda a, b: a and b,
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(row, max_size=2),
    row,
    row,
    st.sampled_from(sorted(LOGIC)),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
)
def test_rows_and_conditional_rows(always, first, second, logic, costs):
    """x and y in sums, always or if a or b is true: by rows in HiGHS as by vertices for all truths."""
    text = "var 0.0..4.0: x; var 0.0..4.0: y; var bool: a; var bool: b; var -99.0..99.0: z :: output_var;"
    written = [
        (f"constraint float_lin_le{{}}([{p}.0,{q}.0],[x,y],{float(r)}{{}});") for p, q, r in (*always, first, second)
    ]
    text += "".join(each.format("", "") for each in written[:-2])
    text += written[-2].format("_imp", ",a") + written[-1].format("_imp", ",b") + logic
    text += f"constraint float_lin_eq([{costs[0]}.0,{costs[1]}.0,-1.0],[x,y,z],0.0); solve minimize z;"
    rows = as_rows(parse(text))
    assert rows is not None
    bests = []
    for a, b in itertools.product((False, True), repeat=2):
        if LOGIC[logic](a, b):
            bests.append(least([*always, *[first] * a, *[second] * b], costs))
    bests = [best for best in bests if best is not None]
    out = solve_elsewhere("highs", rows)
    if not bests:
        assert "UNSAT" in out
    else:
        assert out.endswith("==========\n")
        assert float(re.findall(r"^z = (.*);", out, re.MULTILINE)[-1]) == pytest.approx(float(min(bests)), abs=1e-5)


SUMS = """
var 0.0..10.0: x :: output_var; var 0.0..10.0: y :: output_var; var float: z;
constraint float_lin_le([2.0,3.0],[x,y],12.5); constraint float_lin_le([1.0,-1.0],[x,y],1.25);
constraint float_lin_eq([1.0,2.0,-1.0],[x,y,z],0.0); solve maximize z;
"""


def test_sums_are_solved_by_highs_with_a_line_on_stderr(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(SUMS)
    ended = subprocess.run([*COMMAND, "-s", "-t", "60000", path], capture_output=True, text=True, env=ENVIRONMENT)
    assert ended.stderr == "% continuous floats in sums: solved by HiGHS, not by CP-SAT\n"
    assert ended.returncode == 0 and "==========\n" in ended.stdout and 'solverVersion="HiGHS' in ended.stdout
    assert float(re.findall(r"^y = (.*);", ended.stdout, re.MULTILINE)[-1]) == pytest.approx(12.5 / 3)


@pytest.mark.parametrize("item", ["constraint float_times(x,y,z);", "constraint float_abs(x,z);"])
def test_continuous_floats_outside_of_rows_are_refused(item, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(SUMS.replace("constraint float_lin_eq([1.0,2.0,-1.0],[x,y,z],0.0);", item))
    ended = subprocess.run([*COMMAND, path], capture_output=True, text=True, env=ENVIRONMENT)
    assert ended.returncode == 1 and ended.stdout == "" and ended.stderr.count("\n") == 1
    assert "unsupported" in ended.stderr or "is not supported" in ended.stderr
