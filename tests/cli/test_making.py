"""The commands that make graph files: generate, reduce, convert; records of how, and units."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.generators.families import chain, logarithm, random_dag, u_shaped
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.program import parse_peak, profiled, scaled
from moccasin_mzn.problem.judges.schedules import simulate

FAMILIES = (
    ["layered", "-n", "30", "--seed", "5", "--width", "0.4"],
    ["u-shaped", "-n", "12", "--seed", "5", "--longest", "9", "--shrink", "0.5"],
    ["chain", "-n", "6", "--seed", "5", "--inference"],
    ["random-dag", "-n", "9", "--seed", "5", "--edges", "20"],
    ["network", "unet", "--batch", "2", "--input", "32", "32", "1", "--set", "depth=2", "--training"],
)


@pytest.mark.parametrize("arguments", FAMILIES)
def test_the_record_makes_the_same_bytes_again(command, tmp_path, arguments):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    status, out, err = command("generate", *arguments, "--output", first)
    assert (status, err) == (0, "")
    assert out.startswith(f"{first}: ")
    record = read_graph(first).attributes["made_by"]
    assert record["versions"].keys() == {"moccasin_mzn"}
    words = record["command"].split()
    assert words[:2] == ["moccasin-mzn", "generate"]
    assert command(*words[1:], "--output", second)[0] == 0
    assert first.read_bytes() == second.read_bytes()


def test_without_an_output_the_file_goes_to_stdout(command, tmp_path):
    status, out, err = command("generate", "chain", "-n", "3", "--unit")
    assert status == 0
    assert json.loads(out)["graph"]["name"] == "chain, 3 layers, training"
    assert err.startswith("stdout: 7 nodes, 11 edges, outputs 10, peak ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layered", "-n", "1"], "n is 1, expected an integer of 2 or more"),
        (["layered", "-n", "9", "--width", "nan"], "width is nan, expected a number from 0 to 1"),
        (["u-shaped", "-n", "9", "--shortest", "5", "--longest", "4"], "longest is 4, expected an integer not below"),
        (["chain", "-n", "0"], "n is 0, expected an integer of 1 or more"),
        (["random-dag", "-n", "3", "--edges", "4"], "edges is 4, but 3 nodes have only 3 pairs"),
        (["random-dag", "-n", "1000000", "--edges", "100000000"], "100000000 edges are over the limit of 20000000"),
        (["layered", "-n", "300000"], "edges are over the limit of 20000000"),
        (["layered", "-n", "100000000000"], "n is 100000000000, over the limit of 5000000"),
        (["network", "resnte50"], "there is no network 'resnte50' (did you mean resnet50?)"),
        (["network", "unet", "--set", "deph=3"], "unet: there is no parameter 'deph' (did you mean depth?)"),
        (["network", "unet", "--set", "batch=3"], "unet: there is no parameter 'batch'"),
        (["network", "unet", "--set", "depth=x"], "--set 'depth=x': expected NAME=N with an integer N"),
        (["network", "unet", "--set", "depth=1", "--set", "depth=2"], "--set 'depth' is given twice"),
        (["network", "unet", "--set", "a\nb"], "--set 'a\\nb': expected NAME=N"),
        (["layered", "-n", "9", "--width", "0.3", "--layer-width", "3"], "set the same thing: give one of them"),
        (["layered", "-n", "-100", "--layer-width", "10"], "n is -100, expected an integer of 2 or more"),
        (["layered", "-n", "100", "--layer-width", "inf"], "nodes of a layer are inf, expected a number over 0"),
        (["layered", "-n", "100", "--width", "1e-320"], "width is 1e-320, expected a number from 1e-09"),
        (["random-dag", "-n", "9", "--largest", "1" + "0" * 400], "of that size are over the limit"),
        (["network", "unet", "--scale", "-3"], "peak '-3': expected operations per second"),
        (["network", "unet", "--batch", "0"], "batch is 0"),
        (["network"], "which network? this lists them: moccasin-mzn generate network --list"),
        (["network", "unet", "--optimizer", "adam"], "there is no optimizer without training"),
    ],
)
def test_generate_rejects_wrong_options_in_one_line(command, tmp_path, arguments, message):
    path = tmp_path / "there.json"
    path.write_text("kept")
    status, out, err = command("generate", *arguments, "--output", path)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err
    assert path.read_text() == "kept"


def test_networks_are_listed(command):
    status, out, _ = command("generate", "network", "--list")
    assert status == 0
    assert all(name in out for name in ("vgg16", "resnet50", "nasnet-large", "transformer", "depth=4"))


def test_scale_turns_operations_into_nanoseconds(command, tmp_path):
    flop, ns = tmp_path / "flop.json", tmp_path / "ns.json"
    command("generate", "network", "mobilenet", "-o", flop)
    assert command("generate", "network", "mobilenet", "--scale", "2.5G", "-o", ns)[0] == 0
    before, after = read_graph(flop), read_graph(ns)
    assert after.duration_unit == "ns"
    assert after.durations == tuple(-(-duration * 2 // 5) for duration in before.durations)


@pytest.mark.parametrize(("text", "peak"), [("19.5T", 19_500_000_000_000), ("1e3", 1000), ("2", 2), ("1.5 k", 1500)])
def test_scale_reads_peaks(text, peak):
    assert parse_peak(text) == peak


@pytest.mark.parametrize("text", ["", "0", "T", "-1", "nan", "inf", "1e", "1X", "1e999", "9" * 50])
def test_scale_rejects_wrong_peaks(text):
    with pytest.raises(InputError, match="expected operations per second"):
        parse_peak(text)


def test_time_cannot_be_scaled():
    graph = ComputationGraph(["a"], [1], [1], [], duration_unit="ns")
    with pytest.raises(InputError, match="durations are in 'ns'"):
        scaled(graph, Fraction(1))


def test_measured_durations_must_be_all():
    graph = ComputationGraph(["a", "b"], [1, 1], [1, 1], [])
    assert profiled(graph, {"a": 3, "b": 0, "c": 1}).durations == (3, 0)
    with pytest.raises(InputError, match="1 node not measured, such as b"):
        profiled(graph, {"a": 3})


def test_reduce_reports_what_it_merged_and_keeps_the_record(command, tmp_path):
    whole, reduced = tmp_path / "-whole.json", tmp_path / "reduced.json"
    command("generate", "network", "resnet50", "--batch", "1", "-o", whole)
    status, _, err = command("reduce", "--elementwise", "*_out", "-o", reduced, "--", whole)
    assert (status, err) == (0, "176 nodes became 82\n")
    graph = read_graph(reduced)
    assert graph.total_duration == read_graph(whole).total_duration
    record = graph.attributes["made_by"]
    assert record["command"] == "moccasin-mzn reduce --elementwise '*_out' -- -whole.json"
    assert record["before"]["command"] == "moccasin-mzn generate network resnet50 --batch 1"


@pytest.mark.parametrize("assumed", [5, None, "hello", [3, "two\nlines"]])
def test_assumptions_written_by_others_are_read(command, tmp_path, assumed):
    source, foreign = tmp_path / "a.json", tmp_path / "a.graphml"
    graph = replace(chain(2, 0), attributes={"assumed": assumed})
    source.write_text(graph_text(graph))
    assert command("reduce", source)[0] == 0
    assert command("convert", source, "--to", "graphml", "-o", foreign)[0] == 0
    status, _, err = command("import", "graphml", foreign, "-o", tmp_path / "b.json")
    assert status == 0
    assert err.splitlines() == (["note: 3", r"note: 'two\nlines'"] if isinstance(assumed, list) else [])


@pytest.mark.parametrize("form", ["graphml", "dot", "onnx"])
def test_an_import_never_replaces_its_file(command, tmp_path, form):
    source, foreign = tmp_path / "a.json", tmp_path / "a"
    command("generate", "chain", "-n", "2", "-o", source)
    command("convert", source, "--to", "dot" if form == "onnx" else form, "-o", foreign)
    link, before = tmp_path / "link", foreign.read_bytes()
    link.symlink_to(foreign)
    status, out, err = command("import", form, foreign, "-o", link)
    assert (status, out, err) == (2, "", f"error: {link}: is the file to import, and would be lost\n")
    assert foreign.read_bytes() == before


def test_what_was_assumed_of_durations_is_gone_once_they_are_measured():
    assumed = ["duration unknown, 1 taken: a", "size unknown, 2 bytes taken: a"]
    graph = ComputationGraph(["a"], [1], [1], [], attributes={"assumed": assumed})
    assert profiled(graph, {"a": 3}).attributes == {"assumed": assumed[1:]}


def test_the_output_is_checked_before_the_work(command, tmp_path):
    missing = tmp_path / "nowhere" / "g.json"
    for arguments in (["generate", "layered", "-n", "100000"], ["import", "onnx", "x"], ["reduce", "x"]):
        status, _, err = command(*arguments, "-o", missing)
        assert status == 2
        assert err == f"error: {missing}: there is no folder {missing.parent}\n"


def test_what_is_no_regular_file_is_written_to(command, tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert command("generate", "chain", "-n", "2", "-o", pipe)[0] == 0
    reader.join()
    assert json.loads(read[0])["graph"]["name"] == "chain, 2 layers, training, seed 0"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_keeps_its_mode(command, tmp_path):
    path = tmp_path / "g.json"
    path.write_text("")
    path.chmod(0o640)
    command("generate", "chain", "-n", "2", "-o", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_in_one_line():
    command = [sys.executable, "-m", "moccasin_mzn", "generate", "chain", "-n", "2000"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "error: stdout: No space left on device\n"


def test_a_pipe_is_read_once(command, tmp_path):
    source, pipe, back = tmp_path / "a.json", tmp_path / "pipe", tmp_path / "b.json"
    command("generate", "chain", "-n", "2", "-o", source)
    command("convert", source, "--to", "dot", "-o", tmp_path / "a.dot")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes((tmp_path / "a.dot").read_bytes()))
    writer.start()
    assert command("import", "dot", pipe, "-o", back)[0] == 0
    writer.join()
    assert read_graph(back).attributes["made_by"]["source"] == {"file": "pipe"}


@pytest.mark.parametrize("form", ["json", "graphml", "dot"])
def test_convert_and_read_back(command, tmp_path, form):
    source, target = tmp_path / "a.json", tmp_path / "b"
    command(
        "generate", "network", "unet", "--input", "32", "32", "1", "--training", "--optimizer", "adam", "-o", source
    )
    assert command("convert", source, "--to", form, "-o", target)[0] == 0
    assert read_graph(target) == read_graph(source)
    assert read_graph(target).attributes == read_graph(source).attributes


@pytest.mark.parametrize("form", ["graphml", "dot"])
def test_import_of_a_graph_file_keeps_its_digest(command, tmp_path, form):
    source, foreign, back = tmp_path / "a.json", tmp_path / f"a.{form}", tmp_path / "b.json"
    command("generate", "chain", "-n", "3", "-o", source)
    command("convert", source, "--to", form, "-o", foreign)
    assert command("import", form, foreign, "-o", back)[0] == 0
    graph = read_graph(back)
    record = graph.attributes["made_by"]
    assert graph == replace(read_graph(source), attributes=graph.attributes)
    assert record["before"] == read_graph(source).attributes["made_by"]
    assert record["command"] == f"moccasin-mzn import {form} a.{form}"
    assert record["source"]["file"] == f"a.{form}" and len(record["source"]["sha256"]) == 64


# --- families ----------------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(0, 99))
def test_a_chain_without_backward_pass_needs_its_largest_step(n, seed):
    graph = chain(n, seed, training=False)
    assert simulate(graph, graph.order).peak == graph.largest_working_set().memory
    assert len(chain(n, seed).nodes) == 2 * n + 1


@given(st.integers(2, 40), st.integers(0, 99), st.integers(2, 10), st.integers(0, 30), st.floats(0, 1))
def test_u_shaped_graphs(n, seed, shortest, more, shrink):
    graph = u_shaped(n, seed, shortest=shortest, longest=shortest + more, shrink=shrink)
    skips = [head - tail for tail, head in graph.edges if head - tail > 1]
    expected = [n - 1 - 2 * v for v in range(n // 2) if shortest <= n - 1 - 2 * v <= shortest + more]
    assert skips == expected
    assert all(tail + head == n - 1 for tail, head in graph.edges if head - tail > 1)
    assert all(1 <= size <= 999 for size in graph.sizes)


@given(st.integers(1, 12), st.integers(0, 99), st.data())
def test_random_dags_have_the_edges_requested(n, seed, data):
    edges = data.draw(st.integers(0, n * (n - 1) // 2))
    assert len(random_dag(n, seed, edges=edges).edges) == edges


def test_random_dags_are_uniform():
    counts: dict[tuple[int, int], int] = {}
    for seed in range(600):
        for edge in random_dag(5, seed, edges=3).edges:
            counts[edge] = counts.get(edge, 0) + 1
    assert len(counts) == 10
    assert all(120 < count < 240 for count in counts.values())  # 180 expected, deviation 11


def test_logarithms_are_exact_to_the_last_bits():
    import numpy

    values = numpy.concatenate([numpy.geomspace(1e-300, 1e300, 10_001), numpy.linspace(0.4, 2.1, 10_001)])
    assert numpy.abs(logarithm(values) - numpy.log(values)).max() <= 2.3e-13  # ulp of log 1e300
    near = values[10_001:]
    assert numpy.abs(logarithm(near) - numpy.log(near)).max() <= 2.3e-16
    assert logarithm(numpy.array([1.0, 2.0])).tolist() == [0.0, 0.6931471805599453]


def test_a_budget_for_fixed_memory_too(command, tmp_path):
    path, graph = tmp_path / "g.json", chain(3, 0)
    path.write_text(graph_text(replace(graph, fixed_memory={"parameters": 10_000})))
    peak = simulate(graph, graph.order).peak
    enough = ["--budget", str(10_000 + peak), "--count-fixed", "--json"]
    status, out, _ = command("solve", path, *enough)
    answer = json.loads(out)
    assert (status, answer["status"], answer["budget"], answer["fixed_memory"]) == (0, "optimal", peak, 10_000)
    status, out, _ = command("compare", path, *enough, "--only", "keep-all")
    assert json.loads(out)["budget_amount"] == peak

    status, out, _ = command("solve", path, "--budget", "9000", "--count-fixed")
    assert status == 1
    assert "over the budget -1,000, which fixed memory of 10,000 leaves" in out
