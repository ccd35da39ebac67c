"""MiniZinc's levels of optimisation: from -O3 on it first compiles with a library of Gecode's before ours, and lets
Gecode propagate."""

from __future__ import annotations

import pytest
from conformance import CASES, END, Case, Workplace, blocks
from few import few
from fzn_support import minizinc
from golden import OPTIMUM

from moccasin_mzn.solvers.minizinc.solvers import LIBRARY

LEVELS = [*(f"-O{level}" for level in range(6)), "--two-pass", "--use-gecode", "--shave", "--sac"]
WRONG_BY_ITSELF = {
    "booleans: xorall, not",
    "comparison: disequality of arrays, not",
    "optional: equality with a variable that occurs, plain",
    "builtins: set_in, plain",
    "sets: symmetric difference, imp",
    "sets: symmetric difference, not",
    "sets: symmetric difference, reif",
}
"""Of which MiniZinc 2.6.4 has other solutions from -O3 on than before, or itself dies there, whatever the solver."""
NOT_COMPILED = (
    "no reified version is available",  # of a predicate of Gecode's that only globals called by name have
    "Unbounded variable",  # none for Gecode
    "arithmetic operation on infinite value",
    "outside 32-bit int",
)
"""Why MiniZinc 2.6.4 gives up, whatever the solver."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("levels"))


@pytest.mark.parametrize("level", few(LEVELS, keep={"-O0", "-O3", "--two-pass"}))
def test_cp_sat_library_compiles_at_all_levels(level, tmp_path):
    """With every file of it, each global of the library stands beside those of Gecode's."""
    model, flat = tmp_path / "model.mzn", tmp_path / "model.fzn"
    files = ["globals.mzn", *sorted(path.name for path in LIBRARY.glob("*.mzn") if "redefinitions" not in path.name)]
    items = "array [1..3] of var 1..4: x; var bool: r; constraint all_different(x) /\\ x[1] < x[3];"
    items += "constraint r -> lex_less(x, [2, 3, 1]); constraint r <-> all_different([x[1], x[2], 1]);"
    model.write_text("".join(f'include "{name}";' for name in files) + items + "solve satisfy;")
    ended = minizinc("-c", level, "--solver", "cp-sat", model, "--fzn", flat, "--no-output-ozn")
    assert ended.returncode == 0, ended.stderr
    assert "fzn_all_different_int" in flat.read_text()


GLOBALS = [case for case in CASES if case.name not in WRONG_BY_ITSELF]


@pytest.mark.parametrize("case", few(few(GLOBALS, keep=200, mark=pytest.mark.slow), keep=5), ids=lambda case: case.name)
def test_models_have_the_same_solutions(case: Case, workplace: Workplace):
    """At -O3 as at -O1: all solutions, or the optimum, of a model of each global and builtin."""
    flags = [*OPTIMUM] if case.optimises else ["-a"]
    plain = workplace.solve(case, "-O1", *flags).printed
    try:
        printed = workplace.solve(case, "-O3", *flags).printed
    except AssertionError as error:
        if not any(reason in str(error) for reason in NOT_COMPILED):
            raise
        pytest.skip(str(error).splitlines()[0])
    if case.optimises:
        told = [[line for line in each.splitlines() if "_objective" in line] for each in (plain, printed)]
        assert told[0] == told[1] and (END in plain) == (END in printed)
    else:
        assert blocks(printed) == blocks(plain)


LEXICOGRAPHIC = """
include "globals.mzn"; array [1..2] of var 0..1: x; array [1..2] of var 0..1: y; var bool: r; solve satisfy;
"""


@pytest.mark.parametrize("form", few(["r -> ({})", "r <-> ({})", "r xor ({})"], keep=1))
@pytest.mark.parametrize(
    "call",
    ["lex_less(x, y)", "lex_lesseq(x, y)", "value_precede(1, 0, x)", "all_different(x ++ [2])", "x[1] = arg_max(y)"],
)
def test_conditions_on_globals_of_gecodes_library(form, call, workplace):
    """Their reified forms come from our library, with a body."""
    case = Case("", LEXICOGRAPHIC + f"constraint {form.format(call)};", "")
    printed = [workplace.solve(case, level, "-a").printed for level in ("-O1", "-O3")]
    assert blocks(printed[0]) == blocks(printed[1]) and len(blocks(printed[0])) > 3
