"""Plans with the order chosen as well, against brute force; and what is proven of them."""

from __future__ import annotations

import json
from dataclasses import replace

import oracle
import pytest
from paging_cases import best, draw_problem
from plan_graphs import WRITTEN, crossed_graph, paging_problem, u_graph

from moccasin_mzn.api.solve import solve_problem, solve_with_arenas
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.platforms import CopyCosts, Device, device_platform
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Link, Memory, Platform, plan_of_sequence
from moccasin_mzn.search import runner as solve
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import SearchOptions

OPTIONS = SearchOptions(threads=1, seed=0, time_limit=60)
ONLY = replace(OPTIONS, search="only")


@pytest.fixture
def no_head_start(monkeypatch):
    """The model begins at once: what is found does not depend on it here."""
    monkeypatch.setattr(solve, "HEAD_START", 0.05)
    monkeypatch.setattr(solve, "LONGEST_WITHOUT_ANSWER", 0.2)


def free(problem: PlanProblem) -> PlanProblem:
    return replace(problem, instance=replace(problem.instance, free_order=True))


def check(seed: int) -> None:
    problem = draw_problem(seed, 5 if seed % 3 == 0 else 4)
    found = best(problem, "general")
    expected = found and found.totals[OBJECTIVES.index(problem.goal.objective)]
    result = solve_problem(free(problem), PagingFormulation(), OPTIONS)
    assert (result.status, result.value) == ("infeasible" if expected is None else "optimal", expected)
    if result.found:
        assert judge_plan(problem.platform, result.plan, problem.goal).feasible
        assert problem.out_of_scope(result.plan) is None
        assert result.bound == result.value
        assert result.as_dict()["order"] == "free"


@pytest.mark.parametrize("seed", [54, 45])
def test_small_graphs_are_proven_in_any_order(no_head_start, seed):
    """In stages of the input order the first has only worse plans; the second has none at all."""
    check(seed)


@pytest.mark.slow
def test_more_small_graphs_are_proven_in_any_order(no_head_start):
    for seed in range(40):
        check(seed)


def test_another_order_costs_nothing():
    """What no plan along the input order is: as short as every node computed once."""
    problem = paging_problem(crossed_graph(), 14)
    result = solve_problem(free(problem), PagingFormulation(), ONLY)
    assert (result.status, result.value) == ("optimal", 13)
    assert result.reason == "no schedule has less duration than every node computed once"
    assert problem.order_of(result.plan)[:3] in ((0, 2, 1), (1, 3, 0))
    alone = replace(ONLY, time_limit=0.5)
    staged = solve_problem(problem, PagingFormulation(), alone)
    assert staged.value is None or staged.value > 13


def test_without_a_proof_in_any_order_nothing_more_is_claimed():
    """44 is the best there is, and 42 the bound that is known of any order."""
    problem, options = free(paging_problem(u_graph(), 6)), replace(ONLY, time_limit=1)
    result = solve_problem(problem, PagingFormulation(), options, warm_start=WRITTEN)
    assert (result.status, result.value, result.bound) == ("feasible", 44, 42)
    assert result.notes[-1].startswith("searched along ")
    assert result.formulation.staged and result.problem.instance.free_order


def test_an_interrupt_ends_it_with_the_best_plan():
    told = []

    def listen(progress) -> None:
        told.append(progress)
        if len(told) == 1:
            raise KeyboardInterrupt

    problem = free(paging_problem(u_graph(), 6))
    result = solve_with_arenas(problem, PagingFormulation(), ONLY, 1, Call(listen))
    assert result.interrupted and result.found and result.arenas is not None
    assert result.status == "feasible" and result.reason.startswith("no proof was found before the user stopped")


def test_devices_in_any_order(no_head_start):
    """The second device computes nothing, and its memory is too small for a large output."""
    graph = crossed_graph()
    devices = {"gpu": Device(Budget.of(14)), "ram": Device(Budget.of(9), computes=False)}
    platform = device_platform(graph, devices, CopyCosts(), 22)
    problem = PlanProblem(Instance.build(graph, 14, order="free"), platform)
    result = solve_problem(problem, MachineFormulation(), ONLY)
    assert (result.status, result.value) == ("optimal", 13)
    assert judge_plan(platform, result.plan).feasible


def test_the_general_formulation_is_solved_as_it_is():
    result = solve_problem(
        free(paging_problem(crossed_graph(), 14)), PagingFormulation(staged=False), replace(OPTIONS, search="off")
    )
    assert (result.status, result.value, result.formulation.staged) == ("optimal", 13, False)


def test_what_is_impossible_is_known_at_once():
    result = solve_problem(free(paging_problem(u_graph(), 5)), PagingFormulation(), OPTIONS)
    assert (result.status, result.plan) == ("infeasible", None)
    assert result.reason.startswith("node n")


def test_a_start_in_any_order():
    problem = free(paging_problem(crossed_graph(), 14))
    start = plan_of_sequence((1, 3, 0, 2, 4))
    result = solve_problem(problem, PagingFormulation(), OPTIONS, warm_start=start)
    assert (result.plan, result.found_by, result.status) == (start, "the warm start", "optimal")
    with pytest.raises(InputError, match="warm start: node z is never computed"):
        solve_problem(problem, PagingFormulation(), OPTIONS, warm_start=start[:-1])
    again = (*start, Action(0), Action(0))
    with pytest.raises(InputError, match="warm start: node A has 3 retention intervals in local, at most 2 allowed"):
        solve_problem(problem, PagingFormulation(), OPTIONS, warm_start=again)


