"""Buffers in minimalloc's CSV, and the commands that give and check offsets."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from address_cases import buffer_sets
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.machine.addresses.allocate import first_fit
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.files.buffers import buffers_text, parse_buffers
from moccasin_mzn.problem.files.schedules import read_schedule
from moccasin_mzn.problem.judges.schedules import simulate

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
"""Of minimalloc's documentation, which gives it an arena of 12."""


@given(buffer_sets(), st.booleans())
def test_buffer_files_are_read_back(buffers, placed):
    apart = tuple(itertools.accumulate((b.size + 24 for b in buffers), initial=0))[:-1]  # 24: of all alignments
    offsets = tuple(24 * -(-at // 24) for at in apart) if placed else None
    read = parse_buffers(buffers_text(buffers, offsets), "x.csv")
    assert read == (tuple(map(at_offset, buffers, offsets)) if placed else buffers)


def at_offset(buffer: Buffer, offset: int) -> Buffer:
    return replace(buffer, offset=offset)


def test_names_of_columns_are_those_of_minimalloc():
    assert parse_buffers("size,buffer_id,start,end\n4,b,2,7\n", "x") == (Buffer("b", 2, 8, 4),)
    assert parse_buffers("buffer,begin,upper,size,alignment\nb,2,7,4,8\n", "x") == (Buffer("b", 2, 7, 4, 8),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.csv: the file is empty"),
        ("id,lower,upper\n", 'x.csv: column "size" is missing'),
        ("id,lower,upper,size,hints\n", "x.csv: column 'hints' is not supported, expected some of id, lower"),
        ("id,lower,start,upper,size\n", 'x.csv: column "lower" is given twice'),
        (EXAMPLE + "b6,1,2\n", "x.csv: line 7: 3 fields, the header has 4"),
        (EXAMPLE + "b5,1,2,3\n", "x.csv: line 7: buffer b5 is given twice"),
        (EXAMPLE + "b6,2,2,3\n", "x.csv: line 7: buffer b6: lifespan from 2 to before 2 is empty"),
        (EXAMPLE + "b6,1,2,3.5\n", "x.csv: line 7: size '3.5' is not an integer"),
        (EXAMPLE + "b6,1,2,-3\n", "x.csv: line 7: buffer b6: size -3 is not an integer from 0"),
    ],
)
def test_broken_files_are_refused_in_one_line(text, message):
    with pytest.raises(InputError) as refusal:
        parse_buffers(text, "x.csv")
    assert str(refusal.value).startswith(message) and "\n" not in str(refusal.value)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "buffers.csv"
    path.write_text(EXAMPLE)
    return path


def test_allocate_writes_what_it_can_read(command, csv, tmp_path):
    out = tmp_path / "out.csv"
    status, text, _ = command("allocate", csv, "--output", out)
    assert status == 0 and "arena 12" in text and "optimal" in text
    placed = parse_buffers(out.read_text(), out)
    assert Arena(placed, [b.offset for b in placed]).size == 12
    status, text, _ = command("allocate", out, "--json", "--capacity", "12")
    answer = json.loads(text)
    assert (status, answer["arena"], answer["peak"], answer["status"]) == (0, 12, 12, "optimal")
    assert sorted(answer["offsets"]) == ["b1", "b2", "b3", "b4", "b5"]


def test_allocate_reports_that_there_is_no_arena(command, csv, tmp_path):
    out = tmp_path / "out.csv"
    status, _, err = command("allocate", csv, "--capacity", "11", "--output", out)
    assert status == 1 and "1 over the capacity 11" in err and not out.exists()


def test_a_file_is_written_as_it_was_read_but_for_offsets(command, tmp_path):
    read, out = tmp_path / "in.csv", tmp_path / "out.csv"
    read.write_text("hint,buffer,size,begin,end,gaps\n,b1,4,0,2,\n-1, b2,4,3,8,4-5\n7,b3,4,0,8,\n")
    assert command("allocate", read, "--output", out)[0] == 0
    lines, offsets = zip(*(line.rsplit(",", 1) for line in out.read_text().splitlines()), strict=True)
    assert list(lines) == read.read_text().splitlines()
    assert offsets[0] == "offset" and sorted(offsets[1:]) in (["0", "0", "4"], ["0", "4", "4"])
    read.write_text("offset,id,lower,upper,size\n,a,0,2,4\n4,b,1,3,4\n")
    assert command("allocate", read, "--output", out)[0] == 0
    assert out.read_text() == "offset,id,lower,upper,size\n0,a,0,2,4\n4,b,1,3,4\n"


def test_offsets_of_few_buffers_are_printed(command, csv, tmp_path):
    status, text, _ = command("allocate", csv, "--capacity", "1KiB")
    rows = [row for row in map(str.split, text.splitlines()) if len(row) == 5 and row[0].startswith("b")]
    assert status == 0 and [row[0] for row in rows if row[0] != "buffer"] == ["b1", "b2", "b3", "b4", "b5"]
    assert max(int(size) + int(offset) for *_, size, offset in rows) == 12
    assert "offset" not in command("allocate", csv, "--output", tmp_path / "out.csv")[1]


@pytest.mark.parametrize("capacity", ["abc", "0.8", "-1"])
def test_a_capacity_that_is_no_amount_is_refused(command, csv, capacity):
    status, text, err = command("allocate", csv, f"--capacity={capacity}")
    assert (status, text) == (2, "") and "an amount of memory (4096, 512 MiB" in err and err.count("\n") == 1


def test_first_fit_that_is_optimal_loads_nothing_compiled(csv):
    words = f"from moccasin_mzn.cli.main import run; run(['allocate', {str(csv)!r}])"
    code = f"import sys; {words}; print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "optimal after" in out and out.splitlines()[-1] == "False"


@given(buffer_sets(), st.sampled_from([1, 4]))
def test_first_fit_is_an_arena_no_larger_than_asked(buffers, alignment):
    whole = sum(buffer.size + 24 for buffer in buffers)  # 24: of all alignments
    found = first_fit(buffers, alignment, whole)
    assert found is not None and found.bound <= found.size <= whole
    assert first_fit(buffers, alignment, found.bound - 1) is None
    hinted = [replace(buffer, hint=0) for buffer in buffers[:1]]
    assert not hinted or first_fit((*hinted, *buffers[1:]), alignment, whole) is None


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--alignment", 2**64, "alignment 18446744073709551616 is not an integer from 1 to 9007199254740992"),
        ("--alignment", 2**53 + 1, "alignment 9007199254740993 is not an integer from 1 to 9007199254740992"),
        ("--alignment", 2**53, "the buffers take 45035996273704980 in total, aligned, expected less than"),
        ("--seed", 2**64, "seed 18446744073709551616 is not an integer in 0..2147483647"),
        ("--seed", -1, "seed -1 is not an integer in 0..2147483647"),
        ("--threads", 0, "threads 0 is not a positive integer"),
    ],
)
def test_numbers_out_of_range_are_refused(command, csv, tmp_path, option, value, message):
    out = tmp_path / "out.csv"
    status, text, err = command("allocate", csv, option, value, "--output", out)
    assert (status, text, out.exists()) == (2, "", False)
    assert err.startswith(f"error: {message}") and err.count("\n") == 1


