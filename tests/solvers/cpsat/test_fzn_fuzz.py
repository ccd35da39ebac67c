"""Random files against direct enumeration, and damaged files against the promise of one line of error."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from random import Random

import pytest
from few import examples
from fzn_generator import Instance, evaluate, instances
from fzn_support import NeverStop, _values, solutions, solve
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from semantics import FUNCTIONS, RELATIONS, meaning

from moccasin_mzn.solvers.cpsat.registry import all_handlers
from moccasin_mzn.solvers.cpsat.run import run
from moccasin_mzn.solvers.flatzinc.execution import parse_options

HANDLERS = all_handlers()

MANY = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
FEW = settings(MANY, derandomize=True)
ALL = [*FUNCTIONS, *RELATIONS]


def test_every_builtin_has_a_meaning():
    builtins = {name for name in HANDLERS if not name.startswith(("fzn_", "native_"))}
    assert not {name for name in builtins if meaning(name) is None}
    assert not {name for name in builtins if meaning(name).kinds != HANDLERS[name].kinds}


def check_solutions(instance: Instance) -> None:
    """The solver prints what enumeration finds, each solution once."""
    note(instance.text)
    expected = {key(instance.printed(names)) for names in instance.solutions()}
    found = [key(solution) for solution in solutions(instance.text, *instance.flags)]
    assert sorted(found) == sorted(expected)


def check_optimum(instance: Instance) -> None:
    """The solver prints the optimum that enumeration finds, with a solution that has it."""
    note(instance.text)
    better = max if instance.maximize else min
    best: dict[str, int] = {}
    for names in instance.solutions():
        printed, value = key(instance.printed(names)), evaluate(instance.objective, names)
        best[printed] = better(value, best.get(printed, value))
    out = solve(instance.text, *instance.flags)
    if best:
        assert out.endswith("----------\n==========\n")
        assert best[key(_values(out.split("----------\n")[0]))] == better(best.values())
    else:
        assert out == "=====UNSATISFIABLE=====\n"


def key(solution: dict[str, object]) -> str:
    """A solution in a form that tells 1 from true."""
    return repr(sorted(solution.items()))


@pytest.mark.few(8)
@pytest.mark.parametrize("name", ALL)
@settings(FEW, max_examples=examples(15))
@given(st.data())
def test_random_flatzinc_solutions_are_those_of_enumeration(name, data):
    check_solutions(data.draw(instances(first=name)))


FOUND = {
    "var -1..1: x :: output_var; var bool: b; constraint int_times_imp(x,x,-3,b); solve satisfy;": [-1, 0, 1],
    "var -3..3: x :: output_var; constraint int_pow(x,-4000000000000000000,x); solve satisfy;": [1],
    "var -70000..70000: x :: output_var; constraint int_pow(x,1000000007,x); solve satisfy;": [-1, 0, 1],
    "var int: x :: output_var; constraint int_lt(0,x); constraint set_in(x,0..0); solve satisfy;": [],
    "var 0..1: x :: output_var; constraint int_mod(x,x,x); solve :: warm_start([x],[0]) satisfy;": [],
    "var 0..2: x :: output_var; var 1..1: y; var bool: b; constraint int_mod_imp(x,y,x,b);"
    "solve :: warm_start([x,y],[0,0]) satisfy;": [0, 1, 2],
}


@pytest.mark.parametrize("text", FOUND)
def test_flatzinc_regressions_stay_fixed(text):
    assert sorted(solution["x"] for solution in solutions(text)) == FOUND[text]


@settings(FEW, max_examples=examples(150))
@given(instances(optimise=True))
def test_random_flatzinc_optimum_is_that_of_enumeration(instance):
    check_optimum(instance)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@settings(MANY, max_examples=200)
@given(st.data())
def test_random_flatzinc_solutions_are_those_of_enumeration_many_seeds(name, data):
    check_solutions(data.draw(instances(first=name)))


@pytest.mark.slow
@settings(MANY, max_examples=2000)
@given(instances(optimise=True))
def test_random_flatzinc_optimum_is_that_of_enumeration_many_seeds(instance):
    check_optimum(instance)


SEED = r"""% damaged below; "quotes" in a comment
predicate own(array [int] of var int: a, set of int: s, var bool: b);
int: n = 3; bool: t = true; float: f = 1.5e3; set of int: s = {1,3,4}; set of int: none = 1..0;
array [1..3] of int: c = [1,-2,0x1F]; array [1..2] of set of int: ss = [{1,3},2..4];
array [1..2] of bool: tf = [true,false];
var bool: b ::var_is_introduced :: is_defined_var;
var bool: d ::mine("a \"q\" ; %", [1,{2}], f(1..2)) = false;
var 0..5: x :: output_var; var {1,3,4}: y:: output_var = 3; var -3..2: z; var int: u; var 0..1: k;
array [1..3] of var int: xs :: output_array([0..2]) = [x,3,y];
array [1..2] of var bool: bs :: output_array([1..1,1..2]) = [b,true];
constraint int_lin_le(c,[x,y,2],60):: domain;
constraint int_lin_eq([1,-1],[x,u],0)::defines_var(u);
constraint bool2int(b,k); constraint bool_not(b,d); constraint array_bool_or([b,d,t],true);
constraint set_in_reif(x,s,b); constraint int_times(x,z,x); constraint int_div(x,2,k); constraint int_pow(u,n,27);
constraint int_mod(x,n,0); constraint bool_clause([b],[d,false]); constraint bool_clause_reif([b],[],b);
constraint array_var_int_element(z,xs,u); constraint int_le_imp(n,x,b); constraint int_max(x,y,u);
constraint array_int_maximum(u,xs); constraint array_bool_element(k,tf,b); constraint bool_lin_eq([1,2],bs,x);
constraint fzn_all_different_int([x,z]); constraint fzn_cumulative(xs,[1,2,n],[1,2,1],4);
constraint fzn_cumulative_intervals([b,d],[x,x],[y,y],[1,1],2); constraint fzn_reservoir(xs,c,[b,d,b],-9);
solve :: seq_search([int_search(xs,first_fail,indomain_min,complete),bool_search(bs,input_order,indomain_max)])
  :: warm_start([x,y],[2,3]) :: restart_geometric(1.5,100) minimize x;