def test_a_model_alone_has_no_order_to_search_for():
    with pytest.raises(InputError, match="order free: search off leaves only a model"):
        solve_problem(
            free(paging_problem(u_graph(), 6)), PagingFormulation(), replace(OPTIONS, search="off")
        )  # fmt: skip


def test_a_first_memory_that_cannot_compute_everything():
    """There is no schedule of one memory to take the order from."""
    graph = crossed_graph()
    durations = [None, *graph.durations[1:]], [*graph.durations[:4], None]
    memories = [Memory(name, 22, of) for name, of in zip("pq", durations, strict=True)]
    links = tuple(Link(a, 1 - a, (0,) * 5, (0,) * 5) for a in range(2))
    problem = PlanProblem(Instance.build(graph, 22, order="free"), Platform(graph, tuple(memories), links))
    result = solve_problem(problem, MachineFormulation(), replace(ONLY, time_limit=5))
    assert result.found and judge_plan(problem.platform, result.plan).feasible


@pytest.mark.few(1)
@pytest.mark.parametrize("slow", [(), (Memory("slow", None),)])
def test_one_memory_is_proven_alone(slow):
    """Flow covers say of any order what no plan of one memory beats; what nothing comes back from is of no use."""
    graph = u_graph()
    links = (Link(0, 1, graph.sizes, graph.sizes),) if slow else ()
    platform = Platform(graph, (Memory("local", 6, graph.durations), *slow), links)
    problem = PlanProblem(Instance.build(graph, 6, order="free"), platform)
    result = solve_problem(problem, MachineFormulation(), replace(ONLY, time_limit=5))
    assert (result.status, result.value) == ("optimal", oracle.best_free_order(graph, 6, 2))


@pytest.fixture
def crossed(tmp_path):
    path = tmp_path / "crossed.json"
    write_graph(crossed_graph(), path)
    return path


PAGING = ("--paging", "--page-out-time", "0.25", "--threads", "1", "--search", "only", "--time-limit", "60")


@pytest.mark.full
def test_solve_command_pages_in_a_free_order(command, crossed, tmp_path):
    plan = tmp_path / "plan.json"
    options = ("--order", "free", "--budget", 14, "--check", "--json-stream", "--output", plan)
    status, out, err = command("solve", crossed, *PAGING, *options)
    assert status == 0, err
    *lines, last = map(json.loads, out.splitlines())
    assert lines and all(line["type"] == "progress" for line in lines)
    assert (lines[-1]["duration"], lines[-1]["bound"], lines[-1]["peaks"]["local"]) == (13, 13, 14)
    assert [action["compute"] for action in lines[-1]["plan"]] == [step["compute"] for step in last["plan"]]
    assert (last["type"], last["status"], last["order"], last["form"]) == ("result", "optimal", "free", "staged")
    assert last["checks"][0].startswith("paging.mzc.mzn: CORRECT: duration 13")
    assert {**json.loads(plan.read_text()), "type": "result"} == last
    assert command("validate", crossed, plan)[0] == 0
    status, out, _ = command("solve", crossed, *PAGING, "--order", "free", "--budget", 14, "--warm-start", plan)
    assert status == 0 and "optimal" in out


def test_no_plan_in_any_order_is_an_answer(command, crossed):
    status, out, err = command("solve", crossed, *PAGING, "--order", "free", "--budget", 11, "--addresses", "--json")
    assert status == 1
    assert json.loads(out)["status"] == "infeasible" and "arenas" not in json.loads(out)
    assert err.splitlines()[-1].startswith("no schedule: node a alone needs 12")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--alignment", "4"], "--alignment goes with --addresses"),
        (["--json", "--json-stream"], "--json and --json-stream: give one of them"),
        (["--addresses", "--buffers", "x.csv"], "--buffers is for one memory, it does not go with --paging"),
        (["--order", "free", "--search", "off"], "order free: search off leaves only a model, and that is the "),
    ],
)
def test_free_plans_refuse_conflicting_options(command, crossed, options, complaint):
    arguments = ("--budget", 14, "--paging", "--page-out-time", "1", *options)
    status, out, err = command("solve", crossed, *arguments)
    assert status == 2 and err.startswith(f"error: {complaint}") and err.count("\n") == 1
    told = {"type": "error", "kind": "input", "message": err.removeprefix("error: ").strip()}
    assert out == (json.dumps(told) + "\n" if "--json" in options else "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--device", "gpuu=6"], "device gpuu: the graph has durations of gpu, cpu; expected one of them, or a slow"),
        (["--device", "gpu=6", "--device", "cpuu=6"], "device cpuu: the graph has durations of gpu, cpu; expected"),
        (
            ["--device", "gpu=6", "--strategy", "chen"],
            "several devices with a strategy: its rule knows one memory: leave out --device or --strategy",
        ),
    ],
)
def test_devices_refuse_conflicting_options(command, tmp_path, options, complaint):
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(["a"], [1], [2], [], device_durations={"gpu": [1], "cpu": [3]}), path)
    status, out, err = command("solve", path, *options)
    assert status == 2 and err.startswith(f"error: {complaint}") and err.count("\n") == 1
    told = {"type": "error", "kind": "input", "message": err.removeprefix("error: ").strip()}
    assert out == (json.dumps(told) + "\n" if "--json" in options else "")


def test_a_slowness_makes_any_name_a_device(command, tmp_path):
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(["a"], [1], [2], [], device_durations={"gpu": [1], "cpu": [3]}), path)
    status, out, err = command("solve", path, "--device", "npu=6:5", "--search", "only", "--json", "--threads", 1)
    assert status == 0, err
    assert (json.loads(out)["duration"], list(json.loads(out)["peaks"])) == (5, ["npu"])
