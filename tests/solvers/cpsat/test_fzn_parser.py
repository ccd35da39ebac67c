"""The grammar: what is read, what is refused and where."""

from __future__ import annotations

import pytest
from fzn_support import compile_model

from moccasin_mzn.solvers.flatzinc.parser import Shortcuts, parse
from moccasin_mzn.solvers.flatzinc.syntax import Call, FlatZincSyntaxError, FloatSet, IntSet, Text, UnsupportedError

EVERYTHING = r"""% a comment; with "marks"
predicate own(array [int,int] of int: a, set of int: s, var bool: b);
predicate other(
    var float: x);
int: n = 3; bool: t = true; float: f = -1.5e3;
set of int: s1 = {3,1,2,7}; set of int: s2 = 1..0; 1..5: r = 4; {1,2}: q = 2;
array [1..3] of int: c = [1,-2,0x1F];
array [1..2] of set of int: ss = [{1,3},2..4];
array [1..2] of float: fs = [1.0,2.5];
array [1..0] of int: none = [];
var bool: b ::var_is_introduced :: is_defined_var;
var bool: fixed :: ann("a \"q\" \\ ; x", [1,{2}], f(1..2)) = true;
var -3..5: x :: output_var;
var {1,3,4,9}: y:: output_var = 3;
var int: u; var 1..5: z = x;
array [1..3] of var int: xs :: output_array([0..2]) = [x,3,y];
array [1..4] of var bool: bs :: output_array([1..2,{1,2}]) = [b,true,fixed,false];
array [1..0] of var int: no = [];
constraint int_lin_le(c,[x,y,7],-0o17)::defines_var(y)::domain;
constraint int_lin_le([1],
  [x], % inside
  2);
constraint set_in(x,{1,2,3,8}); constraint set_in_reif(xs[2],1..4,b);
constraint mine() :: mzn_constraint_name("a;b % c");
solve :: seq_search([int_search(xs,first_fail,indomain_min,complete), bool_search([b,true],input_order,indomain_max)])
  :: restart_geometric(1.5,100) minimize x;
"""


def test_parser_reads_everything():
    file = parse(EVERYTHING)
    assert file.parameters == {
        "n": 3,
        "t": True,
        "f": -1500.0,
        "s1": IntSet(((1, 3), (7, 7))),
        "s2": IntSet(()),
        "r": 4,
        "q": 2,
        "c": [1, -2, 31],
        "ss": [IntSet(((1, 1), (3, 3))), IntSet(((2, 4),))],
        "fs": [1.0, 2.5],
        "none": [],
    }
    variables = {variable.name: variable for variable in file.variables.values()}
    assert list(variables) == ["b", "fixed", "x", "y", "u", "z"]
    assert variables["b"].is_bool and variables["fixed"].value is True
    assert variables["x"].domain == IntSet(((-3, 5),)) and variables["x"].is_output and not variables["b"].is_output
    assert variables["y"].domain == IntSet(((1, 1), (3, 4), (9, 9))) and variables["y"].value == 3
    assert variables["u"].domain is None and variables["z"].value == "x"
    assert file.arrays["xs"].elements == ["x", 3, "y"] and file.arrays["xs"].output == (IntSet(((0, 2),)),)
    assert file.arrays["bs"].elements == ["b", True, "fixed", False]
    assert list(map(str, file.arrays["bs"].output)) == ["1..2", "1..2"]
    assert file.arrays["no"].elements == [] and file.arrays["no"].output is None


def test_constraints_and_the_solve_item_are_read():
    file = parse(EVERYTHING)
    assert [(item.name, item.arguments) for item in file.constraints] == [
        ("int_lin_le", ["c", ["x", "y", 7], -15]),
        ("int_lin_le", [[1], ["x"], 2]),
        ("set_in", ["x", IntSet(((1, 3), (8, 8)))]),
        ("set_in_reif", [3, IntSet(((1, 4),)), "b"]),
        ("mine", []),
    ]
    assert (file.solve.goal, file.solve.objective) == ("minimize", "x")
    search, restart = file.solve.annotations
    assert search.arguments[0][1] == Call("bool_search", (["b", True], "input_order", "indomain_max"))
    assert restart == Call("restart_geometric", (1.5, 100))


