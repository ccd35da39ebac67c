"""Several solvers find and prove what each of them does, tell who did it, and are told what others found."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter

import pytest
from cases import draw_case, least_duration
from solving import solve

import moccasin_mzn.api.race.race as race_module
from moccasin_mzn.api.process import Attempt
from moccasin_mzn.api.race.race import _Race
from moccasin_mzn.api.race.racer import run_racer
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, JudgeError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.cli.main import run
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import known_at_once
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.processes.guarded import Ending
from moccasin_mzn.solvers.minizinc.run import SolverError
from moccasin_mzn.solvers.minizinc.solvers import LIBRARY, find_backend

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)


def random_layered(nodes, folder):
    """A random layered graph."""
    assert run(["generate", "layered", "-n", str(nodes), "--seed", "1", "-o", str(folder / "layered.json")]) == 0
    return read_graph(folder / "layered.json")


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """A graph on which local search finds a schedule at once at 80 %, and a proof takes minutes."""
    return random_layered(150, tmp_path_factory.mktemp("layered"))


@pytest.fixture(scope="module")
def start(layered):
    """A schedule of it."""
    return solve(layered, 0.8, search="only", until_gap=0.5).sequence


def interrupt_when(condition):
    """Interrupt the main thread, as Ctrl-C does, once something is true."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    if condition():
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def heard(monkeypatch):
    """What the racers of a race are given and tell: (name, request, events) of each run."""
    runs = []

    def listening(racer, request, on_event):
        events = []
        runs.append((racer.name, request, events))
        return run_racer(racer, request, lambda event: (events.append(event), on_event(event)))

    monkeypatch.setattr(race_module, "run_racer", listening)
    return runs


@pytest.fixture
def own_solver(tmp_path, monkeypatch):
    """Makes a shell script a solver that MiniZinc knows."""

    def make(name, script):
        program = tmp_path / f"{name}.sh"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        about = {
            "id": f"org.example.{name}", "name": name, "version": "1", "executable": str(program),
            "mznlib": str(LIBRARY), "tags": [],
            "stdFlags": ["-a"], "supportsFzn": True, "supportsMzn": False, "needsSolns2Out": True,
        }  # fmt: skip
        (tmp_path / f"{name}.msc").write_text(json.dumps(about))
        monkeypatch.setenv("MZN_SOLVER_PATH", str(tmp_path))
        return name

    return make


def named(result):
    return {racer.solver: racer for racer in result.racers}


@pytest.mark.full
def test_the_optimum_and_who_proved_it():
    result = solve(SKIP, 8, solver="cp-sat,gecode", search="off", time_limit=60)
    assert (result.status, result.duration, result.bound, result.solver) == (
        "optimal",
        14,
        14,
        "cp-sat,gecode",
    )
    racers = named(result)
    assert list(racers) == ["cp-sat", "gecode"]
    winner = result.reason.removeprefix("proven by ").partition(":")[0]  # the other one may have a proof as well
    assert racers[winner].ending == "proof"
    assert result.reason.startswith(f"proven by {winner}: no schedule in stages of the input order with at most 2 ")
    assert racers[winner].seconds > 0.1 and racers[winner].cpu_seconds > 0.1
    assert [note.partition(":")[0] for note in result.notes] == ["cp-sat", "gecode"]
    assert result.trace[-1].value == 14


@pytest.mark.full
def test_local_search_and_bounds_race_too():
    result = solve(SKIP, 8, solver="cp-sat,highs", time_limit=60, threads=2)
    assert (result.status, result.duration) == ("optimal", 14)
    assert [racer.solver for racer in result.racers] == ["search", "cp-sat", "highs"]
    assert result.racers[0].ending in ("proof", "stopped")


