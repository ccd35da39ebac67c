"""Pictures as text, read back and held against the judge's intervals."""

from __future__ import annotations

import json

from drawing import random_picture, sequence_of
from hypothesis import given
from hypothesis import strategies as st
from tiny_graphs import CHAIN, U_SHAPE

from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.generators.families import chain
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Action, Link, Memory, Platform
from moccasin_mzn.report.plots.files import render_text
from moccasin_mzn.report.plots.picture import Picture

DRAWN = """\
graph: 6 nodes, 1 recomputation
duration increase (TDI) 16.667 %, peak 3
/ budget 3
1 computed, 2 recomputed, = kept

     0 1=   2=
     1  1===
     2   1=
     3    1=
     4     1==
     5       1
memory ▂▄▄▆▆▄▆
"""


def test_text_plot_of_a_schedule(command, tmp_path):
    graph, schedule = tmp_path / "graph.json", tmp_path / "schedule.json"
    write_graph(U_SHAPE, graph)
    schedule.write_text(json.dumps({"sequence": [0, 1, 2, 3, 4, 0, 5], "budget": 3}))
    assert command("plot", graph, schedule) == (0, DRAWN, "")
    told = "error: --by stage is for files: text counts events\n"
    assert command("plot", graph, schedule, "--by", "stage") == (2, "", told)


@given(st.builds(random_picture, st.integers(0, 10**6), st.integers(0, 8), st.just("event")))
def test_what_is_drawn_are_the_intervals(picture):
    drawn = []
    width = 1 + max(6, *(len(str(node)) for node in picture.graph.nodes))
    lines = render_text(picture).partition("\n\n")[2].splitlines()
    for node, line in zip(picture.order, lines[:-1], strict=True):
        row = line[width:]
        starts = [at for at, character in enumerate(row) if character.isdigit()]
        assert [int(row[at]) for at in starts] == list(range(1, len(starts) + 1))
        drawn += [(node, at + 1, at + len(row[at + 1 :]) - len(row[at + 1 :].lstrip("=")) + 1) for at in starts]
    found = simulate(picture.graph, sequence_of(picture)).intervals
    assert sorted(drawn) == sorted((each.node, each.start, each.end) for each in found)


def test_text_plot_distinguishes_copies():
    memories = (Memory("fast", 7, CHAIN.durations), Memory("slow", None, (None,) * 3))
    links = (Link(0, 1, (1,) * 3, (0,) * 3), Link(1, 0, (1,) * 3, (0,) * 3))
    plan = (Action(0, 0), Action(0, 1, 0), Action(1, 0), Action(2, 0))
    lines = render_text(Picture(Platform(CHAIN, memories, links), plan, (0, 1, 2))).splitlines()
    assert "1 computed, 2 recomputed, = kept, c copied" in lines
    assert lines[lines.index("slow") + 1] == "     0  c"


def test_large_ones_are_drawn_narrower_and_with_fewer_rows():
    graph = chain(200, seed=0, unit=True)
    order = graph.input_order()
    lines = render_text(Picture.of_schedule(graph, (*order[:201], 0, *order[201:]), order)).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[-2].endswith("... 400 nodes more") and lines[-3].lstrip().startswith("0 (0) 1")
