"""Search annotations and warm starts."""

from __future__ import annotations

import subprocess

import pytest
from fzn_support import COMMAND, ENVIRONMENT, solve

from moccasin_mzn.solvers.cpsat.search import add_hints, add_strategies
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.parser import parse


def hints(text: str) -> dict[str, int]:
    """The hinted values of the named variables of a file."""
    problem = translate(parse(text))
    add_hints(problem)
    proto = problem.builder.model.solution_hint
    values = dict(zip(proto.vars, proto.values, strict=True))
    symbols = problem.symbols
    terms = {name: term.variable for name, term in symbols.integers.items() if term.coefficient}
    literals = {name: literal for name, literal in symbols.literals.items() if literal >= 0}
    return {name: values[index] for name, index in {**terms, **literals}.items() if index in values}


def test_warm_starts_of_all_forms():
    text = """
    array [1..2] of int: v = [4,5]; array [1..1] of bool: w = [true];
    var 0..9: x; var 0..9: y; var 0..9: z; var bool: b; var bool: c;
    array [1..2] of var int: xs = [x,y];
    solve :: warm_start_array([warm_start(xs,v), warm_start([z,3,z],[6,3,8])])
      :: seq_search([warm_start([b],w), warm_start([c],[false])]) satisfy;
    """
    assert hints(text) == {"x": 4, "y": 5, "z": 6, "b": 1, "c": 0}


def test_hints_reach_every_name_of_a_literal():
    text = """
    var bool: a; var bool: b; var 0..1: x; constraint bool2int(a,x); constraint bool_not(a,b);
    solve :: warm_start([x],[1]) satisfy;
    """
    assert hints(text) == {"a": 1, "x": 1}
    assert hints(text.replace("[x],[1]", "[b],[true]")) == {"a": 0, "x": 0}


def test_warm_starts_are_completed_through_definitions():
    text = """
    var 0..9: x; var 0..9: y; var 0..99: sum; var 0..99: top; var bool: r; var bool: s; var bool: t; var 0..9: e;
    constraint int_max(sum,7,top);
    constraint array_bool_and([r,s],t);
    constraint int_lin_eq([1,1,-1],[x,y,sum],0);
    constraint int_le_reif(x,y,r);
    constraint int_lin_le_imp([1],[sum],5,s);
    constraint array_int_element(x,[3,1,4],e);
    solve :: warm_start([x,y],[2,4]) satisfy;
    """
    assert hints(text) == {"x": 2, "y": 4, "sum": 6, "top": 7, "r": 1, "s": 0, "t": 0, "e": 1}


def test_an_equation_with_two_unknowns_defines_neither():
    text = """
    var 0..9: x; var 0..9: p; var 0..9: q; var 0..9: late;
    constraint int_lin_eq([1,1,-1],[x,p,q],0); constraint int_lin_eq([1,1,-1],[late,q,x],3);
    solve :: warm_start([x],[2]) satisfy;
    """
    assert hints(text) == {"x": 2}
    chain = text.replace("[1,1,-1],[late,q,x],3", "[1,1],[x,q],5")
    assert hints(chain) == {"x": 2, "q": 3, "p": 1}


def test_strategies_follow_the_annotations():
    text = """
    var 0..9: x; var 0..9: y; var bool: b;
    solve :: seq_search([int_search([x,3,y],first_fail,indomain_max,complete),
                         seq_search([bool_search([b],input_order,indomain_min)]),
                         int_search([7],dom_w_deg,indomain_random)]) satisfy;
    """
    problem = translate(parse(text))
    assert add_strategies(problem) == 2
    first, second = problem.builder.model.search_strategy
    assert len(first.exprs) == 2 and len(second.exprs) == 1


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("input_order,indomain_min", 0), ("input_order,indomain_max", 9), ("first_fail,indomain_median", 4)],
)
def test_one_worker_follows_the_search_annotation(choice, expected):
    text = f"""
    var 0..9: x :: output_var; var 0..9: y; constraint int_ne(x,y);
    solve :: int_search([x,y],{choice},complete) satisfy;
    """
    assert solve(text, "-p", "1") == f"x = {expected};\n----------\n"


SCHEDULE = """
predicate p(int: x);
{variables}
var 0..500: cost :: output_var;
array [1..8] of var int: s = [s1,s2,s3,s4,s5,s6,s7,s8];
array [1..8] of var int: e = [e1,e2,e3,e4,e5,e6,e7,e8];
array [1..8] of var bool: a = [a1,a2,a3,a4,a5,a6,a7,a8];
{lengths}
constraint bool_clause(a,[]);
constraint bool_lin_eq([1,1,1,1,1,1,1,1],a,6);
constraint fzn_all_different_int(s);
constraint fzn_cumulative_intervals(a,s,e,[1,2,1,2,1,2,1,2],2);
constraint int_lin_eq([1,1,1,1,1,1,1,1,-1],[e1,e2,e3,e4,e5,e6,e7,e8,cost],0);
solve :: warm_start(s,[3,6,9,12,15,18,21,24]) :: warm_start(e,[5,8,11,14,17,20,23,26])
  :: warm_start(a,[true,true,true,true,true,true,false,false]) minimize cost;
"""


def schedule() -> str:
    """Eight optional intervals of three time units or more, with a warm start of cost 124."""
    each = range(1, 9)
    variables = [f"var 1..60: s{i}; var 1..60: e{i}; var bool: a{i};" for i in each]
    lengths = [f"constraint int_lin_le_imp([1,-1],[s{i},e{i}],-2,a{i});" for i in each]
    return SCHEDULE.format(variables="\n".join(variables), lengths="\n".join(lengths))


@pytest.mark.full
def test_a_complete_warm_start_is_the_first_incumbent(tmp_path):
    path = tmp_path / "schedule.fzn"
    path.write_text(schedule())
    command = [*COMMAND, "-i", "-v", "-p", "2", path]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert "The solution hint is complete and is feasible. Its objective value is 124." in result.stderr
    first = next(line for line in result.stderr.splitlines() if line.startswith("#1 "))
    assert "best:124" in first and "complete_hint" in first
    assert result.stdout.startswith("cost = 124;\n----------\n")
    assert result.stdout.endswith("==========\n")
