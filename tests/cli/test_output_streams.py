"""stdout and stderr that are closed, full or read by nobody: no traceback, no other answer, nothing lost."""

import json
import os
import subprocess
import sys

import pytest
from few import few
from process_support import hard_graph
from tiny_graphs import SKIP

from moccasin_mzn.base.files import load_json
from moccasin_mzn.graphs.formats import write_graph

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")

HOWS = ["closed", "full", "unread"]
QUICK = ["solve", "--strategy", "keep-all", "--budget", 10]
FULL = "error: stdout: No space left on device"
GRAPH = SKIP


def ended(stream, how, *words):
    """Exit status and stderr of a command whose stdout (1) or stderr (2) is "closed", "full", or "unread": a pipe whose
    other end is closed already."""
    reading, writing = os.pipe()
    os.close(reading)
    full = os.open("/dev/full", os.O_WRONLY)
    streams = {1: subprocess.PIPE, 2: subprocess.PIPE}
    streams[stream] = {"closed": None, "full": full, "unread": writing}[how]
    command = [sys.executable, "-m", "moccasin_mzn", *map(str, words)]
    if how == "closed":
        command = ["sh", "-c", f'exec "$@" {stream}>&-', "sh", *command]
    try:
        answer = subprocess.run(command, stdout=streams[1], stderr=streams[2], text=True, timeout=90)
    finally:
        os.close(writing)
        os.close(full)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("words", few(["solve --help", "generate chain -n 3000", "validate G S --budget 1"], keep=1))
def test_nobody_reads_what_is_printed(graph, tmp_path, how, words):
    schedule = tmp_path / "s.json"
    schedule.write_text('["x", "a", "b", "c", "z"]')
    own_status = 1 if words.startswith("validate") else 0
    status, _, err = ended(1, how, *words.replace("G", str(graph)).replace("S", str(schedule)).split())
    assert status == (2 if how == "full" else own_status), err
    lines = [line for line in err.splitlines() if not line.startswith(("invalid", "stdout: "))]
    assert lines == ([FULL] if how == "full" else [])


@pytest.mark.few(1)
@pytest.mark.parametrize("words", ["list", "info G", "--help", "compare G --budget 10 --only keep-all --only dtr"])
def test_a_reader_who_has_had_enough_is_no_error(graph, words):
    assert ended(1, "unread", *words.replace("G", str(graph)).split()) == (0, None, "")


@pytest.mark.full
@pytest.mark.parametrize("how", HOWS)
def test_nobody_reads_complaints(graph, how):
    status, out, _ = ended(2, how, *QUICK, graph, "--json")
    assert status == 0 and json.loads(out)["duration"] == 9
    assert ended(2, how, "solve", graph, "--budget", "x")[:2] == (2, "")


@pytest.mark.few(1)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("form", few([[], ["--json"], ["--json-stream"]], keep=1))
def test_an_answer_that_is_not_read_is_in_its_file(graph, tmp_path, how, form):
    output = tmp_path / "o.json"
    status, _, err = ended(1, how, *QUICK, graph, "--output", output, *form)
    assert status == (2 if how == "full" else 0) and "Traceback" not in err
    assert (FULL in err.splitlines()) == (how == "full")
    assert load_json(output)["duration"] == 9


@pytest.mark.full
def test_pictures_and_tables_come_before_the_print_too(graph, tmp_path):
    files = [tmp_path / name for name in ("o.svg", "o.csv", "o.json")]
    options = [word for pair in zip(("--plot", "--csv", "--output"), files, strict=True) for word in pair]
    assert ended(1, "full", "frontier", graph, "--budget", 10, *options)[0] == 2
    assert all(path.stat().st_size > 100 for path in files)


def test_no_schedule_is_the_answer_though_nobody_reads_it(graph):
    assert ended(1, "unread", "solve", graph, "--budget", 7, "--strategy", "keep-all")[0] == 1


@pytest.mark.parametrize("how", few(["unread", pytest.param("full", marks=pytest.mark.slow)], keep=0))
def test_a_search_ends_with_its_reader_unless_it_has_a_file_to_write(tmp_path, how):
    graph, output = tmp_path / "hard.json", tmp_path / "o.json"
    write_graph(hard_graph(), graph)
    words = ["solve", graph, "--budget", 0.9, "--search", "only", "--json-stream"]
    status, _, err = ended(1, how, *words)
    expected = {2} if how == "full" else {0, 1}  # there may be a schedule by then, or none
    assert status in expected and "Traceback" not in err and err.count("incumbent") < 3
    ended(1, how, *words, "--until-gap", "1%", "--output", output)
    assert not load_json(output)["interrupted"] and load_json(output)["gap_percent"] <= 1
