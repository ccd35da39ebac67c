"""Wrong input: one line on stderr that starts with file, line and column, and a non-zero exit status."""

from __future__ import annotations

import contextlib
import io
import subprocess

import pytest
from fzn_support import COMMAND, ENVIRONMENT, NeverStop, solutions, solve

from moccasin_mzn.solvers.cpsat.run import run
from moccasin_mzn.solvers.flatzinc.execution import parse_options

HEADER = "var 0..9: x; var bool: b;\n"

ERRORS = [
    # not declared, or declared twice
    ("constraint int_le(y,1);", "2:1", "int_le: y is not declared"),
    ("constraint int_lin_le([1],ys,1);", "2:1", "int_lin_le: ys is not declared"),
    ("constraint int_lin_le([1,1],[x,y],1);", "2:1", "int_lin_le: y is not declared"),
    ("constraint set_in(x,S);", "2:1", "set_in: S is not declared"),
    ("array [1..2] of var int: xs = [x,y];", "2:1", "y is not declared"),
    ("array [1..1] of var int: xs = [xs];", "2:1", "an integer expected, found xs"),
    ("var 1..3: z = y;", "2:1", "y is not declared"),
    ("solve minimize y;", "2:1", "y is not declared"),
    ("int: n = m;", "2:10", "a constant of type int expected, found m"),
    ("var 1..3: x;", "2:11", "x is declared twice"),
    ("  bool: b = true;", "2:9", "b is declared twice"),
    ("int: n = 1; array [1..1] of int: n = [1];", "2:34", "n is declared twice"),
    ("var {1,3}: z; array [1..1] of var int: z = [x];", "2:40", "z is declared twice"),
    ("array [1..0] of var int: z = [];\nvar 1..3: z;", "3:11", "z is declared twice"),
    ("var 1..3: true;", "2:11", "name expected, found 'true'"),
    # lengths
    ("array [1..3] of var int: xs = [x,1];", "2:31", "xs has 3 elements, but 2 are given"),
    ("array [1..1] of int: c = [1,2];", "2:26", "c has 1 elements, but 2 are given"),
    ("array [1..9999999999] of set of int: c = [];", "2:42", "c has 9999999999 elements, but 0 are given"),
    ("constraint int_lin_le([1],[x,x],1);", "2:1", "int_lin_le: "),
    ("array [int] of int: c = [1];", "2:8", "integer expected, found 'int'"),
    # types
    ("constraint int_le(b,1);", "2:1", "int_le: an integer expected, found b"),
    ("constraint bool_eq(b,1);", "2:1", "bool_eq: a bool expected, found 1"),
    ("constraint bool_eq(b,x);", "2:1", "bool_eq: a bool expected, found x"),
    ("constraint bool_not(x,x);", "2:1", "bool_not: a bool expected, found x"),
    ("constraint bool2int(x,x);", "2:1", "bool2int: a bool expected, found x"),
    ("constraint bool2int(b,b);", "2:1", "bool2int: an integer expected, found b"),
    ("constraint int_le(true,x);", "2:1", "int_le: an integer expected, found true"),
    ("constraint int_le(1.5,x);", "2:1", "int_le: an integer expected, found 1.5"),
    ("constraint int_le([x],x);", "2:1", "int_le: an integer expected, found an array"),
    ('constraint int_le("x",x);', "2:1", "int_le: an integer expected, found a string"),
    ("constraint int_le(f(x),x);", "2:1", "int_le: an integer expected, found f(...)"),
    ("constraint int_le({1},x);", "2:1", "int_le: an integer expected, found a set"),
    ("constraint set_in(x,{1.5});", "2:1", "set_in: a set constant expected, found a set"),
    ("constraint set_in(x,x);", "2:1", "set_in: a set constant expected, found x"),
    ("constraint int_lin_le([x],[x],1);", "2:1", "int_lin_le: an integer constant expected, found x"),
    ("constraint int_lin_le(1,[x],1);", "2:1", "int_lin_le: an array expected, found 1"),
    ("constraint int_le(x);", "2:1", "int_le takes 2 arguments"),
    ("array [1..2] of var int: xs = [x,b];", "2:1", "an integer expected, found b"),
    ("array [1..2] of var bool: bs = [b,0];", "2:1", "a bool expected, found 0"),
    ("array [1..2] of var bool: bs = [b,[b]];", "2:1", "a bool expected, found an array"),
    ("var bool: c = x;", "2:1", "a bool expected, found x"),
    ("var bool: c = 0;", "2:1", "a bool expected, found 0"),
    ("var 0..1: z = b;", "2:1", "an integer expected, found b"),
    ("int: n = true;", "2:10", "a constant of type int expected, found true"),
    ("bool: t = 1;", "2:11", "a constant of type bool expected, found 1"),
    ("float: f = {1};", "2:12", "a constant of type float expected, found a set"),
    ("set of int: s = 3;", "2:17", "a constant of type set expected, found 3"),
    ("array [1..1] of int: c = [true];", "2:26", "a constant of type int expected, found true"),
    ("array [1..1] of int: c = [x];", "2:26", "a constant of type int expected, found x"),
    ("array [1..1] of var int: xs :: output_array(1..1) = [x];", "2:1", "output_array needs a list of index sets"),
    ("array [1..1] of var int: xs :: output_array() = [x];", "2:1", "output_array needs a list of index sets"),
    # unsupported, or too much for the solver
    ("\n constraint my_own(1);", "3:2", "unsupported constraint my_own"),
    ("constraint bool_eq_reif(b,[[b]],b);", "2:1", "bool_eq_reif: a bool expected, found an array"),
    ("var set of 1..3: s;", "2:5", "var set is not supported"),
    ("array [1..1] of var set of 1..3: s = [{}];", "2:21", "var set is not supported"),
    ("var {1.0,2.5}: f;", "2:5", "var float of listed values is not supported"),
    # floats
    ("var float: f;", "2:1", "f is a float without bounds that follows from nothing; solve with --solver highs or"),
    (
        "var 0.0..1.0: f;\nconstraint float_lt(f,0.5);",
        "3:1",
        "float_lt of a continuous variable is not supported; solve",
    ),
    ("var 0.0..1.0: f;\nconstraint float_sqrt(f,f);", "3:1", "unsupported constraint float_sqrt"),
    ("var 0.0..1.0: f;\nconstraint float_le(x,f);", "3:1", "float_le: a float expected, found x"),
    ("var 0.0..1.0: f;\nconstraint float_le(h,f);", "3:1", "float_le: h is not declared"),
    ("var 0.0..1.0: f;\nconstraint float_le(f);", "3:1", "float_le: unfit arguments"),
    ("var 0.0..1.0: f;\nconstraint float_le_reif(f,f,x);", "3:1", "int_lin_le_reif: a bool expected, found x"),
    ("var 0.0..1.0: f;\nconstraint float_lin_le([1.0],[f,f],2.0);", "3:1", "float_lin_le: unfit arguments"),
    (
        "var 0.0..1.0: f;\nconstraint float_lin_le([f],[f],2.0);",
        "3:1",
        "float_lin_le: a float constant expected, found f",
    ),
    ("var 0.0..1.0: f;\nconstraint float_lin_le(f,[f],2.0);", "3:1", "float_lin_le: an array expected, found f"),
    ("var 0.0..1.0: f;\nconstraint float_le(f,1e999);", "3:1", "float_le: unfit arguments"),
    ("var 0.0..1.0: f;\nconstraint int_le(f,1);", "3:1", "int_le: an integer expected, found f"),
    ("var 0.0..1.0: f;\nconstraint int2float(f,f);", "3:1", "int2float: an integer expected, found f"),
    ("var 0.0..1.0: f;\nconstraint float_le(f,1e-25);", "2:1", "f: too many digits for integers of 64 bits; solve"),
    ("var 0.0..1.0: f;\narray [1..2] of var float: fs = [f,x];", "3:1", "a float expected, found x"),
    ("var 0.0..1.0: f; var float: h;\nconstraint float_times(f,f,h);", "3:1", "unsupported constraint float_times of"),
    ("var 0.0..1.0: f = b;", "2:1", "float_eq: a float expected, found b"),
    ("var -9223372036854775808..0: z;", "2:1", "CP-SAT refuses the model"),
    ("var 0..4000000000000000000: z;\nconstraint int_le(x,3);\nconstraint int_plus(z,z,z);", "4:1", "CP-SAT refuses"),
    ("solve :: warm_start([x,x],[1]) satisfy;", "2:1", "warm_start: 2 variables, but 1 values"),
    # form
    (f"solve :: f({'g(' * 500}", "2:212", "nested more than 100 deep"),
    (f"constraint f({'[' * 99999}", "2:114", "nested more than 100 deep"),
    (f"int: n = {'9' * 5000};", "2:10", "does not fit in 64 bits"),
    ("int: n = -0x8000000000000001;", "2:10", "does not fit in 64 bits"),
    (f"int: n = {' ' * 5000} @", "2:5011", "unexpected character '@'"),
    (f"int: n = {'%' * 5000}\n @", "3:2", "unexpected character '@'"),
    ("var \u0661..\u0663: z;", "2:5", "unexpected character"),
    ("constraint int_le(x\u00a0,1);", "2:20", "unexpected character"),
    ("int: n = 1\0;", "2:11", "unexpected character '\\x00'"),
    ('solve :: f("x) satisfy;', "2:12", "unexpected character '\"'"),
    ("array [1..1] of thing: a = [1];", "2:17", "type expected, found 'thing'"),
    ("var 3: z;", "2:5", "type expected"),
    ("solve :: [x] satisfy;", "2:10", "annotation expected, found '['"),
]