@pytest.mark.full
def test_a_proof_that_nothing_fits(tmp_path, command):
    case = draw_case(31)  # which is not seen at once
    assert least_duration(case, "staged") is None
    assert known_at_once(Instance.build(case.graph, case.budget, max_computations=case.max_computations)) is None
    write_graph(case.graph, tmp_path / "case.json")
    options = ("--budget", case.budget, "--max-computations", case.max_computations, "--search", "off")
    limits = ("--time-limit", 60, "--threads", 2, "--json")
    status, out, err = command("solve", tmp_path / "case.json", *options, "--solver", "cp-sat,gecode", *limits)
    told = json.loads(out)
    assert (status, told["status"], told["valid"], told["sequence"]) == (1, "infeasible", False, None)
    most = count_text(case.max_computations, "computation")
    what = f"at most {most} per node fits the budget {case.budget}; a stage ends with .* may fit"
    reason = rf"proven by (cp-sat|gecode): no schedule in stages of the input order with {what}"
    assert re.fullmatch(reason, told["reason"])
    assert err.endswith(Page.INFEASIBLE.after(f"no schedule: {told['reason']}") + "\n")
    provers = [racer["solver"] for racer in told["racers"] if racer["ending"] == "proof"]
    assert told["reason"].split()[2].rstrip(":") in provers


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["staged", "general", "checkmate-milp-strengthened"])
@pytest.mark.parametrize("seed", range(4))
def test_random_cases_agree_with_brute_force(seed, formulation):
    case = draw_case(seed)
    kind = formulation.partition("-")[0]
    most = None if kind == "checkmate" else case.max_computations
    result = solve(
        case.graph, case.budget, solver="cp-sat,highs,gecode", formulation=formulation, max_computations=most,
        time_limit=60, threads=2, order=case.graph.input_order(),
    )  # fmt: skip
    expected = least_duration(case, kind)
    assert (result.status, result.duration) == (("infeasible", None) if expected is None else ("optimal", expected))


@pytest.mark.slow
def test_five_solvers_of_two_minizincs():
    try:
        names = [find_backend(name).name for name in ("cp-sat", "highs", "scip", "gecode", "chuffed")]
    except InputError:
        pytest.skip("chuffed is not here")
    for seed in (11, 12):
        case = draw_case(seed, 8)
        expected = least_duration(case, "staged")
        options = {"max_computations": case.max_computations, "time_limit": 60, "search": "off"}
        raced = solve(case.graph, case.budget, solver=",".join(names), **options)
        assert raced.duration == expected
        assert raced.status == ("infeasible" if expected is None else "optimal")


@pytest.mark.full
def test_all_start_from_the_best_known(layered, start, heard):
    enough = threading.Thread(target=interrupt_when, args=(lambda: len([run for run in heard if run[2]]) == 3,))
    enough.start()
    result = solve(layered, 0.8, solver="gecode,cp-sat", threads=2, warm_start=start)
    enough.join()
    assert (result.interrupted, result.valid) == (True, True)
    assert {name for name, *_ in heard} == {"search", "gecode", "cp-sat"}
    known = sum(layered.durations[v] for v in start)
    for _, request, events in heard:
        assert request.start is not None
        assert events[0]["duration"] <= known and "sequence" in events[0]
    assert result.duration <= known


@pytest.mark.slow
def test_who_starts_later_starts_from_what_was_found_before(layered, heard):
    lines = []
    result = solve(layered, 0.8, solver="gecode,cp-sat", time_limit=40, threads=1, on_progress=lines.append)
    assert [name for name, *_ in heard[:3]] == ["search", "gecode", "cp-sat"]
    assert [request.start is not None for _, request, _ in heard[:3]] == [False, True, True]
    found = [event["duration"] for event in heard[0][2] if "sequence" in event]
    for _, _, events in heard[1:3]:
        assert events[0]["duration"] <= found[-1] and "sequence" in events[0]
    assert {progress.source for progress in lines} <= {"search", "gecode", "cp-sat"}
    assert "; found by " in result.reason and "within the time limit" in result.reason
    assert result.seconds.total < 40 + 30  # on a machine that does much else


def test_a_local_search_that_is_overtaken_begins_again_from_the_best():
    record = Board(Instance.build(SKIP, 8, max_computations=2), time.monotonic() - 60)
    contest = _Race(record, find_formulation("staged"), Options(solver="cp-sat,gecode", time_limit=100), threads=2)
    contest.line_up([find_backend("cp-sat"), find_backend("gecode")])
    search = contest.waiting.popleft()
    contest.running["search"] = search, threading.Thread()
    assert contest._slice(search, 95, 3) == 95  # it does not take turns
    search.seconds_given, search.value = 95, 15
    contest._end_if_overtaken()
    assert not search.stopping.is_set()
    cp_sat = contest.waiting[0]
    contest._take_event(cp_sat, {"type": "progress", "duration": 14, "bound": 9, "sequence": [0, 1, 2, 3, 0, 4]})
    contest._end_if_overtaken()
    assert search.stopping.is_set()
    contest._take(search, Attempt(None, (), None, Ending("stopped", -15, "", 59.0, 59.0, 10**8)))
    assert [racer.name for racer in contest.waiting] == ["search", "cp-sat", "gecode"]
    assert not search.stopping.is_set()
    assert contest.start == (0, 1, 2, 3, 0, 4)