"""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|-?\d+(?:\.\d+)?|\.\.|::|\s+|.', re.DOTALL)
OTHERS = r"""[ ] ( ) { } , ; : :: = .. true false 0 -1 1.5 1e5 0x7f "s" x b xs nosuch 9223372036854775807 [1..2] []
    -9223372036854775808 99999999999999999999 4611686018427387904 1000000007 1..0 {1.5} 1.0..2.0 array of var int bool
    float set constraint solve predicate satisfy maximize int_search(x,[y],z) % \ " '"""
NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "-3",
    "9223372036854775807",
    "4611686018427387903",
    "-4611686018427387904",
    "1000000007",
]
INSERTED = [*OTHERS.split(), "\u00e9", "\0", "\udcff"]


def damage(text: str, random: Random) -> str:
    """A text with some tokens or characters deleted, inserted, replaced or swapped, or cut off."""
    parts = TOKEN.findall(text) if random.random() < 0.8 else list(text)
    if random.random() < 0.1:
        del parts[random.randrange(len(parts)) :]
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        first, second = sorted(random.randrange(len(parts) + 1) for _ in range(2))
        change = random.randrange(8)
        words = [index for index, part in enumerate(parts) if re.fullmatch(r"-?\w+", part)]
        if change == 0:
            del parts[first : first + random.choice((1, 1, 1, 3, 10))]
        elif change == 1:
            parts.insert(first, random.choice(INSERTED + parts))
        elif change == 2 and parts:
            parts[first : first + 1] = [random.choice(INSERTED + parts)]
        elif change > 3 and words:
            parts[random.choice(words)] = random.choice([*NUMBERS, *(parts[index] for index in words)])
        else:
            parts[first:second] = reversed(parts[first : min(second, first + 3)])
    return "".join(parts)


def check_outcome(text: str, path: Path) -> None:
    """The solver either solves the text or refuses it in one line that starts with the place."""
    path.write_bytes(text.encode(errors="surrogateescape"))
    flags = ["-p", "1", "--params", "max_time_in_seconds:0.3", str(path)]
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = run(parse_options(flags), NeverStop())
    complaints = [line for line in errors.getvalue().splitlines() if not line.startswith("% ")]
    if status == 0:
        assert not complaints and re.search(r"^(----------|==========|=====[A-Z]+=====)$", out.getvalue(), re.MULTILINE)
    else:
        assert out.getvalue() == "" and len(complaints) == 1
        place = re.fullmatch(rf"{re.escape(str(path))}:(\d+):(\d+): .+", complaints[0])
        assert place and int(place[1]) <= text.count("\n") + 1, complaints


@pytest.mark.full
def test_damaged_files(tmp_path):
    assert "x = 3;\n" in solve(SEED)
    for seed in range(500):
        check_outcome(damage(SEED, Random(seed)), tmp_path / "f.fzn")


@pytest.mark.slow
@settings(MANY, max_examples=3000)
@given(instances(), st.randoms(use_true_random=True))
def test_many_damaged_files(tmp_path, instance, random):
    for text in (SEED, instance.text):
        check_outcome(damage(text, random), tmp_path / "f.fzn")


VALUES = {
    "Int": ["x", "x", "y", "z", "1", "0", "-2", "3", "x", "9223372036854775807", "-4611686018427387904", "1000000007"],
    "Bool": ["a", "b", "b", "true", "false"],
    "Par": ["1", "2", "3", "0", "-1", "n", "9223372036854775807", "-9223372036854775808", "2000000011"],
    "Set": ["1..3", "{}", "{-1,2,5}", "s", "-9223372036854775808..9223372036854775807", "{0,4611686018427387904}"],
}


def careless_call(name: str, random: Random) -> str:
    """A constraint whose arguments have the right types, but often the wrong lengths and absurd values."""

    def value(kind: str) -> str:
        common = VALUES[kind][: random.choice((3, 6, 99))]
        return random.choice(common)

    length, arguments = random.randrange(5), []
    for kind in HANDLERS[name].kinds:
        if kind in VALUES:
            arguments.append(value(kind))
        else:
            size = random.choice((length, length, length, length * length, random.randrange(7)))
            arguments.append(f"[{','.join(value(kind[:-1]) for _ in range(size))}]")
    return f"constraint {name}({','.join(arguments)});\n"


def check_careless_calls(name: str, seeds: range, path: Path) -> None:
    for seed in seeds:
        text = """int: n = 4; set of int: s = {1,4}; var bool: a; var bool: b :: output_var;
            var -2..4: x :: output_var; var {1,3,7}: y; var 0..2000000000: z;\n"""
        check_outcome(text + careless_call(name, Random(f"{name}{seed}")) + "solve satisfy;", path)


@pytest.mark.few(60)
@pytest.mark.parametrize("name", HANDLERS)
def test_careless_calls(name, tmp_path):
    check_careless_calls(name, range(3), tmp_path / "f.fzn")


@pytest.mark.slow
@pytest.mark.parametrize("name", HANDLERS)
def test_many_careless_calls(name, tmp_path):
    check_careless_calls(name, range(3, 100), tmp_path / "f.fzn")
