"""What a user finds in an answer: status, intervals, offsets, incumbents, and the file it is saved to."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from plan_graphs import u_graph

import moccasin_mzn as mz
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search import board as boards

GRAPH = u_graph()
PAGING = {"out_time": 1}
ASKED = {
    "schedule": {"budget": 6},
    "arena": {"budget": 6, "addresses": True, "alignment": 2},
    "paging": {"budget": 6, "paging": PAGING, "search": "only", "time_limit": 6},
    "arenas": {"budget": 6, "paging": PAGING, "addresses": True, "search": "only", "time_limit": 6},
    "strategy": {"budget": 6, "strategy": "dtr"},
    "known": {"budget": 1.0},
    "race": {"budget": 6, "solver": "cp-sat,highs", "time_limit": 5},
}


@pytest.fixture(scope="module")
def solved():
    """The answer to each, found once."""
    answers: dict[str, mz.Result] = {}

    def get(asked: str) -> mz.Result:
        if asked not in answers:
            threads = {} if asked == "strategy" else {"threads": 1}
            answers[asked] = mz.solve(GRAPH, **{"time_limit": 20, **ASKED[asked]}, **threads)
        return answers[asked]

    return get


FULL = {"race": pytest.mark.full}  # a race takes seconds
KINDS = pytest.mark.parametrize("asked", [pytest.param(asked, marks=FULL.get(asked, ())) for asked in ASKED])


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda: mz.solve(GRAPH, 1.0), mz.Status.OPTIMAL),
        (lambda: mz.solve(GRAPH, 1), mz.Status.INFEASIBLE),
        (lambda: mz.solve(GRAPH, 6, strategy="keep-all"), mz.Status.OVER_BUDGET),
        (lambda: mz.solve(GRAPH, 7, strategy="recompute-all"), mz.Status.FEASIBLE),
        (lambda: mz.order(GRAPH, time_limit=5), mz.Status.OPTIMAL),
        (lambda: mz.allocate([mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2)]), mz.Status.OPTIMAL),
        (lambda: mz.allocate([mz.Buffer("a", 0, 2, 3)], capacity=2), mz.Status.INFEASIBLE),
    ],
)
def test_a_status_is_one_of_the_enum_and_its_text(make, status):
    found = make().status
    assert found is status and found == status.value and str(found) == f"{found}" == status.value
    assert json.loads(json.dumps({"status": found})) == {"status": status.value}


def test_the_enum_has_every_status_there_is():
    assert {*mz.Status} == {"optimal", "feasible", "infeasible", "unknown", "over-budget"}


@KINDS
def test_intervals_are_what_is_in_memory(solved, asked):
    result = solved(asked)
    steps = len(result.plan or result.sequence)
    assert len(result.intervals) == steps and all(type(one) is mz.Interval for one in result.intervals)
    assert [one.start for one in result.intervals] == list(range(1, steps + 1))
    sizes = dict(zip(GRAPH.nodes, GRAPH.sizes, strict=True))
    for name, peak in result.peaks.items():
        there = [one for one in result.intervals if one.memory == name]
        used = [sum(sizes[i.node] for i in there if i.start <= t <= i.end) for t in range(1, steps + 1)]
        assert max(used) == peak
    assert all(one.size == sizes[one.node] for one in result.intervals)
    written = result.as_dict()["intervals"]
    assert [list(one.reads) for one in result.intervals] == [entry["reads"] for entry in written]
    assert [one.label for one in result.intervals] == [entry.get("label") for entry in written]
    assert [[*row.values()] for row in result.records()] == [
        [part for part in (one.node, one.memory if result.plan else None, one.start, one.end, one.offset, one.size)
         if part is not None]
        for one in result.intervals
    ]  # fmt: skip


@KINDS
def test_offsets_share_no_memory_and_end_within_the_arena(solved, asked):
    result = solved(asked)
    if "addresses" not in ASKED[asked]:
        assert (result.offsets, result.arena, result.arenas) == (None, None, {})
        assert all(one.offset is None for one in result.intervals)
        return
    assert result.offsets == tuple(one.offset for one in result.intervals)
    for one, other in combinations(result.intervals, 2):
        if one.memory == other.memory and one.start <= other.end and other.start <= one.end:
            assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
    for name, size in result.arenas.items():
        assert size == max((one.offset + one.size for one in result.intervals if one.memory == name), default=0)
        assert result.budgets[name] is None or result.peaks[name] <= size <= result.budgets[name]
    assert result.arena == next(iter(result.arenas.values()))


@KINDS
def test_the_trace_has_every_incumbent_with_its_schedule(solved, asked):
    result = solved(asked)
    trace, problem = result.trace, result.details.problem
    assert trace and all(type(one) is mz.Incumbent for one in trace)
    for one in trace:
        account = (
            judge(GRAPH, [GRAPH.index[node] for node in one.schedule], result.budget)
            if result.plan is None
            else judge_plan(problem.platform, one.plan, problem.goal)
        )
        assert account.feasible and one.value == account.duration >= one.bound and one.found_by
    assert [one.seconds for one in trace] == sorted(one.seconds for one in trace)
    assert [one.value for one in trace] == sorted({one.value for one in trace}, reverse=True)
    last = trace[-1]
    assert (list(last.schedule), last.plan, last.value) == (result.sequence, result.plan, result.value)
    assert last.found_by == result.found_by and "'" not in repr(last).replace(f"'{last.found_by}'", "")
    assert {tuple(map(type, point)) for point in result.as_dict()["trace"]} <= {
        (float, int, int, str), (float, type(None), int, str)
    }  # fmt: skip


def test_the_trace_keeps_the_latest_schedules_where_all_take_too_much(monkeypatch):
    from moccasin_mzn.problem.instance import Instance

    best, worse = (0, 1, 2, 3, 4, 5), (0, 0, 0, 1, 2, 3, 4, 5)
    board = boards.Board(Instance.build(GRAPH, "100%"), 0.0)
    monkeypatch.setattr(boards, "MOST_STEPS", len(worse) + len(best) - 1)
    durations = [board.offer(sequence, "one").duration for sequence in (worse, best)]
    assert durations == [56, 42]
    assert [(p.value, p.answer and [*p.answer]) for p in board.trace] == [(56, None), (42, [*best])]


def test_labels_of_the_graph_are_those_of_intervals():
    graph = mz.ComputationGraph(["a", "b"], [1, 1], [1, 1], [("a", "b")], labels=["conv", "relu"])
    assert [one.label for one in mz.solve(graph, 1.0).intervals] == ["conv", "relu"]


def test_a_printed_result_names_the_budget(solved):
    assert "peak: 6, within the budget of 6" in str(solved("schedule")).splitlines()
    over = mz.solve(GRAPH, 6, strategy="keep-all")
    assert f"peak: {over.peak}, with the budget of 6" in str(over).splitlines()


def test_no_schedule_has_no_parts():
    result = mz.solve(GRAPH, 1)
    assert (result.intervals, result.offsets, result.arena, result.trace, result.value) == (None, None, None, (), None)
    assert result.recomputations is None and result.budget == 1
    with pytest.raises(mz.InputError, match="^save: there is no schedule within the budget: "):
        result.save("never.json")
    over = mz.solve(GRAPH, 6, strategy="keep-all")
    assert over.intervals and not over.trace
    with pytest.raises(mz.InputError, match="^save: there is no schedule within the budget: "):
        over.save("never.json")


@KINDS
def test_what_is_saved_is_read_again(solved, asked, command, tmp_path):
    result, file, graph = solved(asked), tmp_path / "saved.json", tmp_path / "graph.json"
    result.save(file)
    assert json.loads(file.read_text()) == json.loads(json.dumps(result.as_dict()))
    mz.write_graph(GRAPH, graph)
    status, out, _ = command("validate", graph, file)
    assert status == 0 and "valid" in out
    how = {name: value for name, value in ASKED[asked].items() if name in ("budget", "paging")}
    again = mz.solve(GRAPH, **how, warm_start=file, search="only", time_limit=6)
    assert again.value <= result.value


def test_a_file_is_what_the_command_writes(command, tmp_path):
    graph, written, saved = (tmp_path / name for name in ("graph.json", "written.json", "saved.json"))
    mz.write_graph(GRAPH, graph)
    how = ("--budget", 6, "--strategy", "recompute-all", "--time-limit", 5)
    assert command("solve", graph, *how, "--output", written)[0] == 0
    mz.solve(graph, 6, strategy="recompute-all", time_limit=5).save(saved)
    one, other = (json.loads(file.read_text()) for file in (written, saved))
    for document in (one, other):
        del document["seconds"], document["trace"]
    assert one == other


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda result: result.save(3), "path: expected the path of a file, got 3"),
        (lambda result: result.save("/no/such/folder/x.json"), "/no/such/folder/x.json: cannot write"),
        (lambda result: result.plot(by="hour"), "axis 'hour': expected event or stage"),
        (lambda result: result.plot("picture.gif"), "picture.gif: expected a name that ends in"),
    ],
)
def test_nonsense_for_a_method_is_refused_in_one_line(solved, call, message):
    with pytest.raises(mz.InputError) as refused:
        call(solved("known"))
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


@KINDS
def test_an_answer_has_what_its_details_have(solved, asked):
    """No one needs the inner class, whose name is another one and whose text is short."""
    result = solved(asked)
    document = result.as_dict()
    for name in ("status", "reason", "bound", "gap_percent", "valid", "found_by", "interrupted", "recomputations"):
        assert getattr(result, name) == document[name], name
    assert (
        result.value == document[result.objective] and list(result.notes)[: len(document["notes"])] == document["notes"]
    )
    assert type(result.details).__name__ != "Result" and len(repr(result.details)) < 100


def test_other_answers_have_their_figures_as_properties():
    front = mz.frontier(GRAPH, budgets=[6, 1.0], time_limit=10, search="only", threads=1)
    assert isinstance(front, mz.FrontierResult) and len(front.points) == 2
    assert all(type(point) is mz.FrontierPoint and point.peak <= point.budget for point in front.points)
    assert front.least_bound <= front.least_peak <= front.peak == front.points[-1].budget
    assert front.graph is GRAPH and not front.interrupted and front.seconds >= 0
    order = mz.order(GRAPH, time_limit=5)
    assert isinstance(order, mz.OrderResult) and order.found_by and order.proved_by and order.seconds >= 0
    found = mz.allocate([mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2)])
    assert isinstance(found, mz.AllocationResult) and (found.peak, len(found.buffers)) == (5, 2)
    assert isinstance(mz.compare(GRAPH, 1.0, only=["keep-all"]), mz.ComparisonResult)
