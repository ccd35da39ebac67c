"""Pictures of plans: a panel for each memory, in both forms, against the judge's account of the same plan."""

from __future__ import annotations

import json

import pytest
from drawing import KINDS, SVG, corners, figure, groups
from paging_cases import draw_problem

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.files.plans import read_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.report.plots.interactive import render as render_page
from moccasin_mzn.report.plots.picture import COLOURS, Picture
from moccasin_mzn.report.plots.picture import KINDS as NAMES
from moccasin_mzn.report.plots.static import render

PAGING = ("--budget", 3, "--paging", "--page-out-time", 0)
DEVICES = ("--device", "gpu=3", "--device", "cpu=100%:4", "--copy-time", 0.1)
EFFORT = ("--time-limit", 20, "--threads", 1, "--seed", 1, "--search", "only", "--until-gap", "99%")


@pytest.fixture
def graph_file(tmp_path):
    """A U-shaped chain of six nodes, peak 4, of which a budget of 3 needs a copy."""
    edges = [(0, 1), (0, 5), (1, 2), (1, 4), (2, 3), (3, 4), (4, 5)]
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(range(6), [9] * 6, [1] * 6, edges, name="U"), path)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize("question", [PAGING, DEVICES], ids=["paging", "devices"])
def test_solve_draws_the_plan_it_finds_and_plot_draws_its_file(tmp_path, command, graph_file, question):
    svg, plan, page = (tmp_path / name for name in ("a.svg", "plan.json", "a.html"))
    status, _, errors = command("solve", graph_file, *question, *EFFORT, "--plot", svg, "--output", plan)
    assert status == 0 and f"picture: {svg}\n" in errors
    assert command("plot", graph_file, plan, "-o", tmp_path / "again.svg") == (0, "", "")
    assert (tmp_path / "again.svg").read_bytes() == svg.read_bytes()
    assert command("plot", graph_file, plan, "-o", page) == (0, "", "")

    claimed = read_plan(plan, read_graph(graph_file))
    judged = judge_plan(claimed.platform, claimed.plan)
    drawn, (traces, layout) = groups(svg.read_bytes()), figure(page.read_text())
    texts = {text.text for group in drawn.values() for text in group.iter(f"{SVG}text")}
    assert judged.traffic > 0
    for m, memory in enumerate(claimed.platform.memories):
        suffix, held = f"-{m + 1}" if m else "", [i for i in judged.intervals if i.memory == m]
        bars = {kind: len(corners(drawn.get(f"bars-{kind}{suffix}"))) for kind in NAMES}
        assert sum(bars.values()) == len(held)
        copied = [i for i in held if i.source is not None]
        assert bars["copied"] == len(copied)
        read = [i for i in judged.intervals if i.source == m]
        for name, count in (("copies-in", len(copied)), ("copies-out", len(read))):
            assert len(list(drawn[f"{name}{suffix}"].iter(f"{SVG}use"))) == count if count else True
            assert bool(count) == (f"{name}{suffix}" in drawn)
        assert (f"budget{suffix}" in drawn) == (memory.budget is not None)
        assert any(text.startswith(f"{memory.name}: nodes") for text in texts) and f"{memory.name}: memory" in texts

        count = len(claimed.platform.memories)
        rows, axis = f"y{count + m + 1}", f"yaxis{count + m + 1}"
        in_page = [trace for trace in traces if trace["type"] == "bar" and trace["yaxis"] == rows]
        assert sum(len(trace["x"]) for trace in in_page) == len(held)
        assert {trace["marker"]["color"] for trace in in_page if trace["name"] == NAMES["copied"]} <= {
            COLOURS["copied"]
        }
        assert layout[axis]["title"]["text"] == f"{memory.name}: nodes"
        lines = {t["name"]: t for t in traces if t.get("name") and t["yaxis"] == (f"y{m + 1}" if m else "y")}
        assert lines[f"plan, peak {judged.peaks[m]}"]["y"] == [*judged.memory[m], judged.memory[m][-1]]
        if memory.budget is not None:
            assert lines[f"budget {memory.budget}"]["y"] == [memory.budget] * 2


def test_what_a_copy_is_marked_as():
    problem = next(p for p in map(draw_problem, range(100)) if len(p.platform.links) == 2)
    platform, order = problem.platform, problem.instance.order
    first, *rest = order
    plan = (Action(first), Action(first, 1, 0), Action(first, 0, 1), *map(Action, rest), Action(first))
    picture = Picture(platform, plan, order)
    local, slow = picture.panels
    assert [bar.kind for bar in local.bars if bar.node == first] == ["first", "copied", "again"]
    assert [(bar.copy, bar.copies) for bar in picture.bars if bar.node == first] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (slow.order, [bar.kind for bar in slow.bars]) == ((first,), ["copied"])
    assert local.marks["out"] == slow.marks["in"] and [row for _, row in local.marks["out"]] == [local.rows[first]]
    assert local.marks["in"] == slow.marks["out"] == ((2.5, 0),)
    assert [gap.kind for gap in local.gaps] == ["copied", "again"] and slow.gaps == ()
    assert (local.before, slow.before) == (picture.profile_before, None)
    assert picture.stages[:3] == (1, 2, 2)
    assert picture.title.endswith(f": {len(order)} nodes, 1 recomputation, 2 copies".replace("1 nodes", "1 node"))
    texts = [text for trace in figure(render_page(picture))[0] if trace["type"] == "bar" for text in trace["hovertext"]]
    assert sum("copy 2 of 4, from local<br>" in text for text in texts) == 1


@pytest.mark.full
def test_a_memory_that_is_not_used_has_an_empty_panel():
    problem = next(p for p in map(draw_problem, range(100)) if p.platform.memories[1].budget is None)
    picture = Picture(problem.platform, tuple(map(Action, problem.instance.order)), problem.instance.order)
    assert picture.panels[1].bars == ()
    assert not any(f"bars-{kind}-2" in groups(render(picture, "svg")) for kind in KINDS)
    assert "slow: nodes" in render_page(picture)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"plan": [{"compute": 0, "in": "slow"}]}, [], "{plan}: not a plan: position 1: node 0 cannot be computed in"),
        ({"plan": []}, [], "{plan}: not a plan: node 0 is never computed"),
        ({"plan": [{"compute": 0}]}, [], "{plan}: plan[0]: unknown memory None"),
        ({"platform": {}}, [], "{plan}: platform.memories: expected a list"),
        ({}, ["--budget", 3], "--budget: a plan is drawn with the budgets of its memories"),
        ({}, ["--by", "day"], "axis 'day'"),
    ],
)
def test_bad_plans_are_one_line_and_write_nothing(tmp_path, command, graph_file, change, options, message):
    plan, picture = tmp_path / "plan.json", tmp_path / "a.svg"
    assert command("solve", graph_file, *PAGING, *EFFORT, "--output", plan)[0] == 0
    plan.write_text(json.dumps({**json.loads(plan.read_text()), **change}))
    status, out, errors = command("plot", graph_file, plan, "-o", picture, *options)
    assert (status, out) == (2, "") and errors.count("\n") == 1
    assert errors.startswith(f"error: {message.format(plan=plan)}")
    assert not picture.exists()


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, command):
    for question in (PAGING, DEVICES):
        status, _, errors = command("solve", "none.json", *question, "--plot", tmp_path / "a.gif")
        assert status == 2 and "a.gif: expected a name that ends in .png, .svg, .pdf or .html" in errors
