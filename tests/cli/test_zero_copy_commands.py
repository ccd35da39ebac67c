"""Commands without concatenations: what they print, write and refuse."""

from __future__ import annotations

import json
import shutil

import pytest
from concatenations import concatenation

from moccasin_mzn import check_certificate, frontier, read_graph, read_result, solve, validate
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph

QUICK = ("--time-limit", 3, "--threads", 1, "--search", "only")
GRAPH = ComputationGraph(
    tuple("abvwc"), (3, 3, 2, 2, 3), (4, 8, 12, 16, 4), [(0, 2), (1, 2), (2, 3), (0, 3), (3, 4), (1, 4)],
    operators=[None, None, concatenation((0, 1), [(1, 4), (1, 8)]), concatenation((2, 0), [(2, 6), (2, 2)]), None],
)  # fmt: skip
"""v joins a and b; w joins v and a, of two rows, so that it has to copy."""


def test_solve_validate_info_and_frontier_without_concatenations(command, graph, tmp_path):
    plan = tmp_path / "plan.json"
    note = "1 of 2 concatenations taken out; w stays: its inputs alternate in its output\n"
    options = ("--budget", 40, "--zero-copy-concat", "--addresses", "--alignment", 4, *QUICK)
    status, out, err = command("solve", graph, *options, "-o", plan)
    assert status == 0 and err.startswith(note) and "optimal" in out
    document = json.loads(plan.read_text())
    assert document["sequence"] == ["a", "b", "w", "c"] and document["zero_copy_concat"] == 4
    assert document["duration"] == 11 and document["intervals"][2]["adjacent"] == [[1, 2]]
    assert document["intervals"][1]["offset"] == document["intervals"][0]["offset"] + 4
    assert command("validate", graph, plan, "--zero-copy-concat")[0] == 0
    if shutil.which("minizinc"):
        status, out, _ = command("solve", graph, *options, "--check")
        assert status == 0 and out.count("CORRECT") == 2
    status, out, _ = command("validate", graph, plan)
    assert status == 1 and "node v is never computed" in out
    status, out, _ = command("info", graph, "--zero-copy-concat", "--json")
    assert status == 0 and json.loads(out)["nodes"] == 4 and json.loads(out)["read_as_one"] == 1
    status, out, _ = command("info", graph, "--zero-copy-concat")
    assert status == 0 and "reads several outputs as one" in out
    status, out, err = command("frontier", graph, "--zero-copy-concat", "--points", 2, "--json", *QUICK[:4])
    assert status == 0 and note in err
    status, out, err = command("solve", graph, *options[:-2], "--solver", "cp-sat,highs", "--json")
    assert status == 0 and json.loads(out)["zero_copy_concat"] == 4
    assert read_result(GRAPH, plan).sequence == ["a", "b", "w", "c"]


def test_a_graph_without_concatenations_as_a_file(command, graph, tmp_path):
    joined, certificate = tmp_path / "joined.json", tmp_path / "certificate.json"
    status, out, err = command("zero-copy", graph, "--alignment", 4, "-o", joined)
    assert status == 0 and "1 of 2 concatenations taken out" in err and "4 nodes" in out
    made = read_graph(joined)
    assert made.adjacent == ((), (), ((0, 1),), ()) and made.attributes["zero_copy_concat"] == {
        "alignment": 4, "taken_out": {"v": ["a", "b"]}
    }  # fmt: skip
    assert command("solve", joined, "--budget", "100%", *QUICK, "--certificate", certificate)[0] == 0
    assert command("check-certificate", joined, certificate)[0] == 0
    assert command("order", joined, "--time-limit", 1)[0] == 0
    once_more = tmp_path / "once_more.json"
    status, _, err = command("zero-copy", joined, "--alignment", 1, "-o", once_more)
    assert status == 0 and "is taken out: that was done before, for alignment 4" in err
    assert read_graph(once_more).adjacent == made.adjacent
    assert read_graph(once_more).attributes["zero_copy_concat"] == made.attributes["zero_copy_concat"]


def test_a_schedule_of_a_graph_out_of_which_nothing_could_be_taken(command, graph, tmp_path):
    """At multiples of 8 nothing can lie directly behind a, of 4; at those of 1 b can."""
    plan = tmp_path / "plan.json"
    options = ("--budget", 48, "--zero-copy-concat", "--addresses", "--alignment", 8, *QUICK)
    status, _, err = command("solve", graph, *options, "-o", plan)
    assert status == 0 and "0 of 2 concatenations taken out" in err
    assert command("validate", graph, plan, "--zero-copy-concat")[0] == 0 == command("validate", graph, plan)[0]
    assert validate(GRAPH, plan, zero_copy_concat=True).valid and read_result(GRAPH, plan).valid
    assert command("info", graph, "--zero-copy-concat")[2].startswith("1 of 2 concatenations taken out")


