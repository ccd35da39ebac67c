"""Floats: against enumeration in fractions, and against HiGHS."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import product
from operator import eq, le, lt, ne

import pytest
from fzn_support import solutions, solve
from linear_support import minizinc

F = Fraction
X, Y = range(4), range(-1, 3)
INTEGERS = """var 0..3: x :: output_var; var -1..2: y :: output_var; var bool: r :: output_var;
var 0.0..3.0: f :: output_var; var float: g :: output_var; var float: h;
constraint float_lin_eq([0.5,-0.1,-1.0],[f,e,g],-0.25); constraint int2float(x,f); constraint int2float(y,e);
var float: e; constraint float_plus(f,g,h);
"""


def g_of(x: int, y: int) -> F:
    return F(x, 2) - F(y, 10) + F(1, 4)


@pytest.mark.parametrize(("name", "compare"), [("eq", eq), ("ne", ne), ("le", le), ("lt", lt)])
@pytest.mark.parametrize("form", ["", "_reif", "_imp"])
@pytest.mark.parametrize(
    ("arguments", "left", "right"),
    [
        ("g,0.85", lambda f, e, g: g, F(17, 20)),
        ("g,f", lambda f, e, g: g - f, 0),
        ("[1.5,-2.0,1.0],[g,f,h],0.3", lambda f, e, g: F(3, 2) * g - 2 * f + g + f, F(3, 10)),
        (
            "[0.3333333333333333,-0.30000000000000004],[f,e],0.6000000000000001",
            lambda f, e, g: f / 3 - e * F(3, 10),
            F(3, 5),
        ),
        ("[0.123456789],[g],0.1049382706", lambda f, e, g: F("0.123456789") * g, F("0.1049382706")),
    ],
)
def test_float_comparisons_are_exact(name, compare, form, arguments, left, right):
    name = f"float_{'lin_' if '[' in arguments else ''}{name}{form}"
    text = f"{INTEGERS} constraint {name}({arguments}{',r' if form else ''}); solve satisfy;"
    expected = set()
    for x, y, r in product(X, Y, (False, True)):
        holds = compare(left(F(x), F(y), g_of(x, y)), right)
        if (holds == r) if form == "_reif" else holds or (form == "_imp" and not r):
            expected.add((x, y, r, float(x), float(g_of(x, y))))
    found = [tuple(solution.values()) for solution in solutions(text)]
    assert sorted(found) == sorted(expected)


FUNCTIONS = {
    "float_max(f,g,k)": lambda f, e, g: max(f, g),
    "float_min(g,e,k)": lambda f, e, g: min(g, e),
    "float_abs(d,k)": lambda f, e, g: abs(g - 1),
    "array_float_maximum(k,[f,0.8,g,e])": lambda f, e, g: max(f, F(4, 5), g, e),
    "array_float_minimum(k,[g,0.8])": lambda f, e, g: min(g, F(4, 5)),
    "array_var_float_element(i,[g,0.75,e,f],k)": lambda f, e, g: [g, F(3, 4), e, f][int(f)],
    "array_float_element(i,[0.1,0.25,1.0,-7.125],k)": lambda f, e, g: [F("0.1"), F("0.25"), F(1), F("-7.125")][int(f)],
    "float_times(g,d,k)": lambda f, e, g: g * (g - 1),
    "float_times(0.3,g,k)": lambda f, e, g: g * F(3, 10),
    "float_div(g,0.4,k)": lambda f, e, g: g / F("0.4"),
    "float_minus(g,e,k)": lambda f, e, g: g - e,
    "float_eq(k,g)": lambda f, e, g: g,
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("constraint", FUNCTIONS)
def test_float_functions_are_exact(constraint, known):
    """Of a float that follows from the constraint, or of one that is an integer."""
    text = INTEGERS + "var float: d; constraint float_plus(d,1.0,g); var 1..4: i; constraint int_plus(x,1,i);"
    text += "var float: k :: output_var; var bool: unused;"
    text += "var -9..9: j; constraint int2float(j,k);" if known else ""
    found = solutions(f"{text} constraint {constraint}; constraint bool_eq(r,true); solve satisfy;")
    values = {(x, y): FUNCTIONS[constraint](F(x), F(y), g_of(x, y)) for x, y in product(X, Y)}
    expected = {at: float(value) for at, value in values.items() if not known or value.denominator == 1}
    assert {(solution["x"], solution["y"]): solution["k"] for solution in found} == expected
    assert len(found) == len(expected)


def test_sets_of_floats():
    text = INTEGERS + "var float: k :: output_var; constraint float_dom(k,[1.25,1.25,0.5,0.5]);"
    text += "constraint float_in(g,0.3,1.3); constraint float_in_reif(h,1.2,2.05,r);"
    text += "constraint float_le(k,g); solve satisfy;"
    expected = {
        (x, y, F("1.2") <= g_of(x, y) + x <= F("2.05"), k)
        for x, y, k in product(X, Y, (0.5, 1.25))
        if F("0.3") <= g_of(x, y) <= F("1.3") and F(k) <= g_of(x, y)
    }
    found = [(each["x"], each["y"], each["r"], each["k"]) for each in solutions(text)]
    assert sorted(found) == sorted(expected)


def test_declared_bounds_hold_and_derived_ones_cut_nothing():
    text = "var 0..9: x :: output_var; var float: f; constraint int2float(x,f); var {}: g; solve maximize x;"
    equation = "constraint float_lin_eq([0.1,-1.0],[f,g],0.0);"
    assert solve(text.format("0.0..0.8999999999999999") + equation).startswith("x = 9;")
    assert solve(text.format("0.0..0.75") + equation).startswith("x = 7;")
    assert solve(text.format("1.0..2.0") + equation) == "=====UNSATISFIABLE=====\n"


def test_float_objective_is_printed_as_a_float():
    text = """var 0..5: i; var float: f; constraint int2float(i,f); var float: z :: output_var;
        array [1..3] of var float: fs :: output_array([1..3]) = [f,1.5,z];
        constraint float_lin_eq([0.1,-1.0],[f,z],-0.25); solve maximize z;"""
    out = solve(text, "-s")
    assert "objective=0.750000\n%%%mzn-stat: objectiveBound=0.750000\n" in out
    assert out.count("z = 0.75;\nfs = array1d(1..3, [5.0, 1.5, 0.75]);\n----------\n==========\n") == 1


def test_an_objective_of_long_fractions():
    rng = random.Random(1)
    costs, sizes = [rng.random() * 10 ** rng.randint(-4, 3) for _ in range(12)], [rng.randint(1, 9) for _ in range(12)]
    names = [f"x{at}" for at in range(12)]
    text = "".join(
        f"var 0..1: {name} :: output_var; var float: f{name}; constraint int2float({name},f{name});" for name in names
    )
    text += f"constraint int_lin_le({sizes},[{','.join(names)}],30); var float: z :: output_var;"
    text += (
        f"constraint float_lin_eq({[*costs, -1.0]},[{','.join('f' + name for name in names)},z],0.0); solve maximize z;"
    )
    best = max(
        sum(cost for cost, one in zip(costs, chosen, strict=True) if one)
        for chosen in product((0, 1), repeat=12)
        if sum(size for size, one in zip(sizes, chosen, strict=True) if one) <= 30
    )
    out = solve(text)
    assert out.endswith("==========\n") and float(re.search(r"z = (.*);", out)[1]) == pytest.approx(best, rel=1e-12)


def test_an_objective_without_bounds():
    text = "var int: x :: output_var; var float: f; constraint int2float(x,f); var float: z;"
    text += "constraint float_lin_eq([0.5,-1.0],[f,z],0.0);"
    assert "==========" not in solve(f"{text} solve minimize z;")
    out = solve(f"{text} constraint int_le(-7,x); solve minimize z;")
    assert out == "x = -7;\n----------\n==========\n"


TASKS = """
array [1..4] of var 0.0..20.0: start; array [1..4] of float: length = [1.5, 2.25, 0.7, 3.1]; var 0.0..20.0: end;
array [1..4] of var 0..9: early; constraint sum(early) >= {a};
constraint forall(i, j in 1..4 where i < j)(start[i] + length[i] <= start[j] \\/ start[j] + length[j] <= start[i]);
constraint forall(i in 1..4)(start[i] + length[i] <= end /\\ start[i] >= 0.1 * early[i]);
constraint max(start) <= 19.9; constraint if early[1] > 2 then start[1] >= {b} endif;
solve minimize end + 0.01 * sum(i in 1..4)(i * start[i]);
"""
BLEND = """
array [1..5] of var 0..4: x; array [1..5] of float: cost = [1.3, 0.7, 2.1, 0.35, 1.0]; var bool: b; var 1..3: k;
var float: total = sum(i in 1..5)(cost[i] * x[i]);
var float: fee = if b then 0.75 elseif k > 1 then {b} / 8 else 0.1 endif;
constraint sum(i in 1..5)((0.2 + 0.15 * i) * x[i]) >= {b} + 0.33 * k; constraint b <-> total <= 5.4;
constraint max(0.4 * x[1], 0.3 * x[2]) <= [0.5, 0.8, 1.3][k]; constraint abs(0.5 * x[3] - 0.7 * x[4]) >= 0.{a};
constraint x[4] - 0.5 * x[5] <= 1.2; solve minimize total + fee - 0.3 * k;
"""
STOCK = """
array [0..4] of var 0.0..12.0: level; array [1..4] of var 0..3: batches; array [1..4] of var bool: on;
constraint level[0] = {b}; constraint forall(t in 1..4)(level[t] <= level[t - 1] + 1.7 * batches[t] - 2.05);
constraint forall(t in 1..4)(batches[t] > 0 -> on[t] /\\ (level[t] <= 9.5 \\/ level[t] <= 11.25 /\\ batches[t] > 1));
constraint level[4] >= 0.{a} + level[1];
solve minimize sum(t in 1..4)(0.4 * level[t] + 1.25 * batches[t] + 2.5 * on[t]);
"""


def optimum(path, solver: str) -> float:
    told = minizinc("--solver", solver, "--output-objective", "--output-mode", "dzn", path)
    assert "==========" in told.stdout, told.stdout + told.stderr
    return float(re.findall(r"^_objective = (.+);$", told.stdout, re.MULTILINE)[-1])


@pytest.mark.few(3)
@pytest.mark.parametrize(("a", "b"), [(6, 2.5), (9, 1.75), (3, 3.125), (8, 4.2)])
@pytest.mark.parametrize("model", [TASKS, BLEND, STOCK], ids=["tasks", "blend", "stock"])
def test_same_optimum_as_highs(model, a, b, tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text(model.format(a=a, b=b))
    assert optimum(path, "cp-sat") == pytest.approx(optimum(path, "org.moccasin-mzn.highs"), rel=1e-6)


CONTINUOUS = "var 0.5..4.0: f :: output_var; var 0.0..4.0: g :: output_var; var 0..3: i :: output_var; var bool: b;"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("constraint float_lt(f,g);", "float_lt of a continuous variable"),
        ("constraint float_ne(f,1.0);", "float_ne of a continuous variable"),
        ("constraint float_lin_le([1.0,1.0],[f,g],3.0);", "float_lin_le of a continuous variable"),
        ("constraint float_lin_le([1.0,-2.0],[f,g],3.0);", "float_lin_le of a continuous variable"),
        ("constraint float_le_reif(f,g,b); constraint bool_eq(b,false);", "float_le_reif of a continuous variable"),
        ("constraint float_le_imp(f,g,b); constraint float_lt_imp(f,g,b);", "float_lt_imp of a continuous variable"),
        ("var float: h; constraint float_abs(f,h);", "float_abs of a continuous variable"),
        ("var float: h; constraint float_le_reif(f,h,b);", "h is a float without bounds that follows from nothing"),
    ],
)
def test_floats_without_exact_steps_are_refused_with_another_solver(items, message):
    with pytest.raises(RuntimeError, match=f"{message}.*; solve with --solver highs or --solver scip"):
        solve(f"{CONTINUOUS} {items} solve satisfy;")


def test_one_direction_of_a_condition_on_continuous_variables():
    """b -> g >= f and c -> f <= 1.3, of which at least one is true."""
    text = CONTINUOUS + "var bool: c; constraint float_lt_reif(g,f,a); constraint float_le_reif(f,1.3,c); var bool: a;"
    text += "constraint bool_clause([b,c],[]); constraint bool_clause([],[a,b]); solve maximize z;"
    text += "var float: z; constraint float_lin_eq([1.0,-1.0,-1.0],[f,g,z],0.0);"
    assert solve(text).startswith("f = 1.3;\ng = 0.0;\n")
    (same,) = re.findall(r"f = (.*);\ng = (.*);\n", solve(text + "constraint bool_eq(b,true);"))
    assert same[0] == same[1]
    assert "float_lt_reif of a continuous variable" in refused(text.replace("[],[a,b]", "[a],[b]"))
    assert "float_le_reif of a continuous variable" in refused(text.replace("[b,c],[]", "[b],[c]"))


def refused(text: str) -> str:
    with pytest.raises(RuntimeError) as error:
        solve(text)
    return str(error.value)


def test_not_all_values_are_solutions():
    text = (
        CONTINUOUS + "constraint float_le(f,0.75); constraint float_eq(g,2.0); constraint int_eq(i,1); solve satisfy;"
    )
    out = solve(text, "-a")
    assert "f = 0.5;\ng = 2.0;\ni = 1;\n----------\n" in out and "==========" not in out
    assert solve(text.replace("0.75", "0.25"), "-a") == "=====UNSATISFIABLE=====\n"


@pytest.mark.parametrize(("ends", "values"), [("1.0,1.0,2.0,2.0", [1, 2]), ("1.2,2.9,2.5,3.5,-9.0,0.0", [0, 2, 3])])
def test_ranges_of_floats_that_touch_or_overlap(ends, values):
    text = f"var 0..4: x :: output_var; var float: f; constraint int2float(x,f); constraint float_dom(f,[{ends}]);"
    assert sorted(each["x"] for each in solutions(f"{text} solve satisfy;")) == values


NESTED = """var bool: a; var bool: c; var bool: d; var bool: both; var bool: on :: output_var;
constraint float_le_reif(f,1.25,a); constraint float_le_reif(3.5,g,c); constraint array_bool_and([a,c],both);
constraint array_bool_or([both,d],any); var bool: any; constraint float_le_reif(g,0.5,d);
constraint bool_clause([any],[on]); var float: z; constraint float_lin_eq([1.0,1.0,-1.0],[g,f,z],0.0);"""


def test_conditions_on_continuous_variables_inside_of_conjunctions():
    """on -> (f <= 1.25 and g >= 3.5) or g <= 0.5"""
    text = CONTINUOUS + NESTED + "solve maximize z;"
    assert solve(text).startswith("f = 4.0;\ng = 4.0;\n")
    text += "constraint bool_eq(on,true);"
    assert solve(text).startswith("f = 1.25;\ng = 4.0;\n")
    assert solve(text.replace("(3.5,g,c)", "(3.5,f,c)")).startswith("f = 4.0;\ng = 0.5;\n")
    assert "float_le_reif of a continuous" in refused(text.replace("[any],[on]", "[],[any,on]"))
    assert "float_le_reif of a continuous" in refused(text.replace("bool_eq(on", "bool_eq(both"))
