"""The linear relaxation by HiGHS."""

from __future__ import annotations

import pytest
from linear_support import worker

KNAPSACK = """var 0..1: x; var 0..1: y; var 0..1: z; var int: total;
    constraint int_lin_le([3,4,5],[x,y,z],7); constraint int_lin_eq([6,6,5,-1],[x,y,z,total],-2);"""


@pytest.mark.parametrize(
    ("text", "status", "objective"),
    [
        (f"{KNAPSACK} solve maximize total;", "optimal", 14),
        (f"{KNAPSACK} solve minimize total;", "optimal", 2),
        (f"{KNAPSACK.replace(',7)', ',6)')} solve maximize total;", "optimal", 2 + 6 + 6 * 3 / 4),
        (f"{KNAPSACK} solve satisfy;", "optimal", 0),
        ("var 0..9: x; constraint int_lin_eq([2],[x],3); solve minimize x;", "optimal", 1.5),
        ("var 0.5..9.0: f; var int: y; constraint float_le(f,g); var float: g; constraint int2float(y,g);"
         "solve minimize y;", "optimal", 0.5),
        ("var 0..3: x; constraint int_le(4,x); solve minimize x;", "infeasible", None),
        ("var int: x; var int: y; constraint int_lin_le([1,-1],[x,y],3); solve maximize x;", "unbounded", None),
        ("var int: x; var 0..1: y; constraint int_lin_le([-1,-1],[y,y],-3); solve maximize x;", "infeasible", None),
        ("int: o = 3; solve minimize o;", "optimal", 3),
        ("constraint int_le(3,2); solve satisfy;", "infeasible", None),
    ],
)  # fmt: skip
def test_relaxation_has_status_and_objective(text, status, objective):
    told, value, values = worker("highs").relax(text)
    assert told == status
    assert value == (None if objective is None else pytest.approx(objective))
    assert (values is None) == (objective is None)


def test_values_are_by_column():
    _, _, values = worker("highs").relax(f"{KNAPSACK} solve maximize total;")
    assert values == pytest.approx([1, 1, 0, 14])


def assignment(size: int) -> str:
    """A dense program with which the simplex method is busy for seconds, but not its presolve."""
    cost = [[(7919 * i * i + 104729 * j * (i + 3)) % 9973 for j in range(size)] for i in range(size)]
    x = [[f"x{i}_{j}" for j in range(size)] for i in range(size)]
    lines = [f"var 0..1: {name};" for row in x for name in row]
    ones = f"[{','.join(['1'] * size)}]"
    lines += [f"constraint int_lin_eq({ones},[{','.join(row)}],1);" for row in x]
    lines += [f"constraint int_lin_eq({ones},[{','.join(column)}],1);" for column in zip(*x, strict=True)]
    flat = [name for row in x for name in row]
    costs = [value for row in cost for value in row]
    lines.append(f"var int: total; constraint int_lin_eq({[*costs, -1]},[{','.join(flat)},total],0);")
    return "\n".join([*lines, "solve minimize total;"])


@pytest.mark.few(1)
@pytest.mark.parametrize("seconds", [0.0, 0.001])
def test_relaxation_keeps_a_time_limit(seconds):
    assert worker("highs").relax(assignment(150), seconds)[0] == "stopped"
