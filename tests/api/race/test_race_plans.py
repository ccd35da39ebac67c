"""Solvers race on plans for several memories as they do on schedules."""

from __future__ import annotations

import json

import pytest
from plan_graphs import paging_problem, u_graph

from moccasin_mzn.api.solve import solve_problem, solve_with_arenas
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.files.plans import read_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.search.board import INSTANT
from moccasin_mzn.search.options import SearchOptions

PAGING = ("--budget", 6, "--paging", "--page-out-time", "0.25", "--page-in-time", "0.25")
DEVICES = ("--device", "gpu=6", "--device", "cpu=30:3", "--copy-time", "0.25")
RACE = ("--threads", 2, "--time-limit", 60)


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.json"
    write_graph(u_graph(), path)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize(("memories", "solvers"), [(PAGING, "cp-sat,highs"), (DEVICES, "cp-sat,gecode")])
def test_the_best_plan_and_who_found_and_proved_it(command, graph, tmp_path, memories, solvers):
    alone = json.loads(command("solve", graph, *memories, "--threads", 2, "--time-limit", 60, "--json")[1])
    plan = tmp_path / "plan.json"
    options = ("--solver", solvers, "--search", "off", "--check", "--json", "--output", plan)
    status, out, err = command("solve", graph, *memories, *options, *RACE)
    assert status == 0, err
    told = json.loads(out)
    assert (told["status"], told["duration"], told["solver"]) == ("optimal", alone["duration"], solvers)
    assert [racer["solver"] for racer in told["racers"]] == solvers.split(",")
    found, proved = told["found_by"], told["proved_by"]
    assert found in solvers.split(",") and proved.partition(",")[0] in (*solvers.split(","), INSTANT)
    assert told["reason"].startswith(f"proven by {proved}: no schedule in stages of the input order with at most 2 ")
    assert told["reason"].endswith(f"; found by {found}")
    assert [note.partition(":")[0] for note in told["notes"]] == solvers.split(",")
    assert command("validate", graph, plan)[0] == 0


@pytest.mark.full
def test_our_own_search_races_too(command, graph):
    status, out, err = command("solve", graph, *PAGING, *RACE, "--solver", "cp-sat,highs", "--json-stream")
    assert status == 0, err
    *lines, last = map(json.loads, out.splitlines())
    assert [racer["solver"] for racer in last["racers"]] == ["search", "cp-sat", "highs"]
    assert {line["source"] for line in lines} <= {"search", "cp-sat", "highs"}
    assert [line["plan"] for line in lines if "plan" in line][-1] == last["plan"]
    assert (last["status"], lines[-1]["duration"], lines[-1]["bound"]) == ("optimal", last["duration"], last["bound"])


@pytest.mark.slow
def test_a_race_from_a_plan_with_arenas(graph):
    problem = paging_problem(u_graph(), 6)
    options = SearchOptions(solver="cp-sat,highs", search="off", threads=2, time_limit=60)
    start = solve_problem(problem, PagingFormulation(), SearchOptions(search="only", seed=0, time_limit=3)).plan
    result = solve_with_arenas(problem, PagingFormulation(), options, 1, warm_start=start)
    assert result.status == "optimal" and result.arenas.fit(problem.platform)
    assert judge_plan(problem.platform, result.plan).feasible
    assert result.value == problem.value(result.simulation) == result.bound


@pytest.mark.full
def test_no_plan_is_an_answer_of_a_race(command, graph):
    memories = ("--budget", 6, "--paging", "--page-out-time", "inf", "--max-computations", 1)
    status, out, err = command(
        "solve", graph, *memories, *RACE, "--solver", "cp-sat,gecode", "--search", "off", "--json"
    )
    told = json.loads(out)
    assert (status, told["status"], told["plan"], told["found_by"]) == (1, "infeasible", None, None)
    assert told["proved_by"] in ("cp-sat", "gecode")
    assert err.splitlines()[-1].startswith(
        f"no schedule: proven by {told['proved_by']}: no schedule in stages of the input order"
    )


def test_no_race_in_any_order():
    problem = paging_problem(u_graph(), 6, order="free")
    with pytest.raises(InputError, match="order free: 2 solvers cannot race on it, name one"):
        solve_problem(problem, PagingFormulation(), SearchOptions(solver="cp-sat,highs"))


@pytest.mark.full
def test_a_platform_in_a_file_is_that_of_the_plan(command, graph, tmp_path):
    plan = tmp_path / "plan.json"
    searching = ("--search", "off", "--threads", 2, "--time-limit", 60)
    assert command("solve", graph, *PAGING, *searching, "--output", plan)[0] == 0
    status, out, err = command("solve", graph, "--platform", plan, *searching, "--json")
    assert status == 0, err
    told, known = json.loads(out), json.loads(plan.read_text())
    assert (told["platform"], told["duration"], told["status"]) == (known["platform"], known["duration"], "optimal")
    assert read_plan(plan, u_graph()).platform.memories[0].budget == 6


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "expected an object, got []"),
        ('{"platform": {"memories": 3}}', "platform.memories: expected a list of objects"),
        ("{}", "platform.memories: expected a list of objects"),
    ],
)
def test_a_broken_platform_is_one_line(command, graph, tmp_path, text, complaint):
    path = tmp_path / "platform.json"
    path.write_text(text)
    status, out, err = command("solve", graph, "--platform", path)
    assert (status, out, err) == (2, "", f"error: {path}: {complaint}\n")
