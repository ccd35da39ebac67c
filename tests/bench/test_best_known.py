"""The table of best-known values: its lines and files, and that nothing in it is replaced by anything worse."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_support import write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import load_json, replace_file
from moccasin_mzn.bench.best_known import FOLDER, Known, better, checked, merged, read_table, table_text
from moccasin_mzn.cli.bench_run import generated

DATA = Path(__file__).resolve().parents[2] / "data"
EXPERIMENT = """
name = "tiny"

[[graphs]]
generate = "chain --nodes 5 --seed 1"
label = "chain"
budgets = ["0.8", "0.1", "1.0"]

[[methods]]
label = "input order"
max_computations = 2
"""
ROW = Known("g.json", "d" * 16, "input", "2", "0.8", 80, 100, duration=120, bound=110, scope="at all", found_by="one",
            proved_by="two", certified=105, certified_scope="any order", file="best_known/g.json.gz")  # fmt: skip
OPEN = replace(ROW, duration=None, bound=100, scope="", found_by="", proved_by="", certified=100, file="")


def table_of(folder, *rows):
    (folder / "t.csv").write_text(table_text(rows))
    return folder / "t.csv"


@pytest.mark.parametrize(
    "row", [ROW, OPEN, replace(ROW, duration=None, bound=None), replace(ROW, duration=None, bound=None, certified=None)]
)
def test_what_is_written_is_read_again(row, tmp_path):
    assert read_table(table_of(tmp_path, row)) == [row]


def test_figures_that_follow_stand_there():
    cells = ROW.cells()
    assert (cells["status"], cells["tdi_percent"], cells["gap_percent"]) == ("feasible", "20.0000", "8.3333")
    assert cells["certified_percent"] == "50.0000" and replace(ROW, certified=110).certified_percent == 100.0
    assert replace(ROW, bound=None, duration=None).cells()["bound"] == "infeasible"
    assert [replace(ROW, duration=110).status, OPEN.status] == ["optimal", "unknown"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("tdi_percent", "19", "line 2: tdi_percent is '19', but by the rest of the line '20.0000'"),
        ("status", "optimal", "line 2: status is 'optimal'"),
        ("duration", "-1", "line 2: duration is '-1', expected an integer"),
        ("bound", "", "line 2: bound is '', expected an integer"),
        ("amount", "infeasible", "line 2: amount is 'infeasible', expected an integer"),
        ("once", "9" * 100, "line 2: once is"),
    ],
)
def test_a_line_that_is_wrong_is_refused(column, value, message, tmp_path):
    path = table_of(tmp_path, ROW)
    lines = list(csv.reader(path.read_text().splitlines()))
    lines[1][lines[0].index(column)] = value
    path.write_text("".join(f"{','.join(line)}\n" for line in lines))
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        read_table(path)


@pytest.mark.parametrize(
    "text", ["", "graph,order\n", "a,b\n1,2\n", table_text([ROW])[:-40], table_text([ROW])[:-1] + ",1\n"]
)
def test_what_is_no_table_is_refused(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=r"t\.csv: (no table|line 2: )"):
        read_table(tmp_path / "t.csv")


def test_a_question_is_there_once(tmp_path):
    with pytest.raises(InputError, match="it is there twice"):
        read_table(table_of(tmp_path, ROW, replace(ROW, graph="h.json")))


def test_the_best_of_each_is_kept():
    """Whatever comes in whatever order: the shortest schedule, the best bound, the best certificate."""
    short = replace(ROW, duration=115, bound=100, certified=100, found_by="short")
    tight = replace(ROW, duration=130, bound=114, certified=100, proved_by="tight")
    sure = replace(OPEN, bound=107, certified=107, certified_scope="some", file="best_known/g.json.gz")
    for first, *others in ([ROW, short, tight, sure], [sure, tight, ROW, short], [tight, short, sure, ROW]):
        for other in others:
            first = better(first, other)
            assert better(first, other) == first and better(first, OPEN) == first
        assert (first.duration, first.found_by, first.bound, first.proved_by) == (115, "short", 114, "tight")
        assert (first.certified, first.certified_scope) == (107, "some")
    assert merged([ROW], short)[0].duration == 115 and len(merged([ROW], replace(ROW, order="free"))) == 2


@pytest.mark.parametrize("bound", [116, None])
def test_a_contradiction_is_an_error(bound):
    with pytest.raises(InputError, match="a schedule of 115 contradicts .*, by two"):
        better(replace(ROW, duration=115), replace(ROW, bound=bound, duration=None))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a table of two instances, one without a schedule."""
    from moccasin_mzn.cli.main import run

    folder = tmp_path_factory.mktemp("known")
    words = ["bench", "best-known", write(folder, EXPERIMENT), "--table", folder / "t.csv", "--time-limit", 20]
    assert run([str(word) for word in words]) == 0
    return folder