def test_certificates_without_concatenations(command, graph, tmp_path):
    """The graph in the file is enough: the checker takes them out itself. So is the graph that zero-copy writes."""
    proof, joined = tmp_path / "proof.json", tmp_path / "joined.json"
    status, _, err = command("solve", graph, "--budget", 40, "--zero-copy-concat", *QUICK, "--certificate", proof)
    assert status == 0 and "proves a bound of 11, which the schedule meets," in err
    status, out, _ = command("check-certificate", graph, proof)
    assert status == 0 and "about: the graph without 1 concatenation (v)\n" in out and "proven: optimal" in out
    assert command("zero-copy", graph, "-o", joined)[0] == 0
    status, out, _ = command("check-certificate", joined, proof)
    assert status == 0 and "proven: optimal" in out and "about" not in out
    solve(GRAPH, 40, zero_copy_concat=True, certificate=proof, threads=1)
    assert check_certificate(GRAPH, proof).about == "without 1 concatenation (v)"
    document = json.loads(proof.read_text())
    document["about"]["taken_out"].append("w")
    proof.write_text(json.dumps(document))
    status, out, err = command("check-certificate", graph, proof)
    assert (status, out) == (2, "") and "about.taken_out: w: its inputs are not its output, byte by byte" in err


@pytest.mark.parametrize(
    ("option", "content", "where"),
    [
        ("--order", '["a", "b", "v", "w", "c"]', "order[2]"),
        ("--order", "a\nb\nv\nw\nc\n", "line 3"),
        ("--max-computations", '{"c": 1, "v": 2}', "given"),
        ("--warm-start", '["a", "b", "v", "w", "c"]', "sequence[2]"),
    ],
)
def test_files_of_the_graph_with_concatenations_are_refused_as_such(option, content, where, command, graph, tmp_path):
    given = tmp_path / "given"
    given.write_text(content)
    status, _, err = command("solve", graph, "--budget", "100%", "--zero-copy-concat", option, given)
    line = err.splitlines()[-1]
    assert status == 2 and f"{where}: node 'v' is not in the graph: --zero-copy-concat took it out" in line
    with pytest.raises(InputError, match=r"order\[2\]: node 'v' is not in the graph: --zero-copy-concat took it out"):
        solve(GRAPH, 40, zero_copy_concat=True, order=["a", "b", "v", "w", "c"])
    with pytest.raises(InputError, match="node 'x' is not in the graph$"):
        solve(GRAPH, 40, zero_copy_concat=True, order=["a", "b", "x", "w", "c"])


def test_a_schedule_of_the_other_graph_is_named(command, graph, tmp_path):
    """Of the graph with concatenations, or of the one without."""
    plan = tmp_path / "plan.json"
    assert command("solve", graph, "--budget", "100%", *QUICK, "-o", plan)[0] == 0
    status, _, err = command("validate", graph, plan, "--zero-copy-concat")
    assert status == 2 and err.splitlines()[-1].startswith(
        f"error: {plan}: sequence[2]: node 'v' is not in the graph: "
    )
    assert command("solve", graph, "--budget", "100%", "--zero-copy-concat", *QUICK, "-o", plan)[0] == 0
    status, out, _ = command("validate", graph, plan)
    note = "note: the schedule was made with --zero-copy-concat (alignment 1), this graph without --zero-copy-concat"
    assert status == 1 and out.splitlines()[-1] == note


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("solve", "--tile", 1, "--budget", 40),
            "taking out concatenations is for whole layers: leave out --zero-copy-concat or --tile",
        ),
        (
            ("frontier", "--tile", 1),
            "taking out concatenations is for whole layers: leave out --zero-copy-concat or --tile",
        ),
    ],
)
def test_what_has_concatenations_is_refused(arguments, message, command, graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *options = arguments
    status, _, err = command(name, graph, "--zero-copy-concat", *options)
    assert status == 2 and message in err and len(err.splitlines()) == 1


def test_python_without_concatenations():
    result = solve(GRAPH, 40, zero_copy_concat=True, addresses=True, alignment=4, threads=1, time_limit=5)
    assert result.graph.nodes == tuple("abwc") and "1 of 2 concatenations taken out" in result.notes[0]
    paged = solve(GRAPH, 40, zero_copy_concat=True, paging={"out_time": 1}, addresses=True, threads=1, time_limit=5)
    assert paged.valid and paged.graph.nodes == tuple("abwc") and paged.duration == result.duration
    found = frontier(GRAPH, points=2, zero_copy_concat=True, threads=1, time_limit=5)
    assert max(point.duration for point in found.points) == 11
    with pytest.raises(
        InputError, match="taking out concatenations is for whole layers: leave out zero_copy_concat or tile"
    ):
        frontier(GRAPH, zero_copy_concat=True, tile=1)