@pytest.mark.few(8)
@pytest.mark.parametrize("alignment", [2**64, 2**63, 2**53 + 1, 2**53])
@pytest.mark.parametrize("more", [[], ["--paging", "--page-out-time", "1"], ["--strategy", "dtr"]])
def test_an_alignment_without_room_is_refused_before_the_search(command, graph_file, more, alignment):
    status, out, err = command("solve", graph_file, "--budget", "0.8", "--addresses", "--alignment", alignment, *more)
    assert (status, out) == (2, "") and err.count("\n") == 1  # no line of progress
    assert err.startswith(("error: alignment ", "error: the buffers take "))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXAMPLE.replace("b5", "b4"), "buffer b4 is given twice"),
        ("id,lower,upper,size,offset\na,0,2,2,0\nb,1,3,2,1\n", "buffers a and b overlap at time 1"),
    ],
)
def test_allocate_refuses_in_one_line(command, tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    status, out, err = command("allocate", path)
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1


@pytest.fixture
def graph_file(tmp_path):
    """A chain of 8 whose second half reads the first."""
    chain = [(v, v + 1) for v in range(7)] + [(v, 7 - v) for v in range(3)]
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(range(8), [1] * 8, [4] * 8, chain, range(8)), path)
    return path


def test_a_schedule_with_offsets_is_written_read_and_judged(command, graph_file, tmp_path):
    schedule, buffers = tmp_path / "schedule.json", tmp_path / "buffers.csv"
    solve = (
        "solve",
        graph_file,
        "--budget",
        "0.8",
        "--search",
        "only",
        "--time-limit",
        "3",
        "--addresses",
        "--alignment",
        "4",
    )
    status, text, _ = command(*solve, "--output", schedule, "--buffers", buffers)
    assert status == 0 and "arena" in text and "proven least" in text
    document = json.loads(schedule.read_text())
    assert document["alignment"] == 4 and document["arena"] <= document["budget"]
    graph = read_graph(graph_file)
    claimed = read_schedule(schedule, graph)
    assert claimed.offsets == tuple(interval["offset"] for interval in document["intervals"])
    assert claimed.intervals == simulate(graph, claimed.sequence).intervals
    assert tuple(b.offset for b in parse_buffers(buffers.read_text(), buffers)) == claimed.offsets
    status, text, _ = command("validate", graph_file, schedule)
    count, budget = len(document["intervals"]), document["budget"]
    judged = f"arena {document['arena']} for {count} intervals, no overlap, offsets are multiples of 4"
    assert status == 0 and text.splitlines()[1:] == [f"{judged}, within the budget {budget}"]
    assert command("allocate", buffers)[0] == 0

    document["intervals"][1]["offset"] = document["intervals"][0]["offset"]
    schedule.write_text(json.dumps(document))
    status, text, _ = command("validate", graph_file, schedule)
    assert status == 1 and "overlap at addresses" in text
    assert re.search(r", \d overlaps? found, offsets are multiples of 4", text)