def test_the_command_makes_a_table_whose_files_prove_it(tiny, command):
    rows = read_table(tiny / "t.csv")
    assert [(row.budget, row.status) for row in rows] == [
        ("0.8", "optimal"), ("0.1", "infeasible"), ("1.0", "optimal")
    ]  # fmt: skip
    assert rows[0].graph == "generate chain --nodes 5 --seed 1" and rows[0].file.startswith(f"{FOLDER}/chain-")
    status, out, err = command("validate", "--best-known", tiny / "t.csv")
    assert (status, err) == (0, "") and out.count("valid: ") == 3 and out.splitlines()[-1].startswith('{"rows": 3')
    document = load_json(tiny / rows[0].file)
    assert document["bound"] == rows[0].certified and rows[0].certified_percent == 100.0
    assert gzip.decompress((tiny / rows[0].file).read_bytes()).startswith(b'{"format"')


def test_what_is_proven_is_not_searched_again(tiny, command):
    before = {path: path.read_bytes() for path in tiny.rglob("*") if path.is_file()}
    asked = ("bench", "best-known", tiny / "experiment.toml", "--table", tiny / "t.csv")
    for more in ((), ("--list", "--again"), ("--only", "no such question")):
        status, _, err = command(*asked, *more)
        assert (status, err) == (0, "")
    assert {path: path.read_bytes() for path in tiny.rglob("*") if path.is_file()} == before


def changed(row, tiny, **values):
    """What is wrong if the certificate of a line says something else."""
    document = {**load_json(tiny / row.file), **values}
    replace_file(tiny / "other.json", json.dumps(document))
    with pytest.raises(InputError) as error:
        checked(replace(row, file="other.json"), tiny, generated)
    return str(error.value)


def test_a_line_and_its_file_must_agree(tiny):
    row = read_table(tiny / "t.csv")[0]
    checked(row, tiny, generated)
    document = load_json(tiny / row.file)
    assert "is never computed" in changed(row, tiny, schedule=document["schedule"][:-1])
    assert "duration is" in changed(row, tiny, duration=document["duration"] - 1)
    assert "duration is None, but" in changed(row, tiny, schedule=None, duration=None)
    for values, message in (
        ({"duration": row.duration - 1, "bound": row.once}, "but"),
        ({"certified": row.certified - 1}, "bound is"),
        ({"certified_scope": "everything"}, "scope is"),
        ({"budget": "0.95"}, "the budget is"),
        ({"digest": "0" * 16}, "the graph is not that of the table"),
        ({"file": "nowhere.json"}, "cannot read"),
        ({"max_computations": "1"}, "is computed 2 times"),
    ):
        with pytest.raises(InputError, match=message):
            checked(replace(row, **values), tiny, generated)


def test_a_wrong_line_is_reported_and_the_others_are_checked(tiny, command):
    first, second, _ = read_table(tiny / "t.csv")
    replace_file(tiny / "wrong.csv", table_text([replace(first, file=second.file), second]))
    status, out, _ = command("validate", "--best-known", tiny / "wrong.csv")
    assert status == 1 and out.startswith("invalid: generate chain") and "\nvalid: " in out


@pytest.mark.parametrize("words", [("g.json",), ("--budget", "0.9"), ("--arrays",)])
def test_a_table_stands_for_itself(words, tiny, command):
    status, out, err = command("validate", "--best-known", tiny / "t.csv", *words)
    assert (status, out) == (2, "") and "--best-known: a table has its own" in err
    assert command("validate", "g.json")[0] == 2


def test_a_certificate_is_a_schedule(tiny, command, tmp_path):
    row = read_table(tiny / "t.csv")[0]
    assert command("generate", "chain", "--nodes", 5, "--seed", 1, "--output", tmp_path / "g.json")[0] == 0
    status, out, _ = command("validate", tmp_path / "g.json", tiny / row.file)
    assert status == 0 and out.startswith("valid: ")


# --- the table that ships --------------------------------------------------------------------------------------


def test_the_table_that_ships_is_whole_and_small():
    rows = read_table(DATA / "best_known.csv")
    files = {f"{FOLDER}/{path.name}" for path in (DATA / FOLDER).iterdir()}
    assert {row.file for row in rows} == files and all(row.file for row in rows)
    assert sum((DATA / file).stat().st_size for file in files) < 4_000_000
    assert {path.stem for path in (DATA / "paper").glob("*train.json")} <= {Path(row.graph).stem for row in rows}


def test_lines_of_small_graphs_are_so():
    rows = [row for row in read_table(DATA / "best_known.csv") if row.graph.startswith("generate")]
    assert len(rows) >= 10
    for row in rows[:6]:
        checked(row, DATA, generated)


@pytest.mark.slow
def test_all_lines_are_so():
    for row in read_table(DATA / "best_known.csv"):
        if (DATA / row.graph).exists() or row.graph.startswith("generate"):
            checked(row, DATA, generated)
