"""Small MiniZinc models, from source to output, against Gecode on the decompositions of the standard library.

Gecode's answers are kept (tests/support/golden.py): by default our solver is held against those, on the FlatZinc kept
beside them, and a few models go through MiniZinc and Gecode anew. The full run takes all of them through both.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conformance import CASES, END, Case, Workplace, blocks
from few import few
from fzn_support import minizinc, solve
from golden import OPTIMUM, ORIGIN, all_answer, check_best, derive, minizinc_version, read_golden, sources

from moccasin_mzn.solvers.cpsat.registry import all_handlers

HANDLERS = all_handlers()

WHOLE = {
    "arithmetic: div, signs of both, plain",
    "domains: unbounded objective",
    "extension: table, imp",
    "graphs: circuit, a shortest tour",
    "language: output of arrays, empty and three-dimensional",
    "language: output item",
    "optional: weighted choice, optimised",
    "search: warm_start inside of seq_search",
    "search: seq_search, nested",
    "sets: partition_set, reif",
    "sets: set_search, other choices, nested",
}
"""The models that also go through a solver process of their own."""

NEVER_WRITTEN = {
    "made total by MiniZinc, which has no half-reified form of it": """
        array_bool_element_imp array_int_element_imp array_var_bool_element_imp array_var_int_element_imp
        array_var_bool_element_from_imp array_var_int_element_from_imp int_abs_imp int_div_imp int_max_imp int_min_imp
        int_mod_imp int_plus_imp int_pow_imp int_times_imp array_bool_xor_imp""",
    "not asked for by the library, which has no redefinitions-2.2.1.mzn": "int_pow_fixed int_pow_fixed_imp",
    "another name of bool_not": "bool_ne bool_ne_imp bool_ne_reif bool_not_reif",
    "not declared by the library, since MiniZinc also writes them where they are wrong": """
        int_eq_imp int_ne_imp int_le_imp int_lt_imp int_lin_eq_imp int_lin_ne_imp int_lin_le_imp set_in_imp bool_eq_imp
        bool_le_imp bool_lt_imp bool_xor_imp bool_clause_imp""",
}
"""Why MiniZinc 2.6.4 writes no model with these constraints; they are tested as FlatZinc elsewhere."""


GOLDEN = read_golden()
SATISFIED = [case.name for case in CASES if not case.optimises and GOLDEN[case.name].flatzinc]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("conformance"))


@pytest.mark.few(120)
@pytest.mark.parametrize("name", SATISFIED)
def test_conformance_models_have_the_kept_solutions(name: str):
    """Of the FlatZinc that is kept, those are found that Gecode's answer was made of."""
    golden = GOLDEN[name]
    assert all_answer(solve(golden.flatzinc, "-a")) == golden.answer


@pytest.mark.few(11)
@pytest.mark.parametrize("case", [case for case in CASES if case.optimises], ids=lambda case: case.name)
def test_conformance_models_have_the_kept_optima(case: Case, workplace: Workplace):
    check_best(workplace.solve(case, *OPTIMUM).printed, GOLDEN[case.name].answer)


@pytest.mark.few(4)
@pytest.mark.parametrize("case", few(few(CASES, keep=200, mark=pytest.mark.slow), keep=30), ids=lambda case: case.name)
def test_conformance_models_agree_with_gecode(case: Case, workplace: Workplace):
    """Compiled and solved anew, and by Gecode: all three agree, and with what is kept."""
    answer, flatzinc = derive(case, workplace)
    if ORIGIN.read_text().split()[0] == minizinc_version():  # another one writes other FlatZinc
        kept = GOLDEN[case.name]
        assert answer == kept.answer and bool(flatzinc) == bool(kept.flatzinc)  # names differ from run to run


def test_what_is_kept_belongs_to_the_models_and_our_library():
    """Otherwise it has to be derived anew: `make golden`."""
    assert GOLDEN.keys() == {case.name for case in CASES} and ORIGIN.read_text().split()[1] == sources()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "case", few([case for case in CASES if case.name in WHOLE], keep=3), ids=lambda case: case.name
)
def test_conformance_models_run_through_minizinc(case: Case, workplace: Workplace, tmp_path: Path):
    source = tmp_path / "model.mzn"
    source.write_text(case.model)
    flags = [] if case.optimises else ["-a"]
    result = minizinc("--solver", "cp-sat", *flags, source)
    printed = workplace.solve(case, *flags).printed
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert (blocks(result.stdout), END in result.stdout) == (blocks(printed), END in printed)


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) and set(names) >= WHOLE


def test_every_constraint_is_written():
    """Every constraint that the solver knows occurs in the FlatZinc of some model."""
    text = "".join(each.flatzinc for each in GOLDEN.values())
    written = {re.sub("^native_", "fzn_", name) for name in re.findall(r"^constraint (\w+)\(", text, re.MULTILINE)}
    excepted = set(" ".join(NEVER_WRITTEN.values()).split())
    assert {name for name in HANDLERS if not name.startswith("native_")} - written - excepted == set()
    assert excepted & written == set()