def test_text_keeps_its_escapes_out():
    file = parse(r'solve :: name("a \"q\" \\ \n") satisfy;')
    assert file.solve.annotations == (Call("name", (Text('a "q" \\ \n'),)),)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("var 1..3: x\nsolve satisfy;", "2:1", "';' expected, found 'solve'"),
        ("var bool: b;\nconstraint bool_not(b,,b);\nsolve satisfy;", "2:23", "expression expected, found ','"),
        ("constraint f(1;\nsolve satisfy;", "1:15", "')' expected"),
        ("constraint f(1 2);\nsolve satisfy;", "1:16", "')' expected"),
        ("constraint f([1,2);\nsolve satisfy;", "1:18", "']' expected"),
        ("int: x = 1.;\nsolve satisfy;", "1:11", "unexpected character '.'"),
        ("int: x = 12ab;\nsolve satisfy;", "1:10", "unexpected character"),
        ("\n  @\nsolve satisfy;", "2:3", "unexpected character '@'"),
        ('solve :: a("x\n") satisfy;', "1:12", "unexpected character"),
        ("solve satisfy", "1:14", "';' expected, found end of file"),
        ("solve maximise x;", "1:7", "satisfy, minimize or maximize expected"),
        ("solve satisfy;\nsolve satisfy;", "2:1", "second solve item"),
        ("var 1..3: x;\n", "2:1", "no solve item"),
        ("int: x = 9223372036854775808;\nsolve satisfy;", "1:10", "does not fit in 64 bits"),
        ("var 0..1: x;\nconstraint int_le(x,-99999999999999999999);\nsolve satisfy;", "2:21", "64 bits"),
        ("array [1..2] of var int: xs = ys;\nsolve satisfy;", "1:31", "array literal expected"),
        ("var {1,x}: y;\nsolve satisfy;", "1:5", "a set of integers expected"),
        ("array [1..1] of int: a = [5];\nint: b = a[2];\nsolve satisfy;", "2:10", "no element a[2]"),
        ("nonsense x;\nsolve satisfy;", "1:1", "item expected"),
    ],
)
def test_errors_name_line_and_column(text, place, message):
    with pytest.raises(FlatZincSyntaxError) as error:
        parse(text, "f.fzn")
    assert str(error.value).startswith(f"f.fzn:{place}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("declaration", ["var set of 1..3: x", "var set of int: x"])
def test_set_variables_are_refused(declaration):
    with pytest.raises(UnsupportedError, match="f.fzn:2:5: var set is not supported"):
        parse(f"int: n = 1;\n{declaration};\nsolve satisfy;", "f.fzn")


def test_64_bit_integers_are_read():
    file = parse("var -9223372036854775808..9223372036854775807: x; solve satisfy;")
    assert file.variables["x"].domain == IntSet(((-(2**63), 2**63 - 1),))


MODEL = """
array[1..4] of var 0..9: x;
array[1..3] of var bool: b;
set of int: S = {1,4,7};
constraint sum(x) <= 20 /\\ forall(i in 1..3)(b[i] -> x[i] + 2 <= x[i+1]);
constraint x[1] in S \\/ b[2] /\\ x[2] in 2..5;
constraint b[1] xor b[2] xor b[3];
solve :: int_search(x, first_fail, indomain_split) maximize sum(i in 1..4)(i * x[i]) - count(b, true);
"""


def test_shortcuts_and_grammar_read_the_same(tmp_path, monkeypatch):
    text = compile_model(MODEL, tmp_path)
    fast = parse(text)
    monkeypatch.setattr(Shortcuts, "item", lambda self, position: 0)
    assert parse(text) == fast
    assert parse(EVERYTHING) == parse(EVERYTHING)


def test_line_ends_of_windows():
    file = parse(EVERYTHING.replace("\n", "\r\n"))
    assert len(file.constraints) == 5


PREDICATES = """
predicate p0();
predicate p1(bool: a, int: b, float: c, set of int: d, 1..5: e, {1,3}: f, 1.0..2.5: g, set of 1..5: h, set of {1,3}: i);
predicate p2(var bool: a, var int: b, var 1..5: c, var {1,3}: d, var float: e, var 1.0..2.5: f, var set of int: g,
  var set of 1..5: h, var set of {1,3}: i);
predicate p3(array [int] of int: a, array [1..3] of var 1..5: b, array [int,int] of var bool: c, % ; (
  array [int] of set of int: d, array [int] of var set of 1..3: e, array [1..2] of float: f); predicate p4(int: a);
"""


def test_predicates_of_all_types_are_skipped():
    file = parse(PREDICATES + "solve satisfy;")
    assert not file.parameters and not file.variables and not file.constraints


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("007", 7),
        ("0x1f", 31),
        ("-0xFF", -255),
        ("0o17", 15),
        ("-0o17", -15),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("000000000000000000000000000001", 1),
        ("true", True),
        ("false", False),
        ("[]", []),
        ("[1,0x2,-3]", [1, 2, -3]),
        ("[true , %c\n false]", [True, False]),
        ("[1..3,{},{2,2,1},{5}]", [IntSet(((1, 3),)), IntSet(()), IntSet(((1, 2),)), IntSet(((5, 5),))]),
        ("{}", IntSet(())),
        ("3..1", IntSet(())),
        ("-3..-1", IntSet(((-3, -1),))),
        ("1 .. 3", IntSet(((1, 3),))),
        ("{1.5,2}", FloatSet(1.5, 2)),
        ("1.5..2.5", FloatSet(1.5, 2.5)),
        ("1.5", 1.5),
        ("-1.5e-3", -0.0015),
        ("2E5", 200000.0),
        ("1.0e+2", 100.0),
        ("nothing", "nothing"),
        ("_", "_"),
    ],
)
def test_literals_as_arguments_and_in_annotations(text, value):
    file = parse(f"constraint c({text},{text}) :: a({text}); solve :: b([{text}]) satisfy;")
    assert file.constraints[0].arguments == [value, value]
    assert file.solve.annotations == (Call("b", ([value],)),)
    assert list(map(type, file.constraints[0].arguments)) == [type(value)] * 2


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ("int: p = -3", -3),
        ("bool: p = true", True),
        ("float: p = 2.5", 2.5),
        ("float: p = 2", 2),
        ("set of int: p = {3,1}", IntSet(((1, 1), (3, 3)))),
        ("set of 1..5: p = 2..4", IntSet(((2, 4),))),
        ("set of float: p = 1.0..2.0", FloatSet(1.0, 2.0)),
        ("1..5: p = 3", 3),
        ("{1,3}: p = 3", 3),
        ("1.0..2.0: p = 1.5", 1.5),
        ("int: q = 4; int: p = q", 4),
        ("int: q = 4; array [1..2] of int: p = [q,1]", [4, 1]),
        ("array [1..2] of int: q = [7,8]; int: p = q[2]", 8),
        ("array [1..2] of int: p = [1,-2]", [1, -2]),
        ("array [1..2] of bool: p = [true,false]", [True, False]),
        ("array [1..2] of float: p = [1.0,2.5]", [1.0, 2.5]),
        ("array [1..2] of set of int: p = [{},1..2]", [IntSet(()), IntSet(((1, 2),))]),
        ("array [1..1] of 1..5: p = [3]", [3]),
        ("array [1..0] of int: p = []", []),
        ("array [1..0] of set of int: p :: ann = [ ]", []),
    ],
)
def test_parameters_of_all_kinds(declaration, value):
    assert parse(f"{declaration}; solve satisfy;").parameters["p"] == value


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        ("int", None),
        ("1..5", IntSet(((1, 5),))),
        ("-0x5..0o7", IntSet(((-5, 7),))),
        ("5..1", IntSet(())),
        ("{}", IntSet(())),
        ("{5}", IntSet(((5, 5),))),
        ("{ 7 , -2,%\n7,8}", IntSet(((-2, -2), (7, 8)))),
        ("8888888889..9999999999", IntSet(((8888888889, 9999999999),))),
    ],
)
def test_parser_reads_domains(kind, domain):
    file = parse(f"var {kind}: x :: a ::output_var :: b(x) = 1; array [1..1] of var {kind}: y = [x]; solve satisfy;")
    assert file.variables["x"].domain == domain and file.variables["x"].value == 1
    assert file.variables["x"].is_output and file.arrays["y"].elements == ["x"]