def test_whose_bound_meets_the_best_schedule_has_proven_it_even_if_stopped_on_that():
    record = Board(Instance.build(SKIP, 8, max_computations=2), time.monotonic())
    options = Options(solver="cp-sat,gecode", search="off", time_limit=100)
    contest = _Race(record, find_formulation("staged"), options, threads=2)
    contest.line_up([find_backend("cp-sat"), find_backend("gecode")])
    cp_sat, gecode = contest.racers
    stopped = Attempt(None, (), None, Ending("stopped", -15, "", 1.0, 1.0, 10**8))
    contest._take_event(gecode, {"type": "progress", "duration": 14, "bound": 9, "sequence": [0, 1, 2, 3, 0, 4]})
    contest._take_event(cp_sat, {"type": "progress", "duration": None, "bound": 14})
    assert record.ended.is_set()
    contest.stopped = True
    for racer in contest.racers:
        racer.stopping.set()
        contest._take(racer, stopped)
    assert (cp_sat.ending, gecode.ending) == ("proof", "stopped")
    assert record.bound_source == "cp-sat"


def test_a_floating_point_bound_that_a_schedule_refutes_proves_nothing():
    record = Board(Instance.build(SKIP, 8, max_computations=2), time.monotonic())
    contest = _Race(record, find_formulation("staged"), Options(solver="cp-sat,highs", search="off"), threads=2)
    contest.line_up([find_backend("cp-sat"), find_backend("highs")])
    cp_sat, highs = contest.racers
    contest._take_event(cp_sat, {"type": "progress", "duration": 14, "bound": 9, "sequence": [0, 1, 2, 3, 0, 4]})
    contest._take_event(highs, {"type": "progress", "duration": None, "bound": 15})
    assert record.bound < 14
    highs.stopping.set()
    contest._take(highs, Attempt(None, (), None, Ending("stopped", -15, "", 1.0, 1.0, 10**8)))
    assert highs.ending == "stopped"


@pytest.mark.full
def test_a_warm_start_may_be_enough(layered, start, heard):
    options = {"solver": "cp-sat,highs", "search": "off", "time_limit": 60, "until_gap": 0.9}
    result = solve(layered, 0.8, **options, warm_start=start)
    assert (result.status, result.sequence) == ("feasible", start)
    assert result.reason == f"stopped at a gap of {result.gap_percent:.3f} %; found by the warm start"
    assert heard == []
    assert {racer.ending for racer in result.racers} == {"not started"}


def test_a_solver_that_fails_is_a_note(own_solver):
    broken = own_solver("broken", "echo no licence >&2; exit 1")
    result = solve(SKIP, 8, solver=f"{broken},gecode", search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 14)
    racer = named(result)[broken]
    assert (racer.status, racer.value) in {("failed", None), ("unknown", None)}


@pytest.mark.full
def test_a_failed_racer_is_reported_while_the_others_continue(own_solver, start, layered):
    broken = own_solver("broken", "echo no licence >&2; exit 1")
    result = solve(layered, 0.8, solver=broken, search="off", time_limit=60, warm_start=start)
    assert (result.status, result.sequence) == ("feasible", start)
    assert result.failure.startswith("broken: ") and result.as_dict()["failure"] == result.failure
    assert result.failure in result.reason and solve(SKIP, 8).as_dict()["failure"] is None


@pytest.mark.full
def test_a_race_in_which_all_solvers_fail_is_an_error(own_solver):
    names = [own_solver(name, "exit 1") for name in ("broken", "worse")]
    with pytest.raises(SolverError, match=r"^every solver failed: broken: broken: .*; worse: worse: "):
        solve(SKIP, 8, solver=",".join(names), search="off", time_limit=60)


