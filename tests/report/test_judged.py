"""Schedules that were made elsewhere or saved before, judged: what Python returns and the command prints."""

from __future__ import annotations

import json

import pytest
from plan_graphs import u_graph

import moccasin_mzn as mz

GRAPH = u_graph()
ASKED = {
    "schedule": {"budget": 6},
    "arena": {"budget": 6, "addresses": True, "alignment": 2},
    "arenas": {"budget": 6, "paging": {"out_time": 1}, "addresses": True, "search": "only", "time_limit": 2},
}
SAME = (
    "valid", "sequence", "positions", "plan", "intervals", "offsets", "arenas", "peaks", "peak", "duration", "budget",
    "budgets",
)  # fmt: skip


@pytest.fixture
def files(tmp_path):
    graph = tmp_path / "graph.json"
    mz.write_graph(GRAPH, graph)
    return graph, tmp_path / "schedule.json"


@pytest.mark.parametrize("asked", ASKED)
def test_a_saved_result_is_read_with_all_it_has(files, asked, tmp_path):
    graph, file = files
    result = mz.solve(GRAPH, **{"time_limit": 20, **ASKED[asked]}, threads=1)
    result.save(file)
    read = mz.read_result(graph, file)
    assert {name: getattr(read, name) for name in SAME} == {name: getattr(result, name) for name in SAME}
    assert (read.records(), read.violations) == (result.records(), ())
    read.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())
    assert "<svg" in read.plot().page or "plotly" in read.plot().page.lower()


def test_what_was_read_is_where_a_search_starts(files):
    graph, file = files
    mz.solve(GRAPH, 6, strategy="dtr").save(file)
    start = mz.read_result(GRAPH, file)
    found = mz.solve(GRAPH, 6, warm_start=start, search="only", time_limit=2)
    assert found.value <= start.duration


def test_a_result_in_place_is_read_in_place(files):
    graph = mz.ComputationGraph(["a", "b", "c"], [1] * 3, [4] * 3, [(0, 1), (1, 2)], in_place=[[], [0], [1]])
    _, file = files
    mz.solve(graph, 4, in_place=True).save(file)
    assert mz.read_result(graph, file).peak == 4


def test_a_file_that_is_not_valid_is_refused(files):
    graph, file = files
    mz.solve(GRAPH, 6).save(file)
    document = json.loads(file.read_text())
    for change, message in (
        ({"budget": 5}, r"position \d+: memory 6 is 1 over the budget 5"),
        ({"sequence": None}, 'expected a key "sequence"'),
        ({"duration": 1}, "duration claimed is 1"),
    ):
        file.write_text(json.dumps({**document, **change}))
        with pytest.raises(mz.InputError, match=f"^{file}: {message}"):
            mz.read_result(graph, file)


@pytest.mark.parametrize("given", ["ids", "positions", "file", "object"])
def test_schedules_are_judged_in_any_form(files, given, command):
    graph, file = files
    order = list(GRAPH.input_order())
    ids = [GRAPH.nodes[v] for v in order]
    file.write_text(json.dumps(ids))
    forms = {"ids": list(map(str, ids)), "positions": order, "file": file, "object": {"sequence": ids}}
    judged = mz.validate(GRAPH, forms[given], 6)
    whole = mz.validate(graph, forms[given])
    assert whole.valid and whole.budget is None and not whole.violations and judged.peak == whole.peak > 6
    assert (judged.valid, judged.duration) == (False, sum(GRAPH.durations))
    assert {violation.kind for violation in judged.violations} == {"over-budget"}
    status, out, _ = command("validate", graph, file, "--budget", 6)
    first, more, _ = out.splitlines()
    assert (status, first) == (1, f"invalid: {judged.violations[0].message}")
    assert more == f"and {len(judged.violations) - 1} more violation{'s' * (len(judged.violations) > 2)}"
    assert judged.figures()["verdict"] == f"{first}, {more}"


def test_what_is_no_schedule_has_no_intervals():
    last = GRAPH.input_order()[-1]
    judged = mz.validate(GRAPH, [last])
    assert (judged.valid, judged.intervals, judged.offsets, judged.records()) == (False, None, None, [])
    assert judged.violations[0].kind == "never-computed"
    for call, message in (
        (judged.plot, "not a plan: position 1: node"),
        (lambda: judged.save("x.json"), "save: it is not valid: node"),
        (lambda: mz.validate(GRAPH, ["nobody"]), "schedule\\[0\\]: node 'nobody' is not in the graph"),
        (lambda: mz.validate(GRAPH, [99]), r"schedule\[0\]: 99 is neither an id nor a position 0\.\."),
        (lambda: mz.validate(GRAPH, [-1]), r"schedule\[0\]: -1 is neither an id nor a position 0\.\."),
        (lambda: mz.validate(GRAPH, 5), "schedule: expected a sequence of positions or ids"),
        (lambda: mz.validate(3, [0]), "graph: expected a ComputationGraph or its file, got 3"),
    ):
        with pytest.raises(mz.InputError, match=message):
            call()


def test_a_list_is_saved_as_a_plan_for_runtimes(files, command, tmp_path):
    graph, file = files
    mz.validate(GRAPH, GRAPH.input_order()).save(file)
    assert json.loads(file.read_text())["format"] == "moccasin_mzn plan"
    assert mz.read_result(graph, file).positions == GRAPH.input_order()


def test_graphs_of_one_name_that_differ_are_reported_so(files, command):
    graph, file = files
    mz.solve(GRAPH, 1.0).save(file)
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "graph_digest": "0" * 64}))
    status, out, _ = command("validate", graph, file)
    assert status == 1 and "note: the schedule is of another graph than this one, although both are called" in out
    assert mz.validate(GRAPH, file).notes[0].startswith("the schedule is of another graph than this one")


def test_steps_are_counted_from_one(files, command):
    graph, file = files
    mz.solve(GRAPH, 6).save(file)
    document = json.loads(file.read_text())
    at, interval = next((at, one) for at, one in enumerate(document["intervals"]) if len(one["reads"]) == 2)
    right = list(interval["reads"])
    interval["reads"].reverse()
    file.write_text(json.dumps(document))
    message = f"step {at + 1} (node {interval['node']}): reads {right[::-1]}, by the graph {right}"
    status, out, _ = command("validate", graph, file)
    assert (status, out.splitlines()[0]) == (1, f"invalid: {message}")