def complaint(path, *flags: str) -> str:
    """What a run that has to fail writes on stderr, without remarks."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = run(parse_options([*flags, str(path)]), NeverStop())
    assert status == 1 and out.getvalue() == ""
    return errors.getvalue()


@pytest.mark.parametrize(("text", "place", "message"), ERRORS, ids=[str(index) for index in range(len(ERRORS))])
def test_flatzinc_errors_are_one_line_with_the_place(text, place, message, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_text(HEADER + text + ("" if "solve" in text else "\nsolve satisfy;"))
    line = complaint(path)
    assert line.startswith(f"{path}:{place}: ") and message in line
    assert line.count("\n") == 1 and len(line) < 300


@pytest.mark.parametrize("content", [b"", b" \n% nothing\n", b"var 1..3: x;", b"predicate p(int: x);\n\n\n"])
def test_no_solve_item(content, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_bytes(content)
    line, column = content.count(b"\n") + 1, len(content) - (content.rfind(b"\n") + 1) + 1
    assert complaint(path) == f"{path}:{line}:{column}: there is no solve item\n"


@pytest.mark.parametrize(
    "content", [bytes(range(256)), b"\x7fELF\x02\x01\x01", b"\xff\xfe" * 9, b"\xef\xbb\xbf", b"\0" * 99]
)
def test_flatzinc_without_text_is_an_error(content, tmp_path):
    path = tmp_path / "f.fzn"
    path.write_bytes(content)
    assert "unexpected character" in complaint(path)


def test_strings_and_comments_may_hold_any_bytes(tmp_path):
    path = tmp_path / "f.fzn"
    path.write_bytes(b'% \xff\xfe\nvar 1..1: x :: output_var :: mzn_path("\xe9\x80;");\nsolve satisfy;')
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(parse_options([str(path)]), NeverStop()) == 0
    assert out.getvalue() == "x = 1;\n----------\n"


def test_a_file_cut_off_anywhere(tmp_path):
    path = tmp_path / "f.fzn"
    text = HEADER + "array [1..2] of var int: xs :: output_array([1..2]) = [x,0x1f]; set of int: s = {1,3};\n"
    text += 'constraint set_in_reif(x,s,b) :: mine("a\\"b", [1.5,{2}]); solve :: int_search(xs,f,g) minimize x;'
    for length in range(len(text)):
        path.write_text(text[:length])
        assert complaint(path).startswith(f"{path}:{text.count(chr(10), 0, length) + 1}:")


@pytest.mark.parametrize(
    "solve_item",
    [
        "solve :: int_search(nosuch,first_fail,indomain_min) satisfy",
        "solve :: int_search([b],f(x),[1]) :: bool_search(x,1,2) :: int_search(x) satisfy",
        "solve :: int_search([x],f([x]),[1]) satisfy",
        "solve :: warm_start(b,x) :: warm_start([x],[b]) :: warm_start([[x]],[{1}]) :: warm_start(nosuch,[1]) satisfy",
        "solve :: warm_start([x,b,y],[9223372036854775807,-9223372036854775808,f(x)]) satisfy",
        "solve :: seq_search([seq_search([1,x]),2.5]) :: nosuch :: nosuch(nosuch[1..3]) satisfy",
        "solve :: warm_start_array(1) :: seq_search() :: int_search() satisfy",
    ],
)
def test_annotations_that_make_no_sense_are_ignored(solve_item):
    assert len(solutions(f"var 3..4: x :: output_var; var bool: b; {solve_item.replace('[1..3]', '(1..3)')};")) == 2


@pytest.mark.parametrize(
    "constraint", ["int_mod(x,y,z)", "int_div(x,y,z)", "int_pow(y,w,z)", "array_int_maximum(z,[])", "int_times(x,x,z)"]
)
def test_hints_for_which_a_function_has_no_value(constraint):
    text = f"var 1..3: x :: output_var; var 1..3: y; var -9..9: z; var -2..2: w; var bool: b;\nconstraint {constraint};"
    text = text.replace(");", ",b);").replace("(", "_imp(")
    assert "x = " in solve(text + "solve :: warm_start([x,y,w],[3,0,-2]) maximize x;")


def test_chains_of_equal_bools_in_any_order():
    count = 3000
    text = "".join(f"var bool: b{i};" for i in range(count)) + "var bool: out :: output_var;"
    text += "".join(f"constraint bool_not(b{i + 1},b{i});" for i in range(count - 1))
    text += f"constraint bool_eq(b0,out); constraint bool_eq(b{count - 1},true); solve satisfy;"
    assert solutions(text) == [{"out": count % 2 == 1}]


@pytest.mark.full
def test_flatzinc_process_reports_errors_in_one_line(tmp_path):
    wrong = {"bytes": b"var \xff;", "deep": b"constraint f(" + b"[" * 100000}
    paths = [tmp_path / name for name in wrong]
    for path, content in zip(paths, wrong.values(), strict=True):
        path.write_bytes(content)
    paths += [tmp_path, tmp_path / "missing"]
    processes = [
        subprocess.Popen([*COMMAND, path], stdout=-1, stderr=-1, stdin=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
        for path in paths
    ]
    for path, process in zip(paths, processes, strict=True):
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and out == "" and errors.count("\n") == 1
        assert errors.startswith(f"{path}:")