def test_items_in_any_order():
    file = parse(
        "solve minimize x; constraint c(xs,n)::defines_var(x); array [1..1] of var int: xs=[x];"
        "predicate c(int: a); var 1..3: x; int: n = 3;"
    )
    assert (file.solve.objective, file.constraints[0].name, file.arrays["xs"].elements) == ("x", "c", ["x"])
    assert [file.text[position:][:3] for position in file.positions.values()] == ["arr", "var", "int"]


def test_an_array_without_a_literal_declares_its_variables():
    file = parse(
        "array [1..2] of var {1,4}: xs :: output_array([1..2]);\nconstraint c(xs[2],xs); solve minimize xs[1];"
    )
    assert file.arrays["xs"].elements == ["xs[1]", "xs[2]"] == list(file.variables)
    assert file.variables["xs[2]"].domain == IntSet(((1, 1), (4, 4)))
    assert file.constraints[0].arguments == ["xs[2]", "xs"] and file.solve.objective == "xs[1]"


def test_nested_annotations():
    depth = 40
    file = parse(f'solve :: {"f([" * depth}"a;b % c"{"])" * depth} satisfy;')
    call = file.solve.annotations[0]
    for _ in range(depth):
        call = call.arguments[0][0]
    assert call == Text("a;b % c")


