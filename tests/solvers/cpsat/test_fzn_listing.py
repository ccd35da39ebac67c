"""Listings of all solutions, and who follows search annotations."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess

import pytest
from fzn_support import COMMAND, ENVIRONMENT, NeverStop, solutions

from moccasin_mzn.solvers.cpsat.builder import Branching
from moccasin_mzn.solvers.cpsat.run import CpSatSession
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.execution import parse_options
from moccasin_mzn.solvers.flatzinc.parser import parse

PLAIN = "var 0..5: x :: output_var; var 0..5: y :: output_var; var 0..9: s; constraint int_plus(x,y,s); solve satisfy;"
TASKS = "var 0..3: x :: output_var; var 0..3: y :: output_var; constraint fzn_cumulative([x,y],[2,2],[1,1],1);"
TASKS += "solve satisfy;"


def session(text: str, *flags: str) -> CpSatSession:
    enumerates = "-a" in flags
    return CpSatSession(translate(parse(text), unique=enumerates), parse_options([*flags, "f.fzn"]))


@pytest.mark.parametrize(("text", "again", "count"), [(PLAIN, False, 36 - 1), (TASKS, True, 6)])
def test_only_what_cp_sat_may_leave_short_is_searched_again(text, again, count):
    """A second search would exclude what the first one has found."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run = session(text, "-a")
        before = run.problem.builder.constraint_count()
        assert run.run(NeverStop()) == 0
    assert out.getvalue().count("----------") == count and out.getvalue().endswith("==========\n")
    assert (run.problem.builder.constraint_count() > before) == again


def test_of_solutions_only_the_printed_values_are_kept():
    with contextlib.redirect_stdout(io.StringIO()):
        run = session(PLAIN, "-a")
        run.run(NeverStop())
    kept = run.stream.distinct(0)
    assert {len(identity) for identity in kept} == {2 * 8} and len(set(kept)) == 35
    assert run.stream.distinct(34) == kept[34:]


ANNOTATED = PLAIN.replace("solve ", "solve :: int_search([y,x],input_order,indomain_max) ")


def test_a_list_of_all_solutions_follows_no_annotation():
    run = session(ANNOTATED, "-a")
    assert run.solver.parameters.search_branching != Branching.FIXED_SEARCH
    key = lambda row: tuple(row.values())  # noqa: E731
    assert sorted(map(key, solutions(ANNOTATED))) == sorted(map(key, solutions(PLAIN)))


def test_two_workers_where_there_are_two_cores():
    """One that follows the annotations, and one that searches on its own."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        parameters = session(ANNOTATED).solver.parameters
        assert parameters.num_workers == 2 and list(parameters.subsolvers) == ["fixed", "default_lp"]
    try:
        os.sched_setaffinity(0, {min(allowed)})
        alone = session(ANNOTATED)
    finally:
        os.sched_setaffinity(0, allowed)
    assert alone.follows_only and alone.solver.parameters.search_branching == Branching.FIXED_SEARCH
    assert session(ANNOTATED, "-p", "1").follows_only
    assert not session(ANNOTATED, "-f").follows_only
    assert session(PLAIN).solver.parameters.num_workers == len(allowed)


MISLED = (
    "".join(f"var 0..1000000: x{i};" for i in range(6))
    + """
var 0..6000000: s :: output_var; constraint int_lin_eq([1,1,1,1,1,1,-1],[x0,x1,x2,x3,x4,x5,s],0);
constraint int_lin_le([-3,-7,-1,-1,-1,-2],[x0,x1,x2,x3,x4,x5],-3000001);
solve :: int_search([x0,x1,x2,x3,x4,x5],input_order,indomain_max) minimize s;
"""
)


def test_one_worker_that_finds_no_proof_says_that_there_is_a_free_search(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(MISLED)

    def run(*flags: str) -> subprocess.CompletedProcess:
        return subprocess.run([*COMMAND, *flags, path], capture_output=True, text=True, env=ENVIRONMENT, check=True)

    followed, free = run("-p", "1", "-t", "1500"), run("-f", "-p", "1")
    assert "==========" not in followed.stdout and "-f searches freely" in followed.stderr
    assert free.stdout == "s = 428572;\n----------\n==========\n" and free.stderr == ""
