"""Real replies pass the soak's checks; the same replies with one thing altered do not."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from soaking.asking import Reply, ask
from soaking.bad_inputs import bad_command, flaws_of_refusal, is_nonsense
from soaking.checking import check
from soaking.questions import Problem, Question
from soaking.tidiness import Room
from soaking.witnesses import Witnesses

from moccasin_mzn.graphs.graph import ComputationGraph

GRAPH = ComputationGraph(
    nodes=("x", "a", "b", "c", "z"),
    durations=(5, 1, 1, 1, 1),
    sizes=(2, 1, 7, 1, 1),
    edges=((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),
)
"""Within 8 its first node is computed twice, for a duration of 14; within 7 nothing fits."""
WIDE = ComputationGraph(tuple("abcdef"), (4, 1, 1, 1, 1, 1), (3, 3, 3, 3, 1, 1), ((0, 5), (1, 4), (2, 4), (3, 4)))


def question(kind: str = "solve", budget: str = "8", graph: ComputationGraph = GRAPH, **options: Any) -> Question:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    given = {"time-limit": "60", "threads": "1", **named}
    if "device" not in given and kind != "order":
        given["budget"] = budget
    if kind in ("solve", "addresses", "frontier", "plan"):
        given.setdefault("search", "only")
    if kind == "order":
        del given["threads"]
    return Question(kind, "here", Problem(graph, "input", budget), given)


QUESTIONS = {
    "optimal": question(),
    "infeasible": question(budget="9", graph=WIDE, search="off", solver="cp-sat"),
    "infeasible at once": question(budget="7"),
    "feasible": question("strategy", strategy="tree-decomposition-held"),
    "addresses": question("addresses", addresses=True),
    "order": question("order"),
    "frontier": question("frontier", budget="7 8 12"),
    "plan": question("plan", paging=True, page_out_time="1", page_in_time="1"),
}
del QUESTIONS["feasible"].options["threads"]


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    """Real ones."""
    folder = tmp_path_factory.mktemp("questions")
    return {name: ask(of, folder) for name, of in QUESTIONS.items()}


def findings(name: str, reply: Reply, of: Question | None = None) -> tuple[str, ...]:
    of = of or QUESTIONS[name]
    return check(of, reply, Witnesses(of.problem.graph)).findings


@pytest.mark.parametrize("name", QUESTIONS)
def test_real_replies_are_fine(replies, name):
    assert findings(name, replies[name]) == ()
    expected = {"infeasible at once": "infeasible", "addresses": "optimal", "plan": "optimal", "order": "optimal"}
    if name != "frontier":
        assert replies[name].document()["status"] == expected.get(name, name)


def altered(reply: Reply, change: Callable[[dict[str, Any]], Any], status: int | None = None) -> Reply:
    document = reply.document()
    change(document)
    return replace(reply, text=json.dumps(document), status=reply.status if status is None else status)


def put(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document.update(values)


def swapped(document: dict[str, Any]) -> None:
    sequence = document["sequence"]
    sequence[1], sequence[2] = sequence[2], sequence[1]


def shorter(document: dict[str, Any]) -> None:
    document["sequence"] = list(dict.fromkeys(document["sequence"]))


NOTHING = {
    "valid": False, "sequence": None, "intervals": None, "peak": None, "duration": None, "tdi_percent": None,
    "gap_percent": None,
}  # fmt: skip

FALSE = [
    ("optimal", put(status="infeasible", reason="proven: no schedule fits", **NOTHING), 1, "but there is ['x'"),
    ("optimal", put(status="unknown", duration_bound=15, **NOTHING), 1, "but there is ['x'"),
    ("optimal", put(duration_bound=15), None, "below the bound"),
    ("optimal", put(status="feasible", duration_bound=13, gap_percent=7.0), None, "gap_percent"),
    ("optimal", put(status="optimal", duration_bound=13, gap_percent=100 / 14), None, "optimal with duration 14"),
    ("optimal", swapped, None, "read before it is computed"),
    ("optimal", shorter, None, "duration is 14, not 9"),
    ("optimal", lambda document: document["sequence"].pop(), None, "never computed"),
    ("optimal", lambda document: document["sequence"].append("y"), None, "a node that the graph has not"),
    ("optimal", put(peak=7), None, "peak is 7, not 8"),
    ("optimal", put(budget=9), None, "budget is 9, not 8"),
    ("optimal", put(baseline_peak=11), None, "baseline_peak"),
    ("optimal", put(tdi_percent=55.0), None, "tdi_percent"),
    ("optimal", put(max_computations=1), None, "more often than 1 times"),
    ("optimal", put(valid=False), None, "exit status 0 with valid False"),
    ("optimal", lambda document: document["intervals"][0].update(end=5), None, "retention intervals"),
    ("optimal", put(trace=[[0.1, 14, 9], [0.2, 15, 9]]), None, "the trace goes"),
    ("optimal", put(gap_percent=float("nan")), None, "NaN is not JSON"),
    ("optimal", lambda document: None, 1, "exit status 1 with valid True"),
    ("infeasible", put(status="optimal"), None, "status optimal with valid False"),
    ("addresses", lambda document: document["intervals"][1].update(offset=0), None, "overlap"),
    ("addresses", put(arena=7), None, "the arena is 7"),
    ("order", put(bound=11, peak=11), None, "peaks 11"),
    ("order", put(bound=12), None, "bound 12"),
    ("order", lambda document: document["order"].reverse(), None, "the order is none"),
    ("frontier", lambda document: document["points"][1].update(duration_bound=15), None, "bound 15"),
    ("frontier", lambda document: document["points"][2].update(status="infeasible", sequence=None), None, "there is"),
    ("frontier", put(least_bound=9), None, "but there is ['x'"),
    ("plan", put(bound=99), None, "bound 99"),
    ("plan", lambda document: document["plan"].pop(), None, "never computed"),
    ("plan", put(duration=1, bound=1), None, "duration and peaks"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "status", "words"), FALSE, ids=[f"{of[0]}: {of[3]}" for of in FALSE])
def test_a_false_reply_is_a_finding(replies, name, change, status, words):
    found = findings(name, altered(replies[name], change, status))
    assert any(words in message for message in found), found


def test_a_schedule_over_the_budget_is_a_finding(replies):
    """One that is true of a larger budget, told of a smaller one."""
    found = findings("optimal", altered(replies["optimal"], put(budget=7)), question(budget="7"))
    assert any("over the budget 7" in message for message in found)


def test_a_later_schedule_refutes_an_earlier_claim(replies):
    """Of a graph too large for the oracle, as if it were one."""
    known, of = Witnesses(GRAPH), QUESTIONS["optimal"]
    claim = altered(replies["optimal"], put(status="infeasible", reason="proven", **NOTHING), 1)
    known.best = lambda *_: type("Answer", (), {"sequence": None, "complete": False})()
    assert check(of, claim, known).findings == ()
    assert any("refutes it" in message for message in check(of, replies["optimal"], known).findings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": 2, "text": "", "errors": "error: no\n"}, "a good question is refused"),
        ({"status": 2, "text": "", "errors": "no\n"}, "without an error line"),
        ({"status": -1, "text": "", "errors": "Traceback (most recent call last):\n"}, "Traceback"),
        ({"status": -11, "text": "", "errors": ""}, "exit status -11"),
        ({"text": ""}, "no JSON object"),
        ({"steps": ((14, 9, (0, 1, 2, 3, 4)),)}, "on the way"),
    ],
)
def test_an_ending_that_must_not_be_is_a_finding(replies, change, words):
    found = findings("optimal", replace(replies["optimal"], **change))
    assert any(words in message for message in found)


def test_a_warm_start_binds(replies):
    start = (0, 1, 2, 3, 0, 4)
    of = replace(QUESTIONS["optimal"], start=start)
    assert findings("", replies["optimal"], of) == ()
    unknown = altered(replies["optimal"], put(status="unknown", duration_bound=9, **NOTHING), 1)
    assert any("in spite of a warm start" in message for message in findings("", unknown, of))


BAD = ["solve", "graph.json", "--solver", "no-such-name", "--json"]


@pytest.mark.parametrize(
    ("words", "reply", "finding"),
    [
        (BAD, Reply(2, "", "error: unknown solver\n", 0.1), ""),
        (BAD, Reply(0, "{}", "", 0.1), "nonsense is answered"),
        (BAD, Reply(2, "", "unknown solver\n", 0.1), "expected one line"),
        (BAD, Reply(2, "", "error: one\nerror: two\n", 0.1), "expected one line"),
        (BAD, Reply(2, "{}", "error: one\n", 0.1), "stdout has"),
        (BAD, Reply(-1, "", "Traceback (most recent call last):\n", 0.1), "Traceback"),
        (["solve", "graph.json", "--json"], Reply(0, "{", "", 0.1), "no JSON object"),
    ],
)
def test_refusals_are_judged(words, reply, finding):
    found = flaws_of_refusal(words, reply)
    assert (finding in found[0]) if finding else found == []


def test_bad_commands_are_bad_or_odd(tmp_path):
    commands = [bad_command(random.Random(seed), QUESTIONS["optimal"].problem, tmp_path) for seed in range(300)]
    assert sum(map(is_nonsense, commands)) >= 5
    assert all(command[1] == str(tmp_path / "graph.json") for command in commands)


def test_what_is_left_behind_is_found(tmp_path, monkeypatch):
    for name in ("MOCCASIN_SOAK", "TMPDIR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("soaking.tidiness.PATIENCE", 0.2)
    room = Room(tmp_path)
    assert room.left_behind(thoroughly=True) == []
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    handle, _ = tempfile.mkstemp()
    (tmp_path / "here" / "written").write_text("")
    with open(handle):
        found = room.left_behind(thoroughly=True)
    assert [line.split()[2] for line in found] == ["process", "file", "file"]
    assert process.wait(10) == -9
    assert room.left_behind(thoroughly=False) == []
