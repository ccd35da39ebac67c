"""Plans as C: the header compiles as C99 and as C++, and the example that carries it out reads what was written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platform_support import DIAMOND, PLAN
from strategies import graphs, valid_sequences

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c_header import c_header
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "run_plan.c"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def run(header, folder, *options):
    """What the example prints, and its exit status."""
    (folder / "plan.h").write_text(header)
    built = subprocess.run(
        ["cc", *options, "-I", folder, EXAMPLE, "-o", folder / "run"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([folder / "run"], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def small(alignment=8):
    """a b a c d of the diamond."""
    plan = RuntimePlan.of(DIAMOND, plan_of_sequence((0, 1, 0, 2, 3)))
    return placed(plan, alignment, Effort(0.2))


def large():
    """A chain whose second half reads the first one backwards, outputs of many sizes, most computed twice."""
    n = 40
    edges = [(v, v + 1) for v in range(n - 1)] + [(v, n - 1 - v) for v in range(n // 2 - 1)]
    sizes = [1 + 997 * v % 1789 for v in range(n)]
    graph = ComputationGraph([f'"n\\{v}?' for v in range(n)], [1] * n, sizes, edges, name="U\u00e9 */")
    back = [w for v in range(n // 2, n) for w in ([*range(n - 1 - v + 1)] if n // 2 < v else []) + [v]]
    return placed(RuntimePlan.of(graph, plan_of_sequence((*range(n // 2), *back))), 64, Effort(0.2))


@needs_cc
@pytest.mark.parametrize("options", [("-std=c99", *STRICT), ("-x", "c++", "-std=c++11", *STRICT)])
@pytest.mark.parametrize("plan", [small, large])
def test_reads_are_what_was_written(plan, options, tmp_path):
    plan = plan()
    status, told = run(c_header(plan), tmp_path, *options)
    assert (status, f"{len(plan.steps)} steps in" in told) == (0, True), told


@needs_cc
def test_copies_between_memories(tmp_path):
    plan = placed(RuntimePlan.of(DIAMOND, PLAN, ("local", "slow")), 4, Effort(0.2))
    status, told = run(c_header(plan), tmp_path, "-std=c99", *STRICT)
    assert (status, told) == (0, f"6 steps in {16 + 8} bytes: all reads are what was written\n")


@needs_cc
@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("offset", 1, 0, "what it reads is not what was written"), ("offset", 1, 9, "misaligned"),
        ("arena_size", 0, 8, "outside of its arena"),
    ],
)  # fmt: skip
def test_the_example_sees_what_is_wrong(name, place, value, message, tmp_path):
    """Of an offset where another copy is, or between, of an arena that is too small."""
    header = c_header(small())
    found = re.search(rf"plan_{name}\[\d+\] = \{{.*?\n(.*?)\n\}};", header, re.S)[1]
    values = found.split()
    values[place] = f"{value},"
    status, told = run(header.replace(found, " ".join(values)), tmp_path, "-std=c99")
    assert status == 1 and message in told


def test_an_arena_holds_outputs_that_a_recomputation_drops(command, tmp_path):
    """Made again for its first output, the operation writes the other one too: 40 + 80 B, and more for what is kept."""
    graph = ComputationGraph(
        ["x", "split", "left", "a", "b", "d", "c"], [1, 1, 0, 1, 1, 1, 1], [4, 40, 80, 2, 110, 4, 4],
        [("x", "split"), ("split", "a"), ("left", "a"), ("a", "b"), ("b", "d"), ("d", "c"), ("split", "c")],
        output_of=[None, None, 1, None, None, None, None],
    )  # fmt: skip
    file, plan, header = (tmp_path / name for name in ("graph.json", "plan.json", "plan.h"))
    write_graph(graph, file)
    budget = simulate(graph, (0, 1, 2, 3, 4, 5, 1, 2, 6)).peak
    assert command("solve", file, "--budget", budget, "-o", plan, "--time-limit", 5, "--search", "only")[0] == 0
    assert json.loads(plan.read_text())["sequence"] == ["x", "split", "left", "a", "b", "d", "split", "c"]
    status, out, _ = command("deploy", "c-header", plan, "-o", header, "--time-limit", 2)
    assert status == 0 and out.endswith(f"9 steps, memory {budget} bytes\n")


@given(st.data())
def test_arrays_say_what_the_plan_says(data):
    graph = data.draw(graphs())
    actions = plan_of_sequence(data.draw(valid_sequences(graph)))
    offsets, top = [], 0
    for action in actions:
        offsets.append(top)
        top += graph.sizes[action.node]
    plan = RuntimePlan.of(graph, actions, offsets=offsets)
    header = c_header(plan, "my")
    arrays = dict(re.findall(r"static const u?int(?:32|64)_t my_(\w+)\[\d+\] = \{.*?\n(.*?)\n\};", header, re.S))
    told = {name: [int(value.strip(" u,l\n")) for value in text.split(",")[:-1]] for name, text in arrays.items()}
    begins = told["read_begin"]
    assert [told["read"][a:b] for a, b in zip(begins, begins[1:], strict=False)] == [[*of.reads] for of in plan.steps]
    for name in ("offset", "size", "end", "memory"):
        assert told[name] == [getattr(step, name) for step in plan.steps]
    nodes = re.search(r"my_node_name\[\d+\] = \{\n(.*?)\n\};", header, re.S)[1]
    names = [
        re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1], 8)]), text.encode()).decode()
        for text in re.findall(r'"(.*?)",', nodes)
    ]
    assert [names[v] for v in told["node"]] == [str(step.node) for step in plan.steps]


def test_large_numbers_take_64_bits():
    graph = ComputationGraph(["a", "b"], [1, 1], [3 * 2**30, 2**33], [(0, 1)], size_unit="byte")
    header = c_header(RuntimePlan.of(graph, plan_of_sequence((0, 1)), offsets=[0, 3 * 2**30]))
    assert "uint64_t plan_size[2]" in header and " 3221225472u, 8589934592ull," in header
    assert "uint32_t plan_offset[2]" in header


@pytest.mark.parametrize(
    ("plan", "prefix", "message"),
    [
        (RuntimePlan.of(DIAMOND, PLAN, ("local", "slow")), "plan", "the plan has no offsets"),
        (replace(RuntimePlan.of(DIAMOND, PLAN, ("a", "b"), [0, 0, 8, 12, 0, 8]), size_unit="KiB"), "plan", "'KiB'"),
        (RuntimePlan.of(DIAMOND, PLAN, ("a", "b"), [0, 0, 8, 12, 0, 8]), "3d", "prefix '3d'"),
    ],
)
def test_what_is_no_header_is_refused(plan, prefix, message):
    with pytest.raises(InputError, match=message):
        c_header(plan, prefix)


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_c_header_command_writes_a_header(command, tmp_path):
    graph, plan, header = (tmp_path / name for name in ("graph.json", "plan.json", "plan.h"))
    write_graph(DIAMOND, graph)
    effort = ("--time-limit", 1, "--threads", 1)
    assert command("deploy", "c-header", graph, "--budget", "100%", "-o", header, *effort)[0] == 0
    assert "#define PLAN_STEPS 4" in header.read_text()
    assert command("solve", graph, "--budget", "100%", "--search", "only", *effort, "--output", plan)[0] == 0
    status, out, _ = command("deploy", "c-header", plan, "-o", header, "--alignment", 16, *effort)
    assert status == 0 and "#define PLAN_ALIGNMENT 16" in header.read_text() and "4 steps, memory" in out
    for arguments, message in (
        ((graph, "-o", header), "no plan for runtimes; of a graph one is made within --budget"),
        ((plan, "--budget", 3, "-o", header), "--budget is for a graph"),
        ((graph, "--order", "free", "-o", header), "--order is for a search: give --budget as well"),
        ((plan, "--search", "only", "-o", header), "--search is for a search: give --budget as well"),
        ((plan, "-o", plan), "is the plan, and would be lost"),
    ):
        before = header.read_bytes()
        status, _, err = command("deploy", "c-header", *arguments)
        assert status == 2 and message in err and len(err.splitlines()) == 1 and header.read_bytes() == before
    status, out, err = command("deploy", "c-header", graph, "--budget", 3, "-o", header, *effort)
    assert (status, out, err.startswith("no schedule: "), len(err.splitlines())) == (1, "", True, 1)
    assert header.read_bytes() == before
    document = json.loads(plan.read_text())
    document["intervals"][0]["size"] = 7
    plan.write_text(json.dumps(document))
    assert "arena" not in document and command("deploy", "c-header", plan, "-o", header, *effort)[0] == 0


def test_a_header_has_what_is_read_as_one():
    graph = ComputationGraph(
        tuple("abcd"), (1,) * 4, (8, 16, 8, 4), [(0, 3), (1, 3), (2, 3)], adjacent=[(), (), (), [(2, 0)]]
    )
    plan = placed(RuntimePlan.of(graph, plan_of_sequence((0, 1, 2, 3))), 8, Effort(0.2))
    assert plan.steps[0].offset == plan.steps[2].offset + 8
    text = c_header(plan)
    found = re.search(r"plan_behind\[3\] = \{[^}]*\*/\s*([^}]*)\}", text)
    assert found is not None and [int(value) for value in found[1].replace(",", " ").split()] == [2, -1, -1]
    assert "plan_behind" not in c_header(small())
