"""How a search from Python is driven: criteria that end it, callbacks, events, interrupts, and what it logs."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from few import few
from tiny_graphs import graph_of

import moccasin_mzn as mz
from moccasin_mzn.base.stop import Criteria
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.problem.judges.schedules import judge

GRAPH = random_layered(200, 1)
"""At 0.8 it has a first schedule at once, and no proof for many seconds."""
LARGE = random_layered(1000, 1)
"""Its order of least peak is not proven for many seconds."""
BUFFERS = [mz.Buffer(str(k), 11 * k % 40, 11 * k % 40 + 3 + 7 * k % 17, 1 + 29 * k % 23) for k in range(80)]
"""No arena of them is as small as the bound that is known."""


def soon(given, seconds=4):
    """The criteria with a short limit: half of it is over before anything is heard of a frontier, or of offsets, and
    all of it before the first row of a comparison."""
    stop = given["stop"]
    return [mz.stop.TimeLimit(seconds), *(stop[1:] if isinstance(stop, list) else ())]


TIGHT = graph_of([1] * 6, [2] * 6, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)])
CALLS = {
    "solve": lambda **given: mz.solve(GRAPH, 0.8, search="only", **given),
    "free": lambda **given: mz.solve(GRAPH, 0.8, order="free", search="only", **given),
    "race": lambda **given: mz.solve(GRAPH, 0.8, solver="cp-sat,highs", threads=2, **given),
    "addresses": lambda **given: mz.solve(
        GRAPH, 0.8, addresses=True, search="only", **{**given, "stop": soon(given, 20)}
    ),
    "plan": lambda **given: mz.solve(GRAPH, 0.8, paging={"out_time": 0.25}, search="only", **given),
    "plan-addresses": lambda **given: mz.solve(
        GRAPH, 0.98, paging={"out_time": 0.25}, addresses=True, search="only", **{**given, "stop": soon(given, 20)}
    ),
    "order": lambda **given: mz.order(LARGE, **given),
    "frontier": lambda **given: mz.frontier(GRAPH, budgets=[0.8], search="only", **{**given, "stop": soon(given)}),
    "compare": lambda **given: mz.compare(GRAPH, 0.8, only=["staged", "chen-*"], **{**given, "stop": soon(given)}),
    "allocate": lambda **given: mz.allocate(BUFFERS, **given),
}
AT_ONCE = ("solve", "plan", "order")
"""Calls that have an answer within a second."""
LONG = 100.0
"""Seconds of a limit that no test waits for."""


def is_answer(result) -> bool:
    """Is there an answer, whatever kind of result it is?"""
    if isinstance(result, mz.Result):
        return result.valid or "arena" in result.reason  # a schedule, of which no arena was found yet that fits
    return bool(result.to_frame().shape[0])


def nothing_runs() -> bool:
    names = {thread.name for thread in threading.enumerate()}
    searches = {"local search", "relaxation", "annealing", "search for orders", "trials", "model", "flow covers"}
    return not names & searches


# --- Criteria -------------------------------------------------------------------------------------------------


def ended_at_once(state):
    return True


class Settled:
    """An answer that is old enough; what it has been asked about."""

    def __init__(self):
        self.seen = []

    def __call__(self, state):
        self.seen.append(state)
        return state.unimproved is not None and state.unimproved > 0.2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mz.stop.TimeLimit(0), "time limit 0 is not a positive number of seconds"),
        (lambda: mz.stop.TimeLimit(None), "stop: TimeLimit(None): expected a number of seconds"),
        (lambda: mz.stop.NoImprovement(-1), "time limit -1 is not a positive number of seconds"),
        (lambda: mz.stop.Gap(1), "stop: Gap(1) is not a fraction, from 0 to below 1"),
        (lambda: mz.stop.Gap("1%"), "stop: Gap('1%') is not a fraction, from 0 to below 1"),
        (lambda: mz.stop.Iterations(0), "iterations 0 is not an integer from 1 to "),
        (lambda: mz.stop.Iterations(1.5), "iterations 1.5 is not an integer from 1 to "),
        (lambda: mz.solve(TIGHT, 6, stop=3), "stop: expected TimeLimit, Gap, Iterations or NoImprovement of "),
        (lambda: mz.solve(TIGHT, 6, stop=[mz.stop.Gap(0.1), 3]), "stop: expected TimeLimit, Gap, Iterations or NoImpr"),
        (
            lambda: mz.solve(TIGHT, 6, time_limit=5, stop=mz.stop.TimeLimit(6)),
            "stop: TimeLimit(6) and time limit 5 contradict each other, give one of them",
        ),
        (
            lambda: mz.solve(TIGHT, 6, until_gap="2%", stop=[mz.stop.Gap(0.01)]),
            "stop: Gap(0.01) and until gap 0.02 contradict each other, give one of them",
        ),
        (
            lambda: mz.frontier(TIGHT, stop=mz.stop.NoImprovement(9)),
            "stop: NoImprovement is not for frontier, which makes many searches",
        ),
        (
            lambda: mz.compare(TIGHT, 0.8, stop=mz.stop.NoImprovement(9)),
            "stop: NoImprovement is not for compare, which runs many methods by the clock",
        ),
        (
            lambda: mz.frontier(TIGHT, stop=[ended_at_once]),
            "stop: ended_at_once is not for frontier, which makes many searches",
        ),
        (lambda: mz.compare(TIGHT, 0.8, stop=Settled()), "stop: Settled is not for compare, which runs many methods"),
        (lambda: mz.solve(TIGHT, 6, stop=mz.stop.Gap), "stop: expected TimeLimit, Gap, Iterations or NoImprovement"),
        (lambda: mz.solve(TIGHT, 6, stop=[Settled]), "stop: expected TimeLimit, Gap, Iterations or NoImprovement"),
        (
            lambda: mz.allocate(BUFFERS, stop=mz.stop.Iterations(9)),
            "stop: Iterations is not for allocate, whose model has a solver of its own",
        ),
        (lambda: mz.solve(TIGHT, 6, interrupts="drop"), "interrupts 'drop': expected one of keep, raise"),
    ],
)
def test_criteria_that_make_no_sense_are_refused_in_one_line(make, message):
    with pytest.raises(mz.InputError) as refused:
        make()
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("function", "given"), [(mz.solve, {"budget": 6}), (mz.order, {}), (mz.frontier, {})])
def test_a_shorthand_and_an_equal_criterion_are_one(function, given):
    assert function(TIGHT, **given, time_limit=5.0, stop=mz.stop.TimeLimit(5)) is not None


def test_a_gap_ends_the_search():
    for stop in (mz.stop.Gap(0.2), [mz.stop.TimeLimit(LONG), mz.stop.Gap(0.2)]):
        found = mz.solve(GRAPH, 0.8, search="only", stop=stop)
        assert found.gap_percent <= 20 and "stopped at a gap of" in found.reason and nothing_runs()
        assert found.ended_by == "Gap(0.2)"
    found = mz.order(GRAPH, stop=[mz.stop.Gap(0.5)], time_limit=None)
    assert found.gap_percent <= 50
    found = mz.allocate(BUFFERS, stop=mz.stop.Gap(0.5))
    assert found.gap_percent <= 50


def test_a_time_limit_among_criteria_ends_the_search():
    found = mz.solve(GRAPH, 0.8, search="only", stop=(mz.stop.TimeLimit(1), threading.Event()))
    assert found.valid and found.status == "feasible" and found.reason.startswith("no proof was found within the time")
    assert found.ended_by == "TimeLimit(1)" and mz.solve(GRAPH, 1.0).ended_by == ""


def test_a_search_that_finds_nothing_better_ends():
    found = mz.solve(GRAPH, 0.8, search="only", stop=mz.stop.NoImprovement(0.3))
    assert found.valid and found.details.notes[-1] == "stopped by NoImprovement(0.3)"
    assert found.ended_by == "NoImprovement(0.3)"
    assert found.reason.startswith("no proof was found before the search was stopped")


# --- Criteria of one's own ------------------------------------------------------------------------------------


OWN = ["solve", "free", "addresses", "plan", "order", "allocate", "race", "plan-addresses"]


@pytest.mark.parametrize("name", few(OWN, keep=AT_ONCE))
@pytest.mark.few(2)
def test_a_criterion_of_ones_own_ends_a_search_with_its_best_answer(name):
    settled = Settled()
    result = CALLS[name](stop=[mz.stop.TimeLimit(LONG), settled])
    assert is_answer(result) and nothing_runs()
    assert not isinstance(result, mz.Result) or result.ended_by == "Settled"
    seconds = [state.seconds for state in settled.seen]
    assert seconds == sorted(seconds) and all(later - one >= 0.045 for one, later in pairwise(seconds))
    values = [state.value for state in settled.seen if state.value is not None]
    assert values == sorted(values, reverse=True) and all(state.bound <= values[-1] for state in settled.seen)
    assert {state.value is None for state in settled.seen} >= {state.unimproved is None for state in settled.seen}


@pytest.mark.parametrize(
    ("criterion", "name"),
    [(ended_at_once, "ended_at_once"), (lambda state: 1, "a criterion of the caller's"), (Settled(), "Settled"),
     (lambda state: np.True_, "a criterion of the caller's"), (mz.stop.NoImprovement(0.1), "NoImprovement(0.1)")],
)  # fmt: skip
def test_what_ended_a_search_has_the_name_of_the_criterion(criterion, name):
    result = mz.solve(GRAPH, 0.8, search="only", time_limit=LONG, stop=criterion)
    assert result.ended_by == name and result.notes[-1] == f"stopped by {name}"


class Later(mz.stop.TimeLimit):
    """A limit that waits for an answer."""

    def __call__(self, state):
        return state.value is not None and super().__call__(state)


class Far(mz.stop.Gap):
    """A gap in units."""

    def __call__(self, state):
        return state.value is not None and state.value - state.bound >= self.fraction


class Found(mz.stop.NoImprovement):
    """The first answer will do."""

    def __call__(self, state):
        return state.value is not None


class Whole(mz.stop.Gap):
    """A gap by another name."""


@pytest.mark.parametrize(
    "criterion", few([Later(0.01), Far(0.5), Found(LONG)], keep=2), ids=lambda one: type(one).__name__
)
def test_a_subclass_of_a_criterion_is_asked_in_its_own_way(criterion):
    """It is not taken for the limit that it is made of, which would end the search at another time."""
    assert Criteria.of([criterion]) == Criteria(asked=(criterion,))
    result = mz.solve(GRAPH, 0.8, search="only", stop=[mz.stop.TimeLimit(LONG), criterion])
    assert result.ended_by == type(criterion).__name__ and result.valid


def test_a_subclass_without_a_call_of_its_own_is_the_limit_that_it_is():
    assert Criteria.of([Whole(0.25)]) == Criteria.of(mz.stop.Gap(0.25)) == Criteria(gap=0.25)


def test_criteria_are_the_same_asked_alone():
    """The three that come with the package, at their edges; other criteria may be made of them."""
    before, after = mz.stop.State(1.9, None, 3, None), mz.stop.State(2.0, 4, 3, 0.5)
    assert [mz.stop.TimeLimit(2)(state) for state in (before, after)] == [False, True]
    assert [mz.stop.Gap(0.25)(state) for state in (before, after)] == [False, True] and not mz.stop.Gap(0.24)(after)
    assert [mz.stop.NoImprovement(0.4)(state) for state in (before, after)] == [False, True]
    assert not mz.stop.NoImprovement(0.5)(after) and mz.stop.State(0.0, 0, 0, 0.0).gap == 0.0 == mz.stop.Gap(0).fraction


@pytest.mark.parametrize("name", few(["solve", "order", "plan", "allocate"], keep=2))
def test_an_error_of_a_criterion_is_raised_when_nothing_runs_any_more(name):
    def fail(state):
        if state.value is not None:
            raise OwnError("mine")
        return False

    with pytest.raises(OwnError, match="^mine$"):
        CALLS[name](stop=[mz.stop.TimeLimit(LONG), fail])
    assert nothing_runs()


def test_a_criterion_is_asked_by_one_thread_at_a_time():
    inside, most = [], []

    def slow(state):
        inside.append(state)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return state.seconds > 0.6

    assert mz.solve(GRAPH, 0.8, time_limit=LONG, stop=slow).ended_by == "slow"
    assert set(most) == {1} and len(most) > 1


# --- What the caller stops ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", few(list(CALLS), keep=AT_ONCE))
def test_an_event_ends_a_search_with_its_best_answer(name):
    event = threading.Event()

    def listen(progress):
        if progress.value is not None:
            threading.Timer(0.05, event.set).start()  # as another thread does

    result = CALLS[name](stop=[mz.stop.TimeLimit(LONG), event], on_progress=listen)
    assert event.wait(10) and is_answer(result) and not result.interrupted and nothing_runs()


def test_an_event_that_is_set_before_ends_it_at_once():
    event = threading.Event()
    event.set()
    assert mz.solve(GRAPH, 0.8, time_limit=LONG, stop=event).status in ("unknown", "feasible")
    assert mz.compare(GRAPH, 0.8, time_limit=LONG, stop=event).rows == ()


def returns_true(progress):
    return progress.value is not None


def raises_stop_iteration(progress):
    if progress.value is not None:
        raise StopIteration


@pytest.mark.parametrize("name", few(list(CALLS), keep=AT_ONCE))
@pytest.mark.parametrize("listen", [returns_true, raises_stop_iteration])
def test_a_listener_ends_a_search_with_its_best_answer(name, listen):
    result = CALLS[name](stop=mz.stop.TimeLimit(LONG), on_progress=listen)
    assert is_answer(result) and nothing_runs()
    if isinstance(result, mz.Result) and result.status == "feasible":
        assert result.details.notes[-1] == "stopped by on_progress"


def test_only_true_itself_ends_a_search():
    heard = []
    result = mz.solve(TIGHT, 6, on_progress=lambda progress: heard.append(progress) or 1)
    assert result.status == "optimal" and heard


class OwnError(Exception):
    pass


@pytest.mark.parametrize("name", few(list(CALLS), keep=AT_ONCE))
def test_an_error_of_a_listener_is_raised_when_nothing_runs_any_more(name):
    calls = []

    def listen(progress):
        calls.append(progress)
        if progress.value is not None:
            raise OwnError("mine")

    with pytest.raises(OwnError, match="^mine$"):
        CALLS[name](stop=mz.stop.TimeLimit(LONG), on_progress=listen)
    assert nothing_runs() and calls[-1].value is not None


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupts", ["keep", "raise"])
@pytest.mark.parametrize("name", few([name for name in CALLS if name != "compare"], keep=AT_ONCE))
def test_an_interrupt_is_kept_or_raised(name, interrupts):
    sent = []

    def listen(progress):
        if progress.value is not None and not sent:
            sent.append(threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)))
            sent[0].start()

    if interrupts == "keep":
        result = CALLS[name](stop=mz.stop.TimeLimit(LONG), on_progress=listen, interrupts="keep")
    else:
        with pytest.raises(mz.Interrupted) as raised:
            CALLS[name](stop=mz.stop.TimeLimit(LONG), on_progress=listen, interrupts="raise")
        assert isinstance(raised.value, KeyboardInterrupt)
        result = raised.value.result
    assert is_answer(result) and result.interrupted and nothing_runs()


class Finalized:
    """Python drops what is raised while it goes."""

    def __init__(self, run):
        self.run = run

    def __del__(self):
        self.run()


@pytest.mark.parametrize("name", ["solve", "order"])
def test_an_interrupt_within_a_finalizer_is_not_lost(name):
    sent, passed = [], []

    def interrupt():
        sent.append(True)
        os.kill(os.getpid(), signal.SIGINT)  # it is raised in here
        passed.append(True)

    def listen(progress):
        if progress.value is not None and not sent:
            Finalized(interrupt)

    result = CALLS[name](stop=mz.stop.TimeLimit(LONG), on_progress=listen)
    assert sent and not passed
    assert is_answer(result) and result.interrupted and nothing_runs()


@pytest.mark.few(1)
@pytest.mark.parametrize("interrupts", ["keep", "raise"])
def test_a_loop_of_solves_needs_one_interrupt_or_many(interrupts, tmp_path):
    """In a process of its own, with SIGINT from outside."""
    file = tmp_path / "graph.json"
    mz.write_graph(GRAPH, file)
    code = f"""
