"""Division, remainder and power against their definitions in Python, over all assignments of small domains."""

from __future__ import annotations

import pytest
from fzn_support import check_against, flatzinc, solutions

from moccasin_mzn.solvers.cpsat.constraints import arithmetic

X = ["-4..4", "2..5", "{-3,0,7}"]
Y = ["-3..3", "0..2", "-2..0", "1..3", "-2..-1", "0..0"]
Z = {"z": "-5..5"}


def quotient(x: int, y: int) -> int | None:
    """Rounded towards zero, None if undefined."""
    return None if y == 0 else (x // y if (x < 0) == (y < 0) else -(-x // y))


def remainder(x: int, y: int) -> int | None:
    return None if y == 0 else x - y * quotient(x, y)


def power(x: int, y: int) -> int | None:
    return x**y if y >= 0 else quotient(1, x**-y)


FUNCTIONS = {"int_div": quotient, "int_mod": remainder, "int_pow": power}


def check(name: str, declarations: dict[str, str], x: str = "x", y: str = "y") -> None:
    """The plain and the half-reified form; `x` and `y` may be constants."""
    value = FUNCTIONS[name]

    def holds(z: int, **operands: int) -> bool:
        return z == value(operands["x"] if x == "x" else int(x), operands["y"] if y == "y" else int(y))

    half_reified = declarations | {"r": "bool"}
    check_against(f"{name}({x},{y},z)", declarations, holds)
    check_against(f"{name}_imp({x},{y},z,r)", half_reified, lambda r, **rest: not r or holds(**rest))


@pytest.mark.few(19)
@pytest.mark.parametrize("y", Y)
@pytest.mark.parametrize("x", X)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arithmetic_of_two_variables(name, x, y):
    check(name, {"x": x, "y": y} | Z)


@pytest.mark.few(16)
@pytest.mark.parametrize("constant", ["-2", "-1", "0", "1", "2", "3"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arithmetic_with_a_constant(name, constant):
    check(name, {"x": "-4..4"} | Z, y=constant)
    check(name, {"y": "-3..3"} | Z, x=constant)


@pytest.mark.parametrize("y", ["0..3", "-2..1"])
@pytest.mark.parametrize("x", X)
def test_powers_of_large_domains_are_products(x, y, monkeypatch):
    monkeypatch.setattr(arithmetic, "SMALL_TABLE", 0)
    check("int_pow", {"x": x, "y": y} | Z)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("int_div(x,1000000007,z)", [(5_000_000_035, 5)]),
        ("int_mod(x,4000000000,z)", [(5_000_000_035, 1_000_000_035)]),
        ("int_pow(2,x,z)", []),
        ("int_times(x,-1,z)", []),
    ],
)
def test_numbers_past_32_bits(constraint, expected):
    text = flatzinc(constraint, {"x": "{5000000035}", "z": "-2000000000..2000000000"})
    assert [tuple(solution.values()) for solution in solutions(text)] == expected
