"""`plot` and `solve --plot`: files, refusals, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from drawing import corners, figure, groups

from moccasin_mzn.base.extras import install_command
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate

ORDER = [0, 1, 2, 3, 4, 5]


@pytest.fixture
def graph_file(tmp_path):
    """A U-shaped chain of six nodes, peak 4, of which a budget of 3 needs a recomputation."""
    edges = [(0, 1), (0, 5), (1, 2), (1, 4), (2, 3), (3, 4), (4, 5)]
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(range(6), [1] * 6, [1] * 6, edges, name="U"), path)
    return path


@pytest.fixture
def schedule_file(tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"sequence": [0, 1, 2, 3, 4, 0, 5], "budget": 3}))
    return path


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.png", b"\x89PNG"),
        ("a.svg", b"<?xml"),
        ("A.SVG", b"<?xml"),
        ("a.html", b"<!DOCTYPE html>"),
        ("a.pdf", b"%PDF-"),
    ],
)
def test_plot_takes_the_form_from_the_suffix(tmp_path, command, graph_file, schedule_file, name, start):
    assert command("plot", graph_file, schedule_file, "-o", tmp_path / name) == (0, "", "")
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.full
def test_the_budget_is_the_one_given_or_else_that_of_the_schedule(tmp_path, command, graph_file, schedule_file):
    pages = []
    for options in ([], ["--budget", "50%"], ["--budget", "7"]):
        assert command("plot", graph_file, schedule_file, "-o", tmp_path / "a.html", *options)[0] == 0
        pages.append((tmp_path / "a.html").read_text())
    names = [[trace.get("name") for trace in figure(page)[0]] for page in pages]
    assert ["budget 3" in names[0], "budget 2" in names[1], "budget 7" in names[2]] == [True] * 3
    assert ["OVER THE BUDGET" in page for page in pages] == [False, True, False]
    schedule_file.write_text(json.dumps(ORDER))
    assert command("plot", graph_file, schedule_file, "-o", tmp_path / "b.svg")[0] == 0
    assert "budget" not in groups((tmp_path / "b.svg").read_bytes())


def test_rows_and_the_profile_before_follow_the_order_given(tmp_path, command):
    graph = ComputationGraph(list("abc"), [1, 1, 1], [5, 2, 3], [(0, 2), (1, 2)])
    write_graph(graph, tmp_path / "graph.json")
    (tmp_path / "schedule.json").write_text('["b", "a", "c"]')
    (tmp_path / "order.txt").write_text("b\na\nc\n")
    for order, first, memory in (("input", "a", [5, 7, 10, 10]), (tmp_path / "order.txt", "b", [2, 7, 10, 10])):
        arguments = [tmp_path / "graph.json", tmp_path / "schedule.json", "-o", tmp_path / "a.html", "--order", order]
        assert command("plot", *arguments)[0] == 0
        traces, layout = figure((tmp_path / "a.html").read_text())
        assert layout["yaxis2"]["labelalias"]["0"] == first
        assert [trace["y"] for trace in traces if "input order" in trace.get("name", "")] == [memory]


def test_by_stage_the_axis_ends_with_the_last_stage(tmp_path, command, graph_file, schedule_file):
    for by, end in (("event", 7.5), ("stage", 6.5)):
        assert command("plot", graph_file, schedule_file, "-o", tmp_path / "a.html", "--by", by)[0] == 0
        assert figure((tmp_path / "a.html").read_text())[1]["xaxis"]["range"] == [0.5, end]


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        ([0, 2, 1, 3, 4, 5], [], "{schedule}: not a schedule: position 2: node 2 reads node 1, which is not"),
        ([0, 1, 2], [], "{schedule}: not a schedule: node 3 is never computed"),
        ([], [], "{schedule}: not a schedule: node 0 is never computed"),
        ([0, 9], [], "{schedule}: sequence[1]: "),
        ({"budget": 3}, [], '{schedule}: expected a key "sequence"'),
        (ORDER, ["--by", "day"], "axis 'day': expected event or stage"),
        (ORDER, ["--budget", "much"], "budget 'much': expected"),
        (ORDER, ["--order", "none.txt"], "none.txt: cannot read"),
    ],
)
def test_plot_reports_bad_input_in_one_line_and_writes_nothing(
    tmp_path, command, graph_file, schedule, options, message
):
    path, picture = tmp_path / "schedule.json", tmp_path / "picture.svg"
    path.write_text(json.dumps(schedule))
    picture.write_text("kept")
    status, out, err = command("plot", graph_file, path, "-o", picture, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message.format(schedule=path)}") and err.count("\n") == 1
    assert picture.read_text() == "kept"
    assert sorted(tmp_path.iterdir()) == sorted([graph_file, path, picture])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("picture.gif", "{path}: expected a name that ends in .png, .svg, .pdf or .html"),
        ("picture", "{path}: expected a name that ends in .png, .svg, .pdf or .html"),
        ("none/picture.svg", "{path}: there is no folder"),
        ("folder.svg", "{path}: is a directory"),
    ],
)
@pytest.mark.parametrize("first", ["plot", "solve"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, command, first, name, message):
    (tmp_path / "folder.svg").mkdir()
    path = tmp_path / name
    arguments = {"plot": ["none.json", "none.json", "-o", path], "solve": ["none.json", "--budget", 3, "--plot", path]}
    status, out, err = command(first, *arguments[first])
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message.format(path=path)}") and err.count("\n") == 1


@pytest.mark.parametrize(("library", "name"), [("matplotlib", "a.png"), ("matplotlib", "a.svg"), ("plotly", "a.html")])
def test_a_missing_library_is_refused_before_anything_is_read(tmp_path, command, monkeypatch, library, name):
    monkeypatch.setitem(sys.modules, library, None)  # Python's own way to make an import fail
    told = f"{library} is missing: {install_command('plot')} (see Install: docs/user-guide.md#install)"
    expected = (2, "", f"error: {told}\n")
    assert command("plot", "none.json", "none.json", "-o", tmp_path / name) == expected
    assert command("solve", "none.json", "--budget", 3, "--plot", tmp_path / name) == expected


def test_solve_draws_what_it_finds(tmp_path, command, graph_file):
    picture, schedule = tmp_path / "picture.svg", tmp_path / "schedule.json"
    arguments = ["--budget", 3, "--time-limit", 20, "--threads", 1, "--search", "only"]
    status, *_ = command("solve", graph_file, *arguments, "--plot", picture, "--output", schedule)
    assert status == 0
    graph, found = read_graph(graph_file), json.loads(schedule.read_text())
    drawn = groups(picture.read_bytes())
    intervals = simulate(graph, [graph.position_of(node) for node in found["sequence"]]).intervals
    assert sum(len(corners(drawn.get(f"bars-{kind}"))) for kind in ("only", "first", "again")) == len(intervals) == 7
    assert command("plot", graph_file, schedule, "-o", tmp_path / "again.svg")[0] == 0
    assert (tmp_path / "again.svg").read_bytes() == picture.read_bytes()


def test_solve_draws_nothing_where_there_is_no_schedule(tmp_path, command, graph_file):
    picture = tmp_path / "picture.svg"
    arguments = ["--budget", 3, "--strategy", "keep-all", "--plot", picture]
    status, _, err = command("solve", graph_file, *arguments)
    assert status == 1 and err.endswith("\n")
    assert not picture.exists()


def test_a_file_that_is_replaced_keeps_its_mode_and_a_link_stays_one(tmp_path, command, graph_file, schedule_file):
    target, link = tmp_path / "target.svg", tmp_path / "link.svg"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert command("plot", graph_file, schedule_file, "-o", link)[0] == 0
    assert link.is_symlink() and target.read_bytes().startswith(b"<?xml")
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to(tmp_path, command, graph_file, schedule_file):
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    try:
        assert command("plot", graph_file, schedule_file, "-o", pipe)[0] == 0
        assert reader.communicate(timeout=30)[0].startswith(b"<?xml")
    finally:
        reader.kill()
        reader.wait()


def test_drawing_libraries_are_not_imported_before_they_are_needed():
    code = (
        "import sys, moccasin_mzn.cli.main; print(sorted({'matplotlib', 'plotly', 'rich', 'numpy'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded == "[]\n"