def test_offsets_for_some_intervals_only_are_refused(command, graph_file, tmp_path):
    schedule = tmp_path / "schedule.json"
    command(
        "solve",
        graph_file,
        "--budget",
        "0.8",
        "--search",
        "only",
        "--time-limit",
        "3",
        "--addresses",
        "--output",
        schedule,
    )
    document = json.loads(schedule.read_text())
    del document["intervals"][3]["offset"]
    schedule.write_text(json.dumps(document))
    status, _, err = command("validate", graph_file, schedule)
    assert status == 2 and 'intervals[3]: key "offset" is missing' in err


def test_a_runtime_needs_no_more_than_the_plan(command, graph_file, tmp_path):
    """Runs the plan in a byte array: what is read is what was written, whatever else was written in between."""
    schedule = tmp_path / "schedule.json"
    command(
        "solve",
        graph_file,
        "--budget",
        "0.8",
        "--search",
        "only",
        "--time-limit",
        "3",
        "--addresses",
        "--output",
        schedule,
    )
    plan, graph = json.loads(schedule.read_text()), read_graph(graph_file)
    memory, latest = bytearray(plan["arena"]), {}
    for position, (node, interval) in enumerate(zip(plan["sequence"], plan["intervals"], strict=True), start=1):
        assert (interval["node"], interval["start"]) == (node, position)
        v = graph.position_of(node)
        for u in graph.predecessors[v]:
            at = latest[u]
            assert memory[at : at + graph.sizes[u]] == bytes([u + 1]) * graph.sizes[u]
        latest[v] = interval["offset"]
        memory[latest[v] : latest[v] + graph.sizes[v]] = bytes([v + 1]) * graph.sizes[v]
    assert len(memory) == plan["arena"] <= plan["budget"]


def test_strategies_and_options_that_need_addresses(command, graph_file):
    status, text, _ = command("solve", graph_file, "--budget", "1.0", "--strategy", "keep-all", "--addresses", "--json")
    assert status == 0 and json.loads(text)["arena"] >= json.loads(text)["peak"]
    for option in (("--alignment", "4"), ("--buffers", "x.csv")):
        status, _, err = command("solve", graph_file, "--budget", "0.8", *option)
        assert status == 2 and f"{option[0]} goes with --addresses" in err


LABELS = ("conv", "conv", 'say "no", twice', "a\nb", "conv#2", "", "ReLU", "x,y")
"""Names that repeat, that look like those of later computations, and that CSV has to quote."""


def test_buffers_have_the_names_of_nodes(command, graph_file, tmp_path):
    graph = replace(read_graph(graph_file), labels=LABELS)
    write_graph(graph, graph_file)
    files = tmp_path / "buffers.csv", tmp_path / "schedule.json"
    options = ("--budget", "0.8", "--search", "only", "--time-limit", 3, "--addresses")
    assert command("solve", graph_file, *options, "--buffers", files[0], "--output", files[1])[0] == 0
    sequence = read_schedule(files[1], graph).sequence
    buffers = parse_buffers(files[0].read_text(), files[0])
    assert len(sequence) > len(graph.nodes) and len({buffer.name for buffer in buffers}) == len(buffers)
    counts = Counter()
    for v, buffer in zip(sequence, buffers, strict=True):
        counts[v] += 1
        assert buffer.name == node_text(graph, v) + (f"#{counts[v]}" if counts[v] > 1 else "")
    moved = tmp_path / "moved.csv"
    status, out, _ = command("allocate", files[0], "--json", "--output", moved)
    assert status == 0 and set(json.loads(out)["offsets"]) == {buffer.name for buffer in buffers}
    assert parse_buffers(moved.read_text(), moved) == buffers  # what is placed stays
    files[0].write_text(buffers_text([replace(buffer, offset=None) for buffer in buffers]))
    assert command("allocate", files[0], "--json", "--output", moved)[0] == 0
    assert [b.name for b in parse_buffers(moved.read_text(), moved)] == [b.name for b in buffers]
