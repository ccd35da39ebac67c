"""A schedule of another kind than was asked for is kept, and the command that is offered starts from it, as printed."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.cli import found_schedules
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.judges.schedules import judge

SIZES = {"a": 5, "c": 5, "b": 1, "d": 1, "z": 1}
EDGES = ("ab", "cd", "bz", "dz")


def write(path, unit=1):
    """In the input order `a` and `c` are in memory together, which takes another order where both are computed once."""
    nodes = [{"id": node, "duration": 3, "size": unit * size} for node, size in SIZES.items()]
    edges = [{"source": u, "target": v} for u, v in EDGES]
    path.write_text(json.dumps({"format": "moccasin-graph", "version": 1, "nodes": nodes, "edges": edges}))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    monkeypatch.setattr("sys.platform", "linux")
    write(Path("my graph.json"))
    Path("counts.json").write_text('{"a": 1, "c": 1}')
    return Path("my graph.json")


def offered(text):
    lines = [line for line in text.splitlines() if line.startswith("next: ")]
    assert len(lines) <= 1
    return shlex.split(lines[0].removeprefix("next: ")) if lines else None


ASK = ("--budget", 8, "--max-computations", "counts.json", "--time-limit", 30)


@pytest.mark.parametrize("form", [(), ("--json",), ("--json-stream",)], ids=str)
def test_a_schedule_in_free_order_is_kept_and_offered(command, here, form):
    status, out, err = command("solve", here, *ASK, "--precedence", "served-by", "-o", "out.json", *form)
    assert status == 1 and not Path("out.json").exists()
    text = err if form else out
    assert "tried: --order free: a schedule with TDI 0.000 %, peak " in text
    words = offered(text)
    assert words[:3] == ["moccasin-mzn", "solve", "my graph.json"] and "--precedence" not in words
    kept = Path(words[words.index("--warm-start") + 1])
    assert list(found_schedules.folder().iterdir()) == [kept]
    if form == ("--json",):
        (found,) = [one for one in json.loads(out)["shortfall"]["helps"] if one["sequence"]]
        assert json.loads(kept.read_text()) == found["sequence"]
    status, out, _ = command(*words[1:], *(() if form else ("--json",)))
    reported = json.loads(out.splitlines()[-1])
    assert status == 0 and reported["trace"][0][3] == "the warm start" and reported["order"] == "free"
    graph, written = read_graph(here), json.loads(Path("out.json").read_text())
    assert judge(graph, [graph.position_of(node) for node in written["sequence"]], 8).feasible


def test_more_computations_that_were_not_allowed_are_offered(command, here, tmp_path):
    graph = {
        "format": "moccasin-graph", "version": 1,
        "nodes": [{"id": n, "duration": 1, "size": s} for n, s in zip("xabcz", (2, 1, 7, 1, 1), strict=True)],
        "edges": [{"source": u, "target": v} for u, v in ("xa", "xz", "ab", "bc", "cz")],
    }  # fmt: skip
    Path("skip.json").write_text(json.dumps(graph))
    status, out, _ = command("solve", "skip.json", "--budget", 8, "--max-computations", 1, "--time-limit", 30)
    words = offered(out)
    assert status == 1 and words[words.index("--max-computations") + 1] == "auto" and "--order" not in words
    status, out, _ = command(*words[1:], "--json")
    assert (status, json.loads(out)["trace"][0][3]) == (0, "the warm start")


@pytest.mark.parametrize("more", [["--if-none", "stop"], ["--search", "off"]])
def test_what_was_not_found_is_not_offered(command, here, more):
    status, out, _ = command("solve", here, *ASK, *more)
    assert status == 1 and offered(out) is None and not found_schedules.folder().exists()


def test_a_cache_that_cannot_be_written_is_no_error(command, here, monkeypatch):
    Path("file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("file").resolve()))
    status, out, _ = command("solve", here, *ASK)
    words = offered(out)
    assert status == 1 and "--warm-start" not in words and command(*words[1:])[0] == 0


def test_the_latest_few_are_kept(command, here):
    folder = found_schedules.folder()
    folder.mkdir(parents=True)
    for k in range(found_schedules.MOST + 5):
        (folder / f"{k}.json").write_text("[]")
        os.utime(folder / f"{k}.json", (k, k))
    words = offered(command("solve", here, *ASK)[1])
    names = {path.name for path in folder.iterdir()}
    assert len(names) == found_schedules.MOST and Path(words[words.index("--warm-start") + 1]).name in names
    assert "0.json" not in names and f"{found_schedules.MOST + 4}.json" in names


@pytest.mark.parametrize("ask", [("--budget", "80"), ("--budget", "5", "--strategy", "keep-all")])
def test_why_there_is_no_schedule_is_printed_once(command, here, ask):
    big = Path("big.json")
    write(big, unit=10**6)
    status, out, err = command("solve", big, *ask)
    assert status == 1 and err.splitlines()[-1] == Page.INFEASIBLE.after("no schedule")
    (reason,) = [line for line in out.splitlines() if line.startswith(("infeasible: ", "over-budget: "))]
    reported = json.loads(command("solve", big, *ask, "--json")[1])
    assert reason == f"{reported['status']}: {reported['reason']}" and (out + err).count(reported["reason"]) == 1