import moccasin_mzn as mz
for number in range(2):
    found = mz.solve({str(file)!r}, 0.8, search="only", time_limit=100, interrupts={interrupts!r},
                     on_progress=lambda p: print("heard", flush=True) if p.value else None)
    print("ended", number, found.interrupted, found.valid, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        lines = []
        for line in run.stdout:
            if line == "heard\n" and (not lines or lines[-1].startswith("ended")):
                run.send_signal(signal.SIGINT)
            lines.append(line)
        error = run.stderr.read()
    ended = [line for line in lines if line.startswith("ended")]
    if interrupts == "keep":
        assert ended == ["ended 0 True True\n", "ended 1 True True\n"] and run.returncode == 0
    else:
        assert ended == [] and "Interrupted: interrupted; the best answer so far" in error and run.returncode != 0


# --- Certificates and models of one's own ---------------------------------------------------------------------


def test_a_certificate_is_written_and_checked(tmp_path):
    file, graph = tmp_path / "certificate.json", tmp_path / "graph.json"
    mz.write_graph(TIGHT, graph)
    result = mz.solve(graph, 6, certificate=file)
    proven = mz.check_certificate(graph, file)
    assert (proven.duration, proven.budget) == (result.duration, 6) and proven.bound <= result.duration
    assert proven == mz.check_certificate(TIGHT, str(file))
    assert judge(TIGHT, result.positions, 6).feasible
    with pytest.raises(mz.InputError, match="certificate.json: "):
        mz.check_certificate(GRAPH, file)
    with pytest.raises(mz.InputError, match="is the graph, and would be lost"):
        mz.solve(graph, 6, certificate=graph)
    plan = mz.solve(graph, 6, certificate=file, paging={"out_time": 1}, threads=1)
    assert mz.check_certificate(graph, file).bound <= plan.duration


def test_there_is_a_certificate_of_there_being_no_schedule(tmp_path):
    file = tmp_path / "certificate.json"
    assert mz.solve(TIGHT, 5, certificate=file).status == "infeasible"
    assert mz.check_certificate(TIGHT, file).bound is None


@pytest.mark.full
def test_models_of_ones_own_are_taken_by_all_that_can(tmp_path):
    model = tmp_path / "my.mzn"
    model.write_text('include "staged.mzn";\n')
    best = mz.solve(TIGHT, 6).duration
    assert mz.solve(TIGHT, 6, model=model, time_limit=60).duration == best
    (point,) = mz.frontier(TIGHT, budgets=[6], model=str(model), time_limit=60).details.points
    assert point.duration == best
    for given in (model, [str(model)]):
        (row,) = mz.compare(TIGHT, 6, only=["my*"], model=given, time_limit=60).rows
        assert row.result.duration == best and "my" in row.contender.label
    with pytest.raises(mz.InputError, match="no-such.mzn"):
        mz.solve(TIGHT, 6, model="no-such.mzn")
    with pytest.raises(mz.InputError, match="model: expected the path of a file, or several, with 3 among them"):
        mz.compare(TIGHT, 6, model=[3])


# --- Logging --------------------------------------------------------------------------------------------------


def test_a_search_is_logged(caplog):
    with caplog.at_level(logging.DEBUG, "moccasin_mzn"):
        result = mz.solve(TIGHT, 6, search="only")
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "moccasin_mzn"]
    assert lines[0] == ("INFO", "solve: begins") and lines[-1] == ("INFO", f"solve: ends, {result.status}")
    assert ("DEBUG", "local search: begins") in lines
    assert any(level == "INFO" and f"value {result.duration}, " in line for level, line in lines)


@pytest.mark.parametrize("shown", [False, True])
def test_notes_are_logged_and_nothing_is_printed(shown, tmp_path):
    """What compiling says goes to the log, unless a command runs."""
    code = """
import logging, sys
from moccasin_mzn.base.log import note_once, notes_on_stderr
logging.getLogger("moccasin_mzn").warning("seen by nobody")
note_once("for people")
note_once("for people")
with notes_on_stderr():
    note_once("of a command")
"""
    if shown:
        code = f"import logging; logging.basicConfig(level=logging.INFO, format='%(name)s %(message)s')\n{code}"
    err = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.splitlines()
    plain = ["of a command"]
    logged = ["moccasin_mzn seen by nobody", "moccasin_mzn.notes for people", "moccasin_mzn.notes of a command"]
    assert sorted(err) == sorted(logged + plain if shown else plain)


def test_time_is_told_while_a_search_goes_on():
    begin, heard = time.monotonic(), []
    mz.solve(TIGHT, 6, search="only", on_progress=heard.append)
    assert all(0 <= one.seconds <= time.monotonic() - begin for one in heard)
    assert [one.seconds for one in heard] == sorted(one.seconds for one in heard)