def test_shortcuts_do_not_hide_long_numbers():
    lines = "".join(f"var 0..{i}: x{i};\nconstraint int_le(x{i},{'1' * (i % 22 + 1)});\n" for i in range(18))
    assert len(parse(lines + "solve satisfy;").constraints) == 18
    for line in (
        "var 0..9999999999999999999: a;",
        "constraint c(9999999999999999999);",
        "int: a = -0x8000000000000001;",
    ):
        with pytest.raises(FlatZincSyntaxError, match="^f:37:.*does not fit in 64 bits"):
            parse(f"{lines}{line}\n{lines.replace('x', 'y')}solve satisfy;", "f")


@pytest.mark.parametrize("filler", [" " * 3000, "\t\r\n" * 1000, "%" * 3000 + "\n", "% a\n" * 1000, "%\n \n" * 1000])
def test_blanks_and_comments_take_linear_time(filler):
    text = f"{filler}int:{filler}n{filler}={filler}3{filler};{filler}solve{filler}satisfy{filler};{filler}"
    assert parse(text).parameters == {"n": 3}
    with pytest.raises(FlatZincSyntaxError, match="unexpected character '@'"):
        parse(text.replace("3", "@"))


@pytest.mark.parametrize(
    "text",
    [
        '{"variables": {}, "arrays": {}, "constraints": [], "output": [], "solve": {"method": "satisfy"}}',
        '\n\t { \r\n "version": "1.0"',
        '\ufeff{"x',
        '{"',
    ],
)
def test_json_is_refused_as_such(text):
    with pytest.raises(UnsupportedError, match="^f.fzn.json: FlatZinc in JSON is not read yet: have MiniZinc write it"):
        parse(text, "f.fzn.json")


@pytest.mark.parametrize("text", ["{1,3}: n = 1;", "{}: n = 1;", " { 1 } : n = 1;", '{x"', "{"])
def test_what_begins_with_a_set_is_no_json(text):
    try:
        parse(text + "\nsolve satisfy;", "f.fzn.json")
        message = ""
    except FlatZincSyntaxError as error:
        message = str(error)
    assert not message or message.startswith(("f.fzn.json:1:", "f.fzn.json:2:"))