@pytest.mark.full
def test_a_solver_that_a_schedule_refutes_is_named_with_who_found_it(own_solver):
    liar, sleeper = own_solver("liar", "echo =====UNSATISFIABLE====="), own_solver("sleeper", "sleep 60")
    message = "^liar: liar claims that there is no schedule, but the simulator accepts 14 .*, found by the warm start$"
    with pytest.raises(JudgeError, match=message):
        solve(SKIP, 8, solver=f"{liar},{sleeper}", search="off", threads=2, warm_start=(0, 1, 2, 3, 0, 4))


@pytest.mark.full
def test_a_solver_whose_objective_is_wrong_is_named(own_solver):
    program = f"{sys.executable} -m moccasin_mzn.solvers.cpsat"
    liar = own_solver("liar", f"{program} \"$@\" | sed -E 's/^(total_duration|goal) = .*/\\1 = 1;/'")
    sleeper = own_solver("sleeper", "sleep 60")
    with pytest.raises(JudgeError, match="^liar: liar reports 1, but the simulator finds a duration of [0-9]+$"):
        solve(SKIP, 8, solver=f"{liar},{sleeper}", search="off", threads=2)


@pytest.mark.slow
def test_racers_that_contradict_each_other_are_named(tmp_path, own_solver):
    found = tmp_path / "found"
    liar = own_solver("liar", f"while [ ! -e {found} ]; do sleep 0.1; done; echo =====UNSATISFIABLE=====")

    def listen(progress):
        if progress.value is not None:
            found.touch()

    message = r"^liar claims that there is no schedule, but the simulator accepts [0-9]+ of cp-sat$"
    with pytest.raises(JudgeError, match=message):
        solve(random_layered(60, tmp_path), 0.8, solver=f"cp-sat,{liar}", search="off", threads=2, on_progress=listen)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("cp-sat,", "expected a name, or several"),
        (",", "expected a name, or several"),
        ("cp-sat,gecode,cp-sat", "cp-sat is named twice"),
        ("cp-sat, cp-sat", "cp-sat is named twice"),
    ],
)
def test_solver_lists_reject_gaps_and_repetitions(solver, message):
    with pytest.raises(InputError, match=message):
        Options(solver=solver)


def test_no_race_without_a_model():
    with pytest.raises(InputError, match="there is no model for solvers to race on"):
        Options(solver="cp-sat,gecode", search="only")


def test_an_unknown_solver_is_refused_before_anything_starts(heard):
    with pytest.raises(InputError, match="unknown solver 'nobody'"):
        solve(SKIP, 8, solver="cp-sat,nobody", time_limit=60)
    assert heard == []


@pytest.mark.full
def test_solve_command_races(tmp_path, command):
    write_graph(SKIP, tmp_path / "skip.json")
    options = ("--budget", 8, "--solver", "gecode,cp-sat", "--time-limit", 60, "--threads", 2)
    status, out, err = command("solve", tmp_path / "skip.json", *options, "--check", "--json")
    assert status == 0, err
    told = json.loads(out)
    assert (told["status"], told["solver"], told["duration"]) == ("optimal", "gecode,cp-sat", 14)
    assert told["checks"] == ["general.mzc.mzn: CORRECT: duration 14, peak 8"]
    keys = {"solver", "status", "duration", "bound", "seconds", "cpu_seconds", "ending"}
    assert [set(racer) for racer in told["racers"]] == [keys] * 3
    assert Counter(racer["solver"] for racer in told["racers"]) == Counter(["search", "gecode", "cp-sat"])
    lines = [line for line in err.splitlines() if "incumbent" in line]
    assert lines and all(line.rsplit("  ", 1)[1] in ("search", "gecode", "cp-sat") for line in lines)


def test_strategies_do_not_race(tmp_path, command):
    write_graph(SKIP, tmp_path / "skip.json")
    options = ("--budget", 8, "--strategy", "keep-all", "--solver", "gecode,cp-sat")
    status, out, err = command("solve", tmp_path / "skip.json", *options)
    assert (status, out) == (2, "")
    assert err.startswith(
        "error: several solvers with a strategy: a strategy is in place of a model: leave out --solver or --strategy"
    )
